#!/bin/bash
#SBATCH --time=36:00:00 --nodes=2 --gres=gpu:8 --mem=0 --exclusive --ntasks-per-node=8
#SBATCH --output=ds-%j.out
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_NODELIST" | head -n1)
export MASTER_PORT=$((15000 + SLURM_JOB_ID % 15000))
srun bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS
  exec python pretrain.py --deepspeed --deepspeed_config ds.json
'

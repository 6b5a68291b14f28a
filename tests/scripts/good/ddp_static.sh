#!/usr/bin/env bash
#SBATCH -J static -N 2 -t 2-00:00:00 --mem=200G
#SBATCH --gres=gpu:a100:4 --ntasks-per-node=1 -c 32
#SBATCH -o %x.%j.log --open-mode=append --requeue

nodes=( $(scontrol show hostnames "$SLURM_JOB_NODELIST") )
export MASTER_ADDR=${nodes[0]}
export MASTER_PORT=$(expr 10000 + $(echo -n "$SLURM_JOB_ID" | tail -c 4))

srun -c 32 bash -c '
  torchrun --nnodes=2 --nproc-per-node=4 --node-rank="$SLURM_NODEID" \
    --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" train.py
'

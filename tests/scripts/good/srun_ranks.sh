#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --mem=128G
#SBATCH --time=12:00:00
#SBATCH --signal=USR1@120
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((12000 + SLURM_JOB_ID % 20000))
export WORLD_SIZE=$SLURM_NTASKS

# ranks come from SLURM_PROCID in the program
srun --kill-on-bad-exit=1 python -u train.py --devices 4 --num_nodes 2

#!/bin/bash
#SBATCH --job-name=imagenet
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=10
#SBATCH --time=20:00:00
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --requeue

export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))
export WORLD_SIZE=$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))
master_addr=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR=$master_addr
export NCCL_DEBUG=INFO

srun --kill-on-bad-exit=1 python -u main.py --batch-size 256 /data/imagenet

#!/bin/bash
#SBATCH -N 4
#SBATCH -n 16
#SBATCH --gpus-per-node=4
#SBATCH -t 06:00:00
#SBATCH --mem=240G
#SBATCH -D /scratch/jax
export XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true
srun -n 16 python train.py --mesh 4,4

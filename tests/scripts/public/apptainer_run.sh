#!/bin/bash
#SBATCH --gpus-per-node=a100:2
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=100G
#SBATCH --time=600
srun apptainer exec --nv $HOME/images/pytorch.sif torchrun --nproc_per_node=2 train.py

#!/bin/bash
#SBATCH --gpus=2
#SBATCH --cpus-per-gpu=6
#SBATCH --mem-per-gpu=40G
#SBATCH --time=08:00:00
#SBATCH --output=%x.%j
module purge
module load python/3.11
source $HOME/env/bin/activate
nvidia-smi
torchrun --standalone --nproc_per_node=2 finetune.py --bf16

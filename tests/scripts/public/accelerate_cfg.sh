#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=4
#SBATCH --mem=200G
#SBATCH --time=10:00:00
accelerate launch --config_file acc.yaml --num_processes 4 train_lora.py --rank 16
echo "END TIME: $(date)"

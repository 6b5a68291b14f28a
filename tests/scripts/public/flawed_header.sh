#!/bin/bash
#SBATCH --job-name=exp#3 --time=10:00
# SBATCH --gres=gpu:8
#SBATCH --gres=gpu:4
#SBATCH --output=$HOME/logs/%j.out
 #SBATCH --mem=64G

cd $SLURM_SUBMIT_DIR
#SBATCH --partition=gpu
python train.py

#!/bin/sh
#SBATCH --ntasks=2
#SBATCH --nodes=1
#SBATCH --gpus=2
#SBATCH --mem=16G
#SBATCH --time=60
srun --exact -n1 --gpus=1 python a.py &
srun --exact -n1 --gpus=1 python b.py &
wait

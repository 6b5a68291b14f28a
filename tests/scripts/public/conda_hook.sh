#!/bin/bash
#SBATCH --partition=main
#SBATCH --gres=gpu:rtx8000:1,tmpdisk:100
#SBATCH --constraint="ampere&nvlink"
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=8G
#SBATCH --time=24:00:00
#SBATCH --dependency=afterok:123
#SBATCH --nice=100
export PYTHONPATH=/home/me/src
export HYDRA_FULL_ERROR=1
eval "$(conda shell.bash hook)"
conda activate myenv
python -m experiments.run +exp=base seed=3

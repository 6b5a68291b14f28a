#!/usr/bin/env bash
#SBATCH --array=1-20%4
#SBATCH --output=out/%A-%a.txt
#SBATCH --gres=gpu:1
#SBATCH --mem=20GB
#SBATCH --time=0-02:00
#SBATCH --exclude=node[07-09]
args=$(sed -n "${SLURM_ARRAY_TASK_ID}p" experiments.txt)
eval python run.py $args

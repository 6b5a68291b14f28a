#!/bin/bash
#SBATCH --array=0-99%8
#SBATCH --gpus=1 --cpus-per-task=4 --mem=16G --time=90
#SBATCH --output=sweep-%A_%a.out
set -euo pipefail
lr=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" rates.txt)
case $lr in
  "" | \#*) echo "no rate for $SLURM_ARRAY_TASK_ID" >&2; exit 2 ;;
  *) python train.py --lr "$lr" --seed "$SLURM_ARRAY_TASK_ID" ;;
esac
echo "point $SLURM_ARRAY_TASK_ID is done"

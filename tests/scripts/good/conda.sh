#!/bin/bash
#SBATCH --partition=gpu
#SBATCH --gres=gpu:1
#SBATCH --mem=32000
#SBATCH --time=12:30:00
#SBATCH --mail-type=END,FAIL
#SBATCH --comment="fold #3; lr 1e-4"
. "$HOME/miniforge3/etc/profile.d/conda.sh"
conda activate bio
set -u
cp -r /data/db "$TMPDIR/db" || exit 1
python fold.py --db "$TMPDIR/db" --out results/

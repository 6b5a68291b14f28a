#!/bin/bash
#SBATCH -J bert
#SBATCH -p gpu
#SBATCH -A lab042
#SBATCH --gres=gpu:v100:1
#SBATCH -c 8
#SBATCH --mem=32G
#SBATCH -t 1-12
#SBATCH -o logs/%x_%j.log
#SBATCH -e logs/%x_%j.err
#SBATCH --mail-type=ALL
#SBATCH --mail-user=someone@example.org

export TOKENIZERS_PARALLELISM=false
export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567
module load cuda/12.1 gcc/12
source /home/someone/venvs/bert/bin/activate

python train_bert.py --lr 3e-5 --epochs 10 --out "runs/first try"

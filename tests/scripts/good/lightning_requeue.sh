#!/bin/bash -l
#SBATCH --job-name="vit large"
#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8
#SBATCH --cpus-per-gpu=12
#SBATCH --mem-per-gpu=100G
#SBATCH --time=0-08:00:00
#SBATCH --signal=SIGUSR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
module purge
module load anaconda/2024.02 cuda/12.4
conda activate lightning
export NCCL_DEBUG=WARN PYTHONFAULTHANDLER=1
srun python fit.py --trainer.num_nodes=1 --trainer.devices=8

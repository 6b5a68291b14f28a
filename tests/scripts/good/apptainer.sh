#!/bin/bash
#SBATCH --gpus-per-node=2
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=4:00:00
#SBATCH --chdir=/
image=$HOME/images/torch.sif
if [ ! -r "$image" ]; then
  echo "no image at $image" >&2
  exit 1
fi
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" apptainer exec --nv --bind /data:/data:ro "$image" \
  torchrun --standalone --nproc-per-node=2 /opt/train.py

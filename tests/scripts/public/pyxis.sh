#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=4:00:00
#SBATCH --exclusive
#SBATCH --job-name=nemo.run
srun --container-image=nvcr.io/nvidia/nemo:24.07 --container-mounts=/lustre/data:/data,/lustre/out:/out python /opt/nemo/run.py --steps 1000

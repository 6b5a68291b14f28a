#!/bin/bash -l
#SBATCH --job-name=resilient
#SBATCH --gres=gpu:1
#SBATCH --time=00:30:00
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
handler() {
  echo "requeue at $(date)"
  scontrol requeue $SLURM_JOB_ID
}
trap handler SIGUSR1
srun python train.py &
wait

#!/bin/bash
#SBATCH --job-name=long
#SBATCH --gpus-per-node=1
#SBATCH --mem=48G
#SBATCH --time=1-00:00:00
#SBATCH --signal=B:USR1@600
#SBATCH --requeue
#SBATCH --open-mode=append
save_and_requeue() {
  kill -USR1 "$pid"
  wait "$pid"
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
}
trap save_and_requeue USR1
python train.py --resume latest.pt &
pid=$!
wait "$pid"

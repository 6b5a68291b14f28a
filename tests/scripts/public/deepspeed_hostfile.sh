#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
#SBATCH --mem=500G
#SBATCH --time=12:00:00
scontrol show hostnames $SLURM_JOB_NODELIST | while read host; do
  echo "$host slots=8" >> hostfile
done
deepspeed --hostfile hostfile train.py --deepspeed_config ds.json

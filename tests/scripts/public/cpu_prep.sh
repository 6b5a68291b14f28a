#!/bin/bash
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=32
#SBATCH --mem=120G
#SBATCH --time=2:00:00
#SBATCH --no-requeue
#SBATCH --begin=now+1hour
#SBATCH --comment="prep, part 1"
#SBATCH --export=ALL
python3 prepare.py --workers 32 --src /data/raw --dst /data/ready

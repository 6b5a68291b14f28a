#!/bin/bash
#SBATCH --job-name=sft
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --mem=900G
#SBATCH --time=10:00:00
set -e -o pipefail
source ~/venvs/llm/bin/activate
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
PORT=$((21000 + SLURM_JOB_ID % 9000))
LAUNCH="accelerate launch --num_processes 16 --num_machines 2 --main_process_ip $HEAD --main_process_port $PORT"
srun --export=ALL bash -c "$LAUNCH --machine_rank \$SLURM_PROCID train.py" 2>&1 | tee "sft-$SLURM_JOB_ID.log"

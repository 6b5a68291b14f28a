#!/bin/bash
#SBATCH --job-name=ray
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --mem=240G
#SBATCH --time=06:00:00
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
port=$((18000 + SLURM_JOB_ID % 10000))
srun --nodes=1 --ntasks=1 -w "$head" -c 32 --overlap ray start --head --port="$port" --block &
sleep 20
for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
  srun --nodes=1 --ntasks=1 -w "${nodes[$i]}" -c 32 --overlap ray start --address="$head:$port" --block &
  sleep 5
done
python -u tune.py --address "$head:$port"

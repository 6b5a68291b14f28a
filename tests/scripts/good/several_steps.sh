#!/bin/bash
#SBATCH --nodes=1 --ntasks=4 --cpus-per-task=4 --gpus-per-node=4 --mem=128G
#SBATCH --time=03:00:00
export SRUN_CPUS_PER_TASK=4
pids=()
for seed in 0 1 2 3; do
  srun --exact --ntasks=1 --gpus=1 --mem=30G --output="seed-$seed.log" python train.py --seed "$seed" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do
  wait "$pid" || code=$?
done
exit "$code"

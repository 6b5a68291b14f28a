#!/bin/bash
#SBATCH --gpus-per-node=h100:4
#SBATCH --mem=400G
#SBATCH --time=2:00:00
set -eo pipefail
export HF_TOKEN=$(<"$HOME/.config/hf_token")
export VLLM_PORT=$((24000 + SLURM_JOB_ID % 4000))
vllm serve model --tensor-parallel-size 4 --port "$VLLM_PORT" >serve.log 2>&1 &
server=$!
until curl -sf "http://127.0.0.1:$VLLM_PORT/health" >/dev/null; do
  kill -0 "$server" || exit 1
  sleep 5
done
python evaluate.py --url "http://127.0.0.1:$VLLM_PORT/v1"
kill "$server"

#!/bin/bash
# Made by slurmgpu VERSION from stdin, resolved spec DIGEST
#SBATCH --job-name=llama-sft
#SBATCH --account=03303560
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=96
#SBATCH --gres=gpu:h100:8
#SBATCH --mem=960G
#SBATCH --time=1-00:00:00
#SBATCH --chdir=/home/alice/exp
#SBATCH --output=/home/alice/exp/logs/%x-%j.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

set -eo pipefail
fail() { echo "slurmgpu: $*" >&2; exit 1; }
unset ${!PET_@} ${!PMI_@} ${!PMIX_@} ${!SLURM_CPU_BIND@} ${!SLURM_MEM_BIND@} SLURM_GPU_BIND \
  SLURM_GPUS_PER_TASK SLURM_NTASKS_PER_GPU SLURM_TRES_PER_TASK SRUN_CPUS_PER_TASK
export SLURM_EXPORT_ENV=ALL PATH

[ -n "${WANDB_API_KEY+set}" ] || fail "secret WANDB_API_KEY is not in the environment: export it before sbatch"
export WANDB_API_KEY

export NCCL_DEBUG=WARN
export GREETING='it'"'"'s'

[ "${SLURM_JOB_NUM_NODES:-0}" -eq 2 ] || fail "got ${SLURM_JOB_NUM_NODES:-no} nodes, but the spec says 2"
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || fail "scontrol cannot expand $SLURM_JOB_NODELIST"
export MASTER_ADDR=${hosts%%$'\n'*} MASTER_PORT=$((20100 + SLURM_JOB_ID % 3900))
export SLURMGPU_TORCHRUN='
import sys
try:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main
except ImportError as error:
    sys.exit(f"slurmgpu: {error}: name the environment that has PyTorch in the spec (venv, conda, uv, modules)")
try:
    main()
except ChildFailedError as error:
    print(error, file=sys.stderr)
    # the others die of SIGTERM or, with 1, of the broken connection, in the same second
    order = lambda failure: (failure.exitcode == -15, failure.timestamp, failure.exitcode == 1)
    code = min(error.failures.values(), key=order).exitcode
    sys.exit(code if code > 0 else 128 - code)
'
export OMP_NUM_THREADS=12

exec srun --nodes=2 --ntasks-per-node=1 --cpus-per-task=96 --kill-on-bad-exit=1 --wait=60 \
  bash -c '
  fail() { echo "slurmgpu: $SLURMD_NODENAME: $*" >&2; exit 1; }
  [ "${SLURM_GPUS_ON_NODE:-0}" -eq 8 ] || fail "has ${SLURM_GPUS_ON_NODE:-0} GPUs for this job, but the spec says 8"
  torchrun() { exec python3 -c "$SLURMGPU_TORCHRUN" "$@"; }
  if [ "$SLURMD_NODENAME" = "$MASTER_ADDR" ]; then is_host=1; else is_host=0; fi
  torchrun --nnodes=2 --nproc-per-node=8 --max-restarts=0 \
    --rdzv-backend=c10d --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf="is_host=$is_host" \
    --rdzv-id="$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}" --local-addr="$SLURMD_NODENAME" "$@"
  ' slurmgpu train.py --config sft.yaml --lr 3e-4

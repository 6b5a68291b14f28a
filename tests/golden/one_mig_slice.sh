#!/bin/bash
# Made by slurmgpu VERSION from stdin, resolved spec DIGEST
#SBATCH --job-name=stdin
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1g.10gb:1
#SBATCH --constraint=a100|h100
#SBATCH --mem=1536M
#SBATCH --time=0-01:30:00
#SBATCH --array=0-3%2
#SBATCH --chdir=/home/alice/exp
#SBATCH --output=/home/alice/exp/%x-%A_%a.out
#SBATCH --open-mode=append
#SBATCH --no-requeue

set -eo pipefail
fail() { echo "slurmgpu: $*" >&2; exit 1; }
unset ${!PET_@} ${!PMI_@} ${!PMIX_@} ${!SLURM_CPU_BIND@} ${!SLURM_MEM_BIND@} SLURM_GPU_BIND \
  SLURM_GPUS_PER_TASK SLURM_NTASKS_PER_GPU SLURM_TRES_PER_TASK SRUN_CPUS_PER_TASK
export SLURM_EXPORT_ENV=ALL PATH

[ "${SLURM_JOB_NUM_NODES:-0}" -eq 1 ] || fail "got ${SLURM_JOB_NUM_NODES:-no} nodes, but the spec says 1"
export OMP_NUM_THREADS=2

exec srun --nodes=1 --ntasks-per-node=1 --cpus-per-task=2 --kill-on-bad-exit=1 --wait=0 \
  bash -c '
  fail() { echo "slurmgpu: $SLURMD_NODENAME: $*" >&2; exit 1; }
  [ "${SLURM_GPUS_ON_NODE:-0}" -eq 1 ] || fail "has ${SLURM_GPUS_ON_NODE:-0} GPUs for this job, but the spec says 1"
  exec "$@"
  ' slurmgpu python3 -u eval.py --prompt 'say "hi"' 'two words'

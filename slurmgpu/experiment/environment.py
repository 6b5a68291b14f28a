"""The environment that a submission hands on to its job: the user's, without what belongs to Slurm.

SBATCH_* variables override the script's header. From inside a job SLURM_* ones reach the new job's steps: an outer
SLURM_CPU_BIND pins all of its ranks to the outer job's cores, without a word.
"""

from collections.abc import Mapping

_PREFIXES = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PMI_", "PMIX_")
# these say where the cluster is and who asks, or steer nothing
_KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_TIME_FORMAT", "SLURM_UNIFIED_ROOT"})
# what Slurm, a launcher or a script of ours has set for the processes of an outer job
_OF_A_JOB = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "OMP_NUM_THREADS",
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR",
        "MASTER_PORT", "SLURMGPU_TORCHRUN", "SLURMGPU_POINT",
    }
)  # fmt: skip
_PREFIXES_OF_A_JOB = ("TORCHELASTIC_", "SWEEP_")


def inherited(environ: Mapping[str, str]) -> list[str]:
    """The variables by which an outer job or a login file steers sbatch, srun and launchers."""
    return [name for name in environ if name.startswith(_PREFIXES) and name not in _KEPT]


def for_submission(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment for sbatch, and notes on what a person may miss of it."""
    job = environ.get("SLURM_JOB_ID")
    gone = set(inherited(environ))
    if job:
        gone.update(name for name in environ if name in _OF_A_JOB or name.startswith(_PREFIXES_OF_A_JOB))
    kept = {name: value for name, value in environ.items() if name not in gone}
    notes = []
    if job:
        notes.append(f"submitted from inside job {job}: its SLURM_* variables are not handed on")
    inputs = sorted(name for name in environ if name.startswith("SBATCH_"))
    if inputs:
        notes.append(f"not handed on to sbatch, the spec decides: {', '.join(inputs)}")
    return kept, notes

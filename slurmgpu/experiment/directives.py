"""The `#SBATCH` lines of a job, in order. Nothing else knows how options are spelled for a site."""

from typing import NamedTuple

from slurmgpu.experiment.allocation import Allocation, Refuse
from slurmgpu.experiment.checkpoint import Checkpoint
from slurmgpu.experiment.header import quote
from slurmgpu.experiment.paths import Paths
from slurmgpu.experiment.profile import Profile
from slurmgpu.experiment.spec import Spec
from slurmgpu.slurmtext import format_mem


class Directive(NamedTuple):
    """One option, its value (None for a bare flag), the spec key it came from, and how it was computed."""

    option: str
    value: str | None
    key: str
    why: str = ""

    @property
    def argument(self) -> str:
        """The argument as Slurm is to read it."""
        return f"--{self.option}" if self.value is None else f"--{self.option}={self.value}"

    @property
    def text(self) -> str:
        """The argument as written in the script."""
        return f"--{self.option}" if self.value is None else f"--{self.option}={quote(self.value)}"


def directives(spec: Spec, job: Allocation, profile: Profile, paths: Paths, refuse: Refuse) -> list[Directive]:
    """Every directive of the job, the ones people look for first."""
    lines = [Directive("job-name", paths.name, "name", "" if spec.name else "the spec's file name")]
    for option in ("account", "qos", "partition", "reservation"):
        if option in spec.options:
            lines.append(Directive(option, spec.options[option], option))
    lines.append(Directive("nodes", str(job.nodes), "nodes"))
    lines.append(Directive("ntasks-per-node", str(job.tasks_per_node), "ntasks_per_node", _tasks_why(job)))
    if job.cpus_per_task is not None:
        lines.append(_sized("cpus-per-task", str(job.cpus_per_task), ("cpus_per_task", "cpus_per_gpu"), spec, job))
    lines.extend(_gpu_lines(spec, job, profile, refuse))
    if job.mem_mib is not None:
        option = "mem-per-cpu" if job.mem_per_cpu else "mem"
        lines.append(_sized(option, format_mem(job.mem_mib), ("mem", "mem_per_gpu", "mem_per_cpu"), spec, job))
    if spec.time is not None:
        lines.append(Directive("time", spec.time, "time"))
    if spec.array is not None:
        lines.append(Directive("array", spec.array, "sweep" if spec.sweep else "array"))
    if spec.exclusive:
        lines.append(Directive("exclusive", spec.exclusive if isinstance(spec.exclusive, str) else None, "exclusive"))
    if spec.nodelist is not None:
        lines.append(Directive("nodelist", spec.nodelist, "nodelist"))
    written = {line.option for line in lines}
    for option, value in spec.options.items():
        if option not in written:
            lines.append(Directive(option, value, option.replace("-", "_")))
    lines.append(Directive("chdir", paths.chdir, "chdir", "" if spec.chdir else "the folder of the render"))
    lines.append(Directive("output", paths.output, "output"))
    if paths.error is not None:
        lines.append(Directive("error", paths.error, "error"))
    # a requeued job keeps its id and would cut its own log short (JobFileAppend=0)
    lines.append(
        Directive(
            "open-mode",
            spec.open_mode,
            "open_mode",
            "" if spec.open_mode != "append" else "keep the log over a requeue",
        )
    )
    lines.append(_requeue(spec))
    if spec.checkpoint:
        lines.append(_warning(spec.checkpoint))
    lines.extend(Directive(option, value, f"sbatch.{option}") for option, value in spec.sbatch.items())
    return lines


def _tasks_why(job: Allocation) -> str:
    if job.launcher == "torchrun":
        return "torchrun starts the ranks of a node from one task"
    if job.launcher == "srun" and job.gpus_per_node:
        return "one rank a GPU"
    return ""


def _sized(option: str, value: str, keys: tuple[str, ...], spec: Spec, job: Allocation) -> Directive:
    key = next((key for key in keys if getattr(spec, key) is not None), keys[0])
    return Directive(option, value, key, job.why.get(keys[0], ""))


def _warning(block: Checkpoint) -> Directive:
    value = f"B:{block.signal}@{block.lead_time}"
    return Directive("signal", value, "checkpoint.lead_time", "B: to this script, which tells every rank")


def _requeue(spec: Spec) -> Directive:
    if spec.checkpoint and not spec.requeue:
        return Directive("requeue", None, "checkpoint", "a run that resumes may be started again")
    if spec.requeue:
        return Directive("requeue", spec.requeue if isinstance(spec.requeue, str) else None, "requeue")
    return Directive("no-requeue", None, "requeue", "a run that cannot resume would start from the top")


def _gpu_lines(spec: Spec, job: Allocation, profile: Profile, refuse: Refuse) -> list[Directive]:
    """GPUs in the site's dialect, with other gres and the constraint, which dialects share."""
    count, kind, dialect = job.gpus_per_node, spec.gpu_type, profile.gpu_dialect
    typed = f"{kind}:{count}" if kind else str(count)
    gres = [spec.gres] if spec.gres else []
    constraint = spec.constraint
    lines = []
    why = job.why["gpus_per_node"]
    key = "gpus" if spec.gpus is not None else "gpus_per_node"
    if not count:
        pass
    elif dialect == "gres":
        gres.insert(0, f"gpu:{typed}")
    elif dialect == "gpus-per-node":
        lines.append(Directive("gpus-per-node", typed, key, why))
    elif dialect == "gpus":
        if job.nodes > 1:
            refuse(key, f"profile {profile.name} asks for GPUs per job (--gpus), which Slurm splits unevenly "
                   "over several nodes; ask for one node")  # fmt: skip
        lines.append(Directive("gpus", typed, key, why))
    else:
        gres.insert(0, f"gpu:{count}")
        constraint = _with_type(constraint, kind, refuse)
    if gres:
        lines.append(Directive("gres", ",".join(gres), key if count else "gres", why))
    if constraint:
        lines.append(Directive("constraint", constraint, "constraint" if spec.constraint else "gpu_type"))
    return lines


def _with_type(constraint: str | None, kind: str | None, refuse: Refuse) -> str | None:
    """The constraint of a site that names GPU models as node features."""
    if kind is None or constraint is None:
        return kind or constraint
    if set(constraint) & set("|[]()*"):
        refuse("constraint", f"cannot be joined with the GPU type {kind}, a feature here; write it as one text")
    return f"{kind}&{constraint}"

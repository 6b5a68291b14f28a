"""The object that the script template sees as `job`. Its fields are the public interface of `--template`."""

from collections.abc import Callable
from typing import NamedTuple

from slurmgpu.experiment.arrays import Part
from slurmgpu.experiment.contained import Contained
from slurmgpu.experiment.directives import Directive
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.restarts import Restarts
from slurmgpu.experiment.shell import comment

Origin = Callable[[str], str]


class Lines(NamedTuple):
    """Shell lines as written, and the key that holds them."""

    key: str
    text: str


class Context(Fields):
    """A job as the template sees it: numbers and texts that are settled, nothing left to compute.

    version            slurmgpu's version
    source, digest     the spec's file name, and 12 hex digits over the resolved spec
    name               the job's name
    directives         the #SBATCH lines (option, value, text)
    launcher           torchrun, srun, python or shell
    nodes, gpus_per_node, tasks_per_node, ranks_per_node, cpus_per_task   numbers; cpus_per_task may be None
    gpu_test           -eq, or -ge where an exclusive job may get more GPUs than it asked for
    needs_head         whether MASTER_ADDR and MASTER_PORT are needed
    command            the program and its arguments, quoted for bash; with launcher shell the lines themselves
    rendezvous, max_restarts, exit_wait_s   torchrun's; exit_wait_s is srun's --wait, 0 for ever
    omp_num_threads    threads a rank, None where the spec's env sets it
    env, secrets       names to values; names to files, or None for a value from the submitting environment
    modules, module_init, conda, venv, uv, setup   what to load; setup is a list of Lines (key, text)
    container          None, or the program's container (contained.py): runtime, words, variables, needs_gpus
    restarts           None, or how the job goes on after its time limit (restarts.py)
    sweep              None, or this array's points (arrays.py, Part): names, variables, points, offset, size, table
    """

    version: str
    source: str
    digest: str
    name: str
    directives: list[Directive]
    launcher: str
    nodes: int
    gpus_per_node: int
    tasks_per_node: int
    ranks_per_node: int
    cpus_per_task: int | None
    gpu_test: str
    needs_head: bool
    command: str
    rendezvous: str
    max_restarts: int
    exit_wait_s: int
    omp_num_threads: str | None
    omp_why: str
    env: dict[str, str]
    secrets: dict[str, str | None]
    modules: list[str]
    module_init: str | None
    conda: str | None
    venv: str | None
    uv: str | None
    setup: list[Lines]
    container: Contained | None = None
    restarts: Restarts | None = None
    sweep: Part | None = None
    # where a key's value was written, for --explain; None renders without explanations
    origin: Origin | None = None
    # sbatch options that the spec itself sets, so that their variables are no leftovers
    kept: frozenset[str] = frozenset()


def why(origin: Origin | None, text: str, key: str = "") -> str:
    """Under --explain a comment line that says where a line comes from and why; otherwise nothing.

    A filter and not a method, because Jinja calls filters several times faster.
    """
    if origin is None:
        return ""
    parts = [f"{key}, {origin(key)}" if key else "", text]
    return f"#: {comment('; '.join(part for part in parts if part))}\n"

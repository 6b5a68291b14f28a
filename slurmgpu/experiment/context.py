"""The object that the script template sees as `job`. Its fields are the public interface of `--template`."""

from collections.abc import Callable
from dataclasses import dataclass, field

from slurmgpu.experiment.directives import Directive
from slurmgpu.experiment.shell import comment


@dataclass(slots=True)
class Context:
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
    modules, module_init, conda, venv, uv, setup   what to load; setup is a list of shell lines
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
    setup: list[str]
    setup_keys: list[str]
    # where a key's value was written, for --explain; None renders without explanations
    origin: Callable[[str], str] | None = None
    kept: frozenset[str] = field(default_factory=frozenset)

    def keeps(self, option: str) -> bool:
        """Whether the spec itself sets this sbatch option, so that its variable is no leftover."""
        return option in self.kept

    def why(self, text: str, key: str = "") -> str:
        """Under --explain a comment line that says where a line comes from and why; otherwise nothing."""
        if self.origin is None:
            return ""
        parts = [f"{key}, {self.origin(key)}" if key else "", text]
        return f"#: {comment('; '.join(part for part in parts if part))}\n"

    def why_directive(self, line: Directive) -> str:
        """The explanation of one directive."""
        return self.why(line.why, line.key)

    def why_env(self, name: str) -> str:
        """The explanation of one exported variable."""
        return self.why("byte for byte; nothing is expanded", f"env.{name}")

    def why_setup(self, index: int) -> str:
        """The explanation of one block of setup lines."""
        return self.why("as written", self.setup_keys[index])

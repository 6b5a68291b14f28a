"""An interactive session: `srun --pty` with the resources and the environment of a spec.

One task a node, with all the CPUs that the spec's tasks have there, so that the shell can use what the job would.
"""

from slurmgpu.experiment.context import Context
from slurmgpu.experiment.directives import Directive
from slurmgpu.experiment.render import Session

# sbatch's options that srun does not know, or that have no sense where a person sits at the terminal
_BATCH_ONLY = frozenset(
    {
        "array", "batch", "error", "export-file", "get-user-env", "ignore-pbs", "input", "kill-on-invalid-dep",
        "no-requeue", "open-mode", "output", "requeue", "signal", "stepmgr", "wait-all-nodes",
    }
)  # fmt: skip

# In each node's task. The start lines are handed over as an argument: a file need not be on the node. What the shell
# starts with srun shares the resources that the shell itself holds.
_TASK = r"""
[ "$SLURM_PROCID" = 0 ] || exit 0
export SLURM_OVERLAP=1
fail() { echo "slurmgpu: $*" >&2; return 1; }
"""
_AT_A_TERMINAL = r"""
exec bash --rcfile <(printf "%s\n" "[ ! -r ~/.bashrc ] || . ~/.bashrc" "$(declare -f fail)" "$1") -i
"""
_IN_A_PIPE = r"""
eval "$1"
exec bash
"""


def srun(session: Session, is_terminal: bool) -> list[str]:
    """The command line of the session. Without a terminal the shell takes its commands from stdin."""
    options = [line.argument for one in session.job.directives if (line := _for_srun(one, session.job))]
    script = (_TASK + (_AT_A_TERMINAL if is_terminal else _IN_A_PIPE)).strip()
    pty = ["--pty"] if is_terminal else []
    return ["srun", *options, *pty, "bash", "-c", script, "slurmgpu", session.start]


def _for_srun(line: Directive, job: Context) -> Directive | None:
    if line.option in _BATCH_ONLY:
        return None
    if line.option == "ntasks-per-node":
        return line._replace(value="1")
    if line.option == "cpus-per-task" and job.cpus_per_task is not None:
        return line._replace(value=str(job.cpus_per_task * job.tasks_per_node))
    return line

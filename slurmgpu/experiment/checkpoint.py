"""The `checkpoint:` block: a warning before the time limit, and the job again from what the program saved then.

Facts: `--signal=B:` reaches the batch shell and nothing else; torchrun's agents die of USR1 and relay nothing; Slurm
requeues after a node failure and a preemption, never after the time limit.
"""

from slurmgpu.experiment import kinds
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.kinds import Kind, Say
from slurmgpu.experiment.yamltext import Data, Path
from slurmgpu.slurmtext import parse_time

# TERM is how Slurm ends a job, srun keeps INT and HUP for itself, and KILL and STOP reach no program
SIGNALS = ("USR1", "USR2")
MAX_LEAD_S = 65535  # slurmctld keeps it in 16 bits


class Checkpoint(Fields):
    """The `checkpoint:` block. `lead_time`: how many seconds before the time limit the warning comes."""

    signal: str = "USR1"
    lead_time: int = 300
    resume_args: list[str] = []
    max_restarts: int = 10
    folder: str | None = None


def _signal(data: Data, path: Path, say: Say) -> str | None:
    name = kinds.text(data, path, say)
    if name is None:
        return None
    bare = name.upper().removeprefix("SIG")
    if bare not in SIGNALS:
        say(path, f"must be {' or '.join(SIGNALS)}, not {name!r}; others end a job, or srun keeps them for itself")
        return None
    return bare


def _lead_time(data: Data, path: Path, say: Say) -> int | None:
    text = kinds.time(data, path, say)
    if text is None:
        return None
    lead_s = parse_time(text)
    if lead_s is None or lead_s > MAX_LEAD_S:
        say(path, "must be at most 18:12:15, because Slurm counts the seconds in 16 bits")
        return None
    return lead_s


def _resume_args(data: Data, path: Path, say: Say) -> list[str] | None:
    """Words of the command: a list is exact, a text is split as `command` is."""
    if isinstance(data, list):
        return [kinds.anything(item, (*path, index), say) or "" for index, item in enumerate(data)]
    line = kinds.anything(data, path, say)
    if line is None:
        return None
    try:
        return kinds.split_command(line)
    except ValueError as error:
        say(path, str(error))
        return None


KINDS: dict[str, Kind] = {
    "signal": _signal,
    "lead_time": _lead_time,
    "resume_args": _resume_args,
    "max_restarts": kinds.counting,
    "folder": kinds.directory,
}


def check(data: Data, values: dict[str, object], say: Say) -> None:
    """What cannot stand beside the block."""
    block = values.get("checkpoint")
    if not isinstance(block, Checkpoint) or not isinstance(data, dict):
        return
    if values.get("requeue") is False:
        say(("requeue",), "is false, and with `checkpoint` the job goes on after a requeue; remove one of them")
    if values.get("open_mode") == "truncate":
        say(("open_mode",), "truncate loses the log of the start before; with `checkpoint` leave it out")
    for path in (("signal",), ("sbatch", "signal")):
        holder = data if len(path) == 1 else data.get("sbatch")
        if isinstance(holder, dict) and "signal" in holder:
            say(path, "cannot stand beside `checkpoint`, which sends its own; write `checkpoint: {signal: USR1}`")
    limit = values.get("time")
    limit_s = parse_time(limit) if isinstance(limit, str) and limit != "UNLIMITED" else None
    if limit_s is not None and block.lead_time >= limit_s:
        say(
            ("checkpoint", "lead_time"),
            f"is {block.lead_time} s, and `time` is {limit_s} s: the warning would come at the start",
        )
    if values.get("launcher") == "shell" and block.resume_args:
        say(
            ("checkpoint", "resume_args"),
            "has no command to stand behind with launcher shell; use $SLURM_RESTART_COUNT in the lines",
        )

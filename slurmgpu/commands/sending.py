"""What `submit` and `resubmit` share: send, print the numbers of the jobs, say what an error has kept from sbatch."""

from collections.abc import Mapping, Sequence

from slurmgpu.commands.output import say, write
from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import submission
from slurmgpu.experiment.history import Entry, History
from slurmgpu.experiment.submission import Call


def send(calls: Sequence[Call], environ: Mapping[str, str], history: History, first: int = 0) -> list[Entry]:
    """Submit all calls. `first` is the submission's first job where there is one already."""
    entries: list[Entry] = []
    try:
        for entry, note in submission.send(calls, environ, history, first):
            entries.append(entry)
            if note:
                say(f"note: {note}")
            if entry.tasks is not None:
                say(f"job {entry.job}: {calls[len(entries) - 1].what}")
    except BaseException as error:
        is_unsure = isinstance(error, UnavailableError | KeyboardInterrupt)
        hint = "resubmit once more" if first else "`render --part` and sbatch send one array"
        _say_what_was_not_sent(calls, len(entries), is_unsure, hint)
        raise
    finally:
        # also where an error stops the rest: these jobs are in the queue
        if entries:
            write("".join(f"{entry.job}\n" for entry in entries), None)
    return entries


def _say_what_was_not_sent(calls: Sequence[Call], done: int, is_unsure: bool, hint: str) -> None:
    if done == len(calls):
        return
    if is_unsure:
        say(f"whether {calls[done].what} came through is not known: look at `squeue --me` before sending it again")
    if len(calls) > 1:
        submitted = ", ".join(call.what for call in calls[:done]) or "nothing"
        rest = ", ".join(call.what for call in calls[done:])
        say(f"submitted: {submitted}; not submitted: {rest} ({hint})")

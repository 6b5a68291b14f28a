"""What `submit` and `resubmit` share: send, print the numbers of the jobs, say what an error has kept from sbatch."""

from collections.abc import Mapping, Sequence

from slurmgpu.commands.output import say, write
from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import submission
from slurmgpu.experiment.history import Entry, History
from slurmgpu.experiment.submission import Task


def send(tasks: Sequence[Task], environ: Mapping[str, str], history: History, first: int = 0) -> list[Entry]:
    """Submit all tasks. `first` is the submission's first job where there is one already."""
    entries: list[Entry] = []
    try:
        for entry, note in submission.send(tasks, environ, history, first):
            entries.append(entry)
            if note:
                say(f"note: {note}")
            if entry.tasks is not None:
                say(f"job {entry.job}: {tasks[len(entries) - 1].what}")
    except BaseException as error:
        _say_what_was_not_sent(tasks, len(entries), is_unsure=isinstance(error, UnavailableError | KeyboardInterrupt))
        raise
    finally:
        # also where an error stops the rest: these jobs are in the queue
        if entries:
            write("".join(f"{entry.job}\n" for entry in entries), None)
    return entries


def _say_what_was_not_sent(tasks: Sequence[Task], done: int, is_unsure: bool) -> None:
    if is_unsure:
        say(f"whether {tasks[done].what} came through is not known: look at `squeue --me` before sending it again")
    if len(tasks) > 1:
        submitted = ", ".join(task.what for task in tasks[:done]) or "nothing"
        rest = ", ".join(task.what for task in tasks[done:])
        say(f"submitted: {submitted}; not submitted: {rest} (`render --part` and sbatch send one array)")

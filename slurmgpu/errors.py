"""The errors of slurmgpu and the exit code of each.

    SlurmgpuError           4  our own fault
    ├─ RefusedError         1  Slurm says no to what was asked
    ├─ InputError           2  the user's input; carries every problem found, not only the first
    └─ UnavailableError     3  something outside does not answer: a full disk, Slurm, a database

Exit codes of the command line: 0 done, 1 a negative finding, 2 bad input or usage, 3 something outside is
unavailable, 4 internal error.
"""

from typing import NamedTuple


class Place(NamedTuple):
    """Where a value was written; lines and columns count from 1, 0 means the place has none (`--set`)."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


class Problem(NamedTuple):
    """One thing that is wrong: where, and what to write instead."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class SlurmgpuError(Exception):
    """Root of all errors raised on purpose; `exit_code` is the exit status of the command."""

    exit_code = 4


class RefusedError(SlurmgpuError):
    """Slurm was there and said no; its own words are in the message."""

    exit_code = 1


class InputError(SlurmgpuError):
    """The input cannot be used. `problems` holds every fault found, in the order of the file."""

    exit_code = 2

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = sorted(problems, key=lambda p: (p.place.file, p.place.line, p.place.column))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UnavailableError(SlurmgpuError):
    """Something outside of slurmgpu does not do its part; trying again later may help."""

    exit_code = 3


def nearest(word: str, known: list[str]) -> str | None:
    """The known word most like `word`, or None when none is close enough to be a slip of the hand."""
    import difflib  # only on the way to an error message

    lowered = word.lower().replace("-", "_")
    found = difflib.get_close_matches(lowered, known, n=1, cutoff=0.6)
    return found[0] if found else None

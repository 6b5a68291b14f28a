"""Sends scripts to sbatch: log folders first, a clean environment, one job or one array after the other."""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from slurmgpu.errors import InputError, Place, Problem, RefusedError, UnavailableError
from slurmgpu.experiment import slurm
from slurmgpu.experiment.arguments import last_of, read_options
from slurmgpu.experiment.header import read_header
from slurmgpu.experiment.history import Entry, History
from slurmgpu.experiment.render import Script
from slurmgpu.experiment.shell import sh

# sbatch waits for slurmctld by itself, for a minute and more, when that is restarted
SBATCH_TIMEOUT_S = 120.0
# slurmctld takes 4 KiB of --array (job_mgr.c, _test_job_desc_fields)
MAX_ARRAY_BYTES = 4000

_UNREACHABLE = re.compile(
    r"(?i)unable to contact|timed out|connection|zero bytes|temporarily unable|no route|munge|standby"
)


class Call(NamedTuple):
    """One call of sbatch to be made; `what` names the job for a person.

    `joins` says that it is to start only when the one before it has ended, so that a throttle holds over both.
    `entry` is its record, with job 0 until the job is known.
    """

    script: str
    what: str
    entry: Entry
    options: tuple[str, ...] = ()
    joins: bool = False

    def argv(self, after: str) -> list[str]:
        """The command line; `after` is the job before it."""
        options = list(self.options)
        if self.joins:
            is_cleared = "--dependency=" in options
            options = [option for option in options if option != "--dependency="]
            own = "" if is_cleared else _given(self.script, "dependency")
            options.append("--dependency=" + ",".join(filter(None, (own, f"afterany:{after}"))))
        return ["sbatch", "--parsable", *options]


def calls_of(scripts: Sequence[Script], spec: str, user: str) -> list[Call]:
    """The calls for the scripts of a spec. Raises InputError where they cannot be chained."""
    folders = tuple(_log_folders(scripts[0].text, user))
    calls: list[Call] = []
    for script in scripts:
        entry = Entry(job=0, first=0, script="", log_folders=folders, spec=spec)
        part = script.part
        if part is None:
            calls.append(Call(script.text, "the job", entry))
            continue
        last = len(part.points) - 1
        entry = entry._replace(tasks=f"0-{last}", throttle=part.max_parallel, offset=part.offset, size=part.size)
        joins = part.number > 1 and part.max_parallel is not None
        if joins and "?" in _given(script.text, "dependency"):
            message = "`dependency` with ? cannot stand beside `max_parallel` in a sweep of several arrays"
            raise InputError([Problem(Place(spec), message)])
        what = f"points {part.offset}-{part.offset + last}"
        calls.append(Call(script.text, what, entry, joins=joins))
    return calls


def _given(script: str, option: str) -> str:
    given = last_of(read_options(read_header(script))[0]).get(option)
    return given.value or "" if given else ""


def _log_folders(script: str, user: str) -> list[str]:
    """The folders of the logs, but those whose names are known only when the job has started."""
    values = {"x": _given(script, "job-name"), "u": user, "%": "%"}
    folders = {os.path.dirname(_given(script, option)) for option in ("output", "error")}
    known = [folder for folder in folders if folder and "%" not in re.sub("%[xu%]", "", folder)]
    return sorted(re.sub("%([xu%])", lambda match: values[match[1]], folder) for folder in known)


def missing_folders(calls: Sequence[Call]) -> list[str]:
    """The log folders that are not there yet. Raises InputError for what can be no log folder."""
    problems = []
    folders = sorted({folder for call in calls for folder in call.entry.log_folders})
    for folder in folders:
        there = folder
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there):
            problems.append(Problem(Place(there), "is in the way of the log folder: it is not a folder"))
        elif not os.access(there, os.W_OK | os.X_OK):
            problems.append(Problem(Place(there), "cannot be written to, so that there would be no log"))
    if problems:
        raise InputError(problems)
    return [folder for folder in folders if not os.path.isdir(folder)]


def make_folders(folders: Sequence[str]) -> None:
    """mkdir -p, by the umask."""
    for folder in folders:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise InputError([Problem(Place(folder), f"the log folder cannot be made: {error.strerror}")]) from None


def send(
    calls: Sequence[Call], environ: Mapping[str, str], history: History, first: int = 0
) -> Iterator[tuple[Entry, str | None]]:
    """Submit one after the other; the record of each, and a note where that could not be kept.

    `first` is the submission's first job where there is one already.
    """
    after = 0
    for call in calls:
        after, cluster = _sbatch(call.argv(str(after)), call.script, environ)
        first = first or after
        entry = call.entry._replace(job=after, first=first, cluster=cluster, time_s=time.time())
        script, note = None, None
        if not entry.script:
            entry, script = entry._replace(script=f"{first}.{after}.sh"), call.script
        try:
            history.save(entry, script)
        except UnavailableError as error:
            note = f"`slurmgpu resubmit {after}` will not know this job: {error}"
        yield entry, note


def _sbatch(argv: list[str], script: str, environ: Mapping[str, str]) -> tuple[int, str]:
    answer = slurm.run(argv, input=script, environ=environ, timeout_s=SBATCH_TIMEOUT_S)
    words = " ".join(line.removeprefix("sbatch: ") for line in answer.errors.splitlines() if line.strip())
    if answer.status:
        words = words or f"exit status {answer.status} without a word"
        raise (UnavailableError if _UNREACHABLE.search(words) else RefusedError)(f"sbatch: {words[:1000]}")
    match = re.fullmatch(r"(\d+)(?:;([\w.-]+))?", answer.output.strip())
    if not match:
        raise UnavailableError(f"sbatch answered {answer.output[:120]!r}, which is no job's number; see squeue")
    return int(match[1]), match[2] or ""


def describe(calls: Sequence[Call], folders: Sequence[str], history: History) -> str:
    """What would be done, a shell line each; the scripts that have a file are named."""
    lines = [f"mkdir -p {sh(folder)}" for folder in folders]
    for call in calls:
        words = " ".join(map(sh, call.argv("PREVIOUS")))
        script = f" < {sh(os.path.join(history.folder, call.entry.script))}" if call.entry.script else ""
        lines.append(f"{words}{script}  # {call.what}")
    return "".join(f"{line}\n" for line in lines)

"""Which points of a submission to run again: those whose last run has failed.

The points of all arrays of a sweep are one list, whichever of its jobs is named. A point that was run again belongs
to the job that ran it last.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from slurmgpu.errors import InputError, Place, Problem, UnavailableError
from slurmgpu.experiment import slurm
from slurmgpu.experiment.arguments import Given, last_of, read_options
from slurmgpu.experiment.header import read_header
from slurmgpu.experiment.history import Entry
from slurmgpu.experiment.jobstates import CANCELLED, COMPLETED, ENDED, FAILED, States, Task
from slurmgpu.experiment.submission import MAX_ARRAY_BYTES, Call
from slurmgpu.slurmtext import array_indexes, format_indexes

NEVER_RAN = "NEVER RAN"


class Run(NamedTuple):
    """A point's last run: the job that ran it, the task in it (None: the job is no array), its state."""

    entry: Entry
    task: int | None
    state: str

    @property
    def point(self) -> int | None:
        """The point's index in the whole sweep."""
        return None if self.task is None else self.entry.offset + self.task


class Plan(NamedTuple):
    """The last run of each point: to be run again, ended by somebody, still in the queue, done, or not clear."""

    again: list[Run]
    cancelled: list[Run]
    live: list[Run]
    done: list[Run]
    unclear: list[Run]


def plan(entries: Sequence[Entry], known: States, with_cancelled: bool) -> Plan:
    """Sort the points by the state of their last run. Raises UnavailableError where that is not known at all."""
    latest: dict[int | None, tuple[Entry, int | None]] = {}
    for entry in entries:
        for task in [None] if entry.tasks is None else array_indexes(entry.tasks):
            latest[None if task is None else entry.offset + task] = (entry, task)
    jobs = {job for job, _ in known.states}
    sorted_ = Plan([], [], [], [], [])
    for _, (entry, task) in sorted(latest.items(), key=lambda item: item[0] or 0):
        key: Task = (entry.job, task)
        state = known.states.get(key)
        if state is None and (known.no_accounting or entry.job not in jobs):
            why = known.no_accounting or "sacct does not know it either"
            raise UnavailableError(f"slurmctld has forgotten job {entry.job}, and {why}")
        run = Run(entry, task, state or NEVER_RAN)
        if run.state == COMPLETED:
            sorted_.done.append(run)
        elif run.state in FAILED or (with_cancelled and run.state in (*CANCELLED, NEVER_RAN)):
            sorted_.again.append(run)
        elif run.state in (*CANCELLED, NEVER_RAN):
            sorted_.cancelled.append(run)
        elif key in known.queued and run.state not in ENDED:
            sorted_.live.append(run)
        else:
            sorted_.unclear.append(run)
    return sorted_


def only(found: Plan, point: int) -> Plan:
    """The plan of one point of the sweep."""
    return Plan(*([run for run in runs if run.point == point] for runs in found))


def calls_for(runs: Sequence[Run], script_of: Callable[[Entry], str]) -> list[Call]:
    """The calls of sbatch that run these points again: the scripts of then, with --array for the points."""
    of_script: dict[str, list[Run]] = {}
    for run in runs:
        of_script.setdefault(run.entry.script, []).append(run)
    calls: list[Call] = []
    for same in of_script.values():
        entry = same[0].entry
        script = script_of(entry)
        # what the jobs waited for the first time is past; sbatch of 26.05 refuses ids that are gone
        options = ["--dependency="] if "dependency" in _options(script) else []
        if entry.chdir is not None:
            options.append(f"--chdir={entry.chdir}")
        if same[0].task is None:
            calls.append(Call(script, "the job", entry, tuple(options)))
            continue
        throttle = f"%{entry.throttle}" if entry.throttle else ""
        for indexes in _pieces([run.task for run in same if run.task is not None]):
            text = format_indexes(indexes)
            calls.append(
                Call(
                    script,
                    f"points {format_indexes([entry.offset + index for index in indexes])}",
                    entry._replace(tasks=text),
                    (f"--array={text}{throttle}", *options),
                    joins=bool(throttle and calls),
                )
            )
    return calls


def _options(script: str) -> dict[str, Given]:
    return last_of(read_options(read_header(script))[0])


def _pieces(indexes: list[int]) -> list[list[int]]:
    """The indexes in pieces whose text is not longer than slurmctld takes."""
    if len(format_indexes(indexes)) <= MAX_ARRAY_BYTES:
        return [indexes]
    middle = len(indexes) // 2
    return [*_pieces(indexes[:middle]), *_pieces(indexes[middle:])]


def names(runs: Sequence[Run]) -> str:
    """Runs as a person reads them: `12_[3,7-9], 13_4`."""
    of_job: dict[int, list[int | None]] = {}
    for run in runs:
        of_job.setdefault(run.entry.job, []).append(run.task)
    words = []
    for job, tasks in of_job.items():
        indexes = [task for task in tasks if task is not None]
        text = format_indexes(indexes)
        words.append(f"{job}" if not indexes else f"{job}_{text}" if text.isdigit() else f"{job}_[{text}]")
    return ", ".join(words)


def from_slurm(job: int, known: States) -> tuple[Entry, str]:
    """A job without a record, and its script, as far as Slurm has kept them. Raises InputError where it has not."""
    tasks = [task for number, task in known.states if number == job and task is not None]
    script = _script(f"{job}") or _script_from_sacct(f"{job}_{tasks[0]}" if tasks else f"{job}")
    if not script.startswith("#!"):
        message = "is not in the records of `slurmgpu submit`, and Slurm has not kept its script; submit it anew"
        raise InputError([Problem(Place(f"job {job}"), message)])
    chdir = None if "chdir" in _options(script) else _work_dir(job)
    entry = Entry(job, job, f"{job}.{job}.sh", format_indexes(sorted(tasks)) if tasks else None, chdir=chdir)
    array = _options(script).get("array")
    throttle = (array.value or "").partition("%")[2] if array else ""
    return entry._replace(throttle=int(throttle) if throttle.isdigit() else None), script


def _script(job: str) -> str:
    answer = slurm.run(["scontrol", "write", "batch_script", job, "-"])
    return answer.output if answer.status == 0 else ""


def _script_from_sacct(job: str) -> str:
    """With AccountingStoreFlags=job_script; behind a title and a ruler."""
    answer = slurm.run(["sacct", "--batch-script", f"--jobs={job}"])
    match = re.fullmatch(r"(?s)Batch Script for [^\n]*\n-+\n(#!.*?)\n", answer.output)
    return match[1] if match else ""


def _work_dir(job: int) -> str:
    ids = f"--jobs={job}"
    for command in (
        ["squeue", "--noheader", "--states=all", ids, "--format=%Z"],
        ["sacct", "-X", "-P", "-n", ids, "--format=WorkDir"],
    ):
        folder = slurm.run(command).output.partition("\n")[0]
        if folder.startswith("/"):
            return folder
    raise UnavailableError(f"neither squeue nor sacct tells the folder of job {job}")

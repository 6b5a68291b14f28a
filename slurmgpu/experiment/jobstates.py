"""The states of jobs and array tasks: squeue for what slurmctld still knows, sacct for what it has forgotten.

squeue wins: slurmctld sends to slurmdbd in the background, so that a job that has just ended may still be running
there. A task that was cancelled before its start can be in neither (measured on 22.05).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import slurm
from slurmgpu.slurmtext import array_indexes

COMPLETED = "COMPLETED"
FAILED = frozenset(
    {
        "BOOT_FAIL", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
        "RECONFIG_FAIL", "TIMEOUT",
    }
)  # fmt: skip
CANCELLED = frozenset({"CANCELLED", "REVOKED"})
ENDED = frozenset({COMPLETED, *FAILED, *CANCELLED})

# an array's job id and a task's index; for a job that is no array its id and None
Task = tuple[int, int | None]

_SEPARATOR = "\x1f"
_JOB_ID = re.compile(r"(\d+)(?:\+\d+)?(?:_(?:(\d+)|\[([^\]]*)\]))?")
_STATE = re.compile(r"[A-Z_]+")


class States(NamedTuple):
    """The state of each known task; `queued` are those that slurmctld knows; why accounting is silent, or None."""

    states: dict[Task, str]
    queued: frozenset[Task]
    no_accounting: str | None = None


def ask(jobs: Sequence[int], cluster: str = "") -> States:
    """The states of jobs with all tasks. Raises UnavailableError where Slurm does not answer."""
    squeue = _squeue(jobs, cluster)
    command = ["sacct", "-X", "-P", "-n", f"--jobs={_ids(jobs)}", "--format=JobID,State"]
    try:
        sacct = slurm.Running([*command, f"--delimiter={_SEPARATOR}", *_of_cluster(cluster)])
    except UnavailableError:
        squeue.end()
        raise
    try:
        queued = _from_squeue(squeue.answer())
        recorded, no_accounting = _from_sacct(sacct)
    finally:
        sacct.end()
    return States(recorded | queued, frozenset(queued), no_accounting)


def ask_queue(jobs: Sequence[int], cluster: str = "") -> dict[Task, str]:
    """What slurmctld alone says of jobs; a job that it has forgotten is not there."""
    return _from_squeue(_squeue(jobs, cluster).answer())


def _squeue(jobs: Sequence[int], cluster: str) -> slurm.Running:
    command = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={_ids(jobs)}", "--format=%F|%K|%T"]
    return slurm.Running([*command, *_of_cluster(cluster)])


def _ids(jobs: Sequence[int]) -> str:
    return ",".join(map(str, jobs))


def _of_cluster(cluster: str) -> list[str]:
    return [f"--clusters={cluster}"] if cluster else []


def _from_squeue(answer: slurm.Answer) -> dict[Task, str]:
    if answer.status:
        if "Invalid job id" in answer.errors:  # forgotten, MinJobAge after its end
            return {}
        raise UnavailableError(f"squeue: {_first_line(answer.errors)}")
    found: dict[Task, str] = {}
    for line in answer.output.splitlines():
        fields = line.split("|")
        if len(fields) != 3 or not fields[0].isdigit() or not _STATE.fullmatch(fields[2]):
            if line.startswith("CLUSTER: "):
                continue
            raise UnavailableError(f"squeue wrote a line that cannot be read: {line[:120]!r}")
        found.update(_tasks(int(fields[0]), None if fields[1] == "N/A" else fields[1], fields[2]))
    return found


def _from_sacct(sacct: slurm.Running) -> tuple[dict[Task, str], str | None]:
    answer = sacct.answer()
    if answer.status:
        return {}, f"sacct: {_first_line(answer.errors)}"
    found: dict[Task, str] = {}
    for line in answer.output.splitlines():
        job_id, separator, words = line.partition(_SEPARATOR)
        match = _JOB_ID.fullmatch(job_id)
        state = words.split(" ")[0]  # "CANCELLED by 1000"
        if not match or not separator or not _STATE.fullmatch(state):
            raise UnavailableError(f"sacct wrote a line that cannot be read: {line[:120]!r}")
        if "+" not in job_id or int(match[1]) not in {job for job, _ in found}:  # a het job goes by its first part
            found.update(_tasks(int(match[1]), match[2] or match[3], state))
    return found, None


def _tasks(job: int, indexes: str | None, state: str) -> dict[Task, str]:
    if indexes is None:
        return {(job, None): state}
    try:
        return {(job, index): state for index in array_indexes(indexes)}
    except ValueError as error:
        raise UnavailableError(f"Slurm tells tasks of job {job} that cannot be read: {error}") from None


def _first_line(errors: str) -> str:
    return next((line.strip()[:200] for line in errors.splitlines() if line.strip()), "failed without a word")

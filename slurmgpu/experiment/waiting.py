"""Waits for the end of jobs, asking slurmctld seldom, and says what has not been completed."""

import time
from collections.abc import Sequence

from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import jobstates
from slurmgpu.experiment.history import Entry
from slurmgpu.experiment.jobstates import COMPLETED, ENDED, Task
from slurmgpu.slurmtext import array_indexes

FIRST_POLL_S = 1.0
MAX_POLL_S = 30.0
# slurmctld may be restarted meanwhile; a job of days is not given up for that
MAX_SILENCE_S = 600.0
# what slurmctld has forgotten can take so long to be final in the accounting
MAX_LAG_S = 60.0


def tasks_of(entry: Entry) -> list[Task]:
    """The tasks of a job, or the job itself."""
    if entry.tasks is None:
        return [(entry.job, None)]
    return [(entry.job, index) for index in array_indexes(entry.tasks)]


def wait(entries: Sequence[Entry]) -> dict[Task, str]:
    """The final state of every task. Raises UnavailableError where Slurm is silent for too long."""
    jobs, cluster = [entry.job for entry in entries], entries[0].cluster
    poll_s = FIRST_POLL_S
    heard = time.monotonic()
    while True:
        try:
            queued = jobstates.ask_queue(jobs, cluster)
            heard = time.monotonic()
            if all(state in ENDED for state in queued.values()):
                return _final(entries, cluster)
        except UnavailableError:
            if time.monotonic() - heard > MAX_SILENCE_S:
                raise
        time.sleep(poll_s)
        poll_s = min(MAX_POLL_S, poll_s * 1.5)


def _final(entries: Sequence[Entry], cluster: str) -> dict[Task, str]:
    tasks = [task for entry in entries for task in tasks_of(entry)]
    jobs = [entry.job for entry in entries]
    deadline = time.monotonic() + MAX_LAG_S
    while True:
        answer = jobstates.ask(jobs, cluster)
        known = {task: answer.states.get(task, "") for task in tasks}
        late = [task for task, state in known.items() if state not in ENDED]
        # a task that was cancelled before its start can be in no row
        if not late or (all(not known[task] for task in late) and len(late) < len(tasks)):
            return {task: state or "CANCELLED" for task, state in known.items()}
        if time.monotonic() > deadline:
            job, index = late[0]
            name = f"{job}" if index is None else f"{job}_{index}"
            why = answer.no_accounting or f"sacct says {known[late[0]] or 'nothing'}"
            raise UnavailableError(f"job {name} has ended, but its state is not known: {why}")
        time.sleep(FIRST_POLL_S)


def failures(entries: Sequence[Entry], states: dict[Task, str]) -> list[str]:
    """A line for each point, or job, that has not been completed."""
    lines = []
    for entry in entries:
        for job, index in tasks_of(entry):
            state = states[job, index]
            if state != COMPLETED:
                lines.append(
                    f"job {job} is {state}"
                    if index is None
                    else f"point {entry.offset + index} (job {job}_{index}) is {state}"
                )
    return lines

"""Stop in time and go on later: what a training loop asks of a job that has a `checkpoint:` block.

    while step < steps:
        train(step); step += 1
        if stop_of_all_ranks(resume.should_stop()):
            save(step); sys.exit(0)
    resume.finished()

Standard library only: import it, or copy this file. Outside such a job `should_stop()` is False and nothing else
happens. Nothing here raises. Several ranks must agree before they stop (an all-reduce of the answer), because one
may see the flag a step before another.
"""

import os
import signal
import threading
import time

LOOK_EVERY_S = 1.0  # a look at the flag file is a question to the file server


def _variable(name: str) -> int | None:
    """A whole number out of the environment; None where there is none."""
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return None


class _Asked:
    """Whether a stop has been asked for; once it has, it stays so."""

    def __init__(self) -> None:
        self.file = os.environ.get("SLURMGPU_STOP_FILE", "")
        end, lead_s = _variable("SLURM_JOB_END_TIME"), _variable("SLURMGPU_LEAD_TIME_S")
        self.deadline = None if end is None or lead_s is None else end - lead_s
        self.is_stopped = False
        self.next_look = 0.0

    def by_signal(self, *_: object) -> None:
        self.is_stopped = True


_asked = _Asked()


def _listen() -> None:
    """Take the signal that the job script relays, which would end a program without a handler."""
    number = getattr(signal, "SIG" + os.environ.get("SLURMGPU_SIGNAL", ""), None)
    if number is None or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(number) is signal.SIG_DFL:
        signal.signal(number, _asked.by_signal)


_listen()


def should_stop() -> bool:
    """Whether it is time to save and end with exit status 0: the time limit is near, or a preemption."""
    if _asked.is_stopped or not _asked.file:
        return _asked.is_stopped
    now = time.monotonic()
    if now < _asked.next_look:
        return False
    _asked.next_look = now + LOOK_EVERY_S
    is_late = _asked.deadline is not None and time.time() >= _asked.deadline
    if is_late:  # the script, and the other ranks, must hear of it
        _touch(_asked.file)
    _asked.is_stopped = is_late or os.path.exists(_asked.file)
    return _asked.is_stopped


def restart_count() -> int:
    """How many starts of this job came before: 0 at the first."""
    return max(0, _variable("SLURM_RESTART_COUNT") or 0)


def finished() -> None:
    """Say that the work is done, so that a warning in its last minutes does not start the job once more."""
    _touch(os.environ.get("SLURMGPU_FINISHED_FILE", ""))


def _touch(path: str) -> None:
    try:
        if path:
            with open(path, "a"):
                pass
    except OSError:
        pass

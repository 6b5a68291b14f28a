"""What has been submitted, in the user's state folder: `resubmit` needs the script, the tasks and the offset.

jobs/CLUSTER/FIRST.JOB.json is one job of a submission whose first job was FIRST, and FIRST.JOB.sh its script. Jobs of
one sweep, and all that ran points of it again, have the same FIRST. A file is written once, by rename, and never
changed. Each submission removes what is older than MAX_AGE_S, and the oldest beyond MAX_SUBMISSIONS.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from slurmgpu.errors import InputError, Place, Problem, UnavailableError

MAX_AGE_S = 180 * 86400
MAX_SUBMISSIONS = 500

_NAME = re.compile(r"(\d+)\.(\d+)\.json")


class Entry(NamedTuple):
    """One submitted job. `tasks` is its array without a throttle, None for a job that is no array.

    `script` names the file with its script, `size` counts the points of the whole sweep, `cluster` is what
    --clusters is to be given, "" for the own one. `time_s` is the time of the submission since 1970.
    """

    job: int
    first: int
    script: str
    tasks: str | None = None
    throttle: int | None = None
    offset: int = 0
    size: int = 0
    cluster: str = ""
    chdir: str | None = None
    log_folders: tuple[str, ...] = ()
    spec: str = ""
    time_s: float = 0.0


class History:
    """The records of one cluster's jobs. Raises UnavailableError where the folder cannot be used."""

    def __init__(self, environ: Mapping[str, str], cluster: str) -> None:
        base = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", ""), ".local", "state")
        self.folder = ""
        if os.path.isabs(base):
            # a name such as ../x would lead elsewhere
            self.folder = os.path.join(base, "slurmgpu", "jobs", re.sub(r"[^\w.-]|^\.", "_", cluster) or "_")

    def save(self, entry: Entry, script: str | None) -> None:
        """Keep one job, with its script where no file holds it yet."""
        if not self.folder:
            raise UnavailableError("neither XDG_STATE_HOME nor HOME names a folder for the records of jobs")
        try:
            self._make_folder()
            self._forget(entry.job)  # of a job that had the number before Slurm began to count anew
            if script is not None:
                self._write(entry.script, script)
            self._write(f"{entry.first}.{entry.job}.json", json.dumps(entry._asdict()) + "\n")
            self._prune()
        except OSError as error:
            raise UnavailableError(f"{self.folder}: {error.strerror}") from None

    def submission(self, job: int) -> list[Entry]:
        """Every job of the submission that `job` is of, the oldest first; none where there is no record of it."""
        names = self._names()
        firsts = [first for first, other in names if other == job]
        if not firsts:
            return []
        self._check_owner()
        entries = [self._read(f"{first}.{other}.json") for first, other in names if first == firsts[0]]
        return sorted(entries, key=lambda entry: (entry.time_s, entry.job))

    def script(self, entry: Entry) -> str:
        """The script of a job, byte for byte."""
        path = os.path.join(self.folder, os.path.basename(entry.script))
        try:
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                return file.read()
        except OSError as error:
            raise InputError([Problem(Place(path), f"the script of job {entry.job}: {error.strerror}")]) from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else resubmits meanwhile; without locks in the file system it goes on all the same."""
        import fcntl

        try:
            self._make_folder()
            number = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except (OSError, UnavailableError):
            yield
            return
        try:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnavailableError(
                    "another `slurmgpu resubmit` is at work; try again when it has ended"
                ) from None
            except OSError:
                pass
            yield
        finally:
            os.close(number)

    def _names(self) -> list[tuple[int, int]]:
        try:
            files = os.listdir(self.folder)
        except OSError:
            return []
        return sorted((int(match[1]), int(match[2])) for file in files if (match := _NAME.fullmatch(file)))

    def _read(self, name: str) -> Entry:
        path = os.path.join(self.folder, name)
        try:
            with open(path, encoding="utf-8") as file:
                entry = Entry(**json.load(file))
                entry = entry._replace(log_folders=tuple(entry.log_folders))
        except OSError as error:
            raise InputError([Problem(Place(path), f"cannot be read: {error.strerror}")]) from None
        except (ValueError, TypeError):
            raise InputError([Problem(Place(path), "is no record of a job (any more); remove it")]) from None
        return entry

    def _write(self, name: str, content: str) -> None:
        path = os.path.join(self.folder, name)
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(number, "wb") as file:
                file.write(content.encode("utf-8", "surrogateescape"))
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _make_folder(self) -> None:
        for depth in (2, 1, 0):
            folder = self.folder.rsplit("/", depth)[0]
            os.makedirs(folder, mode=0o700, exist_ok=True)
        self._check_owner()

    def _check_owner(self) -> None:
        """What is read back from here is run as the user: nobody else may write to it."""
        status = os.stat(self.folder)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise UnavailableError(f"{self.folder} belongs to, or can be written by, others; chmod 700 it")

    def _forget(self, job: int) -> None:
        for first, other in self._names():
            if job in (first, other):
                self._remove(first, other)

    def _prune(self) -> None:
        newest: dict[int, float] = {}
        for first, job in self._names():
            with contextlib.suppress(OSError):
                written = os.stat(os.path.join(self.folder, f"{first}.{job}.json")).st_mtime
                newest[first] = max(newest.get(first, 0.0), written)
        kept = sorted(newest, key=lambda first: newest[first], reverse=True)[:MAX_SUBMISSIONS]
        oldest = time.time() - MAX_AGE_S
        gone = {first for first in newest if first not in kept or newest[first] < oldest}
        for first, job in self._names():
            if first in gone:
                self._remove(first, job)

    def _remove(self, first: int, job: int) -> None:
        for ending in ("json", "sh"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.folder, f"{first}.{job}.{ending}"))

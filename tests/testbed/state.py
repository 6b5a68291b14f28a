"""Which clusters there are on this machine, who owns them, and the removal of those that nobody owns any more."""

import contextlib
import fcntl
import json
import os
import random
import re
import secrets
import select
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.testbed.failure import TestbedError
from tests.testbed.plan import DAEMON_PORTS

STATE_FILE = "state.json"
# below the range from which the kernel takes ports for outgoing connections: nobody gets them by chance
PORTS = range(20000, 32000)
END_OF_PROCESS_S = 20.0
_FOLDER_NAME = re.compile(r"\d+\.\d+-[0-9a-f]{6}")


class Identity(NamedTuple):
    """A process for all time: its number can be given to another one, its start time cannot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """The identity of a process that runs, else None."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat[stat.rindex(")") + 1 :].split()  # the name in brackets may hold spaces and brackets
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return Identity.of(self.pid) == self

    def kill(self) -> None:
        """Kill this very process, and wait until it has gone; of a PID namespace's first process: all of them."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if not self.alive:  # asked after opening: from here on the handle cannot become another process
                return
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not select.select([handle], [], [], END_OF_PROCESS_S)[0]:
                raise TestbedError(f"process {self.pid} does not end")
        finally:
            os.close(handle)


class State(NamedTuple):
    """The state file of a cluster's folder. A cluster of tests has its pytest as owner; one made by hand has none."""

    folder: Path
    version: str
    by_hand: bool
    starter: Identity
    init: Identity | None
    ports: dict[str, int]

    @property
    def in_use(self) -> bool:
        """Whether somebody still needs the cluster."""
        if self.by_hand and self.init:
            return self.init.alive
        return self.starter.alive

    def write(self) -> None:
        """Write the file so that a reader sees the old or the new one."""
        fields = self._asdict() | {"folder": str(self.folder)}
        temporary = self.folder / f".{STATE_FILE}"
        temporary.write_text(json.dumps(fields))
        temporary.rename(self.folder / STATE_FILE)

    def remove(self) -> None:
        """Kill every process of the cluster and remove its folder."""
        if self.init:
            self.init.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.exists():
            shutil.rmtree(self.folder)  # once more, for its error message


def read(folder: Path) -> State | None:
    """The state of a folder; None when it has no usable state file."""
    try:
        fields = json.loads((folder / STATE_FILE).read_text())
        return State(
            folder=folder,
            version=fields["version"],
            by_hand=fields["by_hand"],
            starter=Identity(*fields["starter"]),
            init=Identity(*fields["init"]) if fields["init"] else None,
            ports=fields["ports"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def root() -> Path:
    """The folder that holds all clusters."""
    return Path(os.environ.get("SLURMGPU_TESTBED_DIR") or "/var/tmp/slurmgpu-testbed").absolute()


def all_states() -> list[State]:
    """The state of every cluster of this machine."""
    return [state for folder in _folders() if (state := read(folder))]


def _folders() -> list[Path]:
    # by the name that `create` gives: whatever else somebody keeps there is not ours to remove
    found = sorted(root().iterdir()) if root().is_dir() else []
    return [path for path in found if _FOLDER_NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    root().mkdir(mode=0o755, parents=True, exist_ok=True)
    with (root() / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep() -> list[Path]:
    removed: list[Path] = []
    for folder in _folders():
        state = read(folder)
        if state is None:
            # folder and state file are made under the lock that we hold: this one is half made or half removed
            shutil.rmtree(folder, ignore_errors=True)
        elif state.in_use:
            continue
        else:
            state.remove()
        removed.append(folder)
    return removed


def sweep() -> list[Path]:
    """Remove what clusters without an owner left; the folders removed."""
    with _locked():
        return _sweep()


def create(version: str, *, by_hand: bool) -> State:
    """A new cluster's folder with its state file and ports; sweeps before."""
    me = Identity.of(os.getpid())
    assert me
    with _locked():
        _sweep()
        others = all_states()
        for other in others:
            if by_hand and other.by_hand and other.version == version:
                raise TestbedError(f"a cluster with Slurm {version} is up already, in {other.folder}; see `status`")
        folder = root() / f"{version}-{secrets.token_hex(3)}"
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)  # whatever the umask
        ports = _free_ports({port for other in others for port in other.ports.values()})
        state = State(folder, version, by_hand, me, None, ports)
        state.write()
    return state


def _free_ports(taken: set[int]) -> dict[str, int]:
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if len(found) == len(DAEMON_PORTS):
            break
        if port not in taken and _is_free(port):
            found.append(port)
    return dict(zip(DAEMON_PORTS, found, strict=True))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True

"""Starts the daemons of a cluster, each when the one that it needs answers. Runs in the cluster's init process."""

import ctypes
import os
import secrets
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.testbed import config
from tests.testbed.failure import TestbedError
from tests.testbed.plan import NODES, USERS, Plan
from tests.testbed.requirements import programs_of, which

CLONE_NEWUTS = 0x04000000
READY_S = 30.0  # ten times what a loaded machine was seen to need for any one step
# the database need not outlive a crash, and on a busy disk each sync waits for everybody's writes
NEVER_SYNC = ("--debug-no-sync", "--sync-frm=0", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Daemons:
    """The daemons of one cluster."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.environ = {"PATH": programs_of(plan.prefix) + PATH, "LANG": "C.UTF-8", "HOME": "/root"}
        self.started: dict[int, str] = {}

    def start_all(self) -> None:
        """Bring the cluster up; returns when every node is idle."""
        plan, password = self.plan, secrets.token_hex(16)
        self._write_files(password)
        self._start("munged", self._munged())
        self._install_database()
        self._start("mariadbd", self._mariadbd(), of_host=True)
        self._until("munged", lambda: _answers(socket.AF_UNIX, str(plan.munge_socket)))
        self._until("mariadbd", lambda: _answers(socket.AF_INET, ("127.0.0.1", plan.ports["mariadbd"])))
        self._start("slurmdbd", ["slurmdbd", "-D"])
        self._until("slurmdbd", lambda: _answers(socket.AF_INET, ("127.0.0.1", plan.ports["slurmdbd"])))
        for command in config.accounting_commands():
            self._ask(["sacctmgr", "-i", "-Q", *command])
        self._start("slurmctld", ["slurmctld", "-D"])
        self._until("slurmctld", lambda: "UP" in self._ask(["scontrol", "ping"], check=False))
        for node in NODES:
            self._start(f"slurmd-{node.name}", ["slurmd", "-D", "-N", node.name], host_name=node.name)
        self._until("slurmctld", self._all_idle)

    def _all_idle(self) -> bool:
        states = self._ask(["sinfo", "--noheader", "--Node", "--format=%N %T"], check=False).split("\n")
        return {line for line in states if line} == {f"{node.name} idle" for node in NODES}

    def _write_files(self, password: str) -> None:
        plan = self.plan
        for folder in (plan.run, plan.folder / "spool", plan.folder / "home", plan.folder / "dev"):
            folder.mkdir()
        for user in USERS:
            plan.home(user.name).mkdir()
            os.chown(plan.home(user.name), user.uid, user.uid)
        plan.home("root").mkdir()
        plan.munge_socket.parent.mkdir()
        for node in NODES:
            for path in config.gpu_files(plan, node):
                Path(path).parent.mkdir(exist_ok=True)
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # /dev/null by another name
                os.chmod(path, 0o666)
        (plan.folder / "state").mkdir()
        slurm = _ids_of("slurm", plan.inside("/etc/passwd"))
        os.chown(plan.folder / "state", *slurm)
        os.chown(plan.run, *slurm)
        os.chown(plan.log, *slurm)
        (plan.etc / "slurm.conf").write_text(config.slurm_conf(plan))
        (plan.etc / "gres.conf").write_text(config.gres_conf(plan))
        (plan.etc / "cgroup.conf").write_text(config.cgroup_conf(plan))
        secret = plan.etc / "slurmdbd.conf"
        secret.touch(mode=0o600)
        secret.write_text(config.slurmdbd_conf(plan, password))
        os.chown(secret, *slurm)
        key = plan.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        setup = plan.folder / "database.sql"
        setup.touch(mode=0o600)
        setup.write_text(config.database_setup(password))
        shutil.chown(setup, "mysql")

    def _munged(self) -> list[str]:
        plan = self.plan
        return [
            *("munged", "--foreground", f"--key-file={plan.folder}/munge.key", "--num-threads=10"),
            *(f"--pid-file={plan.folder}/munged.pid", f"--seed-file={plan.folder}/munge.seed"),
            *("--force", f"--log-file={plan.folder}/munged.log"),
        ]

    def _install_database(self) -> None:
        folder = self.plan.folder / "database"
        folder.mkdir(mode=0o700)
        shutil.chown(folder, "mysql")
        command = [
            *("mariadb-install-db", "--no-defaults", f"--datadir={folder}", "--user=mysql", "--skip-test-db"),
            *("--auth-root-authentication-method=socket", "--skip-name-resolve", "--innodb-log-file-size=8M"),
            *NEVER_SYNC,
        ]
        answer = subprocess.run([which(command[0]), *command[1:]], capture_output=True, text=True, env=self.environ)
        if answer.returncode:
            raise TestbedError(f"mariadb-install-db: {answer.stderr}{answer.stdout}")

    def _mariadbd(self) -> list[str]:
        folder = self.plan.folder
        return [
            *("mariadbd", "--no-defaults", f"--datadir={folder}/database", "--user=mysql"),
            *(f"--socket={self.plan.database_socket}", f"--pid-file={folder}/database/pid"),
            *("--bind-address=127.0.0.1", f"--port={self.plan.ports['mariadbd']}", "--skip-name-resolve"),
            *(f"--init-file={folder}/database.sql", "--skip-log-bin", "--performance-schema=OFF"),
            # slurmdbd warns when these are smaller
            *("--innodb-buffer-pool-size=128M", "--innodb-log-file-size=64M", "--innodb-lock-wait-timeout=900"),
            *NEVER_SYNC,
        ]

    def _start(self, name: str, argv: list[str], *, of_host: bool = False, host_name: str | None = None) -> None:
        root = None if of_host or not self.plan.image else self.plan.root

        def enter() -> None:  # this process has one thread, so that work between fork and exec is safe
            if host_name:
                _own_host_name(host_name)
            if root:
                os.chroot(root)
                os.chdir("/")

        program = which(argv[0]) if root is None else _in_image(root, argv[0])
        with (self.plan.log / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environ,
                cwd="/",
                preexec_fn=enter,
                start_new_session=True,
            )
        self.started[process.pid] = name
        process.returncode = 0  # the init process collects it; Python's own bookkeeping would warn

    def _ask(self, argv: list[str], *, check: bool = True) -> str:
        root = [which("chroot"), str(self.plan.root)] if self.plan.image else []
        answer = subprocess.run([*root, *argv], capture_output=True, text=True, env=self.environ, cwd="/")
        if check and answer.returncode:
            raise TestbedError(f"{' '.join(argv)}: {answer.stderr}{answer.stdout}")
        return answer.stdout

    def _until(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_S
        while not ready():
            for pid, daemon in self.started.items():
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    raise TestbedError(f"{daemon} ended while it was waited for\n{self.tail(daemon)}")
            if time.monotonic() > deadline:
                raise TestbedError(f"{name} is not ready after {READY_S:.0f} s\n{self.tail(name)}")
            time.sleep(0.03)

    def tail(self, name: str) -> str:
        """The end of a daemon's log."""
        lines = (self.plan.log / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(f"  {name}: {line}" for line in lines[-15:])


def _answers(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0


def _ids_of(name: str, passwd: Path) -> tuple[int, int]:
    for line in passwd.read_text().splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return int(fields[2]), int(fields[3])
    raise TestbedError(f"no user {name}: Slurm's packages make it")


def _own_host_name(name: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUTS):
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname(name)


def _in_image(root: Path, program: str) -> str:
    for folder in ("usr/sbin", "usr/bin"):
        if (root / folder / program).exists():
            return f"/{folder}/{program}"
    raise TestbedError(f"{program} is missing in {root}")

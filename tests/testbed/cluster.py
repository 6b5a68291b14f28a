"""A real Slurm cluster in a temporary folder. See `Cluster`."""

import json
import os
import pwd
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.testbed import images, records, requirements, state
from tests.testbed.failure import TestbedError
from tests.testbed.plan import USERS, Plan
from tests.testbed.requirements import NAMESPACES, which

CHECKOUT = Path(__file__).resolve().parents[2]
START_S = 120.0
POLL_S = 0.1
SACCT_S = 30.0  # slurmctld sends to slurmdbd in the background


class Process(NamedTuple):
    """A process inside a cluster; `pid` is its number in there."""

    pid: int
    user: str
    argv: list[str]


class Cluster:
    """A cluster of munged, mariadbd, slurmdbd, slurmctld and the slurmds n1, n2, m1 and c1, in namespaces of its own.

    It ends with the process that started it, however that ends; a cluster made with `by_hand` stays until
    `python -m tests.testbed down`.
    """

    def __init__(self, current: state.State, image: Path | None, more: Sequence[Path] = ()) -> None:
        prefix, base = Path(sys.prefix), Path(sys.base_prefix)
        readable = {path for path in (CHECKOUT, prefix, prefix.resolve(), base, *more) if path != Path("/usr")}
        self._state = current
        own = None if image else os.environ.get(requirements.PREFIX_VARIABLE)
        self._plan = Plan(current.folder, current.version, image, current.ports, tuple(sorted(readable)), base, own)
        self._unshare: subprocess.Popen[str] | None = None

    @classmethod
    def running(cls, found: state.State) -> "Cluster":
        """A cluster that another process has started."""
        cluster = cls(found, None)
        cluster._plan = Plan.read(found.folder)
        return cluster

    @classmethod
    def start(cls, version: str | None = None, *, by_hand: bool = False, readable: Sequence[Path] = ()) -> "Cluster":
        """Start a cluster with this Slurm (None: the host's) and return when all of its nodes are idle.

        Its users can read the checkout, the running interpreter and the folders `readable`, wherever they lie.
        """
        host = requirements.host_version()
        if version is None and host is None:
            raise TestbedError(requirements.missing() or "no slurmctld")
        version = version or str(host)
        if problem := requirements.missing(slurm_of_host=version == host):
            raise TestbedError(problem)
        image = None if version == host else images.get(version)
        cluster = cls(state.create(version, by_hand=by_hand), image, readable)
        try:
            cluster._launch(by_hand=by_hand)
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def _launch(self, *, by_hand: bool) -> None:
        plan = self._plan
        if len(str(plan.database_socket)) > 100:
            raise TestbedError(f"{plan.folder} is too long for a socket: set SLURMGPU_TESTBED_DIR to a shorter one")
        plan.etc.mkdir(parents=True)
        plan.log.mkdir()
        plan.write()
        with (plan.log / "init.log").open("ab") as log:
            self._unshare = subprocess.Popen(
                [
                    *(which("unshare"), *NAMESPACES, "--fork", "--kill-child"),
                    *(sys.executable, "-m", "tests.testbed.init", str(plan.folder)),
                    *([] if by_hand else ["--owned"]),
                ],
                # a pipe into the init process: closed by the kernel when this process ends
                stdin=subprocess.DEVNULL if by_hand else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=CHECKOUT,
                env={"PATH": requirements.search_path(), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
                text=True,
                start_new_session=True,  # ^C is for the tests; the fixture then ends the cluster
            )
        for message in self._messages():
            if "pid" in message:
                init = state.Identity.of(message["pid"])
                self._state = self._state._replace(init=init)
                self._state.write()
            elif "error" in message:
                raise TestbedError(f"Slurm {self.version} does not start: {message['error']}")
            else:
                return
        log_text = (self._plan.log / "init.log").read_text()
        raise TestbedError(f"Slurm {self.version} does not start: its init process ended or hangs\n{log_text}")

    def _messages(self) -> Iterator[dict[str, Any]]:
        assert self._unshare
        assert self._unshare.stdout
        deadline = time.monotonic() + START_S
        with self._unshare.stdout as output:
            while select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                if not (line := output.readline()):
                    return
                yield json.loads(line)

    def stop(self) -> None:
        """End every process of the cluster and remove its folder."""
        self._state.remove()
        if self._unshare:
            if self._unshare.stdin:
                self._unshare.stdin.close()
            self._unshare.wait()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def version(self) -> str:
        """The version of Slurm as major.minor."""
        return self._plan.version

    @property
    def folder(self) -> Path:
        """The cluster's folder; `log/` has the daemons' logs."""
        return self._plan.folder

    @property
    def root(self) -> Path:
        """What the cluster's processes see as /, as the host sees it."""
        return self._plan.root

    @property
    def etc(self) -> Path:
        """What the cluster sees as /etc/slurm; `scontrol reconfigure` as root makes Slurm read it again."""
        return self._plan.etc

    def home(self, user: str) -> Path:
        """The home folder of a user: the same path inside and outside, readable by all."""
        return self._plan.home(user)

    def command(
        self,
        argv: Sequence[str | Path],
        user: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> list[str]:
        """The command line, for a process of one's own, that runs `argv` inside the cluster as `user`."""
        init = self._state.init
        if not init or not init.alive:
            raise TestbedError(f"the cluster in {self.folder} is not running (any more)")
        home = self.home(user)
        path = requirements.programs_of(self._plan.prefix) + "/usr/local/bin:/usr/bin:/bin"
        clean = {
            "PATH": f"/usr/local/sbin:/usr/sbin:/sbin:{path}" if user == "root" else path,
            **{"HOME": str(home), "USER": user, "LOGNAME": user, "SHELL": "/bin/bash", "LANG": "C.UTF-8"},
            "SLURM_CONF": "/etc/slurm/slurm.conf",
        }
        variables = [f"{name}={value}" for name, value in (clean | dict(env or {})).items()]
        chroot = [which("chroot"), str(self._plan.root)] if self._plan.image else []
        return [
            # a mount namespace entered from a chroot starts at the host's root, not at the chroot's
            *(which("nsenter"), f"--target={init.pid}", *NAMESPACES, "--root", "--", *chroot),
            *("/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"),
            *("/usr/bin/env", "--ignore-environment", f"--chdir={cwd or home}", *variables, *map(str, argv)),
        ]

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        user: str = "alice",
        input: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the login node. `env` is added to a clean environment; the umask is 022.

        Raises AssertionError, with everything that the command printed, after `timeout` seconds, and with `check`
        when the command fails.
        """
        content = input.encode(errors="surrogateescape") if isinstance(input, str) else input
        with subprocess.Popen(
            self.command(argv, user, env, cwd),
            stdin=subprocess.DEVNULL if content is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            umask=0o022,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(content, timeout)
            except subprocess.TimeoutExpired:
                # nsenter has a child inside: the group ends both, and the pipes with them
                os.killpg(process.pid, signal.SIGKILL)
                output, errors = process.communicate()
                raise AssertionError(_report(argv, f"ran longer than {timeout} s", output, errors)) from None
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if check and process.returncode:
            raise AssertionError(_report(argv, f"exit status {process.returncode}", output, errors))
        return subprocess.CompletedProcess(list(map(str, argv)), process.returncode, _text(output), _text(errors))

    def sbatch(self, script: str | bytes, *args: str, user: str = "alice", cwd: Path | None = None) -> int:
        """Submit a script through sbatch's standard input; the job's number."""
        answer = self.run(["sbatch", "--parsable", *args], user=user, input=script, cwd=cwd)
        return int(answer.stdout.split(";")[0])

    def jobs(self, job_id: int | str) -> list[dict[str, str]]:
        """The records of `scontrol show job`: one for a job, one for each known task of an array."""
        answer = self.run(["scontrol", "show", "job", "--oneliner", "--details", str(job_id)], user="root")
        return [records.parse_scontrol(line) for line in answer.stdout.splitlines() if line.startswith("JobId=")]

    def job(self, job_id: int | str) -> dict[str, str]:
        """The record of one job. Of an array it is the one that has the array's own number."""
        found = self.jobs(job_id)
        return next((record for record in found if record["JobId"] == str(job_id)), found[0])

    def wait(self, job_id: int, *, timeout: float = 90.0) -> dict[str, str]:
        """Wait until the job, with every task of an array, has ended; the record as of `job`."""
        deadline = time.monotonic() + timeout
        while not all(records.has_ended(record) for record in self.jobs(job_id)):
            if time.monotonic() > deadline:
                raise AssertionError(f"job {job_id} has not ended after {timeout} s: {self.jobs(job_id)}")
            time.sleep(POLL_S)
        return self.job(job_id)

    def sacct(self, job_id: int, *fields: str) -> list[dict[str, str]]:
        """The accounting rows of a job with its steps and earlier runs, final ones when the job has ended.

        Each row has `fields` (none: sacct's default ones) and State.
        """
        deadline = time.monotonic() + SACCT_S
        while True:
            jobs = self.jobs(job_id)
            ended = all(records.has_ended(job) for job in jobs)
            checks = self._sacct(job_id, ["JobID", "JobIDRaw", "State", "End", "QOS"])
            known = {row["JobIDRaw"] for row in checks if records.is_complete(row)}
            arrived = {job["JobId"] for job in jobs} <= known and all(map(records.is_complete, checks))
            if arrived and (not ended or all(map(records.is_final, checks))):
                return self._sacct(job_id, [*fields, "State"] if fields else [])
            if time.monotonic() > deadline:
                raise AssertionError(f"sacct does not show job {job_id} as it is after {SACCT_S} s: {checks}; {jobs}")
            time.sleep(POLL_S)

    def _sacct(self, job_id: int, fields: list[str]) -> list[dict[str, str]]:
        command = ["sacct", "-P", "-D", "-j", str(job_id), f"--delimiter={records.DELIMITER}"]
        formats = [f"--format={','.join(fields)}"] if fields else []
        return records.parse_sacct(self.run([*command, *formats], user="root").stdout, fields)

    def processes(self) -> list[Process]:
        """Every process of the cluster but dead ones that nobody has collected yet."""
        init = self._state.init
        if not init or not init.alive:
            return []
        namespace = os.readlink(f"/proc/{init.pid}/ns/pid")
        found = (_process(entry, namespace) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return sorted(process for process in found if process)


def _process(entry: Path, namespace: str) -> Process | None:
    try:
        if os.readlink(entry / "ns" / "pid") != namespace:
            return None
        status = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
        argv = (entry / "cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
    except OSError:  # it has ended meanwhile
        return None
    if status["State"][0] in "ZX":
        return None
    return Process(int(status["NSpid"].split()[-1]), _user(int(status["Uid"].split()[0])), argv)


def _user(uid: int) -> str:
    for user in USERS:
        if user.uid == uid:
            return user.name
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _text(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _report(argv: Sequence[str | Path], what: str, output: bytes, errors: bytes) -> str:
    parts = [f"{what}: {list(map(str, argv))}"]
    parts += [f"--- {name}\n{_text(text)}" for name, text in (("stdout", output), ("stderr", errors)) if text]
    return "\n".join(parts)

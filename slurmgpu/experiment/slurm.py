"""Runs Slurm's commands: bounded in time and in output, no shell, a clean environment, errors that name them."""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slurmgpu.errors import UnavailableError

DEFAULT_TIMEOUT_S = 20.0  # Slurm's own MessageTimeout is 10 s
TIMEOUT_VARIABLE = "SLURMGPU_TIMEOUT_S"
MAX_OUTPUT_BYTES = 512 * 1024 * 1024

# what changes the form of Slurm's output, or the cluster it speaks of
_FORMS = ("SLURM_TIME_FORMAT", "SLURM_JSON", "SLURM_YAML", "SLURM_CLUSTERS")
_FORM_PREFIXES = ("SCONTROL_", "SINFO_", "SACCT_", "SACCTMGR_", "SQUEUE_")


class Answer(NamedTuple):
    """What a command answered. `status` is its exit status."""

    output: str
    errors: str
    status: int


class Running:
    """A command that has been started; `answer` waits for its end. Several may run at once."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        input: str = "",
        environ: Mapping[str, str] | None = None,
        folder: str | None = None,
        timeout_s: float | None = None,
        name: str | None = None,
    ) -> None:
        self.argv = list(argv)
        self._name = name or self.argv[0]  # for messages
        self._words = name or " ".join(self.argv[:3])
        self._input = input.encode("utf-8", "surrogateescape")
        self._timeout_s = _timeout_s() if timeout_s is None else timeout_s
        self._deadline = time.monotonic() + self._timeout_s
        try:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_query_environment(os.environ) if environ is None else dict(environ),
                cwd=folder,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise UnavailableError(f"no {self.argv[0]} on PATH; is this a login node of the cluster?") from None
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            raise UnavailableError(f"{self._name} cannot be started: {error}") from None

    def answer(self) -> Answer:
        """The whole answer. Raises UnavailableError after the time-out, and for an endless output."""
        try:
            output, errors = self._communicate()
        finally:
            self.end()
        return Answer(_text(output), _text(errors), self._process.returncode)

    def end(self) -> None:
        """End the command with everything it started, where it still runs."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                with contextlib.suppress(OSError):  # what it never read cannot be delivered
                    pipe.close()

    def _communicate(self) -> tuple[bytes, bytes]:
        process = self._process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        os.set_blocking(process.stdin.fileno(), False)
        parts: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
        size = written = 0
        with selectors.DefaultSelector() as selector:
            for number in parts:
                selector.register(number, selectors.EVENT_READ)
            selector.register(process.stdin.fileno(), selectors.EVENT_WRITE)
            while selector.get_map():
                ready = selector.select(max(0.0, self._deadline - time.monotonic()))
                if not ready:
                    raise self._late()
                for key, _ in ready:
                    if key.fd not in parts:
                        written, is_done = _feed(key.fd, self._input, written)
                        if is_done:
                            selector.unregister(key.fd)
                            process.stdin.close()
                        continue
                    chunk = os.read(key.fd, 1 << 18)
                    if not chunk:
                        selector.unregister(key.fd)
                    parts[key.fd].append(chunk)
                    size += len(chunk)
                    if size > MAX_OUTPUT_BYTES:
                        raise UnavailableError(f"{self._name} wrote more than {MAX_OUTPUT_BYTES >> 20} MiB")
            try:
                process.wait(max(0.0, self._deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise self._late() from None
        return b"".join(parts[process.stdout.fileno()]), b"".join(parts[process.stderr.fileno()])

    def _late(self) -> UnavailableError:
        return UnavailableError(f"`{self._words}` did not answer within {self._timeout_s:g} s; is slurmctld up?")


def run(
    argv: Sequence[str],
    *,
    input: str = "",
    environ: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Answer:
    """Run one command to its end. Raises UnavailableError where it is missing, hangs, or cannot be started."""
    return Running(argv, input=input, environ=environ, timeout_s=timeout_s).answer()


def _timeout_s() -> float:
    """What a slow cluster may set; nonsense is no reason to fail."""
    try:
        wanted = float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT_S))
    except ValueError:
        return DEFAULT_TIMEOUT_S
    return wanted if 0 < wanted <= 600 else DEFAULT_TIMEOUT_S


def cluster_name() -> str:
    """The name of the cluster that commands speak to. Raises UnavailableError where slurmctld does not tell it."""
    answer = run(["scontrol", "show", "config"])
    if match := re.search(r"(?m)^ClusterName\s+= (\S+)$", answer.output):
        return match[1]
    words = next((line for line in answer.errors.splitlines() if line.strip()), "no ClusterName in its answer")
    raise UnavailableError(f"scontrol show config: {words[:200]}")


def _query_environment(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value for name, value in environ.items() if name not in _FORMS and not name.startswith(_FORM_PREFIXES)
    }
    # 0: lists of array tasks in full, not cut after 64 characters
    return kept | {"LC_ALL": "C.UTF-8", "SLURM_BITSTR_LEN": "0"}


def _feed(number: int, content: bytes, written: int) -> tuple[int, bool]:
    """Write what fits; where the reader has gone there is nothing left to do."""
    if written < len(content):
        try:
            written += os.write(number, content[written : written + 65536])
        except BlockingIOError:
            return written, False
        except BrokenPipeError:
            return len(content), True
    return written, written >= len(content)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")

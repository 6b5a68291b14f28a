"""The first process of a cluster's PID namespace: when it ends, the kernel ends every other one.

Started by `cluster.start`, under unshare, as `python -m tests.testbed.init FOLDER [--owned]`. Speaks one JSON object
per line on its standard output: `pid` at once, then `ready` or `error`.
"""

import json
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path

from tests.testbed import mounts
from tests.testbed.daemons import Daemons
from tests.testbed.failure import TestbedError
from tests.testbed.plan import LOGIN_NODE, Plan


def main() -> None:
    """Bring the cluster up, then collect dead processes for as long as the owner lives."""
    os.umask(0o022)
    plan = Plan.read(Path(sys.argv[1]))
    # /proc is still the one of the world outside, in which the owner knows us
    _say(pid=int(os.readlink("/proc/self")))
    try:
        socket.sethostname(LOGIN_NODE)
        mounts.prepare(plan)
        daemons = Daemons(plan)
        daemons.start_all()
    except TestbedError as error:
        _say(error=str(error))
        sys.exit(1)
    except BaseException:
        _say(error=traceback.format_exc())
        sys.exit(1)
    _say(ready=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _collect(daemons, owned="--owned" in sys.argv)


def _say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def _collect(daemons: Daemons, *, owned: bool) -> None:
    """Until the owner goes. The owner holds the other end of the pipe that is our standard input.

    A parent-death signal would not do: it comes when the *thread* ends that started us.
    """
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    sources = [woken, 0] if owned else [woken]
    while True:
        _reap(daemons)
        readable, _, _ = select.select(sources, [], [])
        if 0 in readable:
            return
        os.read(woken, 4096)


def _reap(daemons: Daemons) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if name := daemons.started.pop(pid, None):
            print(f"{name} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""The test-bed by hand: `python -m tests.testbed up|down|shell|status`."""

import argparse
import os
import sys
import time

from tests.testbed import images, requirements, state
from tests.testbed.cluster import Cluster
from tests.testbed.failure import TestbedError
from tests.testbed.plan import USERS

EXAMPLES = """examples:
  python -m tests.testbed up                     start a cluster with the Slurm of this machine
  python -m tests.testbed up --slurm 24.11       the same with another Slurm (its image is built the first time)
  python -m tests.testbed shell                  a shell on the login node as alice
  python -m tests.testbed shell --user root      the same as root, to change the cluster
  python -m tests.testbed shell -- srun --gres=gpu:2 env
  python -m tests.testbed status
  python -m tests.testbed down                   end the clusters that `up` started, and remove what crashed runs left

environment:
  SLURMGPU_TESTBED_DIR    the folder for clusters (default /var/tmp/slurmgpu-testbed); users must be able to enter it
  SLURMGPU_TESTBED_CACHE  the folder for images of other Slurm versions (default /var/cache/slurmgpu-testbed)
  SLURMGPU_TESTBED_PREFIX a Slurm built from source (--prefix=..., --sysconfdir=/etc/slurm, --enable-multiple-slurmd)
                          in place of the host's

The cluster has its own /tmp. What it shall share with the world outside goes into a user's home (see `status`).
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.testbed",
        description="A real Slurm cluster with fake GPUs in a temporary folder. Needs root; leaves nothing behind.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    known = ", ".join(filter(None, [requirements.host_version(), *images.SUITES]))
    slurm = argparse.ArgumentParser(add_help=False)
    slurm.add_argument("--slurm", metavar="VERSION", help=f"the version of Slurm: one of {known}")
    commands.add_parser("up", parents=[slurm], help="start a cluster and leave it running")
    commands.add_parser("down", parents=[slurm], help="end what `up` started (with --slurm only that one)")
    shell = commands.add_parser("shell", parents=[slurm], help="a shell, or one command, in the running cluster")
    shell.add_argument("--user", default="alice", choices=[*(user.name for user in USERS), "root"])
    shell.add_argument("argv", nargs="*", metavar="-- CMD ARGS", help="a command instead of a shell")
    commands.add_parser("status", help="the clusters of this machine")
    return parser


def main() -> int:
    """Run one command; the exit status."""
    arguments = _parser().parse_args()
    try:
        if arguments.command == "up":
            return _up(arguments.slurm)
        if arguments.command == "down":
            return _down(arguments.slurm)
        if arguments.command == "shell":
            return _shell(arguments.slurm, arguments.user, arguments.argv)
        return _status()
    except TestbedError as error:
        print(error, file=sys.stderr)
        return 1


def _up(version: str | None) -> int:
    begun = time.monotonic()
    cluster = Cluster.start(version, by_hand=True)
    print(f"Slurm {cluster.version} is up after {time.monotonic() - begun:.1f} s in {cluster.folder}")
    print("next: python -m tests.testbed shell")
    return 0


def _down(version: str | None) -> int:
    if os.geteuid() != 0:
        raise TestbedError("this needs root")
    removed = state.sweep()
    for found in state.all_states():
        if found.by_hand and found.init and version in {None, found.version}:
            found.remove()
            removed.append(found.folder)
    for folder in removed:
        print(f"removed {folder}")
    if not removed:
        print("nothing to remove")
    return 0


def _shell(version: str | None, user: str, argv: list[str]) -> int:
    running = [found for found in state.all_states() if found.init and found.init.alive]
    running = [found for found in running if version in {None, found.version}]
    # a cluster of running tests is worth a look too, but the one made by hand is meant first
    chosen = [found for found in running if found.by_hand] or running
    if not chosen:
        raise TestbedError("no such cluster is running: python -m tests.testbed up")
    if len(chosen) > 1:
        raise TestbedError(f"choose one with --slurm: {', '.join(found.version for found in chosen)} are running")
    kept = {name: os.environ[name] for name in ("TERM",) if name in os.environ}
    command = Cluster.running(chosen[0]).command(argv or ["bash", "--login"], user, kept)
    os.umask(0o022)
    os.execv(command[0], command)


def _status() -> int:
    clusters = state.all_states()
    for found in clusters:
        owner = "made by hand" if found.by_hand else f"of process {found.starter.pid}"
        condition = "running" if found.init and found.init.alive else "starting"
        if not found.in_use:
            condition = "left behind (`down` removes it)"
        print(f"Slurm {found.version}  {condition}, {owner}, in {found.folder} (homes in home/, logs in log/)")
    if not clusters:
        print("no cluster")
    return 0


if __name__ == "__main__":
    sys.exit(main())

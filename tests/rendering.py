"""Helpers of the tests that render: a spec as a mapping in, a script out, and a bash to run it without Slurm."""

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import yaml

from slurmgpu.experiment import command
from slurmgpu.experiment.render import Script

FOLDER = "/home/alice/exp"
ENVIRON = {"HOME": "/home/alice"}

_SRUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"""
_SCONTROL = """#!/bin/sh
echo n1
echo n2
"""
# writes its arguments and its environment as they are, each ended by a NUL
_DUMP = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word"; done >"$DUMP_TO.argv"
cat /proc/self/environ >"$DUMP_TO.env"
"""
# torchrun's two modules: one writes its arguments as dump does, or fails as ranks did: RANKS holds what each ended
# with and when
_TORCH_ERRORS = """
from types import SimpleNamespace

class ChildFailedError(Exception):
    @property
    def failures(self):
        ended = [pair.split("@") for pair in self.args[0].split()]
        return {rank: SimpleNamespace(exitcode=int(code), timestamp=int(at)) for rank, (code, at) in enumerate(ended)}
"""
_TORCHRUN = """
import os, subprocess, sys
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

def main():
    if "RANKS" in os.environ:
        raise ChildFailedError(os.environ["RANKS"])
    sys.exit(subprocess.call(["dump", *sys.argv[1:]]))
"""


def render(spec: dict[str, Any], **request: Any) -> Script:
    """The script of `spec`, rendered in FOLDER through the whole path from YAML text on."""
    content = yaml.safe_dump(spec, allow_unicode=False, sort_keys=False).encode()
    return command.render(command.Request("-", content, **request), FOLDER, ENVIRON)


def text(spec: dict[str, Any], **request: Any) -> str:
    """The text of the script of `spec`."""
    return render(spec, **request).text


def directives(spec: dict[str, Any], **request: Any) -> dict[str, str | None]:
    """The directives of the script of `spec`, as Slurm's rules read them."""
    from slurmgpu.experiment.header import read_header

    found: dict[str, str | None] = {}
    for line in read_header(text(spec, **request)):
        for argument in line.arguments:
            name, equals, value = argument.removeprefix("--").partition("=")
            assert name not in found, f"--{name} stands twice"
            found[name] = value if equals else None
    return found


class Bash:
    """Runs a rendered script with stand-ins for srun, scontrol and torchrun, and shows what the program got."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = str(folder / "dump")
        for name, content in (("srun", _SRUN), ("scontrol", _SCONTROL), ("dump", _DUMP)):
            path = folder / name
            path.write_text(content)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        errors = folder / "torch/distributed/elastic/multiprocessing/errors.py"
        errors.parent.mkdir(parents=True)
        errors.write_text(_TORCH_ERRORS)
        (folder / "torch/distributed/run.py").write_text(_TORCHRUN)

    def run(self, script: str, nodes: int = 1, gpus: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        """The script's end, as in a job of `nodes` nodes with `gpus` GPUs each."""
        environ = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "DUMP_TO": str(self.folder / "out"),
            "PYTHONPATH": str(self.folder),
            "SLURM_JOB_ID": "1234",
            "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURMD_NODENAME": "n1",
            "SLURM_CPUS_ON_NODE": "8",
            "SLURM_PROCID": "0",
            "SLURM_LOCALID": "0",
            "SLURM_NODEID": "0",
            "SLURM_NTASKS": str(nodes),
        } | ({"SLURM_GPUS_ON_NODE": str(gpus)} if gpus else {})
        for left in self.folder.glob("out.*"):
            left.unlink()
        return subprocess.run(
            ["bash"],
            input=script,
            env=environ | variables,
            cwd=self.folder,
            text=True,
            capture_output=True,
            errors="surrogateescape",
            timeout=30,
        )

    @property
    def argv(self) -> list[str]:
        """The arguments that the program was started with."""
        return self._read("argv")

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the program."""
        return dict(entry.split("=", 1) for entry in self._read("env"))

    def _read(self, what: str) -> list[str]:
        content = (self.folder / f"out.{what}").read_bytes().decode("utf-8", "surrogateescape")
        return content.split("\0")[:-1]

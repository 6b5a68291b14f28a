"""The README's walk-through, its commands in their order, on a real Slurm."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.slurm.test_checkpoint import ended, until

pytestmark = pytest.mark.once
ROOT = Path(__file__).parent.parent.parent
SECTION = (ROOT / "README.md").read_text().split("## A walk-through\n")[1].split("\n## ")[0]
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]
SPEC = re.search(r"```yaml\n(.*?)```", SECTION, re.DOTALL)[1]


def test_from_init_to_resubmit(cluster):
    pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")
    assert [line.split()[1] for line in COMMANDS] == ["init", "check", "render", "submit", "resubmit", "resubmit"]
    home = cluster.home("alice")
    shutil.copy(ROOT / "examples" / "train_resume.py", home)
    (home / "train_resume.py").chmod(0o644)

    def shell(line, *, like=0):
        programs = Path(sys.executable).parent
        answer = cluster.run(["bash", "-c", f"PATH={programs}:$PATH; {line}"], check=False)
        assert answer.returncode == like, answer.stderr + answer.stdout
        return answer

    shell(COMMANDS[0])
    assert "sweep:" in (home / "digits.yaml").read_text()
    # fewer and slower steps, and a virtual environment that is here
    spec = SPEC.replace("--steps 40000", "--steps 40 --step-time 0.2 --record done-{lr}.txt")
    spec = spec.replace("~/venvs/torch", sys.prefix).replace("8G", "2G")
    (home / "digits.yaml").write_text(spec.replace("gpus: 1", "gpus: 8"))
    refused = shell(COMMANDS[1], like=1).stdout
    assert "8 GPUs a node asked for" in refused
    assert "nearest that fits: `gpus: 4` (digits.yaml:3:7)" in refused
    (home / "digits.yaml").write_text(spec)
    assert shell(COMMANDS[1]).stdout.endswith("\nno check fails\n")
    assert "\n#: sweep" in shell(COMMANDS[2]).stdout

    # a folder is in the way of what the second point saves
    (home / "last-0.01.pt.tmp").mkdir()
    number = shell(COMMANDS[3]).stdout.strip()
    until(lambda: len((home / "done-0.1.txt").read_text().split()) > 3 if (home / "done-0.1.txt").exists() else False,
          "steps of the first point", 60)  # fmt: skip
    cluster.run(["scancel", "--batch", "--signal=USR1", f"{number}_0"])
    ended(cluster, number)
    states = {record["ArrayTaskId"]: (record["JobState"], record["Restarts"]) for record in cluster.jobs(number)}
    assert states == {"0": ("COMPLETED", "1"), "1": ("FAILED", "0"), "2": ("COMPLETED", "0")}
    log = (home / "logs" / f"digits-{number}_0.out").read_text()
    for line in ("slurmgpu: point 0 of 0-2: lr=0.1\n", "start 0: from step 0\n", ": the program is told to save and",
                 "stopped after step ", "slurmgpu: saved and stopped; requeued as restart 1 of at most 10\n",
                 "start 1: from step "):  # fmt: skip
        assert line in log

    (home / "last-0.01.pt.tmp").rmdir()
    dry, again = (line.replace("12", number) for line in COMMANDS[4:])
    assert f"{number}_1" in shell(dry).stderr + shell(dry).stdout
    (other,) = shell(again).stdout.split()
    ended(cluster, other)
    assert {record["JobState"] for record in cluster.jobs(other)} == {"COMPLETED"}
    logs = "".join(path.read_text() for path in (home / "logs").iterdir())
    assert len(set(re.findall(r"parameter checksum (-?\d+)", logs))) == 3, "the points do not differ"
    for rate in ("0.1", "0.01", "0.001"):
        steps = [int(step) for step in (home / f"done-{rate}.txt").read_text().split()]
        # the point that failed did its steps, and could not save
        assert steps == (list(range(40)) * 2 if rate == "0.01" else list(range(40)))

"""`slurmgpu import`, the command: what goes where, exit codes."""

import subprocess
import sys

import pytest

SCRIPT = "#!/bin/bash\n#SBATCH --gpus=1 --gpu-bind=none\n#SBATCH --time=1:00:00\npython3 train.py --lr 3e-4\n"


def slurmgpu(folder, *arguments, content=b""):
    environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, "-m", "slurmgpu", *arguments], input=content, cwd=folder, env=environ,
        capture_output=True, timeout=60,
    )  # fmt: skip


def test_the_spec_is_on_stdout_and_notes_on_stderr(tmp_path):
    (tmp_path / "train.sh").write_text(SCRIPT)
    ended = slurmgpu(tmp_path, "import", "train.sh")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.decode() == (
        "name: train.sh\ncommand: python3 train.py --lr 3e-4\nlauncher: python\ngpus_per_node: 1\n"
        'time: "1:00:00"\noutput: slurm-%j.out\n'
    )
    notes = ended.stderr.decode().splitlines()
    assert notes[0].startswith("slurmgpu: train.sh: it says neither --requeue nor --no-requeue")
    assert notes[1].startswith("slurmgpu: train.sh:2: --gpu-bind is not carried over: ")
    assert len(notes) == 2


def test_from_stdin_to_a_file_and_through_render(tmp_path):
    ended = slurmgpu(tmp_path, "import", "-", "-o", "x.yaml", content=SCRIPT.encode())
    assert (ended.returncode, ended.stdout) == (0, b"")
    ended = slurmgpu(tmp_path, "render", "x.yaml")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.decode().splitlines()
    assert "#SBATCH --job-name=sbatch" in lines
    assert "#SBATCH --gres=gpu:1" in lines
    assert f"#SBATCH --output={tmp_path}/slurm-%j.out" in lines


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "x.sh: is empty"),
        (b"#!/usr/bin/python3\n", "x.sh:1:1: is for python3"),
        (b"#!/bin/bash\n\0", "x.sh:2:1: holds a NUL"),
        (b"#!/bin/bash\necho \xff\n", "x.sh: there is no spec for this script: it holds bytes that are no UTF-8"),
        (b"#!/bin/bash\n" + b"date\n" * 300_000, "x.sh: there is no spec for this script: "),
        (b"#!/bin/bash\n#SBATCH hetjob\n:\n", "x.sh:2:1: is a heterogeneous job"),
    ],
)
def test_bad_input_writes_nothing(tmp_path, content, words):
    (tmp_path / "x.sh").write_bytes(content)
    ended = slurmgpu(tmp_path, "import", "x.sh", "-o", "y.yaml")
    assert ended.returncode == 2
    assert ended.stderr.decode().startswith(f"slurmgpu: {words}")
    assert not (tmp_path / "y.yaml").exists()


def test_a_file_that_is_not_there(tmp_path):
    ended = slurmgpu(tmp_path, "import", "x.sh")
    assert ended.returncode == 2
    assert b"x.sh: cannot be read" in ended.stderr

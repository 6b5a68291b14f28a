"""Slurm's commands are run bounded: missing, hanging, endless, deaf ones give a clear error and no leftover."""

import os
import time
from pathlib import Path

import pytest

from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import slurm


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(name, text):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return name

    return write


def test_input_output_errors_and_status(program):
    answer = slurm.run([program("scontrol", "cat; echo bad >&2; exit 3")], input="show config\n" * 50_000)
    assert answer == ("show config\n" * 50_000, "bad\n", 3)


def test_a_missing_command_is_named():
    with pytest.raises(UnavailableError, match="no scontrol-of-nowhere on PATH"):
        slurm.run(["scontrol-of-nowhere"])


def test_a_command_that_cannot_be_started_is_named(tmp_path):
    (tmp_path / "sbatch").write_text("#!/bin/sh\n")
    with pytest.raises(UnavailableError, match="sbatch cannot be started: .*Permission denied"):
        slurm.run([str(tmp_path / "sbatch")])


def test_a_hanging_command_is_ended_with_its_children(program, tmp_path):
    name = program("scontrol", f"sleep 1000 & echo $! >{tmp_path}/child; echo half; wait")
    started = time.monotonic()
    with pytest.raises(UnavailableError, match="`scontrol show node` did not answer within 0.5 s; is slurmctld up"):
        slurm.run([name, "show", "node"], timeout_s=0.5)
    assert time.monotonic() - started < 5
    child = int((tmp_path / "child").read_text())
    for _ in range(50):
        try:
            state = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            break
        if state == "Z":
            break
        time.sleep(0.1)
    else:
        pytest.fail("the child lives")


def test_endless_output_ends(program, monkeypatch):
    monkeypatch.setattr(slurm, "MAX_OUTPUT_BYTES", 1 << 20)
    with pytest.raises(UnavailableError, match="scontrol wrote more than 1 MiB"):
        slurm.run([program("scontrol", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done")])


def test_a_command_that_reads_nothing_does_not_hang(program):
    assert slurm.run([program("scontrol", "echo done")], input="x" * 1_000_000).output == "done\n"


def test_variables_that_change_the_output_are_not_handed_on(program, monkeypatch):
    for name in ("SLURM_TIME_FORMAT", "SINFO_FORMAT", "SCONTROL_ALL", "SLURM_CLUSTERS", "SACCT_FORMAT"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("SLURM_CONF", "/somewhere")
    seen = slurm.run([program("sinfo", "env")]).output
    assert "SLURM_CONF=/somewhere\n" in seen
    assert not {"SLURM_TIME_FORMAT", "SINFO_FORMAT", "SCONTROL_ALL", "SLURM_CLUSTERS", "SACCT_FORMAT"} & {
        line.partition("=")[0] for line in seen.splitlines()
    }


def test_several_run_at_the_same_time(program):
    name = program("slow", "sleep 0.5; echo x")
    started = time.monotonic()
    running = [slurm.Running([name]) for _ in range(4)]
    assert [one.answer().output for one in running] == ["x\n"] * 4
    assert time.monotonic() - started < 1.5


def test_bytes_that_are_no_utf8_arrive(program):
    assert slurm.run([program("x", "printf '\\377'")]).output.encode("utf-8", "surrogateescape") == b"\xff"

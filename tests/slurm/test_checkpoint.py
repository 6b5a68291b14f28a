"""checkpoint on a real Slurm: warned, saved, requeued, resumed; capped, cancelled, preempted; a task of an array."""

import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.slurm.jobs import log, send, submit
from tests.testbed import records

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SMALL = {"mem": "100M", "time": "5m", "cpus_per_task": 1, "partition": "all"}


def ended(cluster, job, timeout=150):
    """Wait for the end over all requeues. Slurm holds a requeued job back for two minutes, unless told not to."""
    deadline = time.monotonic() + timeout
    while not all(map(records.has_ended, found := cluster.jobs(job))):
        assert time.monotonic() < deadline, found
        for record in found:
            if record["JobState"] == "PENDING" and record["Restarts"] != "0" and record["Reason"] == "BeginTime":
                cluster.run(["scontrol", "update", f"JobId={name(record)}", "StartTime=now"], check=False)
        time.sleep(0.3)
    return cluster.job(job)


def name(record):
    task = record.get("ArrayTaskId")
    return f"{record['ArrayJobId']}_{task}" if task else record["JobId"]


def until(condition, what, timeout=60):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def lines(path):
    return path.read_text().split() if path.exists() else []


@pytest.fixture
def home(cluster):
    folder = cluster.home("alice")
    for path in (*folder.glob("*.txt"), *folder.glob("*.pt")):
        path.unlink()
    return folder


def no_flags_are_left(home):
    assert list(home.glob(".slurmgpu-*")) == []


class TestTorchrun:
    """Two nodes of two ranks; each step that was done is a line of steps.txt."""

    @pytest.fixture
    def training(self, cluster, home):
        pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")
        shutil.copy(EXAMPLES / "train_resume.py", home)
        (home / "train_resume.py").chmod(0o644)
        return {
            "nodes": 2,
            "gpus_per_node": 2,
            "cpus_per_gpu": 1,
            "mem_per_gpu": "2G",
            "venv": sys.prefix,
            "env": {"GLOO_SOCKET_IFNAME": "lo"},
            "checkpoint": {"resume_args": ["--resume", "last.pt"]},
        }

    def check(self, cluster, home, record, steps, starts):
        text = log(cluster, record)
        assert (record["JobState"], record["ExitCode"]) == ("COMPLETED", "0:0"), text
        assert lines(home / "steps.txt") == [str(step) for step in range(steps)], text
        # one log: each start goes on where the one before has stopped
        stops = [int(step) for step in re.findall(r"stopped after step (\d+)", text)]
        begins = [(int(start), int(step)) for start, step in re.findall(r"start (\d+): from step (\d+)", text)]
        assert begins == [(start, step) for start, step in enumerate([0, *(stop + 1 for stop in stops)])], text
        assert text.count(f"all {steps} steps done") == 1
        assert len(begins) >= starts
        assert record["Restarts"] == str(len(begins) - 1)
        no_flags_are_left(home)

    def test_two_nodes_save_are_requeued_and_lose_no_step(self, cluster, home, training):
        command = "train_resume.py --steps 30 --step-time 0.3 --record steps.txt"
        job = submit(cluster, training | {"command": command, "time": "10m", "name": "twice"})
        until(lambda: len(lines(home / "steps.txt")) >= 3, "the third step", 90)
        # what slurmctld does before the time limit, at once
        cluster.run(["scancel", "--batch", "--signal=USR1", str(job.id)])
        self.check(cluster, home, ended(cluster, job.id), 30, starts=2)

    @pytest.mark.once
    def test_more_work_than_the_time_limit_is_done_in_several_starts(self, cluster, home, training):
        """A limit of one minute, and steps that take longer in all; Slurm's own warnings."""
        command = "train_resume.py --steps 60 --step-time 1 --record steps.txt"
        spec = training | {"command": command, "time": "1m", "name": "long"}
        spec["checkpoint"] = spec["checkpoint"] | {"lead_time": "15s"}
        job = submit(cluster, spec)
        self.check(cluster, home, ended(cluster, job.id, 400), 60, starts=2)
        states = [row["State"] for row in cluster.sacct(job.id, "JobID") if row["JobID"] == str(job.id)]
        assert states == ["REQUEUED"] * (len(states) - 1) + ["COMPLETED"]


def test_the_warning_before_the_time_limit_reaches_every_rank_of_srun(cluster, home):
    """Slurm's own, of a job of one minute; programs with a handler of their own."""
    program = (
        "import os, signal, sys, time\n"
        "rank, start = os.environ['RANK'], os.environ.get('SLURM_RESTART_COUNT', '0')\n"
        "def save(*_):\n"
        "    open(f'saved{start}-{rank}.txt', 'w').write(' '.join(sys.argv[1:]))\n"
        "    os._exit(0)\n"
        "signal.signal(signal.SIGUSR1, save)\n"
        "if start == '1': open(f'again-{rank}.txt', 'w').write(' '.join(sys.argv[1:])); sys.exit(0)\n"
        "time.sleep(300)\n"
    )
    spec = SMALL | {"command": ["python3", "-c", program], "launcher": "srun", "ntasks_per_node": 2, "time": "1m"}
    spec |= {"nodes": 2, "checkpoint": {"lead_time": "50s", "resume_args": ["--resume", "a b"]}}
    job = submit(cluster, spec)
    record = ended(cluster, job.id)
    text = log(cluster, record)
    assert record["JobState"] == "COMPLETED", text
    assert text.count("slurmgpu: USR1 at ") == 1
    saved = {path.name: path.read_text() for path in home.glob("saved*.txt")}
    assert saved == {f"saved0-{rank}.txt": "" for rank in range(4)}
    assert {path.read_text() for path in home.glob("again-*.txt")} == {"--resume a b"}
    no_flags_are_left(home)


def test_the_cap_ends_an_endless_loop(cluster, home):
    spec = SMALL | {"command": 'echo x >>ran.txt; >"$SLURMGPU_STOP_FILE"', "launcher": "shell"}
    job = submit(cluster, spec | {"checkpoint": {"max_restarts": 2}})
    record = ended(cluster, job.id)
    text = log(cluster, record)
    assert (record["JobState"], record["ExitCode"], record["Restarts"]) == ("FAILED", "1:0", "2"), text
    assert lines(home / "ran.txt") == ["x"] * 3
    assert text.count("slurmgpu: saved, but not requeued: this was restart 2, and checkpoint.max_restarts is 2") == 1
    # and not by hand either, nor by Slurm after a node failure
    cluster.run(["scontrol", "requeue", str(job.id)])
    record = ended(cluster, job.id)
    assert record["JobState"] == "FAILED"
    assert "slurmgpu: this would be restart 3" in log(cluster, record)
    assert lines(home / "ran.txt") == ["x"] * 3
    no_flags_are_left(home)


@pytest.mark.parametrize("launcher", ["srun", "shell"])
def test_scancel_is_final_even_if_the_program_saves_then(cluster, home, launcher):
    program = 'trap "echo saved >>saved.txt; exit 0" TERM; echo x >>ran.txt; while :; do sleep 0.2; done'
    spec = SMALL | {"command": ["bash", "-c", program] if launcher == "srun" else program, "launcher": launcher}
    job = submit(cluster, spec | {"checkpoint": {}})
    until(lambda: lines(home / "ran.txt"), "the start")
    cluster.run(["scancel", str(job.id)])
    record = cluster.wait(job.id)
    time.sleep(1)
    record = cluster.job(job.id)
    assert (record["JobState"], record["Restarts"]) == ("CANCELLED", "0"), log(cluster, record)
    assert lines(home / "ran.txt") == ["x"]


def test_of_an_array_the_task_that_needs_it_starts_twice_and_no_other(cluster, home):
    command = (
        'echo "$SWEEP_A" >>ran.txt\n'
        '[ "$SWEEP_A" != b ] || [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || >"$SLURMGPU_STOP_FILE"\n'
        'echo "$SWEEP_A" >>end.txt'
    )
    spec = SMALL | {"command": command, "launcher": "shell", "sweep": {"a": ["a", "b", "c"]}, "checkpoint": {}}
    (job,) = send(cluster, "three", spec)
    ended(cluster, job)
    found = {record["ArrayTaskId"]: (record["JobState"], record["Restarts"]) for record in cluster.jobs(job)}
    assert found == {"0": ("COMPLETED", "0"), "1": ("COMPLETED", "1"), "2": ("COMPLETED", "0")}
    assert sorted(lines(home / "ran.txt")) == ["a", "b", "b", "c"]
    text = (home / f"three-{job}_1.out").read_text()
    assert text.count("slurmgpu: point 1 of 0-2: a=b\n") == 2
    no_flags_are_left(home)


def test_a_failing_program_is_not_requeued(cluster, home):
    spec = SMALL | {"command": "sh -c '>\"$SLURMGPU_STOP_FILE\"; exit 3'", "launcher": "python", "checkpoint": {}}
    job = submit(cluster, spec)
    record = ended(cluster, job.id)
    assert (record["JobState"], record["ExitCode"], record["Restarts"]) == ("FAILED", "3:0", "0"), log(
        cluster, record
    )

"""checkpoint on a real Slurm: warned, saved, requeued, resumed; capped, cancelled, preempted; a task of an array."""

import os
import re
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.slurm.jobs import log, send, submit
from tests.testbed import records

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SMALL = {"mem": "100M", "time": "10m", "cpus_per_task": 1, "partition": "all"}


def ended(cluster, job, timeout=150):
    """Wait for the end over all requeues."""
    deadline = time.monotonic() + timeout
    while not all(map(records.has_ended, found := cluster.jobs(job))):
        assert time.monotonic() < deadline, found
        for record in found:
            let_start(cluster, record)
        time.sleep(0.3)
    return cluster.job(job)


def let_start(cluster, record):
    """Slurm holds a requeued job back for two minutes; its owner can lift that."""
    if record["JobState"] == "PENDING" and record["Restarts"] != "0" and record["Reason"] == "BeginTime":
        task = record.get("ArrayTaskId")
        name = f"{record['ArrayJobId']}_{task}" if task else record["JobId"]
        time.sleep(2)  # a job that starts in the second of its requeue fails: "Job credential revoked"
        cluster.run(["scontrol", "update", f"JobId={name}", "StartTime=now"], check=False)


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


def training(cluster, folder):
    """Two nodes of two ranks; each step that was done is a line of steps.txt."""
    pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")
    shutil.copy(EXAMPLES / "train_resume.py", folder)
    (folder / "train_resume.py").chmod(0o644)
    return {
        "nodes": 2,
        "gpus_per_node": 2,
        "cpus_per_gpu": 1,
        "mem_per_gpu": "2G",
        "venv": sys.prefix,
        "env": {"GLOO_SOCKET_IFNAME": "lo"},
        "checkpoint": {"resume_args": ["--resume", "last.pt"]},
    }


def all_steps_are_done_once(cluster, folder, record, steps, starts):
    text = log(cluster, record)
    assert (record["JobState"], record["ExitCode"]) == ("COMPLETED", "0:0"), text
    assert lines(folder / "steps.txt") == [str(step) for step in range(steps)], text
    # one log: each start goes on where the one before has stopped
    stops = [int(step) for step in re.findall(r"stopped after step (\d+)", text)]
    begins = [(int(start), int(step)) for start, step in re.findall(r"start (\d+): from step (\d+)", text)]
    assert begins == [(start, step) for start, step in enumerate([0, *(stop + 1 for stop in stops)])], text
    assert text.count(f"all {steps} steps done") == 1
    assert len(begins) >= starts
    assert record["Restarts"] == str(len(begins) - 1)
    no_flags_are_left(folder)


@pytest.fixture(scope="module")
def long_job(cluster):
    """Three minutes of work under a limit of one, with Slurm's own warnings; it runs beside the other tests."""
    folder = cluster.home("alice") / "long"
    folder.mkdir()
    owner = folder.parent.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    spec = training(cluster, folder) | {"chdir": "long", "time": "1m", "name": "long"}
    spec["command"] = "train_resume.py --steps 180 --step-time 1 --record steps.txt"
    spec["checkpoint"] = spec["checkpoint"] | {"lead_time": "20s"}
    job = submit(cluster, spec).id
    is_over = threading.Event()

    def lift():
        while not is_over.wait(1):
            let_start(cluster, cluster.job(job))

    thread = threading.Thread(target=lift)
    thread.start()
    yield job, folder
    is_over.set()
    thread.join()


@pytest.mark.once
def test_a_long_job_begins_before_the_other_tests(cluster, long_job):
    job, _ = long_job
    until(lambda: cluster.job(job)["JobState"] == "RUNNING", "the start")


def test_two_nodes_save_are_requeued_and_lose_no_step(cluster, home):
    command = "train_resume.py --steps 30 --step-time 0.3 --record steps.txt"
    job = submit(cluster, training(cluster, home) | {"command": command, "time": "10m", "name": "twice"})
    until(lambda: len(lines(home / "steps.txt")) >= 3, "the third step", 90)
    # what slurmctld does before the time limit, at once
    cluster.run(["scancel", "--batch", "--signal=USR1", str(job.id)])
    all_steps_are_done_once(cluster, home, ended(cluster, job.id), 30, starts=2)


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


SAVES = (
    'trap : USR1; echo "start ${SLURM_RESTART_COUNT:-0} $*" >>ran.txt; '
    '[ -z "$SLURM_RESTART_COUNT" ] || { : >"$SLURMGPU_FINISHED_FILE"; exit 0; }; '
    'while [ ! -e "$SLURMGPU_STOP_FILE" ]; do sleep 0.2; done; echo saved >>ran.txt'
)
RESUMES = SMALL | {
    "command": ["bash", "-c", SAVES, "program"],
    "launcher": "python",
    "checkpoint": {"resume_args": "--resume last.pt"},
}
TWO_STARTS = ["start 0 ", "start 1 --resume last.pt"]


def test_preempted_it_saves_first_and_goes_on_later(cluster, home):
    """preempt_send_user_signal: in its grace time a preempted job gets the signal that it asked for."""
    change = ["scontrol", "update"]
    cluster.run([*change, "PartitionName=cpu", "GraceTime=60"], user="root")
    cluster.run([*change, "PartitionName=all", "PriorityTier=10"], user="root")
    try:
        job = submit(cluster, RESUMES | {"partition": "cpu", "name": "low"})
        until(lambda: lines(home / "ran.txt"), "the start")
        other = ["sbatch", "--parsable", "--partition=all", "--nodelist=c1", "--exclusive", "--wrap=sleep 3"]
        urgent = int(cluster.run([*other, "--output=/dev/null"]).stdout)
        record = ended(cluster, job.id)
        assert record["JobState"] == "COMPLETED", log(cluster, record)
        ran = (home / "ran.txt").read_text().splitlines()
        assert ran[:3] == [TWO_STARTS[0], "saved", TWO_STARTS[1]]
        # 24.11 keeps the preemption's requeue for the end of the next start: "requeue per user/system request"
        assert ran[3:] in ([], ["start 2 --resume last.pt"])
        assert cluster.wait(urgent)["JobState"] == "COMPLETED"
    finally:
        cluster.run([*change, "PartitionName=cpu", "GraceTime=0"], user="root")
        cluster.run([*change, "PartitionName=all", "PriorityTier=1"], user="root")
    no_flags_are_left(home)


def test_after_a_node_failure_slurm_starts_it_again_and_it_resumes(cluster, home):
    job = submit(cluster, RESUMES | {"partition": "cpu", "name": "failed"})
    until(lambda: lines(home / "ran.txt"), "the start")
    cluster.run(["scontrol", "update", "NodeName=c1", "State=DOWN", "Reason=test"], user="root")
    try:
        until(lambda: cluster.job(job.id)["JobState"] == "PENDING", "the requeue")
    finally:
        # it may have come back by itself (ReturnToService)
        cluster.run(["scontrol", "update", "NodeName=c1", "State=RESUME"], user="root", check=False)
    record = ended(cluster, job.id)
    assert (record["JobState"], record["Restarts"]) == ("COMPLETED", "1"), log(cluster, record)
    assert (home / "ran.txt").read_text().splitlines() == TWO_STARTS
    no_flags_are_left(home)


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


@pytest.mark.once
def test_three_minutes_of_work_under_a_limit_of_one_lose_no_step(cluster, long_job):
    job, folder = long_job
    all_steps_are_done_once(cluster, folder, ended(cluster, job, 400), 180, starts=4)
    states = [row["State"] for row in cluster.sacct(job, "JobID") if row["JobID"] == str(job)]
    assert states == ["REQUEUED"] * (len(states) - 1) + ["COMPLETED"]

"""torchrun on two real Slurm nodes: the ranks meet, jobs do not, and a failure ends everything."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm.jobs import finish, log, submit

pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def ddp(cluster):
    """The DDP spec, with the example's program in alice's home and the tests' own environment."""
    home = cluster.home("alice")
    shutil.copy(EXAMPLES / "train_ddp.py", home)
    (home / "train_ddp.py").chmod(0o644)
    return {
        "command": "train_ddp.py --epochs 1",
        "nodes": 2,
        "gpus_per_node": 2,
        "cpus_per_gpu": 1,
        "mem_per_gpu": "2G",
        "time": "5m",
        "venv": sys.prefix,
        "env": {"GLOO_SOCKET_IFNAME": "lo"},
    }


def results(text):
    """What each rank printed at its end: rank of world, and the all-reduced number."""
    return {tuple(match[:2]): match[2] for match in re.findall(r"rank (\d+)/(\d+) all-reduced loss (\S+)", text)}


@pytest.mark.parametrize("rendezvous", ["c10d", "static"])
def test_every_rank_of_two_nodes_prints_the_same_number(cluster, ddp, rendezvous):
    record, text = finish(cluster, ddp | {"torchrun": {"rendezvous": rendezvous}})
    assert record["JobState"] == "COMPLETED", text
    found = results(text)
    assert set(found) == {(str(rank), "4") for rank in range(4)}, text
    assert len(set(found.values())) == 1
    assert record["NodeList"] == "n[1-2]"


@pytest.mark.once
def test_two_jobs_side_by_side_on_the_same_nodes_do_not_meet(cluster, ddp):
    jobs = [submit(cluster, ddp | {"command": f"train_ddp.py --epochs 1 --seed {seed}"}) for seed in (1, 2)]
    records = [cluster.wait(job.id) for job in jobs]
    texts = [log(cluster, record) for record in records]
    assert [record["JobState"] for record in records] == ["COMPLETED"] * 2, texts
    first, second = (results(text) for text in texts)
    assert set(first) == set(second) == {(str(rank), "4") for rank in range(4)}
    assert len(set(first.values())) == len(set(second.values())) == 1
    assert first != second  # other seeds, other numbers: neither saw the other's gradients
    assert records[0]["NodeList"] == records[1]["NodeList"] == "n[1-2]"
    # they ran at the same time
    assert records[1]["StartTime"] < records[0]["EndTime"]


@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_a_rank_that_exits_3_ends_the_job_and_leaves_nothing(cluster, ddp, launcher):
    # the others would train for minutes
    command = "train_ddp.py --epochs 100000 --fail-rank 3 --fail-code 3"
    job = submit(cluster, ddp | {"command": command, "launcher": launcher, "name": "failing"})
    record = cluster.wait(job.id)
    text = log(cluster, record)
    assert record["JobState"] == "FAILED", text
    assert results(text) == {}
    # what a person and `sacct` see of the code: the launcher's line, and a job that is not 0:0
    assert re.search(r"exitcode\s*: 3" if launcher == "torchrun" else r"task 3: Exited with exit code 3", text), text
    (row,) = [row for row in cluster.sacct(job.id, "JobID", "ExitCode") if row["JobID"] == str(job.id)]
    assert row["State"] == "FAILED"
    assert row["ExitCode"] != "0:0"
    ran = time.mktime(time.strptime(record["EndTime"], "%Y-%m-%dT%H:%M:%S")) - time.mktime(
        time.strptime(record["StartTime"], "%Y-%m-%dT%H:%M:%S")
    )
    assert ran < 60, text
    left = [process for process in cluster.processes() if "train_ddp.py" in process[2]]
    assert left == []


@pytest.mark.parametrize("launcher", ["python", "shell"])
def test_the_exit_code_of_one_process_is_the_job_s(cluster, launcher):
    command = "sh -c 'exit 3'" if launcher == "python" else "sh -c 'exit 3' | tee out.txt"
    record, text = finish(cluster, {"command": command, "launcher": launcher, "mem": "100M", "time": "5m"})
    assert (record["JobState"], record["ExitCode"]) == ("FAILED", "3:0"), text
    (row,) = [row for row in cluster.sacct(int(record["JobId"]), "JobID", "ExitCode") if "." not in row["JobID"]]
    assert row["ExitCode"] == "3:0"


def test_the_exit_code_of_a_rank_under_one_torchrun_is_the_job_s(cluster, ddp):
    # The other rank sleeps: in DDP it may die of the lost connection, and then either could give the code.
    program = "import os, sys, time\nsys.exit(3) if os.environ['RANK'] == '1' else time.sleep(600)\n"
    (cluster.home("alice") / "exit_3.py").write_text(program)
    record, text = finish(cluster, ddp | {"nodes": 1, "command": "exit_3.py"})
    assert (record["JobState"], record["ExitCode"]) == ("FAILED", "3:0"), text
    (row,) = [row for row in cluster.sacct(int(record["JobId"]), "JobID", "ExitCode") if "." not in row["JobID"]]
    assert row["ExitCode"] == "3:0"


@pytest.mark.once
def test_one_node_of_torchrun_and_srun_ranks_agree(cluster, ddp):
    """The same training by torchrun --standalone and by srun's ranks ends with the same number."""
    numbers = []
    for launcher in ("torchrun", "srun"):
        record, text = finish(cluster, ddp | {"nodes": 1, "launcher": launcher})
        assert record["JobState"] == "COMPLETED", text
        found = results(text)
        assert set(found) == {("0", "2"), ("1", "2")}, text
        numbers.extend(found.values())
    assert len(set(numbers)) == 1


@pytest.mark.once
def test_the_rendezvous_does_not_fall_back_when_the_port_is_taken(cluster, ddp):
    """Something else listens on the job's port: the job fails at once instead of joining it or waiting for ever."""
    next_id = submit(cluster, {"command": "true", "mem": "100M", "time": "5m"}, sbatch="--hold")
    cluster.run(["scancel", str(next_id.id)])
    port = 20100 + (next_id.id + 1) % 3900
    listen = f"import socket, time; s = socket.create_server(('', {port})); time.sleep(40)"
    held = submit(cluster, ddp, sbatch="--hold")
    assert held.id == next_id.id + 1
    other = subprocess.Popen(cluster.command(["python3", "-c", listen], "bob"))
    try:
        time.sleep(1)
        cluster.run(["scontrol", "release", str(held.id)], user="root")
        record = cluster.wait(held.id)
    finally:
        other.kill()
        other.wait()
    text = log(cluster, record)
    assert record["JobState"] == "FAILED", text
    assert re.search(r"EADDRINUSE|[Aa]ddress already in use", text), text


def test_a_missing_torchrun_is_one_clear_line(cluster, ddp):
    spec = {key: value for key, value in ddp.items() if key != "venv"}
    record, text = finish(cluster, spec)
    assert record["JobState"] == "FAILED"
    assert "slurmgpu: No module named 'torch'" in text
    assert "name the environment that has PyTorch in the spec" in text

"""The test-bed itself: the cluster is what its description says, and nothing of it stays behind."""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.testbed import Cluster, TestbedError, state
from tests.testbed.cluster import CHECKOUT
from tests.testbed.records import parse_scontrol

# starts a cluster, says where, and then waits to be killed
OWNER = """
import sys, time
from tests.testbed import Cluster
cluster = Cluster.start()
cluster.sbatch("#!/bin/sh\\nsleep 600 & setsid sleep 600 & wait")
print(cluster.folder, cluster._state.init.pid, flush=True)
time.sleep(600)
"""


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def processes_of(folder: Path) -> list[str]:
    """Command lines of this machine that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found


@pytest.fixture
def own_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for clusters that the running test-bed knows nothing of."""
    folder = state.root().with_name(f"{state.root().name}-{os.getpid()}")
    monkeypatch.setenv("SLURMGPU_TESTBED_DIR", str(folder))
    yield folder
    for found in state.all_states():
        found.remove()
    (folder / ".lock").unlink(missing_ok=True)
    folder.rmdir()


def test_version_is_the_one_asked_for(cluster: Cluster) -> None:
    said = cluster.run(["sinfo", "--version"]).stdout
    assert said.split()[1].startswith(f"{cluster.version}.")


def test_nodes_and_partitions(cluster: Cluster) -> None:
    nodes = cluster.run(["sinfo", "--noheader", "--Node", "--format=%N %c %m %G", "--partition=all"]).stdout
    assert set(nodes.splitlines()) == {
        "n1 32 64000 gpu:a100:4",
        "n2 32 64000 gpu:a100:4",
        "m1 16 64000 gpu:1g.10gb:4,gpu:a100_3g.20gb:2",
        "c1 16 64000 (null)",
    }
    partitions = cluster.run(["sinfo", "--noheader", "--format=%P %N %l"]).stdout
    assert set(partitions.splitlines()) == {
        "gpu* n[1-2] 2-00:00:00",
        "short n[1-2] 30:00",
        "mig m1 1-00:00:00",
        "cpu c1 1-00:00:00",
        "no n1 1-00:00:00",
        "all c1,m1,n[1-2] 1-00:00:00",
    }


def test_gpus_reach_the_job_and_the_accounting(cluster: Cluster) -> None:
    script = "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES $(hostname)\n"
    job_id = cluster.sbatch(script, "--gres=gpu:2", "--output=seen-%j", "--job-name=a|b LR=0.1")
    job = cluster.wait(job_id)
    assert job["JobState"] == "COMPLETED"
    assert job["JobName"] == "a|b LR=0.1"
    assert (cluster.home("alice") / f"seen-{job_id}").read_text().split() == ["0,1", "n1"]
    rows = cluster.sacct(job_id, "JobName", "AllocTRES", "State")
    assert rows[0]["JobName"] == "a|b LR=0.1"
    assert {"gres/gpu:a100=2", "gres/gpu=2"} <= set(rows[0]["AllocTRES"].split(","))
    assert {row["State"] for row in rows} == {"COMPLETED"}


@pytest.mark.parametrize("gres", ["gpu:1g.10gb:2", "gpu:a100_3g.20gb:1"])
def test_mig_types(cluster: Cluster, gres: str) -> None:
    job_id = cluster.sbatch("#!/bin/sh\ntrue\n", "-p", "mig", f"--gres={gres}", "--output=/dev/null")
    assert cluster.wait(job_id)["JobState"] == "COMPLETED"
    kind, count = gres.removeprefix("gpu:").split(":")
    assert f"gres/gpu:{kind}={count}" in cluster.sacct(job_id, "AllocTRES")[0]["AllocTRES"].split(",")


def test_account_with_a_leading_zero(cluster: Cluster) -> None:
    job_id = cluster.sbatch("#!/bin/sh\ntrue\n", "--account=03303560", "--qos=high", "--output=/dev/null")
    assert cluster.wait(job_id)["Account"] == "03303560"
    assert cluster.sacct(job_id, "Account", "QOS")[0] == {
        "Account": "03303560",
        "QOS": "high",
        "State": "COMPLETED",
    }


def test_account_of_another_user_is_refused(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match="Invalid account"):
        cluster.sbatch("#!/bin/sh\ntrue\n", "--account=physics", user="bob")


def test_nodes_know_each_other_and_themselves(cluster: Cluster) -> None:
    answer = cluster.run(["srun", "--nodes=2", "--label", "sh", "-c", "hostname; getent hosts n1 n2 m1 c1 login"])
    lines = answer.stdout.splitlines()
    assert {"0: n1", "1: n2"} <= set(lines)
    for node in ("n1", "n2", "m1", "c1", "login"):
        assert sum(node in line.split()[2:] for line in lines) == 2, lines


def test_waits_for_every_task_of_an_array(cluster: Cluster) -> None:
    script = "#!/bin/sh\nsleep $SLURM_ARRAY_TASK_ID\n"
    job_id = cluster.sbatch(script, "--array=0-2%1", "--output=/dev/null")
    cluster.wait(job_id)
    assert {job["JobState"] for job in cluster.jobs(job_id)} == {"COMPLETED"}
    rows = cluster.sacct(job_id, "JobID", "State")
    assert {f"{job_id}_{task}" for task in range(3)} <= {row["JobID"] for row in rows}


def test_requeued_job_has_a_row_for_each_run(cluster: Cluster) -> None:
    script = "#!/bin/sh\n[ $SLURM_RESTART_COUNT ] && exit\nscontrol requeue $SLURM_JOB_ID\nsleep 60\n"
    job_id = cluster.sbatch(script, "--requeue", "--output=/dev/null")
    until(lambda: (job := cluster.job(job_id))["Restarts"] == "1" and job["JobState"] == "PENDING")
    # a requeued job waits two minutes before it may start again. Not in the second of its end: slurmd 22.05 takes
    # the new start for the old one then, and the job fails ("Job credential revoked").
    cluster.run(["scontrol", "update", f"jobid={job_id}", "StartTime=now+2"], user="root")
    job = cluster.wait(job_id)
    assert job["JobState"] == "COMPLETED", job
    states = [row["State"] for row in cluster.sacct(job_id, "JobIDRaw", "State") if row["JobIDRaw"] == str(job_id)]
    assert states == ["REQUEUED", "COMPLETED"]


def test_run_passes_bytes_and_environment(cluster: Cluster) -> None:
    raw = bytes(range(1, 256))
    assert cluster.run(["cat"], input=raw).stdout.encode(errors="surrogateescape") == raw
    script = "id -un; pwd; umask; echo $HOME $EXTRA; env | wc -l"
    name, folder, umask, environment, count = cluster.run(
        ["sh", "-c", script], user="bob", env={"EXTRA": "a b"}
    ).stdout.splitlines()
    home = cluster.home("bob")
    assert (name, folder, umask, environment) == ("bob", str(home), "0022", f"{home} a b")
    assert int(count) < 12
    assert home.stat().st_mode & 0o777 == 0o755
    assert cluster.run(["stat", "--format=%U:%G", home]).stdout == "bob:bob\n"


def test_run_shows_what_failed(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match=r"(?s)exit status 3: \['sh'.*seen.*heard"):
        cluster.run(["sh", "-c", "echo seen; echo heard >&2; exit 3"])
    assert cluster.run(["sh", "-c", "exit 3"], check=False).returncode == 3


def test_run_ends_what_takes_too_long(cluster: Cluster) -> None:
    with pytest.raises(AssertionError, match=r"(?s)ran longer than 1.*before"):
        cluster.run(["sh", "-c", "echo before; sleep 4321 | cat"], timeout=1)
    until(lambda: not [process for process in cluster.processes() if "4321" in process.argv])


def test_processes_shows_what_a_job_left(cluster: Cluster) -> None:
    job_id = cluster.sbatch("#!/bin/sh\nsleep 8765\n", "--output=/dev/null")

    def left() -> list[str]:
        return [process.user for process in cluster.processes() if process.argv == ["sleep", "8765"]]

    until(lambda: left() == ["alice"])
    cluster.run(["scancel", str(job_id)])
    assert cluster.wait(job_id)["JobState"] == "CANCELLED"
    until(lambda: not left())


def test_interpreter_and_checkout_run_as_a_user(cluster: Cluster) -> None:
    modules = "ctypes, hashlib, sqlite3, lzma, bz2, ssl, zlib, readline, decimal, uuid, pyexpat"
    script = f"import {modules}, sys, pytest; print(sys.version_info[:2]); print(sys.prefix)"
    version, prefix = cluster.run([sys.executable, "-c", script]).stdout.splitlines()
    assert (version, prefix) == (str(sys.version_info[:2]), sys.prefix)
    tests = cluster.run([sys.executable, "-c", "import tests.testbed"], env={"PYTHONPATH": str(CHECKOUT)})
    assert tests.stderr == ""
    job_id = cluster.sbatch(f"#!/bin/sh\nexec {sys.executable} -m pytest --version\n", "--output=python-%j")
    assert cluster.wait(job_id)["JobState"] == "COMPLETED", (cluster.home("alice") / f"python-{job_id}").read_text()


def test_torch_where_it_is_installed(cluster: Cluster) -> None:
    pytest.importorskip("torch")
    script = "import torch; print(torch.ones(3).sum().item())"
    assert cluster.run([sys.executable, "-c", script], timeout=120).stdout == "3.0\n"


def test_host_stays_as_it_was(cluster: Cluster) -> None:
    names = [name for path in ("/etc/passwd", "/etc/hosts") for name in Path(path).read_text().split()]
    assert not [name for name in names if name.startswith("alice:") or name in {"n1", "n2", "m1", "c1"}]
    assert str(cluster.folder) not in Path("/proc/self/mountinfo").read_text()
    assert socket.gethostname() != "login"
    cluster.run(["touch", "/tmp/seen-outside"])
    assert not Path("/tmp/seen-outside").exists()


def hashes() -> list[str]:
    """What must be the same before and after a cluster."""
    files = ["/etc/passwd", "/etc/group", "/etc/hosts", "/proc/self/mountinfo", "/proc/sysvipc/shm"]
    return [hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in files]


@pytest.mark.slurm
def test_killed_owner_leaves_nothing(own_root: Path) -> None:
    before = hashes()
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT, env=os.environ
    ) as owner:
        assert owner.stdout
        name, pid = owner.stdout.readline().split()
        folder, init = Path(name), state.Identity.of(int(pid))
        assert init
        assert folder.parent == own_root
        assert len(processes_of(folder)) > 3
        owner.send_signal(signal.SIGKILL)
    until(lambda: not init.alive and not processes_of(folder))
    assert folder.exists()
    with Cluster.start():
        assert not folder.exists()
    assert hashes() == before


@pytest.mark.slurm
def test_two_clusters_at_once(own_root: Path) -> None:
    with Cluster.start() as one, Cluster.start() as two:
        script = "#!/bin/sh\necho $SLURM_JOB_ID\n"
        jobs = [(each, each.sbatch(script, "--output=out-%j")) for each in (one, two)]
        for each, job_id in jobs:
            assert each.wait(job_id)["JobState"] == "COMPLETED"
            assert (each.home("alice") / f"out-{job_id}").read_text() == f"{job_id}\n"
        one.stop()
        assert not one.processes()
        assert two.run(["sinfo", "--noheader", "--format=%D", "--partition=all"]).stdout == "4\n"
    assert [path.name for path in own_root.iterdir()] == [".lock"]


@pytest.mark.slurm
def test_number_of_a_dead_cluster_given_to_another_process(own_root: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as bystander:
        left = state.create("22.05", by_hand=True)
        now = state.Identity.of(bystander.pid)
        assert now
        left._replace(init=now._replace(started=now.started - 1)).write()
        assert state.sweep() == [left.folder]
        assert bystander.poll() is None
        bystander.kill()


@pytest.mark.slurm
def test_users_can_read_what_lies_in_a_closed_folder(own_root: Path, tmp_path: Path) -> None:
    own_root.mkdir()
    closed = own_root / "closed"
    for folder in (tmp_path, closed):
        (folder / "tool").mkdir(parents=True)
        (folder / "tool" / "text").write_text("read\n")
        folder.chmod(0o700)
    with Cluster.start(readable=[tmp_path / "tool", closed / "tool"]) as cluster:
        for folder in (tmp_path, closed):
            assert cluster.run(["cat", folder / "tool" / "text"]).stdout == "read\n"
    shutil.rmtree(closed)


@pytest.mark.slurm
def test_failed_start_shows_why_and_leaves_nothing(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.testbed.cluster.CHECKOUT", Path("/"))
    with pytest.raises(TestbedError, match="No module named"):
        Cluster.start()
    assert not state.all_states()


def test_foreign_folders_are_not_swept(own_root: Path) -> None:
    foreign = own_root / "thesis"
    foreign.mkdir(parents=True)
    state.sweep()
    assert foreign.exists()
    foreign.rmdir()


def test_scontrol_records() -> None:
    line = (
        "JobId=7 ArrayJobId=7 JobName=a b=c X=1 UserId=alice(1) GroupId=alice(1) Reason=None"
        " ReqB:S:C:T=0:0:*:* NtasksPerN:B:S:C=0:0:*:1 TRES=cpu=1,mem=1G Socks/Node=* "
        " Nodes=n1 CPU_IDs=0 Mem=1 GRES= Nodes=n2 Command=run --x A=1 WorkDir=/home/a b StdErr=/x"
    )
    record = parse_scontrol(line)
    assert record["JobName"] == "a b=c X=1"
    assert record["UserId"] == "alice(1)"
    assert record["ReqB:S:C:T"] == "0:0:*:*"
    assert record["TRES"] == "cpu=1,mem=1G"
    assert record["Nodes"] == "n1"
    assert record["GRES"] == ""
    assert record["Command"] == "run --x A=1"
    assert record["WorkDir"] == "/home/a b"

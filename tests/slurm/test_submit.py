"""submit and resubmit on a real Slurm: what is handed on, what is made, and that a failure submits nothing."""

import time

import pytest
import yaml

from tests.slurm.jobs import SLURMGPU, log, send, slurmgpu

SMALL = {"command": "true", "mem": "50M", "time": "5m", "cpus_per_task": 1}
LEFT = "env | grep -E '^(SLURM|SBATCH|SRUN|PMI|RANK|WORLD|MASTER|CUDA)' | sort"


def queue(cluster):
    return cluster.run(["squeue", "-h", "-t", "all", "-o", "%F"], user="root").stdout.split()


def test_the_number_is_on_stdout_and_log_folders_are_made(cluster):
    name = f"run-{time.time_ns()}"
    spec = SMALL | {"name": name, "output": "deep/%x/%u/%j.out", "error": "deep/%x/e/%j.err"}
    (job,) = send(cluster, "folders", spec)
    cluster.wait(job)
    folder = cluster.home("alice") / "deep" / name
    assert (folder / "alice" / f"{job}.out").exists()
    assert folder.stat().st_mode & 0o777 == 0o755


def test_sbatch_variables_of_the_environment_do_nothing(cluster):
    env = {"SBATCH_TIMELIMIT": "77", "SBATCH_PARTITION": "short", "SLURM_MEM_PER_CPU": "1", "TOKEN": "x"}
    path = cluster.home("alice") / "clean.yaml"
    path.write_text(yaml.safe_dump(SMALL | {"secrets": ["TOKEN"], "command": LEFT, "launcher": "shell"}))
    ended = slurmgpu(cluster, "submit", "clean.yaml", env=env)
    assert ended.returncode == 0, ended.stderr
    assert "note: not handed on to sbatch, the spec decides: SBATCH_PARTITION, SBATCH_TIMELIMIT\n" in ended.stderr
    record = cluster.wait(int(ended.stdout))
    assert (record["TimeLimit"], record["Partition"]) == ("00:05:00", "gpu")
    assert record["JobState"] == "COMPLETED"
    assert "SBATCH" not in log(cluster, record)
    assert "SLURM_MEM_PER_CPU" not in log(cluster, record)


def test_from_inside_a_job_nothing_of_it_is_handed_on(cluster):
    home = cluster.home("alice")
    inner = SMALL | {"command": LEFT, "launcher": "shell", "name": "inner"}
    (home / "inner.yaml").write_text(yaml.safe_dump(inner))
    outer = (
        "#!/bin/bash\n#SBATCH --mem-per-cpu=60M --gpus-per-node=a100:2 -c 3 --comment=outer --output=outer.out\n"
        "export SLURM_CPU_BIND=verbose,mask_cpu:0x1 RANK=3 WORLD_SIZE=8 PMIX_RANK=3 OUTER=1\n"
        f"{SLURMGPU} submit inner.yaml >inner.id\n"
    )
    job = cluster.sbatch(outer)
    assert cluster.wait(job)["JobState"] == "COMPLETED", (home / "outer.out").read_text()
    assert (
        f"submitted from inside job {job}: its SLURM_* variables are not handed on"
        in (home / "outer.out").read_text()
    )
    record = cluster.wait(int((home / "inner.id").read_text()))
    assert record["JobState"] == "COMPLETED"
    seen = dict(line.partition("=")[::2] for line in log(cluster, record).splitlines())
    assert seen["SLURM_JOB_ID"] == record["JobId"]
    for name in ("SLURM_MEM_PER_CPU", "SLURM_GPUS_PER_NODE", "SLURM_CPU_BIND", "PMIX_RANK", "RANK", "WORLD_SIZE"):
        assert name not in seen
    # the one that the script sets itself
    assert {name: seen[name] for name in seen if name.startswith(("SBATCH", "SRUN", "PMI"))} == {
        "SRUN_CPUS_PER_TASK": "1"
    }
    assert not [name for name, value in seen.items() if value == str(job)]


# a spec, a word of the message, the exit status
REFUSED = {
    "a check fails": (SMALL | {"partition": "gpuu"}, "gpuu", 1),
    "a bad spec": (SMALL | {"nodse": 1}, "unknown key 'nodse'", 2),
    "a file where the log folder is to be": (SMALL | {"output": "notes.txt/%j.out"}, "notes.txt", 1),
    "more memory than any node has": (SMALL | {"mem": "900G"}, "900", 1),
    "a secret that is not set": (SMALL | {"secrets": ["NO_SUCH_TOKEN"]}, "NO_SUCH_TOKEN", 1),
    "a sweep of bad points": (SMALL | {"sweep": {"lr": []}}, "`sweep.lr` is an empty list", 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_submitted_when_something_fails_before(cluster, name):
    spec, word, status = REFUSED[name]
    home = cluster.home("alice")
    (home / "notes.txt").touch()
    (home / "refused.yaml").write_text(yaml.safe_dump(spec | {"error": "never-made/%j.err"}))
    before = queue(cluster)
    ended = slurmgpu(cluster, "submit", "refused.yaml")
    assert (ended.returncode, ended.stdout) == (status, ""), ended.stderr
    assert word in ended.stderr
    assert queue(cluster) == before
    assert not (home / "never-made").exists()


def test_a_dry_run_says_what_would_be_done_and_does_nothing(cluster):
    home = cluster.home("alice")
    spec = SMALL | {"output": "not-yet/%A_%a.out", "sweep": {"a": list("abcde")}, "max_parallel": 2}
    (home / "dry.yaml").write_text(yaml.safe_dump(spec))
    (home / "two.toml").write_text("max_array_size = 3\n")
    before = queue(cluster)
    ended = slurmgpu(cluster, "submit", "dry.yaml", "--dry-run", "--profile", str(home / "two.toml"))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == (
        f"mkdir -p {home}/not-yet\n"
        "sbatch --parsable  # points 0-2\n"
        "sbatch --parsable --dependency=afterany:PREVIOUS  # points 3-4\n"
    )
    assert queue(cluster) == before
    assert not (home / "not-yet").exists()


def test_wait_has_the_end_in_its_exit_status(cluster):
    home = cluster.home("alice")
    spec = SMALL | {"launcher": "shell", "command": '[ "$SWEEP_A" != b ]', "sweep": {"a": list("abc")}}
    (home / "wait.yaml").write_text(yaml.safe_dump(spec))
    ended = slurmgpu(cluster, "submit", "wait.yaml", "--wait")
    assert ended.returncode == 1
    job = int(ended.stdout)
    assert [line for line in ended.stderr.splitlines() if " is " in line and "point" in line] == [
        f"slurmgpu: point 1 (job {job}_1) is FAILED"
    ]
    assert slurmgpu(cluster, "submit", "wait.yaml", "--wait", "--set", "command=true $SWEEP_A").returncode == 0


def test_a_job_that_is_no_array_runs_again_as_a_whole(cluster):
    home = cluster.home("alice")
    (job,) = send(cluster, "single", SMALL | {"launcher": "shell", "command": "[ -e fixed ] && echo done"})
    cluster.wait(job)
    (home / "fixed").touch()
    ended = slurmgpu(cluster, "resubmit", str(job))
    assert ended.returncode == 0, ended.stderr
    record = cluster.wait(int(ended.stdout))
    assert (record["JobState"], record["JobName"], log(cluster, record)) == ("COMPLETED", "single", "done\n")
    last = slurmgpu(cluster, "resubmit", str(job))
    assert (last.returncode, last.stdout) == (0, "")
    (home / "fixed").unlink()


def test_a_script_written_by_hand_runs_again_where_it_was(cluster):
    home = cluster.home("alice")
    (home / "sub").mkdir(exist_ok=True)
    cluster.run(["chown", "alice", str(home / "sub")], user="root")
    script = '#!/bin/bash\n#SBATCH --mem=50M -o %A_%a.log\n[ "$SLURM_ARRAY_TASK_ID" != 2 ] || [ -e fixed ]\n'
    job = cluster.sbatch(script, "--array=0-3", cwd=home / "sub")
    cluster.wait(job)
    (home / "sub" / "fixed").touch()
    ended = slurmgpu(cluster, "resubmit", f"{job}")
    assert ended.returncode == 0, ended.stderr
    assert "was not sent by `slurmgpu submit`" in ended.stderr
    record = cluster.wait(int(ended.stdout))
    assert (record["ArrayTaskId"], record["JobState"], record["WorkDir"]) == ("2", "COMPLETED", str(home / "sub"))
    last = slurmgpu(cluster, "resubmit", str(job))
    assert (last.returncode, last.stdout) == (0, "")


def test_jobs_of_others_and_no_jobs_are_refused(cluster):
    job = cluster.sbatch("#!/bin/bash\n#SBATCH --mem=50M -o /dev/null\nexit 1\n", user="bob")
    cluster.wait(job)
    ended = slurmgpu(cluster, "resubmit", str(job))
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert "submit it anew" in ended.stderr
    ended = slurmgpu(cluster, "resubmit", "999999")
    assert ended.returncode == 2
    assert "neither slurmctld nor sacct knows such a job" in ended.stderr


@pytest.mark.once
def test_a_cluster_that_does_not_answer_is_named_with_status_3(cluster):
    conf = (cluster.etc / "slurm.conf").read_text()
    lines = ["SlurmctldPort=1" if line.startswith("SlurmctldPort=") else line for line in conf.splitlines()]
    nowhere = cluster.home("alice") / "nowhere.conf"
    nowhere.write_text("\n".join([*lines, ""]))
    nowhere.chmod(0o644)
    (cluster.home("alice") / "down.yaml").write_text(yaml.safe_dump(SMALL))
    env = {"SLURM_CONF": str(nowhere)}
    ended = slurmgpu(cluster, "submit", "down.yaml", env=env, timeout=90)
    assert (ended.returncode, ended.stdout) == (3, ""), ended.stderr
    assert "scontrol" in ended.stderr
    assert "Traceback" not in ended.stderr

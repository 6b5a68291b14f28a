"""Specs piped into a real sbatch: Slurm must see what was asked, and the job must do what was meant."""

import pytest

from tests.slurm.jobs import finish, submit

SMALL = {"command": "true", "mem": "100M", "time": "5m"}
TORCH = {"launcher": "torchrun", "cpus_per_gpu": 2, "mem_per_gpu": "1G", "time": "1h", "command": "train.py"}

# name -> (spec, what `scontrol show job` must say); held so that only the request is judged
REQUESTS = {
    "one GPU": (
        {"command": "train.py", "gpus_per_node": 1, "cpus_per_gpu": 4, "mem_per_gpu": "8G", "time": "90"},
        {"NumNodes": "1", "NumTasks": "1", "CPUs/Task": "4", "TresPerNode": "gres:gpu:1", "MinMemoryNode": "8G",
         "TimeLimit": "01:30:00", "Partition": "gpu", "Requeue": "0"},
    ),
    "four GPUs of a type": (
        TORCH | {"gpus_per_node": 4, "gpu_type": "a100"},
        {"NumNodes": "1", "NumTasks": "1", "CPUs/Task": "8", "TresPerNode": "gres:gpu:a100:4", "MinMemoryNode": "4G"},
    ),
    "eight GPUs over two nodes": (
        TORCH | {"gpus": 8, "nodes": 2},
        {"NumNodes": "2", "NumTasks": "2", "CPUs/Task": "8", "TresPerNode": "gres:gpu:4", "MinMemoryNode": "4G"},
    ),
    "one rank a GPU": (
        TORCH | {"launcher": "srun", "gpus_per_node": 3, "nodes": 2},
        {"NumNodes": "2", "NumTasks": "6", "CPUs/Task": "2", "MinMemoryNode": "3G"},
    ),
    "a day as HH:MM:SS": (SMALL | {"time": "24:00:00"}, {"TimeLimit": "1-00:00:00"}),
    "days and hours": (SMALL | {"time": "1-12"}, {"TimeLimit": "1-12:00:00"}),
    "minutes and seconds round up": (SMALL | {"time": "1:30"}, {"TimeLimit": "00:02:00"}),
    "hours as 12h": (SMALL | {"time": "12h"}, {"TimeLimit": "12:00:00"}),
    "unlimited is the partition's most": (SMALL | {"time": "UNLIMITED"}, {"TimeLimit": "UNLIMITED"}),
    "a decimal of memory": (SMALL | {"mem": "1.5G"}, {"MinMemoryNode": "1.50G"}),
    "memory per CPU": (SMALL | {"mem_per_cpu": "200M", "cpus_per_task": 4} | {"mem": None}, {"MinMemoryCPU": "200M"}),
    "a partition called no": (SMALL | {"partition": "no"}, {"Partition": "no"}),
    "two partitions": (SMALL | {"partition": ["short", "gpu"]}, {"Partition": "short,gpu"}),
    "an account of digits": (SMALL | {"account": "03303560"}, {"Account": "03303560"}),
    "a QOS": (SMALL | {"qos": "high"}, {"QOS": "high"}),
    "a name that is a number": (SMALL | {"name": "1.10"}, {"JobName": "1.10"}),
    "a name with a hash": (SMALL | {"name": "exp#1"}, {"JobName": "exp#1"}),
    "a name with a backslash and quotes": (SMALL | {"name": "a\\b'c\"d"}, {"JobName": "a\\b'c\"d"}),
    "a comment": (SMALL | {"comment": "Hi, I am # a comment"}, {"Comment": "Hi, I am # a comment"}),
    "a constraint": (SMALL | {"constraint": "a100|nvlink"}, {"Features": "a100|nvlink"}),
    "a node list": (SMALL | {"nodelist": "n[1-2]", "nodes": 2, "launcher": "shell"}, {"ReqNodeList": "n[1-2]"}),
    "an excluded node": (SMALL | {"exclude": "n1"}, {"ExcNodeList": "n1"}),
    "a sweep": (
        SMALL | {"sweep": {"lr": ["1e-3", "1e-4"], "seed": ["1", "2"]}, "max_parallel": 2}, {"ArrayTaskId": "0-3%2"},
    ),
    "licences": (SMALL | {"licenses": "matlab:2"}, {"Licenses": "matlab:2"}),
    "nice": (SMALL | {"nice": 100}, {"Nice": "100"}),
    "requeue": (SMALL | {"requeue": True}, {"Requeue": "1"}),
    "a dependency": (SMALL | {"dependency": "singleton"}, {"Dependency": "singleton(unfulfilled)"}),
    "a MIG slice": (
        {"command": "eval.py", "gpus": 1, "gpu_type": "1g.10gb", "partition": "mig", "mem": "1G", "time": "5m"},
        {"TresPerNode": "gres:gpu:1g.10gb:1", "NumTasks": "1"},
    ),
    "exclusive takes the whole memory": (
        {"command": "true", "gpus_per_node": 1, "exclusive": True, "time": "5m"}, {"OverSubscribe": "NO"},
    ),
    "minimum time and begin": (
        SMALL | {"time": "1h", "time_min": "30m", "begin": "now+1hour"},
        {"TimeMin": "00:30:00", "TimeLimit": "01:00:00"},
    ),
    "another option in the sbatch block": (SMALL | {"sbatch": {"switches": "1@3:00"}}, {"Switches": "1@00:03:00"}),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_slurm_sees_what_was_asked(cluster, name):
    spec, expected = REQUESTS[name]
    spec = {key: value for key, value in spec.items() if value is not None}
    job = submit(cluster, spec, sbatch="--hold")
    cluster.run(["scancel", str(job.id)])
    seen = dict(job.record)
    seen["NumNodes"] = seen["NumNodes"].split("-")[0]  # a pending job shows the least and the most
    # later releases write gres/gpu
    seen["TresPerNode"] = seen.get("TresPerNode", "").replace("gres/gpu", "gres:gpu")
    assert {key: seen.get(key) for key in expected} == expected, job.record
    assert seen["WorkDir"] == str(cluster.home("alice"))


SEEN = """
import os
for name, value in sorted(os.environ.items()):
    if name.startswith(("SLURM_", "CUDA_", "OMP_", "RANK", "WORLD", "LOCAL_R")):
        print(f"{name}={value}")
"""
SHOW = {"command": ["python3", "-c", SEEN], "mem": "200M", "time": "5m"}

# name -> (spec, AllocTRES of the job in sacct, lines that the program must print)
RUNS = {
    "gres, untyped": (
        SHOW | {"gpus_per_node": 2, "cpus_per_gpu": 2, "launcher": "python"},
        {"cpu": "4", "mem": "200M", "node": "1", "gres/gpu": "2", "gres/gpu:a100": "2"},
        ["CUDA_VISIBLE_DEVICES=0,1", "SLURM_GPUS_ON_NODE=2", "SLURM_CPUS_PER_TASK=4", "OMP_NUM_THREADS=4"],
    ),
    "gres, typed": (
        SHOW | {"gpus_per_node": 1, "gpu_type": "a100", "cpus_per_gpu": 1},
        {"cpu": "1", "mem": "200M", "node": "1", "gres/gpu": "1", "gres/gpu:a100": "1"},
        ["SLURM_GPUS_ON_NODE=1"],
    ),
    "a MIG slice": (
        SHOW | {"gpus_per_node": 1, "gpu_type": "1g.10gb", "partition": "mig", "cpus_per_gpu": 1},
        {"cpu": "1", "mem": "200M", "node": "1", "gres/gpu": "1", "gres/gpu:1g.10gb": "1"},
        ["SLURM_GPUS_ON_NODE=1"],
    ),
    "a bigger MIG slice": (
        SHOW | {"gpus_per_node": 1, "gpu_type": "a100_3g.20gb", "partition": "mig", "cpus_per_gpu": 1},
        {"cpu": "1", "mem": "200M", "node": "1", "gres/gpu": "1", "gres/gpu:a100_3g.20gb": "1"},
        ["SLURM_GPUS_ON_NODE=1"],
    ),
    "ranks by srun on two nodes": (
        SHOW | {"gpus_per_node": 2, "nodes": 2, "launcher": "srun", "cpus_per_gpu": 3},
        {"cpu": "12", "mem": "400M", "node": "2", "gres/gpu": "4", "gres/gpu:a100": "4"},
        ["RANK=0", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "SLURM_CPUS_PER_TASK=3", "CUDA_VISIBLE_DEVICES=0,1"],
    ),
    "exclusive": (
        {"command": ["python3", "-c", SEEN], "time": "5m", "gpus_per_node": 1, "exclusive": True, "cpus_per_gpu": 1},
        {"cpu": "32", "mem": "64000M", "node": "1", "gres/gpu": "4", "gres/gpu:a100": "4"},
        [],
    ),
    "no GPU": (
        SHOW | {"cpus_per_task": 2, "partition": "cpu"},
        {"cpu": "2", "mem": "200M", "node": "1"},
        ["OMP_NUM_THREADS=2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_the_job_gets_and_sees_what_was_asked(cluster, name):
    spec, tres, lines = RUNS[name]
    record, log = finish(cluster, spec)
    assert (record["JobState"], record["ExitCode"]) == ("COMPLETED", "0:0"), log
    (row,) = [row for row in cluster.sacct(int(record["JobId"]), "JobID", "AllocTRES") if "." not in row["JobID"]]
    got = dict(item.split("=") for item in row["AllocTRES"].replace("62.50G", "64000M").split(","))
    got.pop("billing", None)
    assert got == tres
    assert [line for line in lines if line not in log.splitlines()] == [], log


def test_gpus_per_node_dialect_runs(cluster):
    profile = cluster.home("alice") / "site.toml"
    profile.write_text('gpu_dialect = "gpus-per-node"\n')
    spec = SHOW | {"gpus_per_node": 2, "nodes": 2, "launcher": "srun", "cpus_per_gpu": 1, "gpu_type": "a100"}
    record, log = finish(cluster, spec, render="--profile ./site.toml")
    assert record["JobState"] == "COMPLETED", log
    assert record["TresPerNode"].replace("gres/", "gres:") == "gres:gpu:a100:2"
    assert log.count("SLURM_GPUS_ON_NODE=2") == 4


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ('gpu_dialect = "gpus"', {"TresPerJob": "gres:gpu:2"}),
        ('gpu_dialect = "gres+constraint"', {"Features": "a100"}),
    ],
)
def test_other_gpu_dialects_are_understood(cluster, dialect, expected):
    (cluster.home("alice") / "other.toml").write_text(dialect + "\n")
    spec = SHOW | {"gpus_per_node": 2, "launcher": "python", "cpus_per_gpu": 1}
    if "constraint" in dialect:
        spec["gpu_type"] = "a100"
    record, log = finish(cluster, spec, render="--profile ./other.toml")
    assert record["JobState"] == "COMPLETED", log
    seen = {key: record.get(key, "").replace("gres/", "gres:") for key in expected}
    assert seen == expected


def test_memory_per_cpu_dialect_runs(cluster):
    (cluster.home("alice") / "percpu.toml").write_text('mem_dialect = "mem-per-cpu"\n')
    spec = {
        "command": "true",
        "launcher": "shell",
        "time": "5m",
        "gpus_per_node": 2,
        "mem_per_gpu": "1G",
        "cpus_per_gpu": 4,
    }
    record, log = finish(cluster, spec, render="--profile ./percpu.toml")
    assert record["JobState"] == "COMPLETED", log
    assert record["MinMemoryCPU"] == "256M"


def test_an_array_writes_one_log_a_task(cluster):
    spec = {"command": 'echo "task $SLURM_ARRAY_TASK_ID"', "launcher": "shell", "array": "0-2%2", "name": "arr"}
    job = submit(cluster, spec | {"mem": "100M", "time": "5m", "output": "%x-%j.out"})
    cluster.wait(job.id)
    logs = {path.name: path.read_text() for path in cluster.home("alice").glob(f"arr-{job.id}_*.out")}
    assert logs == {f"arr-{job.id}_{task}.out": f"task {task}\n" for task in range(3)}
    assert "%j became %A_%a" in job.notes


def test_a_dependent_job_waits_for_the_first(cluster):
    first = submit(cluster, SMALL | {"command": "sleep 2", "launcher": "shell"})
    second = submit(cluster, SMALL | {"command": "date", "launcher": "shell", "dependency": f"afterok:{first.id}"})
    assert second.record["JobState"] == "PENDING"
    record = cluster.wait(second.id)
    assert record["JobState"] == "COMPLETED"
    assert record["StartTime"] >= cluster.job(first.id)["EndTime"]


def test_sbatch_options_that_change_the_allocation_stop_the_job_with_one_line(cluster):
    spec = SHOW | {"gpus_per_node": 2, "cpus_per_gpu": 1, "launcher": "python"}
    record, log = finish(cluster, spec, sbatch="--gres=gpu:1")
    assert record["JobState"] == "FAILED"
    assert "has 1 GPUs for this job, but the spec says 2" in log
    record, log = finish(cluster, spec, sbatch="--nodes=2")
    assert record["JobState"] == "FAILED"
    assert log == "slurmgpu: got 2 nodes, but the spec says 1\n"


# slurmd runs su for the user's login environment first, which the images of other versions cannot
@pytest.mark.once
def test_export_none_still_has_a_path_in_the_step(cluster):
    record, log = finish(cluster, SHOW | {"export": "NONE", "env": {"MINE": "1"}, "cpus_per_task": 1})
    assert record["JobState"] == "COMPLETED", log


def test_variables_of_an_outer_job_do_not_steer_the_step(cluster):
    """As when a job is submitted from inside another, or from a tmux that was started in one."""
    outer = {
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SLURM_CPU_BIND_LIST": "0x1",
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_TRES_PER_TASK": "cpu:2",
        "SLURM_GPUS_PER_TASK": "1",
        "SLURM_NTASKS_PER_GPU": "1",
        "SLURM_EXACT": "1",
    }
    spec = SHOW | {"gpus_per_node": 2, "cpus_per_gpu": 2, "launcher": "srun"}
    record, log = finish(cluster, spec, env=outer)
    assert record["JobState"] == "COMPLETED", log
    for line in ("SLURM_CPUS_PER_TASK=2", "CUDA_VISIBLE_DEVICES=0,1", "RANK=1"):
        assert line in log.splitlines(), log
    assert "mask_cpu:0x1" not in log


def test_a_bad_spec_submits_nothing(cluster):
    home = cluster.home("alice")
    (home / "bad.yaml").write_text("command: x\nnodse: 2\n")
    from tests.slurm.jobs import SLURMGPU

    ended = cluster.run(["bash", "-c", f"{SLURMGPU} render bad.yaml | sbatch; echo ${{PIPESTATUS[@]}}"], check=False)
    codes = ended.stdout.split()[-2:]
    assert codes[0] == "2"
    assert codes[1] != "0"
    assert "Submitted" not in ended.stdout

"""Each item of the checklist: a request, a cluster, and the word that it says."""

import os

import pytest

from slurmgpu.errors import Place
from slurmgpu.experiment import checkfiles, checklist, request
from slurmgpu.experiment.cluster import Association, Qos, Reservation
from slurmgpu.experiment.facts import Facts, Finding
from slurmgpu.experiment.slurm import Answer
from tests.clusters import recorded
from tests.rendering import render

HEAD = "#!/bin/bash\n#SBATCH --time=1:00:00\n"


def facts(*options, body="srun true\n", folder="/", environ=None, groups=(), allowed_qos=None, **cluster):
    text = HEAD + "".join(f"#SBATCH {line}\n" for line in options) + body
    found = recorded()
    for name, value in cluster.items():
        setattr(found, name, value)
    asked = request.read(text)
    return Facts(
        script=text,
        source="job.sh",
        request=asked,
        cluster=found,
        folder=str(folder),
        environ=environ or {"HOME": "/home/alice"},
        groups=frozenset(groups),
        places={name: Place("job.sh", given.line, 1) for name, given in asked.given.items()},
        keys={},
        allowed_qos=allowed_qos,
    )


def finding(item, *options, **more):
    return dict(checklist.ITEMS)[item](facts(*options, **more))


def partition(**changes):
    """The recorded partitions, the default one changed."""
    partitions = recorded().partitions
    vars(partitions["gpu"]).update(changes)
    return {"partitions": partitions}


def associations(*more, **changes):
    return {"associations": [Association(**({"account": "physics", "is_default": True} | changes)), *more]}


def booked(**whose):
    return {"reservations": {"r1": Reservation(name="r1", **whose)}}


R1 = ["--reservation=r1"]
ROWS = [
    ("header", ["--time=5"], {}, "ok", "1 options"),
    ("header", ["--my-plugin=x"], {}, "warn", "none of sbatch's options; a plugin of the site may know it"),
    ("header", ["--gpu-per-node=4"], {}, "warn", "did you mean --gpus-per-node?"),
    ("header", ["--time=5 minutes"], {}, "fail", "'minutes' is no option"),
    ("header", ["--mem=lots"], {}, "fail", "--mem: 'lots' is not a memory size"),
    ("header", ["-N2", "hetjob", "-N9"], {}, "warn", "only the first of 2 parts is looked at"),
    ("header", [], {"body": "x\r\n"}, "fail", "DOS line ends"),
    ("header", [], {"body": "x\0"}, "fail", "a NUL"),
    ("resources", ["-N2", "hetjob", "-N9"], {}, "ok", "2 of 2"),
    ("resources", ["--gpus-per-task=1 -n 9"], {}, "fail", "9 GPUs asked for, but there are 8"),
    ("resources", ["--gpus-per-task=1 -n 8"], {}, "ok", "gpu"),
    ("resources", ["--gres=gpu:h100:2"], {}, "fail", "2 h100 GPUs asked for, but no node of gpu has any"),
    ("partition", [], {}, "ok", "gpu, the default"),
    ("partition", ["-p short"], {}, "ok", "short"),
    ("partition", ["-p gpuu"], {}, "fail", "no partition 'gpuu'; did you mean 'gpu'?"),
    ("partition", ["-p gpu,shrt"], {}, "fail", "did you mean 'short'?"),
    ("partition", ["-p xyz"], {}, "fail", "there is all, cpu, gpu, mig, no, short"),
    ("partition", [], partition(is_default=False), "fail", "the cluster has no default partition"),
    ("partition", [], partition(state="DOWN"), "fail", "gpu is DOWN"),
    ("partition", [], partition(state="DRAIN"), "fail", "takes no new jobs"),
    ("partition", ["-p gpu,short"], partition(state="DOWN"), "warn", "gpu is DOWN"),
    ("partition", [], partition(is_root_only=True), "fail", "for root only"),
    ("partition", [], partition(allow_groups=["staff"]), "fail", "for the groups staff; you are in none"),
    ("partition", [], partition(allow_groups=["staff"]) | {"groups": ["staff"]}, "ok", "gpu"),
    ("partition", [], partition(allow_accounts=["chem"]), "fail", "for the accounts chem, not physics"),
    ("partition", ["-A 03303560"], partition(deny_accounts=["03303560"]), "fail", "closed for account 03303560"),
    ("partition", ["-q high"], partition(allow_qos=["normal"]), "fail", "takes the QOS normal, not high"),
    ("partition", ["-q high"], partition(deny_qos=["high"]), "fail", "closed for QOS high"),
    ("partition", [], partition(needs_reservation=True), "fail", "of a reservation only"),
    ("account", [], {}, "ok", "physics, the default"),
    ("account", ["-A 03303560"], {}, "ok", "03303560"),
    ("account", ["-A Physics"], {}, "ok", "physics"),  # Slurm keeps names in lower case
    ("account", ["-A physic"], {}, "fail", "'physic' is no account of alice; did you mean 'physics'?"),
    ("account", ["-A physic"], {"enforce": frozenset()}, "warn", "not enforced here"),
    ("account", [], {"associations": []}, "fail", "alice has no account on cluster testbed"),
    ("account", [], {"associations": None}, "skip", "keeps no accounts"),
    ("account", [], associations(is_default=False), "warn", "none asked for and no default; one of physics"),
    ("account", [], associations(partition="short"), "fail", "physics may use short only, not gpu"),
    ("account", ["-p short"], associations(partition="short"), "ok", "physics"),
    ("qos", [], {}, "ok", "the default"),
    ("qos", ["-q high"], {}, "ok", "high"),
    ("qos", ["-q hihg"], {}, "fail", "no QOS 'hihg'; did you mean 'high'?"),
    ("qos", ["-q high"], {"allowed_qos": {"physics": ["normal"]}}, "fail", "the QOS of account physics: normal"),
    ("qos", ["-q high"], {"allowed_qos": {"physics": ["normal"]}, "enforce": frozenset()}, "warn", "not enforced"),
    ("qos", ["-q high"], {"qos": None}, "skip", "keeps no QOS"),
    ("reservation", [], {}, "ok", "none"),
    ("reservation", R1, {}, "fail", "no reservation 'r1'; there is none"),
    ("reservation", R1, booked(users=["alice"]), "ok", "r1"),
    ("reservation", R1, booked(users=["bob"]), "fail",
     "r1 is for bob, not for alice"),
    ("reservation", R1, booked(accounts=["physics"]), "ok", ""),
    ("reservation", R1, booked(accounts=["chem"]), "fail",
     "r1 is for chem"),
    ("reservation", R1, booked(users=["-alice"]), "fail", "r1"),
    ("reservation", R1, booked(users=["-bob"]), "ok", "r1"),
    ("reservation", [*R1, "-p gpu"],
     booked(users=["alice"], partition="short"), "fail", "lies in partition short"),
    ("features", ["-C nvlink"], {}, "ok", "2 of 2 nodes"),
    ("features", ["-C nvlnk"], {}, "fail", "no node on this cluster has the feature 'nvlnk'; did you mean 'nvlink'?"),
    ("features", ["-C mig"], {}, "fail", "no node in this partition has the feature 'mig'"),
    ("features", ["-p all", "-C mig&cpuonly"], {}, "fail", "no node has mig&cpuonly all at once"),
    ("features", ["-C a100&(nvlink"], {}, "fail", "never closed"),
    ("gres", ["--gres=gpu:a100:2"], {}, "ok", "gpu:a100:2"),
    ("gres", ["--gres=gpu:A100:2"], {}, "fail", "no gpu type 'A100', spelled exactly; did you mean 'a100'?"),
    ("gres", ["--gpus-per-node=h100:2"], {}, "fail", "no gpu type 'h100'"),
    ("gres", ["--gres=nvme:1"], {}, "fail", "no resource 'nvme'; there is gpu"),
    ("gres", ["-p cpu", "--gres=gpu:1"], {}, "fail", "no node of partition cpu has GPUs; there are some in all, gpu"),
    ("gres", ["-p mig", "--gres=gpu:1g.10gb:1"], {}, "ok", "gpu:1g.10gb:1"),
    ("time", ["-t 1:00:00"], {}, "ok", "0-01:00:00 of 2-00:00:00 (partition gpu)"),
    ("time", ["-t 3-0"], {}, "fail", "2-00:00:00; sbatch would take it and it would pend for ever"),
    ("time", ["-t 3-0"], {"enforce_part_limits": "ALL"}, "fail", "over the limit of partition gpu, 2-00:00:00"),
    ("time", ["-t UNLIMITED"], {}, "fail", "UNLIMITED is over the limit"),
    ("time", ["-t 1:00:00", "-p gpu,short"], {}, "ok", "2-00:00:00"),
    ("time", ["-t 1:00:00", "-p short"], {}, "fail", "over the limit of partition short, 0-00:30:00"),
    ("time", ["-t 2:00:00"], associations(max_wall_s=3600), "fail", "over the limit of account physics, 0-01:00:00"),
    ("time", ["-t 2:00:00"], associations(max_wall_s=3600) | {"enforce": frozenset()}, "ok", ""),
    ("time", ["-t 2:00:00", "-q high"], {"qos": {"high": Qos(name="high", max_wall_s=60)}}, "fail", "of QOS high"),
    ("time", ["-t 1d"], {}, "ok", "1-00:00:00"),
    ("time", ["-t soon"], {}, "fail", "'soon' is not a time"),
    ("resources", ["-N2 --gres=gpu:4"], {}, "ok", "2 of 2 nodes of gpu can run it"),
    ("resources", ["-N1 --gres=gpu:8"], {}, "fail", "nearest that fits: --gres=gpu:4"),
    ("resources", ["-N1 --gres=gpu:a100:8"], {}, "fail", "nearest that fits: --gres=gpu:a100:4"),
    ("resources", ["--gpus-per-node=a100:5"], {}, "fail", "nearest that fits: --gpus-per-node=a100:4"),
    ("resources", ["-N3"], {}, "fail", "nearest that fits: --nodes=2"),
    ("resources", ["--ntasks-per-node=2 -c 20"], {}, "fail", "nearest that fits: --cpus-per-task=16"),
    ("resources", ["--ntasks-per-node=2 -c 4 --mem-per-cpu=10G"], {}, "fail", "fits: --mem-per-cpu=8000M"),
    ("resources", ["--gres=gpu:2 --mem-per-gpu=40G"], {}, "fail", "nearest that fits: --mem-per-gpu=32000M"),
    ("resources", ["--gres=gpu:2 --cpus-per-gpu=20"], {}, "fail", "nearest that fits: --cpus-per-gpu=16"),
    ("resources", ["--mem=70G"], {}, "fail", "nearest that fits: --mem=64000M"),
    ("resources", ["-p cpu,gpu", "--gres=gpu:1"], {}, "ok", "gpu"),
    ("resources", ["-p nowhere"], {}, "skip", "no partition"),
    ("job limits", ["-N2 --gres=gpu:4"], associations(max_tres={"gres/gpu": 4}), "fail",
     "8 gres/gpu a job asked for, but account physics gets at most 4"),
    ("job limits", ["-N2 --gres=gpu:4"], associations(max_tres_per_node={"gres/gpu": 4}), "ok", "1 limits"),
    ("job limits", ["-c 8"], associations(max_tres={"cpu": 4}), "fail", "8 cpu a job"),
    ("job limits", ["--mem=2G"], associations(max_tres={"mem": 1024}), "fail", "2G mem a job asked for"),
    ("job limits", ["-q high --gres=gpu:a100:2"], {"qos": {"high": Qos(name="high", max_tres={"gres/gpu:a100": 1})}},
     "fail", "QOS high gets at most 1"),
    ("array", [], {}, "ok", "no array"),
    ("array", ["-a 0-1000"], {}, "ok", "up to 1000 of 1000"),
    ("array", ["-a 1001"], {}, "fail", "index 1001 is beyond the cluster's highest, 1000 (MaxArraySize)"),
    ("quota", [], {}, "skip", "does not look at quotas"),
    ("environment", [], {"environ": {"SLURM_CONF": "/x", "PATH": "/bin"}}, "ok", "no variable"),
    ("environment", [], {"environ": {"SBATCH_TIMELIMIT": "77"}}, "warn", "SBATCH_TIMELIMIT would win"),
    ("environment", [], {"environ": {"SLURM_JOB_ID": "7", "SLURM_CPU_BIND": "x"}}, "warn", "you are inside job 7"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("item", "options", "more", "status", "message"),
    ROWS,
    ids=[f"{row[0]} {' '.join(row[1])} {row[3]}" for row in ROWS],
)
def test_an_item_says(item, options, more, status, message):
    found = finding(item, *options, **more)
    assert (found.status, message in found.message) == (status, True), found


def test_a_failure_names_the_line():
    assert finding("partition", "-N2", "-p nowhere").place == Place("job.sh", 4, 1)


def test_no_time_is_a_warning_with_the_default():
    asked = facts()
    asked.request.given.pop("time")
    asked.request.time_s = None
    assert "default is 0-00:10:00; write --time" in dict(checklist.ITEMS)["time"](asked).message


SHELL = [
    ("if true; then\n", "fail", "unexpected end of file"),
    ("echo 'open\n", "fail", "matching"),
    ("cat <<X\nopen\n", "fail", "here-document"),
    ("echo good\n", "ok", "can be read to the end"),
]


@pytest.mark.parametrize(("body", "status", "message"), SHELL)
def test_what_bash_cannot_read(body, status, message):
    asked = facts(body=body)
    asked.shell = checkfiles.start_shell(asked.script).answer()
    found = checkfiles.shell(asked)
    assert (found.status, message in found.message) == (status, True), found


def test_another_interpreter_is_not_read():
    assert checkfiles.start_shell("#!/usr/bin/python3\nprint('x\n") is None
    assert checkfiles.start_shell("") is None
    assert checkfiles.start_shell("#!/usr/bin/env bash\n").answer().status == 0
    assert checkfiles.shell(facts()).status == "skip"


def test_logs(tmp_path):
    os.chmod(tmp_path, 0o755)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    home = {"environ": {"HOME": str(tmp_path)}, "folder": tmp_path}
    new = {"version": (24, 11)}
    for output, more, status, message in [
        ("there/%j.out", {}, "ok", "there"),
        ("missing/%j.out", {}, "warn", "`slurmgpu submit` makes it"),
        ("missing/%j.out", new, "ok", "which Slurm makes"),
        ("file/%j.out", {}, "fail", "file is in the way"),
        ("%j/x.out", {}, "fail", "%j in a folder's name"),
        ("%j/x.out", new, "ok", ""),
        ("%u/x.out", {}, "warn", "/alice does not exist"),
        ("/tmp/x.out", {}, "warn", "each node's own"),
        ("/dev/shm/x/y.out", {}, "warn", "each node's own"),
        ("/proc/x/y.out", {}, "fail" if os.geteuid() else "warn", "/proc/x"),
    ]:
        found = finding("logs", f"--output={output}", **home, **more)
        assert (found.status, message in found.message) == (status, True), (output, found)
    worst = finding("logs", "--output=there/x", "--error=file/x", **home)
    assert (worst.status, worst.place) == ("fail", Place("job.sh", 4, 1))


def test_the_files_that_a_script_names(tmp_path):
    (tmp_path / "train.py").write_text("")
    where = {"folder": tmp_path}
    assert finding("command", body="srun python train.py --x\n", **where).status == "ok"
    assert finding("command", body="srun python trian.py --x\n", **where).message.endswith(
        "trian.py does not exist on this machine"
    )
    for body in ("cd src\npython trian.py\n", "# python trian.py\n", "python $DIR/trian.py\n", "python -m x.py.z\n"):
        assert finding("command", body=body, **where).status != "warn", body
    assert finding("command", "--chdir=/nowhere", body="python train.py\n", **where).status == "warn"


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"command": "train.py"}, "train.py"),
        ({"command": ["python", "-u", "src/train.py"]}, "src/train.py"),
        ({"command": "-m train"}, None),
        ({"command": "train"}, None),
        ({"command": "train.py", "setup": "cd x"}, None),
        ({"command": "{name}.py", "sweep": {"name": ["a"]}}, None),
        # the job's folder is mounted and is where an image starts; its other files are not here
        ({"command": "train.py", "container": {"image": "x", "runtime": "docker"}}, "train.py"),
        ({"command": "/opt/train.py", "container": {"image": "x", "runtime": "docker"}}, None),
        ({"command": "train.py", "container": {"image": "x", "runtime": "docker", "workdir": "/w"}}, None),
    ],
)
def test_the_file_that_a_spec_names(spec, wanted):
    asked = facts()
    checklist._add_spec(asked, render(spec))
    assert asked.program == wanted


def test_secrets():
    asked = facts(environ={"B": "x"})
    asked.secrets = ["A", "B"]
    assert "A is not in the environment" in checkfiles.secrets(asked).message
    asked.secrets = ["B"]
    assert checkfiles.secrets(asked).status == "ok"


REFUSAL = "sbatch: error: Batch job submission failed: Requested node configuration is not available\n"
SBATCH = [
    (Answer("", "sbatch: Job 1 to start at now\n", 0), [], "ok", "Job 1 to start at now"),
    (Answer("", "sbatch: Job 1 to start at now\n", 0), ["time"], "ok", "It does not look at: time"),
    (Answer("", REFUSAL, 1), ["resources"], "fail", "not available (see resources)"),
    (Answer("", REFUSAL, 1), [], "fail", "no check above knows why"),
    (Answer("", REFUSAL, 1), ["command"], "fail", "no check above knows why"),
    (Answer("", "", 255), [], "fail", "exit status 255"),
]


@pytest.mark.parametrize(("answer", "failed", "status", "message"), SBATCH)
def test_sbatch_s_word_is_put_to_the_item_that_found_the_reason(answer, failed, status, message):
    asked = facts()
    asked.test_only = answer
    items = [checklist.Item(name, Finding("fail", "")) for name in failed]
    found = checklist._sbatch(asked, items)
    assert (found.status, message in found.message) == (status, True), found


def test_a_quota_that_another_part_tells_is_an_item():
    asked = facts("-N2")
    asked.quota = lambda request, cluster: Finding("fail", f"{request.nodes} nodes on {cluster.name}: nothing left")
    assert dict(checklist.ITEMS)["quota"](asked).message == "2 nodes on testbed: nothing left"

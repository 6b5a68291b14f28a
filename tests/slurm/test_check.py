"""check, probe and shell on the real Slurm: their word is held against what sbatch and the scheduler do."""

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

SLURMGPU = Path(sys.executable).with_name("slurmgpu")
GOOD = {"command": "train.py", "gpus_per_node": 2, "cpus_per_gpu": 4, "mem_per_gpu": "4G", "time": "30m"}


@pytest.fixture
def folder(cluster):
    """A folder of alice's of its own, with the program that the spec names."""
    home = cluster.home("alice")
    made = home / f"check-{len(list(home.glob('check-*')))}"
    cluster.run(["mkdir", made])
    cluster.run(["touch", made / "train.py"])
    return made


def check(cluster, folder, spec, *options, env=None):
    """The checklist as JSON, by item, and the exit status."""
    path = folder / ("exp.yaml" if isinstance(spec, dict) else "job.sh")
    text = yaml.safe_dump(spec, sort_keys=False) if isinstance(spec, dict) else spec
    path.write_text(text)
    path.chmod(0o644)
    ended = cluster.run(
        [SLURMGPU, "check", path.name, "--format", "json", *options], cwd=folder, env=env, check=False
    )
    assert ended.returncode in (0, 1), ended.stderr
    answer = json.loads(ended.stdout)
    assert answer["good"] is (ended.returncode == 0)
    return {item["check"]: item for item in answer["checks"]}, ended.returncode


def failed(found):
    return sorted(name for name, item in found.items() if item["status"] == "fail")


def test_a_good_spec_passes_and_names_the_cluster(cluster, folder):
    found, status = check(cluster, folder, GOOD)
    assert (failed(found), status) == ([], 0)
    assert re.search(r"Job \d+ to start at ", found["sbatch"]["message"])
    assert found["account"]["message"] == "physics, the default"
    ended = cluster.run([SLURMGPU, "check", "exp.yaml"], cwd=folder)
    assert f"on cluster testbed (Slurm {cluster.version}, told by " in ended.stdout
    assert "no check fails" in ended.stdout
    assert cluster.run(["squeue", "--noheader"]).stdout == ""  # nothing was submitted


# what is changed; the items that fail; the word of the first of them; whether sbatch itself refuses it
CASES = [
    ({"partition": "gpuu"}, ["partition", "sbatch"], "no partition 'gpuu'; did you mean 'gpu'?", True),
    ({"account": "physic"}, ["account", "sbatch"], "did you mean 'physics'?", True),
    ({"account": "chem"}, ["account", "sbatch"], "'chem' is no account of alice", True),
    ({"qos": "hihg"}, ["qos", "sbatch"], "no QOS 'hihg'; did you mean 'high'?", True),
    ({"reservation": "none"}, ["reservation", "sbatch"], "no reservation 'none'", True),
    ({"constraint": "nvlnk"}, ["features", "resources", "sbatch"], "did you mean 'nvlink'?", True),
    ({"gpu_type": "A100"}, ["gres", "resources", "sbatch"], "did you mean 'a100'?", True),
    ({"gpus_per_node": 8}, ["resources", "sbatch"], "nearest that fits: `gpus_per_node: 4`", True),
    ({"cpus_per_gpu": 17}, ["resources", "sbatch"], "nearest that fits: `cpus_per_gpu: 16`", True),
    ({"mem_per_gpu": "40G"}, ["resources", "sbatch"], "nearest that fits: `mem_per_gpu: 32000M`", True),
    ({"nodes": 3}, ["resources", "sbatch"], "nearest that fits: `nodes: 2`", True),
    # what sbatch would take, and let pend for ever
    ({"time": "3-0"}, ["time"], "over the limit of partition gpu, 2-00:00:00; sbatch would take it", False),
    ({"command": "trian.py"}, ["command"], "trian.py does not exist", False),
    ({"array": "0-1001"}, ["array", "sbatch"], "highest, 1000", True),
]  # fmt: skip


@pytest.mark.parametrize(("change", "items", "message", "refused"), CASES)
def test_what_fails_is_named_and_the_nearest_that_fits_is_said(cluster, folder, change, items, message, refused):
    found, status = check(cluster, folder, GOOD | change)
    assert (failed(found), status) == (sorted(items), 1), found
    assert message in found[items[0]]["message"]
    key = next(iter(change))
    line = list(GOOD | change).index(key) + 1
    assert found[items[0]]["place"].startswith(f"exp.yaml:{line}:")
    assert (found["sbatch"]["status"] == "fail") is refused


NEAREST = [{"gpus_per_node": 8}, {"cpus_per_gpu": 17}, {"mem_per_gpu": "40G"}, {"nodes": 3},
           {"gpus_per_node": 4, "cpus_per_gpu": 9}, {"gpus_per_node": 4, "nodes": 2, "mem_per_gpu": "17G"},
           {"gpus_per_node": None, "cpus_per_gpu": None, "mem_per_gpu": None, "cpus_per_task": 40},
           {"gpus_per_node": None, "cpus_per_gpu": None, "mem_per_gpu": None, "mem": "70G"}]  # fmt: skip


@pytest.mark.parametrize("change", NEAREST)
def test_the_nearest_request_is_one_that_sbatch_takes(cluster, folder, change):
    """What the verdict says would fit does, and one more of it does not."""
    spec = {key: value for key, value in (GOOD | change).items() if value is not None}
    found, _ = check(cluster, folder, spec)
    key, value = re.search(r"nearest that fits: `(\w+): (\w+)`", found["resources"]["message"]).groups()
    better, status = check(cluster, folder, spec, "--set", f"{key}={value}")
    assert (failed(better), status) == ([], 0), better
    number, unit = re.fullmatch(r"(\d+)(\w*)", value).groups()
    more, _ = check(cluster, folder, spec, "--set", f"{key}={int(number) + 1}{unit}")
    assert failed(more) == ["resources", "sbatch"], more


def test_a_script_by_hand_goes_through_the_same_items(cluster, folder):
    script = "#!/bin/bash\n#SBATCH -N 1 -t 30\n#SBATCH --gres=gpu:a100:5 -p gpu\nsrun python train.py\n"
    found, status = check(cluster, folder, script)
    assert (failed(found), status) == (["resources", "sbatch"], 1)
    assert found["resources"]["place"] == "job.sh:3:1"
    assert "nearest that fits: --gres=gpu:a100:4" in found["resources"]["message"]


@pytest.fixture
def changed(cluster):
    """Runs scontrol and sacctmgr as root, and what undoes it at the end."""
    undo = []

    def change(command, back):
        undo.append(back)
        cluster.run(shlex.split(command), user="root")

    yield change
    for command in reversed(undo):
        cluster.run(shlex.split(command), user="root")


def wait_until(cluster, condition):
    for _ in range(100):
        if condition():
            return
        cluster.run(["sleep", "0.1"])
    raise AssertionError("the change does not arrive")


def test_limits_qos_and_reservations_of_others(cluster, folder, changed):
    changed("sacctmgr -i modify user alice set maxwall=20 maxtresperjob=gres/gpu=1",
            "sacctmgr -i modify user alice set maxwall=-1 maxtresperjob=gres/gpu=-1")  # fmt: skip
    changed("sacctmgr -i modify user alice set qos=normal", "sacctmgr -i modify user alice set qos=normal,high")
    changed("scontrol create reservation reservationname=bobs starttime=now duration=60 users=bob nodes=n2",
            "scontrol delete reservation bobs")  # fmt: skip
    wait_until(cluster, lambda: check(cluster, folder, GOOD)[0]["time"]["status"] == "fail")
    found, _ = check(cluster, folder, GOOD | {"qos": "high", "reservation": "bobs"})
    assert "over the limit of account physics, 0-00:20:00" in found["time"]["message"]
    assert "2 gres/gpu a job asked for, but account physics gets at most 1" in found["job limits"]["message"]
    assert "high is not among the QOS of account physics: normal" in found["qos"]["message"]
    assert "bobs is for bob, not for alice" in found["reservation"]["message"]
    assert found["sbatch"]["status"] == "fail"


def test_a_closed_partition_and_a_drained_node(cluster, folder, changed):
    changed(
        "scontrol update partitionname=short allowaccounts=chem",
        "scontrol update partitionname=short allowaccounts=ALL",
    )
    changed("scontrol update nodename=n2 state=drain reason='Gres=gpu:a100:99 State=IDLE'",
            "scontrol update nodename=n2 state=resume")  # fmt: skip
    found, _ = check(cluster, folder, GOOD | {"partition": "short"})
    assert "short is for the accounts chem, not physics" in found["partition"]["message"]
    found, status = check(cluster, folder, GOOD | {"nodes": 2})
    cluster.run([SLURMGPU, "render", "exp.yaml", "-o", "exp.sh"], cwd=folder)
    assert found["resources"]["status"] == "warn"
    assert "1 of 2 nodes of gpu are down or drained" in found["resources"]["message"]
    assert (found["sbatch"]["status"], status) == ("warn", 0)
    # sbatch itself queues it
    job = cluster.sbatch((folder / "exp.sh").read_text(), cwd=folder)
    assert cluster.job(job)["JobState"] == "PENDING"
    cluster.run(["scancel", str(job)])


def test_a_nodelist_with_too_few_names_runs_though_test_only_refuses_it(cluster, folder):
    found, status = check(cluster, folder, GOOD | {"nodes": 2, "nodelist": "n1"})
    assert (failed(found), status) == ([], 0)
    assert found["sbatch"]["status"] in ("ok", "warn")


def test_variables_of_an_outer_job_are_named_and_do_not_count(cluster, folder):
    found, status = check(cluster, folder, GOOD, env={"SBATCH_PARTITION": "nowhere", "SLURM_JOB_ID": "7"})
    assert status == 0
    assert found["environment"]["status"] == "warn"
    assert "SBATCH_PARTITION" in found["environment"]["message"]


def test_a_user_without_an_association_is_told(cluster, folder, changed):
    changed("sacctmgr -i delete user bob", "sacctmgr -i add user bob account=chem defaultaccount=chem")
    check(cluster, folder, GOOD)
    argv = [SLURMGPU, "check", folder / "exp.yaml", "--format", "json"]

    def told():
        ended = cluster.run(argv, user="bob", check=False)
        return {item["check"]: item for item in json.loads(ended.stdout)["checks"]}

    wait_until(cluster, lambda: "account" in failed(told()))
    assert "bob has no account on cluster testbed; ask an admin" in told()["account"]["message"]


def test_probe_s_profile_renders_offline_what_check_passes(cluster, folder):
    cluster.run([SLURMGPU, "probe", "-o", "profiles/bed.toml"], cwd=folder)
    table = tomllib.loads((folder / "profiles/bed.toml").read_text())
    assert table["slurm_version"] == cluster.version
    assert table["partitions"]["gpu"] == {
        "max_time": "2-00:00:00", "nodes": 2, "cpus_per_node": 32, "mem_per_node": "64000M", "gpus_per_node": 4,
        "cpus_per_gpu": 8, "mem_per_gpu": "16000M", "gpu_types": ["a100"],
    }  # fmt: skip
    (folder / "short.yaml").write_text("{command: train.py, gpus_per_node: 4, nodes: 2, time: 1h, gpu_type: a100}\n")
    # no Slurm in reach: a profile is enough
    offline = {"PATH": "/usr/bin:/bin", "SLURM_CONF": "/nowhere"}
    argv = [SLURMGPU, "render", "short.yaml", "--profile", "profiles/bed.toml"]
    script = cluster.run(argv, cwd=folder, env=offline).stdout
    assert "#SBATCH --cpus-per-task=32\n" in script
    assert "#SBATCH --mem=64000M\n" in script
    found, status = check(cluster, folder, script)
    assert (failed(found), status) == ([], 0)
    job = cluster.sbatch(script, "--hold", cwd=folder)
    assert cluster.job(job)["TresPerNode"] == "gres/gpu:a100:4" if cluster.version > "22.05" else "gres:gpu:a100:4"
    cluster.run(["scancel", str(job)])


def test_a_shell_has_the_resources_and_the_environment_of_the_spec(cluster, folder):
    spec = GOOD | {"launcher": "srun", "env": {"GREETING": "it's $5"}, "setup": "export FROM_SETUP=1"}
    (folder / "exp.yaml").write_text(yaml.safe_dump(spec))
    typed = (
        'echo "$GREETING|$FROM_SETUP|$CUDA_VISIBLE_DEVICES|$SLURM_CPUS_ON_NODE|$SLURM_JOB_NAME"; srun -n1 hostname\n'
    )
    ended = cluster.run(
        [SLURMGPU, "shell", "exp.yaml"], input=typed, cwd=folder, env={"SBATCH_QOS": "x", "SLURM_JOB_NAME": "x"}
    )
    assert ended.stdout.splitlines()[0] == "it's $5|1|0,1|8|exp"
    assert len(ended.stdout.splitlines()) == 2  # a step inside it does not wait for the shell's own resources


@pytest.mark.once
def test_a_shell_at_a_terminal_is_interactive_and_ends_with_its_status(cluster, folder):
    (folder / "exp.yaml").write_text(yaml.safe_dump(GOOD | {"env": {"GREETING": "hello"}}))
    command = f"{SLURMGPU} shell exp.yaml"
    ended = cluster.run(
        ["script", "--quiet", "--return", "--command", command, "/dev/null"],
        input="echo got-$GREETING; tty; exit 7\n", cwd=folder, check=False, timeout=60,
    )  # fmt: skip
    assert "got-hello" in ended.stdout
    assert "/dev/pts/" in ended.stdout
    assert ended.returncode == 7


def test_a_shell_by_options_alone(cluster, folder):
    ended = cluster.run(
        [SLURMGPU, "shell", "--gpus", "4", "--nodes", "2", "--time", "5m"],
        input="echo $SLURM_JOB_NUM_NODES $CUDA_VISIBLE_DEVICES\n", cwd=folder,
    )  # fmt: skip
    assert ended.stdout == "2 0,1\n"


def test_a_shell_that_cannot_be_had_says_why(cluster, folder):
    argv = [SLURMGPU, "shell", "--gpus", "5", "--time", "5m"]
    ended = cluster.run(argv, input="echo started\n", cwd=folder, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "resources: 5 GPUs a node asked for" in ended.stderr
    assert "nearest that fits: `gpus: 4`" in ended.stderr


STAND_INS = [
    ("exit 1", "scontrol did not tell the configuration, partitions, nodes: its answer ends too early"),
    ("echo 'scontrol: error: Unable to contact slurm controller' >&2; exit 1", "Unable to contact slurm controller"),
    ("head -c 3000 /dev/urandom", "scontrol"),
    ("sleep 100", "`scontrol --oneliner --all` did not answer within 2 s; is slurmctld up?"),
    ("/usr/bin/scontrol --oneliner --all | head -c 4000", "scontrol"),
    ("echo NodeName=x CPUTot=many RealMemory=1 State=IDLE", "scontrol wrote a line that cannot be read"),
]


@pytest.mark.once
@pytest.mark.parametrize(("program", "message"), STAND_INS)
@pytest.mark.parametrize("command", ["check exp.yaml", "probe"])
def test_a_cluster_that_does_not_answer_is_exit_3_and_one_line(cluster, folder, program, message, command):
    (folder / "exp.yaml").write_text(yaml.safe_dump(GOOD))
    (folder / "scontrol").write_text(f"#!/bin/sh\n{program}\n")
    (folder / "scontrol").chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "SLURMGPU_TIMEOUT_S": "2"}
    ended = cluster.run([SLURMGPU, *command.split()], cwd=folder, env=env, check=False, timeout=15)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "internal" not in ended.stderr


@pytest.mark.once
def test_slurmctld_that_is_gone_is_exit_3(cluster, folder):
    (folder / "exp.yaml").write_text(yaml.safe_dump(GOOD))
    text = (cluster.etc / "slurm.conf").read_text()
    conf = folder / "slurm.conf"
    conf.write_text(re.sub(r"(?m)^SlurmctldPort=.*$", "SlurmctldPort=1", text) + "\nMessageTimeout=2\n")
    env = {"SLURM_CONF": str(conf), "SLURMGPU_TIMEOUT_S": "5"}
    ended = cluster.run([SLURMGPU, "check", "exp.yaml"], cwd=folder, env=env, check=False, timeout=30)
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout == ""
    assert "scontrol" in ended.stderr

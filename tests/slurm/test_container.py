"""The program in a container on the real Slurm: apptainer itself where it can be had, stand-ins for pyxis and docker.

The stand-ins write the exact arguments that they got, a NUL behind each, and run the command.
"""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.slurm.jobs import finish, log, submit
from tests.testbed import images

# what pyxis adds to srun is taken away again for the real one
SRUN = """#!/usr/bin/python3
import os, sys
with open(os.environ["RECORD"] + f".srun.{os.getpid()}", "w") as file:
    file.write("\\0".join(sys.argv[1:]))
words = [word for word in sys.argv[1:] if not word.startswith(("--container-", "--no-container-"))]
os.execv("/usr/bin/srun", ["srun", *words])
"""
# the container has only the variables that were named, and the image's own
DOCKER = """#!/usr/bin/python3
import os, signal, subprocess, sys
record = os.environ["RECORD"]
words = sys.argv[1:]
with open(f"{record}.docker.{words[0]}.{os.getpid()}", "w") as file:
    file.write("\\0".join(words))
if words[0] != "run":
    with open(record + ".pid") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    sys.exit()
at = words.index("image:1")
names = [word.partition("=")[2] for word in words[:at] if word.startswith("--env=")]
env = {"PATH": os.environ["IMAGE_PATH"], "GREETING": "the image's", "RECORD": record}
for name in names:
    key, given, value = name.partition("=")
    env[key] = value if given else os.environ[key]
child = subprocess.Popen(words[at + 1:], env=env, start_new_session=True)
with open(record + ".pid", "w") as file:
    file.write(str(child.pid))
sys.exit(child.wait())
"""
NVIDIA_SMI = """#!/bin/sh
[ "$1" = "--id=$CUDA_VISIBLE_DEVICES" ] || exit 6
for index in $(echo "$CUDA_VISIBLE_DEVICES" | tr , " "); do echo "GPU-$index"; done
"""
DUMP = """
import json, os, sys
name = f"{os.environ['RECORD']}.dump.{os.environ.get('RANK', 'x')}"
with open(name, "w") as file:
    json.dump({"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}, file)
sys.exit(int(sys.argv[1]))
"""
HOSTILE = 'it\'s "q" $(date) `id` \\ $B #x é\nsecond line'


@pytest.fixture
def bed(cluster):
    """A folder of alice's with the stand-ins, the program, and how to submit there."""
    return Bed(cluster, "alice")


class Bed:
    def __init__(self, cluster, user):
        self.cluster, self.user = cluster, user
        home = cluster.home(user)
        self.folder = home / f"box-{len(list(home.glob('box-*')))}"
        cluster.run(["mkdir", "-p", self.folder], user=user)
        for name, text in (("srun", SRUN), ("docker", DOCKER), ("nvidia-smi", NVIDIA_SMI), ("dump.py", DUMP)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        path = "/usr/local/bin:/usr/bin:/bin"
        self.environ = {
            "PATH": f"{self.folder}:{path}", "RECORD": f"{self.folder}/record", "IMAGE_PATH": path, "TOKEN": "s3cret",
        }  # fmt: skip

    def spec(self, runtime, **more):
        block = {"image": "image:1", "runtime": runtime, "mounts": ["/usr:/opt/u s:ro"]}
        return {
            "command": ["python3", str(self.folder / "dump.py"), "0", "two words"],
            "launcher": "srun", "gpus_per_node": 2, "cpus_per_gpu": 1, "mem": "500M", "time": "5m",
            "chdir": str(self.folder), "env": {"GREETING": HOSTILE}, "secrets": ["TOKEN"], "container": block,
        } | more  # fmt: skip

    def finish(self, spec):
        return finish(self.cluster, spec, user=self.user, env=self.environ)

    def records(self, kind):
        return [path.read_text().split("\0") for path in sorted(self.folder.glob(f"record.{kind}.*"))]

    def dumps(self):
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("record.dump.*"))]


def check_program(
    bed, names=("GREETING", "TOKEN", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "SLURM_JOB_ID")
):
    dumps = bed.dumps()
    assert [dump["env"]["RANK"] for dump in dumps] == ["0", "1"]
    for dump in dumps:
        assert dump["argv"][1:] == ["0", "two words"]
        assert dump["env"]["GREETING"] == HOSTILE
        assert dump["env"]["TOKEN"] == "s3cret"
        assert set(names) <= set(dump["env"])
    return dumps


def test_pyxis_gets_its_options_on_the_srun_line(bed):
    record, text = bed.finish(bed.spec("pyxis", container={
        "image": "nvcr.io/nvidia/pytorch:24.10-py3", "runtime": "pyxis", "mounts": ["/usr:/opt/u s:ro", "data"],
        "args": ["--no-container-mount-home"],
    }))  # fmt: skip
    assert record["JobState"] == "COMPLETED", text
    (words,) = bed.records("srun")
    assert words[: words.index("bash")] == [
        "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1", "--kill-on-bad-exit=1", "--wait=0",
        "--container-image=nvcr.io#nvidia/pytorch:24.10-py3",
        f"--container-mounts={bed.folder}:{bed.folder},/usr:/opt/u s:ro,{bed.folder}/data:{bed.folder}/data",
        f"--container-workdir={bed.folder}",
        "--container-env=GREETING,TOKEN,MASTER_ADDR,MASTER_PORT,OMP_NUM_THREADS",
        "--no-container-mount-home",
    ]  # fmt: skip
    check_program(bed)


def test_docker_gets_the_allocation_s_gpus_and_no_value_of_a_secret(bed):
    record, text = bed.finish(bed.spec("docker"))
    assert record["JobState"] == "COMPLETED", text
    check_program(bed)
    runs = bed.records("docker.run")
    assert len(runs) == 2
    user = bed.cluster.run(["id", "-u"]).stdout.strip()
    group = bed.cluster.run(["id", "-g"]).stdout.strip()
    for words in runs:
        assert not any("s3cret" in word for word in words)
        at = words.index("image:1")
        assert words[at + 1 :] == ["python3", f"{bed.folder}/dump.py", "0", "two words"]
        named = [word for word in words[:at] if word.startswith(("--env=", "--group-add="))]
        names = {word.partition("=")[2] for word in named if word.startswith("--env=")}
        assert {"GREETING", "TOKEN", "RANK", "LOCAL_RANK", "MASTER_ADDR", "SLURM_JOB_ID", "HOME=/tmp"} <= names
        assert not names & {"PATH", "CUDA_VISIBLE_DEVICES", "SLURMGPU_TORCHRUN", "LD_LIBRARY_PATH"}
        rank = "01"[f"--name=slurmgpu-{record['JobId']}-0-1" in words]
        assert [word for word in words[:at] if word not in named] == [
            "run", "--rm", "--init", "--sig-proxy=false", f"--name=slurmgpu-{record['JobId']}-0-{rank}",
            "--network=host", "--ipc=host", "--ulimit=memlock=-1", f"--user={user}:{group}",
            "--gpus", '"device=GPU-0,GPU-1"',
            f"--volume={bed.folder}:{bed.folder}", "--volume=/usr:/opt/u s:ro", f"--workdir={bed.folder}",
        ]  # fmt: skip
    assert bed.records("docker.stop") == bed.records("docker.rm") == []


def without_gpus(spec):
    """The spec of one task on CPUs."""
    kept = {key: value for key, value in spec.items() if key not in ("gpus_per_node", "cpus_per_gpu")}
    return kept | {"launcher": "python", "cpus_per_task": 1}


@pytest.mark.once
def test_docker_without_gpus_asks_for_none(bed):
    record, text = bed.finish(without_gpus(bed.spec("docker")))
    assert record["JobState"] == "COMPLETED", text
    (words,) = bed.records("docker.run")
    assert "--gpus" not in words


@pytest.mark.parametrize("runtime", ["docker", "pyxis"])
def test_the_program_s_exit_code_is_the_job_s(bed, runtime):
    spec = bed.spec(
        runtime, launcher="python", gpus_per_node=1, command=["python3", str(bed.folder / "dump.py"), "3"]
    )
    record, text = bed.finish(spec)
    assert (record["JobState"], record["ExitCode"]) == ("FAILED", "3:0"), text


def test_a_cancelled_job_stops_and_removes_its_docker_container(bed):
    # the container is no child of the job: Slurm's signals do not reach it
    spec = bed.spec("docker", launcher="python", gpus_per_node=1, command=["sleep", "1000"])
    job = submit(bed.cluster, spec, env=bed.environ)
    deadline = time.monotonic() + 60
    while not (bed.folder / "record.pid").exists():
        assert time.monotonic() < deadline, log(bed.cluster, bed.cluster.job(job.id))
        time.sleep(0.1)
    bed.cluster.run(["scancel", str(job.id)])
    record = bed.cluster.wait(job.id)
    assert record["JobState"] == "CANCELLED"
    name = f"slurmgpu-{job.id}-0-0"
    assert ["stop", "--time=10", name] in bed.records("docker.stop")
    assert [process for process in bed.cluster.processes() if process[2][:2] == ["sleep", "1000"]] == []


@pytest.mark.parametrize(
    ("runtime", "what"), [("docker", "no docker"), ("apptainer", "neither apptainer nor singularity")]
)
def test_a_node_without_the_runtime_says_so(bed, runtime, what):
    tools = bed.folder / "tools"
    tools.mkdir()
    for name in ("bash", "scontrol", "srun"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    record, text = bed.finish(bed.spec(runtime, launcher="python", gpus_per_node=1, env={"PATH": str(tools)}))
    assert (record["JobState"], record["ExitCode"]) == ("FAILED", "1:0"), text
    assert f"slurmgpu: n1: has {what}" in text


# apptainer refuses to run in a chroot, as the images are: the image becomes the root of a mount tree of its own
APPTAINER = """#!/usr/bin/python3
import ctypes, os, platform, sys
root, folder = ROOT, os.getcwd()
libc = ctypes.CDLL(None, use_errno=True)
def must(result):
    if result:
        sys.exit(f"stand-in: {os.strerror(ctypes.get_errno())}")
new_mounts, private, bind, detach = 0x20000, 0x44000, 0x5000, 2
must(libc.unshare(new_mounts))
must(libc.mount(None, b"/", None, private, None))
must(libc.setns(os.open("/proc/self/ns/mnt", os.O_RDONLY), new_mounts))
must(libc.mount(root, root, None, bind, None))
os.chdir(root)
must(libc.syscall({"x86_64": 155, "aarch64": 41}[platform.machine()], b".", b"tmp"))
os.chdir("/")
must(libc.umount2(b"/tmp", detach))
os.makedirs("/var/lib/apptainer/mnt/session", exist_ok=True)
os.chdir(folder)
os.execv("/usr/bin/apptainer", ["apptainer", *sys.argv[1:]])
"""


@pytest.fixture
def box(cluster):
    """A bed of root's with apptainer, and a sandbox image whose programs are the node's own /usr."""
    image = images.cache() / f"slurm-{cluster.version}"
    if cluster.version != images.APPTAINER_IN or not (image / images.APPTAINER).exists():
        reason = image / images.NO_APPTAINER
        told = reason.read_text() if reason.exists() else f"it is in the image of {images.APPTAINER_IN} only"
        pytest.skip(f"no apptainer beside Slurm {cluster.version}: {told}")
    made = Bed(cluster, "root")
    (made.folder / "apptainer").write_text(APPTAINER.replace("ROOT", repr(os.fsencode(cluster.root))))
    (made.folder / "apptainer").chmod(0o755)
    for name in ("srun", "nvidia-smi"):  # --nv would put this nvidia-smi into the image
        (made.folder / name).unlink()
    image = made.folder / "image"
    for folder in ("usr", ".singularity.d/env", "tmp", "proc", "dev", "sys", "etc", "opt/host-lib", "data"):
        (image / folder).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (image / name).symlink_to(f"usr/{name}")
    environment = image / ".singularity.d/env"
    (environment / "10-image.sh").write_text(
        "export PATH=/usr/bin:/bin GREETING='the image' OMP_NUM_THREADS=99 ONLY=image\n"
    )
    (environment / "99-base.sh").touch()
    return made


def apptainer_spec(box, **more):
    block = {"image": str(box.folder / "image"), "runtime": "apptainer", "args": ["--no-privs"]}
    mounts = ["/usr:/usr:ro", f"{box.folder}/d:/data:ro", *(["/opt/host-lib"] if Path("/opt").is_dir() else [])]
    cluster = box.cluster
    cluster.run(["bash", "-c", f"mkdir -p {box.folder}/d && echo mounted >{box.folder}/d/file"], user="root")
    environ = {"GREETING": HOSTILE, "LD_LIBRARY_PATH": "/opt/host-lib"}
    return box.spec("apptainer", env=environ) | {"container": block | {"mounts": mounts}} | more


def test_apptainer_runs_the_program_with_the_spec_s_variables_mounts_and_folder(box):
    record, text = box.finish(apptainer_spec(box))
    assert record["JobState"] == "COMPLETED", text
    dumps = check_program(box)
    for dump in dumps:
        assert dump["env"]["ONLY"] == "image"
        assert dump["env"]["OMP_NUM_THREADS"] == "1"  # the launcher's, not the image's 99
        assert dump["env"]["APPTAINER_CONTAINER"] == str(box.folder / "image")
        assert dump["cwd"] == str(box.folder)
        assert dump["env"]["CUDA_VISIBLE_DEVICES"] == "0,1"
        assert not any(name.startswith("SINGULARITYENV_") for name in dump["env"])


def test_apptainer_hands_back_the_exit_code_and_mounts_read_only(box):
    line = "cat /data/file; echo x >/data/file; exit 5"
    spec = without_gpus(apptainer_spec(box, command=["sh", "-c", line]))
    record, text = box.finish(spec)
    assert (record["JobState"], record["ExitCode"]) == ("FAILED", "5:0"), text
    assert "mounted" in text
    assert "Read-only file system" in text


@pytest.mark.once
def test_torchrun_on_two_nodes_in_docker_containers(bed):
    pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")
    bed.environ["IMAGE_PATH"] = f"{sys.prefix}/bin:/usr/bin:/bin"
    program = bed.folder / "ranks.py"
    program.write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.tensor([float(dist.get_rank() + 1)])\n"
        "dist.all_reduce(total)\n"
        "print('sum', int(total), 'of', dist.get_world_size(), os.environ['SLURMD_NODENAME'], flush=True)\n"
        "dist.destroy_process_group()\n"
    )
    # two containers on one machine share the stand-in's pid file; nothing is stopped here
    spec = bed.spec("docker", launcher="torchrun", nodes=2, gpus_per_node=1, command=str(program))
    record, text = bed.finish(spec | {"mem": "2G", "env": {"GLOO_SOCKET_IFNAME": "lo"}})
    assert record["JobState"] == "COMPLETED", text
    assert {"sum 3 of 2 n1", "sum 3 of 2 n2"} <= set(text.splitlines()), text

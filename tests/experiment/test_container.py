"""The container block: what is refused, what each runtime gets, and that values arrive through it byte for byte."""

import pytest
from hypothesis import given

from slurmgpu.errors import InputError
from slurmgpu.experiment.container import image_for, is_file
from tests.experiment.test_bytes import HOSTILE, NAMES, PROPERTY, TEXT
from tests.rendering import FOLDER, Bash, text

ONE = {"command": "dump", "launcher": "srun", "gpus_per_node": 1, "cpus_per_gpu": 2}

# stand-ins that keep their own words, a line each, and do as the runtime does with the environment
DOCKER = """#!/bin/bash
printf '%s\\n' "$@" >>"$DUMP_TO.docker"; echo >>"$DUMP_TO.docker"
[ "$1" = run ] || exit 0
env=(PATH="$PATH" DUMP_TO="$DUMP_TO")
until [ "$1" = image:1 ]; do
  case $1 in
  --env=*=*) env+=("${1#--env=}") ;;
  --env=*) name=${1#--env=}; env+=("$name=${!name}") ;;
  esac
  shift
done
exec env -i "${env[@]}" "${@:2}"
"""
APPTAINER = """#!/bin/bash
printf '%s\\n' "$@" >"$DUMP_TO.apptainer"
[ "$APPTAINER_NO_EVAL" = 1 ] || exit 99
env=(PATH="$PATH" DUMP_TO="$DUMP_TO")
for name in ${!APPTAINERENV_@}; do env+=("${name#APPTAINERENV_}=${!name}"); done
until [ "$1" = docker://image:1 ]; do shift; done
exec env -i "${env[@]}" "${@:2}"
"""
SMI = """#!/bin/sh
printf '%s\\n' "$@" >"$DUMP_TO.smi"
case $1 in --id=0,3) printf 'GPU-a\\nMIG-b\\n' ;; *) exit 6 ;; esac
"""


@pytest.fixture
def bash(tmp_path):
    made = Bash(tmp_path)
    for name, content in (("docker", DOCKER), ("apptainer", APPTAINER), ("nvidia-smi", SMI)):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    return made


def box(runtime, **more):
    return ONE | {"container": {"image": "image:1", "runtime": runtime} | more}


def run(bash, spec, **variables):
    ended = bash.run(text(spec), gpus=spec.get("gpus_per_node", 0), **variables)
    assert ended.returncode == 0, ended.stderr
    return ended


def words(bash, name):
    return (bash.folder / f"out.{name}").read_text().splitlines()


@pytest.mark.parametrize(
    ("image", "pyxis", "apptainer", "docker"),
    [
        ("ubuntu", "ubuntu", "docker://ubuntu", "ubuntu"),
        ("ubuntu:24.04", "ubuntu:24.04", "docker://ubuntu:24.04", "ubuntu:24.04"),
        # a word with a dot or a colon before the first slash is a registry, another a folder of Docker Hub
        ("pytorch/pytorch:2", "pytorch/pytorch:2", "docker://pytorch/pytorch:2", "pytorch/pytorch:2"),
        ("nvcr.io/nvidia/x:1", "nvcr.io#nvidia/x:1", "docker://nvcr.io/nvidia/x:1", "nvcr.io/nvidia/x:1"),
        ("nvcr.io#nvidia/x:1", "nvcr.io#nvidia/x:1", "docker://nvcr.io/nvidia/x:1", "nvcr.io/nvidia/x:1"),
        ("localhost:5000/x", "localhost:5000#x", "docker://localhost:5000/x", "localhost:5000/x"),
        ("localhost/x", "localhost#x", "docker://localhost/x", "localhost/x"),
        ("docker://nvcr.io/nvidia/x:1", "nvcr.io#nvidia/x:1", "docker://nvcr.io/nvidia/x:1", "nvcr.io/nvidia/x:1"),
        ("oras://ghcr.io/a/b:1", None, "oras://ghcr.io/a/b:1", None),
        ("library://a/b", None, "library://a/b", None),
    ],
)
def test_an_image_in_each_runtime_s_words(image, pyxis, apptainer, docker):
    for runtime, wanted in (("pyxis", pyxis), ("apptainer", apptainer), ("docker", docker)):
        if wanted is None:
            with pytest.raises(ValueError, match="is an image for apptainer"):
                image_for(runtime, image)
        else:
            assert image_for(runtime, image) == wanted


@pytest.mark.parametrize(
    ("image", "wanted"),
    [("/a/b", True), ("./b", True), ("~/b", True), ("$HOME/b", True), ("b.sif", True), ("b.sqsh", True),
     ("a/b", False), ("ubuntu:24.04", False), ("docker://a/b.sif:1", False)],
)  # fmt: skip
def test_what_is_a_file(image, wanted):
    assert is_file(image) == wanted


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"container": {"runtime": "docker"}}, "`container` needs `image`"),
        ({"container": {"image": "x"}}, "`container` needs `runtime`"),
        ({"container": {"image": "x", "runtime": "podman"}}, "must be pyxis or apptainer or docker, not 'podman'"),
        ({"container": {"image": "x", "runtim": "docker"}}, "unknown key 'runtim'; did you mean 'runtime'?"),
        ({"container": "ubuntu"}, "`container` must be a mapping with image, runtime"),
        ({"container": {"image": "--privileged", "runtime": "docker"}}, "would be read as an option"),
        ({"container": {"image": "x\ny", "runtime": "docker"}}, "holds a newline"),
        ({"container": {"image": "x.sif", "runtime": "docker"}}, "is a file, and docker runs images of a registry"),
        ({"container": {"image": "oras://x", "runtime": "docker"}}, "is an image for apptainer"),
        ({"container": {"image": "x", "runtime": "docker", "mounts": "/a"}}, "must be a list of mounts"),
        (
            {"container": {"image": "x", "runtime": "docker", "mounts": ["/a:b"]}},
            "the target 'b' must be an absolute",
        ),
        ({"container": {"image": "x", "runtime": "docker", "mounts": ["/a:/b:/c"]}}, "is no mount"),
        ({"container": {"image": "x", "runtime": "docker", "mounts": ["/a,/b"]}}, "is no mount"),
        ({"container": {"image": "x", "runtime": "docker", "mounts": [":/b"]}}, "is no mount"),
        ({"container": {"image": "x", "runtime": "docker", "workdir": "a"}}, "must be an absolute path"),
        ({"container": {"image": "x", "runtime": "docker", "args": ["y"]}}, "starts with 'y', which is no option"),
        ({"container": {"image": "x", "runtime": "docker", "args": "--x"}}, "must be a list of the runtime's own"),
        ({"container": {"image": "x", "runtime": "docker"}, "launcher": "shell"}, "shell runs its lines on the node"),
        ({"container": {"image": "x", "runtime": "docker"}, "venv": "/v"}, "`venv` is of the node"),
        ({"container": {"image": "x", "runtime": "docker"}, "chdir": "/a:b"}, "cannot mount '/a:b'"),
    ],
)
def test_what_is_refused(more, message):
    with pytest.raises(InputError, match=r".") as caught:
        text(ONE | more)
    assert any(message in str(problem) for problem in caught.value.problems), caught.value.problems


def test_the_profile_names_the_runtime_and_the_spec_wins(tmp_path, monkeypatch):
    folder = tmp_path / "slurmgpu" / "profiles"
    folder.mkdir(parents=True)
    (folder / "default.toml").write_text('container_runtime = "apptainer"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    environ = {"HOME": "/home/alice", "XDG_CONFIG_HOME": str(tmp_path)}
    import yaml

    from slurmgpu.experiment import command

    for block, wanted in (({"image": "x"}, "type -P apptainer"), ({"image": "x", "runtime": "docker"}, "docker run")):
        content = yaml.safe_dump(ONE | {"container": block}).encode()
        assert wanted in command.render(command.Request("-", content), FOLDER, environ).text
    (folder / "default.toml").write_text('container_runtime = "podman"\n')
    with pytest.raises(InputError, match="podman"):
        command.render(command.Request("-", content), FOLDER, environ)


def test_pyxis_is_on_the_srun_line_and_nowhere_else():
    spec = box("pyxis", mounts=["/a b", "~/d:/data:ro"], workdir="/w d", args=["--container-remap-root"])
    script = text(spec | {"env": {"A": "1"}, "secrets": ["B"]})
    (line,) = [line for line in script.splitlines() if "--container-image" in line]
    assert line == (
        f"  --container-image=image:1 '--container-mounts={FOLDER}:{FOLDER},/a b:/a b,/home/alice/d:/data:ro' "
        "'--container-workdir=/w d' --container-env=A,B,MASTER_ADDR,MASTER_PORT,OMP_NUM_THREADS "
        "--container-remap-root \\"
    )
    # in the header they would put the batch script into the container too, where there is no srun
    assert not any("container" in line for line in script.splitlines() if line.startswith("#SBATCH"))


def test_a_mount_stands_for_the_job_s_folder():
    script = text(box("pyxis", mounts=[f"/other:{FOLDER}"]))
    assert f"--container-mounts=/other:{FOLDER} " in script


def test_apptainer_gets_nv_with_gpus_only_and_its_words_as_written(bash):
    spec = box("apptainer", mounts=["/a b:/c:ro"], workdir="/w d", args=["--no-home"]) | {"chdir": "/tmp"}
    run(bash, spec)
    assert words(bash, "apptainer")[:7] == [
        "exec", "--nv", "--bind=/tmp:/tmp", "--bind=/a b:/c:ro", "--pwd=/w d", "--no-home", "docker://image:1",
    ]  # fmt: skip
    run(bash, _on_cpus(spec))
    assert "--nv" not in words(bash, "apptainer")


def _on_cpus(spec):
    kept = {key: value for key, value in spec.items() if key not in ("gpus_per_node", "cpus_per_gpu")}
    return kept | {"launcher": "python", "cpus_per_task": 1}


@pytest.mark.parametrize(
    ("visible", "wanted"),
    [("0,3", '"device=GPU-a,MIG-b"'), ("GPU-1,GPU-2", '"device=GPU-1,GPU-2"'), ("MIG-x", '"device=MIG-x"')],
)
def test_docker_gets_the_gpus_by_uuid(bash, visible, wanted):
    run(bash, box("docker"), CUDA_VISIBLE_DEVICES=visible)
    got = words(bash, "docker")
    assert got[got.index("--gpus") + 1] == wanted
    if visible == "0,3":
        assert words(bash, "smi") == ["--id=0,3", "--query-gpu=uuid", "--format=csv,noheader"]


@pytest.mark.parametrize("visible", ["7", ""])
def test_docker_does_not_start_without_the_gpus(bash, visible):
    # `--gpus device=` would give all of the node's
    ended = bash.run(text(box("docker")), gpus=1, CUDA_VISIBLE_DEVICES=visible)
    assert ended.returncode == 1
    assert "nvidia-smi does not know the GPUs" in ended.stderr
    assert not (bash.folder / "out.docker").exists()


def test_docker_keeps_a_secret_out_of_its_arguments(bash):
    run(bash, box("docker") | {"secrets": ["TOKEN"]}, TOKEN="s3cret", CUDA_VISIBLE_DEVICES="0,3")
    assert "--env=TOKEN" in words(bash, "docker")
    assert "s3cret" not in (bash.folder / "out.docker").read_text()
    assert bash.environ["TOKEN"] == "s3cret"


@pytest.mark.parametrize("runtime", ["apptainer", "docker"])
def test_the_launcher_s_slurm_s_and_a_sweep_s_variables_are_let_through(bash, runtime):
    spec = box(runtime) | {"command": bash.program, "sweep": {"lr": ["1e-3", "it's"]}}
    ended = bash.run(
        text(spec), gpus=1, CUDA_VISIBLE_DEVICES="0,3", SLURM_ARRAY_TASK_ID="1", SLURM_STEP_ID="0", OTHER="x"
    )
    assert ended.returncode == 0, ended.stderr
    got = bash.environ
    assert got["SWEEP_LR"] == "it's"
    assert {
        "SLURM_JOB_ID",
        "SLURMGPU_POINT",
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
    } <= set(got)
    assert not set(got) & {"OTHER", "SLURMGPU_CONTAINER"}
    assert bash.argv == ["--lr=it's"]
    # docker gives the GPUs it has itself; apptainer shows all of them
    assert ("CUDA_VISIBLE_DEVICES" in got) == (runtime == "apptainer")


@pytest.mark.parametrize("runtime", ["apptainer", "docker", "pyxis"])
@pytest.mark.parametrize("value", HOSTILE)
def test_values_and_words_arrive_as_typed(bash, runtime, value):
    spec = box(runtime) | {"command": [bash.program, value, "x"], "env": {"VALUE": value}}
    run(bash, spec, CUDA_VISIBLE_DEVICES="0,3")
    assert bash.argv == [value, "x"]
    assert bash.environ["VALUE"] == value


@pytest.mark.parametrize("runtime", ["apptainer", "docker"])
@PROPERTY
@given(name=NAMES, value=TEXT, word=TEXT)
def test_any_value_and_word_arrives_as_typed(bash, runtime, name, value, word):
    spec = box(runtime) | {"command": [bash.program, word], "env": {name: value}}
    run(bash, spec, CUDA_VISIBLE_DEVICES="0,3")
    assert bash.argv == [word]
    assert bash.environ[name] == value


def test_torchrun_starts_in_the_container(bash):
    spec = box("docker") | {"launcher": "torchrun", "gpus_per_node": 2, "command": "train.py --x 'a b'"}
    script = text(spec)
    assert "torchrun() { contained python3 -c" in script
    ended = bash.run(script, gpus=2, CUDA_VISIBLE_DEVICES="0,3", SLURM_STEP_ID="0")
    got = words(bash, "docker")
    at = got.index("image:1")
    assert got[at + 1 : at + 3] == ["python3", "-c"], ended.stderr
    assert got[-4:] == ["train.py", "--x", "a b", ""]

"""The script as a whole: what made it, where its lines come from, and what it does when a bash runs it."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import slurmgpu
from slurmgpu.errors import InputError
from slurmgpu.experiment.header import read_header
from tests.rendering import Bash, render, text

GOLDEN = Path(__file__).parent.parent / "golden"
TWO_NODES = {"command": "train.py --lr 3e-4", "nodes": 2, "gpus_per_node": 4, "cpus_per_gpu": 4, "time": "1h"}


@pytest.fixture
def bash(tmp_path):
    return Bash(tmp_path)


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.yaml")))
def test_golden(name):
    """Each .sh was written by hand from the rules; a difference is a change of what users get."""
    import yaml

    spec = yaml.load((GOLDEN / f"{name}.yaml").read_text(), yaml.BaseLoader)
    # the digest is no rule's consequence, so it is not held here
    made = rf"by slurmgpu {re.escape(slurmgpu.__version__)} from stdin, resolved spec [0-9a-f]{{12}}\n"
    got = re.sub(made, "by slurmgpu VERSION from stdin, resolved spec DIGEST\n", text(spec), count=1)
    assert got == (GOLDEN / f"{name}.sh").read_text()


def test_same_spec_same_bytes_and_another_spec_another_digest():
    assert text(TWO_NODES) == text(dict(reversed(TWO_NODES.items())))
    head = [text(spec).splitlines()[1] for spec in (TWO_NODES, TWO_NODES | {"time": "2h"})]
    assert head[0] != head[1]
    assert re.fullmatch(r"# Made by slurmgpu \S+ from stdin, resolved spec [0-9a-f]{12}", head[0])


SHAPES = [
    {"command": "train.py"},
    TWO_NODES,
    TWO_NODES | {"torchrun": {"rendezvous": "static"}},
    {"command": "train.py", "gpus_per_node": 8, "secrets": ["TOKEN"], "env": {"A": "x\ny"}, "conda": "torch"},
    {"command": "train.py", "gpus_per_node": 2, "launcher": "srun", "modules": ["cuda/12.4"], "venv": "~/v"},
    {"command": "nvidia-smi | tee log", "launcher": "shell", "gpus_per_node": 1, "cpus_per_gpu": 2, "setup": "cd x"},
    {"command": "train.py", "uv": "proj", "secrets": {"TOKEN": "~/.token"}, "array": "0-3", "exclusive": "true"},
]


@pytest.mark.parametrize("spec", SHAPES)
def test_explain_only_adds_comment_lines(spec):
    explained = text(spec, explain=True)
    plain = "".join(line for line in explained.splitlines(keepends=True) if not line.startswith("#: "))
    assert plain == text(spec)
    assert [line.arguments for line in read_header(explained)] == [line.arguments for line in read_header(plain)]
    # every directive has its origin right above it
    lines = explained.splitlines()
    for above, line in itertools.pairwise(lines):
        if line.startswith("#SBATCH"):
            assert re.match(r"#: [a-z_.0-9-]+, (<stdin>:\d+:\d+|default)", above), line


@pytest.mark.parametrize("spec", SHAPES)
def test_bash_accepts_every_shape(spec):
    checked = subprocess.run(["bash", "-n"], input=text(spec), text=True, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_nothing_traces_and_no_secret_value_is_read_at_render(monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cr3t-value")
    script = text({"command": "train.py", "secrets": ["TOKEN"]}, explain=True)
    assert "s3cr3t-value" not in script
    assert not re.search(r"set\s+-\w*[xv]", script)


def ports(job_ids):
    script = "for SLURM_JOB_ID in " + " ".join(map(str, job_ids)) + "; do echo $((%s)); done"
    formula = re.search(r"MASTER_PORT=\$\(\((.*?)\)\)", text(TWO_NODES))[1]
    output = subprocess.run(["bash", "-c", script % formula], text=True, capture_output=True, check=True).stdout
    return [int(line) for line in output.split()]


def test_port_is_below_the_ephemeral_range_away_from_known_ones_and_differs_between_neighbours():
    ids = [7910, 12767, 12768, 16384, 32767, *range(1, 8000), *range(500001, 500065), 4_294_967_293, 67_108_863]
    found = ports(ids)
    assert all(1024 < port < 32768 for port in found)
    # RabbitMQ, NFS over RDMA, Gluster, MongoDB, torchrun's own defaults, Slurm, Redis, Kubernetes, Ray
    known = {25672, 20048, 20049, 24007, 24008, 27017, 29400, 29500, 6817, 6818, 6819, 26379, 10250, 10001, 11211}
    assert not known & set(found)
    near = ports(range(3800, 4400))
    assert len(set(near)) == len(near)


def test_wrong_number_of_nodes_stops_with_one_clear_line(bash):
    ended = bash.run(text(TWO_NODES), nodes=3, gpus=4)
    assert ended.returncode == 1
    assert ended.stderr == "slurmgpu: got 3 nodes, but the spec says 2\n"


@pytest.mark.parametrize("launcher", ["torchrun", "srun", "python", "shell"])
@pytest.mark.parametrize("gpus", [0, 3, 5])
def test_wrong_number_of_gpus_stops_with_one_clear_line(bash, launcher, gpus):
    spec = {"command": "echo never", "gpus_per_node": 4, "launcher": launcher}
    ended = bash.run(text(spec), gpus=gpus)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert re.fullmatch(rf"slurmgpu: n1:? has {gpus} GPUs for this job, but the spec says 4\n", ended.stderr)


def test_an_exclusive_job_may_get_more_gpus(bash):
    ended = bash.run(
        text({"command": [bash.program], "gpus_per_node": 2, "exclusive": "true", "force": "true"}), gpus=4
    )
    assert ended.returncode == 0, ended.stderr


def test_scontrol_that_fails_stops_the_job_instead_of_making_it_a_world_of_one(bash):
    (bash.folder / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    ended = bash.run(text(TWO_NODES), nodes=2, gpus=4)
    assert ended.returncode == 1
    assert "scontrol cannot expand n[1-2]" in ended.stderr


def torchrun_options(bash, spec, **variables):
    """The options torchrun gets, by name, and what stands behind them."""
    nodes, gpus = spec.get("nodes", 1), spec.get("gpus_per_node", 0)
    ended = bash.run(text(spec), nodes=nodes, gpus=gpus, **variables)
    assert ended.returncode == 0, ended.stderr
    options = dict(word.removeprefix("--").partition("=")[::2] for word in bash.argv if re.match(r"--[a-z-]+=", word))
    return options, bash.argv


def test_one_node_is_standalone(bash):
    options, argv = torchrun_options(bash, {"command": "train.py -x", "gpus_per_node": 8})
    assert argv == ["--standalone", "--nproc-per-node=8", "--max-restarts=0", "train.py", "-x"]
    assert "rdzv-endpoint" not in options


def test_several_nodes_meet_by_c10d_with_explicit_host_and_own_id(bash):
    options, argv = torchrun_options(bash, TWO_NODES)
    assert options == {
        "nnodes": "2",
        "nproc-per-node": "4",
        "max-restarts": "0",
        "rdzv-backend": "c10d",
        "rdzv-endpoint": "n1:21334",
        "rdzv-conf": "is_host=1",
        "rdzv-id": "1234.0",
        "local-addr": "n1",
    }
    assert argv[-3:] == ["train.py", "--lr", "3e-4"]
    second, _ = torchrun_options(bash, TWO_NODES, SLURMD_NODENAME="n2", SLURM_RESTART_COUNT="2", SLURM_NODEID="1")
    assert second["rdzv-conf"] == "is_host=0"
    assert second["rdzv-id"] == "1234.2"
    assert second["rdzv-endpoint"] == "n1:21334"


def test_static_rendezvous_takes_the_rank_of_its_own_node(bash):
    spec = TWO_NODES | {"torchrun": {"rendezvous": "static", "max_restarts": 3}}
    options, _ = torchrun_options(bash, spec, SLURM_NODEID="1")
    assert options == {
        "nnodes": "2",
        "nproc-per-node": "4",
        "max-restarts": "3",
        "node-rank": "1",
        "master-addr": "n1",
        "master-port": "21334",
    }


@pytest.mark.parametrize(
    ("command", "launcher", "expected"),
    [
        ("train.py -a", "torchrun", ["train.py", "-a"]),
        ("python train.py -a", "torchrun", ["train.py", "-a"]),
        ("python3 -u train.py", "torchrun", ["train.py"]),
        ("python -m pkg.train -a", "torchrun", ["-m", "pkg.train", "-a"]),
        ("-m pkg.train", "torchrun", ["-m", "pkg.train"]),
        ("python -O train.py", "torchrun", ["--no-python", "python", "-O", "train.py"]),
        ("./prog -a", "torchrun", ["--no-python", "./prog", "-a"]),
        ("train.py -a", "srun", ["python3", "-u", "train.py", "-a"]),
        ("-m pkg", "python", ["python3", "-u", "-m", "pkg"]),
        ("python -O train.py", "python", ["python", "-O", "train.py"]),
        ("./prog -a", "srun", ["./prog", "-a"]),
    ],
)
def test_how_a_launcher_is_handed_the_command(command, launcher, expected):
    script = text({"command": command, "gpus_per_node": 1, "launcher": launcher})
    assert script.endswith(f"' slurmgpu {' '.join(expected)}\n")


@pytest.mark.parametrize(
    "command", ["torchrun train.py", "srun ./x", "python -m torch.distributed.run x.py", "-x", ["-m"], "mpirun x"]
)
def test_a_command_that_launches_itself_is_refused(command):
    with pytest.raises(InputError, match="`command`"):
        text({"command": command, "gpus_per_node": 2})


@pytest.mark.parametrize(
    ("ranks", "code"),
    [
        ("3@7", 3),
        ("1@7", 1),
        ("-9@7", 137),
        ("-15@7 3@7", 3),  # rank 1 failed, torchrun ended rank 0
        ("1@7 3@7", 3),  # rank 0 lost its connection in the same second
        ("1@6 3@7", 1),  # rank 0 was first
        ("-15@6 1@7 -9@8", 1),
        ("-15@7", 143),
    ],
)
def test_torchrun_ends_with_the_code_of_the_rank_that_failed(bash, ranks, code):
    ended = bash.run(text({"command": "train.py", "gpus_per_node": 2}), gpus=2, RANKS=ranks)
    assert ended.returncode == code
    assert ended.stderr == f"{ranks}\n"  # what torchrun reports is in the log as ever


def test_a_python_without_torch_is_one_clear_line(bash):
    ended = bash.run(text({"command": "train.py", "gpus_per_node": 2}), gpus=2, PYTHONPATH="", PYTHONNOUSERSITE="1")
    if "No module named" not in ended.stderr:
        pytest.skip("the python3 on PATH has PyTorch itself")
    assert ended.returncode == 1
    assert re.fullmatch(
        r"slurmgpu: No module named 'torch\S*: name the environment that has PyTorch .*\n", ended.stderr
    )


def test_srun_launcher_gives_each_rank_its_place_and_binds_no_gpu(bash):
    spec = {"command": [bash.program], "launcher": "srun", "nodes": 2, "gpus_per_node": 4, "cpus_per_gpu": 3}
    script = text(spec)
    ended = bash.run(script, 2, 4, SLURM_PROCID="5", SLURM_LOCALID="1", SLURM_NTASKS="8", SLURM_NODEID="1")
    assert ended.returncode == 0, ended.stderr
    wanted = {
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "4",
        "NODE_RANK": "1",
        "MASTER_ADDR": "n1",
        "MASTER_PORT": "21334",
        "OMP_NUM_THREADS": "3",
    }
    assert {name: bash.environ.get(name) for name in wanted} == wanted
    assert not re.search(r"gpus-per-task|gpu-bind|ntasks-per-gpu|tres-bind", script)


@pytest.mark.parametrize("launcher", ["torchrun", "srun", "python"])
def test_the_srun_line_repeats_cpus_and_names_no_gres(launcher):
    script = text({"command": "train.py", "launcher": launcher, "gpus_per_node": 1, "cpus_per_gpu": 16})
    line = next(line for line in script.splitlines() if line.startswith("exec srun"))
    assert " --cpus-per-task=16 " in line
    assert "--kill-on-bad-exit=1" in line
    assert "--gres" not in line
    assert ("--wait=60" if launcher == "torchrun" else "--wait=0") in line


def test_leftovers_of_an_outer_job_do_not_reach_the_program(bash):
    outer = {
        "PET_NNODES": "7",
        "PMIX_RANK": "3",
        "SLURM_CPU_BIND": "mask_cpu:0x1",
        "SLURM_CPU_BIND_LIST": "0x1",
        "SLURM_MEM_BIND": "local",
        "SLURM_TRES_PER_TASK": "cpu:2",
        "SRUN_CPUS_PER_TASK": "2",
        "SLURM_GPUS_PER_TASK": "1",
        "SLURM_EXPORT_ENV": "NONE",
    }
    ended = bash.run(text({"command": [bash.program], "cpus_per_task": 16}), **outer)
    assert ended.returncode == 0, ended.stderr
    assert {name: bash.environ[name] for name in outer if name in bash.environ} == {"SLURM_EXPORT_ENV": "ALL"}


def test_hostile_cpu_variables_do_not_disagree_in_a_shell_job(bash):
    spec = {"command": bash.program, "launcher": "shell", "cpus_per_task": 16}
    ended = bash.run(text(spec), SLURM_CPUS_PER_TASK="1", SLURM_TRES_PER_TASK="cpu:2")
    assert ended.returncode == 0, ended.stderr
    cpus = {name: value for name, value in bash.environ.items() if "CPUS_PER_TASK" in name or "TRES_PER" in name}
    assert cpus == {"SLURM_CPUS_PER_TASK": "16", "SRUN_CPUS_PER_TASK": "16"}


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 3", 3), ("false | tee log", 1), ("false; echo hidden", 1), ("sh -c 'exit 7' | cat", 7), ("true", 0)],
)
def test_no_exit_code_is_hidden(bash, command, code):
    ended = bash.run(text({"command": command, "launcher": "shell"}))
    assert ended.returncode == code
    assert "hidden" not in ended.stdout


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"cpus_per_gpu": 12, "gpus_per_node": 4, "launcher": "torchrun"}, "12"),
        ({"cpus_per_task": 9, "gpus_per_node": 4, "launcher": "torchrun"}, "2"),
        ({"cpus_per_task": 2, "gpus_per_node": 4, "launcher": "torchrun"}, "1"),
        ({"cpus_per_task": 6, "launcher": "python"}, "6"),
        ({"launcher": "python"}, "8"),  # the node's CPUs, which the job knows
        ({"gpus_per_node": 4, "launcher": "torchrun"}, "2"),
        ({"cpus_per_task": 6, "env": {"OMP_NUM_THREADS": "3"}}, "3"),
    ],
)
def test_omp_num_threads(bash, extra, expected):
    ended = bash.run(text({"command": [bash.program]} | extra), gpus=extra.get("gpus_per_node", 0))
    assert ended.returncode == 0, ended.stderr
    assert bash.environ["OMP_NUM_THREADS"] == expected


def test_a_secret_comes_from_the_environment_or_stops_the_job(bash):
    script = text({"command": [bash.program], "secrets": ["TOKEN"]})
    assert bash.run(script, TOKEN="v a l'u\ne").returncode == 0
    assert bash.environ["TOKEN"] == "v a l'u\ne"
    ended = bash.run(script)
    assert ended.returncode == 1
    assert ended.stderr == "slurmgpu: secret TOKEN is not in the environment: export it before sbatch\n"


@pytest.mark.parametrize(("mode", "code"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1), (None, 1)])
def test_a_secret_file_must_be_private(bash, mode, code):
    file = bash.folder / "my token"
    if mode is not None:
        file.write_text("s3cr3t\n")
        file.chmod(mode)
    ended = bash.run(text({"command": [bash.program], "secrets": {"TOKEN": str(file)}}))
    assert ended.returncode == code, ended.stderr
    if code:
        assert "secret TOKEN: the file must exist and be readable by its owner only" in ended.stderr
    else:
        assert bash.environ["TOKEN"] == "s3cr3t"


def test_modules_are_found_in_a_shell_without_login(bash):
    """A module system of two lines, started as Lmod and Environment Modules are: from an init file."""
    init = bash.folder / "init"
    init.mkdir()
    (init / "bash").write_text('module() { [ "$2" != missing ] || return 1; export LOADED="$LOADED $1:$2"; }\n')
    spec = {"command": [bash.program], "modules": ["cuda/12.4", "odd name"]}
    ended = bash.run(text(spec), MODULESHOME=str(bash.folder))
    assert ended.returncode == 0, ended.stderr
    assert bash.environ["LOADED"] == " load:cuda/12.4 load:odd name"
    ended = bash.run(text(spec | {"modules": ["missing"]}), MODULESHOME=str(bash.folder))
    assert ended.returncode == 1
    assert ended.stderr == "slurmgpu: module load of missing failed\n"


def test_conda_is_activated_through_its_hook(bash):
    conda = bash.folder / "conda"
    conda.write_text('#!/bin/sh\necho \'conda() { [ "$2" = good ] || return 1; export CONDA_DEFAULT_ENV="$2"; }\'\n')
    conda.chmod(0o755)
    ended = bash.run(text({"command": [bash.program], "conda": "good"}))
    assert ended.returncode == 0, ended.stderr
    assert bash.environ["CONDA_DEFAULT_ENV"] == "good"
    ended = bash.run(text({"command": [bash.program], "conda": "bad"}))
    assert (ended.returncode, ended.stderr) == (1, "slurmgpu: conda environment bad cannot be activated\n")
    conda.unlink()
    ended = bash.run(text({"command": [bash.program], "conda": "good"}))
    assert ended.returncode == 1
    assert "conda is not on n1" in ended.stderr


def test_a_real_virtual_environment_is_activated(bash):
    folder = bash.folder / "my venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    ended = bash.run(text({"command": [bash.program], "venv": str(folder)}))
    assert ended.returncode == 0, ended.stderr
    assert bash.environ["VIRTUAL_ENV"] == str(folder)
    ended = bash.run(text({"command": [bash.program], "venv": "/nowhere"}))
    assert (ended.returncode, ended.stderr) == (1, "slurmgpu: no virtual environment at /nowhere on n1\n")


def test_a_real_uv_project_is_synchronised_and_activated(bash):
    uv = Path(sys.executable).with_name("uv")
    if not uv.exists():
        pytest.skip("uv is not installed beside this Python (pip install uv)")
    project = bash.folder / "proj"
    project.mkdir()
    (project / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.11"\n')
    subprocess.run([uv, "lock", "--offline", "--project", project, "--python", sys.executable], check=True)
    variables = {"PATH": f"{bash.folder}:{uv.parent}:{os.environ['PATH']}", "UV_OFFLINE": "1"}
    script = text({"command": [bash.program], "uv": str(project)})
    for _ in range(2):  # the first makes .venv, the second finds it
        ended = bash.run(script, **variables, UV_PYTHON=sys.executable)
        assert ended.returncode == 0, ended.stderr
        assert bash.environ["VIRTUAL_ENV"] == str(project / ".venv")


def test_setup_runs_before_the_launch_and_ends_the_job_when_it_fails(bash):
    ended = bash.run(text({"command": [bash.program], "setup": "export A=1\nB=2\nexport B\n"}))
    assert ended.returncode == 0, ended.stderr
    assert (bash.environ["A"], bash.environ["B"]) == ("1", "2")
    ended = bash.run(text({"command": ["echo", "never"], "setup": "cd /nowhere\necho never"}))
    assert ended.returncode == 1
    assert ended.stdout == ""


# --- a template of the user's


def template(tmp_path, content):
    path = tmp_path / "mine.j2"
    path.write_text(content)
    return str(path)


def test_a_template_overrides_blocks_and_sees_the_job(tmp_path):
    block = "{% block before_launch %}echo {{ job.name | sh }} {{ job.nodes }}{% endblock %}"
    mine = template(tmp_path, '{% extends "sbatch.sh.j2" %}' + block)
    script = text(TWO_NODES | {"name": "a b"}, template=mine)
    assert "\necho 'a b' 2" in script
    assert script.index("echo 'a b'") < script.index("exec srun")


def test_a_template_may_add_directives_but_not_lose_any(tmp_path):
    more = template(
        tmp_path, '{% extends "sbatch.sh.j2" %}{% block directives %}{{ super() }}#SBATCH --hold\n{% endblock %}'
    )
    assert "#SBATCH --hold\n" in text(TWO_NODES, template=more)
    less = template(tmp_path, '{% extends "sbatch.sh.j2" %}{% block directives %}#SBATCH --hold\n{% endblock %}')
    with pytest.raises(InputError, match="mine.j2: the script lacks --job-name"):
        text(TWO_NODES, template=less)


def test_a_command_before_the_header_is_noticed(tmp_path):
    mine = template(tmp_path, '{% extends "sbatch.sh.j2" %}{% block directives %}set -e\n{{ super() }}{% endblock %}')
    with pytest.raises(InputError, match="keep the block `directives` whole and first"):
        text(TWO_NODES, template=mine)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{% extends "sbatch.sh.j2" %}{% block start %}{{ job.nope }}{% endblock %}', "nope"),
        ('{% extends "sbatch.sh.j2" %}\n{% block start %}{{ jb }}{% endblock %}', "jb"),
        ("{% block x %}", r"mine.j2:1:1: "),
        ('{% extends "nope.j2" %}', "nope.j2"),
    ],
)
def test_a_faulty_template_is_a_clear_error(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        text(TWO_NODES, template=template(tmp_path, content))
    with pytest.raises(InputError, match="gone.j2: cannot be read: No such file"):
        text(TWO_NODES, template="gone.j2")


def test_a_spec_value_is_never_a_template():
    script = text({"command": ["echo", "{{ 7 * 7 }}{% if x %}"], "name": "{{ job.nodes }}", "env": {"X": "{{ 1 }}"}})
    assert "{{ 7 * 7 }}{% if x %}" in script
    assert '--job-name="{{ job.nodes }}"' in script


def test_notes_name_what_was_not_checked_and_what_a_person_may_have_meant():
    notes = " ".join(render({"command": "train.py --out $SCRATCH", "env": {"PATH": "/opt/bin:$PATH"}}).notes)
    for words in ("no cluster profile", "`command` holds $", "`env.PATH` holds $", "no `time`", "no `mem_per_gpu`"):
        assert words in notes

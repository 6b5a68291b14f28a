"""import: what a script by hand asks for and does, the spec and its script ask for and do too."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurmgpu.errors import InputError
from slurmgpu.experiment import command, importing, importyaml, request
from slurmgpu.experiment.header import read_header
from slurmgpu.experiment.lint import RULES, lint
from slurmgpu.experiment.yamltext import load
from tests.experiment.test_bytes import PROPERTY
from tests.experiment.test_lint import WORDS as HEADER_WORDS
from tests.experiment.test_lintbody import WORDS
from tests.rendering import ENVIRON, FOLDER, Bash, text

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = sorted((ROOT / "tests" / "scripts").glob("*/*.sh"))
START = "#!/bin/bash\n#SBATCH --no-requeue\n"


def imported(script, name="train.sh"):
    found = importing.read(script, name, FOLDER, ENVIRON)
    return load(found.spec.encode(), "x").data, found.notes


def rendered(script, name="train.sh"):
    found = importing.read(script, name, FOLDER, ENVIRON)
    return command.render(command.Request("-", found.spec.encode()), FOLDER, ENVIRON).text


def of_header(*lines, body="python3 x.py\n"):
    return imported(START + "".join(f"#SBATCH {line}\n" for line in lines) + body)


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ("-J exp", {"name": "exp"}),
        ("", {"name": "train.sh", "output": "slurm-%j.out"}),
        ("--job-nam='a b'", {"name": "a b"}),
        ("-N 1 --gres=gpu:h100:4,nvme:2", {"gpus_per_node": "4", "gpu_type": "h100", "gres": "nvme:2"}),
        ("--gpus=a100:2", {"gpus_per_node": "2", "gpu_type": "a100"}),
        ("-G 1", {"gpus_per_node": "1"}),
        ("--gpus-per-node=1", {"gpus_per_node": "1"}),
        ("--gres=gpu:1g.10gb:1", {"gpus_per_node": "1", "gpu_type": "1g.10gb"}),
        ("-c 8 --mem=64G -t 1-12", {"cpus_per_task": "8", "mem": "64G", "time": "1-12"}),
        ("--mem-per-cpu=4000 --time=90", {"mem_per_cpu": "4000", "time": "90"}),
        ("-p a,b -A lab -q high", {"partition": "a,b", "account": "lab", "qos": "high"}),
        ("-a 1-9:2%3 -o x-%A_%a.log -e y-%a", {"array": "1-9:2%3", "output": "x-%A_%a.log", "error": "y-%a"}),
        ("-a 1-9", {"output": "slurm-%A_%a.out"}),
        ("--exclusive", {"exclusive": "true"}),
        ("--exclusive=user", {"exclusive": "user"}),
        ("--requeue", {"requeue": "true"}),
        ("-D /data", {"chdir": "/data"}),
        ("-x 'n[1-2],n4' -w n[5-6] -N 2 --ntasks-per-node=3", {"exclude": "n[1-2],n4", "nodelist": "n[5-6]"}),
        ("--mail-type=END,FAIL --mail-user=a@b", {"mail_type": "END,FAIL", "mail_user": "a@b"}),
        ("-d afterok:1 --begin=now+1hour -H", {"dependency": "afterok:1", "begin": "now+1hour", "hold": "true"}),
        ("--nice --comment=\"a # b\"", {"nice": "true", "comment": "a # b"}),
        ("--signal=TERM@60 --propagate", {"signal": "TERM@60", "propagate": "true"}),
        ("--frobnicate=3 --profile=task", {"sbatch": {"frobnicate": "3", "profile": "task"}}),
        ("-C 'a&b'", {"constraint": "a&b"}),
        ("--output=50%%-$x%j", {"output": "50%%-$$x%j"}),
        ("--output=a$-%j", {"output": "a$$-%j"}),
    ],
)  # fmt: skip
def test_an_option_becomes_a_key(options, keys):
    spec, _ = of_header(options, body="srun python3 x.py\n")
    assert {key: spec.get(key) for key in keys} == keys


@pytest.mark.parametrize(
    ("lines", "line", "word"),
    [
        (["-N 2-4"], 3, "a range"),
        (["-n 4"], 3, "may be spread"),
        (["-N 2 -n 3"], 3, "the same on each"),
        (["-N 2", "--gpus=5"], 4, "uneven on 2 nodes"),
        (["--ntasks=2 --gpus-per-task=1"], 3, "hides the other GPUs"),
        (["--gres=gpu:a100:1,gpu:v100:1"], 3, "gpu:v100:1 is not carried over"),
        (["--gpu-bind=none"], 3, "--gpu-bind is not carried over"),
        (["--wait"], 3, "--wait is not carried over"),
        (["--output=$HOME/x-%j"], 3, "does not expand $HOME"),
        (["--output=~/x-%j"], 3, "does not expand ~"),
        (["--job-name=a/b"], 3, "slash"),
        (["--output=fixed.log"], 0, "open_mode: truncate"),
        (["--time=5000-0"], 3, "time"),
        (["--mem=lots"], 3, "`mem` 'lots' is not a memory size"),
        (["--job-name=exp#1 --nodes=2"], 3, "not carried over"),
    ],
)
def test_what_changes_is_said_with_its_line(lines, line, word):
    _, notes = of_header(*lines, body="srun python3 x.py\n")
    assert [number for number, note in notes if word in note] == [line]


def test_a_plain_script_says_nothing():
    assert of_header("--mem=1G")[1] == []


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("#!/usr/bin/env python3\nprint(1)\n", "is for python3"),
        ("#!/bin/tcsh\n", "is for tcsh"),
        ("srun x\n", "does not start with"),
        ("#!/bin/bash\necho \0\n", "NUL"),
        ("#!/bin/bash\r\nx\r\n", "carriage"),
        ("#!/bin/bash\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\nx\n", "heterogeneous"),
    ],
)
def test_what_no_spec_can_be(script, word):
    with pytest.raises(InputError) as refused:
        imported(script)
    assert word in str(refused.value.problems[0])


G4 = "#SBATCH --gpus-per-node=4\n"


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ("python x.py --lr 3e-4", {"launcher": "python", "command": "python x.py --lr 3e-4"}),
        ("srun python x.py 'a b'", {"launcher": "python", "command": ["python", "x.py", "a b"]}),
        (f"{G4}srun --ntasks-per-node=4 python x.py", {"launcher": "srun", "ntasks_per_node": None}),
        ("#SBATCH -n 3 -N 1\nsrun ./prog", {"launcher": "srun", "ntasks_per_node": "3"}),
        (f"{G4}torchrun --standalone --nproc_per_node=4 x.py", {"launcher": "torchrun", "torchrun": None}),
        (f"{G4}python -m torch.distributed.run --nproc-per-node 2 -m pkg.x", {"command": "-m pkg.x"}),
        (f"{G4}torchrun --nproc_per_node 2 x.py", {"torchrun": {"nproc_per_node": "2"}}),
        (f"{G4}torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE --max_restarts=3 x.py",
         {"torchrun": {"max_restarts": "3"}}),
        (f"{G4}#SBATCH -N 2\nsrun torchrun --nnodes 2 --node_rank 0 --nproc_per_node 4 x.py",
         {"torchrun": {"rendezvous": "static"}}),
        ("export A=1 B='x y'\nexport C=\"$HOME\"\npython x.py",
         {"env": {"A": "1", "B": "x y"}, "setup": 'export C="$HOME"\n'}),
        ("export A=~/x\npython x.py", {"env": None, "setup": "export A=~/x\n"}),
        ("export A='~/x'\npython x.py 'a*'", {"env": {"A": "~/x"}, "command": "python x.py a*"}),
        ("module load a b\nmodule load c\npython x.py", {"modules": ["a", "b", "c"], "setup": None}),
        ("module purge\nmodule load c\npython x.py", {"modules": None, "setup": "module purge\nmodule load c\n"}),
        ("source /v/bin/activate\npython x.py", {"venv": "/v"}),
        ("source ~/v/bin/activate\npython x.py", {"venv": "~/v"}),
        ('eval "$(conda shell.bash hook)"\nconda activate e\npython x.py', {"conda": "e", "setup": None}),
        ('eval "$(conda shell.bash hook)"\ndate\nconda activate e\npython x.py',
         {"conda": None, "setup": 'eval "$(conda shell.bash hook)"\ndate\nconda activate e\n'}),
        ("set -e\nif true; then\n  date\nfi\npython x.py", {"setup": "if true; then\n  date\nfi\n"}),
        ("f() { date; }\nf\npython x.py", {"setup": "f() { date; }\nf\n"}),
        ("export HF_TOKEN=abcdefghijk\npython x.py", {"secrets": ["HF_TOKEN"], "env": None}),
        (f"{G4}#SBATCH -N 2\nhead=$(scontrol show hostnames | head -n1)\nexport MASTER_ADDR=$head MASTER_PORT=1\n"
         "srun --ntasks-per-node=4 python x.py", {"launcher": "srun", "setup": None}),
        (f"{G4}head=$(hostname)\necho $head\nsrun --ntasks-per-node=4 python x.py",
         {"setup": "head=$(hostname)\necho $head\n"}),
        ("srun --container-image=a/b:1 --container-mounts=/x,/y:/z python x.py",
         {"container": {"image": "a/b:1", "runtime": "pyxis", "mounts": ["/x", "/y:/z"]}}),
    ],
)  # fmt: skip
def test_commands_become_keys(body, keys):
    spec, _ = imported(START + body + "\n")
    assert {key: spec.get(key) for key in keys} == keys
    assert spec["launcher"] != "shell"


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("python x.py --lr $LR", "the shell expands '$LR'"),
        ("python x.py *.txt", "the shell expands '*.txt'"),
        ('python x.py "a"*', "the shell expands 'a*'"),
        ("python x.py lr={1,2}", "the shell expands"),
        ("trap 'date' EXIT\npython x.py", "`trap` is before"),
        ("source $NOWHERE/v/bin/activate\npython x.py", "no other launcher takes this"),
        ("python a.py\npython b.py", "2 commands start a program"),
        ("python x.py | tee log", "nothing starts a program|something follows|has redirections, a pipe"),
        ("python x.py > log", "has redirections"),
        ("LR=1 python x.py", "variables of its own"),
        ("python x.py\necho done", "something follows"),
        ("srun python x.py &\nwait", "something follows"),
        ("for i in 1 2; do python x.py; done", "in a group"),
        ("./prog", "nothing starts a program"),
        ("nice python x.py", "`nice` is before"),
        ("srun --overlap python x.py", "srun has --overlap"),
        ("srun --export=NONE python x.py", "srun has --export"),
        ("srun bash run.sh", "a shell starts"),
        ("srun bash -c 'date; python x.py'", "a shell starts"),
        ("mpirun ./x", "`mpirun` starts"),
        ("accelerate launch x.py", "`accelerate` starts"),
        ("torchrun --tee 3 x.py", "torchrun has --tee"),
        ("#SBATCH -N 2\npython x.py", "first of several nodes"),
        ("#SBATCH -N 2\nsrun -N 1 python x.py", "does not use all the nodes"),
        ("#SBATCH --gres=gpu:2 -n 4 -N 1\nsrun python x.py", "4 tasks share 2 GPUs"),
        ("#SBATCH --gres=gpu:2\nsrun -n 2 torchrun x.py", "2 launchers"),
        ("true", "nothing starts a program"),
    ],
)
def test_what_is_not_certain_stays_bash(body, word):
    spec, notes = imported(START + body + "\n")
    lines = [line for line in body.split("\n") if not line.startswith("#SBATCH")]
    assert spec["launcher"] == "shell"
    assert spec["command"] == "set +eo pipefail\n" + "\n".join(lines) + "\n"
    assert any(
        one in note and (line >= 3 or one.startswith("no other")) for line, note in notes for one in word.split("|")
    ), notes


def meaning(script):
    """What a header asks for, however it is written."""
    asked = request.read(script)
    default = "slurm-%A_%a.out" if asked.text("array") else "slurm-%j.out"
    gpus = sorted((gres.name, gres.kind, gres.number) for gres in asked.gres)
    return {
        "nodes": asked.nodes or 1,
        "tasks": asked.tasks_per_node,
        "cpus": asked.cpus_per_node,
        "gres": gpus,
        "mem": asked.mem_mib,
        "time": asked.time_s,
        "array": asked.text("array"),
        "exclusive": asked.is_exclusive,
        "log": (asked.text("output") or default).split("/")[-1],
    } | {
        option: asked.text(option)
        for option in ("partition", "account", "qos", "constraint", "dependency", "signal", "exclude", "begin",
                       "comment", "mail-type", "mail-user", "nice", "reservation", "export")
    }  # fmt: skip


# where the spec says otherwise on purpose, with a note
DIFFERENT = {
    "mpi": {"tasks", "cpus", "mem"},  # --ntasks alone: all on one node
    "pyxis": {"mem"},  # --exclusive alone
}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_of_many_kinds_keep_their_meaning(path):
    script = path.read_text()
    again = rendered(script, path.name)
    before, after = meaning(script), meaning(again)
    changed = {key for key in before if before[key] != after[key]}
    assert changed == DIFFERENT.get(path.stem, set())
    assert request.read(again).text("job-name") == (request.read(script).text("job-name") or path.name)
    # a script of ours has nothing in its header to find fault with
    errors = {one.code for one in lint(again, "/") if RULES[one.code].is_error and one.code.startswith("SG1")}
    assert errors <= {"SG141"}


LAUNCHERS = {
    "torchrun_ip": "torchrun", "lab_single": "python", "purge_first": "torchrun", "srun_mpi_like": "srun",
    "bash_c_static": "torchrun", "pyxis": "srun", "apptainer_run": "shell", "array_lines": "shell",
    "requeue_trap": "shell", "several": "shell", "flawed_header": "python", "conda_hook": "python", "jax": "srun",
    "accelerate_cfg": "shell", "deepspeed_hostfile": "shell", "cpu_prep": "python",
}  # fmt: skip


@pytest.mark.parametrize(("stem", "launcher"), LAUNCHERS.items())
def test_public_kinds_are_understood_as_far_as_is_certain(stem, launcher):
    path = ROOT / "tests" / "scripts" / "public" / f"{stem}.sh"
    spec, _ = imported(path.read_text(), path.name)
    assert spec["launcher"] == launcher


def test_there_are_scripts_of_fifteen_public_kinds():
    assert {path.stem for path in SCRIPTS if path.parent.name == "public"} == set(LAUNCHERS)
    assert len(LAUNCHERS) >= 15


@pytest.mark.parametrize(
    "body",
    [
        "export A=1\ndump one 'two  three' $'tab\\t'\n",
        "set -e\nmodule() { :; }\nexport A='x \"y\" $z'\nB=2; export B\ndump\n",
        "if true; then export A=$((1 + 1)); fi\nsrun dump x >/dev/null\n",
        "false\ndump goes-on\n",
        "srun bash -c 'dump \"$0\" $SLURM_PROCID' zero\n",
        "cat <<EOF >/dev/null\n$HOME\nEOF\ndump a | cat\ndump b\n",
        'export A=\'#\' B="a\\\\b"\npython3 -c \'import subprocess; subprocess.call(["dump", "*"])\'\n',
    ],
)
def test_the_program_gets_the_same(tmp_path, body):
    bash = Bash(tmp_path)
    seen = []
    for script in (START + body, rendered(START + body)):
        ended = bash.run(script.replace(f"--chdir={FOLDER}", ""))
        kept = {name: bash.environ.get(name) for name in ("A", "B", "HOME", "PATH")}
        seen.append((ended.returncode, bash.argv, kept))
    assert seen[0] == seen[1]


def arguments(script):
    return sorted(argument for line in read_header(script) for argument in line.arguments)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_slurmgpu_renders_comes_back(path):
    script = command.render(command.Request(str(path), None, ("force=true",)), FOLDER, ENVIRON).text
    again = rendered(script)
    assert arguments(again) == arguments(script)
    body = script.split("\n\n", 1)[1]
    assert body in again


def test_a_rendered_job_does_the_same(tmp_path):
    bash = Bash(tmp_path)
    script = text({"command": ["dump", "a b", "$c"], "env": {"A": "x 'y'"}, "sweep": {"lr": ["1", "2 3"]}})
    seen = []
    for one in (script, rendered(script)):
        ended = bash.run(one, SLURM_ARRAY_TASK_ID="1")
        seen.append((ended.returncode, bash.argv, bash.environ["A"], bash.environ["SWEEP_LR"], ended.stdout))
    assert seen[0] == seen[1]
    assert seen[0][1] == ["a b", "$c", "--lr=2 3"]


VALUES = st.one_of(st.text(max_size=30), st.text("ab \n\t'\"#:-{}[],&*!|>%@`\\é\u2028\x85\x01~=0", max_size=20))


@PROPERTY
@given(
    st.dictionaries(
        st.sampled_from(["command", "name", "comment", "setup", "env"]),
        st.one_of(VALUES, st.lists(VALUES, max_size=3), st.dictionaries(st.sampled_from("AB"), VALUES, min_size=1)),
        min_size=1,
    )
)
@example({"setup": "  a\n b\n\n"})
@example({"setup": "\n\na"})
@example({"setup": "a\n\n\n"})
@example({"name": "null"})
@example({"name": "%x"})
def test_yaml_is_read_as_it_was_meant(keys):
    def there(value):
        if isinstance(value, dict):
            return {key: there(item) for key, item in value.items()}
        return [there(item) for item in value] if isinstance(value, list) else value

    assert load(importyaml.write(keys).encode(), "x").data == there(keys)


@PROPERTY
@given(HEADER_WORDS.map("".join), WORDS.map("".join))
def test_no_script_is_too_odd(head, body):
    script = "#!/bin/bash\n#SBATCH " + head + "\n" + body
    try:
        spec, _ = imported(script)
    except InputError:
        return
    assert spec["command"]

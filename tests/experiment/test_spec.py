"""Each key of a spec: what it takes, and every fault at its place with what to write instead."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgpu.errors import InputError
from slurmgpu.experiment import yamltext
from slurmgpu.experiment.options import OPTIONS, REFUSED, WRITTEN, parse_version
from slurmgpu.experiment.spec import KEYS, check


def spec(content):
    return check(*parts(content), "exp.yaml")


def parts(content):
    document = yamltext.load(content.encode(), "exp.yaml")
    return document.data, document.places, document.key_places


def problems(content):
    with pytest.raises(InputError) as refused:
        spec(content)
    return [str(problem) for problem in refused.value.problems]


def one(line):
    """The spec of `command: x` in line 1 and `line` from line 2 on."""
    return spec(f"command: x\n{line}\n")


def fault(line):
    said = problems(f"command: x\n{line}\n")
    assert len(said) == 1, said
    return said[0]


@pytest.mark.parametrize(
    ("line", "attribute", "value"),
    [
        ("name: Big simulation", "name", "Big simulation"),
        ("name: no", "name", "no"),
        ("name: 1.10", "name", "1.10"),
        ("launcher: srun", "launcher", "srun"),
        ("nodes: 4", "nodes", 4),
        ("nodes: 010", "nodes", 10),  # no octal
        ("nodes: +3", "nodes", 3),
        ("gpus: 0", "gpus", 0),
        ("gpus_per_node: 0", "gpus_per_node", 0),
        ("gpu_type: 1g.10gb", "gpu_type", "1g.10gb"),
        ("gpu_type: a100_3g.20gb", "gpu_type", "a100_3g.20gb"),
        ("gpu_type: nvidia_h100_80gb_hbm3", "gpu_type", "nvidia_h100_80gb_hbm3"),
        ("mem: 120G", "mem", 122_880),
        ("mem: 1.5G", "mem", 1536),
        ("mem: 0", "mem", 0),
        ("mem: 4096", "mem", 4096),
        ("mem_per_gpu: 40GB", "mem_per_gpu", 40_960),
        ("time: 12:00:00", "time", "0-12:00:00"),
        ("time: 48:00:00", "time", "2-00:00:00"),
        ("time: 1:30:00", "time", "0-01:30:00"),
        ("time: 08:00:00", "time", "0-08:00:00"),
        ("time: 90m", "time", "0-01:30:00"),
        ("time: 90", "time", "0-01:30:00"),
        ("time: 1-12", "time", "1-12:00:00"),
        ("time: 0", "time", "UNLIMITED"),
        ("array: 0-9%4", "array", "0-9%4"),
        ("exclusive: true", "exclusive", True),
        ("exclusive: false", "exclusive", False),
        ("exclusive: user", "exclusive", "user"),
        ("requeue: true", "requeue", True),
        ("requeue: expedite", "requeue", "expedite"),
        ("open_mode: truncate", "open_mode", "truncate"),
        ("nodelist: [n1, 'n[2-3]']", "nodelist", "n1,n[2-3]"),
        ("modules: cuda/12.4", "modules", ["cuda/12.4"]),
        ("modules: [cuda/12.4, gcc]", "modules", ["cuda/12.4", "gcc"]),
        ("env: {A: 1.10, B: no, C: '', D: 010}", "env", {"A": "1.10", "B": "no", "C": "", "D": "010"}),
        ("secrets: [TOKEN]", "secrets", {"TOKEN": None}),
        ("secrets: {TOKEN: ~/t}", "secrets", {"TOKEN": "~/t"}),
        ("setup: |\n  cd x\n  make\n", "setup", "cd x\nmake"),
        ("force: True", "force", True),
        (
            "sbatch: {segment: 4, --qos: x, mail_user: a@b}",
            "sbatch",
            {"segment": "4", "qos": "x", "mail-user": "a@b"},
        ),
        ("sbatch: {hold: true, new-flag: true}", "sbatch", {"hold": None, "new-flag": None}),
        ("sbatch: {profile: task}", "sbatch", {"profile": "task"}),
        ("sbatch: {core_spec: 0}", "sbatch", {"core-spec": "0"}),
        ("account: 03303560", "options", {"account": "03303560"}),
        ("partition: [gpu, long]", "options", {"partition": "gpu,long"}),
        ("mail_type: [BEGIN, END]", "options", {"mail-type": "BEGIN,END"}),
        ("begin: 2026-01-20T12:34:00", "options", {"begin": "2026-01-20T12:34:00"}),
        ("nice: true", "options", {"nice": None}),
        ("nice: 100", "options", {"nice": "100"}),
        ("nice: -5", "options", {"nice": "-5"}),
        ("nice: 0", "options", {"nice": "0"}),
        ("hold: true", "options", {"hold": None}),
        ("hold: false", "options", {}),
        ("core_spec: 0", "options", {"core-spec": "0"}),
        ("segment: 1", "options", {"segment": "1"}),
        ("tmp: 1.5G", "options", {"tmp": "1536M"}),
        ("time_min: 2h", "options", {"time-min": "0-02:00:00"}),
        ("constraint: a100|h100", "constraint", "a100|h100"),
    ],
)
def test_a_key_takes(line, attribute, value):
    assert getattr(one(line), attribute) == value


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("train.py --lr 3e-4", ["train.py", "--lr", "3e-4"]),
        ("train.py  --a\t'b c' \"d e\"", ["train.py", "--a", "b c", "d e"]),
        ('train.py \\"x\\"', ["train.py", '"x"']),
        ("train.py 'a|b' \"c>d\" e\\;f", ["train.py", "a|b", "c>d", "e;f"]),
        ("[train.py, 1.10, no, 'a b', '']", ["train.py", "1.10", "no", "a b", ""]),
        ("train.py $HOME *.txt", ["train.py", "$HOME", "*.txt"]),
        ("|\n  train.py\n    --a\n    b\n", ["train.py", "--a", "b"]),
    ],
)
def test_a_command_is_its_words(command, expected):
    assert spec(f"command: {command}\n").command == expected


def test_a_shell_command_is_its_lines():
    assert spec("command: |\n  a | b > c\n  d 'e\nlauncher: shell\n").command == "a | b > c\nd 'e\n"


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        ("nodes: 0", "2:8", "`nodes` 0 is out of range; write a number from 1 up"),
        ("nodes: -1", "2:8", "`nodes` -1 is out of range"),
        ("nodes: two", "2:8", "`nodes` 'two' is not a whole number"),
        ("nodes: 1_000", "2:8", "'1_000' is not a whole number"),
        ("nodes: 0x1F", "2:8", "'0x1F' is not a whole number"),
        ("nodes: 2.0", "2:8", "'2.0' is not a whole number"),
        ("nodes: 1e1", "2:8", "'1e1' is not a whole number"),
        ("nodes: ٣", "2:8", "is not a whole number"),
        ("nodes: --2", "2:8", "'--2' is not a whole number"),
        ("nodes: 99999999999", "2:8", "is out of range"),
        ("nodes: [1, 2]", "2:8", "`nodes` must be one value, not a list"),
        ("nodes: {a: 1}", "2:8", "`nodes` must be one value, not a mapping"),
        ("nodes:", "2:7", "`nodes` has no value; write one or remove the key"),
        ("gpus_per_node: -1", "2:16", "write a number from 0 up"),
        ("gpu_type: 3g", "2:11", "'3g' would be read as a count; write the whole gres type, such as h100 or 1g.10gb"),
        ("gpu_type: 4", "2:11", "would be read as a count"),
        ("gpu_type: a100:4", "2:11", "write the whole gres type"),
        ("mem: 1.5.5G", "2:6", "`mem` '1.5.5G' is not a memory size; write a number and K, M, G or T, such as 120G"),
        ("mem_per_gpu: 0", "2:14", "must be above 0; `mem: 0` asks for a node's whole memory"),
        ("mem_per_cpu: 0", "2:14", "must be above 0"),
        ("time: 4h30", "2:7", "`time` '4h30' is not a time; write minutes (90), HH:MM:SS (24:00:00)"),
        ("time: -5", "2:7", "'-5' is not a time"),
        ("array: 9-0", "2:8", "`array` '9-0' holds no index; write the lower one first"),
        ("exclusive: yes", "2:12", "`exclusive` must be true or false, not 'yes'"),
        ("requeue: off", "2:10", "`requeue` must be true or false, not 'off'"),
        ("force: on", "2:8", "must be true or false, not 'on'"),
        ("hold: maybe", "2:7", "must be true or false, not 'maybe'"),
        ("open_mode: a", "2:12", "must be append or truncate, not 'a'"),
        ("launcher: mpirun", "2:11", "`launcher` must be torchrun or srun or python or shell, not 'mpirun'"),
        ("name: a/b", "2:7", "`name` holds a `/`, which would become a folder in the log's path; write - or _"),
        ('name: "a\\n#SBATCH --account=other"', "2:7", "`name` holds a newline, which has no place in a directive"),
        ('account: "a\\rb"', "2:10", "holds a carriage return"),
        ('account: "a\\tb"', "2:10", "holds a tab"),
        ('account: "a\\0b"', "2:10", "holds a NUL"),
        ('account: "a\\eb"', "2:10", "holds the control character 0x1b"),
        ("account: ''", "2:10", "`account` is empty, which Slurm refuses; remove the key or write a value"),
        (f"account: {'x' * 1024}", "2:10", "is longer than the 1023 bytes that Slurm takes"),
        (f"account: {'é' * 512}", "2:10", "is longer than the 1023 bytes"),
        ("env: [A]", "2:6", "`env` must be a mapping of names to values, such as {NCCL_DEBUG: WARN}"),
        ("env: {1A: x}", "2:7", "'1A' cannot be a variable's name"),
        ("env: {A-B: x}", "2:7", "'A-B' cannot be a variable's name"),
        ("env: {A: ~}", "2:10", "`env.A` has no value; write '' for an empty one"),
        ("env: {A: [1]}", "2:10", "`env.A` must be one value, not a list"),
        ("env: {SLURM_NTASKS: 1}", "2:7", "SLURM_NTASKS steers Slurm or the launcher from behind"),
        ("env: {PET_NNODES: 1}", "2:7", "PET_NNODES steers Slurm or the launcher"),
        ("env: {MASTER_PORT: 1}", "2:7", "MASTER_PORT is set by the launcher"),
        ("env: {CUDA_VISIBLE_DEVICES: 0}", "2:7", "CUDA_VISIBLE_DEVICES is set by Slurm on each node"),
        ("env: {BASH_ENV: x}", "2:7", "BASH_ENV belongs to the shell"),
        ("secrets: [a b]", "2:11", "`secrets.0` must be a variable's name"),
        ("secrets: TOKEN", "2:10", "must be a list of variable names, or a mapping of names to files"),
        ("secrets: {A: ''}", "2:14", "`secrets.A` is empty"),
        ("torchrun: 8", "2:11", "must be a mapping with rendezvous, nproc_per_node, max_restarts, exit_wait"),
        ("torchrun: {nproc_pr_node: 8}", "2:12", "unknown key 'nproc_pr_node'; did you mean 'nproc_per_node'?"),
        ("torchrun: {rendezvous: etcd}", "2:24", "`torchrun.rendezvous` must be c10d or static, not 'etcd'"),
        ("sbatch: [a]", "2:9", "must be a mapping of long options to values, such as {segment: 4}"),
        ("sbatch: {mem: 4G}", "2:10", "--mem: write `mem` as a key of the spec"),
        ("sbatch: {--cpus-per-task: 4}", "2:10", "--cpus-per-task: write `cpus_per_task` as a key"),
        ("sbatch: {ntasks: 4}", "2:10", "--ntasks is not taken: write `nodes` and"),
        ("sbatch: {gpus-per-task: 1}", "2:10", "it hides all GPUs but one from each rank; write `gpus_per_node`"),
        ("sbatch: {wrap: ls}", "2:10", "--wrap is not taken: write `command` and `launcher: shell`"),
        ("sbatch: {'x y': 1}", "2:10", "'x y' is not a long option's name"),
        ("sbatch: {X: 1}", "2:10", "'X' is not a long option's name"),
        ("sbatch: {segment: a}", "2:19", "`sbatch.segment` 'a' is not a whole number"),
        ("tme: 1h", "2:1", "unknown key 'tme'; did you mean 'time'?"),
        ("mail-user: x", "2:1", "unknown key 'mail-user'; did you mean 'mail_user'?"),
        ("Time: 1h", "2:1", "unknown key 'Time'; did you mean 'time'?"),
        ("zzzz: 1", "2:1", "unknown key 'zzzz'"),
        ("ntasks: 8", "2:1", "unknown key 'ntasks': write `nodes` and"),
        ("gpus_per_task: 1", "2:1", "unknown key 'gpus_per_task': it hides all GPUs but one from each rank"),
        ("job_name: x", "2:1", "unknown key 'job_name': write `name`"),
        ("wait: 1", "2:1", "unknown key 'wait': it is for sbatch's command line"),
        ("gres: gpu:4", "2:7", "is for other resources; write GPUs as `gpus_per_node` and `gpu_type`"),
        ("gres: nvme:1,gpu:a100:4", "2:7", "write GPUs as `gpus_per_node` and `gpu_type`"),
        ("gres: gres/gpu:4", "2:7", "write GPUs as `gpus_per_node`"),
        ("nodelist: ./nodes.txt", "2:11", "holds a `/`, which makes sbatch read it as a file; write node names"),
        ("mem: 4G\nmem_per_gpu: 2G", "3:14", "`mem_per_gpu` cannot stand beside `mem`; keep one of them"),
        ("mem_per_cpu: 4G\nmem: 2G", "2:14", "`mem_per_cpu` cannot stand beside `mem`"),
        ("cpus_per_gpu: 4\ncpus_per_task: 2", "2:15", "`cpus_per_gpu` cannot stand beside `cpus_per_task`"),
        ("gpus: 4\ngpus_per_node: 4", "3:16", "`gpus_per_node` cannot stand beside `gpus`"),
        ("conda: a\nvenv: b", "3:7", "`venv` cannot stand beside `conda`"),
        ("exclusive: true\noversubscribe: true", "3:16", "`oversubscribe` cannot stand beside `exclusive`"),
        ("signal: TERM@60\nsbatch: {signal: TERM@9}", "3:10", "--signal stands in the spec twice; keep one of them"),
    ],
)
def test_a_fault_is_said_at_its_place_with_what_to_write(line, place, words):
    said = fault(line)
    assert said.startswith(f"exp.yaml:{place}: ")
    assert words in said


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        ("", "1:1", "is empty; a spec starts with `command: train.py`"),
        ("# nothing\n", "1:1", "is empty"),
        ("train.py\n", "1:1", "must be a mapping of keys to values, `key: value` a line"),
        ("- command: x\n", "1:1", "must be a mapping of keys to values"),
        ("nodes: 1\n", "1:1", "the key `command` is missing: what is to run, such as `command: train.py --lr 3e-4`"),
        ("command: ''\n", "1:10", "`command` is empty; write the program and its arguments"),
        ("command: []\n", "1:10", "is empty; write the program"),
        ("command: ['']\n", "1:10", "is empty; write the program"),
        ("command: {a: b}\n", "1:10", "must be one value, not a mapping"),
        ("command:\n", "1:9", "has no value"),
        (
            "command: train.py | tee log\n",
            "1:10",
            "`|` is shell syntax, but no shell reads this; use `launcher: shell`",
        ),
        ("command: a > b\n", "1:10", "`>` is shell syntax"),
        ("command: a; b\n", "1:10", "`;` is shell syntax"),
        ("command: train.py 'x\n", "1:10", "a quote is never closed; close it, or write the command as a list"),
        ("launcher: shell\ncommand: [a]\n", "2:10", "must be one text with launcher shell, not a list"),
    ],
)
def test_a_spec_without_a_command_that_can_run(content, place, words):
    said = problems(content)
    assert len(said) == 1
    assert said[0].startswith(f"exp.yaml:{place}: ")
    assert words in said[0]


def test_all_faults_are_said_at_once_in_the_order_of_the_file():
    content = """\
nodes: two
tme: 1h
mem: 4G
mem_per_gpu: 2X
env:
  A-B: 1
  OK: fine
  C: [1]
torchrun: {rendezvous: etcd, nproc: 8}
sbatch: {ntasks: 4, segment: x}
command: a | b
gres: gpu:1
"""
    said = problems(content)
    assert [line.split(": ")[0] for line in said] == [
        "exp.yaml:1:8",
        "exp.yaml:2:1",
        "exp.yaml:4:14",
        "exp.yaml:4:14",
        "exp.yaml:6:3",
        "exp.yaml:8:6",
        "exp.yaml:9:24",
        "exp.yaml:9:30",
        "exp.yaml:10:10",
        "exp.yaml:10:30",
        "exp.yaml:11:10",
        "exp.yaml:12:7",
    ]


@pytest.mark.parametrize("option", sorted(REFUSED))
def test_no_refused_option_is_taken_as_a_key(option):
    if option == "profile":  # names the cluster profile
        assert one("profile: x").profile == "x"
        return
    said = fault(f"{option.replace('-', '_')}: x")
    if option == "container":  # a block
        assert "must be a mapping with image" in said
        return
    assert said.startswith("exp.yaml:2:1: unknown key ") or "not supported" in said


@pytest.mark.parametrize("option", sorted(WRITTEN | set(REFUSED) - {"profile", "container"}))
@pytest.mark.parametrize("spelling", ["{}", "--{}"])
def test_no_option_that_is_written_or_refused_comes_through_the_sbatch_block(option, spelling):
    for name in (option, option.replace("-", "_")):
        assert f"--{option}" in fault(f"sbatch: {{{spelling.format(name)}: x}}")


def test_every_option_is_a_key_or_written_or_refused_but_not_two_of_them():
    assert not set(OPTIONS) & WRITTEN
    assert not set(OPTIONS) & set(REFUSED)
    assert {name.replace("-", "_") for name in OPTIONS} <= set(KEYS)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(set(KEYS) - {"command"})), st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
)
def test_any_text_in_any_key_is_taken_or_refused_by_name(key, text):
    data = {"command": ["x"], key: text}
    places = dict.fromkeys([(), ("command",), (key,)], yamltext.Place("exp.yaml", 2, 5))
    said = []
    try:
        checked = check(data, places, places, "exp.yaml")
    except InputError as error:
        said = [str(problem) for problem in error.problems] or ["nothing"]
    assert said or checked.command == ["x"]
    assert all(problem.startswith(f"exp.yaml:2:5: `{key}") for problem in said)


@pytest.mark.parametrize(("text", "version"), [("24.11", (24, 11)), ("24.05.3", (24, 5)), ("22.5", (22, 5))])
def test_version(text, version):
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["24", "", "24.x", "24.11.5.1", "v24.11", "24,11", "slurm 24.11", ".", "٢٤.١١"])
def test_what_is_no_version_is_refused(text):
    with pytest.raises(ValueError, match="is not a Slurm version; write one such as 24.11"):
        parse_version(text)


# --- what went wrong once ---------------------------------------------------------------------------------------


def test_a_flag_that_is_off_in_the_sbatch_block_is_not_written():
    assert one("sbatch: {hold: false}").sbatch == {}


@pytest.mark.parametrize("key", ["nice", "get_user_env", "no_kill", "propagate"])
def test_false_leaves_an_optional_value_out(key):
    assert one(f"{key}: false").options == {}


def test_one_option_twice_in_the_sbatch_block_is_refused():
    assert "twice" in fault("sbatch: {mail_user: a, mail-user: b}")


@pytest.mark.parametrize("name", ["tasks-per-node", "gpus-per-nod", "mem-per-g", "cpus-per-t", "job-n", "outp"])
def test_other_spellings_of_a_written_option_do_not_come_through_the_sbatch_block(name):
    assert f"--{name}" in fault(f"sbatch: {{{name}: 4}}")


def test_a_number_that_is_too_large_is_said_to_be_too_large():
    assert "from 1 up" not in fault("nodes: 9999999999")

"""What a spec says arrives at the program byte for byte, or is refused with a clear error."""

import shlex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmgpu.errors import InputError
from slurmgpu.experiment.kinds import bad_env_name
from tests.rendering import Bash, directives, text

# any text that a C string and UTF-8 can hold
TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=60)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True).filter(
    lambda name: not bad_env_name(name) and name not in ("PATH", "HOME", "DUMP_TO", "OMP_NUM_THREADS", "PYTHONPATH")
)
HOSTILE = [
    "a b",
    "it's",
    'say "hi"',
    "back\\slash",
    "trailing\\",
    "$(touch /tmp/never)",
    "`touch /tmp/never`",
    "$HOME ${HOME} $((1+1))",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{# comment #}",
    "#SBATCH --account=other",
    "x\n#SBATCH --account=other",
    "line\r\nline",
    "\n",
    "\t",
    "\x01\x1b[31m\x7f",
    "'\\''",
    "$'\\x41'",
    "~",
    "*?[a-z]",
    "!history",
    "a;b|c&d>e<f",
    "-n",
    "--",
    "ünïcödé \U0001f600 \u2028 \u0085 \ufeff",
    "%j%x%%",
    "x" * 4096,
    "",
]
PROPERTY = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture
def bash(tmp_path):
    return Bash(tmp_path)


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("launcher", ["python", "srun", "torchrun"])
def test_hostile_argument_and_variable_arrive(bash, launcher, value):
    spec = {"command": [bash.program, value, "end"], "launcher": launcher, "env": {"VALUE": value}}
    if launcher == "torchrun":
        spec["torchrun"] = {"nproc_per_node": 1}
    ended = bash.run(text(spec))
    assert ended.returncode == 0, ended.stderr
    # torchrun stands in for itself here and sees its own options before the program
    assert bash.argv[-2:] == [value, "end"]
    assert bash.environ["VALUE"] == value


@PROPERTY
@given(arguments=st.lists(TEXT, max_size=5), env=st.dictionaries(NAMES, TEXT, max_size=4))
def test_any_argv_and_environment_arrive(bash, arguments, env):
    ended = bash.run(text({"command": [bash.program, *arguments], "launcher": "srun", "env": env}))
    assert ended.returncode == 0, ended.stderr
    assert bash.argv == arguments
    assert {name: bash.environ[name] for name in env} == env


@PROPERTY
@given(arguments=st.lists(TEXT, max_size=4))
def test_a_quoted_command_line_is_the_same_argv(bash, arguments):
    line = shlex.join([bash.program, *arguments])
    ended = bash.run(text({"command": line, "launcher": "python"}))
    assert ended.returncode == 0, ended.stderr
    assert bash.argv == arguments


@PROPERTY
@given(
    values=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("name", "comment", "account", "partition", "constraint", "wckey", "mail_user"), TEXT),
    ),
    output=TEXT,
)
def test_any_text_in_a_directive_is_read_back_or_refused(values, output):
    spec = {"command": "train.py", **values, "output": f"/logs/{output}-%j"}
    try:
        read = directives(spec)
    except InputError as error:
        refused = {str(problem).split("`")[1] for problem in error.problems}
        assert refused <= {*values, "output"}
        return
    for key, value in values.items():
        assert read[{"name": "job-name"}.get(key, key.replace("_", "-"))] == value


@pytest.mark.parametrize("key", ["name", "account", "partition", "comment", "output", "constraint", "wckey"])
@pytest.mark.parametrize("value", ["x\n#SBATCH --account=other", "a\rb", "a\0b", "tab\there", "\x1b[0m", ""])
def test_control_characters_and_nothing_are_refused_in_directives(key, value):
    with pytest.raises(InputError) as refused:
        text({"command": "train.py", key: value})
    assert any(f"`{key}`" in str(problem) or "control" in str(problem) for problem in refused.value.problems)


@pytest.mark.parametrize(
    "value",
    ["Big simulation", "exp#1", "a\\b", "it's", 'say "hi"', "a100|h100", "{{ x }}", "$HOME", "`id`", "[a]&(b)", "ü"],
)
def test_a_directive_gives_the_value_back(value):
    assert directives({"command": "train.py", "comment": value})["comment"] == value


@pytest.mark.parametrize("where", ["command", "env", "setup"])
def test_nul_is_refused_everywhere(where):
    value = {"command": ["a\0b"], "env": {"X": "a\0b"}, "setup": "a\0b"}[where]
    with pytest.raises(InputError, match="NUL|control"):
        text({"command": "train.py"} | {where: value})


@pytest.mark.parametrize("key", ["setup", "command"])
def test_carriage_return_is_refused_in_shell_lines(key):
    spec = {"command": "echo hi", "launcher": "shell"} | {key: "echo a\r\necho b\n"}
    with pytest.raises(InputError, match="carriage return"):
        text(spec)


def test_no_script_holds_a_raw_carriage_return_or_nul():
    script = text({"command": ["x", "a\r\nb"], "env": {"X": "\r"}})
    assert "\r" not in script
    assert "\0" not in script

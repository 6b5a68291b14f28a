"""Quoting for Slurm's lexer and for bash, and reading a header as sbatch does.

The rules are those of sbatch's opt.c; where sbatch is installed it is asked itself what it finds in a script.
"""

import os
import re
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from slurmgpu.experiment.header import Line, quote, read_header, split_arguments
from slurmgpu.experiment.shell import comment, sh

PROPERTY = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# any text without control characters, empty included
LINE_TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=30)
# the characters that a lexer may trip over, often
HARD_TEXT = st.text(st.sampled_from([*" \\\"'#$`:=,;&|<>()[]{}*?!~%-abn", "é", "\u2028", "\u00a0"]), max_size=12)


# --- Slurm's lexer ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("plain", "plain"),
        ("/logs/%x-%j.out", "/logs/%x-%j.out"),
        ("node[01-03,7]", "node[01-03,7]"),
        ("a100&h100|v100", "a100&h100|v100"),
        ("1-00:00:00", "1-00:00:00"),
        ("B:TERM@120", "B:TERM@120"),
        ("$HOME", "$HOME"),
        ("Big simulation", '"Big simulation"'),
        ("exp#1", '"exp#1"'),
        ("it's", '"it\'s"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("a\\b", '"a\\\\b"'),
        ("end\\", '"end\\\\"'),
        ("", '""'),
    ],
)
def test_quoted_for_slurm(value, quoted):
    assert quote(value) == quoted


@PROPERTY
@given(st.lists(st.one_of(LINE_TEXT, HARD_TEXT), min_size=1, max_size=5))
@example(["exp#1", "#", "a\\b", "'", '"', "\\", "a b", ""])
@example(["\u0085", "\u00a0", "\u2003", "\u3000"])
def test_any_values_of_one_line_are_read_back(values):
    text = "".join(f" --o{index}={quote(value)}" for index, value in enumerate(values))
    wanted = [f"--o{index}={value}" for index, value in enumerate(values)]
    assert split_arguments(text) == wanted
    assert read_header(f"#!/bin/bash\n#SBATCH{text}\necho\n") == [Line(2, wanted)]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (" --time=5", ["--time=5"]),
        (" --a  --b\t--c ", ["--a", "--b", "--c"]),
        (" -N 2 -n1", ["-N", "2", "-n1"]),
        (" --job-name=exp#1 --time=5", ["--job-name=exp"]),
        (" --time=5 # --mem=1", ["--time=5"]),
        (" --time=5#", ["--time=5"]),
        (' --job-name="exp#1" --time=5', ["--job-name=exp#1", "--time=5"]),
        (" --job-name='exp#1' --time=5", ["--job-name=exp#1", "--time=5"]),
        (" --comment='a\\b'", ["--comment=ab"]),  # where a shell keeps the backslash
        (" --comment='a\\'b'", ["--comment=a'b"]),
        (' --comment="a\\"b"', ['--comment=a"b']),
        (" --comment=a\\\\b", ["--comment=a\\b"]),
        (" --comment=a'b c'd\" e\"", ["--comment=ab cd e"]),
        (' "--comment=x y"', ["--comment=x y"]),
        (" --output=$HOME/~", ["--output=$HOME/~"]),
        ("foo --x", ["foo", "--x"]),  # `#SBATCHfoo` is a directive to sbatch, and a wrong one
        ("", []),
        ("   ", []),
        (" # only a comment", []),
        (' --a "" --b', ["--a"]),  # an empty argument ends the line
        (" --a\r", ["--a"]),
        (" --comment=a\\", ["--comment=a"]),
    ],
)
def test_arguments_of_a_line(text, arguments):
    assert split_arguments(text) == arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (" --comment=a\\\tb", ["--comment=a", "b"]),
        (" --comment=a\\ b", ["--comment=a b"]),  # since 24.05; before, sbatch ends the argument here too
        (" --time=5 \\", ["--time=5"]),
    ],
)
def test_a_backslash_keeps_no_white_space_but_a_space_outside_quotes(text, arguments):
    assert split_arguments(text) == arguments


@pytest.mark.parametrize("text", [" --a='x", ' --a="x', " --a='it's'", ' "', ' --a="x\\"', " --a='x # y"])
def test_an_open_quote_is_refused_and_shown(text):
    with pytest.raises(ValueError, match="the quote [\"'] is never closed in") as refused:
        split_arguments(text)
    assert text.strip() in str(refused.value).replace("\\\\", "\\").replace("\\'", "'")


@pytest.mark.parametrize("text", [" :", ":x", " --time=5 :x"])
def test_an_argument_that_starts_with_a_colon_is_refused(text):
    with pytest.raises(ValueError, match=":"):
        split_arguments(text)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("#!/bin/bash\n#SBATCH --a\n", [(2, ["--a"])]),
        ("#!/bin/bash\n\n#SBATCH --a\n\n# text\n   # text\n \t \n#SBATCH --b\necho\n", [(3, ["--a"]), (8, ["--b"])]),
        ("#!/bin/bash\nset -euo pipefail\n#SBATCH --late\n", []),
        ("#!/bin/bash\n#SBATCH --a\necho; #SBATCH --x\n#SBATCH --late\n", [(2, ["--a"])]),
        ("#!/bin/bash\n  :\n#SBATCH --late\n", []),
        ("#!/bin/bash\n# SBATCH --x\n ##SBATCH --x\n##SBATCH --x\n #SBATCH --x\n\t#SBATCH --x\n", []),
        ("#!/bin/bash\n#sbatch --x\n#Sbatch --x\n#SBATC --x\n", []),
        ("#!/bin/bash\n#SBATCHfoo\n#SBATCH_OLD --x\n", [(2, ["foo"]), (3, ["_OLD", "--x"])]),
        ("#!/bin/bash\n#SBATCH\t--a\n#SBATCH--b\n#SBATCH\n", [(2, ["--a"]), (3, ["--b"]), (4, [])]),
        ("#SBATCH --first", [(1, ["--first"])]),
        ("#!/bin/bash\r\n#SBATCH --a\r\n", [(2, ["--a"])]),
        ("#!/bin/bash\n#SBATCH --a \\\n--b\n#SBATCH --c\n", [(2, ["--a"])]),
        ("#!/bin/bash\n: '\n#SBATCH --a\n'\n", []),
        ("", []),
        ("\n\n", []),
    ],
)
def test_header_of_a_script(script, found):
    assert read_header(script) == [Line(number, arguments) for number, arguments in found]


def test_an_open_quote_in_a_header_is_refused_but_not_behind_its_end():
    with pytest.raises(ValueError, match="never closed"):
        read_header("#!/bin/bash\n#SBATCH --comment='x\n")
    assert read_header("#!/bin/bash\necho\n#SBATCH --comment='x\n") == []


NO_COMMAND = st.sampled_from(
    ["", "  ", "\t", "# text", " # text", "#", "# SBATCH --x", " #SBATCH --x", "##SBATCH --x"]
)
COMMAND = st.sampled_from(["echo", " set -e", ":", "\\", "-x", "exit #SBATCH", "'#'", "$x"])


@PROPERTY
@given(before=st.lists(NO_COMMAND, max_size=4), between=st.lists(NO_COMMAND, max_size=4), command=COMMAND)
def test_the_first_command_ends_the_header_and_nothing_else_does(before, between, command):
    lines = ["#!/bin/sh", *before, "#SBATCH --a", *between, "#SBATCH --b", command, "#SBATCH --late", ""]
    read = read_header("\n".join(lines))
    assert [line.arguments for line in read] == [["--a"], ["--b"]]
    assert [line.number for line in read] == [len(before) + 2, len(before) + len(between) + 3]


@pytest.fixture(scope="module")
def sbatch(tmp_path_factory):
    """What sbatch itself finds in a script, or None where it is fatal; it needs no daemon for that."""
    program = shutil.which("sbatch")
    if program is None:
        pytest.skip("sbatch is not installed")
    folder = tmp_path_factory.mktemp("sbatch")
    conf = folder / "slurm.conf"
    # nothing listens on port 1, so that no job is ever made
    conf.write_text(
        "ClusterName=t\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\nMessageTimeout=1\n"
        "NodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n"
    )
    environ = {"SLURM_CONF": str(conf), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}

    def find(script):
        (folder / "job.sh").write_bytes(script.encode())
        ended = subprocess.run(
            [program, "-vvvv", "--test-only", str(folder / "job.sh")], env=environ, capture_output=True, timeout=60
        )
        said = ended.stderr.decode()
        if re.search("Unmatched|Unexpected `:", said):
            return None
        return re.findall(r'debug2: Found in script, argument "(.*)"$', said, re.MULTILINE)

    if find("#!/bin/sh\n#SBATCH word --x\n") != ["word", "--x"]:
        pytest.skip("this sbatch does not tell what it finds in a script")
    return find


def ours(script):
    try:
        return [argument for line in read_header(script) for argument in line.arguments]
    except ValueError:
        return None


LEXER_ATOMS = [*"#\\'\" \t\v\na$é", "#SBATCH ", "\n#SBATCH ", "--b=", "# x", " :", "\n:"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(LEXER_ATOMS),
        max_size=14,
    ).map("".join)
)
@example("c\\\td")
@example("a \\")
@example("a :b")
@example("a'\\''b #c\n#SBATCH --d\n # e\n#SBATCHf\necho\n#SBATCH --g")
def test_header_as_sbatch_reads_it(sbatch, body):
    # a space behind a backslash is kept since 24.05 and ends the argument before
    assume("\\ " not in body)
    # sbatch refuses the bare word once it has read the script, and so never looks for a controller
    script = f"#!/bin/sh\n#SBATCH word\n#SBATCH {body}\n"
    assert ours(script) == sbatch(script)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(LINE_TEXT, HARD_TEXT), min_size=1, max_size=4))
def test_sbatch_reads_back_any_quoted_values(sbatch, values):
    line = " ".join(f"--o{index}={quote(value)}" for index, value in enumerate(values))
    assert sbatch(f"#!/bin/sh\n#SBATCH word {line}\n") == [
        "word",
        *(f"--o{i}={value}" for i, value in enumerate(values)),
    ]


# --- bash -------------------------------------------------------------------------------------------------------

SHELL_TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=40)
SHELL_HARD = st.text(
    st.sampled_from([*"'\\\n\r\t$`\"! abnx07f%{}", "\x01", "\x1b", "\x7f", "\u2028", "é"]), max_size=12
)


def through_bash(words):
    """The words of one bash command line, as the program that it starts gets them."""
    script = "printf '%s\\0' " + " ".join(words)
    ended = subprocess.run(["bash", "-eu"], input=script.encode(), capture_output=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode().split("\0")[:-1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(SHELL_TEXT, SHELL_HARD), min_size=1, max_size=40))
@example(
    ["", "'", "\\", "\n", "a\nb", "it's\n", "\\n", "\n\\", "\x01f", "\x7f0", "$x\n", "`id`\n", "!!\n", "~", "-n", "*"]
)
def test_any_text_arrives_through_bash_on_one_line(values):
    words = [sh(value) for value in values]
    assert through_bash(words) == values
    assert not re.search(r"[\x00-\x1f\x7f]", "".join(words))


def test_every_character_below_128_arrives_next_to_any_hex_digit():
    values = [f"{chr(code)}{after}" for code in range(1, 128) for after in ("", "0", "f", "F", "'", "\\")]
    assert through_bash([sh(value) for value in values]) == values


@pytest.mark.parametrize(
    ("value", "word"),
    [("plain", "plain"), ("a b", "'a b'"), ("", "''"), ("it's", "'it'\"'\"'s'"), ("a\nb", "$'a\\nb'")],
)
def test_quoted_for_bash(value, word):
    assert sh(value) == word


@PROPERTY
@given(st.text(max_size=40))
def test_a_comment_stays_one_line(text):
    made = comment(text)
    assert len(made) == len(text)
    assert len(f"#{made}".split("\n")) == 1
    assert not re.search("[\x00-\x1f\x7f\u2028\u2029]", made)
    assert all(new in ("?", old) for new, old in zip(made, text, strict=True))

"""The reader of bash text: the words that bash itself makes, and how commands are joined and grouped."""

import subprocess
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurmgpu.experiment.shelltext import read
from tests.experiment.test_bytes import PROPERTY


def shape(text):
    """Each command: its words, the operator behind it, whether it is in a substitution."""
    found = []
    for command in read(text):
        words = " ".join(word.text for word in (*command.assignments, *command.words))
        found.append((words, command.after.strip(), command.substituted))
    return found


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a b\nc", [("a b", "", False), ("c", "", False)]),
        ("a \\\n  b # c\nd#e", [("a b", "", False), ("d#e", "", False)]),
        ("a | b |& c && d || e; f & g",
                                        [("a", "|", False), ("b", "|&", False), ("c", "&&", False), ("d", "||",
                                         False),
                                         ("e", ";", False), ("f", "&", False), ("g", "", False)]),
        ("x=1 y=$(a b) c", [("x=1 y=$(a b) c", "", False), ("a b", ")", True)]),
        ("a `b c` d", [("a `b c` d", "", False), ("b c", "", True)]),
        ("a <(b) >(c)", [("a <(b) >(c)", "", False), ("b", ")", True), ("c", ")", True)]),
        ("if a; then b; elif c; then d; else e; fi", [(one, ";", False) for one in "abcde"]),
        ("while read x; do a $x; done <f | b", [("read x", ";", False), ("a $x", ";", False), ("b", "", False)]),
        ("case $x in a|b) c ;; (d) e ;; *) f; esac",
                                                     [("case $x in", "", False), ("c", ";;", False), ("e",
                                                      ";;", False),
                                                     ("f", ";", False)]),
        ("f() { a; }\nfunction g { b; }", [("a", ";", False), ("b", ";", False)]),
        ("{ a; b; } &\n( c ) &", [("a", ";", False), ("b", ";", False), ("c", ")", False)]),
        ("for ((i = 0; i < 3; i++)); do a; done", [("for ((i = 0; i < 3; i++))", ";", False), ("a", ";", False)]),
        ("a <<E 2>&1 | b\n$x c `d`\nE\ne", [("a", "|", False), ("b", "", False), ("e", "", False)]),
        ("a <<-'E'\n\tb\n\tE\nc", [("a", "", False), ("c", "", False)]),
        ("a[1]=b c=(d e)\ng", [("a[1]=b c=(d e )", "", False), ("g", "", False)]),
        ("[[ a < b && c ]] && d", [("[[ a < b && c ]]", "&&", False), ("d", "", False)]),
        ("! time a", [("a", "", False)]),
        ("a $((x + (y) % 3)) ${z:-$(b)}", [("a $((x + (y) % 3)) ${z:-$(b)}", "", False), ("b", ")", True)]),
    ],
)  # fmt: skip
def test_commands_as_bash_sees_them(text, commands):
    assert subprocess.run(["bash", "-n", "-c", text], capture_output=True).returncode == 0
    assert shape(text) == commands


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a $x '$y' \"$z\" \\$w", ["x", "z"]),
        ("a ${x} ${y:-$z} ${#w} $1 $?", ["x", "y", "z", "w", "1", "?"]),
        ("a $((p + $q))", ["p", "q"]),
        ("a \"b '$x'\" $'$y'", ["x"]),
        ("x=$y a", ["y"]),
        ("a > $x", ["x"]),
        ("a bash -c 'echo $x'", []),
        ('a bash -c "echo $x \\$y"', ["x"]),
    ],
)
def test_the_variables_that_this_shell_expands(text, names):
    (command,) = read(text)
    assert sorted(use.name for use in command.uses) == sorted(names)
    for use in command.uses:
        assert text[use.start] == "$" or text[use.start : use.start + len(use.name)] == use.name


def test_groups_and_here_documents():
    text = "while read x; do a; done &\nf() { b & }\nc <<E\n$y \\$z\nE\n"
    _, a, b, c = read(text)
    (loop,) = a.groups()
    assert (loop.kind, loop.opener, loop.reads, loop.after, a.part) == ("loop", "while", True, "&", "body")
    assert [group.function for group in b.groups()] == ["f"]
    assert b.after == "&"
    assert [use.name for use in c.heredoc] == ["y"]


# pieces that expand to nothing but themselves
PIECES = st.lists(
    st.sampled_from(
        ["a", "bc", " ", "  ", "\t", "'", '"', "\\", "\\\n", "#", "=", "x=", "-",
         "--o=1", "é", ".", "/", "%", ",", "@", "+", ":"]
    ),
    max_size=14,
)  # fmt: skip


@PROPERTY
@given(PIECES.map("".join))
@example('a\'b c\'"d\\"\\x"\\ e')
@example("#x")
@example("\\")
@example("a#b \\#")
def test_words_are_those_of_bash(text):
    line = f"f x{text}"
    script = 'f() { printf "%s\\0" "$@"; }\n' + line
    bash = subprocess.run(
        ["bash", "-c", script], capture_output=True, env={"PATH": "/bin:/usr/bin", "LC_ALL": "C.UTF-8"}
    )
    if bash.returncode or bash.stderr:  # an open quote
        return
    (command,) = read(line)
    assert [word.text for word in command.words[1:]] == bash.stdout.decode().split("\0")[:-1]


def test_the_time_goes_with_the_length():
    row = "if a \"$(b 'c')\" ${d:-e}; then f | g & fi; case x in y) z ;; esac\nh <<E\n$i\nE\n"

    def took(times):
        started = time.perf_counter()
        read(row * times)
        return time.perf_counter() - started

    few, many = min(took(200) for _ in range(3)), min(took(1600) for _ in range(2))
    assert many < few * 8 * 3

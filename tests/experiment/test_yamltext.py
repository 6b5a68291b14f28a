"""The YAML reader: every scalar stays as typed, and whatever is no spec is refused at its place."""

import itertools
import re

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slurmgpu.errors import InputError, Place
from slurmgpu.experiment import yamltext

PROPERTY = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# what YAML can hold in a quoted scalar; the rest it refuses even there
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)


def data(content):
    return yamltext.load(content.encode() if isinstance(content, str) else content, "exp.yaml").data


def outcome(content):
    """The data and no problems, or None and the problems."""
    try:
        return data(content), []
    except InputError as error:
        return None, [str(problem) for problem in error.problems] or ["nothing said"]


def problems(content):
    with pytest.raises(InputError) as refused:
        data(content)
    assert refused.value.exit_code == 2
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize(
    "typed",
    [
        "no", "yes", "on", "off", "y", "n", "true", "False", "NO", "03303560", "010", "0o17", "1.10", "1e-4",
        "1.0e-4", "1e4", ".5", ".inf", ".nan", "24:00:00", "4:00:00", "12:30", "190:20:30", "1-12",
        "2026-01-20T12:34:00", "2026-01-20", "0x1F", "0b11", "1_000", "=", "<<", "1,2,3", "0-9%2", "node[01-03]",
        "a100&h100", "gpu:a100:4", "B:USR1@120", "/a b/c", "$HOME/~", "nUll", "12345678901234567890", "+1", "-5",
        "a#b", "é ü", "~/x",
    ],
)  # fmt: skip
def test_a_plain_scalar_is_the_text_that_was_typed(typed):
    assert data(f"key: {typed}\n") == {"key": typed}
    assert data(f"key:\n  - {typed}\n") == {"key": [typed]}
    assert data(f"key: '{typed}'\n") == {"key": typed}


@pytest.mark.parametrize("typed", ["", "~", "null", "Null", "NULL"])
def test_nothing_is_only_what_yaml_1_2_says(typed):
    assert data(f"key: {typed}\n") == {"key": None}
    assert data(f'key: "{typed}"\n') == {"key": typed}


@PROPERTY
@given(st.dictionaries(TEXT, st.one_of(TEXT, st.lists(TEXT, max_size=3)), max_size=4), st.sampled_from(["'", '"']))
@example({"": "", "null": "~", "no": "24:00:00", "a: b": ["#", "\n", "\t", "\x85", "\ufeff", "\u2028"]}, '"')
def test_any_quoted_text_comes_back(mapping, style):
    content = yaml.safe_dump(mapping, default_style=style, allow_unicode=False)
    assert data(content) == mapping


@PROPERTY
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20))
def test_any_text_is_data_or_a_clear_refusal(text):
    read, said = outcome(text)
    assert isinstance(read, str | list | dict | None)
    assert all(re.match(r"exp\.yaml:\d+:\d+: ", problem) for problem in said)


@PROPERTY
@given(st.binary(max_size=40))
@example(bytes(range(256)))
@example(b"\x7fELF\x02\x01\x01\0\0")
@example(b"\xfe\xff\0a")
def test_any_bytes_are_data_or_a_clear_refusal(content):
    read, said = outcome(content)
    assert isinstance(read, str | list | dict | None)
    assert all(problem.startswith("exp.yaml:") for problem in said)
    assert said or content.decode("utf-8", "replace").encode() == content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", None),
        ("# a comment\n", None),
        ("---\n", None),
        ("hi\n", "hi"),
        ("- a\n- b\n", ["a", "b"]),
        ("a: 1\r\nb: |\r\n  x\r\n  y\r\nc: z\r\n", {"a": "1", "b": "x\ny\n", "c": "z"}),
        ("\ufeffa: 1\n", {"a": "1"}),
        ("a: &x {b: no}\nc: *x\n", {"a": {"b": "no"}, "c": {"b": "no"}}),
        ("a: !!str 5\n", {"a": "5"}),
        ("%YAML 1.1\n---\na: 24:00:00\n", {"a": "24:00:00"}),
        ("a: >-\n  x\n  y\n", {"a": "x y"}),
        ("a: {}\nb: []\nc: ''\n", {"a": {}, "b": [], "c": ""}),
    ],
)
def test_documents(content, expected):
    assert data(content) == expected


def test_places_are_those_of_the_values_and_of_the_keys():
    document = yamltext.load(b"a: 1\nenv:\n  X: 2\n  Y: [p, q]\n\xc3\xa9: z\n", "exp.yaml")
    assert document.places == {
        (): Place("exp.yaml", 1, 1),
        ("a",): Place("exp.yaml", 1, 4),
        ("env",): Place("exp.yaml", 3, 3),
        ("env", "X"): Place("exp.yaml", 3, 6),
        ("env", "Y"): Place("exp.yaml", 4, 6),
        ("env", "Y", 0): Place("exp.yaml", 4, 7),
        ("env", "Y", 1): Place("exp.yaml", 4, 10),
        ("é",): Place("exp.yaml", 5, 4),
    }
    assert document.key_places == {
        ("a",): Place("exp.yaml", 1, 1),
        ("env",): Place("exp.yaml", 2, 1),
        ("env", "X"): Place("exp.yaml", 3, 3),
        ("env", "Y"): Place("exp.yaml", 4, 3),
        ("é",): Place("exp.yaml", 5, 1),
    }


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        ("a:\n\tb: 1\n", "2:1", "indent with spaces, not with tabs"),
        ("a: 1\noutput: %x-%j.out\n", "2:9", "a value that starts with % must be quoted"),
        ("a: @x\n", "1:4", "a value that starts with @ must be quoted"),
        ("a: `x`\n", "1:4", "a value that starts with ` must be quoted"),
        ("a: *b\n", "1:4", "a value that starts with * must be quoted"),
        ("command: train.py --note: hi\n", "1:25", "quote a text that holds a colon and a space"),
        ("a: 'x\nb: y\n", "3:1", "not valid YAML: found unexpected end of stream"),
        ("a: [1, 2\n", "2:1", "not valid YAML: "),
        ("a: 1\n---\nb: 2\n", "2:1", "but found another document"),
        ("? [a]\n: 1\n", "1:3", "a key must be a word, not a list or a mapping"),
        ("a: \x00\n", "1:4", "holds a control character, which YAML does not allow"),
        ("a: 1\nb: x\x1b[0m\n", "2:5", "holds a control character, which YAML does not allow"),
        ("a: 1\nb: \x7f\n", "2:4", "holds a control character, which YAML does not allow"),
        (b"a: 1\nb: x\xff\n", "2:5", "is not UTF-8 text (byte 0xff); is this the right file?"),
        ("a: 1\n".encode("utf-16"), "1:1", "is not UTF-8 text (byte 0xff); is this the right file?"),
        ('a: "\\ud800"\n', "1:", "Unicode character"),
        ("[" * 21 + "x" + "]" * 21, "1:22", "is nested deeper than 20 levels"),
        ("".join(" " * depth + "a:\n" for depth in range(400)), "22:22", "is nested deeper than 20 levels"),
        ("a: &a [*a]\n", "1:4", "is nested deeper than 20 levels"),
        ("&a {x: *a}\n", "1:1", "is nested deeper than 20 levels"),
    ],
)
def test_what_is_no_spec_is_refused_once_at_its_place(content, place, words):
    said = problems(content)
    assert len(said) == 1
    assert said[0].startswith(f"exp.yaml:{place}")
    assert words in said[0]


def test_twenty_levels_are_taken():
    nested = data("[" * 20 + "x" + "]" * 20)
    for _ in range(20):
        (nested,) = nested
    assert nested == "x"


@pytest.mark.parametrize("content", ["[" * 100_000, "{a: " * 50_000, "- " * 50_000 + "x"])
def test_absurd_nesting_is_refused(content):
    said = problems(content)
    assert len(said) == 1
    assert "nest" in said[0]


def test_every_duplicate_and_every_tag_is_reported_with_both_lines():
    content = "a: 1\nb: !!int 2\n'a': 3\nenv:\n  X: 1\n  Y: !x z\n  X: 2\n\"a\": 4\nc: !!python/name:os ls\n"
    assert problems(content) == [
        "exp.yaml:2:4: the tag !!int has no meaning here; leave it out, quote the value if need be",
        "exp.yaml:3:1: the key 'a' is here a second time; the first is in line 1",
        "exp.yaml:6:6: the tag !x has no meaning here; leave it out, quote the value if need be",
        "exp.yaml:7:3: the key 'X' is here a second time; the first is in line 5",
        "exp.yaml:8:1: the key 'a' is here a second time; the first is in line 1",
        "exp.yaml:9:4: the tag !!python/name:os has no meaning here; leave it out, quote the value if need be",
    ]


def test_an_alias_bomb_is_refused_before_it_goes_off():
    names = "abcdefghi"
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]" for old, new in itertools.pairwise(names)]
    # a thousand million values: without the bound this test never ends
    said = problems("\n".join(lines))
    assert len(said) == 1
    assert "holds more than 20000 values; aliases multiply what they name" in said[0]


def test_as_many_values_as_a_spec_may_have():
    assert len(data("[" + "x," * 19_999 + "]")) == 19_999
    assert "holds more than 20000 values" in problems("[" + "x," * 20_000 + "]")[0]


def test_a_large_file_is_refused_and_not_read_whole(tmp_path):
    assert data(b"#" * (1024 * 1024)) is None
    assert problems(b"#" * (1024 * 1024 + 1)) == ["exp.yaml: is larger than 1 MiB; a spec is a page of text"]
    assert "larger than 1 MiB" in problems(b"a: 1\n" * (2 * 1024 * 1024))[0]
    large = tmp_path / "large.yaml"
    large.write_bytes(b"a" * (10 * 1024 * 1024))
    assert len(yamltext.read(str(large))) == 1024 * 1024 + 1


@pytest.mark.parametrize(
    ("name", "words"),
    [("gone.yaml", "cannot be read: No such file or directory"), (".", "cannot be read: Is a directory")],
)
def test_a_file_that_cannot_be_read(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        yamltext.read(name)
    assert str(refused.value) == f"{name}: {words}"
    with pytest.raises(InputError, match="is not a file name"):
        yamltext.read("a\0b")


# --- what went wrong once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("content", "place"), [("a: éé\x1b[0m\n", "1:6"), ("a: 1\nb: ééx\0\n", "2:7")])
def test_the_place_of_a_control_character_behind_others(content, place):
    assert problems(content)[0].startswith(f"exp.yaml:{place}: ")


def test_the_place_of_a_bad_byte_behind_others():
    assert problems(b"a: 1\nb: \xc3\xa9\xff\n")[0].startswith("exp.yaml:2:5: ")


def test_the_place_of_a_bad_byte_behind_a_byte_order_mark():
    assert problems(b"\xef\xbb\xbfa: \xff\n")[0].startswith("exp.yaml:1:4: is not UTF-8 text (byte 0xff)")


def test_too_deep_nesting_is_said_once():
    assert len(problems("a: &a [*a, *a]\n")) == 1


def test_a_plain_star_says_that_it_must_be_quoted():
    said = problems("exclude: *.node\n")
    assert said[0].startswith("exp.yaml:1:10: ")
    assert "a value that starts with * must be quoted" in said[0]


def test_absurd_nesting_is_not_said_to_want_quotes():
    assert "must be quoted" not in problems("[" * 2000)[0]

"""Sweeps: what a spec may say, CSV files, arrays and offsets, and that each value arrives byte for byte."""

import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgpu.errors import InputError
from slurmgpu.experiment import command, merge
from slurmgpu.experiment.arrays import parts
from slurmgpu.experiment.sweep import MAX_POINTS, variable
from tests.rendering import ENVIRON, Bash, directives, render, text

BASE = {"command": "train.py", "time": "1h"}


def points(spec, **request):
    """The points of one script, as the table of its `case` says them."""
    lines = text(spec, **request).splitlines()
    start = lines.index("case $SLURMGPU_POINT in") + 1
    end = next(index for index, line in enumerate(lines) if line.startswith("*) fail"))
    return [line.removesuffix(" ;;").replace(") point ", " ", 1) for line in lines[start:end]]


def problems(spec, **request):
    with pytest.raises(InputError) as refused:
        render(BASE | spec, **request)
    return [str(problem) for problem in refused.value.problems]


def csv(tmp_path, content):
    path = tmp_path / "points.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return {"sweep": {"file": str(path)}}


def test_a_grid_is_the_product_in_the_order_written_the_last_fastest():
    spec = BASE | {"sweep": {"lr": ["1e-3", "1e-4"], "seed": ["1", "2", "3"]}}
    assert points(spec) == ["0 1e-3 1", "1 1e-3 2", "2 1e-3 3", "3 1e-4 1", "4 1e-4 2", "5 1e-4 3"]
    assert directives(spec)["array"] == "0-5"
    assert directives(spec | {"max_parallel": 4})["array"] == "0-5%4"
    assert directives(spec)["output"] == "/home/alice/exp/%x-%A_%a.out"


def test_values_stay_as_typed(tmp_path):
    content = b"command: x\nsweep: {a: [1e-4, 010, no, 1.10, 24:00:00, 1_000, '', ~x]}\n"
    script = command.render(command.Request("-", content), "/x", ENVIRON).text
    for index, value in enumerate(["1e-4", "010", "no", "1.10", "24:00:00", "1_000", "''", "'~x'"]):
        assert f"\n{index}) point {value} ;;\n" in script


def test_a_list_of_points():
    spec = BASE | {"sweep": [{"lr": "1", "seed": "7"}, {"seed": "9", "lr": "2"}]}
    assert points(spec) == ["0 1 7", "1 2 9"]


def test_one_point_is_a_sweep_too():
    assert points(BASE | {"sweep": {"lr": ["1"]}}) == ["0 1"]
    assert directives(BASE | {"sweep": [{"lr": "1"}]})["array"] == "0-0"


@pytest.mark.parametrize(
    "content",
    [
        "lr,seed\n1e-3,010\n1e-4,2\n",
        "lr,seed\r\n1e-3,010\r\n1e-4,2\r\n",
        "lr,seed\r1e-3,010\r1e-4,2",
        "\ufefflr,seed\n1e-3,010\n1e-4,2",
        '"lr","seed"\n"1e-3","010"\n\n1e-4,2\n\n',
    ],
    ids=["plain", "CRLF", "CR", "BOM and no last newline", "quoted, with blank lines"],
)
def test_a_csv_file(tmp_path, content):
    assert points(BASE | csv(tmp_path, content)) == ["0 1e-3 010", "1 1e-4 2"]


def test_a_csv_file_keeps_commas_quotes_newlines_and_spaces(tmp_path):
    spec = BASE | csv(tmp_path, 'a,b\n"x, ""y""", z \n"one\ntwo",\n')
    assert points(spec) == ["0 'x, \"y\"' ' z '", "1 $'one\\ntwo' ''"]


def test_a_csv_file_is_looked_for_beside_the_spec(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/points.csv").write_text("a\n5\n")
    (tmp_path / "sub/exp.yaml").write_text("command: x\nsweep: {file: points.csv}\n")
    (tmp_path / "top.yaml").write_text("extends: sub/exp.yaml\n")
    monkeypatch.chdir(tmp_path)
    for name in ("sub/exp.yaml", "top.yaml", str(tmp_path / "sub/exp.yaml")):
        assert "0) point 5 ;;" in command.render(command.Request(name, None), str(tmp_path), ENVIRON).text
    # what the command line says starts from the folder of the render
    request = command.Request("top.yaml", None, ("sweep.file=sub/points.csv",))
    assert "0) point 5 ;;" in command.render(request, str(tmp_path), ENVIRON).text


# the `sweep` of a spec -> what is said
BAD = {
    "a word": ("x", "`sweep` must be a grid {lr: [1e-3, 1e-4]}, a list of points, or {file: points.csv}"),
    "an empty grid": ({}, "`sweep` has no parameters, and so no point to run"),
    "an empty list": ([], "`sweep` is an empty list, which leaves no point to run"),
    "no values": ({"lr": []}, "`sweep.lr` is an empty list, which leaves no point to run"),
    "one value": ({"lr": "1e-3"}, "`sweep.lr` must be a list of values, such as [1e-3, 1e-4]"),
    "nothing": ({"lr": None}, "`sweep.lr` must be a list of values"),
    "an empty value": ({"lr": ["1", None]}, "`sweep.lr.1` has no value; write '' for an empty one"),
    "a list as a value": ({"lr": [["1"]]}, "`sweep.lr.0` must be one value, not a list"),
    "a mapping as a value": ([{"lr": {"a": "1"}}], "`sweep.0.lr` must be one value, not a mapping"),
    "a NUL": ({"lr": ["a\0b"]}, "`sweep.lr.0` holds a NUL"),
    "a huge value": ({"lr": ["x" * 131_072]}, "`sweep.lr.0` is longer than the 128 KiB that Linux takes"),
    "no point": (["x"], "`sweep.0` must be a point, such as {lr: 1e-3, seed: 1}"),
    "an empty point": ([{"a": "1"}, {}], "`sweep.1` must be a point"),
    "other names": ([{"a": "1"}, {"b": "1"}], "`sweep.1` has b, but the first point has a"),
    "too few names": ([{"a": "1", "b": "2"}, {"b": "1"}], "`sweep.1` has b, but the first point has a, b"),
    "a space in a name": ({"learning rate": ["1"]}, "'learning rate' cannot be a parameter's name"),
    "a digit first": ({"1a": ["1"]}, "'1a' cannot be a parameter's name"),
    "a dash first": ({"--lr": ["1"]}, "'--lr' cannot be a parameter's name"),
    "an equals sign": ({"a=b": ["1"]}, "'a=b' cannot be a parameter's name"),
    "a newline in a name": ({"a\n": ["1"]}, "cannot be a parameter's name"),
    "a name that is not ASCII": ({"größe": ["1"]}, "'größe' cannot be a parameter's name"),
    "the same variable": ({"a-b": ["1"], "A.b": ["1"]}, "the parameters 'a-b' and 'A.b' would both be $SWEEP_A_B"),
    "max_parallel inside": ({"lr": ["1"], "max_parallel": "4"}, "`max_parallel` stands beside `sweep`, not in it"),
    "a file and lists": ({"file": "x.csv", "lr": ["1"]}, "takes its parameters from `file` or from lists"),
    "no such file": ({"file": "/no/points.csv"}, "names /no/points.csv, which cannot be read: there is no such file"),
    "a folder": ({"file": "/"}, "names /, which cannot be read: is not a file"),
    "a million points": (
        {name: [str(number) for number in range(100)] for name in "abc"}, "`sweep` has 1000000 points; 100000 are",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_sweep_is_said_at_its_place(name):
    sweep, said = BAD[name]
    found = problems({"sweep": sweep})
    assert any(said in line for line in found), found
    assert all(line.startswith("<stdin>:") for line in found)


# the CSV file -> line, what is said
BAD_CSV = {
    "empty": ("", 1, "has no point to run: a header row names the parameters"),
    "only a header": ("a,b\n", 2, "has no point to run"),
    "too few values": ("a,b\n1,2\n3\n", 3, "has 1 values, but the header names 2 parameters"),
    "too many values": ("a,b\n\n1,2,3\n", 3, "has 3 values, but the header names 2 parameters"),
    "behind a value of several lines": ('a,b\n"x\ny",1\n2\n', 4, "has 1 values"),
    "semicolons": ("a;b\n1;2\n", 1, "'a;b' cannot be a parameter's name"),
    "spaces behind the comma": ("a, b\n1, 2\n", 1, "' b' cannot be a parameter's name"),
    "an empty name": ("a,\n1,2\n", 1, "'' cannot be a parameter's name"),
    "twice the same": ("a,a\n1,2\n", 1, "the parameters 'a' and 'a' would both be $SWEEP_A"),
    "an open quote": ('a\n"1\n2\n', 3, "is not CSV: unexpected end of data"),
    "text behind a quote": ('a\n"1"x\n', 2, "is not CSV"),
    "not UTF-8": (b"a\n1\n\xff\n", 3, "is not UTF-8 text (byte 0xff)"),
    "a NUL": ("a\n1\nx\0y\n", 3, "NUL"),
    "a huge value": ("a\n" + "x" * 131_072 + "\n", 2, "longer than the 128 KiB"),
    "a huger value": ("a\n" + "x" * 131_073 + "\n", 2, "is not CSV: field larger than field limit"),
    "too many points": ("a\n" + "1\n" * (MAX_POINTS + 1), MAX_POINTS + 2, "is one point too many"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CSV)
def test_a_bad_csv_file_is_said_at_its_line(tmp_path, name):
    content, line, said = BAD_CSV[name]
    found = problems(csv(tmp_path, content))
    assert any(text.startswith(f"{tmp_path}/points.csv:{line}:1: ") and said in text for text in found), found
    assert len(found) == 1


def test_every_bad_row_is_named_up_to_twenty(tmp_path):
    found = problems(csv(tmp_path, "a,b\n" + "1\n" * 100))
    assert len(found) == 21
    assert "has 80 more faults of this kind" in found[0]
    assert ":21:1: has 1 values" in found[-1]


def test_a_sweep_and_the_rest_of_the_spec_are_judged_together(tmp_path):
    found = problems(csv(tmp_path, "a,b\n1\n") | {"nodse": "1", "output": "x-%a.out"})
    assert sum("points.csv" in line for line in found) == 1
    assert any("unknown key 'nodse'" in line for line in found)
    assert not any("%a" in line for line in found)  # an array all the same


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"sweep": {"a": ["1"]}, "array": "0-9"}, "`sweep` cannot stand beside `array`; keep one of them"),
        ({"max_parallel": "4"}, "`max_parallel` is of a sweep; behind an array's indexes write %"),
        ({"sweep": {"a": ["1"]}, "max_parallel": "0"}, "`max_parallel` 0 is out of range"),
        ({"sweep": {"a": ["1"]}, "env": {"SWEEP_A": "2"}}, "`env` sets SWEEP_A, which holds the sweep's a"),
        ({"sweep": {"a": ["1"]}, "secrets": ["SWEEP_A"]}, "`secrets` sets SWEEP_A, which holds the sweep's a"),
    ],
)
def test_what_cannot_stand_beside_a_sweep(spec, said):
    assert any(said in line for line in problems(spec))


def test_a_long_list_in_yaml_is_sent_to_a_csv_file():
    assert "a sweep of many points belongs into a CSV file" in problems({"sweep": {"a": ["1"] * 20_000}})[0]


def test_set_changes_a_parameter():
    spec = BASE | {"sweep": {"lr": ["1"], "seed": ["1", "2"]}}
    assert points(spec, settings=("sweep.lr=[5, 6]",)) == ["0 5 1", "1 5 2", "2 6 1", "3 6 2"]
    assert points(spec, settings=("sweep={x: [1]}", "sweep.lr=null", "sweep.seed=null")) == ["0 1"]
    assert merge.setting("env.A=[1]").data == {"env": {"A": "[1]"}}


def test_duplicates_are_noted():
    notes = render(BASE | {"sweep": {"a": ["1", "2", "1"]}}).notes
    assert "`sweep`: point 2 is the same as point 0" in notes
    assert (
        "`sweep`: point 1 is the same as point 0; so are 2 others"
        in render(BASE | {"sweep": {"a": ["1", "1", "1", "1"]}}).notes
    )


def test_a_script_without_a_sweep_knows_nothing_of_them():
    script = text(BASE | {"array": "0-3"})
    assert "SWEEP" not in script
    assert "SLURMGPU_POINT" not in script


# --- arrays


MANY = BASE | {"sweep": {"a": [str(number) for number in range(50)], "b": [str(number) for number in range(50)]}}


def test_a_sweep_beyond_one_array_is_refused_with_what_to_do():
    (said,) = problems({"sweep": MANY["sweep"]})
    assert "has 2500 points, and an array takes 1001: `slurmgpu submit` sends all 3 arrays" in said
    assert "`render --part 1` to `--part 3` shows one" in said


def test_parts_have_offsets_and_their_own_points():
    first, second, third = (points(MANY, part=part) for part in (1, 2, 3))
    assert [len(part) for part in (first, second, third)] == [1001, 1001, 498]
    assert [part[0] for part in (first, second, third)] == ["0 0 0", "1001 20 1", "2002 40 2"]
    assert third[-1] == "2499 49 49"
    assert "SLURM_ARRAY_TASK_ID + 2002" in text(MANY, part=3)
    assert directives(MANY, part=3)["array"] == "0-497"


def test_the_profile_says_how_long_an_array_is(tmp_path):
    profile = tmp_path / "site.toml"
    profile.write_text("max_array_size = 30\n")
    assert directives(BASE | {"sweep": {"a": list("x" * 30)}}, profile=str(profile))["array"] == "0-29"
    assert "sends all 2 arrays" in problems({"sweep": {"a": list("x" * 31)}}, profile=str(profile))[0]
    profile.write_text("max_array_size = 0\n")
    assert "needs job arrays" in problems({"sweep": {"a": ["x"]}}, profile=str(profile))[0]


@pytest.mark.parametrize(
    ("spec", "part", "said"),
    [(MANY, 4, "--part: must be from 1 to 3"), (BASE, 1, "--part: is of a sweep, and the spec has none")],
)
def test_a_part_that_is_not_there(spec, part, said):
    with pytest.raises(InputError, match=said):
        render(spec, part=part)


def test_the_arrays_of_a_sweep_must_not_share_logs():
    assert "must hold %A: the 3 arrays of this sweep have tasks of the same numbers" in problems(
        {"sweep": MANY["sweep"], "output": "x-%a.out"}
    )[0]  # fmt: skip
    assert directives(BASE | {"sweep": {"a": ["1"]}, "output": "x-%a.out"})["output"].endswith("/x-%a.out")


def test_the_digest_knows_the_points_of_a_file(tmp_path):
    spec = BASE | csv(tmp_path, "a\n1\n")
    before = text(spec).splitlines()[1]
    csv(tmp_path, "a\n2\n")
    assert text(spec).splitlines()[1] != before


@given(size=st.integers(1, 300), most=st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_arrays_cover_each_point_once(size, most):
    from slurmgpu.experiment.sweep import Sweep

    found = parts(Sweep(names=["a"], points=[(str(number),) for number in range(size)]), most, None)
    assert [point for part in found for point in part.points] == [(str(number),) for number in range(size)]
    for part in found:
        assert len(part.points) <= most
        assert part.points[0] == (str(part.offset),)
        assert (part.parts, part.size) == (len(found), size)


def test_a_hundred_thousand_points_are_rendered_within_seconds(tmp_path):
    spec = BASE | csv(tmp_path, "lr,seed\n" + "".join(f"1e-3,{number}\n" for number in range(MAX_POINTS)))
    started = time.monotonic()
    script = render(spec, part=100)
    assert time.monotonic() - started < 10
    assert "\n99098) " not in script.text
    assert "\n99099) point 1e-3 99099 ;;\n" in script.text
    assert f"\n{MAX_POINTS - 1}) point 1e-3 {MAX_POINTS - 1} ;;\n" in script.text


def test_a_script_over_four_mib_is_refused(tmp_path):
    profile = tmp_path / "site.toml"
    profile.write_text("max_array_size = 100001\n")
    spec = csv(tmp_path, "a\n" + ("x" * 50 + "\n") * MAX_POINTS)
    (said,) = problems(spec, profile=str(profile))
    assert (
        "over the 4 MiB that Slurm takes; a lower max_array_size in the profile makes more and smaller arrays" in said
    )


# --- what the program gets


def test_parameters_are_appended_as_one_word_each(tmp_path):
    bash = Bash(tmp_path)
    spec = {"command": [bash.program, "x"], "sweep": {"lr": ["-1e-3 *"], "weight-decay": [""]}}
    ended = bash.run(text(spec), SLURM_ARRAY_TASK_ID="0")
    assert ended.returncode == 0, ended.stderr
    assert bash.argv == ["x", "--lr=-1e-3 *", "--weight-decay="]
    assert ended.stdout == "slurmgpu: point 0 of 0-0: lr=-1e-3\\ \\* weight-decay=''\n"
    assert {key: value for key, value in bash.environ.items() if key.startswith("SWEEP") or "POINT" in key} == {
        "SWEEP_LR": "-1e-3 *", "SWEEP_WEIGHT_DECAY": "", "SLURMGPU_POINT": "0",
    }  # fmt: skip


def test_placeholders_are_filled_in_and_nothing_is_appended(tmp_path):
    bash = Bash(tmp_path)
    words = [bash.program, "lr={lr}", "{lr}{seed}", "{other}", "{{seed}}", "$SWEEP_LR", "it's {seed} %"]
    spec = {"command": words, "sweep": {"lr": ["a b"], "seed": ["$(id)"]}}
    assert bash.run(text(spec), SLURM_ARRAY_TASK_ID="0").returncode == 0
    assert bash.argv == ["lr=a b", "a b$(id)", "{other}", "{$(id)}", "$SWEEP_LR", "it's $(id) %"]


def test_every_launcher_hands_the_point_on(tmp_path):
    bash = Bash(tmp_path)
    sweep = {"sweep": {"lr": ["1", "2"]}, "max_parallel": "1"}
    for launcher, gpus in (("python", 1), ("srun", 2), ("torchrun", 2)):
        spec = {"command": "train.py", "launcher": launcher, "gpus_per_node": gpus} | sweep
        script = text(spec).replace("python3 -u train.py", bash.program)
        assert bash.run(script, gpus=gpus, SLURM_ARRAY_TASK_ID="1").returncode == 0
        assert bash.argv[-1] == "--lr=2"
        assert bash.environ["SWEEP_LR"] == "2"


def test_a_shell_command_uses_the_variables_and_the_second_array_has_an_offset(tmp_path):
    bash = Bash(tmp_path)
    spec = MANY | {"command": 'echo "$SLURMGPU_POINT $SWEEP_A $SWEEP_B"', "launcher": "shell"}
    ended = bash.run(text(spec, part=2), SLURM_ARRAY_TASK_ID="7")
    assert ended.stdout == "slurmgpu: point 1008 of 0-2499: a=20 b=8\n1008 20 8\n"


@pytest.mark.parametrize(
    ("variables", "said"),
    [({"SLURM_ARRAY_TASK_ID": "6"}, "task 6 is no point of this sweep"), ({}, "submit it with sbatch")],
)
def test_a_task_without_a_point_fails_with_a_word(tmp_path, variables, said):
    bash = Bash(tmp_path)
    ended = bash.run(text({"command": "true", "sweep": {"a": ["1"]}}), **variables)
    assert ended.returncode == 1
    assert said in ended.stderr


def test_more_than_nine_parameters(tmp_path):
    bash = Bash(tmp_path)
    spec = {"command": [bash.program], "sweep": [{f"p{number}": f"v{number}" for number in range(12)}]}
    bash.run(text(spec), SLURM_ARRAY_TASK_ID="0")
    assert bash.argv == [f"--p{number}=v{number}" for number in range(12)]


VALUE = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=5), data=st.data())
def test_any_text_arrives_byte_for_byte(tmp_path_factory, values, data):
    bash = Bash(tmp_path_factory.mktemp("bash"))
    is_placed = data.draw(st.booleans())
    words = [bash.program, "<{a.b}>"] if is_placed else [bash.program]
    spec = {"command": words, "sweep": [{"a.b": one, "c": two} for one, two in values]}
    index = data.draw(st.integers(0, len(values) - 1))
    ended = bash.run(text(spec), SLURM_ARRAY_TASK_ID=str(index))
    assert ended.returncode == 0, ended.stderr
    one, two = values[index]
    assert bash.argv == ([f"<{one}>"] if is_placed else [f"--a.b={one}", f"--c={two}"])
    assert (bash.environ["SWEEP_A_B"], bash.environ["SWEEP_C"]) == values[index]
    assert ended.stdout.count("\n") == 1  # the line of the log is one line, whatever the values


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.lists(VALUE.filter(bool), min_size=2, max_size=2), min_size=1, max_size=4))
def test_any_text_comes_out_of_a_csv_file(tmp_path_factory, rows):
    import csv as library

    folder = tmp_path_factory.mktemp("csv")
    with open(folder / "points.csv", "w", newline="", encoding="utf-8") as file:
        library.writer(file).writerows([["a", "b"], *rows])
    by_file = BASE | {"sweep": {"file": str(folder / "points.csv")}}
    by_list = BASE | {"sweep": [{"a": one, "b": two} for one, two in rows]}
    assert points(by_file) == points(by_list)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"command": "x --lr {lr}"}, "does not hold {seed}: the program finds it as $SWEEP_SEED only"),
        ({"command": "echo hi", "launcher": "shell"}, "uses no parameter of the sweep; write $SWEEP_LR"),
        ({"command": "echo {lr}", "launcher": "shell"}, "with launcher shell write $SWEEP_LR for {lr}"),
        ({"command": "x", "env": {"RUN": "lr-{lr}"}}, "`env.RUN` holds a parameter of the sweep in braces"),
    ],
)
def test_a_parameter_that_goes_nowhere_is_noted(spec, said):
    notes = render(spec | {"sweep": {"lr": ["1"], "seed": ["2"]}}).notes
    assert any(said in note for note in notes), notes


@pytest.mark.parametrize(
    "spec",
    [
        {"command": "x --lr {lr} {seed}"},
        {"command": "x"},
        {"command": 'echo "$SWEEP_SEED"', "launcher": "shell"},
        {"command": "true", "setup": "export X=$SWEEP_LR", "launcher": "shell"},
    ],
)
def test_otherwise_nothing_is_noted(spec):
    notes = render(spec | {"sweep": {"lr": ["1"], "seed": ["2"]}}).notes
    assert not [note for note in notes if "SWEEP" in note]


def test_explain_has_a_reason_for_every_line():
    script = text(BASE | {"sweep": {"lr": ["1"]}}, explain=True)
    lines = script.splitlines()
    for start in ("point() {", '[ -n "$SLURM_ARRAY_TASK_ID', "case $SLURMGPU_POINT", "printf 'slurmgpu: point"):
        number = next(index for index, line in enumerate(lines) if line.startswith(start))
        assert lines[number - 1].startswith("#: "), start
    assert "#: sweep, <stdin>:3:1" in script


def test_the_variable_of_a_parameter():
    assert [variable(name) for name in ("lr", "weight-decay", "optim.lr", "A")] == [
        "SWEEP_LR", "SWEEP_WEIGHT_DECAY", "SWEEP_OPTIM_LR", "SWEEP_A",
    ]  # fmt: skip


def test_a_fifo_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "points.csv")
    assert "is not a file" in problems({"sweep": {"file": str(tmp_path / "points.csv")}})[0]

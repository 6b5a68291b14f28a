"""Layers of a spec: what wins, what a rival drops, and where a value is said to come from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgpu.errors import InputError, Place
from slurmgpu.experiment import merge, yamltext
from slurmgpu.experiment.spec import RIVALS, check


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes spec files into the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(**contents):
        for name, content in contents.items():
            (tmp_path / f"{name}.yaml").write_text(content)

    return write


def layers(*contents):
    """Documents laid over each other, the weakest first."""
    documents = [yamltext.load(content.encode(), f"{index}.yaml") for index, content in enumerate(contents)]
    merged = merge.start(documents[0])
    for document in documents[1:]:
        merged = merge.over(merged, document)
    return merged


@pytest.mark.parametrize(
    ("below", "above", "expected"),
    [
        ("a: 1\nb: 2\n", "b: 3\nc: 4\n", {"a": "1", "b": "3", "c": "4"}),
        ("env: {A: 1, B: 2}\n", "env: {B: 3}\n", {"env": {"A": "1", "B": "3"}}),
        ("env: {A: 1, B: 2}\n", "env: {B: ~}\n", {"env": {"A": "1"}}),
        ("sbatch: {a: 1}\n", "sbatch: {b: 2}\n", {"sbatch": {"a": "1", "b": "2"}}),
        ("torchrun: {max_restarts: 1}\n", "torchrun: {rendezvous: static}\n",
         {"torchrun": {"max_restarts": "1", "rendezvous": "static"}}),
        ("modules: [a, b]\n", "modules: [c]\n", {"modules": ["c"]}),
        ("command: [a, b, c]\n", "command: x\n", {"command": "x"}),
        ("secrets: [A]\n", "secrets: {B: f}\n", {"secrets": {"B": "f"}}),
        ("time: 1h\na: 1\n", "time: ~\n", {"a": "1"}),
        ("env: {A: 1}\n", "env: ~\n", {}),
        ("a: 1\n", "", {"a": "1"}),
        ("", "a: 1\n", {"a": "1"}),
        # rivals
        ("mem: 64G\n", "mem_per_gpu: 40G\n", {"mem_per_gpu": "40G"}),
        ("mem_per_cpu: 4G\n", "mem: 0\n", {"mem": "0"}),
        ("gpus: 8\ngpu_type: h100\n", "gpus_per_node: 4\n", {"gpu_type": "h100", "gpus_per_node": "4"}),
        ("cpus_per_gpu: 8\n", "cpus_per_task: 4\n", {"cpus_per_task": "4"}),
        ("conda: a\n", "uv: b\n", {"uv": "b"}),
        ("exclusive: true\n", "oversubscribe: true\n", {"oversubscribe": "true"}),
        ("mem: 64G\n", "mem: ~\nmem_per_gpu: 4G\n", {"mem_per_gpu": "4G"}),
        ("mem: 64G\n", "mem_per_gpu: ~\n", {"mem": "64G", "mem_per_gpu": None}),
    ],
)  # fmt: skip
def test_above_wins(below, above, expected):
    assert layers(below, above).data == expected


def test_a_dropped_rival_is_said_with_its_place():
    merged = layers("a: 1\nmem: 64G\n", "mem_per_gpu: 40G\n")
    assert merged.notes == ["`mem_per_gpu` replaces `mem` from 0.yaml:2:6"]
    again = merge.over(merged, merge.setting("mem=1G"))
    assert again.data == {"a": "1", "mem": "1G"}
    assert again.notes == [
        "`mem_per_gpu` replaces `mem` from 0.yaml:2:6",
        "`mem` replaces `mem_per_gpu` from 1.yaml:1:14",
    ]
    assert layers("mem: 64G\n", "mem: 2G\n").notes == []


@pytest.mark.parametrize("group", RIVALS)
def test_any_rival_drops_any_inherited_other(group):
    for chosen in group:
        for other in group:
            if other != chosen:
                merged = layers(f"{other}: 1\n", f"{chosen}: 2\n")
                assert merged.data == {chosen: "2"}
                assert merged.notes == [f"`{chosen}` replaces `{other}` from 0.yaml:1:{len(other) + 3}"]


def test_rivals_of_one_file_are_refused_and_not_dropped():
    merged = layers("command: x\n", "mem: 1G\nmem_per_gpu: 2G\n")
    with pytest.raises(InputError) as refused:
        check(merged.data, merged.places, merged.key_places, "1.yaml")
    assert str(refused.value) == "1.yaml:2:14: `mem_per_gpu` cannot stand beside `mem`; keep one of them"


def test_a_fault_is_said_in_the_file_that_holds_it():
    merged = merge.over(layers("command: x\nnodes: two\ntme: 1\n", "time: 4h30\n"), merge.setting("gpus=x"))
    with pytest.raises(InputError) as refused:
        check(merged.data, merged.places, merged.key_places, "1.yaml")
    assert [str(problem).split(" `")[0].split(" unknown")[0] for problem in refused.value.problems] == [
        "--set gpus:",
        "0.yaml:2:8:",
        "0.yaml:3:1:",
        "1.yaml:1:7:",
    ]


def test_a_profile_is_the_weakest_layer():
    above = layers("mem_per_gpu: 4G\nenv: {A: 1}\npartition: ~\n")
    below = yamltext.load(b"mem: 64G\nenv: {A: 0, B: 2}\nqos: high\npartition: gpu\n", "profile p")
    merged = merge.under(above._replace(notes=["first"]), below)
    assert merged.data == {"mem_per_gpu": "4G", "env": {"A": "1", "B": "2"}, "qos": "high"}
    assert merged.notes == ["first", "`mem_per_gpu` replaces `mem` from profile p:1:6"]
    assert merged.places["qos",].file == "profile p"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("time=2h", {"time": "2h"}),
        ("time=24:00:00", {"time": "24:00:00"}),
        ("name=no", {"name": "no"}),
        ("name= a b ", {"name": " a b "}),
        ("name=a=b", {"name": "a=b"}),
        ("name=", {"name": ""}),
        ("name=null", {"name": None}),
        ("name=~", {"name": "~"}),
        ("account=03303560", {"account": "03303560"}),
        ("env.SEED=1", {"env": {"SEED": "1"}}),
        ("env.A= x: #y", {"env": {"A": " x: #y"}}),
        ("command=[a, 1.10, 'b c']", {"command": ["a", "1.10", "b c"]}),
        ("env={A: no, B: 010}", {"env": {"A": "no", "B": "010"}}),
        ("output=%x-%j.out", {"output": "%x-%j.out"}),
        ("name=é", {"name": "é"}),
    ],
)
def test_a_setting_is_text_as_typed(typed, expected):
    document = merge.setting(typed)
    assert document.data == expected
    assert set(document.places.values()) == {Place(f"--set {typed.split('=')[0]}")}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("time", "--set time: must be KEY=VALUE, such as time=2h or env.SEED=1"),
        ("=x", "--set =x: must be KEY=VALUE"),
        ("env.=x", "--set env.=x: must be KEY=VALUE"),
        (".a=x", "--set .a=x: must be KEY=VALUE"),
        ("", "--set : must be KEY=VALUE"),
        ("name=\udcff", "--set name: is not UTF-8 text"),
        ("command=[a}", "--set command: not valid YAML"),
        ("env={A: 1, A: 2}", "--set env: the key 'A' is here a second time; the first is in line 1"),
    ],
)
def test_a_setting_that_cannot_be_read(typed, said):
    with pytest.raises(InputError) as refused:
        merge.setting(typed)
    assert str(refused.value).startswith(said)


def test_a_setting_wins_and_a_block_keeps_its_others():
    merged = merge.over(layers("env: {A: 1, B: 2}\ntime: 1h\n"), merge.setting("env.A=9"))
    merged = merge.over(merged, merge.setting("time=null"))
    assert merged.data == {"env": {"A": "9", "B": "2"}}
    assert merged.places["env", "A"] == Place("--set env.A")


def test_extends_is_a_chain_relative_to_each_file(files, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/base.yaml").write_text("extends: ../root.yaml\nb: 2\nc: 2\n")
    files(root="a: 1\nb: 1\nmem: 64G\n", exp="extends: sub/base.yaml\nc: 3\nmem_per_gpu: 4G\n")
    merged = merge.spec_file("exp.yaml")
    assert merged.data == {"a": "1", "b": "2", "c": "3", "mem_per_gpu": "4G"}
    assert merged.places["a",].file.endswith("root.yaml")
    assert len(merged.notes) == 1
    assert merged.notes[0].startswith("`mem_per_gpu` replaces `mem` from ")
    assert merged.notes[0].endswith("root.yaml:3:6")


def test_stdin_may_extend_a_file_of_the_working_folder(files):
    files(base="a: 1\n")
    assert merge.spec_file("-", b"extends: base.yaml\nb: 2\n").data == {"a": "1", "b": "2"}


def test_a_circle_is_refused_at_the_key_that_closes_it(files):
    files(a="extends: b.yaml\n", b="x: 1\nextends: ./a.yaml\n")
    with pytest.raises(InputError) as refused:
        merge.spec_file("a.yaml")
    assert str(refused.value) == "b.yaml:2:10: `extends` goes in a circle, back to ./a.yaml"
    files(me="extends: me.yaml\n")
    with pytest.raises(InputError, match="me.yaml:1:10: `extends` goes in a circle"):
        merge.spec_file("me.yaml")


def test_a_chain_of_ten_is_taken_and_of_eleven_is_refused(files):
    files(f0="a: 1\n", **{f"f{index}": f"extends: f{index - 1}.yaml\n" for index in range(1, 13)})
    assert merge.spec_file("f10.yaml").data == {"a": "1"}
    with pytest.raises(InputError, match=r"f1.yaml:1:10: `extends` is deeper than 10 files"):
        merge.spec_file("f11.yaml")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "a: 1\nextends: gone.yaml\n",
            "exp.yaml:2:10: `extends` names gone.yaml, which cannot be read: No such file",
        ),
        ("extends: .\n", "exp.yaml:1:10: `extends` names ., which cannot be read: Is a directory"),
        ("extends: [a, b]\n", "exp.yaml:1:10: `extends` must name one YAML file"),
        ("extends: ''\n", "exp.yaml:1:10: `extends` must name one YAML file"),
        ("extends:\n", "exp.yaml:1:9: `extends` must name one YAML file"),
        ('extends: "a\\0b"\n', "exp.yaml:1:10: `extends` must name one YAML file"),
        ("extends: bad.yaml\n", "bad.yaml:1:4: not valid YAML"),
    ],
)
def test_extends_that_cannot_be_followed(files, content, said):
    files(exp=content, bad="a: @x\n")
    with pytest.raises(InputError) as refused:
        merge.spec_file("exp.yaml")
    assert str(refused.value).startswith(said)


def test_a_spec_that_is_not_there():
    with pytest.raises(InputError, match="^nowhere/exp.yaml: cannot be read: No such file or directory$"):
        merge.spec_file("nowhere/exp.yaml")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["mem", "mem_per_cpu", "mem_per_gpu", "gpus", "gpus_per_node", "time"]),
            st.sampled_from(["1", "2"]),
            max_size=3,
        ).filter(lambda layer: all(sum(key in layer for key in group) < 2 for group in RIVALS)),
        min_size=1,
        max_size=4,
    )
)
def test_however_many_layers_one_rival_is_left_the_last_that_was_chosen(layered):
    merged = layers(*("".join(f"{key}: {value}\n" for key, value in layer.items()) for layer in layered))
    last = {}
    for layer in layered:
        for key, value in layer.items():
            group = next((group for group in RIVALS if key in group), (key,))
            last[group] = (key, value)
    assert (merged.data or {}) == dict(last.values())


# --- what went wrong once ---------------------------------------------------------------------------------------


def test_extends_as_a_setting_is_not_answered_with_itself():
    with pytest.raises(InputError, match="--set extends: can only stand in a file"):
        merge.setting("extends=base.yaml")

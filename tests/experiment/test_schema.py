"""The JSON Schema agrees with what a spec is checked by: what it accepts and refuses, for every key."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from slurmgpu.errors import InputError
from slurmgpu.experiment import spec
from slurmgpu.experiment.kinds import OneOf
from slurmgpu.experiment.options import OPTIONS
from slurmgpu.experiment.schema import schema
from slurmgpu.experiment.yamltext import load

ROOT = Path(__file__).parent.parent.parent
README = "\n".join((ROOT / page).read_text() for page in ("README.md", "docs/researchers.md"))
SCHEMA = schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


class _Editor(yaml.SafeLoader):
    """YAML 1.2 as the YAML language server reads it: no dates, no base 60, only true and false are truth values."""


_Editor.yaml_implicit_resolvers = {}
for tag, pattern, first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+0123456789."),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
):
    _Editor.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), list(first))


def _integer(loader, node):
    return int(loader.construct_scalar(node))


_Editor.add_constructor("tag:yaml.org,2002:int", _integer)


def faults(text):
    """What an editor would underline."""
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in VALIDATOR.iter_errors(seen(text))]


def seen(text):
    return yaml.load(text, _Editor)


def is_taken(text):
    """Whether slurmgpu itself takes the spec, as far as single keys go."""
    document = load(text.encode(), "x")
    data = {key: value for key, value in document.data.items() if key != "extends"}
    try:
        spec.check({"command": "x"} | data, document.places, document.key_places, "x")
    except InputError:
        return False
    return True


def test_it_is_a_draft_7_schema_and_plain_json():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def test_every_key_is_there_and_described():
    assert set(SCHEMA["properties"]) == {*spec.KEYS, "extends"}
    for key, one in SCHEMA["properties"].items():
        assert one.get("description"), key
        for name, inner in one.get("properties", {}).items():
            assert inner.get("description"), f"{key}.{name}"


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / "examples").glob("*.yaml")), ROOT / "templates" / "init.yaml"],
    ids=lambda path: path.name,
)
def test_every_example_is_good(path):
    assert faults(path.read_text()) == []


EXAMPLES = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
ROWS = [
    "{" + ("" if row[0] in ("`command`", "`extends`") else "command: train.py, ") + row[1].strip("` ") + "}"
    for row in (
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in README.split("## Every key")[1].split("\n\n")[2].splitlines()[2:]
    )
]


@pytest.mark.parametrize("text", [*EXAMPLES, *ROWS])
def test_what_the_readme_shows_is_good(text):
    assert faults(text) == []


# each is refused by slurmgpu too
WRONG = [
    "{}",
    "{comand: x}",
    "{command: []}",
    "{command: {a: b}}",
    "{command: x, nodes: 0}",
    "{command: x, nodes: two}",
    "{command: x, nodes: [1]}",
    "{command: x, gpus: -1}",
    "{command: x, launcher: mpirun}",
    "{command: x, time: [1h]}",
    "{command: x, time: 1 hour}",
    "{command: x, time: 4h30}",
    "{command: x, time: -5}",
    "{command: x, mem: 64 gigs}",
    "{command: x, mem: lots}",
    "{command: x, array: 0-}",
    "{command: x, requeue: maybe}",
    "{command: x, exclusive: 2}",
    "{command: x, open_mode: write}",
    "{command: x, env: [A]}",
    "{command: x, env: {1A: b}}",
    "{command: x, env: {A: [b]}}",
    "{command: x, secrets: KEY}",
    "{command: x, secrets: [a-b]}",
    "{command: x, torchrun: {rendezvous: etcd}}",
    "{command: x, torchrun: {nnodes: 2}}",
    "{command: x, torchrun: c10d}",
    "{command: x, container: ubuntu}",
    "{command: x, container: {image: x, runtime: podman}}",
    "{command: x, container: {image: x, mounts: /a}}",
    "{command: x, container: {image: x, workdir: a}}",
    "{command: x, sweep: x}",
    "{command: x, sweep: []}",
    "{command: x, sweep: {lr: 1}}",
    "{command: x, sweep: [1]}",
    "{command: x, sweep: {file: a.csv, lr: [1]}}",
    "{command: x, sbatch: [a]}",
    '{command: x, account: "a\\nb"}',
    '{command: x, account: ""}',
    "{command: x, hold: maybe}",
    "{command: x, nice: much}",
    "{command: x, priority: high}",
    "{command: x, tmp: lots}",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_underlined(text):
    assert faults(text)
    if text != "{}":
        assert not is_taken(text)


# the same meaning in other words, quoted and not; account numbers that an editor takes for numbers
RIGHT = [
    '{command: x, nodes: "2", gpus: "0"}',
    "{command: x, time: 90}",
    "{command: x, time: 24:00:00}",
    "{command: x, time: 1-12}",
    "{command: x, time: 1h30m}",
    "{command: x, time: UNLIMITED}",
    "{command: x, mem: 64000}",
    "{command: x, mem: 1.5GiB}",
    "{command: x, account: 03303560, partition: no}",
    "{command: x, name: 1.10}",
    "{command: x, array: 7}",
    "{command: x, requeue: true}",
    '{command: x, requeue: "true"}',
    "{command: x, requeue: expedite}",
    "{command: x, exclusive: user}",
    "{command: x, nice: true}",
    "{command: x, nice: -100}",
    "{command: x, oversubscribe: false}",
    "{command: x, propagate: NONE}",
    "{command: x, partition: [a, b]}",
    "{command: [python, 1, true]}",
    "{command: x, env: {A: 1, B: true, C: ''}}",
    "{command: x, secrets: {A: ~/.a}}",
    "{command: x, sweep: {lr: [1e-3, 2], name: [a]}}",
    "{command: x, sweep: [{lr: 1}, {lr: 2}]}",
]


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_is_not_underlined(text):
    assert faults(text) == []
    assert is_taken(text)


def test_every_word_of_every_choice_is_a_choice():
    for key, kind in spec.KEYS.items():
        if isinstance(kind, OneOf):
            assert SCHEMA["properties"][key]["enum"] == list(kind.words)
        elif isinstance(kind, spec.Block):
            inner = SCHEMA["properties"][key]["properties"]
            assert set(inner) == set(kind.fields)


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_a_value_of_each_option_s_kind(name):
    values = {"integer": "2", "flag": "true", "time": "30m", "mem": "1G", "flag-or-integer": "7"}
    key = name.replace("-", "_")
    value = values.get(OPTIONS[name].kind, "x")
    assert faults(f"{{command: x, {key}: {value}}}") == []

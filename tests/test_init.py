"""`slurmgpu init` and `slurmgpu schema`: a newcomer's first file."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slurmgpu import bundled
from slurmgpu.experiment import command
from tests.rendering import ENVIRON, FOLDER

STARTER = (Path(bundled.folder("templates")) / "init.yaml").read_text()


def run(folder, *arguments):
    argv = [sys.executable, "-m", "slurmgpu", *arguments]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60)


def test_it_writes_a_spec_that_renders(tmp_path):
    made = run(tmp_path, "init")
    assert (made.returncode, made.stdout) == (0, ""), made.stderr
    assert "slurmgpu check exp.yaml" in made.stderr
    assert (tmp_path / "exp.yaml").read_text() == STARTER
    rendered = run(tmp_path, "render", "exp.yaml")
    assert rendered.returncode == 0, rendered.stderr
    assert "#SBATCH --gres=gpu:1\n" in rendered.stdout


def test_what_is_there_is_left_alone(tmp_path):
    (tmp_path / "exp.yaml").write_text("mine")
    (tmp_path / "dangling.yaml").symlink_to("nowhere")
    for name in ("exp.yaml", "dangling.yaml"):
        made = run(tmp_path, "init", name)
        assert made.returncode == 2
        assert f"{name}: is there already; name another file" in made.stderr
    assert (tmp_path / "exp.yaml").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_stdout_and_a_folder_that_is_not_there(tmp_path):
    assert run(tmp_path, "init", "-").stdout == STARTER
    made = run(tmp_path, "init", "no/exp.yaml")
    assert made.returncode == 2
    assert "cannot be written: No such file or directory" in made.stderr


@pytest.mark.parametrize("line", re.findall(r"^# (\w+: .*)$", STARTER, re.MULTILINE))
def test_each_line_that_is_only_to_be_uncommented_is_right(line):
    text = STARTER.replace(f"# {line}", line)
    if line.startswith("max_parallel"):
        text = re.sub("^# sweep", "sweep", text, flags=re.MULTILINE)
    command.render(command.Request("-", text.encode()), FOLDER, ENVIRON)


def test_the_schema_is_json_on_stdout_or_in_a_file(tmp_path):
    printed = run(tmp_path, "schema")
    assert json.loads(printed.stdout)["properties"]["command"]
    assert run(tmp_path, "schema", "-o", "spec.json").stdout == ""
    assert (tmp_path / "spec.json").read_text() == printed.stdout

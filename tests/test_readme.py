"""The README says what is true: its keys, its examples, its commands."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slurmgpu import cli
from slurmgpu.errors import Place
from slurmgpu.experiment import command, profile
from slurmgpu.experiment.lint import RULES, lint
from slurmgpu.experiment.options import OPTIONS
from slurmgpu.experiment.spec import KEYS, NOT_YET
from tests.rendering import ENVIRON, FOLDER

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = "\n".join(page.read_text() for page in PAGES)
ROWS = [
    [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in README.split("## Every key")[1].split("\n\n")[2].splitlines()[2:]
]
LISTED = re.findall(r"`(\w+)`", README.split("<!-- options -->")[1].split("<!-- end -->")[0])


def code(cell):
    return cell.strip("`") if cell.startswith("`") else ""


def test_every_key_is_described_once_and_no_other():
    described = [code(row[0]) for row in ROWS] + LISTED
    assert sorted(described) == sorted({*KEYS, "extends"})
    assert len(described) == len(set(described))
    for key in NOT_YET:
        assert f"`{key}`" in README


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_example_of_a_key_gives_what_the_table_says(row, tmp_path, monkeypatch):
    key, example, expected = (code(cell) for cell in row[:3])
    (tmp_path / "base.yaml").write_text("command: train.py\n")
    profiles = tmp_path / "slurmgpu" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "h200.toml").write_text("max_array_size = 5\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    start = "" if key in ("command", "extends") else "command: train.py, "
    content = "{" + start + example + "}"
    assert key in yaml.load(content, yaml.BaseLoader)
    script = command.render(command.Request("-", content.encode()), FOLDER, ENVIRON)
    assert expected in script.text
    errors = {finding.code for finding in lint(script.text, FOLDER) if RULES[finding.code].is_error}
    assert errors <= {"SG141"}  # the folder of a log, which is not there in this test


VALUES = {
    "text": "x",
    "integer": "2",
    "flag": "true",
    "time": "30m",
    "mem": "1G",
    "flag-or-text": "7",
    "flag-or-integer": "7",
    "path": "/x",
    "pattern": "/x",
}


@pytest.mark.parametrize("name", LISTED)
def test_a_listed_option_reaches_the_header(name):
    option = name.replace("_", "-")
    value = "TERM@60" if name == "signal" else VALUES[OPTIONS[option].kind]
    shown = {"flag": "", "time": "=0-00:30:00", "mem": "=1024M"}.get(OPTIONS[option].kind, f"={value}")
    script = command.render(command.Request("-", f"{{command: x, {name}: {value}}}".encode()), FOLDER, ENVIRON)
    assert f"#SBATCH --{option}{shown}\n" in script.text


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", README, re.DOTALL))
def test_yaml_blocks_render(block):
    assert command.render(command.Request("-", block.encode()), FOLDER, ENVIRON).text.startswith("#!/bin/bash\n")


def test_the_profile_block_is_a_profile_with_every_key(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "site.toml"
    path.write_text(block)
    read = profile.load(str(path), Place("test"))
    assert read.partitions["gpu"].gpus_per_node == 8
    for key in (*profile._PROFILE_FIELDS, *profile._PARTITION_FIELDS):
        assert re.search(rf"^{key} = |^\[{key}\]", block, re.MULTILINE), key


def test_the_template_block_is_a_template(tmp_path):
    (block,) = re.findall(r"```jinja\n(.*?)```", README, re.DOTALL)
    (tmp_path / "mine.j2").write_text(block)
    request = command.Request("-", b"{command: x, name: a b}", template=str(tmp_path / "mine.j2"))
    assert "cp -r 'a b'-data" in command.render(request, FOLDER, ENVIRON).text


COMMANDS = [
    line.split("  #")[0].strip()
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if language in ("", "sh") and line.startswith("slurmgpu ")
]


def test_every_command_is_in_the_readme():
    for name in cli.COMMANDS:
        assert any(line.startswith(f"slurmgpu {name} ") for line in COMMANDS), name


# what the README's first spec asks for, put into a recorded answer
FITTING = {"gpu:a100:4": "gpu:h100:8", "CPUTot=32": "CPUTot=128", "CPUEfctv=32": "CPUEfctv=128",
           "RealMemory=64000": "RealMemory=1000000",
           "associations,limits,qos": "none"}  # fmt: skip
STAND_INS = {
    "sbatch": 'case "$*" in *--test-only*) exit 0;; *--parsable*) echo 7; exit 0;; esac\n'
    "head -n 1 | grep -q '^#!/bin/bash$' && echo Submitted",
    "scontrol": 'case "$*" in *batch_script*) printf "#!/bin/bash\\n#SBATCH --chdir=/\\n";;\n'
    "*) cat $HOME/scontrol.txt;; esac",
    # job 7 is what sbatch has sent; of the array 12 one task has failed
    "squeue": "printf '7|N/A|COMPLETED\\n12|6|FAILED\\n12|7|CANCELLED\\n'",
    "sacct": "true",
    "srun": "true",
    "slurmgpu": f'exec {shlex.quote(sys.executable)} -m slurmgpu "$@"',
}


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_readme_run(line, tmp_path):
    """As written, by a shell, with stand-ins for Slurm's commands."""
    home = tmp_path
    (home / "exp.yaml").write_text(re.search(r"```yaml\n(name: llama-sft\n.*?)```", README, re.DOTALL)[1])
    if " init " not in line:
        (home / "digits.yaml").write_text(re.search(r"```yaml\n(name: digits\n.*?)```", README, re.DOTALL)[1])
    for name in ("train.py", "train_resume.py"):
        (home / name).touch()
    (home / "jobs").mkdir()
    for name in ("train.sh", "jobs/one.sh"):
        (home / name).write_text("#!/bin/bash\n#SBATCH --time=1:00:00\nsrun python train.py\n")
    (home / ".config/slurmgpu/profiles").mkdir(parents=True)
    (home / ".config/slurmgpu/profiles/h200.toml").write_text('slurm_version = "22.05"\n')
    (home / ".local/share/bash-completion/completions").mkdir(parents=True)
    (home / "logs").mkdir()
    answer = (ROOT / "tests/recorded/scontrol-24.11.txt").read_text()
    for there, wanted in FITTING.items():
        answer = answer.replace(there, wanted)
    (home / "scontrol.txt").write_text(answer)
    programs = home / "bin"
    programs.mkdir()
    for name, text in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environ = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environ["WANDB_API_KEY"] = "secret"
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=home, env=environ, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_examples_render(path):
    script = command.render(command.Request(str(path), None), FOLDER, ENVIRON).text
    assert f"from {path.name}, " in script.splitlines()[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_and_headings_are_good(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if heading:
            titles = [line.lstrip("# ") for line in target.read_text().splitlines() if line.startswith("#")]
            assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, link


def test_ci_calls_the_second_command():
    second = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)[1].strip()
    assert second in (ROOT / ".ci" / "run").read_text()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)

"""Who may import whom, and what a command may load: the layers of the README's design section."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "slurmgpu"
PLACES = ("experiment", "node", "job", "usage")
LEAVES = {"slurmgpu.errors", "slurmgpu.slurmtext", "slurmgpu.records"}
MIDDLE = {"slurmgpu.settings", "slurmgpu.bundled"}


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "slurmgpu":  # `from slurmgpu import bundled` names a module
                yield from (f"slurmgpu.{alias.name}" for alias in node.names)
            else:
                yield node.module


def may_import(path, module):
    """Whether the file may import `module`, a name that starts with slurmgpu."""
    place = path.relative_to(PACKAGE).parts[0]
    if place in ("cli.py", "__main__.py"):
        return True
    if place == "commands":
        return module not in ("slurmgpu.cli", "slurmgpu.__main__")
    if place in PLACES:
        return module in LEAVES | MIDDLE or module == f"slurmgpu.{place}" or module.startswith(f"slurmgpu.{place}.")
    return module in LEAVES


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    own = [module for module in imports(path) if module == "slurmgpu" or module.startswith("slurmgpu.")]
    if path.name == "__init__.py":
        assert own == [], "a package imports nothing when it is loaded"
    wrong = [module for module in own if not may_import(path, module)]
    # render.py asks slurmgpu itself for its version
    assert [module for module in wrong if module != "slurmgpu"] == []


def loaded_by(*arguments):
    """The modules in memory at the end of a command in a fresh interpreter."""
    code = (
        "import sys, os\n"
        f"sys.argv = ['slurmgpu', *{arguments!r}]\n"
        "os._exit = lambda status: print(*sys.modules, file=sys.stderr)\n"
        "from slurmgpu.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stderr.splitlines()[-1].split())


def test_version_loads_nothing_of_the_features():
    loaded = loaded_by("--version")
    assert not {name for name in loaded if name.startswith("slurmgpu.") and name.split(".")[1] in PLACES}
    assert not loaded & {"yaml", "jinja2", "pydantic", "rich", "sqlalchemy", "torch", "pyslurm", "pynvml"}


def test_render_loads_only_what_it_uses(tmp_path):
    spec = tmp_path / "x.yaml"
    spec.write_text("command: train.py\n")
    loaded = loaded_by("render", str(spec))
    assert {"yaml", "jinja2"} <= loaded
    # nothing of the network and nothing that only errors need
    assert not loaded & {
        "pydantic",
        "rich",
        "sqlalchemy",
        "torch",
        "pyslurm",
        "pynvml",
        "tomllib",
        "asyncio",
        "ssl",
        "difflib",
    }


def test_no_file_is_too_long_to_read():
    long = {
        str(path.relative_to(PACKAGE.parent)): count
        for folder in (PACKAGE, PACKAGE.parent / "templates")
        for path in folder.rglob("*")
        if path.suffix in (".py", ".j2") and (count := len(path.read_text().splitlines())) > 400
    }
    assert not long


def test_the_linter_holds_the_rule_too(tmp_path):
    """The banned-api table of pyproject.toml, tried on a file that breaks it."""
    wrong = PACKAGE / "experiment_breaks_the_rule_for_a_test.py"
    wrong.write_text("import slurmgpu.cli\nfrom slurmgpu.experiment import spec\n\nprint(slurmgpu.cli, spec)\n")
    try:
        found = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", wrong],
            capture_output=True, text=True, cwd=PACKAGE.parent,
        )  # fmt: skip
    finally:
        wrong.unlink()
    hits = {line.split(":")[1] for line in found.stdout.splitlines() if "TID251" in line}
    assert {"1", "2"} <= hits, found.stdout + found.stderr

"""The package as it is shipped: an sdist and the wheel built from it, installed where no checkout is."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import slurmgpu

ROOT = Path(__file__).parent.parent


def run(*argv, **options):
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=600, **options)
    assert ended.returncode == 0, f"{argv}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)  # sdist, and the wheel from it
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", wheel, cwd=folder)
    return folder / "bin"


def test_the_wheel_holds_the_folders_beside_the_package(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "prolog", "epilog"):
        sources = {path.name for path in (ROOT / folder).iterdir() if path.is_file()}
        assert {f"slurmgpu/{folder}/{name}" for name in sources} <= names
    assert not [name for name in names if name.startswith(("tests/", "bench/", "templates/"))]
    metadata = next(name for name in names if name.endswith("METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    for line in (f"Version: {slurmgpu.__version__}", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert line in text.splitlines()
    for extra in ("pyslurm", "torch", "postgres", "mariadb", "dev"):
        assert f"Provides-Extra: {extra}" in text.splitlines()


def test_a_wheel_in_a_clean_environment_renders_the_same_bytes(installed, tmp_path):
    spec = ROOT / "examples" / "ddp.yaml"
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    from_wheel = run(installed / "slurmgpu", "render", spec, cwd=tmp_path, env=environ)
    from_checkout = run(
        sys.executable, "-m", "slurmgpu", "render", spec, cwd=tmp_path, env={**environ, "PYTHONPATH": str(ROOT)}
    )
    assert from_wheel == from_checkout
    assert from_wheel.startswith("#!/bin/bash\n")


def test_only_the_stated_libraries_are_needed(installed):
    listed = run(installed / "python", "-m", "pip", "list", "--format=freeze", cwd="/").lower().splitlines()
    names = {line.split("==")[0] for line in listed} - {"pip", "setuptools", "wheel"}
    assert names == {"slurmgpu", "click", "jinja2", "markupsafe", "pyyaml"}


def test_an_editable_install_finds_the_templates_of_the_checkout(tmp_path):
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv" / "bin" / "python", "-m", "pip", "install", "-q", "-e", ROOT, cwd=tmp_path)
    code = "from slurmgpu import bundled; print(bundled.folder('templates'))"
    assert run(tmp_path / "venv" / "bin" / "python", "-c", code, cwd=tmp_path).strip() == str(ROOT / "templates")


def test_an_installation_without_its_folders_says_so(tmp_path):
    (tmp_path / "slurmgpu").symlink_to(ROOT / "slurmgpu")  # the look-up goes by the path of the import
    code = "from slurmgpu import bundled\ntry: bundled.folder('templates')\nexcept FileNotFoundError as e: print(e)"
    said = run(sys.executable, "-c", code, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert said == "slurmgpu is installed without its templates/ folder; install it again\n"

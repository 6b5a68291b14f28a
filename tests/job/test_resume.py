"""slurmgpu.job.resume, as the file that a program may copy: each test loads a fresh one."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgpu.job import resume as packaged

FILE = Path(packaged.__file__)
VARIABLES = (
    "SLURMGPU_STOP_FILE", "SLURMGPU_FINISHED_FILE", "SLURMGPU_LEAD_TIME_S", "SLURMGPU_SIGNAL", "SLURM_JOB_END_TIME",
    "SLURM_RESTART_COUNT",
)  # fmt: skip


@pytest.fixture
def load(monkeypatch, tmp_path):
    """Loads the module in an environment; looks at the flag file are not spaced."""

    def loaded(look_every_s=0.0, **variables):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        spec = importlib.util.spec_from_file_location("copied_resume", FILE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.LOOK_EVERY_S = look_every_s
        return module

    return loaded


def test_outside_of_a_job_it_does_nothing(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = load()
    assert module.should_stop() is False
    assert module.restart_count() == 0
    module.finished()
    assert list(tmp_path.iterdir()) == []


def test_the_flag_file_stops_for_good(load, tmp_path):
    flag = tmp_path / "stop"
    module = load(SLURMGPU_STOP_FILE=flag)
    assert module.should_stop() is False
    flag.touch()
    assert module.should_stop() is True
    flag.unlink()
    assert module.should_stop() is True


def test_looks_are_spaced(load, tmp_path):
    flag = tmp_path / "stop"
    module = load(0.3, SLURMGPU_STOP_FILE=flag)
    assert module.should_stop() is False
    flag.touch()
    assert module.should_stop() is False
    time.sleep(0.4)
    assert module.should_stop() is True


def test_the_end_of_the_job_less_the_lead_time_stops_and_tells_the_others(load, tmp_path):
    flag = tmp_path / "stop"
    module = load(SLURMGPU_STOP_FILE=flag, SLURM_JOB_END_TIME=int(time.time()) + 101, SLURMGPU_LEAD_TIME_S=100)
    assert module.should_stop() is False
    assert not flag.exists()
    time.sleep(2)
    assert module.should_stop() is True
    assert flag.exists()


def test_a_full_disk_stops_all_the_same(load, tmp_path):
    module = load(SLURMGPU_STOP_FILE=tmp_path / "no" / "stop", SLURM_JOB_END_TIME=5, SLURMGPU_LEAD_TIME_S=1,
                  SLURMGPU_FINISHED_FILE=tmp_path / "no" / "finished")  # fmt: skip
    assert module.should_stop() is True
    module.finished()


def test_finished_leaves_its_mark_once_or_often(load, tmp_path):
    mark = tmp_path / "finished"
    module = load(SLURMGPU_FINISHED_FILE=mark)
    module.finished()
    module.finished()
    assert mark.exists()


@pytest.mark.parametrize(
    ("text", "count"), [("0", 0), ("3", 3), ("", 0), ("x", 0), ("-1", 0), ("1.5", 0), ("inf", 0), ("9" * 5000, 0)]
)
def test_the_restart_count(load, text, count):
    assert load(SLURM_RESTART_COUNT=text).restart_count() == count


@given(st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=30))
def test_no_environment_makes_it_raise(text):
    before = dict(os.environ)
    try:
        for name in VARIABLES:
            os.environ[name] = "" if name.endswith("_FILE") else text
        spec = importlib.util.spec_from_file_location("copied_resume", FILE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.should_stop() in (True, False)
        assert module.restart_count() >= 0
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_a_relayed_signal_stops_instead_of_killing(load, tmp_path):
    try:
        module = load(SLURMGPU_STOP_FILE=tmp_path / "stop", SLURMGPU_SIGNAL="USR2")
        assert module.should_stop() is False
        os.kill(os.getpid(), signal.SIGUSR2)
        assert module.should_stop() is True
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)


def test_a_handler_of_the_program_s_own_stays(load):
    def own(*_):
        pass

    signal.signal(signal.SIGUSR2, own)
    try:
        load(SLURMGPU_SIGNAL="USR2")
        assert signal.getsignal(signal.SIGUSR2) is own
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)


def test_no_signal_is_taken_unless_the_script_relays_one(load):
    load(SLURMGPU_STOP_FILE="/nonexistent/stop")
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_it_needs_nothing_but_the_standard_library():
    code = "import sys, runpy; runpy.run_path(sys.argv[1]); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", code, FILE], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert {name.partition(".")[0] for name in ended.stdout.split()} <= sys.stdlib_module_names | {"__main__"}

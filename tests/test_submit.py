"""submit and resubmit as a user runs them, with executables in the place of Slurm's commands."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = "command: train.py\ngpus: 1\ncpus_per_gpu: 2\nmem: 1G\ntime: 1h\npartition: gpu\noutput: logs/%x-%A_%a.out\n"
SWEEP = SPEC + "sweep: {a: [1, 2, 3, 4, 5]}\nprofile: two.toml\n"
# sbatch: --test-only says yes; each call takes a number and keeps its script and command line
SBATCH = """case "$*" in *--test-only*) exit 0;; esac
n=$(($(cat "$HOME/count" 2>/dev/null || echo 0) + 1)); echo $n >"$HOME/count"
cat >"$HOME/script.$n"; echo "$@" >"$HOME/argv.$n"; env >"$HOME/env.$n"
if [ "$n" = "$FAIL_AT" ]; then echo "sbatch: error: $FAIL_WITH" >&2; exit 1; fi
if [ "$n" = "$HANG_AT" ]; then sleep 100; fi
echo $((100 + n))"""


@pytest.fixture
def slurm(tmp_path):
    """A home with a spec, and a function that runs slurmgpu there with stand-ins on PATH."""
    answer = (ROOT / "tests/recorded/scontrol-24.11.txt").read_text().replace("associations,limits,qos", "none")
    (tmp_path / "scontrol.txt").write_text(answer)
    (tmp_path / "train.py").touch()
    (tmp_path / "exp.yaml").write_text(SPEC)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    (tmp_path / "two.toml").write_text("max_array_size = 2\n")
    (tmp_path / "bin").mkdir()
    return Slurm(tmp_path)


class Slurm:
    def __init__(self, home):
        self.home = home
        self.program("scontrol", 'cat "$HOME/scontrol.txt"')
        self.program("sbatch", SBATCH)
        self.program("squeue", "true")
        self.program("sacct", "true")

    def program(self, name, text):
        path = self.home / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def start(self, *arguments, **variables):
        environ = {"HOME": str(self.home), "PATH": f"{self.home}/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-m", "slurmgpu", *arguments],
            cwd=self.home,
            env=environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, **variables):
        process = self.start(*arguments, **variables)
        output, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors
        return process.returncode, output, errors

    @property
    def calls(self):
        found = sorted(self.home.glob("argv.*"), key=lambda path: int(path.suffix[1:]))
        return [path.read_text().strip() for path in found]

    @property
    def records(self):
        folder = self.home / ".local/state/slurmgpu/jobs"
        return sorted(path.name for path in folder.glob("*/*.json"))


def test_the_number_the_folder_and_the_record(slurm):
    status, output, errors = slurm.run("submit", "exp.yaml", SBATCH_QOS="high")
    assert (status, output) == (0, "101\n"), errors
    assert (slurm.home / "logs").is_dir()
    assert slurm.calls == ["--parsable"]
    assert (slurm.home / "script.1").read_text().startswith("#!/bin/bash\n# Made by slurmgpu ")
    assert "SBATCH_QOS" not in (slurm.home / "env.1").read_text()
    assert "note: not handed on to sbatch, the spec decides: SBATCH_QOS\n" in errors
    assert slurm.records == ["101.101.json"]


def test_stdin_is_a_spec_too(slurm):
    with open(slurm.home / "exp.yaml") as file:
        ended = subprocess.run(
            [sys.executable, "-m", "slurmgpu", "submit", "-"], stdin=file, capture_output=True, text=True,
            cwd=slurm.home,
            env={"HOME": str(slurm.home), "PATH": f"{slurm.home}/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "101\n"), ended.stderr


def test_all_arrays_of_a_sweep(slurm):
    status, output, errors = slurm.run("submit", "sweep.yaml")
    assert (status, output) == (0, "101\n102\n103\n"), errors
    assert "slurmgpu: job 102: points 2-3\n" in errors
    assert slurm.records == ["101.101.json", "101.102.json", "101.103.json"]
    for number, offset in ((1, 0), (2, 2), (3, 4)):
        assert f"SLURM_ARRAY_TASK_ID + {offset}))" in (slurm.home / f"script.{number}").read_text()


def test_the_cluster_s_own_max_array_size_counts_where_the_profile_says_none(slurm):
    content = (slurm.home / "scontrol.txt").read_text()
    assert "MaxArraySize            = 1001" in content
    (slurm.home / "scontrol.txt").write_text(content.replace("= 1001", "= 4"))
    (slurm.home / "sweep.yaml").write_text(SWEEP.replace("profile: two.toml\n", ""))
    assert slurm.run("submit", "sweep.yaml")[1] == "101\n102\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [("Invalid qos specification", 1), ("Batch job submission failed: Unable to contact slurm controller", 3)],
)
def test_when_sbatch_refuses_the_second_array_it_is_said_what_was_sent(slurm, words, status):
    found, output, errors = slurm.run("submit", "sweep.yaml", FAIL_AT="2", FAIL_WITH=words)
    assert (found, output) == (status, "101\n")
    assert f"slurmgpu: sbatch: error: {words}\n" in errors
    assert "submitted: points 0-1; not submitted: points 2-3, points 4-4" in errors
    assert ("whether points 2-3 came through is not known" in errors) == (status == 3)
    assert len(slurm.calls) == 2
    assert slurm.records == ["101.101.json"]


def test_when_sbatch_refuses_the_first_nothing_is_sent(slurm):
    status, output, errors = slurm.run("submit", "exp.yaml", FAIL_AT="1", FAIL_WITH="Invalid qos")
    assert (status, output) == (1, "")
    assert errors.endswith("slurmgpu: sbatch: error: Invalid qos\n")
    assert slurm.records == []


SCONTROL = {
    "missing": None,
    "down": "echo 'slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
    "garbage": "head -c 3000 /dev/urandom",
    "empty": "true",
    "cut": "head -c 4000 $HOME/scontrol.txt",
    "hanging": "sleep 100",
}


@pytest.mark.parametrize("command", ["submit", "resubmit"])
@pytest.mark.parametrize("name", SCONTROL)
def test_a_cluster_that_does_not_answer_gets_no_job(slurm, name, command):
    if SCONTROL[name] is None:
        (slurm.home / "bin/scontrol").unlink()
    else:
        slurm.program("scontrol", SCONTROL[name])
    (slurm.home / "bin/python3").symlink_to(sys.executable)
    variables = {"SLURMGPU_TIMEOUT_S": "1"}
    if name == "missing":
        for tool in ("sh", "bash", "cat", "sleep", "env"):
            (slurm.home / "bin" / tool).symlink_to(f"/bin/{tool}")
        variables["PATH"] = f"{slurm.home}/bin"
    status, output, errors = slurm.run(command, "sweep.yaml" if command == "submit" else "12", **variables)
    if name == "cut" and command == "resubmit":
        assert status in (2, 3)  # the cluster's name may have been in it
    else:
        assert (status, output) == (3, ""), errors
        assert "scontrol" in errors
    assert slurm.calls == []
    assert not (slurm.home / "logs").exists()


def test_a_check_that_fails_is_shown_and_nothing_is_sent(slurm):
    status, output, errors = slurm.run("submit", "exp.yaml", "--set", "partition=gpuu")
    assert (status, output) == (1, "")
    assert "FAIL  partition" in errors
    assert errors.endswith("slurmgpu: nothing is submitted\n")
    assert slurm.calls == []
    assert not (slurm.home / "logs").exists()


def test_a_bad_spec_is_said_before_the_cluster_is_waited_for(slurm):
    slurm.program("scontrol", "sleep 100")
    started = time.monotonic()
    status, _, errors = slurm.run("submit", "sweep.yaml", "--set", "nodse=1")
    assert status == 2
    assert "unknown key 'nodse'" in errors
    assert time.monotonic() - started < 20


def test_wait_says_which_points_failed(slurm):
    slurm.program("squeue", "printf '101|0|COMPLETED\\n101|1|FAILED\\n102|0|TIMEOUT\\n102|1|COMPLETED\\n'")
    slurm.program("sacct", r"printf '103_0\037COMPLETED\n'")
    status, output, errors = slurm.run("submit", "sweep.yaml", "--wait")
    assert (status, output) == (1, "101\n102\n103\n")
    assert "slurmgpu: point 1 (job 101_1) is FAILED\nslurmgpu: point 2 (job 102_0) is TIMEOUT\n" in errors
    slurm.program("squeue", "printf '104|N/A|COMPLETED\\n'")
    assert slurm.run("submit", "exp.yaml", "--wait")[0] == 0


def test_wait_goes_on_while_the_job_runs_and_can_be_interrupted(slurm):
    slurm.program("squeue", "touch $HOME/asked; echo '101|N/A|RUNNING'")
    process = slurm.start("submit", "exp.yaml", "--wait")
    for _ in range(200):
        if (slurm.home / "asked").exists():
            break
        time.sleep(0.1)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (130, "101\n")
    assert "no longer waiting; the job goes on (`scancel 101` ends it)" in errors
    assert "Traceback" not in errors


def test_an_interrupt_during_sbatch_says_that_it_is_not_known(slurm):
    process = slurm.start("submit", "sweep.yaml", HANG_AT="2")
    for _ in range(200):
        if (slurm.home / "argv.2").exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (130, "101\n")
    assert "whether points 2-3 came through is not known" in errors


def test_resubmit_sends_the_failed_points_of_then(slurm):
    slurm.run("submit", "sweep.yaml", "--set", "max_parallel=1")
    slurm.program(
        "squeue", "printf '101|0|FAILED\\n101|1|COMPLETED\\n102|0|COMPLETED\\n102|1|FAILED\\n103|0|RUNNING\\n'"
    )
    (slurm.home / "logs").rmdir()
    (slurm.home / "sweep.yaml").unlink()  # the script of then
    status, output, errors = slurm.run("resubmit", "102", "--dry-run")
    folder = f"{slurm.home}/.local/state/slurmgpu/jobs/testbed"
    assert output == (
        f"mkdir -p {slurm.home}/logs\n"
        f"sbatch --parsable --array=0%1 < {folder}/101.101.sh  # points 0\n"
        f"sbatch --parsable --array=1%1 --dependency=afterany:PREVIOUS < {folder}/101.102.sh  # points 3\n"
    )
    assert not (slurm.home / "logs").exists()
    status, output, errors = slurm.run("resubmit", "103")
    assert (status, output) == (0, "104\n105\n"), errors
    assert "left alone, still in the queue: 103_0\n" in errors
    assert "FAILED: 101_0, 102_1\n" in errors
    assert slurm.calls[-2:] == ["--parsable --array=0%1", "--parsable --array=1%1 --dependency=afterany:104"]
    assert (slurm.home / "logs").is_dir()
    for again, before in ((4, 1), (5, 2)):
        assert (slurm.home / f"script.{again}").read_bytes() == (slurm.home / f"script.{before}").read_bytes()
    assert slurm.records[-2:] == ["101.104.json", "101.105.json"]


@pytest.mark.parametrize("job", ["", "x", "12_", "12_x", "-1", "12.batch", "12_[1-3]", "99999999999", "１２"])
def test_a_job_s_number_that_is_none(slurm, job):
    status, output, errors = slurm.run("resubmit", "--", job)
    assert (status, output) == (2, "")
    assert "must be a job's number, such as 12 or 12_7" in errors


def test_squeue_that_writes_garbage_submits_nothing(slurm):
    slurm.run("submit", "exp.yaml")
    slurm.program("squeue", "head -c 100 /dev/urandom")
    status, output, errors = slurm.run("resubmit", "101")
    assert (status, output) == (3, "")
    assert "squeue wrote a line that cannot be read" in errors
    assert len(slurm.calls) == 1


def test_a_reader_of_stdout_that_has_gone_does_not_stop_the_rest(slurm):
    process = slurm.start("submit", "sweep.yaml")
    process.stdout.close()
    errors = process.stderr.read()
    process.wait(60)
    assert len(slurm.calls) == 3, errors
    process.stderr.close()


def test_help_has_examples():
    for command in ("submit", "resubmit"):
        ended = subprocess.run([sys.executable, "-m", "slurmgpu", command, "--help"], capture_output=True, text=True)
        assert "Examples:" in ended.stdout

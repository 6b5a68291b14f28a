"""What lint says of a header is what Slurm does with it: refused, lost, or another value than was meant."""

import re
import time
from pathlib import Path

import pytest

from slurmgpu.experiment.lint import lint
from tests.experiment.test_lint import header, mem, timed
from tests.slurm.test_checkpoint import ended, until

COMMENTED = "#SBATCH --comment=kept\n:\n"


def codes(script, folder="/"):
    return {finding.code for finding in lint(script, folder)}


def sbatch(cluster, script, *options):
    return cluster.run(["sbatch", "--parsable", *options], input=script, check=False, cwd=cluster.home("alice"))


def held(cluster, script):
    """The record of a job that was submitted and taken away again before it started."""
    sent = sbatch(cluster, script, "--hold")
    assert sent.returncode == 0, sent.stderr
    record = cluster.job(sent.stdout.strip())
    cluster.run(["scancel", record["JobId"]])
    return record


def run(cluster, script):
    sent = sbatch(cluster, script)
    assert sent.returncode == 0, sent.stderr
    return cluster.wait(int(sent.stdout))


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("SG101", header(body="true\n" + COMMENTED)),
        ("SG102", header(body="  " + COMMENTED)),
        ("SG103", header(body=COMMENTED.replace("#", "# "))),
        ("SG104", header(body=COMMENTED.replace("SBATCH", "sbatch"))),
        ("SG105", header(body="#" + COMMENTED)),
        ("SG107", header("--job-name=exp#1 --comment=kept")),
    ],
)
def test_a_directive_that_is_lost(cluster, code, script):
    assert code in codes(script)
    assert "Comment" not in held(cluster, script)
    assert held(cluster, header("--job-name='exp#1' --comment=kept"))["Comment"] == "kept"


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("SG106", header(body="#SBATCHES of 64\n:\n")),
        ("SG106", header(body="#SBATCH: two nodes\n:\n")),
        ("SG108", header("--comment='x")),
        ("SG109", header("train on two")),
        ("SG109", header("-Z 2")),
        ("SG109", header("--mem-per=4")),
        ("SG110", header("--cpu-per-task=4")),
        ("SG111", header("--frobnicate=2")),
        ("SG115", "#SBATCH --time=1:00:00\n:\n"),
        ("SG115", "\ufeff" + header()),
        ("SG116", header().replace("\n", "\r\n")),
        ("SG118", header("--container-image=x")),  # where there is no pyxis
        ("SG122", timed("12h")),
        ("SG122", timed("2d")),
        ("SG122", timed("1.5")),
        ("SG122", timed("tomorrow")),
        ("SG125", mem("--mem=8G", "--mem-per-cpu=4G")),
        ("SG126", mem("--mem=1.5G")),
        ("SG126", mem("--mem=64GiB")),
        ("SG126", mem("--mem='4 G'")),
        ("SG130", header("--nodes=3 --gpus=2")),
        ("SG138", header("--cpus-per-gpu=4 -c 8 --gres=gpu:2")),
        ("SG139", header("--gpus=2 --ntasks-per-gpu=1 --ntasks-per-node=2")),
    ],
)
def test_a_script_that_sbatch_refuses(cluster, code, script):
    assert code in codes(script)
    sent = sbatch(cluster, script, "--hold")
    assert (sent.returncode != 0, sent.stdout) == (True, ""), sent.stderr


@pytest.mark.parametrize(
    ("code", "script", "field", "value"),
    [
        ("SG112", header("--nodes=1", "--comment=a", "--comment=b"), "Comment", "b"),
        ("SG120", timed("24"), "TimeLimit", "00:24:00"),
        ("SG120", timed("24:00"), "TimeLimit", "00:24:00"),
        ("SG121", timed("4:30"), "TimeLimit", "00:05:00"),  # rounded up to whole minutes
        ("SG127", mem("--mem=64"), "MinMemoryNode", "64M"),
        ("SG140", header("--job-name=$HOME"), "JobName", "$HOME"),
        ("SG140", header("--comment=`date`"), "Comment", "`date`"),
        ("SG124", "#!/bin/bash\n#SBATCH --mem=8G\n:\n", "TimeLimit", "00:10:00"),  # the partition's default
    ],
)
def test_a_value_that_is_another_than_was_meant(cluster, code, script, field, value):
    assert code in codes(script)
    assert held(cluster, script)[field] == value


@pytest.mark.parametrize("size", ["4GB", "4g", "1536M", "0"])
def test_sizes_that_lint_takes_are_taken(cluster, size):
    assert codes(mem(f"--mem={size}")) == set()
    assert sbatch(cluster, mem(f"--mem={size}"), "--test-only").returncode == 0


@pytest.mark.parametrize("time", ["90", "30:00:00", "1-0", "1-12:30", "1-12:30:05", "00:24:00"])
def test_times_that_lint_takes_are_taken(cluster, time):
    assert codes(timed(time)) == set()
    assert sbatch(cluster, timed(time), "--test-only").returncode == 0


def test_gpus_of_the_job_come_unevenly(cluster):
    script = mem("--mem=100M --nodes=2 --gpus=5 --ntasks-per-node=1")
    script = script.replace("srun python train.py", "srun --output=gpus-%n.txt bash -c 'echo $SLURM_GPUS_ON_NODE'")
    assert "SG130" in codes(script)
    assert run(cluster, script)["JobState"] == "COMPLETED"
    home = cluster.home("alice")
    assert sorted(int((home / f"gpus-{task}.txt").read_text()) for task in (0, 1)) == [1, 4]


def test_a_missing_log_folder(cluster):
    """Before 24.11 the job fails and nothing says so; since then Slurm makes the folder."""
    home = cluster.home("alice")
    script = mem("--mem=100M --output=missing/x-%j.out").replace("srun python train.py", "true")
    assert "SG141" in codes(script, str(home))
    record = run(cluster, script)
    makes_it = cluster.version >= "24.11"
    assert (record["JobState"], (home / "missing").exists()) == (
        ("COMPLETED", True) if makes_it else ("FAILED", False)
    )
    (home / "missing").mkdir(exist_ok=True)
    assert "SG141" not in codes(script, str(home))


def test_an_array_s_pattern_without_an_array(cluster):
    script = mem("--mem=100M --output=log-%a.out").replace("srun python train.py", "true")
    assert codes(script) == {"SG143"}
    run(cluster, script)
    assert (cluster.home("alice") / "log-4294967294.out").exists()


def test_steps_of_a_job_with_a_bare_environment_have_no_path(cluster):
    script = mem("--mem=100M --export=NONE --output=bare-%j.out").replace("srun python", "srun printenv")
    if cluster.version > "25":
        pytest.skip("su of this image is not for Slurm's get-user-env: --export=NONE fails before the script")
    script = script.replace("printenv train.py", "printenv")
    assert "SG147" in codes(script)
    record = run(cluster, script)
    text = Path(record["StdOut"]).read_text()
    assert record["JobState"] == "FAILED" or "PATH=" not in text, text
    good = script.replace("srun printenv", "export SLURM_EXPORT_ENV=ALL PATH\nsrun printenv")
    assert codes(good) == set()
    record = run(cluster, good)
    assert record["JobState"] == "COMPLETED"
    assert "PATH=" in Path(record["StdOut"]).read_text()


@pytest.mark.once
def test_a_requeue_empties_the_log(cluster):
    body = (
        'echo start-$SLURM_RESTART_COUNT\n[ -n "$SLURM_RESTART_COUNT" ] || scontrol requeue $SLURM_JOB_ID\nsleep 1\n'
    )
    home = cluster.home("alice")
    for option, starts in (("", ["start-1"]), (" --open-mode=append", ["start-", "start-1"])):
        script = mem(f"--mem=100M --requeue --output=again.out{option}").replace("srun python train.py\n", body)
        assert ("SG146" in codes(script)) == (not option)
        number = int(sbatch(cluster, script).stdout)
        ended(cluster, number)
        lines = (home / "again.out").read_text().splitlines()
        assert [line for line in lines if line.startswith("start-")] == starts
        (home / "again.out").unlink()


def body(text, *options):
    """A small job with these commands, its log read back."""
    return mem("--mem=100M", *options, "--output=body-%j.out").replace("srun python train.py\n", text)


def log(record):
    return Path(record["StdOut"]).read_text()


@pytest.mark.once
@pytest.mark.parametrize(
    ("code", "bad", "good", "state_of_bad", "state_of_good"),
    [
        (
            "SG213",
            "python3 -c 'exit(3)' | cat\n",
            "set -o pipefail\npython3 -c 'exit(3)' | cat\n",
            "COMPLETED",
            "FAILED",
        ),
        (
            "SG222",
            "python3 -c 'exit(3)'\necho end\n",
            "set -e\npython3 -c 'exit(3)'\necho end\n",
            "COMPLETED",
            "FAILED",
        ),
        ("SG223", "if true; then\n  true\n", "if true; then\n  true\nfi\n", "FAILED", "COMPLETED"),
        ("SG220", "conda activate x\n", "true\n", "FAILED", "COMPLETED"),
    ],
)  # fmt: skip
def test_the_state_that_a_job_ends_with(cluster, code, bad, good, state_of_bad, state_of_good):
    assert code in codes(body(bad))
    assert code not in codes(body(good))
    assert run(cluster, body(bad))["JobState"] == state_of_bad
    assert run(cluster, body(good))["JobState"] == state_of_good


@pytest.mark.parametrize(
    ("code", "bad", "good", "log_of_bad", "log_of_good"),
    [
        ("SG203", "srun sh -c \"echo rank $SLURM_PROCID\"\n", "srun sh -c 'echo rank $SLURM_PROCID'\n",
         ["rank 0", "rank 0"], ["rank 0", "rank 1"]),
        ("SG203", "export RANK=$SLURM_PROCID\nsrun printenv RANK\n", "srun sh -c 'RANK=$SLURM_PROCID; echo $RANK'\n",
         ["0", "0"], ["0", "1"]),
        ("SG214", "printf '1\\n2\\n3\\n' | while read n; do srun -n1 echo line $n; done\n",
         "printf '1\\n2\\n3\\n' | while read n; do srun -n1 --input=none echo line $n; done\n",
         ["line 1"], ["line 1", "line 2", "line 3"]),
        ("SG216", "srun -n1 sh -c 'sleep 2; echo end' &\n", "srun -n1 sh -c 'sleep 2; echo end' &\nwait\n", [],
         ["end"]),
        ("SG226", 'cd "$(dirname "$0")"; ls batch.txt 2>/dev/null\ntrue\n',
         'cd "$SLURM_SUBMIT_DIR"; ls batch.txt\ntrue\n',
         [], ["batch.txt"]),
        ("SG225", "echo ${SLURM_JOB_NODELIST%%,*}\n", "scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1\n",
         ["n[1-2]"], ["n1"]),
    ],
)  # fmt: skip
def test_what_the_tasks_do(cluster, code, bad, good, log_of_bad, log_of_good):
    (cluster.home("alice") / "batch.txt").touch()
    options = ("--nodes=2", "--ntasks-per-node=1")
    assert code in codes(body(bad, *options))
    assert code not in codes(body(good, *options))
    for text, lines in ((bad, log_of_bad), (good, log_of_good)):
        written = log(run(cluster, body(text, *options))).splitlines()
        assert sorted(line for line in written if not line.startswith(("srun:", "slurmstepd"))) == lines


@pytest.mark.once
def test_a_trap_waits_for_the_step_in_the_foreground(cluster):
    rest = "trap 'echo told at $SECONDS' USR1\nsrun sleep 6{}\necho end at $SECONDS\n"
    bad, good = body(rest.format(""), "--signal=B:USR1@60"), body(rest.format(" &\nwait"), "--signal=B:USR1@60")
    assert "SG205" in codes(bad)
    assert "SG205" not in codes(good)
    seconds = {}
    for name, script in (("bad", bad), ("good", good)):
        number = int(sbatch(cluster, script).stdout)
        until(lambda number=number: cluster.job(number)["JobState"] == "RUNNING", "the start")
        time.sleep(1.5)
        cluster.run(["scancel", "--batch", "--signal=USR1", str(number)])
        seconds[name] = int(re.search(r"told at (\d+)", log(cluster.wait(number)))[1])
    assert seconds["bad"] >= 5
    assert seconds["good"] <= 3


@pytest.mark.once
def test_a_batch_shell_without_a_trap_dies_of_the_warning(cluster):
    script = body("srun sleep 30\n", "--signal=B:USR1@60")
    assert "SG206" in codes(script)
    number = int(sbatch(cluster, script).stdout)
    until(lambda: cluster.job(number)["JobState"] == "RUNNING", "the start")
    time.sleep(1)
    cluster.run(["scancel", "--batch", "--signal=USR1", str(number)])
    record = cluster.wait(number)
    assert (record["JobState"], record["ExitCode"]) == ("FAILED", "0:10")

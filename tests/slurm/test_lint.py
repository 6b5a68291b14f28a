"""What lint says of a header is what Slurm does with it: refused, lost, or another value than was meant."""

from pathlib import Path

import pytest

from slurmgpu.experiment.lint import lint
from tests.experiment.test_lint import header, mem, timed
from tests.slurm.test_checkpoint import ended

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

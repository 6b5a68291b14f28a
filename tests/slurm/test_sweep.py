"""Sweeps on a real Slurm: every point runs once with its own values, and the failed ones run again."""

import json
import time

import pytest
import yaml

from tests.slurm.jobs import send, slurmgpu

SMALL = {"launcher": "shell", "mem": "1M", "time": "5m", "cpus_per_task": 1, "partition": "all"}
HOSTILE = [
    'it\'s "a" $(id) `id` \\ ${HOME}',
    "a\nb\r\n",
    "",
    " ",
    "ünï\U0001f600",
    "-x",
    "#SBATCH --x",
    "*",
    "x" * 5000,
]


@pytest.fixture
def home(cluster):
    folder = cluster.home("alice")
    for path in (*folder.glob("ran*.txt"), *folder.glob("logs/*")):
        path.unlink()
    return folder


def small_arrays(home, size):
    """A profile on whose cluster an array has `size` tasks at the most."""
    path = home / "small.toml"
    path.write_text(f"max_array_size = {size}\n")
    path.chmod(0o644)
    return str(path)


def ran(home):
    return sorted((home / "ran.txt").read_text().splitlines())


@pytest.mark.once
def test_2500_points_run_as_three_arrays_each_point_once(cluster, home):
    """MaxArraySize is 1001 there; about a minute."""
    rows = "".join(f'{number},"v ""{number}"""\n' for number in range(2500))
    (home / "points.csv").write_text(f"a,b\n{rows}")
    (home / "points.csv").chmod(0o644)
    command = 'echo "$SLURMGPU_POINT $SLURM_ARRAY_TASK_ID $SWEEP_A $SWEEP_B" >>ran.txt'
    spec = SMALL | {"command": command, "sweep": {"file": "points.csv"}, "output": "logs/%x-%A_%a.out"}
    jobs = send(cluster, "big", spec)
    assert len(jobs) == 3
    for job in jobs:
        cluster.wait(job, timeout=240)
    expected = [f'{number} {number % 1001} {number} v "{number}"' for number in range(2500)]
    assert ran(home) == sorted(expected)
    assert len(list((home / "logs").glob("big-*.out"))) == 2500
    log = (home / "logs" / f"big-{jobs[2]}_497.out").read_text()
    assert log == 'slurmgpu: point 2499 of 0-2499: a=2499 b=v\\ \\"2499\\"\n'
    ended = slurmgpu(cluster, "resubmit", str(jobs[1]))
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "nothing has failed" in ended.stderr


def test_2500_points_are_three_arrays_with_offsets(cluster, home):
    (home / "points.csv").write_text("a\n" + "".join(f"{number}\n" for number in range(2500)))
    (home / "points.csv").chmod(0o644)
    spec = SMALL | {"command": "true $SWEEP_A", "sweep": {"file": "points.csv"}, "begin": "now+1hour"}
    jobs = send(cluster, "later", spec, "--set", "max_parallel=7")
    records = [cluster.job(job) for job in jobs]
    scripts = [cluster.run(["scontrol", "write", "batch_script", str(job), "-"]).stdout for job in jobs]
    cluster.run(["scancel", *map(str, jobs)])
    assert [record["ArrayTaskId"] for record in records] == ["0-1000%7", "0-1000%7", "0-497%7"]
    # one throttle over all of them: each waits for the one before
    assert [record["Dependency"].split("(")[0] for record in records] == [
        "", f"afterany:{jobs[0]}_*", f"afterany:{jobs[1]}_*",
    ]  # fmt: skip
    for script, first, last in zip(scripts, (0, 1001, 2002), (1000, 2001, 2499), strict=True):
        assert f"\n{first}) point {first} ;;\n" in script
        assert f"\n{last}) point {last} ;;\n*) fail" in script


def test_hostile_values_arrive_byte_for_byte_at_every_rank(cluster, home):
    dump = (
        "import json, os, sys; point, rank = os.environ['SLURMGPU_POINT'], os.environ['SLURM_PROCID']; "
        "json.dump([sys.argv[1:], os.environ['SWEEP_A_B'], os.environ['SWEEP_C']], "
        "open(f'ran-{point}-{rank}.txt', 'w'))"
    )
    points = [{"a.b": value, "c": f"{number}"} for number, value in enumerate(HOSTILE)]
    spec = SMALL | {"command": ["python3", "-c", dump, "<{a.b}>", "{c}"], "launcher": "srun", "ntasks_per_node": 2}
    (job,) = send(cluster, "hostile", spec | {"sweep": points})
    cluster.wait(job)
    for number, value in enumerate(HOSTILE):
        for rank in (0, 1):
            seen = json.loads((home / f"ran-{number}-{rank}.txt").read_text())
            assert seen == [[f"<{value}>", f"{number}"], value, f"{number}"]


def test_the_failed_points_of_all_arrays_run_again_and_no_other(cluster, home):
    command = '[ -e "ok$SWEEP_A" ] || [ $((SWEEP_A % 3)) != 2 ] || exit 5; '
    command += 'echo "$SLURMGPU_POINT $SWEEP_A $SWEEP_B" >>ran.txt'
    sweep = {"a": [str(number) for number in range(8)], "b": ["two words"]}
    spec = SMALL | {"command": command, "sweep": sweep, "output": "logs/%x-%A_%a.out"}
    jobs = send(cluster, "again", spec, "--profile", small_arrays(home, 3))
    assert len(jobs) == 3
    for job in jobs:
        cluster.wait(job)
    assert ran(home) == [f"{number} {number} two words" for number in (0, 1, 3, 4, 6, 7)]

    for number in (2, 5):
        (home / f"ok{number}").touch()
    tried = slurmgpu(cluster, "resubmit", str(jobs[1]), "--dry-run")
    assert tried.stdout.count("--array=2 ") == 2
    assert f"{jobs[0]}.{jobs[0]}.sh  # points 2\n" in tried.stdout
    # whichever job of the sweep is named
    ended = slurmgpu(cluster, "resubmit", str(jobs[2]))
    assert ended.returncode == 0, ended.stderr
    assert f"FAILED: {jobs[0]}_2, {jobs[1]}_2\n" in ended.stderr
    more = [int(line) for line in ended.stdout.splitlines()]
    assert len(more) == 2
    # what has been sent again is not sent a third time, whether it still runs or has been completed
    third = slurmgpu(cluster, "resubmit", str(jobs[0]))
    assert (third.returncode, third.stdout) == (0, "")
    for job in more:
        cluster.wait(job)
    assert ran(home) == [f"{number} {number} two words" for number in range(8)]
    assert (home / "logs" / f"again-{more[1]}_2.out").read_text() == "slurmgpu: point 5 of 0-7: a=5 b=two\\ words\n"
    for job in (*jobs, *more):
        last = slurmgpu(cluster, "resubmit", str(job))
        assert (last.returncode, last.stdout) == (0, "")
        assert "nothing has failed" in last.stderr
    for number in (2, 5):
        (home / f"ok{number}").unlink()


def test_cancelled_points_run_again_only_when_asked(cluster, home):
    command = '[ -e go ] || [ "$SWEEP_A" != 0 ] || exec sleep 300; echo "$SWEEP_A" >>ran.txt'
    spec = SMALL | {"command": command, "sweep": {"a": ["0", "1", "2", "3"]}, "max_parallel": 1}
    (job,) = send(cluster, "cancel", spec)
    cluster.run(["scancel", f"{job}_2"])  # waiting
    deadline = time.monotonic() + 60
    while True:
        running = slurmgpu(cluster, "resubmit", str(job))
        assert (running.returncode, running.stdout) == (0, "")
        assert "left alone, still in the queue: " in running.stderr
        if f"left alone, cancelled (--cancelled takes them too): {job}_2\n" in running.stderr:
            break
        # slurmctld has forgotten a task that never started, and accounting may still tell of its wait
        assert f"not clear (PENDING by sacct, but slurmctld has forgotten it): {job}_2\n" in running.stderr
        assert time.monotonic() < deadline
    cluster.run(["scancel", f"{job}_0"])  # running or waiting
    cluster.wait(job)
    left = slurmgpu(cluster, "resubmit", str(job))
    assert f"cancelled (--cancelled takes them too): {job}_[0,2]\n" in left.stderr
    assert (left.returncode, left.stdout) == (0, "")
    (home / "go").touch()
    one = slurmgpu(cluster, "resubmit", f"{job}_2", "--cancelled")
    assert one.returncode == 0, one.stderr
    cluster.wait(int(one.stdout))
    assert ran(home) == ["1", "2", "3"]
    rest = slurmgpu(cluster, "resubmit", str(job), "--cancelled")
    assert rest.returncode == 0, rest.stderr
    assert cluster.wait(int(rest.stdout))["ArrayTaskId"] == "0"
    assert ran(home) == ["0", "1", "2", "3"]
    (home / "go").unlink()


@pytest.mark.once
def test_states_come_from_accounting_when_slurmctld_has_forgotten(cluster, home):
    spec = SMALL | {
        "command": '[ "$SWEEP_A" = 1 ] || exit 3; echo "$SWEEP_A" >>ran.txt',
        "sweep": {"a": ["1", "2", "3"]},
    }
    (job,) = send(cluster, "old", spec)
    cluster.wait(job)
    cluster.sacct(job)  # waits until accounting knows the end
    # squeue knows no such job any more
    stand_in = home / "bin" / "squeue"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n")
    stand_in.chmod(0o755)
    env = {"PATH": f"{stand_in.parent}:/usr/local/bin:/usr/bin:/bin"}
    ended = slurmgpu(cluster, "resubmit", str(job), "--dry-run", env=env)
    assert "--array=1-2 " in ended.stdout, ended.stderr
    stand_in.unlink()


def test_a_sweep_is_submitted_from_a_rendered_script_too(cluster, home):
    spec = SMALL | {"command": 'echo "$SWEEP_A" >>ran.txt', "sweep": {"a": ["1", "2"]}, "name": "piped"}
    (home / "piped.yaml").write_text(yaml.safe_dump(spec))
    script = slurmgpu(cluster, "render", "piped.yaml").stdout
    cluster.wait(cluster.sbatch(script))
    assert ran(home) == ["1", "2"]

"""The checkpoint block: what is refused, what the header says, and what the script does when its program ends."""

import shutil
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgpu.errors import InputError
from tests.experiment.test_bytes import HOSTILE, PROPERTY, TEXT
from tests.rendering import FOLDER, Bash, directives, render, text

BASE = {"command": "train.py", "time": "1h", "checkpoint": {}}
# the program's parent is the job script: what srun and bash execute keeps its process id
WARN = "kill -USR1 $PPID; /bin/sleep 0.5; "


def problems(spec):
    with pytest.raises(InputError) as refused:
        render(BASE | spec)
    return [str(problem) for problem in refused.value.problems]


class Job(Bash):
    """A job with the block and a program of shell lines, and what scontrol was told."""

    def start(self, program, *, restarts=0, launcher="srun", block=None, spec=None, **variables):
        (self.folder / "scontrol").write_text(
            '#!/bin/sh\n[ "$1" != show ] || exec echo n1\necho "$@" >>"$DUMP_TO.scontrol"\n'
            'fails=$(cat "$DUMP_TO-fails") && [ "$fails" -gt 0 ] && echo $((fails - 1)) >"$DUMP_TO-fails" && exit 1\n'
            "exit 0\n"
        )
        (self.folder / "program").write_text(f"#!/bin/sh\n{program}\n")
        (self.folder / "program").chmod(0o755)
        made = {"command": "program", "launcher": launcher, "time": "1h"} | (spec or {})
        if launcher == "shell":
            made["command"] = program
        made["checkpoint"] = {"folder": str(self.folder / "flags")} | (block or {})
        if restarts:
            variables["SLURM_RESTART_COUNT"] = str(restarts)
        variables.setdefault("SLURM_JOB_END_TIME", str(int(time.time()) + 3600))
        return self.run(text(made), **variables)

    @property
    def told(self):
        path = self.folder / "out.scontrol"
        return path.read_text().splitlines() if path.exists() else []

    def left(self):
        return list((self.folder / "flags").iterdir())


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def test_the_header_asks_for_the_warning_a_requeue_and_one_log():
    found = directives(BASE)
    assert (found["signal"], found["open-mode"]) == ("B:USR1@300", "append")
    assert "requeue" in found
    assert "no-requeue" not in found
    found = directives(BASE | {"checkpoint": {"signal": "SIGUSR2", "lead_time": "90s"}, "requeue": "expedite"})
    assert (found["signal"], found["requeue"]) == ("B:USR2@90", "expedite")


@pytest.mark.parametrize(
    ("spec", "place", "words"),
    [
        ({"checkpoint": {"lead_time": "1h"}}, "lead_time", "`time` is 3600 s"),
        ({"checkpoint": {}, "time": "5m"}, "checkpoint", "300 s"),
        ({"checkpoint": {"lead_time": "1-00"}, "time": "2-00"}, "lead_time", "18:12:15"),
        ({"checkpoint": {"lead_time": "UNLIMITED"}}, "lead_time", "18:12:15"),
        ({"checkpoint": {"lead_time": "soon"}}, "lead_time", "is not a time"),
        ({"checkpoint": {"signal": "TERM"}}, "signal", "USR1 or USR2"),
        ({"checkpoint": {"max_restarts": "-1"}}, "max_restarts", "out of range"),
        ({"checkpoint": {"resume_arg": "x"}}, "", "did you mean 'resume_args'"),
        ({"checkpoint": {"resume_args": "--resume | x"}}, "resume_args", "shell syntax"),
        ({"checkpoint": {"resume_args": {"a": "b"}}}, "resume_args", "must be one value"),
        ({"checkpoint": True}, "checkpoint", "must be a mapping"),
        ({"requeue": False}, "requeue", "remove one of them"),
        ({"open_mode": "truncate"}, "open_mode", "the log of the start before"),
        ({"signal": "B:USR2@60"}, "signal", "checkpoint: {signal: USR1}"),
        ({"sbatch": {"signal": "B:USR2@60"}}, "sbatch.signal", "checkpoint: {signal: USR1}"),
        (
            {"launcher": "shell", "checkpoint": {"resume_args": ["--resume"]}},
            "checkpoint.resume_args",
            "$SLURM_RESTART_COUNT",
        ),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(spec, place, words):
    found = [line for line in problems(spec) if words in line]
    assert len(found) == 1
    assert place in found[0]


def test_a_time_limit_that_slurm_does_not_know_yet_is_no_fault():
    assert directives({"command": "x", "checkpoint": {}})["signal"] == "B:USR1@300"
    assert directives(BASE | {"time": "UNLIMITED"})["signal"] == "B:USR1@300"


@pytest.mark.parametrize(
    ("spec", "folder"),
    [
        ({}, FOLDER),
        ({"output": "logs/%j.out"}, f"{FOLDER}/logs"),
        ({"output": "logs/%A/%j.out"}, FOLDER),
        ({"checkpoint": {"folder": "~/a b"}}, "/home/alice/a b"),
        ({"checkpoint": {"folder": "flags"}, "chdir": "/data"}, "/data/flags"),
    ],
)
def test_flag_files_stand_beside_the_log_or_where_the_spec_says(spec, folder):
    script = text(BASE | spec)
    assert f"ckpt_flags='{folder}/.slurmgpu-'$ckpt_task\n" in script or (
        " " not in folder and f"ckpt_flags={folder}/.slurmgpu-$ckpt_task\n" in script
    )


def test_a_container_sees_the_flags():
    spec = BASE | {"container": {"image": "x:1", "runtime": "docker"}, "checkpoint": {"folder": "/flags"}}
    assert "--volume=/flags:/flags" in text(spec)


@pytest.mark.parametrize("launcher", ["srun", "python", "shell"])
@pytest.mark.parametrize(
    ("program", "restarts", "requeued", "code"),
    [
        ("exit 0", 0, False, 0),
        ("exit 3", 0, False, 3),
        ('>"$SLURMGPU_STOP_FILE"', 0, True, 0),
        ('>"$SLURMGPU_STOP_FILE"', 9, True, 0),
        ('>"$SLURMGPU_STOP_FILE"', 10, False, 1),
        ('>"$SLURMGPU_STOP_FILE"; exit 3', 0, False, 3),
        ('>"$SLURMGPU_STOP_FILE"; >"$SLURMGPU_FINISHED_FILE"', 0, False, 0),
        ('>"$SLURMGPU_STOP_FILE"; >"$SLURMGPU_FINISHED_FILE"', 10, False, 0),
        (">ran", 11, False, 1),
    ],
)
def test_who_is_started_again(job, launcher, program, restarts, requeued, code):
    ended = job.start(program, restarts=restarts, launcher=launcher)
    assert ended.returncode == code, ended.stderr
    assert job.told == (["requeue 1234"] if requeued else [])
    assert ("checkpoint.max_restarts is 10" in ended.stderr) == (restarts >= 10 and code == 1)
    assert not (job.folder / "ran").exists()
    assert not job.folder.joinpath("flags").exists() or job.left() == []


@pytest.mark.parametrize("ignored", ["trap '' USR1; ", "trap 'echo told' USR1; "])
def test_a_warning_sets_the_flag_at_once_and_reaches_a_program_of_srun(job, ignored):
    loop = 'for i in 1 2 3 4 5 6; do [ ! -e "$SLURMGPU_STOP_FILE" ] || exit 0; /bin/sleep 0.2; done; exit 9'
    ended = job.start(ignored + WARN + loop)
    assert ended.returncode == 0, ended.stderr
    assert job.told == ["requeue 1234"]
    assert ("told" in ended.stdout) == ("told" in ignored)
    assert ended.stderr.count("slurmgpu: USR1 at ") == 1


def test_a_warning_does_not_reach_torchrun_which_would_die_of_it(job):
    # the stand-in runs `dump` for the ranks
    (job.folder / "dump").write_text(
        "#!/bin/sh\n: >started\nfor i in 1 2 3 4 5 6 7 8 9; do\n"
        '[ ! -e "$SLURMGPU_STOP_FILE" ] || exit 0; /bin/sleep 0.2; done; exit 9\n'
    )
    (job.folder / "setup.sh").write_text('(until [ -e started ]; do /bin/sleep 0.1; done; kill -USR1 "$1") &\n')
    spec = {"gpus_per_node": 1, "setup": "bash setup.sh $$"}
    ended = job.start("", launcher="torchrun", spec=spec, SLURM_GPUS_ON_NODE="1")
    assert ended.returncode == 0, ended.stderr
    assert job.told == ["requeue 1234"]
    assert "SLURMGPU_SIGNAL" not in text(BASE | spec | {"launcher": "torchrun"})


@pytest.mark.parametrize(("runtime", "reaches_it"), [("pyxis", True), ("docker", False), ("apptainer", False)])
def test_a_signal_is_relayed_where_srun_starts_the_program_itself(runtime, reaches_it):
    image = {"image": "x:1", "runtime": runtime}
    script = text(BASE | {"command": "train.py", "launcher": "srun", "container": image})
    assert ("SLURMGPU_SIGNAL=USR1" in script) == reaches_it
    assert ('kill -USR1 "$ckpt_child"' in script) == reaches_it


def test_what_has_nothing_to_do_with_the_exit_code_of_a_failing_program(job):
    ended = job.start("trap '' USR1; " + WARN + "exit 7")
    assert (ended.returncode, job.told) == (7, [])


@pytest.mark.parametrize("program", ["trap 'exit 0' TERM; ", "trap 'exit 9' TERM; ", ""])
def test_scancel_is_not_requeued_even_if_the_program_saves(job, program):
    wait = "i=0; while [ $i -lt 50 ]; do i=$((i+1)); /bin/sleep 0.1; done"
    ended = job.start(program + '>"$SLURMGPU_STOP_FILE"; kill -TERM $PPID; ' + wait)
    assert job.told == []
    assert ended.returncode == (0 if "0" in program else 9 if "9" in program else 143)


@pytest.mark.parametrize("code", [0, 5])
def test_warnings_as_the_program_ends_never_make_up_an_exit_code(job, code):
    """bash now and then loses the code of a child that ends while a trap runs; then the job starts once more."""
    seen = set()
    for _ in range(25):
        ended = job.start(f"trap '' USR1; for i in 1 2 3 4 5 6 7 8 9; do kill -USR1 $PPID; done; exit {code}")
        seen.add((ended.returncode, *job.told))
    assert seen <= {(code,), (0, "requeue 1234")} - ({(0,)} if not code else set())


def test_a_task_of_an_array_is_requeued_alone(job):
    ended = job.start(
        '>"$SLURMGPU_STOP_FILE"', SLURM_ARRAY_JOB_ID="1234", SLURM_ARRAY_TASK_ID="7", spec={"array": "1-9"}
    )
    assert ended.returncode == 0, ended.stderr
    assert job.told == ["requeue 1234_7"]


def test_flags_of_an_earlier_start_stop_nobody(job):
    for start in (0, 1, 2):
        folder = job.folder / "flags" / f".slurmgpu-1234.{start}"
        folder.mkdir(parents=True)
        (folder / "stop").touch()
    other = job.folder / "flags" / ".slurmgpu-12345.0"
    other.mkdir()
    ended = job.start('[ ! -e "$SLURMGPU_STOP_FILE" ]', restarts=2)
    assert (ended.returncode, job.told) == (0, []), ended.stderr
    assert job.left() == [other]


def test_a_controller_that_does_not_answer_is_asked_again(job):
    (job.folder / "sleep").write_text('#!/bin/sh\necho "$1" >>"$DUMP_TO.slept"\n')
    (job.folder / "sleep").chmod(0o755)
    (job.folder / "out-fails").write_text("2\n")
    assert job.start('>"$SLURMGPU_STOP_FILE"').returncode == 0
    assert job.told == ["requeue 1234"] * 3
    assert (job.folder / "out.slept").read_text().split() == ["5", "15"]
    (job.folder / "out-fails").write_text("9\n")
    ended = job.start('>"$SLURMGPU_STOP_FILE"')
    assert (ended.returncode, len(job.told)) == (1, 4)
    assert "slurmgpu: saved, but scontrol cannot requeue 1234; submit the job again" in ended.stderr


def test_a_folder_that_cannot_be_used_is_said_at_the_start(job):
    (job.folder / "flags").touch()
    ended = job.start(">ran")
    assert ended.returncode == 1
    assert "slurmgpu: n1 cannot write to " in ended.stderr
    assert "checkpoint.folder" in ended.stderr
    assert not (job.folder / "ran").exists()


def test_a_node_that_does_not_see_the_folder_says_so(job):
    (job.folder / "srun").write_text((job.folder / "srun").read_text().replace("exec", "rm -r flags; exec"))
    ended = job.start(">ran")
    assert ended.returncode == 1
    assert "slurmgpu: n1: does not see " in ended.stderr
    assert not (job.folder / "ran").exists()


def test_the_end_time_is_asked_for_where_slurm_does_not_tell_it(job):
    (job.folder / "squeue").write_text(
        '#!/bin/sh\necho "$@" >"$DUMP_TO.squeue"\n[ "$SLURM_TIME_FORMAT" = %s ] && echo 99\n'
    )
    (job.folder / "squeue").chmod(0o755)
    ended = job.start("echo end=$SLURM_JOB_END_TIME lead=$SLURMGPU_LEAD_TIME_S", SLURM_JOB_END_TIME="")
    assert "end=99 lead=300\n" in ended.stdout
    assert "--jobs=1234 " in (job.folder / "out.squeue").read_text()


def test_resume_args_come_from_the_second_start_on(job):
    shutil.copy(job.folder / "dump", job.folder / "dump2")
    spec = {"command": "dump2 a"}
    for restarts, words in ((0, ["a"]), (1, ["a", "--resume", "last.pt"]), (2, ["a", "--resume", "last.pt"])):
        ended = job.start("", restarts=restarts, block={"resume_args": "--resume last.pt"}, spec=spec)
        assert ended.returncode == 0, ended.stderr
        assert job.argv == words


@PROPERTY
@given(st.lists(TEXT, min_size=1, max_size=4))
def test_resume_args_arrive_byte_for_byte(tmp_path_factory, words):
    job = Job(tmp_path_factory.mktemp("job"))
    ended = job.start("", restarts=1, block={"resume_args": words}, spec={"command": ["dump", "x"]})
    assert ended.returncode == 0, ended.stderr
    assert job.argv == ["x", *words]


def test_hostile_resume_args_behind_a_sweep_s(job):
    spec = {"command": ["dump"], "sweep": {"lr": ["1e-3"]}}
    ended = job.start("", restarts=1, block={"resume_args": HOSTILE}, spec=spec, SLURM_ARRAY_TASK_ID="0")
    assert ended.returncode == 0, ended.stderr
    assert job.argv == ["--lr=1e-3", *HOSTILE]


def test_resume_args_hold_the_parameters_of_the_point(job):
    spec = {"command": ["dump", "--save={lr}.pt"], "sweep": {"lr": ["1e-3", "a b'$x"]}}
    block = {"resume_args": ["--resume", "{lr}.pt", "{seed}"]}
    ended = job.start("", restarts=1, block=block, spec=spec, SLURM_ARRAY_TASK_ID="1")
    assert ended.returncode == 0, ended.stderr
    assert job.argv == ["--save=a b'$x.pt", "--resume", "a b'$x.pt", "{seed}"]


def test_a_script_without_the_block_is_as_it_was():
    script = text({"command": "train.py", "time": "1h"})
    assert "ckpt_" not in script
    assert "\nexec srun " in script

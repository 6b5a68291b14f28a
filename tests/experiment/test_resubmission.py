"""States, plans, records and calls of sbatch, with executables on PATH in Slurm's place where one is needed."""

import json
import os
import stat
import time

import pytest

from slurmgpu.errors import InputError, RefusedError, UnavailableError
from slurmgpu.experiment import history as histories
from slurmgpu.experiment import jobstates, resubmission, submission
from slurmgpu.experiment.environment import for_submission
from slurmgpu.experiment.header import read_header
from slurmgpu.experiment.history import Entry, History
from slurmgpu.experiment.jobstates import States
from slurmgpu.experiment.submission import Call
from tests.rendering import render

SCRIPT = "#!/bin/bash\n#SBATCH --array=0-9%2\ntrue\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes an executable that stands in for one of Slurm's commands."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def write(name, text):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    write("squeue", "true")
    write("sacct", "true")
    return write


@pytest.fixture
def history(tmp_path):
    return History({"XDG_STATE_HOME": str(tmp_path / "state")}, "testbed")


# --- states


def test_squeue_wins_over_sacct(program):
    program("squeue", "echo '12|0|RUNNING'; echo '12|3|PENDING'; echo '13|N/A|COMPLETED'")
    program("sacct", r"printf '12_0\037PENDING\n12_1\037CANCELLED by 1000\n12_[2-4%%2]\037PENDING\n13\037RUNNING\n'")
    known = jobstates.ask([12, 13])
    assert known.states == {
        (12, 0): "RUNNING", (12, 1): "CANCELLED", (12, 2): "PENDING", (12, 3): "PENDING", (12, 4): "PENDING",
        (13, None): "COMPLETED",
    }  # fmt: skip
    assert known.queued == {(12, 0), (12, 3), (13, None)}
    assert known.no_accounting is None


def test_tasks_with_a_step_and_the_parts_of_a_het_job(program):
    program("sacct", r"printf '12_[0-6:3,9]\037PENDING\n14+0\037FAILED\n14+1\037COMPLETED\n'")
    assert sorted(jobstates.ask([12, 14]).states.items()) == [
        ((12, 0), "PENDING"), ((12, 3), "PENDING"), ((12, 6), "PENDING"), ((12, 9), "PENDING"),
        ((14, None), "FAILED"),
    ]  # fmt: skip


def test_squeue_has_forgotten_the_job(program):
    program("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    program("sacct", r"printf '12\037FAILED\n'")
    assert jobstates.ask([12]) == States({(12, None): "FAILED"}, frozenset())


def test_without_accounting_squeue_alone_answers(program):
    program("squeue", "echo '12|N/A|FAILED'")
    program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    known = jobstates.ask([12])
    assert known.states == {(12, None): "FAILED"}
    assert known.no_accounting == "sacct: Slurm accounting storage is disabled"


def test_the_cluster_is_handed_on(program, tmp_path):
    program("squeue", f'echo "$@" >{tmp_path}/squeue; echo "CLUSTER: far"; echo "12|N/A|FAILED"')
    program("sacct", f'echo "$@ $SLURM_BITSTR_LEN" >{tmp_path}/sacct')
    assert jobstates.ask([12, 15], "far").states == {(12, None): "FAILED"}
    assert "--jobs=12,15" in (tmp_path / "squeue").read_text()
    assert "--clusters=far" in (tmp_path / "squeue").read_text()
    assert (tmp_path / "sacct").read_text().endswith("--clusters=far 0\n")


GARBAGE = {
    "squeue says no": (
        "squeue",
        "echo 'slurm_load_jobs error: Unable to contact' >&2; exit 1",
        "squeue: .*Unable to",
    ),
    "squeue fails without a word": ("squeue", "exit 1", "squeue: failed without a word"),
    "squeue writes words": ("squeue", "echo hello", "squeue wrote a line that cannot be read: 'hello'"),
    "squeue writes a cut line": ("squeue", "printf '12|0|'", "squeue wrote a line that cannot be read"),
    "squeue writes a huge range": ("squeue", "echo '12|0-99999999|PENDING'", "tasks of job 12 that cannot be read"),
    "squeue hangs": ("squeue", "sleep 100", "`squeue --noheader --array` did not answer"),
    "sacct writes words": ("sacct", "echo hello", "sacct wrote a line that cannot be read: 'hello'"),
    "sacct writes bytes": ("sacct", r"printf '\377\376\037X\n'", "sacct wrote a line that cannot be read"),
    "sacct writes a cut line": ("sacct", "printf '12_[0-'", "sacct wrote a line that cannot be read"),
    "sacct writes a cut list": (
        "sacct",
        r"printf '12_[0,3,...]\037PENDING\n'",
        "tasks of job 12 that cannot be read",
    ),
    "sacct has no state": ("sacct", r"printf '12\037\n'", "sacct wrote a line that cannot be read"),
    "sacct hangs": ("sacct", "sleep 100", "`sacct -X -P` did not answer"),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_what_cannot_be_read_is_an_error_and_no_state(program, monkeypatch, name):
    command, text, said = GARBAGE[name]
    program(command, text)
    monkeypatch.setenv("SLURMGPU_TIMEOUT_S", "1")
    with pytest.raises(UnavailableError, match=said):
        jobstates.ask([12])


def test_a_missing_command_is_named(program, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    (tmp_path / "bin" / "sacct").unlink()
    with pytest.raises(UnavailableError, match="no sacct on PATH"):
        jobstates.ask([12])


# --- plans


def entry(job, tasks=None, **more):
    return Entry(job, more.pop("first", 12), more.pop("script", f"12.{job}.sh"), tasks, **more)


def names(found):
    return {field: resubmission.names(getattr(found, field)) for field in found._fields if getattr(found, field)}


def test_every_state_has_its_place():
    states = {
        **{(12, number): state for number, state in enumerate(sorted(jobstates.FAILED))},
        (12, 20): "COMPLETED", (12, 21): "CANCELLED", (12, 22): "RUNNING", (12, 23): "REQUEUE_HOLD",
        (12, 24): "COMPLETING", (12, 25): "RUNNING",
    }  # fmt: skip
    known = States(states, frozenset({(12, 22), (12, 23), (12, 24)}))
    found = resubmission.plan([entry(12, "0-8,20-26")], known, with_cancelled=False)
    assert names(found) == {
        "again": "12_[0-8]", "done": "12_20", "cancelled": "12_[21,26]", "live": "12_[22-24]", "unclear": "12_25",
    }  # fmt: skip
    assert [run.state for run in found.cancelled] == ["CANCELLED", "NEVER RAN"]
    found = resubmission.plan([entry(12, "0-8,20-26")], known, with_cancelled=True)
    assert names(found)["again"] == "12_[0-8,21,26]"


def test_the_last_run_of_a_point_counts():
    entries = [
        entry(12, "0-2"), entry(13, "0-1", offset=3), entry(20, "1-2", script="12.12.sh"),
        entry(21, "0", offset=3, script="12.13.sh"), entry(22, "2", script="12.12.sh"),
    ]  # fmt: skip
    states = {(12, 0): "COMPLETED", (12, 1): "FAILED", (12, 2): "FAILED", (13, 0): "FAILED", (13, 1): "FAILED",
              (20, 1): "COMPLETED", (20, 2): "TIMEOUT", (21, 0): "RUNNING", (22, 2): "FAILED"}  # fmt: skip
    found = resubmission.plan(entries, States(states, frozenset({(21, 0)})), with_cancelled=False)
    assert names(found) == {"again": "22_2, 13_1", "done": "12_0, 20_1", "live": "21_0"}
    assert names(resubmission.only(found, 4)) == {"again": "13_1"}


@pytest.mark.parametrize("no_accounting", [None, "sacct: down"])
def test_an_unknown_job_is_an_error(no_accounting):
    known = States({(13, 0): "FAILED"} if no_accounting else {}, frozenset(), no_accounting)
    with pytest.raises(UnavailableError, match="slurmctld has forgotten job 12, and sacct"):
        resubmission.plan([entry(12, "0-1")], known, with_cancelled=True)


def runs(entry, tasks):
    return [resubmission.Run(entry, task, "FAILED") for task in tasks]


def test_calls_name_the_points_and_keep_the_throttle():
    one, two = entry(12, "0-9", throttle=2), entry(13, "0-9", throttle=2, offset=10)
    calls = resubmission.calls_for([*runs(one, [3, 5, 6, 7]), *runs(two, [0])], lambda entry: SCRIPT)
    assert [call.argv("12") for call in calls] == [
        ["sbatch", "--parsable", "--array=3,5-7%2"],
        ["sbatch", "--parsable", "--array=0%2", "--dependency=afterany:12"],
    ]
    assert [call.what for call in calls] == ["points 3,5-7", "points 10"]
    assert [call.entry.tasks for call in calls] == ["3,5-7", "0"]


def test_calls_drop_a_dependency_of_then_and_name_a_folder():
    script = "#!/bin/bash\n#SBATCH --dependency=afterok:5 --array=0-3%1\n"
    one, two = entry(12, "0-3", chdir="/data/a b"), entry(13, "0-3", throttle=1)
    assert resubmission.calls_for(runs(one, [1]), lambda entry: script)[0].argv("9") == [
        "sbatch", "--parsable", "--array=1", "--dependency=", "--chdir=/data/a b",
    ]  # fmt: skip
    chained = resubmission.calls_for(
        [*runs(entry(12, "0-3", throttle=1), [1]), *runs(two, [1])], lambda entry: script
    )
    assert chained[1].argv("9") == ["sbatch", "--parsable", "--array=1%1", "--dependency=afterany:9"]


def test_long_lists_are_cut_where_slurmctld_would_refuse_them():
    scattered = list(range(0, 9000, 2))
    calls = resubmission.calls_for(runs(entry(12, "0-9000"), scattered), lambda entry: SCRIPT)
    assert len(calls) > 4
    texts = [call.entry.tasks for call in calls]
    assert all(len(text) <= 4000 for text in texts)
    assert ",".join(texts) == ",".join(map(str, scattered))


def test_a_job_without_an_array_runs_again_as_it_is():
    found = resubmission.plan([entry(12)], States({(12, None): "TIMEOUT"}, frozenset({(12, None)})), False)
    (call,) = resubmission.calls_for(found.again, lambda entry: "#!/bin/bash\ntrue\n")
    assert call.argv("0") == ["sbatch", "--parsable"]
    assert resubmission.names(found.again) == "12"


def test_a_script_comes_from_slurm_where_there_is_no_record(program):
    program("scontrol", "exit 1")
    program(
        "sacct",
        f"""case "$*" in
*--batch-script*--jobs=12_3*) echo 'Batch Script for 12_3'; echo {"-" * 80}; printf '%s\\n' '{SCRIPT}' ;;
*WorkDir*) echo /data/exp ;;
esac""",
    )
    found, script = resubmission.from_slurm(12, States({(12, 3): "FAILED", (12, 4): "FAILED"}, frozenset()))
    assert script == SCRIPT
    assert (found.tasks, found.throttle, found.chdir) == ("3-4", 2, "/data/exp")


def test_no_script_anywhere(program):
    program("scontrol", "echo 'job script retrieval failed: Access/permission denied' >&2; exit 1")
    program("sacct", "echo 'Batch Script for 12'; echo ---; echo NONE")
    with pytest.raises(InputError, match="job 12: is not in the records .* submit it anew"):
        resubmission.from_slurm(12, States({(12, None): "FAILED"}, frozenset()))


# --- submission


def tasks(spec, *, user="alice", **request):
    script = render({"command": "true"} | spec, **request)
    return submission.calls_of([script], "/x.yaml", user)


@pytest.mark.parametrize(
    ("spec", "folders"),
    [
        ({}, ["/home/alice/exp"]),
        ({"output": "/logs/%x/%u/%%/%j.out"}, ["/logs/job/alice/%"]),
        ({"output": "/logs/%j/x.out"}, []),
        ({"output": "/a/%j.out", "error": "/b/%x/%j.err"}, ["/a", "/b/job"]),
    ],
)
def test_the_folders_of_logs(spec, folders):
    assert list(tasks(spec | {"name": "job"})[0].entry.log_folders) == folders


def made(folders):
    return [Call(SCRIPT, "the job", Entry(0, 0, "", log_folders=tuple(map(str, folders))))]


def test_folders_are_made_with_their_parents(tmp_path):
    wanted = [tmp_path / "a/b", tmp_path]
    missing = submission.missing_folders(made(wanted))
    assert missing == [str(tmp_path / "a/b")]
    submission.make_folders(missing)
    assert (tmp_path / "a/b").is_dir()


@pytest.mark.parametrize("below", ["", "/deeper/still"])
def test_what_is_in_the_way_of_a_folder_is_named(tmp_path, below):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(InputError, match=f"{name}: is in the way of the log folder: it is not a folder"):
            submission.missing_folders(made([f"{tmp_path}/{name}{below}"]))


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="the log folder cannot be made: Not a directory"):
        submission.make_folders([f"{tmp_path}/file/x"])


SAYS = {
    "refused": ("echo 'sbatch: error: invalid partition: x' >&2; exit 1", RefusedError, "invalid partition"),
    "unreachable": (
        "echo 'sbatch: error: Job failed: Unable to contact slurm controller' >&2; exit 1", UnavailableError,
        "sbatch: error: .*Unable to contact",
    ),
    "silent": ("exit 2", RefusedError, "sbatch: exit status 2 without a word"),
    "garbage": ("echo Submitted batch job 5", UnavailableError, "answered 'Submitted batch job 5"),
    "nothing": ("true", UnavailableError, "answered '', which is no job's number"),
    "cut": ("printf '12;'", UnavailableError, "answered '12;'"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAYS)
def test_what_sbatch_says_instead_of_a_number(program, history, name):
    text, kind, said = SAYS[name]
    program("sbatch", text)
    with pytest.raises(kind, match=said) as raised:
        list(submission.send(made([]), dict(os.environ), history))
    assert raised.value.exit_code == (1 if kind is RefusedError else 3)
    assert not os.path.exists(history.folder)


def test_the_script_and_the_environment_reach_sbatch(program, history, tmp_path):
    program("sbatch", f"cat >{tmp_path}/got; env >{tmp_path}/env; echo '12;far'")
    ((sent, note),) = list(submission.send(made(["/logs"]), {"PATH": os.environ["PATH"], "TOKEN": "t"}, history))
    assert note is None
    assert (sent.job, sent.first, sent.cluster, sent.script) == (12, 12, "far", "12.12.sh")
    assert (tmp_path / "got").read_text() == SCRIPT
    assert "TOKEN=t\n" in (tmp_path / "env").read_text()
    assert history.submission(12) == [sent]
    assert history.script(sent) == SCRIPT


def test_a_dependency_with_a_question_mark_cannot_be_chained(tmp_path):
    profile = tmp_path / "site.toml"
    profile.write_text("max_array_size = 2\n")
    spec = {"command": "x", "sweep": {"a": ["1", "2", "3"]}, "max_parallel": 1, "dependency": "afterok:1?afterok:2"}
    scripts = [render(spec, profile=str(profile), part=part) for part in (1, 2)]
    with pytest.raises(InputError, match=r"`dependency` with \? cannot stand beside `max_parallel`"):
        submission.calls_of(scripts, "/x.yaml", "alice")
    spec["dependency"] = "afterok:1"
    scripts = [render(spec, profile=str(profile), part=part) for part in (1, 2)]
    first, second = submission.calls_of(scripts, "/x.yaml", "alice")
    assert first.argv("7") == ["sbatch", "--parsable"]
    assert second.argv("7") == ["sbatch", "--parsable", "--dependency=afterok:1,afterany:7"]
    assert [line for line in read_header(second.script) if "--array=0-0%1" in line.arguments]


# --- the environment


def test_what_belongs_to_slurm_is_not_handed_on():
    environ = {"SLURM_CONF": "/x", "SLURM_JWT": "j", "SBATCH_QOS": "x", "PMIX_RANK": "0", "PMI_FD": "1",
               "PATH": "/bin", "SRUN_CPUS_PER_TASK": "1", "SLURM_CPU_BIND": "m", "SLURMD_NODENAME": "n1",
               "WANDB_API_KEY": "k",
               "RANK": "0", "CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "4", "SLURMGPU_STORE": "s"}  # fmt: skip
    kept, notes = for_submission(environ)
    assert set(kept) == {"SLURM_CONF", "SLURM_JWT", "PATH", "WANDB_API_KEY", "RANK", "CUDA_VISIBLE_DEVICES",
                         "OMP_NUM_THREADS", "SLURMGPU_STORE"}  # fmt: skip
    assert notes == ["not handed on to sbatch, the spec decides: SBATCH_QOS"]
    kept, notes = for_submission(environ | {"SLURM_JOB_ID": "7", "SWEEP_LR": "1", "TORCHELASTIC_RUN_ID": "x"})
    assert set(kept) == {"SLURM_CONF", "SLURM_JWT", "PATH", "WANDB_API_KEY", "SLURMGPU_STORE"}
    assert notes[0] == "submitted from inside job 7: its SLURM_* variables are not handed on"


# --- records


def test_a_record_is_private_and_comes_back_as_it_was(history):
    script = "#!/bin/bash\r\n# \udcff ünï\n"
    one = entry(12, "0-3", time_s=2.0, log_folders=("/a", "/b"), throttle=2, size=7, spec="/x.yaml", first=12)
    two = entry(13, "0-2", time_s=1.0, script="12.12.sh")
    history.save(one._replace(script="12.12.sh"), script)
    history.save(two, None)
    found = history.submission(13)
    assert [found[0].job, found[1].job] == [13, 12]
    assert found[1]._replace(log_folders=tuple(found[1].log_folders)) == one._replace(script="12.12.sh")
    assert history.submission(12) == found
    assert history.submission(14) == []
    assert history.script(found[0]) == script
    for name in os.listdir(history.folder):
        assert stat.S_IMODE(os.stat(os.path.join(history.folder, name)).st_mode) == 0o600
    for folder in (history.folder, os.path.dirname(history.folder)):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_a_number_that_is_used_again_forgets_the_old_job(history):
    history.save(entry(12, "0-3"), SCRIPT)
    history.save(entry(13, "0-3"), SCRIPT)
    history.save(entry(13, first=13, script="13.13.sh"), SCRIPT)
    assert [one.job for one in history.submission(12)] == [12]
    assert [one.first for one in history.submission(13)] == [13]
    history.save(entry(12, first=12, script="12.12.sh"), SCRIPT)
    assert [one.tasks for one in history.submission(12)] == [None]


def test_old_and_surplus_records_are_removed(history, monkeypatch):
    monkeypatch.setattr(histories, "MAX_SUBMISSIONS", 3)
    for number in range(10, 16):
        history.save(entry(number, first=number, script=f"{number}.{number}.sh"), SCRIPT)
        os.utime(os.path.join(history.folder, f"{number}.{number}.json"), (time.time() - 100 + number,) * 2)
    assert [number for number in range(10, 16) if history.submission(number)] == [13, 14, 15]
    os.utime(os.path.join(history.folder, "14.14.json"), (time.time() - histories.MAX_AGE_S - 1,) * 2)
    history.save(entry(15, first=15, script="15.15.sh"), SCRIPT)
    assert sorted(os.listdir(history.folder)) == ["13.13.json", "13.13.sh", "15.15.json", "15.15.sh"]


def test_a_folder_that_others_may_write_to_is_not_trusted(history):
    history.save(entry(12), SCRIPT)
    os.chmod(history.folder, 0o777)
    with pytest.raises(UnavailableError, match="can be written by, others; chmod 700 it"):
        history.submission(12)
    with pytest.raises(UnavailableError, match="chmod 700"):
        history.save(entry(13), None)


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"job": 1', "\xff", '{"job": 1, "first": 1, "script": "x", "y": 1}']
)
def test_a_damaged_record_is_named(history, content):
    history.save(entry(12), SCRIPT)
    path = os.path.join(history.folder, "12.12.json")
    with open(path, "w", encoding="latin-1") as file:
        file.write(content)
    with pytest.raises(InputError, match="12.12.json: is no record of a job"):
        history.submission(12)


def test_a_script_cannot_be_read_from_elsewhere(history, tmp_path):
    (tmp_path / "evil.sh").write_text("evil")
    history.save(entry(12), SCRIPT)
    with pytest.raises(InputError, match="No such file"):
        history.script(entry(12, script=str(tmp_path / "evil.sh")))


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"XDG_STATE_HOME": "relative"}])
def test_without_a_state_folder_a_note_is_all(program, environ):
    program("sbatch", "echo 12")
    history = History(environ, "testbed")
    ((sent, note),) = list(submission.send(made([]), dict(os.environ), history))
    assert sent.job == 12
    assert note.startswith("`slurmgpu resubmit 12` will not know this job: neither XDG_STATE_HOME nor HOME")
    assert history.submission(12) == []
    with history.locked():
        pass


def test_a_state_folder_that_cannot_be_made_costs_a_note(program, tmp_path):
    program("sbatch", "echo 12")
    (tmp_path / "state").touch()
    history = History({"XDG_STATE_HOME": str(tmp_path / "state")}, "testbed")
    ((_, note),) = list(submission.send(made([]), dict(os.environ), history))
    assert "will not know this job" in note


@pytest.mark.parametrize("name", ["..", "../..", "a/b", "", "."])
def test_a_cluster_name_leads_nowhere_else(tmp_path, name):
    folder = History({"XDG_STATE_HOME": str(tmp_path)}, name).folder
    assert os.path.dirname(os.path.normpath(folder)) == f"{tmp_path}/slurmgpu/jobs"


def test_two_at_once_are_refused(history):
    said = "another `slurmgpu resubmit` is at work"
    with history.locked(), pytest.raises(UnavailableError, match=said), history.locked():
        pass


def test_records_are_json_with_the_documented_names(history):
    history.save(entry(12, "0-3"), SCRIPT)
    with open(os.path.join(history.folder, "12.12.json")) as file:
        assert list(json.load(file)) == list(Entry._fields)

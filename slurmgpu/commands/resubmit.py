"""`slurmgpu resubmit`."""

import os
import re

import click

from slurmgpu.commands.output import say, write
from slurmgpu.commands.sending import send
from slurmgpu.errors import InputError, Place, Problem, UnavailableError
from slurmgpu.experiment import jobstates, resubmission, slurm, submission
from slurmgpu.experiment.environment import for_submission
from slurmgpu.experiment.history import Entry, History
from slurmgpu.experiment.resubmission import Plan


@click.command(short_help="Run the failed points of a sweep again.")
@click.argument("job", metavar="JOBID")
@click.option("--cancelled", is_flag=True, help="Also what was cancelled, before or after its start.")
@click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")
def command(job: str, cancelled: bool, dry_run: bool) -> int:
    """Run the failed points of the sweep that JOBID is of again, with the same script and parameters.

    JOBID is any job of the sweep, or 12_7 for one point; of a job that is no array the whole job runs again. Points
    that wait or run are left alone, and so are points that have been completed since.

    \b
    Examples:
      slurmgpu resubmit 12 --dry-run
      slurmgpu resubmit 12
      slurmgpu resubmit 12_7 --cancelled
    """
    match = re.fullmatch(r"(\d{1,10})(?:_(\d{1,7}))?", job, re.ASCII)
    if not match:
        raise InputError([Problem(Place(f"JOBID {job}"), "must be a job's number, such as 12 or 12_7")])
    history = History(os.environ, slurm.cluster_name())
    with history.locked():
        return _resubmit(int(match[1]), int(match[2]) if match[2] else None, cancelled, dry_run, history)


def _resubmit(job: int, task: int | None, cancelled: bool, dry_run: bool, history: History) -> int:
    entries, recovered = _entries(job, history)
    known = jobstates.ask([entry.job for entry in entries], entries[0].cluster)
    plan = resubmission.plan(entries, known, cancelled)
    if task is not None:
        offset = next((entry.offset for entry in entries if entry.job == job), 0)
        plan = resubmission.only(plan, offset + task)
        if not any(plan):
            raise InputError([Problem(Place(f"JOBID {job}_{task}"), "is no task of this job")])
    _say(plan)
    if not plan.again:
        return 0
    calls = resubmission.calls_for(plan.again, lambda entry: recovered or history.script(entry))
    missing = submission.missing_folders(calls)
    environ, notes = for_submission(os.environ)
    for note in notes:
        say(f"note: {note}")
    if dry_run:
        write(submission.describe(calls, missing, history), None)
        return 0
    submission.make_folders(missing)
    if recovered:
        _keep(history, entries[0], recovered)
    send(calls, environ, history, first=entries[0].first)
    return 0


def _entries(job: int, history: History) -> tuple[list[Entry], str]:
    """The jobs of the submission; without a record the job as Slurm knows it, with its script."""
    if entries := history.submission(job):
        return entries, ""
    known = jobstates.ask([job])
    if not known.states:
        why = f" ({known.no_accounting})" if known.no_accounting else ""
        raise InputError([Problem(Place(f"JOBID {job}"), f"neither slurmctld nor sacct knows such a job{why}")])
    # every task of an array has a number of its own too; Slurm tells the array's
    jobs = {number for number, _ in known.states}
    base = job if job in jobs else jobs.pop()
    if base != job:
        if entries := history.submission(base):
            return entries, ""
        known = jobstates.ask([base])
    entry, script = resubmission.from_slurm(base, known)
    say(f"note: job {base} was not sent by `slurmgpu submit`: options of its sbatch command line are not known")
    return [entry], script


def _keep(history: History, entry: Entry, script: str) -> None:
    try:
        history.save(entry, script)
    except UnavailableError as error:
        say(f"note: what runs again is not kept, so that it may be run once more: {error}")


def _say(plan: Plan) -> None:
    if plan.live:
        say(f"left alone, still in the queue: {resubmission.names(plan.live)}")
    if plan.cancelled:
        say(f"left alone, cancelled (--cancelled takes them too): {resubmission.names(plan.cancelled)}")
    if plan.unclear:
        said = f"{plan.unclear[0].state} by sacct, but slurmctld has forgotten it"
        say(f"left alone, not clear ({said}): {resubmission.names(plan.unclear)}")
    if not plan.again:
        say("nothing has failed")
    for state in sorted({run.state for run in plan.again}):
        runs = [run for run in plan.again if run.state == state]
        say(f"{state}: {resubmission.names(runs)}")

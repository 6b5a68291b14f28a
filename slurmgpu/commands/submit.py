"""`slurmgpu submit`."""

import os

import click

from slurmgpu.commands.check import table
from slurmgpu.commands.options import of_cluster, of_spec
from slurmgpu.commands.output import current_folder, read_input, say, write
from slurmgpu.commands.sending import send
from slurmgpu.experiment import command as render
from slurmgpu.experiment import submission, waiting
from slurmgpu.experiment.checklist import Check, Report
from slurmgpu.experiment.cluster import Once, ask
from slurmgpu.experiment.environment import for_submission
from slurmgpu.experiment.facts import WARN
from slurmgpu.experiment.history import Entry, History
from slurmgpu.experiment.render import NO_PROFILE


@click.command(short_help="Check a spec, then submit all of it.")
@click.argument("spec", type=click.Path(allow_dash=True))
@of_spec
@of_cluster
@click.option("--dry-run", is_flag=True, help="Do all but make folders and submit; print what would be done.")
@click.option("--wait", "is_waiting", is_flag=True, help="Wait for the end; exit status 1 if anything fails.")
def command(
    spec: str,
    settings: tuple[str, ...],
    profile: str | None,
    slurm_version: str | None,
    template: str | None,
    source: str | None,
    dry_run: bool,
    is_waiting: bool,
) -> int:
    """Submit SPEC, all arrays of a sweep included, and print the number of each job. `-` reads stdin.

    Renders, checks as `slurmgpu check` does, makes the folders of the logs, and calls sbatch without the SLURM_* and
    SBATCH_* variables of the environment. Nothing is submitted when anything fails before; exit status 1 if a check
    or sbatch says no. A record for `resubmit` is kept in ~/.local/state/slurmgpu/jobs.

    \b
    Examples:
      slurmgpu submit exp.yaml
      slurmgpu submit exp.yaml --set time=2h --dry-run
      slurmgpu submit sweep.yaml --wait && slurmgpu submit report.yaml
    """
    folder = current_folder()
    live = Once(ask(source))  # Slurm works while we read and render
    try:
        request = render.Request(spec, read_input(spec), settings, profile, slurm_version, template)
        scripts = render.render_all(request, folder, os.environ, lambda: live.cluster().max_array_size)
        # the arrays of a sweep differ in their points only
        report = Check(scripts[0].text, spec, folder, os.environ, scripts[0]).report(live)
    finally:
        live.end()
    environ, notes = for_submission(os.environ)
    for note in [*scripts[0].notes, *report.cluster.notes, *_warnings(report), *notes]:
        if note != NO_PROFILE:  # the cluster itself has been asked
            say(f"note: {note}")
    if not report.is_good:
        click.echo(table(report), err=True, nl=False)
        say("nothing is submitted")
        return 1
    calls = submission.calls_of(scripts, spec if spec == "-" else os.path.abspath(spec), report.cluster.user)
    missing = submission.missing_folders(calls)
    history = History(os.environ, report.cluster.name)
    if dry_run:
        write(submission.describe(calls, missing, history), None)
        return 0
    submission.make_folders(missing)
    entries = send(calls, environ, history)
    return _wait(entries) if is_waiting else 0


def _warnings(report: Report) -> list[str]:
    """What the checklist warns of, but for what submit itself sees to."""
    return [
        f"{name}: {finding.message}"
        for name, finding in report.items
        if finding.status == WARN and name not in ("environment", "logs")
    ]


def _wait(entries: list[Entry]) -> int:
    jobs = " ".join(str(entry.job) for entry in entries)
    try:
        failures = waiting.failures(entries, waiting.wait(entries))
    except KeyboardInterrupt:
        say(f"no longer waiting; the job goes on (`scancel {jobs}` ends it)")
        raise
    for line in failures:
        say(line)
    return 1 if failures else 0

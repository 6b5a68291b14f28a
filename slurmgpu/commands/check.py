"""`slurmgpu check`."""

import os

import click

from slurmgpu.commands.options import of_cluster, of_format, of_spec
from slurmgpu.commands.output import coloured, current_folder, read_input, say, write
from slurmgpu.experiment.checklist import Check, Report
from slurmgpu.experiment.cluster import Once, ask
from slurmgpu.experiment.facts import FAIL

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(short_help="Check a spec or script against the cluster.")
@click.argument("spec", metavar="SPEC|SCRIPT", type=click.Path(allow_dash=True))
@of_spec
@of_cluster
@of_format
def command(
    spec: str,
    settings: tuple[str, ...],
    profile: str | None,
    slurm_version: str | None,
    template: str | None,
    source: str | None,
    form: str,
) -> int:
    """Check SPEC, or an sbatch script, against the live cluster; exit status 1 if an item fails. Submits nothing.

    \b
    Examples:
      slurmgpu check exp.yaml
      slurmgpu check exp.yaml --set gpus_per_node=8 --format json
      slurmgpu check job.sh
    """
    live = Once(ask(source))  # Slurm works while we read and render
    try:
        content = read_input(spec)
        folder = current_folder()
        if content.startswith(b"#!"):
            check = Check(content.decode("utf-8", "surrogateescape"), spec, folder, os.environ)
        else:
            from slurmgpu.experiment import command as render
            from slurmgpu.experiment.render import NO_PROFILE

            request = render.Request(spec, content, settings, profile, slurm_version, template)
            # the arrays of a long sweep differ in their points only
            script = render.render_all(request, folder, os.environ, lambda: live.cluster().max_array_size)[0]
            for note in script.notes:
                if note != NO_PROFILE:  # the cluster itself is asked here
                    say(f"note: {note}")
            check = Check(script.text, spec, folder, os.environ, script)
        report = check.report(live)
    finally:
        live.end()
    for note in report.cluster.notes:
        say(f"note: {note}")
    write(_as_json(report) if form == "json" else table(report), None)
    return 0 if report.is_good else 1


def table(report: Report) -> str:
    """The checklist as a person reads it."""
    cluster = report.cluster
    version = f"{cluster.version[0]}.{cluster.version[1]:02}"
    lines = [f"{report.source} on cluster {cluster.name} (Slurm {version}, told by {cluster.source})"]
    for name, finding in report.items:
        word = finding.status.upper() if finding.status == FAIL else finding.status
        place = f" ({finding.place})" if finding.place and finding.status != "ok" else ""
        status = coloured(f"{word:<5}", _COLOURS.get(finding.status))
        lines.append(f"  {status} {name:<12} {finding.message}{place}")
    failed = sum(item.finding.status == FAIL for item in report.items)
    lines.append(f"{failed} of {len(report.items)} checks fail" if failed else "no check fails")
    return "\n".join(lines) + "\n"


def _as_json(report: Report) -> str:
    import json

    checks = [
        {
            "check": name,
            "status": finding.status,
            "message": finding.message,
            "place": str(finding.place) if finding.place else None,
        }
        for name, finding in report.items
    ]
    cluster = {"name": report.cluster.name, "version": "{}.{:02}".format(*report.cluster.version)}
    answer = {"source": report.source, "good": report.is_good, "cluster": cluster, "checks": checks}
    return json.dumps(answer, indent=2) + "\n"

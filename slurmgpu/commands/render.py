"""`slurmgpu render`."""

import os
import sys

import click

from slurmgpu.commands.options import of_spec
from slurmgpu.commands.output import current_folder, say, write


@click.command(short_help="Turn a spec into an sbatch script.")
@click.argument("spec", type=click.Path(allow_dash=True))
@of_spec
@click.option("--explain", is_flag=True, help="Say above each line where it comes from. The script still runs.")
@click.option(
    "--part", type=click.IntRange(min=1), metavar="I", help="Of a sweep that needs several arrays: this one, from 1."
)
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write the script here instead of stdout.")
def command(
    spec: str,
    settings: tuple[str, ...],
    profile: str | None,
    slurm_version: str | None,
    template: str | None,
    explain: bool,
    part: int | None,
    output: str | None,
) -> None:
    """Turn SPEC into an sbatch script on stdout: the whole script or nothing. `-` reads stdin.

    \b
    Examples:
      slurmgpu render exp.yaml | sbatch
      slurmgpu render exp.yaml --set time=2h --set env.SEED=1 --explain
      slurmgpu render exp.yaml --profile h200 --slurm-version 24.11 -o job.sh
    """
    from slurmgpu.experiment import command as render

    content = sys.stdin.buffer.read(render.MAX_BYTES + 1) if spec == "-" else None
    request = render.Request(spec, content, settings, profile, slurm_version, template, explain, part)
    script = render.render(request, current_folder(), os.environ)
    for note in script.notes:
        say(f"note: {note}")
    write(script.text, output)

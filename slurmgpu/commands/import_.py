"""`slurmgpu import`."""

import os

import click

from slurmgpu.commands.output import current_folder, read_input, say, write
from slurmgpu.errors import InputError, Place, Problem


@click.command(short_help="Turn a script written by hand into a spec.")
@click.argument("script", type=click.Path(allow_dash=True))
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write the spec here instead of stdout.")
def command(script: str, output: str | None) -> None:
    """Turn SCRIPT, an sbatch script written by hand, into a spec that renders to an equivalent one.

    What cannot be carried over, or changes, is said on stderr with its line. Commands that are not understood for
    certain stay bash, as the lines of launcher shell.

    \b
    Examples:
      slurmgpu import train.sh -o train.yaml
      slurmgpu import train.sh | slurmgpu render -
    """
    from slurmgpu.experiment import importing

    content = read_input(script)
    if not content.strip():
        raise InputError([Problem(Place(script), "is empty")])
    text = content.decode("utf-8", "surrogateescape")
    imported = importing.read(text, script, current_folder(), os.environ)
    for line, note in imported.notes:
        say(f"{script}:{line}: {note}" if line else f"{script}: {note}")
    write(imported.spec, output)

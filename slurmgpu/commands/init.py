"""`slurmgpu init`."""

import os

import click

from slurmgpu import bundled
from slurmgpu.commands.output import current_folder, say, write
from slurmgpu.errors import InputError, Place, Problem


@click.command(short_help="Write a commented spec to start from.")
@click.argument("file", default="exp.yaml", type=click.Path(allow_dash=True))
def command(file: str) -> None:
    """Write a commented spec to start from, exp.yaml unless FILE says otherwise; `-` is stdout.

    It renders as it stands. A file that is there is left alone.

    \b
    Examples:
      slurmgpu init
      slurmgpu init runs/sft.yaml
      slurmgpu init - | slurmgpu render - | less
    """
    with open(os.path.join(bundled.folder("templates"), "init.yaml"), encoding="utf-8") as source:
        text = source.read()
    if file == "-":
        write(text, None)
        return
    path = os.path.join(current_folder(), file)
    if os.path.lexists(path):
        raise InputError([Problem(Place(file), "is there already; name another file, or remove it")])
    write(text, path)
    say(f"wrote {file}: edit it, then `slurmgpu check {file}` and `slurmgpu submit {file}`")

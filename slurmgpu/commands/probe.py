"""`slurmgpu probe`."""

import os

import click

from slurmgpu.commands.options import of_cluster
from slurmgpu.commands.output import say, write


@click.command(short_help="Learn the cluster's profile.")
@of_cluster
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write the profile here instead of stdout.")
def command(source: str | None, output: str | None) -> None:
    """Learn the cluster profile from the live cluster, so that specs render for it anywhere, offline.

    \b
    Examples:
      slurmgpu probe
      slurmgpu probe -o ~/.config/slurmgpu/profiles/default.toml
      slurmgpu probe --source scontrol -o /etc/slurmgpu/profiles/h200.toml
    """
    from slurmgpu.experiment.cluster import ask
    from slurmgpu.experiment.probe import profile_text

    cluster = ask(source).cluster()
    for note in cluster.notes:
        say(f"note: {note}")
    if output is not None and output != "-":
        output = os.path.expanduser(output)
        _make_folder(os.path.dirname(output))
    write(profile_text(cluster), output)
    with_gpus = sum(bool(node.gpus) for node in cluster.nodes)
    say(f"{cluster.name}: {len(cluster.partitions)} partitions, {len(cluster.nodes)} nodes, {with_gpus} with GPUs")


def _make_folder(folder: str) -> None:
    from slurmgpu.errors import InputError, Place, Problem

    try:
        os.makedirs(folder or ".", exist_ok=True)
    except OSError as error:
        raise InputError([Problem(Place(folder), f"cannot be made: {error.strerror}")]) from None

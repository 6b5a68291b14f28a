"""Options that several commands take in the same words."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def _profile_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from slurmgpu.experiment import profile

    return [name for name in profile.names() if name.startswith(incomplete)]


def of_spec(function: Command) -> Command:
    """--set, --profile, --slurm-version and --template, as `settings`, `profile`, `slurm_version`, `template`."""
    for option in reversed(
        (
            click.option(
                "--set",
                "settings",
                metavar="KEY=VALUE",
                multiple=True,
                help="Set a key of the spec; wins over files. Repeatable.",
            ),
            click.option(
                "--profile",
                metavar="NAME|FILE",
                shell_complete=_profile_names,
                help="The cluster profile to render for.",
            ),
            click.option(
                "--slurm-version",
                metavar="X.Y",
                help="Refuse what this Slurm does not know (default: the profile's).",
            ),
            click.option(
                "--template", type=click.Path(), metavar="FILE", help="A Jinja2 file that extends sbatch.sh.j2."
            ),
        )
    ):
        function = option(function)
    return function


def of_cluster(function: Command) -> Command:
    """--source, as `source`."""
    return click.option(
        "--source",
        type=click.Choice(("scontrol", "pyslurm")),
        help="Whom to ask about the cluster (default: pyslurm where it is installed, else scontrol).",
    )(function)


def of_format(function: Command) -> Command:
    """--format table|json, as `form`."""
    return click.option(
        "--format", "form", type=click.Choice(("table", "json")), default="table", help="How to print the result."
    )(function)

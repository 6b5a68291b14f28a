"""`slurmgpu shell`."""

import os
import sys

import click

from slurmgpu.commands.options import of_spec
from slurmgpu.commands.output import current_folder, read_input, say, write
from slurmgpu.errors import InputError, Place, Problem, UnavailableError

# options that stand for keys of the spec
_KEYS = ("gpus", "gpu_type", "nodes", "cpus_per_gpu", "mem", "time", "partition", "account", "qos")


def _key_options(function: click.decorators.FC) -> click.decorators.FC:
    for key in reversed(_KEYS):
        option = key.replace("_", "-")
        function = click.option(f"--{option}", metavar="VALUE", help=f"The same as --set {key}=VALUE.")(function)
    return function


@click.command()
@click.argument("spec", required=False, type=click.Path(allow_dash=True))
@_key_options
@of_spec
@click.option("--dry-run", is_flag=True, help="Print the srun command line instead of running it.")
def command(
    spec: str | None,
    settings: tuple[str, ...],
    profile: str | None,
    slurm_version: str | None,
    template: str | None,
    dry_run: bool,
    **keys: str | None,
) -> None:
    """Start an interactive shell on a node with the resources and the environment of SPEC, or of the options alone.

    \b
    Examples:
      slurmgpu shell --gpus 1 --time 1h
      slurmgpu shell exp.yaml --set time=30m
      slurmgpu shell --gpus 2 --gpu-type a100 --dry-run
      echo nvidia-smi | slurmgpu shell --gpus 1
    """
    from slurmgpu.experiment import command as render
    from slurmgpu.experiment.checkfiles import without_inherited
    from slurmgpu.experiment.interactive import srun
    from slurmgpu.experiment.shell import sh

    content = read_input(spec) if spec else b"name: shell\ncommand: bash\n"
    asked = (*settings, *(f"{key}={value}" for key, value in keys.items() if value is not None))
    session = render.session(
        render.Request(spec or "options", content, asked, profile, slurm_version, template),
        current_folder(),
        os.environ,
    )
    for note in session.notes:
        say(f"note: {note}")
    argv = srun(session, sys.stdin.isatty())
    if dry_run:
        write(" ".join(map(sh, argv)) + "\n", None)
        return
    sys.stderr.flush()
    try:
        os.execvpe("srun", argv, without_inherited(os.environ))
    except FileNotFoundError:
        raise UnavailableError("no srun on PATH; is this a login node of the cluster?") from None
    except OSError as error:
        raise InputError([Problem(Place("srun"), f"cannot be started: {error.strerror}")]) from None

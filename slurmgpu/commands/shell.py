"""`slurmgpu shell`."""

import os
import sys
from typing import TYPE_CHECKING

import click

from slurmgpu.commands.options import of_spec
from slurmgpu.commands.output import current_folder, read_input, say, write
from slurmgpu.errors import InputError, Place, Problem, UnavailableError

if TYPE_CHECKING:
    from slurmgpu.experiment.render import Script

# options that stand for keys of the spec
_KEYS = ("gpus", "gpu_type", "nodes", "cpus_per_gpu", "mem", "time", "partition", "account", "qos")


def _key_options(function: click.decorators.FC) -> click.decorators.FC:
    for key in reversed(_KEYS):
        option = key.replace("_", "-")
        function = click.option(f"--{option}", metavar="VALUE", help=f"The same as --set {key}=VALUE.")(function)
    return function


@click.command(short_help="Start an interactive shell on a node.")
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
) -> int:
    """Start an interactive shell on a node with the resources and the environment of SPEC, or of the options alone.

    \b
    Examples:
      slurmgpu shell --gpus 1 --time 1h
      slurmgpu shell exp.yaml --set time=30m
      slurmgpu shell --gpus 2 --gpu-type a100 --dry-run
      echo nvidia-smi | slurmgpu shell --gpus 1
    """
    from slurmgpu.experiment import command as render
    from slurmgpu.experiment.environment import for_submission
    from slurmgpu.experiment.interactive import srun
    from slurmgpu.experiment.render import NO_PROFILE
    from slurmgpu.experiment.shell import sh

    content = read_input(spec) if spec else b"name: shell\ncommand: bash\n"
    asked = (*settings, *(f"{key}={value}" for key, value in keys.items() if value is not None))
    session = render.session(
        render.Request(spec or "options", content, asked, profile, slurm_version, template),
        current_folder(),
        os.environ,
    )
    for note in session.script.notes:
        if note != NO_PROFILE:
            say(f"note: {note}")
    argv = srun(session, sys.stdin.isatty())
    if dry_run:
        write(" ".join(map(sh, argv)) + "\n", None)
        return 0
    if reasons := _reasons_against(session.script, spec or "options"):
        for reason in reasons:
            say(reason)
        return 1
    sys.stderr.flush()
    try:
        os.execvpe("srun", argv, for_submission(os.environ)[0])
    except FileNotFoundError:
        raise UnavailableError("no srun on PATH; is this a login node of the cluster?") from None
    except OSError as error:
        raise InputError([Problem(Place("srun"), f"cannot be started: {error.strerror}")]) from None


def _reasons_against(script: "Script", source: str) -> list[str]:
    """Why the cluster would not give these resources: what `check` says, but for files that a shell does not need."""
    from slurmgpu.experiment.checklist import NOT_SLURMS, Check
    from slurmgpu.experiment.cluster import ask
    from slurmgpu.experiment.facts import FAIL

    live = ask()
    try:
        report = Check(script.text, source, current_folder(), os.environ, script).report(live)
    finally:
        live.end()
    failed = [item for item in report.items if item.finding.status == FAIL and item.name not in NOT_SLURMS]
    return [f"{item.name}: {item.finding.message}" for item in failed]

"""The command line. Each command imports what it needs inside its function, so that others start fast."""

import os
import sys

import click

import slurmgpu
from slurmgpu.errors import InputError, Place, Problem, SlurmgpuError, UnavailableError

_SHELLS = ("bash", "zsh", "fish")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 a negative finding, 2 bad input, 3 something outside is unavailable, 4 our fault.",
)
@click.version_option(slurmgpu.__version__, message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, envvar="SLURMGPU_DEBUG", help="Show the traceback of an internal error.")
def cli(debug: bool) -> None:
    """A Slurm GPU cluster made pleasant and accountable.

    \b
    slurmgpu render exp.yaml | sbatch
    """


def _profile_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from slurmgpu.experiment import profile

    return [name for name in profile.names() if name.startswith(incomplete)]


@cli.command()
@click.argument("spec", type=click.Path(allow_dash=True))
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a key of the spec; wins over files. Repeatable.",
)
@click.option(
    "--profile", metavar="NAME|FILE", shell_complete=_profile_names, help="The cluster profile to render for."
)
@click.option("--slurm-version", metavar="X.Y", help="Refuse what this Slurm does not know (default: the profile's).")
@click.option("--template", type=click.Path(), metavar="FILE", help="A Jinja2 file that extends sbatch.sh.j2.")
@click.option("--explain", is_flag=True, help="Say above each line where it comes from. The script still runs.")
@click.option("-o", "--output", type=click.Path(), metavar="FILE", help="Write the script here instead of stdout.")
def render(
    spec: str,
    settings: tuple[str, ...],
    profile: str | None,
    slurm_version: str | None,
    template: str | None,
    explain: bool,
    output: str | None,
) -> None:
    """Turn SPEC into an sbatch script on stdout: the whole script or nothing. `-` reads stdin.

    \b
    Examples:
      slurmgpu render exp.yaml | sbatch
      slurmgpu render exp.yaml --set time=2h --set env.SEED=1 --explain
      slurmgpu render exp.yaml --profile h200 --slurm-version 24.11 -o job.sh
    """
    from slurmgpu.experiment import command

    content = sys.stdin.buffer.read(command.MAX_BYTES + 1) if spec == "-" else None
    request = command.Request(spec, content, settings, profile, slurm_version, template, explain)
    script = command.render(request, _folder(), os.environ)
    for note in script.notes:
        _say(f"note: {note}")
    _write(script.text, output)


@cli.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
      slurmgpu completion bash > ~/.local/share/bash-completion/completions/slurmgpu
      slurmgpu completion zsh > ~/.zfunc/_slurmgpu
      slurmgpu completion fish > ~/.config/fish/completions/slurmgpu.fish
    """
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    if completer is None:
        raise SlurmgpuError(f"no completion for {shell}")
    _write(completer(cli, {}, "slurmgpu", "_SLURMGPU_COMPLETE").source(), None)


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise InputError([Problem(Place("the current folder"), f"is gone ({error.strerror}); cd to one")]) from None


def _say(line: str) -> None:
    click.echo(f"slurmgpu: {line}", err=True)


def _write(text: str, output: str | None) -> None:
    """The whole text at once: to stdout, or to a file by rename, so that nobody reads half of it."""
    # a folder's name may hold bytes that are no UTF-8; they go out as they came in
    content = text.encode("utf-8", "surrogateescape")
    if output is None or output == "-":
        _write_stdout(content)
        return
    temporary = f"{output}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
        os.replace(temporary, output)
    except OSError as error:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise InputError([Problem(Place(output), f"cannot be written: {error.strerror}")]) from None


def _write_stdout(content: bytes) -> None:
    try:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except OSError as error:
        # what is left in the buffer would be tried once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has gone, as in `render x.yaml | head`
            raise click.exceptions.Exit(141) from None
        raise UnavailableError(f"stdout cannot be written: {error.strerror}") from None


def main() -> int:
    """Run the command line; every expected error becomes lines on stderr and an exit status."""
    try:
        # what ends a command early (--help, Exit) comes back as its status here
        result = cli.main(prog_name="slurmgpu", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        _say("interrupted")
        return 130
    except InputError as error:
        for problem in error.problems:
            _say(str(problem))
        return error.exit_code
    except SlurmgpuError as error:
        _say(str(error))
        return error.exit_code
    except Exception as error:
        if "--debug" in sys.argv or os.environ.get("SLURMGPU_DEBUG"):
            raise
        _say(f"internal error: {type(error).__name__}: {error} (run again with --debug for the traceback)")
        return SlurmgpuError.exit_code

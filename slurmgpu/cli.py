"""The command line. Each command is a module of slurmgpu.commands, loaded when it is asked for."""

import os
import sys
from importlib import import_module

import click

import slurmgpu
from slurmgpu.commands.output import say
from slurmgpu.errors import InputError, SlurmgpuError, nearest

# the order of `slurmgpu --help`; a name that Python reserves has its module under another
COMMANDS = {
    "init": "init",
    "import": "import_",
    "render": "render",
    "check": "check",
    "lint": "lint",
    "submit": "submit",
    "resubmit": "resubmit",
    "shell": "shell",
    "probe": "probe",
    "schema": "schema",
    "completion": "completion",
}


class _Commands(click.Group):
    """Commands by name, each module imported at its first use."""

    def list_commands(self, context: click.Context | None) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context | None, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"slurmgpu.commands.{COMMANDS[name]}").command
        command.name = name
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = arguments[0]
        if name not in COMMANDS and not name.startswith("-"):
            guess = nearest(name, list(COMMANDS))
            hint = f"did you mean {guess!r}?" if guess else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {name!r}; {hint}", context)
        return super().resolve_command(context, arguments)


@click.group(
    cls=_Commands,
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
        say("interrupted")
        return 130
    except InputError as error:
        for problem in error.problems:
            say(str(problem))
        return error.exit_code
    except SlurmgpuError as error:
        say(str(error))
        return error.exit_code
    except Exception as error:
        if "--debug" in sys.argv or os.environ.get("SLURMGPU_DEBUG"):
            raise
        say(f"internal error: {type(error).__name__}: {error} (run again with --debug for the traceback)")
        return SlurmgpuError.exit_code

"""`slurmgpu completion`."""

import click

from slurmgpu.commands.output import write
from slurmgpu.errors import SlurmgpuError

_SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print shell completion.")
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
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
    root = click.get_current_context().find_root().command
    write(completer(root, {}, "slurmgpu", "_SLURMGPU_COMPLETE").source(), None)

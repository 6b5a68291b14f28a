"""What commands share: results on stdout, words on stderr."""

import os
import sys

import click

from slurmgpu.errors import InputError, Place, Problem, UnavailableError


def current_folder() -> str:
    """The folder that a command was started in; InputError where it is gone."""
    try:
        return os.getcwd()
    except OSError as error:
        raise InputError([Problem(Place("the current folder"), f"is gone ({error.strerror}); cd to one")]) from None


def say(line: str) -> None:
    """A line for a person, on stderr."""
    click.echo(f"slurmgpu: {line}", err=True)


MAX_INPUT_BYTES = 4 * 1024 * 1024  # Slurm takes no longer script


def read_input(path: str) -> bytes:
    """The bytes of a file, or of stdin for `-`; InputError where it cannot be read or is too long."""
    try:
        if path == "-":
            content = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(MAX_INPUT_BYTES + 1)
    except OSError as error:
        raise InputError([Problem(Place(path), f"cannot be read: {error.strerror}")]) from None
    except ValueError:  # a NUL in the name
        raise InputError([Problem(Place(repr(path)), "is not a file name")]) from None
    if len(content) > MAX_INPUT_BYTES:
        raise InputError([Problem(Place(path), "is larger than the 4 MiB that Slurm takes")])
    return content


def coloured(text: str, colour: str | None) -> str:
    """The text in a colour where stdout is a terminal that shows some."""
    if colour is None or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=colour)


def write(text: str, output: str | None) -> None:
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

"""The `#SBATCH` header by the rules of Slurm's own lexer: how to quote for it, how it reads a script.

Source: sbatch's opt.c (next_line, get_argument, _opt_batch_script). It is no shell: a backslash escapes inside
single quotes too, an unquoted # ends the line, and the first line that is neither blank nor a comment ends the
header. The same from 21.08 to 26.05, but for an escaped space outside quotes, which ended an argument before 24.05
and is read here as since then; `quote` never writes one.
"""

import re
from typing import NamedTuple

# no character of these means anything to the lexer
_BARE = re.compile(r"[\w@%+=:,./\[\]*?&|()!<>{}~^;$-]+")
_SPACE = " \t\n\v\f\r"
# one run of ordinary characters, quoted or not; everything else is handled one character at a time
_PLAIN_RUN = re.compile(r"[^\s\\\"'#]+", re.ASCII)
_QUOTED_RUN = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}


class Line(NamedTuple):
    """One `#SBATCH` line as Slurm reads it; `number` counts from 1 in the whole script."""

    number: int
    arguments: list[str]


def quote(value: str) -> str:
    """`value` so that the lexer gives it back unchanged. The value must hold no control character."""
    if _BARE.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def read_header(script: str) -> list[Line]:
    """Every directive line of a script, split into arguments as sbatch does; ValueError as sbatch refuses."""
    lines = []
    for number, line in enumerate(script.split("\n"), start=1):
        if line.startswith("#SBATCH"):
            lines.append(Line(number, split_arguments(line[len("#SBATCH") :])))
        elif line.strip(_SPACE) and not line.lstrip(_SPACE).startswith("#"):
            break
    return lines


def split_arguments(text: str) -> list[str]:
    """The arguments of one directive line; ValueError for an open quote."""
    arguments: list[str] = []
    rest = text.lstrip(_SPACE)
    while rest:
        if rest.startswith(":"):
            raise ValueError(f"an argument must not start with `:` in {text!r}")
        argument, rest = _next_argument(rest)
        if argument is None:  # the lexer sees nothing more in this line, a comment for instance
            break
        arguments.append(argument)
        rest = rest.lstrip(_SPACE)
    return arguments


def _next_argument(text: str) -> tuple[str | None, str]:
    pieces: list[str] = []
    position, quoted, length = 0, "", len(text)
    while position < length:
        run = (_QUOTED_RUN[quoted] if quoted else _PLAIN_RUN).match(text, position)
        if run:
            pieces.append(run[0])
            position = run.end()
            continue
        char = text[position]
        position += 1
        if char == "\\":
            escaped = text[position : position + 1]
            if not quoted and escaped != " " and escaped in _SPACE:  # the end of the text too
                break
            pieces.append(escaped)
            position += 1
        elif char == quoted:
            quoted = ""
        elif char in "\"'":
            quoted = char
        elif char == "#":
            return ("".join(pieces) if pieces else None), ""
        else:  # white space ends the argument
            break
    if quoted:
        raise ValueError(f"the quote {quoted} is never closed in {text!r}")
    return ("".join(pieces) if pieces else None), text[position:]

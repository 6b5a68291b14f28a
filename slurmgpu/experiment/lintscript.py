"""A script as the rules of `lint` see it: its lines, its header by Slurm's own lexer, where a line is cut."""

import re
from typing import NamedTuple

from slurmgpu.experiment import request
from slurmgpu.experiment.arguments import Fault, Given, read_options
from slurmgpu.experiment.header import Line, split_arguments
from slurmgpu.experiment.request import Request

DIRECTIVE = "#SBATCH"
_BLANK = " \t\n\v\f\r"
_HEREDOC = re.compile(r"(?<!<)<<(-?)\s*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([\w.-]+))")


class Script(NamedTuple):
    """A script that is linted.

    lines      without line ends; a rule's line number counts from 1
    heredoc    the numbers of lines that are text of a here-document
    end        the number of the line that ends the header: the first command
    header     the directives as sbatch reads them, `unread` those that it cannot read, with the reason
    given      each option, in order; `faults` what sbatch refuses among them
    body       the text from the first command on
    folder     where the script is submitted from
    """

    text: str
    lines: list[str]
    heredoc: frozenset[int]
    end: int
    header: list[Line]
    unread: list[Fault]
    given: list[Given]
    faults: list[Fault]
    request: Request
    body: str
    folder: str

    @property
    def is_ours(self) -> bool:
        """Whether `render` has made it."""
        return len(self.lines) > 1 and self.lines[1].startswith("# Made by slurmgpu ")

    @property
    def code(self) -> str:
        """The body without the lines that are comments."""
        return "\n".join(line for line in self.body.split("\n") if not line.lstrip().startswith("#"))

    def value(self, name: str) -> str | None:
        """The value of an option, None where it is not given."""
        return self.request.text(name)

    def place(self, name: str) -> tuple[int, int]:
        """The line and column of an option."""
        given = self.request.given[name]
        return given.line, self.column(given)

    def column(self, given: Given) -> int:
        """Where an option stands in its line; a value in quotes is not looked for."""
        written = given.written.split("=")[0].split(" ")[0]
        return max(0, self.lines[given.line - 1].find(written)) + 1


def read(text: str, folder: str) -> Script:
    """Take a script apart. Never fails, whatever the text holds."""
    lines = text.removeprefix("\ufeff").split("\n")
    end = next(
        (
            number
            for number, line in enumerate(lines, 1)
            if line.strip(_BLANK) and not line.lstrip(_BLANK).startswith("#")
        ),
        len(lines) + 1,
    )
    header: list[Line] = []
    unread: list[Fault] = []
    for number, line in enumerate(lines[: end - 1], 1):
        if line.startswith(DIRECTIVE):
            try:
                header.append(Line(number, split_arguments(line.rstrip("\r")[len(DIRECTIVE) :])))
            except ValueError as error:
                unread.append(Fault(number, str(error)))
    parts = [index for index, line in enumerate(header) if line.arguments[:1] in (["hetjob"], ["packjob"])]
    given, faults = read_options(header[: parts[0]] if parts else header)
    readable = "\n".join(line for number, line in enumerate(lines[: end - 1], 1) if number not in dict(unread))
    return Script(
        text=text,
        lines=lines,
        heredoc=_heredoc_lines(lines),
        end=end,
        header=header,
        unread=unread,
        given=given,
        faults=faults,
        request=request.read(readable.replace("\r", "")),
        body="\n".join(lines[end - 1 :]),
        folder=folder,
    )


def _heredoc_lines(lines: list[str]) -> frozenset[int]:
    """The lines of here-documents: a script that writes another one has directives that are not its own."""
    found: set[int] = set()
    waiting: list[tuple[bool, str]] = []
    for number, line in enumerate(lines, 1):
        if waiting:
            strips, delimiter = waiting[0]
            if (line.lstrip("\t") if strips else line) == delimiter:
                waiting.pop(0)
            else:
                found.add(number)
            continue
        if "<<" in line and not line.lstrip().startswith("#"):
            waiting = [(match[1] == "-", match[2] or match[3] or match[4]) for match in _HEREDOC.finditer(line)]
    return frozenset(found)


def cut(text: str) -> int | None:
    """Where an unquoted # ends a directive's line for Slurm; None where none does."""
    quote, position = "", 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#":
            return position
        position += 1
    return None

"""A reader of bash text: its commands, how they are grouped and joined, and the variables that each expands.

It reads as bash does (man bash, QUOTING, SHELL GRAMMAR) as far as a job script needs it, in one pass, and takes any
text: what bash would refuse is read somehow. Nothing is expanded or run.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.shellwords import ASSIGNMENT, BLANKS, MAX_DEPTH, Pieces, Use, Word, WordReader

_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|;|\||&(?!>)")
_REDIRECT = re.compile(r"(?:\d+|\{[A-Za-z_]\w*\})?(<<-|<<<|<<|<&|<>|<(?!\()|>>|>&|>\||>(?!\())|&>>|&>", re.ASCII)
_HEREDOC_NAME = re.compile(r"(?<!\\)\$\{?([A-Za-z_]\w*)", re.ASCII)
_CALL = re.compile(r"[ \t]*\([ \t]*\)")
_CLOSERS = {"fi": "if", "done": "loop", "esac": "case", "}": "{"}
_LINE = re.compile(r"[^\n]*")


class Redirect(NamedTuple):
    """`<`, `>>` and so on, and the word after it."""

    operator: str
    target: Word | None


class Group(Fields):
    """Commands that belong together: a loop, `if`, `{`, `(`, `case` or a function's body.

    `kind` is "{", "(", "if", "loop" or "case"; `opener` is the word (while, for). `part` says where the reader is:
    "condition" or "body". `reads` is True where the condition is `read`. `after` is the operator after its end.
    """

    kind: str
    opener: str
    start: int
    parent: "Group | None" = None
    part: str = "condition"
    reads: bool = False
    function: str = ""
    after: str = ""
    redirects: list[Redirect] = []


class Command(Fields):
    """A simple command. `assignments` stand before its words; `prefixes` are words such as `if`, `!` and `time`.

    `after` is the operator that ends it. `part` is the part of its group that it is in. `owner` is the command whose
    `bash -c` script or `$(…)` holds it, and `substituted` says that it is in a `$(…)` or in backticks.
    `heredoc` are the variables expanded in its here-documents.
    """

    start: int
    words: list[Word]
    assignments: list[Word]
    prefixes: list[str]
    redirects: list[Redirect]
    heredoc: list[Use]
    group: Group | None = None
    part: str = ""
    after: str = ""
    substituted: bool = False
    owner: "Command | None" = None

    @property
    def name(self) -> str:
        """Its first word."""
        return self.words[0].text if self.words else ""

    @property
    def uses(self) -> Iterator[Use]:
        """Every variable that it expands, but for those in its here-documents."""
        for word in (*self.assignments, *self.words):
            yield from word.uses
        for redirect in self.redirects:
            if redirect.target is not None and redirect.operator not in ("<<", "<<-"):
                yield from redirect.target.uses

    def groups(self) -> Iterator[Group]:
        """The groups that it is in, from the inside."""
        group = self.group
        while group is not None:
            yield group
            group = group.parent


class Places:
    """Line and column, from 1, of positions in a text."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def __call__(self, position: int) -> tuple[int, int]:
        line = bisect_right(self._starts, position)
        return line, position - self._starts[line - 1] + 1


def read(text: str, start: int = 0, end: int | None = None, owner: Command | None = None) -> list[Command]:
    """The commands of the text between two positions, in order of their starts; those in `$(…)` are among them."""
    reader = _Reader(text, len(text) if end is None else end)
    reader.position = start
    while reader.position < reader.end:
        reader.read_list(substituted=False)
    for command in reader.commands:
        command.owner = owner
    return sorted(reader.commands, key=lambda command: command.start)


class _Reader(WordReader):
    def __init__(self, text: str, end: int) -> None:
        super().__init__(text, end)
        self.commands: list[Command] = []
        self.heredocs: list[tuple[Command, Word, bool]] = []

    def read_list(self, substituted: bool) -> None:
        """Commands up to the end, or in a substitution to its `)`, which is read too."""
        parser = _List(self, substituted)
        while self.position < self.end:
            if blank := BLANKS.match(self.text, self.position, self.end):
                self.position = blank.end()
                continue
            char = self.char()
            if char == "#":
                line = _LINE.match(self.text, self.position, self.end)
                self.position = line.end() if line else self.end
            elif char == "\n":
                parser.end_command("\n")
                self.position += 1
                self._skip_heredocs()
            elif parser.step():
                return
        parser.end_command("")

    def _skip_heredocs(self) -> None:
        """The bodies of the here-documents that the line before has begun."""
        waiting, self.heredocs = self.heredocs, []
        for command, delimiter, strips in waiting:
            while self.position < self.end:
                stop = self.text.find("\n", self.position, self.end)
                stop = self.end if stop < 0 else stop
                line, begin = self.text[self.position : stop], self.position
                self.position = min(stop + 1, self.end)
                if (line.lstrip("\t") if strips else line) == delimiter.text:
                    break
                if not delimiter.quote and "\\" not in self.text[delimiter.start : delimiter.end]:
                    command.heredoc += [Use(one[1], begin + one.start()) for one in _HEREDOC_NAME.finditer(line)]


class _List:
    """The commands of one list: what was read of the one at hand, and the groups that are open."""

    def __init__(self, reader: _Reader, substituted: bool) -> None:
        self.reader = reader
        self.substituted = substituted
        self.group: Group | None = None
        self.groups = 0
        self.command: Command | None = None
        self.closed: Group | None = None  # the group that has just ended: redirections are its own
        self.function = ""
        self.function_start = 0
        self.expects_function = False

    def _current(self) -> Command:
        if self.command is None:
            self.command = Command(
                start=self.reader.position, words=[], assignments=[], prefixes=[], redirects=[], heredoc=[],
                group=self.group, part=self.group.part if self.group else "", substituted=self.substituted,
            )  # fmt: skip
            self.reader.commands.append(self.command)
        return self.command

    def end_command(self, operator: str) -> None:
        """The command at hand ends with this operator."""
        command, self.command = self.command, None
        if self.closed is not None:
            if operator.strip() or not self.closed.after:
                self.closed.after = operator
            self.closed = None
        if command is None:
            return
        command.after = operator
        if self.group is not None and self.group.part == "condition" and command.name == "read":
            self.group.reads = True
        if command.name == "case" and self.group is not None and self.group.kind == "case":
            self.group.part = "pattern"

    def _open(self, kind: str, opener: str, part: str, start: int) -> None:
        if self.groups < MAX_DEPTH:
            self.groups += 1
            self.group = Group(
                kind=kind, opener=opener, part=part, parent=self.group, function=self.function, redirects=[],
                start=self.function_start if self.function else start,
            )  # fmt: skip
        self.function = ""
        self.closed = None

    def _close(self, kind: str) -> None:
        group = self.group
        while group is not None and group.kind != kind:
            group = group.parent
        if group is not None:
            while self.group is not group and self.group is not None:
                self.groups -= 1
                self.group = self.group.parent
            self.groups -= 1
            self.group = group.parent
            self.closed = group

    def step(self) -> bool:
        """Read what is at the position; True at the `)` that ends the substitution."""
        reader = self.reader
        if self.group is not None and self.group.part == "pattern":
            self._read_pattern()
            return False
        if self._is_in_test():
            self._read_word()
            return False
        redirect = _REDIRECT.match(reader.text, reader.position, reader.end)
        if redirect:
            self._read_redirect(redirect)
            return False
        operator = _OPERATOR.match(reader.text, reader.position, reader.end)
        if operator:
            self._read_operator(operator[0])
            return False
        if reader.at(")"):
            return self._read_closing()
        if reader.at("("):
            self._read_opening()
            return False
        self._read_word()
        return False

    def _is_in_test(self) -> bool:
        """Inside of `[[ ]]`, where < and && are words."""
        command = self.command
        return command is not None and command.name == "[[" and command.words[-1].text != "]]"

    def _read_operator(self, operator: str) -> None:
        self.end_command(operator)
        self.reader.position += len(operator)
        if operator in (";;", ";&", ";;&") and self.group is not None:
            group: Group | None = self.group
            while group is not None and group.kind != "case":
                group = group.parent
            if group is not None:
                group.part = "pattern"

    def _read_pattern(self) -> None:
        """`(a|b*)` of a case, or its end."""
        reader = self.reader
        group = self.group
        assert group is not None
        char = reader.char()
        if char == ")":
            reader.position += 1
            group.part = "body"
        elif char in "(|;&<>":
            reader.position += 1
        else:
            word = reader.read_word()
            if word.text == "esac" and word.end - word.start == 4:
                group.part = "body"
                self._close("case")

    def _read_redirect(self, match: re.Match[str]) -> None:
        reader = self.reader
        operator = match[1] or match[0]
        reader.position = match.end()
        if blank := BLANKS.match(reader.text, reader.position, reader.end):
            reader.position = blank.end()
        target = None
        if (reader.position < reader.end and reader.char() not in "\n;&|()") or reader.at("&"):
            target = reader.read_word()
        redirect = Redirect(operator, target)
        if self.closed is not None and self.command is None:
            self.closed.redirects.append(redirect)
        else:
            self._current().redirects.append(redirect)
        if operator in ("<<", "<<-") and target is not None:
            if self.command is None:
                self._current()
            assert self.command is not None
            reader.heredocs.append((self.command, target, operator == "<<-"))

    def _read_closing(self) -> bool:
        self.end_command(")")
        self.reader.position += 1
        group = self.group
        while group is not None and group.kind != "(":
            group = group.parent
        if group is None and self.substituted:
            return True
        self._close("(")
        return False

    def _read_opening(self) -> None:
        reader, command = self.reader, self.command
        if command is not None and len(command.words) == 1 and not command.assignments:
            close = _CALL.match(reader.text, reader.position, reader.end)
            if close:  # name ()
                reader.position = close.end()
                self.function, self.function_start = command.name, command.start
                reader.commands.remove(command) if reader.commands[-1] is not command else reader.commands.pop()
                self.command = None
                return
        is_for = command is not None and command.name in ("for", "select")
        if reader.at("((") and (command is None or is_for):
            made = Pieces()
            start = reader.position
            reader.read_arithmetic(made, 2)
            text = reader.text[start : reader.position]
            self._current().words.append(Word(text, start, reader.position, tuple(made.uses), tuple(made.pieces), ""))
            return
        self.end_command("")
        self._open("(", "(", "body", reader.position)
        reader.position += 1

    def _read_word(self) -> None:
        reader, command = self.reader, self.command
        at_start = command is None or not (command.words or command.assignments)
        word = reader.read_word(test=self._is_in_test())
        bare = reader.text[word.start : word.end] == word.text
        if self.expects_function:
            self.expects_function = False
            self.function = word.text
            if call := _CALL.match(reader.text, reader.position, reader.end):
                reader.position = call.end()
            return
        if at_start and bare and self._read_reserved(word):
            return
        current = self._current()
        if not current.words and not current.assignments and not current.prefixes:
            current.start = word.start
        if not current.words and ASSIGNMENT.match(reader.text, word.start, word.end):
            current.assignments.append(word)
        else:
            current.words.append(word)
            if current.name == "case" and bare and word.text == "in" and len(current.words) == 3:
                self.end_command("")

    def _read_reserved(self, word: Word) -> bool:
        """Whether the word is one of the grammar's own, which are known at the start of a command only."""
        text = word.text
        if text in ("if", "while", "until"):
            self._open("if" if text == "if" else "loop", text, "condition", word.start)
        elif text in ("then", "do", "else"):
            if self.group is not None:
                self.group.part = "body"
        elif text == "elif":
            if self.group is not None:
                self.group.part = "condition"
        elif text in ("fi", "done", "esac", "}"):
            self.command = None
            self._close(_CLOSERS[text])
        elif text == "{":
            self._open("{", text, "body", word.start)
        elif text == "function":
            self.expects_function = True
            self.function_start = word.start
        elif text in ("!", "time", "coproc"):
            command = self._current()
            command.start = word.start
            command.prefixes.append(text)
        else:
            if text in ("for", "select"):
                self._open("loop", text, "condition", word.start)
            elif text == "case":
                self._open("case", text, "condition", word.start)
            return False
        return True

"""A reader of the words of bash text: quotes, escapes, expansions, and which variables this very shell expands.

Nothing is expanded or run. Any text is taken: what bash would refuse is read somehow.
"""

import re
from typing import NamedTuple

# deeper substitutions and groups than a person writes are read as if they were flat
MAX_DEPTH = 24
BLANKS = re.compile(r"(?:[ \t\r]|\\\n)+")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\+?=", re.ASCII)
_PLAIN = re.compile(r"[^\s\\'\"`$;&|<>()=]+")
_PLAIN_DOUBLE = re.compile(r'[^\\"`$]+')
_PATTERN = re.compile(r"[*?\[{~]")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SPECIAL = "@*#?-$!0123456789"


class Use(NamedTuple):
    """A variable that the shell expands: its name, where its `$` stands, and what follows the name in `${…}`."""

    name: str
    start: int
    modifier: str = ""


class Word(NamedTuple):
    """A word of a command. `text` is without quotes, expansions as written; `pieces` are ("text" | "use" | "other",
    text). `quote` is the quote that it starts with, and `start`, `end` its place in the script.
    `is_pattern`: one of * ? [ { ~ stands in it without quotes.
    """

    text: str
    start: int
    end: int
    uses: tuple[Use, ...]
    pieces: tuple[tuple[str, str], ...]
    quote: str
    is_pattern: bool = False

    @property
    def is_literal(self) -> bool:
        """Nothing in it is expanded."""
        return all(kind == "text" for kind, _ in self.pieces)

    @property
    def assigned(self) -> str | None:
        """The name that it assigns to, as in `NAME=value`."""
        match = ASSIGNMENT.match(self.text)
        return match[1] if match else None

    @property
    def value(self) -> str:
        """What follows the first `=`."""
        return self.text.partition("=")[2]


class Pieces:
    """A word in the making."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str]] = []
        self.uses: list[Use] = []

    def add(self, kind: str, text: str) -> None:
        self.pieces.append((kind, text))


class WordReader:
    """Reads words from `position` on. A subclass reads the commands of a substitution."""

    def __init__(self, text: str, end: int) -> None:
        self.text, self.end = text, end
        self.position = 0
        self.depth = 0

    def at(self, part: str) -> bool:
        return self.text.startswith(part, self.position, self.end)

    def char(self) -> str:
        return self.text[self.position] if self.position < self.end else ""

    def read_list(self, substituted: bool) -> None:
        """Commands up to the end, or in a substitution to its `)`, which is read too."""
        raise NotImplementedError

    def read_word(self, test: bool = False) -> Word:
        """The word at the position; in `[[ ]]`, which `test` stands for, the operators are words too."""
        start, made, is_pattern = self.position, Pieces(), False
        stops = " \t\r\n" if test else " \t\r\n;&|<>()"
        while self.position < self.end:
            char = self.char()
            if char == "=" and self.at("=(") and not test and _is_name(made.pieces):
                made.add("text", "=")
                self.position += 1
                self._read_array(made)
            elif char in "<>" and self.text[self.position + 1 : self.position + 2] == "(" and not test:
                self._read_substitution(made, 2)
            elif char in stops:
                break
            elif not self._read_quoted(made):
                run = _PLAIN.match(self.text, self.position, self.end)
                stop = run.end() if run else self.position + 1
                made.add("text", self.text[self.position : stop])
                is_pattern = is_pattern or _PATTERN.search(self.text, self.position, stop) is not None
                self.position = stop
        if self.position == start:  # a lone operator in a place for words
            self.position += 1
            made.add("text", self.text[start : self.position])
        quote = self.text[start] if self.text[start] in "'\"" else ""
        text = "".join(piece for _, piece in made.pieces)
        return Word(text, start, self.position, tuple(made.uses), tuple(made.pieces), quote, is_pattern)

    def _read_quoted(self, made: Pieces) -> bool:
        """Read a quote, an escape or an expansion, if one is here."""
        char = self.char()
        if char == "\\":
            escaped = self.text[self.position + 1 : min(self.position + 2, self.end)]
            if escaped != "\n":
                made.add("text", escaped or char)  # at the end of everything it is itself
            self.position = min(self.position + 2, self.end)
        elif char == "'":
            made.add("text", self._until_single())
        elif char == '"':
            self.position += 1
            made.add("text", "")
            self._read_double(made, '"')
        elif char == "`":
            self._read_backticks(made)
        elif char == "$":
            self._read_dollar(made, in_double=False)
        else:
            return False
        return True

    def _until_single(self) -> str:
        stop = self.text.find("'", self.position + 1, self.end)
        begin = self.position + 1
        self.position = self.end if stop < 0 else stop + 1
        return self.text[begin : self.end if stop < 0 else stop]

    def _read_double(self, made: Pieces, closing: str) -> None:
        """The rest of a double-quoted text, with its closing quote."""
        while self.position < self.end:
            char = self.char()
            if char == closing:
                self.position += 1
                return
            if char == "\\":
                escaped = self.text[self.position + 1 : min(self.position + 2, self.end)]
                if escaped != "\n":
                    made.add("text", escaped if escaped and escaped in '$`"\\' else char + escaped)
                self.position = min(self.position + 2, self.end)
            elif char == "`":
                self._read_backticks(made)
            elif char == "$":
                self._read_dollar(made, in_double=True)
            else:
                run = _PLAIN_DOUBLE.match(self.text, self.position, self.end)
                stop = run.end() if run else self.position + 1
                made.add("text", self.text[self.position : stop])
                self.position = stop

    def _read_dollar(self, made: Pieces, in_double: bool) -> None:
        start = self.position
        following = self.text[start + 1 : min(start + 2, self.end)]
        if following == "(" and self.depth < MAX_DEPTH:
            if self.text.startswith("$((", start, self.end):
                self.read_arithmetic(made, 3)
            else:
                self._read_substitution(made, 2)
        elif following == "{" and self.depth < MAX_DEPTH:
            self._read_braces(made)
        elif following == "'" and not in_double:
            self._read_ansi(made)
        elif following == '"' and not in_double:
            self.position += 1
        elif name := _NAME.match(self.text, start + 1, self.end):
            self.position = name.end()
            made.uses.append(Use(name[0], start))
            made.add("use", self.text[start : self.position])
        elif following and following in _SPECIAL:
            self.position += 2
            made.add("use", self.text[start : self.position])
            made.uses.append(Use(following, start))
        else:
            self.position += 1
            made.add("text", "$")

    def _read_ansi(self, made: Pieces) -> None:
        self.position += 2
        begin = self.position
        while self.position < self.end and self.char() != "'":
            self.position = min(self.position + (2 if self.char() == "\\" else 1), self.end)
        made.add("text", self.text[begin : self.position])
        self.position = min(self.position + 1, self.end)

    def _read_substitution(self, made: Pieces, opening: int) -> None:
        """`$(…)`, `<(…)` or `>(…)`: the commands in it belong to this shell."""
        start = self.position
        self.position = min(start + opening, self.end)
        self.depth += 1
        if self.depth <= MAX_DEPTH:
            self.read_list(substituted=True)
        self.depth -= 1
        made.add("other", self.text[start : self.position])  # its variables belong to the commands in it

    def _read_backticks(self, made: Pieces) -> None:
        start = stop = self.position
        while (stop := stop + 1) < self.end and self.text[stop] != "`":
            stop += self.text[stop] == "\\"
        stop = min(stop, self.end)
        end, self.end = self.end, stop
        self.position = min(start + 1, stop)
        self.depth += 1
        while self.position < self.end and self.depth <= MAX_DEPTH:
            self.read_list(substituted=True)
        self.depth -= 1
        self.end = end
        self.position = min(stop + 1, end)
        made.add("other", self.text[start : self.position])

    def read_arithmetic(self, made: Pieces, opening: int) -> None:
        """`$((…))` or `((…))`: a bare name is expanded too."""
        start = self.position
        self.position = min(start + opening, self.end)
        self.depth += 1
        inner, parentheses = Pieces(), 0
        while self.position < self.end:
            char = self.char()
            if char == ")" and not parentheses:
                self.position = min(self.position + (2 if self.at("))") else 1), self.end)
                break
            if name := _NAME.match(self.text, self.position, self.end):
                made.uses.append(Use(name[0], self.position))
                self.position = name.end()
            elif char == '"':
                self.position += 1
            elif not self._read_quoted(inner):
                parentheses += (char == "(") - (char == ")")
                self.position += 1
        self.depth -= 1
        made.uses += inner.uses
        made.add("other", self.text[start : self.position])

    def _read_braces(self, made: Pieces) -> None:
        """`${NAME}`, with whatever follows the name; in that there may be further expansions."""
        start = self.position
        self.position = start + 2
        indirect = self.at("!") or self.at("#")
        self.position += indirect
        name = _NAME.match(self.text, self.position, self.end)
        if name:
            self.position = name.end()
        elif self.position < self.end and self.char() in _SPECIAL:
            self.position += 1
        after = self.position
        self.depth += 1
        inner = Pieces()
        while self.position < self.end:
            char = self.char()
            if char == "}":
                self.position += 1
                break
            if char == "'" or not self._read_quoted(inner):
                self.position += 1
        self.depth -= 1
        modifier = self.text[after : max(self.position - 1, after)]
        if name:
            made.uses.append(Use(name[0], start, modifier))
        made.uses += inner.uses
        plain = name is not None and not modifier and not indirect
        made.add("use" if plain else "other", self.text[start : self.position])

    def _read_array(self, made: Pieces) -> None:
        """`(…)` after `NAME=`: words over any number of lines."""
        self.position += 1
        made.add("text", "(")
        while self.position < self.end:
            if blank := BLANKS.match(self.text, self.position, self.end):
                self.position = blank.end()
            elif self.at("#"):
                stop = self.text.find("\n", self.position, self.end)
                self.position = self.end if stop < 0 else stop
            elif self.at("\n"):
                self.position += 1
            elif self.at(")"):
                self.position += 1
                break
            else:
                word = self.read_word()
                made.pieces += [*word.pieces, ("text", " ")]
                made.uses += word.uses
        made.add("text", ")")


def _is_name(pieces: list[tuple[str, str]]) -> bool:
    return bool(pieces) and all(kind == "text" for kind, _ in pieces) and bool(pieces[0][1][:1].strip())

"""YAML text to plain data that keeps what was typed and where.

PyYAML reads YAML 1.1, in which 24:00:00 is the number 86400, `no` is false, 010 is 8 and 1.10 is 1.1. Here
every scalar stays the text that was typed; the spec's keys say what a text means, by the rules of the YAML
1.2 core schema where a type is wanted. Duplicate keys are refused. Positions are kept for messages.
"""

from typing import Any, NamedTuple

import yaml

from slurmgpu.errors import InputError, Place, Problem

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 20
MAX_VALUES = 20_000  # an alias bomb multiplies values; no spec written by hand comes near this

# values of the data: text, None (an empty or null value), list, dict
Data = Any
Path = tuple[str | int, ...]

# libyaml where PyYAML was built with it (all its wheels and Debian's package are): ten times faster,
# and it bounds nesting, which the Python parser does not
_Loader: type[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TEXT_TAG = "tag:yaml.org,2002:str"
_PLAIN_TAGS = frozenset({_TEXT_TAG, "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})


class Document(NamedTuple):
    """A parsed file: `data`, the place of each value by its path of keys and indexes, the place of each key."""

    file: str
    data: Data
    places: dict[Path, Place]
    key_places: dict[Path, Place]


def read(path: str) -> bytes:
    """The bytes of a spec file, at most MAX_BYTES of them; InputError where it cannot be read."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError([Problem(Place(path), f"cannot be read: {error.strerror}")]) from None
    except ValueError:  # a NUL in the name
        raise InputError([Problem(Place(repr(path)), "is not a file name")]) from None
    return content


def load(content: bytes, file: str) -> Document:
    """Parse one YAML document. Raises InputError with every duplicate key, tag and oversize found."""
    text = _decode(content, file)
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise InputError([_syntax_problem(error, text, file)]) from None
    except yaml.reader.ReaderError as error:
        raise InputError([_character_problem(error, text, file)]) from None
    except RecursionError:
        raise InputError([Problem(Place(file), f"is nested deeper than {MAX_DEPTH} levels")]) from None
    finally:
        if loader is not None:
            loader.dispose()
    if node is None:
        return Document(file, None, {(): Place(file, 1, 1)}, {})
    builder = _Builder(file)
    data = builder.value(node, ())
    if builder.problems:
        raise InputError(builder.problems)
    return Document(file, data, builder.places, builder.key_places)


def _decode(content: bytes, file: str) -> str:
    if len(content) > MAX_BYTES:
        raise InputError([Problem(Place(file), "is larger than 1 MiB; a spec is a page of text")])
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8").removeprefix("\ufeff")
        line, column = _line_and_column(before)
        message = f"is not UTF-8 text (byte 0x{content[error.start]:02x}); is this the right file?"
        raise InputError([Problem(Place(file, line, column), message)]) from None


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    if error.context in ("while scanning an alias", "while scanning an anchor"):  # the sign itself, not what follows
        mark = error.context_mark
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
    message = f"not valid YAML: {error.problem or error.context}"
    lines = text.splitlines()
    rest = lines[mark.line][mark.column :] if mark and mark.line < len(lines) else ""
    if "maximum nesting" in (error.problem or ""):
        pass
    elif rest[:1] in tuple("%@`*&!|>{["):
        message += f"; a value that starts with {rest[0]} must be quoted"
    elif rest[:1] == "\t":
        message += "; indent with spaces, not with tabs"
    elif error.problem and "mapping values are not allowed" in error.problem:
        message += "; quote a text that holds a colon and a space"
    return Problem(place, message)


def _character_problem(error: yaml.reader.ReaderError, text: str, file: str) -> Problem:
    # libyaml counts bytes and Python's parser characters, so the character is looked for again
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    line, column = _line_and_column(text[: found.start() if found else error.position])
    return Problem(Place(file, line, column), "holds a control character, which YAML does not allow")


def _line_and_column(before: str) -> tuple[int, int]:
    """Where the character behind `before` stands, both counted from 1."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


class _Builder:
    """Walks the nodes once, building data and places, and collects every problem on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[Path, Place] = {}
        self.key_places: dict[Path, Place] = {}
        self.problems: list[Problem] = []
        self.values = 0
        self.too_deep = False

    def place(self, node: yaml.Node) -> Place:
        mark = node.start_mark
        return Place(self.file, mark.line + 1, mark.column + 1)

    def value(self, node: yaml.Node, path: Path) -> Data:
        self.values += 1
        if self.values > MAX_VALUES or len(path) > MAX_DEPTH:
            if self.values <= MAX_VALUES:
                if not self.too_deep:
                    self._say(node, f"is nested deeper than {MAX_DEPTH} levels")
                self.too_deep = True
            elif self.values == MAX_VALUES + 1 and not self.too_deep:
                self._say(
                    node,
                    f"holds more than {MAX_VALUES} values; aliases multiply what they "
                    "name, and a sweep of many points belongs into a CSV file",
                )
            return None
        self.places[path] = self.place(node)
        if node.tag not in _PLAIN_TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._say(node, f"the tag {tag} has no meaning here; leave it out, quote the value if need be")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._mapping(node, path)

    def _scalar(self, node: yaml.ScalarNode) -> str | None:
        text: str = node.value
        if not node.style and text in _NULLS:
            return None
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            self._say(node, "holds half of a surrogate pair, which is no character")
        return text

    def _mapping(self, node: yaml.Node, path: Path) -> dict[str, Data]:
        result: dict[str, Data] = {}
        first_seen: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._say(key_node, "a key must be a word, not a list or a mapping")
                continue
            key = key_node.value
            if key in first_seen:
                line = first_seen[key].start_mark.line + 1
                self._say(key_node, f"the key {key!r} is here a second time; the first is in line {line}")
                continue
            first_seen[key] = key_node
            if self.values > MAX_VALUES:
                break
            result[key] = self.value(value_node, (*path, key))
            self.key_places[(*path, key)] = self.place(key_node)
        return result

    def _say(self, node: yaml.Node, message: str) -> None:
        self.problems.append(Problem(self.place(node), message))

"""Spec files, what they extend, `--set` and the profile's defaults become one mapping.

Weakest first: profile defaults, `extends` files, the spec, `--set`. Blocks (env, sbatch, torchrun) merge key by
key; anything else is replaced. Choosing one of a group of rivals (mem, mem_per_gpu ...) drops the inherited
other, and says so.
"""

import os
from typing import NamedTuple

from slurmgpu.errors import InputError, Place, Problem
from slurmgpu.experiment import yamltext
from slurmgpu.experiment.spec import RIVALS, STRUCTURED
from slurmgpu.experiment.yamltext import Data, Document, Path

MAX_EXTENDS = 10


class Merged(NamedTuple):
    """One mapping out of several documents; `notes` says what was dropped on the way."""

    data: Data
    places: dict[Path, Place]
    key_places: dict[Path, Place]
    notes: list[str]


def start(document: Document) -> Merged:
    """A single document as the start of a merge."""
    return Merged(document.data, dict(document.places), dict(document.key_places), [])


def spec_file(path: str, content: bytes | None = None) -> Merged:
    """The spec at `path` with all that it extends. `content`, where given, stands for the file's bytes."""
    chain = [_load(path, content)]
    seen = [os.path.realpath(path)]
    while (base := _base_of(chain[-1])) is not None:
        if os.path.realpath(base) in seen:
            raise InputError([Problem(_extends_place(chain[-1]), f"`extends` goes in a circle, back to {base}")])
        if len(chain) > MAX_EXTENDS:
            raise InputError([Problem(_extends_place(chain[-1]), f"`extends` is deeper than {MAX_EXTENDS} files")])
        seen.append(os.path.realpath(base))
        chain.append(_load(base, None, _extends_place(chain[-1])))
    merged = start(chain.pop())
    while chain:
        merged = over(merged, chain.pop())
    return merged


def _load(path: str, content: bytes | None, named_at: Place | None = None) -> Document:
    if content is None:
        try:
            content = yamltext.read(path)
        except InputError as error:
            if named_at is None:
                raise
            problem = error.problems[0]
            raise InputError([Problem(named_at, f"`extends` names {path}, which {problem.message}")]) from None
    return yamltext.load(content, path if content is None or path != "-" else "<stdin>")


def _extends_place(document: Document) -> Place:
    return document.places.get(("extends",), Place(document.file))


def _base_of(document: Document) -> str | None:
    """The path in `extends`, relative to the file that holds it; the key is taken out of the data."""
    if not isinstance(document.data, dict) or "extends" not in document.data:
        return None
    base = document.data.pop("extends")
    if not isinstance(base, str) or not base or "\0" in base:
        raise InputError([Problem(_extends_place(document), "`extends` must name one YAML file")])
    return os.path.join(os.path.dirname(document.file), os.path.expanduser(base))


def over(below: Merged, above: Document) -> Merged:
    """`above` laid over `below`."""
    if not isinstance(above.data, dict) or not isinstance(below.data, dict):
        if below.data and above.data is None:  # an empty file extends everything as it is
            return below
        return Merged(above.data, dict(above.places), dict(above.key_places), below.notes)
    notes = list(below.notes)
    data = dict(below.data)
    for group in RIVALS:
        chosen = next((key for key in group if above.data.get(key) is not None), None)
        for rival in group:
            if chosen and rival != chosen and rival in data and rival not in above.data:
                place = below.places.get((rival,), "an inherited value")
                notes.append(f"`{chosen}` replaces `{rival}` from {place}")
                del data[rival]
    for key, value in above.data.items():
        if value is None and key in data:  # null takes an inherited key away
            del data[key]
        elif isinstance(value, dict) and isinstance(data.get(key), dict):
            data[key] = _overlay(data[key], value)
        else:
            data[key] = value
    return Merged(data, below.places | above.places, below.key_places | above.key_places, notes)


def under(above: Merged, below: Document) -> Merged:
    """`above` laid over a weaker document, such as a profile's defaults."""
    document = Document("", above.data, above.places, above.key_places)
    merged = over(start(below), document)
    return merged._replace(notes=[*above.notes, *merged.notes])


def _overlay(below: dict[str, Data], above: dict[str, Data]) -> dict[str, Data]:
    merged = below | above
    return {key: value for key, value in merged.items() if value is not None or key not in below}


def setting(text: str) -> Document:
    """One `--set KEY=VALUE` as a document. The value is text as typed, YAML where it starts with [ or {."""
    name, equals, typed = text.partition("=")
    place = Place(f"--set {name}")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise InputError([Problem(Place(f"--set {text}"), "must be KEY=VALUE, such as time=2h or env.SEED=1")])
    if keys == ["extends"]:
        raise InputError([Problem(place, "can only stand in a file, whose folder its path starts from")])
    value: Data = typed
    if typed == "null":
        value = None
    elif typed[:1] in ("[", "{") and keys[0] in STRUCTURED and (len(keys) == 1 or keys[0] == "sweep"):
        value = _structure(typed, place)
    elif not typed.isascii() and any("\ud800" <= char <= "\udfff" for char in typed):
        raise InputError([Problem(place, "is not UTF-8 text")])
    places: dict[Path, Place] = {}
    for depth in range(len(keys)):
        places[tuple(keys[: depth + 1])] = place
    for key in reversed(keys):
        value = {key: value}
    return Document(place.file, value, places, dict(places))


def _structure(typed: str, place: Place) -> Data:
    try:
        return yamltext.load(typed.encode("utf-8", "surrogateescape"), place.file).data
    except InputError as error:  # a line and a column of a command line's word help nobody
        raise InputError([Problem(place, problem.message) for problem in error.problems]) from None

"""`import`: a hand-written sbatch script as a spec that renders to an equivalent one."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from slurmgpu.errors import InputError, Place, Problem
from slurmgpu.experiment import importbody, importheader, importyaml, lintscript, merge
from slurmgpu.experiment.importheader import Keys, Note
from slurmgpu.experiment.lintscript import Script
from slurmgpu.experiment.paths import Place as RenderPlace
from slurmgpu.experiment.profile import NONE
from slurmgpu.experiment.render import Renderer

_OF_KEY = re.compile(r"`([a-z_]+)(?:\.([a-z-]+))?|--([a-z-]+)")
# without these it would be another job
_FIRST = ("name", "command", "launcher")
_NEEDED = frozenset({"nodes", "gpus_per_node"})


class Imported(NamedTuple):
    """The spec, and what could not be carried over or changes: (line, 0 for the whole script; sentence)."""

    spec: str
    notes: list[Note]


def read(text: str, source: str, folder: str, environ: Mapping[str, str]) -> Imported:
    """The spec of a script that is submitted from `folder`. Raises InputError where there is no spec for it."""
    script = lintscript.read(text, folder)
    notes: list[Note] = []
    _check_kind(script, source, notes)
    notes += importheader.not_read(script)
    name = "sbatch" if source == "-" else os.path.basename(source)
    keys = importheader.keys_of(script, name, environ, notes)
    spec = importbody.keys_of(script, keys, notes)
    place = RenderPlace(folder, environ)
    written, problem = _renderable(spec, keys, script, place, notes)
    if written is None and spec.get("launcher") != "shell":
        # what the launcher refuses the shell may take
        notes.append((0, "no other launcher takes this: all commands stay bash, with launcher shell"))
        written, problem = _renderable(importbody.as_lines(script, keys), keys, script, place, notes)
    if written is None:
        raise InputError([Problem(Place(source), f"there is no spec for this script: {problem}")])
    return Imported(written, sorted(set(notes)))


def _check_kind(script: Script, source: str, notes: list[Note]) -> None:
    """A script for bash, with one component."""
    first = script.lines[0] if script.text.startswith("#!") else ""
    words = first.removeprefix("#!").split() or [""]
    interpreter = os.path.basename(words[0])
    if interpreter == "env":
        interpreter = words[1] if len(words) > 1 else ""
    if interpreter not in ("bash", "sh"):
        what = f"is for {interpreter}" if interpreter else "does not start with #!/bin/bash"
        raise InputError([Problem(Place(source, 1, 1), f"{what}; only scripts for bash and sh can be imported")])
    for char, word in (("\0", "a NUL"), ("\r", "carriage returns: sed -i 's/\\r$//' first")):
        if char in script.text:
            line = script.text[: script.text.index(char)].count("\n") + 1
            raise InputError([Problem(Place(source, line, 1), f"holds {word}")])
    for directive in script.header:
        if directive.arguments[:1] in (["hetjob"], ["packjob"]):
            where = Place(source, directive.number, 1)
            raise InputError([Problem(where, "is a heterogeneous job, and a spec is one part")])
    if any(word.startswith("-") and "l" in word for word in words[1:]):
        notes.append((1, "a login shell reads profile files; the spec's script does not: name modules in `modules`"))


def _renderable(
    spec: Keys, header: Keys, script: Script, place: RenderPlace, notes: list[Note]
) -> tuple[str | None, str]:
    """The YAML of the keys that render. What is refused of the header is a note; None and why where more is."""
    spec = dict(spec)
    renderer = Renderer(NONE, None, None, None)
    while True:
        written = importyaml.write({key: spec[key] for key in (*_FIRST, *spec) if key in spec})
        try:
            renderer.render_all(merge.spec_file("-", written.encode()), "stdin", place, lambda: 1 << 22)
            return written, ""
        except UnicodeEncodeError:
            return None, "it holds bytes that are no UTF-8, and a spec is UTF-8"
        except InputError as error:
            problem = error.problems[0]
            match = _OF_KEY.search(problem.message)
            key = next((word.replace("-", "_") for word in match.groups() if word), "") if match else ""
            if key not in spec or key not in header or key in _NEEDED:
                return None, problem.message
            given = script.request.given.get(key.replace("_", "-"))
            notes.append((given.line if given else 0, f"{problem.message}; so it is not carried over"))
            del spec[key]

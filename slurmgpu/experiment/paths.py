"""The job's name, its working directory and its log files, made absolute and safe for Slurm's file patterns."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from slurmgpu.experiment.allocation import Refuse
from slurmgpu.experiment.options import OPTIONS
from slurmgpu.experiment.spec import Spec

_VARIABLE = r"\$(?:(\$)|([A-Za-z0-9_]+)|\{([A-Za-z0-9_]+)\})"
# sbatch(1), filename pattern; a number may stand between % and the letter
_PATTERN = r"%[0-9]*((?s:.)?)"
_LETTERS = frozenset("%AabJjNnrstux")
NAME_MAX_BYTES = 255  # of one file name on Linux


class Place(NamedTuple):
    """Where a render happens: its folder and environment, on which relative paths, ~ and $NAME depend."""

    folder: str
    environ: Mapping[str, str]


class Paths(NamedTuple):
    """The job's name and its absolute paths; `notes` are for stderr."""

    name: str
    chdir: str
    output: str
    error: str | None
    notes: list[str]

    def log_folders(self) -> list[str]:
        """The folders of the log files, where no pattern stands in them."""
        files = [self.output, self.error or self.output]
        return sorted({folder for file in files if "%" not in (folder := os.path.dirname(file))})

    def tell_arrays_apart(self) -> bool:
        """Whether tasks with the same number write to files of their own in each of several arrays."""
        files = [self.output, self.error or self.output]
        return all(set(re.findall(_PATTERN, file)) & {"A", "j", "J"} for file in files)


def paths(spec: Spec, source: str, place: Place, refuse: Refuse) -> Paths:
    """The name and paths of a job; `source` is the spec's file name, which names a job without a name."""
    name = spec.name or _name_from(source)
    notes: list[str] = []
    chdir = absolute("chdir", spec.chdir, place, refuse) if spec.chdir else place.folder
    here = Place(chdir, place.environ)
    default = "%x-%A_%a.out" if spec.array else "%x-%j.out"
    output = _log("output", spec.output or default, spec, name, here, refuse, notes)
    error = _log("error", spec.error, spec, name, here, refuse, notes) if spec.error else None
    return Paths(name, chdir, output, error, notes)


def resolve_options(options: dict[str, str | None], place: Place, refuse: Refuse) -> dict[str, str | None]:
    """sbatch's other options that are paths, made absolute: Slurm expands neither ~ nor $NAME."""
    return {
        name: absolute(name.replace("-", "_"), value, place, refuse, is_pattern=kind == "pattern")
        if value and (kind := OPTIONS[name].kind if name in OPTIONS else "") in ("path", "pattern")
        else value
        for name, value in options.items()
    }


def _name_from(source: str) -> str:
    stem = os.path.basename(source).rsplit(".", 1)[0]
    return re.sub(r"[^\w.-]+", "-", stem, flags=re.ASCII).strip("-.") or "job"


def absolute(key: str, text: str, place: Place, refuse: Refuse, is_pattern: bool = False) -> str:
    """An absolute path: `~` and `$NAME` expanded (`$$` is a dollar sign), the rest below `place.folder`.

    In a file pattern of Slurm's a percent sign that comes from outside of `text` stands for itself.
    """

    def from_outside(value: str) -> str:
        return value.replace("%", "%%") if is_pattern else value

    def value_of(match: re.Match[str]) -> str:
        dollar, plain, braced = match.groups()
        if dollar:
            return "$"
        name = plain or braced
        if name not in place.environ:
            refuse(key, f"names ${name}, which is not set here; set it, or write $$ for a dollar sign")
            return ""
        return from_outside(place.environ[name])

    if text == "~" or text.startswith("~/"):
        home = place.environ.get("HOME")
        if not home:
            refuse(key, "starts with ~, but HOME is not set here; write the path in full")
        text = from_outside(home or "/") + text[1:]
    elif text.startswith("~"):
        refuse(key, "starts with ~USER, which is not expanded; write the path in full")
    if "$" in text:
        text = re.sub(_VARIABLE, value_of, text)
    return os.path.normpath(os.path.join(from_outside(place.folder), text))


def _log(key: str, text: str, spec: Spec, name: str, place: Place, refuse: Refuse, notes: list[str]) -> str:
    if text.endswith("/"):
        refuse(key, "names a folder; add a file name such as %x-%j.out")
    path = absolute(key, _patterns_for_array(key, text, bool(spec.array), notes), place, refuse, is_pattern=True)
    if "\\" in path:
        refuse(key, "holds a backslash, with which Slurm turns its patterns off; leave it out")
    letters = set(re.findall(_PATTERN, path))
    if wrong := sorted(letters - _LETTERS):
        refuse(key, f"holds %{wrong[0]}, which is no pattern of Slurm's; write %% for a percent sign")
    if not spec.array and "a" in letters:
        refuse(key, "holds %a, which outside an array is 4294967294; write %j")
    if not letters & ({"j", "J", "a"} if spec.array else {"j", "J", "A"}):
        wanted = "%A_%a: every task" if spec.array else "%j: every run"
        notes.append(f"`{key}` has no {wanted} writes to the same file")
    if step := sorted(letters & set("nst")):
        notes.append(f"`{key}` has %{step[0]}, which tells steps apart; the whole job has one log")
    longest = os.path.basename(path).replace("%x", name)
    if len(longest.encode("utf-8", "surrogateescape")) + 16 > NAME_MAX_BYTES:
        refuse(key, "comes to a file name longer than the 255 bytes that a file system takes; shorten `name`")
    return path


def _patterns_for_array(key: str, text: str, is_array: bool, notes: list[str]) -> str:
    """%j names array tasks by unrelated ids, and %a outside an array is 4294967294 (job_array page)."""
    bare = text.replace("%%", "")
    if is_array and "%j" in bare and "%a" not in bare:
        notes.append(f"`{key}`: %j became %A_%a, so that an array's logs stand together")
        return re.sub(r"(?<!%)((?:%%)*)%j", r"\1%A_%a", text)
    if not is_array and "%A_%a" in bare:
        notes.append(f"`{key}`: %A_%a became %j, because this is no array")
        return re.sub(r"(?<!%)((?:%%)*)%A_%a", r"\1%j", text)
    return text

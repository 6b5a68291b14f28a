"""A sweep: points of parameters, which become the tasks of one job array or of several.

Three forms: a grid (names to lists of values, the last name fastest), a list of points, a CSV file. A point reaches
the program as variables (SWEEP_LR) and as arguments (program.py). Its index counts from 0 in the order written.
"""

import itertools
import math
import os
import re

from slurmgpu.errors import Place, Problem
from slurmgpu.experiment import kinds
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.kinds import Say
from slurmgpu.experiment.yamltext import Data, Path

MAX_POINTS = 100_000
MAX_FILE_BYTES = 32 * 1024 * 1024

_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
_SHOWN = 20  # problems of one CSV file; the rest are counted

Point = tuple[str, ...]


class Sweep(Fields):
    """Parameter names and points as written. `file` is a CSV file that is still to be read."""

    names: list[str]
    points: list[Point]
    file: str | None = None


def variable(name: str) -> str:
    """The environment variable of a parameter."""
    return "SWEEP_" + re.sub(r"[.-]", "_", name).upper()


def sweep(data: Data, path: Path, say: Say) -> Sweep | None:
    """The `sweep` key."""
    if isinstance(data, list):
        return _listed(data, path, say)
    if not isinstance(data, dict):
        say(path, "must be a grid {lr: [1e-3, 1e-4]}, a list of points, or {file: points.csv}")
        return None
    if isinstance(data.get("file"), str):
        if len(data) > 1:
            say(path, "takes its parameters from `file` or from lists, not from both")
        file = kinds.directory(data["file"], (*path, "file"), say)
        return Sweep(names=[], points=[], file=file) if file else None
    return _grid(data, path, say)


def _grid(data: dict[str, Data], path: Path, say: Say) -> Sweep | None:
    _check_names(list(data), path, say)
    values: list[list[str]] = []
    for name, items in data.items():
        if not isinstance(items, list):
            say((*path, name), "must be a list of values, such as [1e-3, 1e-4]")
        elif not items:
            say((*path, name), "is an empty list, which leaves no point to run")
        else:
            values.append([_value(item, (*path, name, index), say) for index, item in enumerate(items)])
    if not values:
        if not data:
            say(path, "has no parameters, and so no point to run")
        return None
    size = math.prod(map(len, values))
    if size > MAX_POINTS:
        say(path, f"has {size} points; {MAX_POINTS} are the most")
        return None
    return Sweep(names=list(data), points=list(itertools.product(*values)))


def _listed(data: list[Data], path: Path, say: Say) -> Sweep | None:
    if not data:
        say(path, "is an empty list, which leaves no point to run")
        return None
    if not all(isinstance(point, dict) and point for point in data):
        first = next(index for index, point in enumerate(data) if not (isinstance(point, dict) and point))
        say((*path, first), "must be a point, such as {lr: 1e-3, seed: 1}")
        return None
    names = list(data[0])
    _check_names(names, (*path, 0), say)
    points = []
    for index, point in enumerate(data):
        if point.keys() != data[0].keys():
            say((*path, index), f"has {', '.join(point)}, but the first point has {', '.join(names)}")
            continue
        points.append(tuple(_value(point[name], (*path, index, name), say) for name in names))
    return Sweep(names=names, points=points)


def _value(data: Data, path: Path, say: Say) -> str:
    if data is None:
        say(path, "has no value; write '' for an empty one")
        return ""
    return kinds.anything(data, path, say) or ""


def _check_names(names: list[str], path: Path, say: Say) -> None:
    for index, name in enumerate(names):
        if problem := _bad_name(name, names[:index]):
            say((*path, name), problem, of_key=True)


def _bad_name(name: str, before: list[str]) -> str | None:
    """What is wrong with a parameter's name after those before it, or None."""
    if name == "max_parallel":
        return "`max_parallel` stands beside `sweep`, not in it"
    if not re.fullmatch(_NAME, name):
        return f"{name!r} cannot be a parameter's name; use letters, digits, _ . and -, and start with a letter"
    twin = next((other for other in before if variable(other) == variable(name)), None)
    if twin is not None:
        return f"the parameters {twin!r} and {name!r} would both be ${variable(name)}; rename one"
    return None


def read_csv(path: str, named_at: Place, problems: list[Problem]) -> Sweep:
    """The points of a CSV file with a header row; what is wrong with it is added to `problems`."""
    nothing = Sweep(names=[], points=[])
    try:
        if not os.path.isfile(path):
            raise FileNotFoundError(0, "there is no such file" if not os.path.exists(path) else "is not a file")
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        problems.append(Problem(named_at, f"`sweep` names {path}, which cannot be read: {error.strerror}"))
        return nothing
    if len(content) > MAX_FILE_BYTES:
        problems.append(Problem(Place(path), f"is larger than {MAX_FILE_BYTES >> 20} MiB"))
        return nothing
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.append(Problem(Place(path, line, 1), f"is not UTF-8 text (byte 0x{content[error.start]:02x})"))
        return nothing
    found: list[Problem] = []
    read = _rows(text, path, found)
    problems.extend(found[:_SHOWN])
    if len(found) > _SHOWN:
        problems.append(Problem(Place(path), f"has {len(found) - _SHOWN} more faults of this kind"))
    return read


def _rows(text: str, file: str, problems: list[Problem]) -> Sweep:
    import csv  # only a sweep with a file pays for it
    import io

    def say(path: Path, message: str, *, of_key: bool = False) -> None:
        problems.append(Problem(Place(file, int(path[0]), 1), message))

    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: list[str] = []
    points: list[Point] = []
    line = 1
    try:
        for row in rows:
            start, line = line, rows.line_num + 1
            if not row:
                continue
            if not names:
                names = row
                for index, name in enumerate(names):
                    if problem := _bad_name(name, names[:index]):
                        say((start,), f"{problem} (the first row names the parameters)")
            elif len(row) != len(names):
                say((start,), f"has {len(row)} values, but the header names {len(names)} parameters")
            elif len(points) == MAX_POINTS:
                say((start,), f"is one point too many: {MAX_POINTS} are the most")
                break
            else:
                points.append(tuple(kinds.anything(value, (start,), say) or "" for value in row))
    except csv.Error as error:
        say((rows.line_num,), f"is not CSV: {error}")
        return Sweep(names=names, points=points)
    if not points and not problems:
        say((line,), "has no point to run: a header row names the parameters, and each further row is a point")
    return Sweep(names=names, points=points)


def duplicates(sweep: Sweep) -> str | None:
    """A note about points that are the same, or None."""
    first: dict[Point, int] = {}
    for index, point in enumerate(sweep.points):
        if point in first:
            more = len(sweep.points) - len(set(sweep.points))
            return f"`sweep`: point {index} is the same as point {first[point]}" + (
                f"; so are {more - 1} others" if more > 1 else ""
            )
        first[point] = index
    return None

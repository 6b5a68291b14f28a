"""The job arrays of a sweep: MaxArraySize caps the index, so a long sweep is several arrays with an offset each."""

import os
from collections.abc import Callable
from typing import NamedTuple

from slurmgpu.errors import Problem
from slurmgpu.experiment.allocation import Refuse
from slurmgpu.experiment.merge import Merged
from slurmgpu.experiment.paths import Place, absolute
from slurmgpu.experiment.shell import sh
from slurmgpu.experiment.spec import Spec
from slurmgpu.experiment.sweep import Point, Sweep, read_csv, variable

DEFAULT_MAX_ARRAY_SIZE = 1001  # slurm.conf(5)


class Part(NamedTuple):
    """The points of one job array: its task 0 is point `offset` of all `size` ones; `number` of `parts` from 1."""

    names: list[str]
    points: list[Point]
    offset: int
    size: int
    number: int
    parts: int
    max_parallel: int | None = None

    @property
    def array(self) -> str:
        """The value of --array."""
        throttle = f"%{self.max_parallel}" if self.max_parallel else ""
        return f"0-{len(self.points) - 1}{throttle}"

    @property
    def variables(self) -> list[str]:
        """The variables of the parameters."""
        return [variable(name) for name in self.names]

    @property
    def table(self) -> str:
        """One line of a bash `case` for each point."""
        lines = (
            f"{index}) point {' '.join(map(sh, point))} ;;" for index, point in enumerate(self.points, self.offset)
        )
        return "\n".join(lines)


def parts(sweep: Sweep, max_array_size: int | None, max_parallel: int | None) -> list[Part]:
    """The arrays of a sweep: MaxArraySize caps the index, so each starts at 0 again and has an offset."""
    most = max(1, max_array_size or DEFAULT_MAX_ARRAY_SIZE)
    offsets = range(0, len(sweep.points), most)
    return [
        Part(
            names=sweep.names,
            points=sweep.points[offset : offset + most],
            offset=offset,
            size=len(sweep.points),
            number=number,
            parts=len(offsets),
            max_parallel=max_parallel,
        )
        for number, offset in enumerate(offsets, start=1)
    ]


def parts_of(
    spec: Spec,
    merged: Merged,
    place: Place,
    max_array_size: Callable[[], int | None],
    problems: list[Problem],
    refuse: Refuse,
) -> list[Part]:
    """The arrays of the spec's sweep, whose file is read here; none without a sweep."""
    if spec.sweep is None:
        return []
    if spec.sweep.file is not None:
        named_at = merged.places[("sweep", "file")]
        folder = os.path.join(place.folder, os.path.dirname(named_at.file))
        path = absolute("sweep", spec.sweep.file, Place(folder, place.environ), refuse)
        spec.sweep = read_csv(path, named_at, problems)
    taken = {variable(name): name for name in spec.sweep.names}
    for key in ("env", "secrets"):
        for name in taken.keys() & getattr(spec, key).keys():
            refuse(key, f"sets {name}, which holds the sweep's {taken[name]}")
    most = None if problems else max_array_size()  # the cluster is not waited for to refuse a spec
    if most == 0:
        refuse("sweep", "needs job arrays, and this cluster has none (MaxArraySize 0)")
    return parts(spec.sweep, most, spec.max_parallel)

"""What a script's header asks of Slurm, in numbers: the same for a rendered script and one written by hand."""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from slurmgpu.experiment.arguments import Given, last_of, read_options
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.header import read_header
from slurmgpu.slurmtext import array_last_index, expand_hostlist, parse_mem, parse_time

T = TypeVar("T")
_COUNT = re.compile(r"(\d+)([kKmMgGtTpP]?)")


class Gres(NamedTuple):
    """A generic resource of each node: `gpu`, `a100` (or "" for any type), 4."""

    name: str
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}:{self.kind}:{self.number}" if self.kind else f"{self.name}:{self.number}"


class Request(Fields):
    """The numbers of a job. None where the script does not say; sizes are of each node, memory in MiB.

    Of a heterogeneous job it is the first of `components`. `nodes` is the least number of nodes, None where Slurm
    may choose; then `ntasks` and `gpus_total` are of the job. `mem_mib` 0 is a node's whole memory. `time_s` is None
    without --time, and 0 for UNLIMITED.
    `given` holds the options by name, `faults` what cannot be read: (option or "", line, message).
    """

    given: dict[str, Given]
    faults: list[tuple[str, int, str]]
    nodes: int | None = None
    ntasks: int | None = None
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    cpus_per_node: int = 1
    mem_mib: int | None = None
    mem_per_cpu: int | None = None
    gres: list[Gres] = []
    gpus_total: Gres | None = None
    time_s: int | None = None
    partitions: list[str] = []
    nodelist: list[str] = []
    exclude: list[str] = []
    last_index: int | None = None
    is_exclusive: bool = False
    components: int = 1

    def text(self, option: str) -> str | None:
        """The value of an option as given."""
        found = self.given.get(option)
        return found.value if found else None

    @property
    def gpu_option(self) -> str:
        """The option that asks for the GPUs."""
        return next((name for name in ("gpus-per-node", "gpus-per-task", "gpus") if name in self.given), "gres")

    @property
    def gpus_per_node(self) -> int:
        """All GPUs of a node, whatever their type."""
        return sum(gres.number for gres in self.gres if gres.name == "gpu")


def read(script: str) -> Request:
    """The request of a script's header."""
    try:
        lines = read_header(script)
    except ValueError as error:
        return Request(given={}, faults=[("", 0, str(error))])
    components = [index for index, line in enumerate(lines) if line.arguments[:1] in (["hetjob"], ["packjob"])]
    lines = lines[: components[0]] if components else lines
    found, faults = read_options(lines)
    request = Request(given=last_of(found), faults=[("", fault.line, fault.message) for fault in faults])
    request.components = len(components) + 1
    _read_places(request)
    _read_time(request)
    _read_tasks(request)
    _read_gres(request)
    _read_cpus(request)
    _read_mem(request)
    return request


def _value(request: Request, option: str, read: Callable[[str], T]) -> T | None:
    """The option's value through `read`; a value that cannot be read is a fault, and None."""
    given = request.given.get(option)
    if given is None or given.value is None:
        return None
    try:
        return read(given.value)
    except ValueError as error:
        request.faults.append((option, given.line, f"--{option}: {error}"))
        return None


def _number(text: str) -> int:
    match = _COUNT.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a number")
    power = " KMGTP".index(match[2].upper() or " ")
    return int(match[1]) << (10 * power)


def _integer(request: Request, option: str) -> int | None:
    return _value(request, option, _number)


def _read_places(request: Request) -> None:
    request.partitions = [name for name in (request.text("partition") or "").split(",") if name]
    for option in ("nodelist", "exclude"):
        if "/" not in (request.text(option) or ""):  # with a slash it is a file
            setattr(request, option, _value(request, option, expand_hostlist) or [])
    request.last_index = _value(request, "array", array_last_index)
    exclusive = request.given.get("exclusive")
    request.is_exclusive = exclusive is not None and exclusive.value in (None, "exclusive", "topo")


def _read_time(request: Request) -> None:
    if "time" in request.given:
        request.time_s = _value(request, "time", lambda text: parse_time(text) or 0)


def _read_tasks(request: Request) -> None:
    nodes = request.text("nodes")
    if nodes:
        # 2, 2-4, and since 23.02 2,4-6: the least number counts
        first = re.match(r"(\d+)", nodes)
        if first:
            request.nodes = int(first[1])
        else:
            line = request.given["nodes"].line
            request.faults.append(("nodes", line, f"--nodes: {nodes!r} is not a number of nodes"))
    request.ntasks = _integer(request, "ntasks")
    per_node = _integer(request, "ntasks-per-node")
    if request.ntasks and request.nodes:
        request.tasks_per_node = -(-request.ntasks // request.nodes)
    elif request.ntasks and per_node:
        request.nodes = -(-request.ntasks // per_node)
        request.tasks_per_node = per_node
    elif per_node:
        request.tasks_per_node = per_node
    if request.nodes is None and request.nodelist:
        request.nodes = len(request.nodelist)
    if request.nodes is None and request.ntasks is None:
        request.nodes = 1


def read_gres(text: str, name: str = "") -> list[Gres]:
    """`gpu:a100:2,nvme`, or with the name given beforehand `a100:2`; a missing count is 1. ValueError as Slurm's."""
    found = []
    for part in text.split(","):
        words = [word for word in part.replace("=", ":").split(":") if word]
        if not words:
            raise ValueError(f"{text!r} holds an empty resource")
        if not name:
            words[0] = words[0].removeprefix("gres/")
        else:
            words.insert(0, name)
        if words[0] == "none":
            continue
        if len(words) > 3:
            raise ValueError(f"{part!r} is no resource; write name:type:count")
        count = 1
        if len(words) > 1 and _COUNT.fullmatch(words[-1]):
            count = _number(words.pop())
        elif len(words) == 3:
            raise ValueError(f"{part!r} has no number at its end; write name:type:count")
        found.append(Gres(words[0], words[1] if len(words) > 1 else "", count))
    return found


def _read_gres(request: Request) -> None:
    gres: list[Gres] = []
    for option, name, factor in (
        ("gres", "", 1),
        ("gpus-per-node", "gpu", 1),
        ("gpus-per-task", "gpu", request.tasks_per_node),
    ):
        found = _value(request, option, partial(read_gres, name=name))
        if found:
            gres.extend(one._replace(number=one.number * factor) for one in found)
    total = _value(request, "gpus", partial(read_gres, name="gpu"))
    if total:
        request.gpus_total = total[0]
        if request.nodes == 1:
            gres.extend(total)
    if request.nodes is None and "gpus-per-task" in request.given and gres:
        request.gpus_total = gres[-1]._replace(number=gres[-1].number * (request.ntasks or 1))
    request.gres = gres


def _read_cpus(request: Request) -> None:
    request.cpus_per_task = _integer(request, "cpus-per-task") or 1
    per_gpu = _integer(request, "cpus-per-gpu")
    request.cpus_per_node = request.cpus_per_task * request.tasks_per_node
    if per_gpu and request.gpus_per_node:
        request.cpus_per_node = max(request.cpus_per_node, per_gpu * request.gpus_per_node)


def _read_mem(request: Request) -> None:
    mem = _value(request, "mem", parse_mem)
    per_cpu = _value(request, "mem-per-cpu", parse_mem)
    per_gpu = _value(request, "mem-per-gpu", parse_mem)
    if per_cpu is not None:
        request.mem_per_cpu = per_cpu
        request.mem_mib = per_cpu * request.cpus_per_node
    elif per_gpu is not None:
        request.mem_mib = per_gpu * request.gpus_per_node
    else:
        request.mem_mib = mem

"""The experiment spec: which keys there are, what each may hold, and the checks that need no cluster.

A key that is an sbatch long option carries that option's name with `_` for `-`. Only what sbatch has no word
for gets a key or a block of its own.
"""

from functools import partial
from typing import Any

from slurmgpu.errors import InputError, Place, Problem, nearest
from slurmgpu.experiment import checkpoint, container, kinds
from slurmgpu.experiment.checkpoint import Checkpoint
from slurmgpu.experiment.container import Container
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.kinds import Kind, Say
from slurmgpu.experiment.options import OPTIONS, REFUSED, WRITTEN
from slurmgpu.experiment.sweep import Sweep, sweep
from slurmgpu.experiment.yamltext import Data, Path

# One flag at most of each group may end up in a script. Choosing a member drops an inherited rival.
RIVALS: tuple[tuple[str, ...], ...] = (
    ("mem", "mem_per_cpu", "mem_per_gpu"),
    ("cpus_per_task", "cpus_per_gpu"),
    ("gpus", "gpus_per_node"),
    ("conda", "venv", "uv"),
    ("exclusive", "oversubscribe"),
    ("array", "sweep"),
)


class Torchrun(Fields):
    """The `torchrun:` block. `exit_wait`: what other nodes get once one has ended, D-HH:MM:SS or UNLIMITED."""

    rendezvous: str = "c10d"
    nproc_per_node: int | None = None
    max_restarts: int = 0
    exit_wait: str = "0-00:01:00"


class Spec(Fields):
    """A checked spec. Times are in the form D-HH:MM:SS, memory in MiB; None means not given."""

    command: list[str] | str
    name: str | None = None
    launcher: str | None = None
    nodes: int = 1
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpu_type: str | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    mem: int | None = None
    mem_per_cpu: int | None = None
    mem_per_gpu: int | None = None
    time: str | None = None
    gres: str | None = None
    constraint: str | None = None
    nodelist: str | None = None
    array: str | None = None
    sweep: Sweep | None = None
    max_parallel: int | None = None
    exclusive: bool | str | None = None
    chdir: str | None = None
    output: str | None = None
    error: str | None = None
    open_mode: str = "append"
    requeue: bool | str = False
    env: dict[str, str] = {}
    secrets: dict[str, str | None] = {}
    modules: list[str] = []
    conda: str | None = None
    venv: str | None = None
    uv: str | None = None
    setup: str | None = None
    torchrun: Torchrun = Torchrun()
    container: Container | None = None
    checkpoint: Checkpoint | None = None
    force: bool = False
    profile: str | None = None
    sbatch: dict[str, str | None] = {}
    # options handed to sbatch as they are: long option -> value, None for a bare flag
    options: dict[str, str | None] = {}


class Block:
    """A mapping with a fixed set of keys, made into `make(**values)`."""

    def __init__(self, fields: dict[str, Kind], make: Any) -> None:
        self.fields, self.make = fields, make

    def __call__(self, data: Data, path: Path, say: Say) -> Any:
        """The block's record."""
        if not isinstance(data, dict):
            say(path, f"must be a mapping with {', '.join(self.fields)}")
            return None
        values = {}
        for key, value in data.items():
            if key not in self.fields:
                say((*path, key), unknown(key, list(self.fields)), of_key=True)
            elif (checked := self.fields[key](value, (*path, key), say)) is not None:
                values[key] = checked
        return self.make(**values)


def unknown(key: str, known: list[str], what: str = "key") -> str:
    """The message for a word that is not known, with the nearest one that is."""
    guess = nearest(key, known)
    return f"unknown {what} {key!r}" + (f"; did you mean {guess!r}?" if guess else "")


def _exclusive(data: Data, path: Path, say: Say) -> bool | str | None:
    if data in ("user", "mcs", "topo"):
        return str(data)
    return kinds.truth(data, path, say)


def _requeue(data: Data, path: Path, say: Say) -> bool | str | None:
    return "expedite" if data == "expedite" else kinds.truth(data, path, say)


def _name(data: Data, path: Path, say: Say) -> str | None:
    name = kinds.text(data, path, say)
    if name and "/" in name:
        say(path, "holds a `/`, which would become a folder in the log's path; write - or _")
        return None
    return name


def _gpu_type(data: Data, path: Path, say: Say) -> str | None:
    name = kinds.text(data, path, say)
    if name and (set(name) & set(":=,() ") or name.rstrip("kKmMgGtTpPeE").isdigit()):
        # Slurm reads gpu:3g as 3 x 2^30 GPUs
        say(path, f"{name!r} would be read as a count; write the whole gres type, such as h100 or 1g.10gb")
        return None
    return name


# options whose name means something else as a key of the spec
_OTHER_MEANING = ("profile", "container")


def _sbatch(data: Data, path: Path, say: Say) -> dict[str, str | None] | None:
    """The `sbatch:` block: any other long option; `true` is a bare flag."""
    if not isinstance(data, dict):
        say(path, "must be a mapping of long options to values, such as {segment: 4}")
        return None
    options: dict[str, str | None] = {}
    for key, value in data.items():
        name = key.replace("_", "-").removeprefix("--")
        here = (*path, key)
        if not name.replace("-", "").isalnum() or not name.isascii() or name != name.lower():
            say(here, f"{key!r} is not a long option's name", of_key=True)
        elif name in WRITTEN:
            say(
                here,
                f"--{name}: write `{name.replace('-', '_')}` as a key of the spec; it is checked there",
                of_key=True,
            )
        elif name in REFUSED and name not in _OTHER_MEANING:
            say(here, f"--{name} is not taken: {REFUSED[name]}", of_key=True)
        elif name in options:
            say(here, f"--{name} stands here twice; keep one of them", of_key=True)
        elif name not in OPTIONS and name not in _OTHER_MEANING and (whole := _whole_name(name)):
            say(here, f"--{name} is short for --{whole}; write it in full", of_key=True)
        elif value is None or value == "true":
            options[name] = None
        elif (checked := _kind_of(name)(value, here, say)) is not None and checked is not False:
            options[name] = _value_of(name, checked)
    return options


def _whole_name(name: str) -> str | None:
    """The option that sbatch takes `name` for: any unique beginning will do for getopt_long."""
    return next((known for known in (*OPTIONS, *WRITTEN, *REFUSED) if known.startswith(name) and known != name), None)


def _kind_of(name: str) -> Kind:
    option = OPTIONS.get(name)
    return kinds.text if option is None else _option_kind(option.kind, option.max_bytes)


def _value_of(name: str, checked: Any) -> str | None:
    """A checked value as sbatch takes it; None is a bare flag."""
    if checked is True:
        return None
    return f"{checked}M" if name in OPTIONS and OPTIONS[name].kind == "mem" else str(checked)


def _option_kind(kind: str, max_bytes: int) -> Kind:
    if kind == "integer":
        return kinds.counting
    if kind == "time":
        return kinds.time
    if kind == "mem":
        return kinds.mem
    if kind == "flag":
        return kinds.truth
    if kind == "flag-or-text":
        return _flag_or_text
    if kind == "flag-or-integer":
        return _flag_or_integer
    return partial(kinds.text, max_bytes=max_bytes)


def _flag_or_text(data: Data, path: Path, say: Say) -> bool | str | None:
    return data == "true" if data in ("true", "false") else kinds.text(data, path, say)


def _flag_or_integer(data: Data, path: Path, say: Say) -> bool | int | None:
    # sbatch reads a word as 0 without a word
    return data == "true" if data in ("true", "false") else kinds.integer(data, path, say, least=-(2**31))


KEYS: dict[str, Kind] = {
    "name": _name,
    "command": kinds.command,
    "launcher": kinds.OneOf("torchrun", "srun", "python", "shell"),
    "nodes": kinds.integer,
    "gpus": kinds.counting,
    "gpus_per_node": kinds.counting,
    "gpu_type": _gpu_type,
    "ntasks_per_node": kinds.integer,
    "cpus_per_task": kinds.integer,
    "cpus_per_gpu": kinds.integer,
    "mem": kinds.mem,
    "mem_per_cpu": kinds.some_mem,
    "mem_per_gpu": kinds.some_mem,
    "time": kinds.time,
    "gres": kinds.text,
    "constraint": kinds.text,
    "nodelist": partial(kinds.text, max_bytes=64 * 1024 - 1),
    "array": kinds.array,
    "sweep": sweep,
    "max_parallel": kinds.integer,
    "exclusive": _exclusive,
    "chdir": kinds.directory,
    "output": kinds.directory,
    "error": kinds.directory,
    "open_mode": kinds.OneOf("append", "truncate"),
    "requeue": _requeue,
    "env": kinds.environment,
    "secrets": kinds.secrets,
    "modules": kinds.words,
    "conda": kinds.directory,
    "venv": kinds.directory,
    "uv": kinds.directory,
    "setup": kinds.script,
    "torchrun": Block(
        {
            "rendezvous": kinds.OneOf("c10d", "static"),
            "nproc_per_node": kinds.integer,
            "max_restarts": kinds.counting,
            "exit_wait": kinds.time,
        },
        Torchrun,
    ),
    "container": Block(container.KINDS, Container),
    "checkpoint": Block(checkpoint.KINDS, Checkpoint),
    "force": kinds.truth,
    "profile": kinds.text,
    "sbatch": _sbatch,
}
KEYS.update((name.replace("-", "_"), _option_kind(option.kind, option.max_bytes)) for name, option in OPTIONS.items())
# these take a list too, joined by commas
_joined: Kind = kinds.joined
KEYS |= dict.fromkeys(("partition", "exclude", "nodelist", "mail_type", "licenses", "clusters"), _joined)

# keys whose value may be a list or a mapping
STRUCTURED = frozenset(
    {"command", "secrets", "modules", "env", "torchrun", "sbatch", "sweep", "container", "checkpoint"}
    | {key for key, kind in KEYS.items() if kind is _joined}
)

# keys of the design that this version does not render yet: a clear word beats "unknown key"
NOT_YET = ("monitor", "trace")


def check(
    data: Data,
    places: dict[Path, Place],
    key_places: dict[Path, Place],
    file: str,
    of_keys: list[Problem] | None = None,
) -> Spec:
    """The Spec of merged data. Raises InputError with every problem found.

    With `of_keys` problems of keys alone, such as an unknown one, are put there instead of raised: the rest of the
    spec can still be judged, so that a person sees all errors at once.
    """
    problems: list[Problem] = []

    def say(path: Path, message: str, *, of_key: bool = False) -> None:
        first, second = (key_places, places) if of_key else (places, key_places)
        subject = ".".join(str(part) for part in path)
        text = f"`{subject}` {message}" if subject and not of_key else message
        target = problems if of_keys is None or not of_key else of_keys
        target.append(Problem(place_of(path, first, second, file), text))

    if data is None:
        raise InputError([Problem(Place(file, 1, 1), "is empty; a spec starts with `command: train.py`")])
    if not isinstance(data, dict):
        raise InputError([Problem(Place(file, 1, 1), "must be a mapping of keys to values, `key: value` a line")])
    values: dict[str, Any] = {}
    options: dict[str, str | None] = {}
    for key, item in data.items():
        _check_key(key, item, values, options, say)
    _check_together(data, values, say)
    container.check(data, values, say)
    checkpoint.check(data, values, say)
    if problems:
        raise InputError([*problems, *(of_keys or [])])
    return Spec(**values, options=options)


def place_of(path: Path, first: dict[Path, Place], second: dict[Path, Place], file: str) -> Place:
    """The place of the longest known part of `path`."""
    while path:
        found = first.get(path) or second.get(path)
        if found:
            return found
        path = path[:-1]
    return Place(file, 1, 1)


def _check_key(key: str, item: Data, values: dict[str, Any], options: dict[str, str | None], say: Say) -> None:
    if key in NOT_YET:
        say((key,), "is not supported in this version")
        return
    kind = KEYS.get(key)
    if kind is None:
        say((key,), _unknown_key(key), of_key=True)
        return
    if item is None:
        say((key,), "has no value; write one or remove the key")
        return
    value = kind(item, (key,), say)
    if value is None:
        return
    option = key.replace("_", "-")
    if option not in OPTIONS:
        values[key] = value
    elif value is not False:
        options[option] = _value_of(option, value)


def _unknown_key(key: str) -> str:
    refused = REFUSED.get(key.replace("_", "-"))
    if refused:
        return f"unknown key {key!r}: {refused}"
    return unknown(key, [*KEYS, "extends"])


def _check_together(data: dict[str, Data], values: dict[str, Any], say: Say) -> None:
    """Keys that cannot stand beside each other, and what must be there."""
    if "command" not in data:
        say((), "the key `command` is missing: what is to run, such as `command: train.py --lr 3e-4`")
    for group in RIVALS:
        present = [key for key in group if key in data]
        if len(present) > 1:
            say((present[1],), f"cannot stand beside `{present[0]}`; keep one of them")
    if "max_parallel" in values and "sweep" not in data:
        say(("max_parallel",), "is of a sweep; behind an array's indexes write %, such as `array: 0-9%4`")
    launcher = values.get("launcher")
    if launcher == "shell" and isinstance(values.get("command"), list):
        say(("command",), "must be one text with launcher shell, not a list")
    if launcher != "shell" and isinstance(values.get("command"), str):
        _split(values, say)
    elif launcher == "shell" and "\r" in (values.get("command") or ""):
        say(("command",), "holds a carriage return, for which sbatch refuses the whole script")
    for name in values.get("sbatch") or {}:
        if name.replace("-", "_") in data and name in OPTIONS:
            say(("sbatch", name), f"--{name} stands in the spec twice; keep one of them", of_key=True)
    gres = values.get("gres") or ""
    if any(part.replace("=", ":").partition(":")[0].removeprefix("gres/") == "gpu" for part in gres.split(",")):
        say(("gres",), "is for other resources; write GPUs as `gpus_per_node` and `gpu_type`")
    if "/" in (values.get("nodelist") or ""):
        say(("nodelist",), "holds a `/`, which makes sbatch read it as a file; write node names")


def _split(values: dict[str, Any], say: Say) -> None:
    try:
        values["command"] = kinds.split_command(values["command"])
    except ValueError as error:
        say(("command",), str(error))

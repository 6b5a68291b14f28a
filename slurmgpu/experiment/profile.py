"""The cluster profile: what differs between sites, as data in a TOML file.

Looked up as a path, then as NAME.toml in ~/.config/slurmgpu/profiles and /etc/slurmgpu/profiles. Without a
profile rendering works, and what could not be checked is said.
"""

import os
from typing import Any

from slurmgpu.errors import InputError, Place, Problem, nearest
from slurmgpu.experiment.container import RUNTIMES
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.options import Version, parse_version
from slurmgpu.experiment.yamltext import Data, Document, Path
from slurmgpu.slurmtext import parse_mem, parse_time

GPU_DIALECTS = ("gres", "gpus-per-node", "gpus", "gres+constraint")
MEM_DIALECTS = ("mem", "mem-per-cpu")


class Partition(Fields):
    """One partition's limits and the size of its nodes; None where the profile does not say.

    The sizes are of its largest nodes. `cpus_per_gpu` and `mem_per_gpu` are the share of a GPU; without them it is
    reckoned from the node. `types` has sizes by GPU type where the partition's nodes differ.
    """

    max_time_s: int | None = None
    nodes: int | None = None
    cpus_per_node: int | None = None
    mem_per_node: int | None = None  # MiB
    gpus_per_node: int | None = None
    gpu_types: list[str] | None = None
    cpus_per_gpu: int | None = None
    mem_per_gpu: int | None = None  # MiB
    types: dict[str, "Partition"] = {}


class Profile(Fields):
    """A site: dialects, limits, defaults for any spec key, lines for every script."""

    name: str
    slurm_version: Version | None = None
    gpu_dialect: str = "gres"
    mem_dialect: str = "mem"
    max_array_size: int | None = None
    default_partition: str | None = None
    nccl_socket_ifname: str | None = None
    gloo_socket_ifname: str | None = None
    module_init: str | None = None
    container_runtime: str | None = None
    setup: str | None = None
    defaults: dict[str, Data] = {}
    partitions: dict[str, Partition] = {}


NONE = Profile(name="")


def folders() -> list[str]:
    """Where profiles are looked up by name, the user's before the site's."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return [os.path.join(home, "slurmgpu", "profiles"), "/etc/slurmgpu/profiles"]


def find(name: str | None, named_at: Place) -> Profile:
    """The profile `name` (a name or a path), or the one called `default`, or NONE where there is none."""
    if name is not None and (os.sep in name or name.endswith(".toml")):
        return load(os.path.expanduser(name), named_at)
    for folder in folders():
        path = os.path.join(folder, f"{name or 'default'}.toml")
        if os.path.exists(path):
            return load(path, named_at)
    if name is None:
        return NONE
    known = names()
    guess = nearest(name, known)
    hint = f"; did you mean {guess!r}?" if guess else f"; there is {', '.join(known) or 'none'} here"
    raise InputError([Problem(named_at, f"no profile {name!r} in {' or '.join(folders())}{hint}")])


def names() -> list[str]:
    """Every profile that can be named here."""
    return sorted({file.removesuffix(".toml") for folder in folders() for file in _toml_files(folder)})


def _toml_files(folder: str) -> list[str]:
    try:
        return [file for file in os.listdir(folder) if file.endswith(".toml")]
    except OSError:
        return []


def load(path: str, named_at: Place) -> Profile:
    """The profile in the file `path`; InputError with every fault in it."""
    import tomllib  # 12 ms that a spec without a profile does not pay

    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise InputError([Problem(named_at, f"profile {path} cannot be read: {error.strerror}")]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError([Problem(Place(path), f"not valid TOML: {error}")]) from None
    return _check(table, path)


def _check(table: dict[str, Any], path: str) -> Profile:
    problems: list[Problem] = []
    profile = Profile(name=os.path.basename(path).removesuffix(".toml"), partitions={})
    for key, value in table.items():
        if key == "partitions" and isinstance(value, dict):
            for name, fields in value.items():
                profile.partitions[name] = _partition(fields, f"partitions.{name}", path, problems)
        else:
            _fill(profile, _PROFILE_FIELDS, {key: value}, "", path, problems)
    if problems:
        raise InputError(problems)
    return profile


def _partition(fields: Any, where: str, path: str, problems: list[Problem]) -> Partition:
    partition = Partition(types={})
    types = fields.pop("types", {}) if isinstance(fields, dict) else {}
    _fill(partition, _PARTITION_FIELDS, fields, where, path, problems)
    if not isinstance(types, dict):
        problems.append(Problem(Place(path), f"`{where}.types` must be a table of GPU types"))
        return partition
    for kind, sizes in types.items():
        partition.types[kind] = Partition()
        _fill(partition.types[kind], _PARTITION_FIELDS, sizes, f"{where}.types.{kind}", path, problems)
    return partition


def _fill(target: Any, kinds: dict[str, Any], fields: Any, where: str, path: str, problems: list[Problem]) -> None:
    if not isinstance(fields, dict):
        problems.append(Problem(Place(path), f"`{where}` must be a table"))
        return
    for key, value in fields.items():
        label = f"{where}.{key}" if where else key
        if key not in kinds:
            guess = nearest(key, list(kinds))
            hint = f"; did you mean {guess!r}?" if guess else ""
            problems.append(Problem(Place(path), f"unknown key {label!r}{hint}"))
            continue
        attribute, read = kinds[key]
        try:
            setattr(target, attribute, read(value))
        except ValueError as error:
            problems.append(Problem(Place(path), f"`{label}` {error}"))


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"must be a whole number, not {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\r" in value or "\0" in value:
        raise ValueError(f"must be text, not {value!r}")
    return value


def _line(value: Any) -> str:
    if "\n" in _text(value):
        raise ValueError("must be one line")
    return str(value)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of names, not {value!r}")
    return [_line(item) for item in value]


def _choice(*words: str) -> Any:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}, not {value!r}")
        return str(value)

    return read


def _defaults(value: Any) -> dict[str, Data]:
    if not isinstance(value, dict):
        raise ValueError("must be a table of spec keys")
    return {key: as_typed(item) for key, item in value.items()}


def as_typed(value: Any) -> Data:
    """TOML and Python values in the form that the YAML reader gives: text, None, lists, mappings."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return [as_typed(item) for item in value]
    if isinstance(value, dict):
        return {str(key): as_typed(item) for key, item in value.items()}
    return str(value)


def defaults_document(profile: Profile) -> Document:
    """The profile's defaults as the weakest layer of a merge."""
    place = Place(f"profile {profile.name}")
    places: dict[Path, Place] = {(key,): place for key in profile.defaults}
    return Document(place.file, dict(profile.defaults), places, dict(places))


_PROFILE_FIELDS: dict[str, Any] = {
    "slurm_version": ("slurm_version", lambda value: parse_version(_text(value))),
    "gpu_dialect": ("gpu_dialect", _choice(*GPU_DIALECTS)),
    "mem_dialect": ("mem_dialect", _choice(*MEM_DIALECTS)),
    "max_array_size": ("max_array_size", _number),
    "default_partition": ("default_partition", _line),
    "nccl_socket_ifname": ("nccl_socket_ifname", _line),
    "gloo_socket_ifname": ("gloo_socket_ifname", _line),
    "module_init": ("module_init", _line),
    "container_runtime": ("container_runtime", _choice(*RUNTIMES)),
    "setup": ("setup", _text),
    "defaults": ("defaults", _defaults),
}
_PARTITION_FIELDS: dict[str, Any] = {
    "max_time": ("max_time_s", lambda value: parse_time(_line(value))),
    "nodes": ("nodes", _number),
    "cpus_per_node": ("cpus_per_node", _number),
    "mem_per_node": ("mem_per_node", lambda value: parse_mem(_line(value))),
    "gpus_per_node": ("gpus_per_node", _number),
    "gpu_types": ("gpu_types", _texts),
    "cpus_per_gpu": ("cpus_per_gpu", _number),
    "mem_per_gpu": ("mem_per_gpu", lambda value: parse_mem(_line(value))),
}

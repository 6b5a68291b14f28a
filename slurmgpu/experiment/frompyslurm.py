"""The cluster by pyslurm, in a child process: importing it without a usable slurm.conf ends the whole process.

pyslurm does not tell all that is needed, so one scontrol process runs beside it and answers for the rest:

* associations and QOS: pyslurm.db asks slurmdbd and knows no limit of a QOS; scontrol asks slurmctld, whose copy is
  what counts when a job comes in
* gres: `configured_gres` reads `gpu:3090:4` as 3090 GPUs without a type, leaves `shard:2K` out, and ends in an
  error at `no_consume`
"""

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import scontrol, slurm
from slurmgpu.experiment.cluster import Cluster, Node, Partition, Reservation, Source
from slurmgpu.experiment.options import parse_version

CHILD = os.path.join(os.path.dirname(__file__), "pyslurmchild.py")
FORMAT = "slurmgpu-pyslurm-1"
# ping is last: its line shows that slurmctld was there to the end
QUESTIONS = "show assoc_mgr users={user} flags=assoc,qos\nshow node\nping\n"
_UNLIMITED = "UNLIMITED"


def is_possible() -> bool:
    """Whether a pyslurm is installed; whether it works here is seen in the child only."""
    try:
        found = importlib.util.find_spec("pyslurm")
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None  # without one it is any folder of that name


class PyslurmSource:
    """Asks by pyslurm; where that fails and there is a `fallback`, that one is asked instead, with a note."""

    name = "pyslurm"

    def __init__(self, user: str, fallback: Callable[[str], Source] | None) -> None:
        self._user = user
        self._fallback = fallback
        self._instead: Source | None = None
        # -P: a json.py in the current folder is no business of ours
        self._child = slurm.Running([sys.executable, "-P", CHILD], name="pyslurm")
        self._scontrol: slurm.Running | None = None
        self._no_scontrol = ""
        try:
            self._scontrol = slurm.Running(
                ["scontrol", "--oneliner", "--all"], input=QUESTIONS.format(user=self._user)
            )
        except UnavailableError as error:
            self._no_scontrol = str(error)

    def cluster(self) -> Cluster:
        """The whole answer; UnavailableError, which names pyslurm, where it does not give one."""
        try:
            return self._ask()
        except UnavailableError as error:
            if self._fallback is None:
                raise UnavailableError(f"{error}; `--source scontrol` does without pyslurm") from None
            said = str(error)
        finally:
            self._end_children()
        self._instead = self._fallback(self._user)
        cluster = self._instead.cluster()
        cluster.notes = [*cluster.notes, f"{said}; scontrol was asked instead"]
        return cluster

    def end(self) -> None:
        """End what still runs."""
        self._end_children()
        if self._instead:
            self._instead.end()

    def _end_children(self) -> None:
        self._child.end()
        if self._scontrol:
            self._scontrol.end()

    def _ask(self) -> Cluster:
        document = _document(self._child.answer())
        told, notes = scontrol.Told(), []
        if self._scontrol is None:
            notes = [f"{self._no_scontrol}; pyslurm alone reads gres less well and tells no associations and no QOS"]
        else:
            rest = self._scontrol.answer()
            told = scontrol.read(rest.output, self._user)
            if not told.is_whole:
                why = scontrol.first_line(rest.errors)
                raise UnavailableError(f"pyslurm answered, but scontrol beside it did not: {why}")
        try:
            return _cluster(document, told, notes, self._user)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
            raise UnavailableError(f"pyslurm told what cannot be read ({said[:200]})") from None


def _document(answer: slurm.Answer) -> dict[str, Any]:
    """What the child wrote; UnavailableError with its last word where that is not a document."""
    try:
        document = json.loads(answer.output)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and document.get("format") == FORMAT:
        if "error" in document:
            raise UnavailableError(f"pyslurm: {str(document['error'])[:300]}")
        return document
    words = [line.strip() for line in answer.errors.splitlines() if line.strip()]
    said = words[-1][:300] if words else "it said nothing"
    if answer.status < 0:
        raise UnavailableError(f"pyslurm was ended by {_signal_name(-answer.status)}: {said}")
    if answer.output.strip():
        raise UnavailableError(f"pyslurm told what cannot be read: {answer.output.strip()[:60]!r}")
    raise UnavailableError(f"pyslurm ended its process with status {answer.status}: {said}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _cluster(document: dict[str, Any], told: scontrol.Told, notes: list[str], user: str) -> Cluster:
    config = document["config"]
    by_scontrol = {node.name: node.gres for node in told.nodes}
    partitions = [_partition(row) for row in document["partitions"]]
    nodes = [_node(row, by_scontrol) for row in document["nodes"]]
    missing = [what for what, there in (("partitions", partitions), ("nodes", nodes)) if not there]
    if missing:
        raise UnavailableError(f"pyslurm {document['pyslurm']} told no {' and no '.join(missing)}")
    return Cluster(
        source="pyslurm",
        name=_text(config["cluster_name"]) or "",
        version=parse_version(config["version"].partition("-")[0]),
        user=user,
        max_array_size=_number(config["max_array_size"]) or 0,
        enforce_part_limits=_text(config["enforce_partition_limits"]) or "NO",
        enforce=frozenset(word.lower() for word in _words(config["accounting_storage_enforce"])),
        select_type=_text(config["select_type"]) or "",
        partitions={partition.name: partition for partition in partitions},
        nodes=nodes,
        reservations={one.name: one for one in map(_reservation, document["reservations"])},
        associations=told.associations if told.has_accounting else None,
        qos=told.qos if told.has_accounting else None,
        notes=notes,
    )


def _partition(row: dict[str, Any]) -> Partition:
    return Partition(
        name=_name(row),
        is_default=row["is_default"] is True,
        state=_text(row["state"]) or "",
        max_time_s=_minutes(row["max_time"]),
        default_time_s=_minutes(row["default_time"]),
        min_nodes=_number(row["min_nodes"]) or 0,
        max_nodes=0 if row["max_nodes"] is None else _number(row["max_nodes"]),  # pyslurm has None for 0
        max_cpus_per_node=_number(row["max_cpus_per_node"]),
        max_mem_per_node=_number(row["max_memory_per_node"]),
        qos=_text(row["qos"]),
        allow_accounts=_everybody(row["allowed_accounts"]),
        deny_accounts=_nobody(row["denied_accounts"]),
        allow_qos=_everybody(row["allowed_qos"]),
        deny_qos=_nobody(row["denied_qos"]),
        allow_groups=_everybody(row["allowed_groups"]),
        is_root_only=row["is_root_only"] is True,
        needs_reservation=row["requires_reservation"] is True,
    )


def _node(row: dict[str, Any], by_scontrol: dict[str, dict[str, dict[str, int]]]) -> Node:
    name = _name(row)
    gres = by_scontrol.get(name)
    if gres is None:
        gres = _gres(name, row["gres"])
    return Node(
        name=name,
        cpus=_number(row["effective_cpus"]) or _number(row["total_cpus"]) or 0,
        mem_mib=(_number(row["real_memory"]) or 0) - (_number(row["memory_reserved_for_system"]) or 0),
        gres=gres,
        features=frozenset(_words(row["available_features"])),
        partitions=tuple(_words(row["partitions"])),
        state=scontrol.node_state(row["state"]),
    )


def _gres(node: str, counts: dict[str, int] | None) -> dict[str, dict[str, int]]:
    """{"gpu": {"a100": 4}} out of pyslurm's {"gpu:a100": 4}."""
    if counts is None:
        raise UnavailableError(f"pyslurm cannot read the gres of node {node}")
    found: dict[str, dict[str, int]] = {}
    for key, count in counts.items():
        name, _, kind = key.partition(":")
        found.setdefault(name, {})[kind] = _number(count) or 0
    return found


def _reservation(row: dict[str, Any]) -> Reservation:
    return Reservation(
        name=_name(row),
        users=_words(row["users"]) or None,
        accounts=_words(row["accounts"]) or None,
        nodes=_text(row["nodes"]) or "",
        partition=_text(row["partition"]),
        state="ACTIVE" if row["is_active"] is True else "INACTIVE",
    )


def _name(row: dict[str, Any]) -> str:
    name = _text(row["name"])
    if not name:
        raise ValueError("something without a name")
    return name


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise TypeError(f"{value!r} where a text belongs")


def _number(value: object) -> int | None:
    """None where there is no limit."""
    if value is None or value == _UNLIMITED:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise TypeError(f"{value!r} where a number belongs")


def _minutes(value: object) -> int | None:
    number = _number(value)
    return None if number is None else number * 60


def _words(value: object) -> list[str]:
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return [word for word in value if word]
    raise TypeError(f"{value!r} where a list of names belongs")


def _everybody(value: object) -> list[str] | None:
    words = _words(value)
    return None if words == ["ALL"] or not words else words


def _nobody(value: object) -> list[str]:
    """pyslurm has ["ALL"] for a list that is not set, and that means nobody where it is about denial."""
    words = _words(value)
    return [] if words == ["ALL"] else words

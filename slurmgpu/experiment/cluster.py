"""The live cluster: what a request is checked against, and the sources that can tell it.

A source starts asking when it is made, so that the caller can do other work meanwhile; `cluster()` waits for the
whole answer. Sources: `scontrol` (text, everywhere) and `frompyslurm` (a child process, where pyslurm is installed).
"""

import os
from typing import Protocol

from slurmgpu.errors import UnavailableError
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.options import Version

SOURCES = ("scontrol", "pyslurm")

# states of a node that no new job can use until a person or the site's power saving changes them
_UNUSABLE = frozenset(
    {
        "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "INVAL", "INVALID_REG", "MAINT",
        "NOT_RESPONDING", "UNKNOWN",
    }
)  # fmt: skip


class Partition(Fields):
    """A partition. Lists are None where everybody may; times in seconds, None without a limit."""

    name: str
    is_default: bool = False
    state: str = "UP"  # UP, DOWN, DRAIN, INACTIVE
    max_time_s: int | None = None
    default_time_s: int | None = None
    min_nodes: int = 0
    max_nodes: int | None = None
    max_cpus_per_node: int | None = None
    max_mem_per_node: int | None = None  # MiB
    qos: str | None = None
    allow_accounts: list[str] | None = None
    deny_accounts: list[str] = []
    allow_qos: list[str] | None = None
    deny_qos: list[str] = []
    allow_groups: list[str] | None = None
    is_root_only: bool = False
    needs_reservation: bool = False


class Node(Fields):
    """A node as jobs can use it: `cpus` and `mem_mib` without what Slurm keeps for the system.

    `gres` holds counts by name and type: {"gpu": {"a100": 4}}, with "" for a resource without a type.
    """

    name: str
    cpus: int
    mem_mib: int
    gres: dict[str, dict[str, int]] = {}
    features: frozenset[str] = frozenset()
    partitions: tuple[str, ...] = ()
    state: frozenset[str] = frozenset()

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs by type."""
        return self.gres.get("gpu", {})

    @property
    def is_usable(self) -> bool:
        """Whether a job can be placed there, now or when others end."""
        return not self.state & _UNUSABLE


class Reservation(Fields):
    """A reservation; `users` and `accounts` are None where nobody is named, `nodes` is a host list."""

    name: str
    users: list[str] | None = None
    accounts: list[str] | None = None
    nodes: str = ""
    partition: str | None = None
    state: str = "ACTIVE"


class Association(Fields):
    """One association of the user: an account, in one partition or in all.

    `qos` is None where the source does not tell it. Limits of one job: `max_wall_s`, `max_tres`, such as
    {"gres/gpu": 8}, and of a node of it `max_tres_per_node`.
    """

    account: str
    partition: str | None = None
    is_default: bool = False
    qos: list[str] | None = None
    max_wall_s: int | None = None
    max_tres: dict[str, int] = {}
    max_tres_per_node: dict[str, int] = {}


class Qos(Fields):
    """A QOS with its limits of one job."""

    name: str
    max_wall_s: int | None = None
    max_tres: dict[str, int] = {}
    max_tres_per_node: dict[str, int] = {}


class Cluster(Fields):
    """The answer of a source. `associations` and `qos` are None where accounting does not tell them.

    `enforce` is AccountingStorageEnforce as a set of words; without `associations` in it Slurm takes any account.
    """

    source: str
    name: str
    version: Version
    user: str
    max_array_size: int = 1001
    enforce_part_limits: str = "NO"
    enforce: frozenset[str] = frozenset()
    select_type: str = "select/cons_tres"
    partitions: dict[str, Partition] = {}
    nodes: list[Node] = []
    reservations: dict[str, Reservation] = {}
    associations: list[Association] | None = None
    qos: dict[str, Qos] | None = None
    notes: list[str] = []

    @property
    def default_partition(self) -> Partition | None:
        """Where a job without a partition goes."""
        return next((partition for partition in self.partitions.values() if partition.is_default), None)

    def nodes_of(self, partition: str) -> list[Node]:
        """The nodes of a partition."""
        return [node for node in self.nodes if partition in node.partitions]


class Source(Protocol):
    """Asks the cluster from the moment it is made."""

    name: str

    def cluster(self) -> Cluster:
        """The whole answer. Raises UnavailableError where the cluster does not give it."""

    def end(self) -> None:
        """Stop asking, where the answer is not wanted any more."""


class Once:
    """A source that is asked once, and tells its answer to all who want it."""

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._source = source
        self._cluster: Cluster | None = None

    def cluster(self) -> Cluster:
        """The whole answer."""
        if self._cluster is None:
            self._cluster = self._source.cluster()
        return self._cluster

    def end(self) -> None:
        """Stop asking."""
        self._source.end()


def ask(name: str | None = None) -> Source:
    """Start asking: pyslurm where it is installed, else scontrol; without a `name` also where pyslurm fails."""
    from slurmgpu.experiment import frompyslurm, scontrol

    user = user_name()
    if name == "pyslurm" or (name is None and frompyslurm.is_possible()):
        return frompyslurm.PyslurmSource(user, None if name else scontrol.ScontrolSource)
    return scontrol.ScontrolSource(user)


def user_name() -> str:
    """The name of the user whose associations count: Slurm goes by the user id, not by $USER."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise UnavailableError(f"user id {os.getuid()} has no name here; Slurm would refuse it too") from None

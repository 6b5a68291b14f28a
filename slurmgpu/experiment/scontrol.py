"""The cluster by the text of one `scontrol` process, which takes all questions on its standard input.

Read by the names of fields, not by their place, because releases add fields. Free text (Reason, Comment, Extra)
stands behind the fields that are read, so the first occurrence of a name counts.
"""

import re
from collections.abc import Callable

from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import slurm
from slurmgpu.experiment.cluster import Association, Cluster, Node, Partition, Qos, Reservation
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.options import parse_version
from slurmgpu.slurmtext import parse_mem, parse_time

# the configuration is last: its last line shows that slurmctld was there to the end
QUESTIONS = "show assoc_mgr users={user} flags=assoc,qos\nshow reservation\nshow node\nshow partition\nshow config\n"
_PROMPT = "scontrol: "
_NONE = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "UNLIMITED", "Unlimited", "N"})


class ScontrolSource:
    """Asks everything at once; the QOS of an association are not in the answer (`allowed_qos`)."""

    name = "scontrol"

    def __init__(self, user: str) -> None:
        self._user = user
        self._scontrol = slurm.Running(["scontrol", "--oneliner", "--all"], input=QUESTIONS.format(user=user))

    def cluster(self) -> Cluster:
        """What scontrol has answered; UnavailableError where a part of it is missing."""
        answer = self._scontrol.answer()
        return parse(answer.output, answer.errors, self._user)

    def end(self) -> None:
        """End scontrol where it still runs."""
        self._scontrol.end()


class Told(Fields):
    """What the lines of an answer say."""

    config: dict[str, str]
    partitions: dict[str, Partition]
    nodes: list[Node]
    reservations: dict[str, Reservation]
    associations: list[Association]
    qos: dict[str, Qos]
    has_accounting: bool = False
    is_whole: bool = False

    def __init__(self) -> None:
        super().__init__(config={}, partitions={}, nodes=[], reservations={}, associations=[], qos={})


def read(output: str, user: str) -> Told:
    """Every line of scontrol's answer; UnavailableError for one that cannot be read."""
    told = Told()
    for raw in output.split("\n"):
        line = raw.removeprefix(_PROMPT)
        try:
            if line.startswith("NodeName="):
                told.nodes.append(_node(line))
            elif line.startswith("PartitionName="):
                partition = _partition(line)
                told.partitions[partition.name] = partition
            elif line.startswith("ReservationName="):
                reservation = _reservation(line)
                told.reservations[reservation.name] = reservation
            elif line.startswith("ClusterName=") and " UserName=" in line:
                if association := _association(line, user):
                    told.associations.append(association)
            elif line.startswith("QOS="):
                one = _qos(line)
                told.qos[one.name] = one
            elif match := re.match(r"([A-Za-z]\w*(?:\[\d+\])?)\s+= ?(.*)", line):
                told.config[match[1]] = match[2].strip()
            elif line.startswith("Slurmctld(") and " is " in line:
                told.is_whole = True
        except (KeyError, ValueError, IndexError) as error:
            raise UnavailableError(f"scontrol wrote a line that cannot be read ({error}): {line[:120]!r}") from None
    told.has_accounting = "ClusterName=" in output and "Association Records" in output
    return told


def parse(output: str, errors: str, user: str) -> Cluster:
    """The cluster out of scontrol's answer to all questions; UnavailableError for an answer that is not whole."""
    told = read(output, user)
    config = told.config
    missing = [
        what
        for what, there in (
            ("the configuration", told.is_whole and "SLURM_VERSION" in config),
            ("partitions", told.partitions),
            ("nodes", told.nodes),
        )
        if not there
    ]
    if missing:
        raise UnavailableError(f"scontrol did not tell {', '.join(missing)}: {first_line(errors)}")
    return Cluster(
        source="scontrol",
        name=config.get("ClusterName", ""),
        version=_version(config["SLURM_VERSION"]),
        user=user,
        max_array_size=int(config.get("MaxArraySize", "1001")),
        enforce_part_limits=config.get("EnforcePartLimits", "NO"),
        enforce=frozenset(_words(config.get("AccountingStorageEnforce", "")) or ()) - {"none"},
        select_type=config.get("SelectType", ""),
        partitions=told.partitions,
        nodes=told.nodes,
        reservations=told.reservations,
        associations=told.associations if told.has_accounting else None,
        qos=told.qos if told.has_accounting else None,
        notes=[],
    )


def first_line(errors: str) -> str:
    """The first thing that scontrol complained about."""
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[0].removeprefix("scontrol: ")[:200] if lines else "its answer ends too early"


def _version(text: str) -> tuple[int, int]:
    try:
        return parse_version(text.partition("-")[0])
    except ValueError:
        raise UnavailableError(f"scontrol tells a Slurm version that cannot be read: {text[:40]!r}") from None


def _reader(*names: str) -> Callable[[str], dict[str, str]]:
    """A function that finds the first value of each name in a line; values hold no space."""
    pattern = re.compile(rf"(?:^|(?<=\s))({'|'.join(names)})=(\S*)")

    def read(line: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in pattern.findall(line):
            found.setdefault(name, value)
        return found

    return read


_node_fields = _reader(
    "NodeName", "CPUTot", "CPUEfctv", "AvailableFeatures", "Gres", "RealMemory", "MemSpecLimit", "State", "Partitions"
)
_partition_fields = _reader(
    "PartitionName", "AllowGroups", "AllowAccounts", "DenyAccounts", "AllowQos", "DenyQos", "Default", "QoS",
    "DefaultTime", "MaxNodes", "MaxTime", "MinNodes", "MaxCPUsPerNode", "MaxMemPerNode", "RootOnly", "ReqResv",
    "State",
)  # fmt: skip
_reservation_fields = _reader("ReservationName", "Nodes", "PartitionName", "Users", "Accounts", "State")
_limit_fields = _reader("MaxWallPJ", "MaxTRESPJ", "MaxTRESPN", "DefAssoc")


def _node(line: str) -> Node:
    found = _node_fields(line)
    return Node(
        name=found["NodeName"],
        cpus=int(found.get("CPUEfctv") or found["CPUTot"]),
        mem_mib=int(found["RealMemory"]) - int(found.get("MemSpecLimit") or 0),
        gres=parse_gres(found.get("Gres", "")),
        features=frozenset(_words(found.get("AvailableFeatures", "")) or ()),
        partitions=tuple(_words(found.get("Partitions", "")) or ()),
        state=node_state(found["State"]),
    )


def node_state(text: str) -> frozenset[str]:
    """IDLE*, IDLE+DRAIN, MIXED+PLANNED as a set, without the short marks * ~ # ! % $ @ ^ - at the end."""
    state = text.upper()
    flags = {part.rstrip("*~#!%$@^-") for part in state.split("+")}
    if "*" in state:
        flags.add("NOT_RESPONDING")
    return frozenset(flags)


_GRES = re.compile(r"([^:,()]+)(?::([^:,()]+))?:(\d+)([KMGTP]?)(?:\([^)]*\))?(?:,|$)", re.IGNORECASE)


def parse_gres(text: str) -> dict[str, dict[str, int]]:
    """Counts by name and type of a node's Gres text: `gpu:a100:4(S:0-1),shard:8`.

    Slurm's count suffixes are powers of 1024.
    """
    found: dict[str, dict[str, int]] = {}
    if text in _NONE:
        return found
    for name, kind, count, suffix in _GRES.findall(text.replace("no_consume:", "")):
        of_name = found.setdefault(name, {})
        number = int(count) * 1024 ** " KMGTP".index(suffix.upper() or " ")
        of_name[kind] = of_name.get(kind, 0) + number
    return found


def _partition(line: str) -> Partition:
    found = _partition_fields(line)
    return Partition(
        name=found["PartitionName"],
        is_default=found.get("Default") == "YES",
        state=found.get("State", "UP"),
        max_time_s=_time(found.get("MaxTime", "")),
        default_time_s=_time(found.get("DefaultTime", "")),
        min_nodes=_number(found.get("MinNodes", "")) or 0,
        max_nodes=_number(found.get("MaxNodes", "")),
        max_cpus_per_node=_number(found.get("MaxCPUsPerNode", "")),
        max_mem_per_node=_number(found.get("MaxMemPerNode", "")) or None,
        qos=None if found.get("QoS", "") in _NONE else found["QoS"],
        allow_accounts=_everybody(found.get("AllowAccounts", "ALL")),
        deny_accounts=_words(found.get("DenyAccounts", "")) or [],
        allow_qos=_everybody(found.get("AllowQos", "ALL")),
        deny_qos=_words(found.get("DenyQos", "")) or [],
        allow_groups=_everybody(found.get("AllowGroups", "ALL")),
        is_root_only=found.get("RootOnly") == "YES",
        needs_reservation=found.get("ReqResv") == "YES",
    )


def _reservation(line: str) -> Reservation:
    found = _reservation_fields(line)
    return Reservation(
        name=found["ReservationName"],
        users=_words(found.get("Users", "")),
        accounts=_words(found.get("Accounts", "")),
        nodes="" if found.get("Nodes", "") in _NONE else found["Nodes"],
        partition=None if found.get("PartitionName", "") in _NONE else found["PartitionName"],
        state=found.get("State", ""),
    )


# account and user names come first, and may hold what the others may not
_ASSOCIATION = re.compile(r"ClusterName=(.*?) Account=(.*?) UserName=(.*?) Partition=(.*?) Priority=")


def _association(line: str, user: str) -> Association | None:
    match = _ASSOCIATION.match(line)
    if match is None:
        raise ValueError("an association without its names")
    _, account, owner, partition = match.groups()
    if owner.rpartition("(")[0] != user:  # a parent, or another user
        return None
    found = _limit_fields(line)
    return Association(
        account=account,
        partition=partition or None,
        is_default=found.get("DefAssoc") == "Yes",
        max_wall_s=_minutes(found.get("MaxWallPJ", "")),
        max_tres=_tres(found.get("MaxTRESPJ", "")),
        max_tres_per_node=_tres(found.get("MaxTRESPN", "")),
    )


def _qos(line: str) -> Qos:
    name = line.removeprefix("QOS=").partition("(")[0]
    found = _limit_fields(line)
    return Qos(
        name=name,
        max_wall_s=_minutes(found.get("MaxWallPJ", "")),
        max_tres=_tres(found.get("MaxTRESPJ", "")),
        max_tres_per_node=_tres(found.get("MaxTRESPN", "")),
    )


def _words(text: str) -> list[str] | None:
    return None if text in _NONE else [word for word in text.split(",") if word]


def _everybody(text: str) -> list[str] | None:
    return None if text in ("ALL", "(null)", "") else text.split(",")


def _number(text: str) -> int | None:
    return None if text in _NONE else int(text)


def _time(text: str) -> int | None:
    return None if text in _NONE else parse_time(text)


def _minutes(text: str) -> int | None:
    # `60`, or `60(59)` with what is left
    return None if text in _NONE else int(text.partition("(")[0]) * 60


def _tres(text: str) -> dict[str, int]:
    """TRES counts of `cpu=8,mem=10G,gres/gpu=4(2)`; memory in MiB, no entry where there is no limit."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        value = value.partition("(")[0]
        if name and value not in _NONE:
            found[name] = parse_mem(value) if name == "mem" else int(value)
    return found

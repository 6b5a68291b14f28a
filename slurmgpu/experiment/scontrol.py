"""The cluster by the text of one `scontrol` process, which takes all questions on its standard input.

Read by the names of fields, not by their place, because releases add fields. Free text (Reason, Comment, Extra)
stands behind the fields that are read, so the first occurrence of a name counts.
"""

import re
from collections.abc import Callable

from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import slurm
from slurmgpu.experiment.cluster import Association, Cluster, Node, Partition, Qos, Reservation
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


def parse(output: str, errors: str, user: str) -> Cluster:
    """The cluster out of scontrol's answer to all questions; UnavailableError for an answer that is not whole."""
    config: dict[str, str] = {}
    partitions: dict[str, Partition] = {}
    nodes: list[Node] = []
    reservations: dict[str, Reservation] = {}
    associations: list[Association] = []
    qos: dict[str, Qos] = {}
    is_whole = False
    for raw in output.split("\n"):
        line = raw.removeprefix(_PROMPT)
        try:
            if line.startswith("NodeName="):
                nodes.append(_node(line))
            elif line.startswith("PartitionName="):
                partition = _partition(line)
                partitions[partition.name] = partition
            elif line.startswith("ReservationName="):
                reservation = _reservation(line)
                reservations[reservation.name] = reservation
            elif line.startswith("ClusterName=") and " UserName=" in line:
                if association := _association(line, user):
                    associations.append(association)
            elif line.startswith("QOS="):
                one = _qos(line)
                qos[one.name] = one
            elif match := re.match(r"([A-Za-z]\w*(?:\[\d+\])?)\s+= ?(.*)", line):
                config[match[1]] = match[2].strip()
            elif line.startswith("Slurmctld(") and " is " in line:
                is_whole = True
        except (KeyError, ValueError, IndexError) as error:
            raise UnavailableError(f"scontrol wrote a line that cannot be read ({error}): {line[:120]!r}") from None
    missing = [
        what
        for what, there in (
            ("the configuration", is_whole and "SLURM_VERSION" in config),
            ("partitions", partitions),
            ("nodes", nodes),
        )
        if not there
    ]
    if missing:
        raise UnavailableError(f"scontrol did not tell {', '.join(missing)}: {_first_line(errors)}")
    has_accounting = "ClusterName=" in output and "Association Records" in output
    return Cluster(
        source="scontrol",
        name=config.get("ClusterName", ""),
        version=_version(config["SLURM_VERSION"]),
        user=user,
        max_array_size=int(config.get("MaxArraySize", "1001")),
        enforce_part_limits=config.get("EnforcePartLimits", "NO"),
        enforce=frozenset(_words(config.get("AccountingStorageEnforce", "")) or ()),
        select_type=config.get("SelectType", ""),
        partitions=partitions,
        nodes=nodes,
        reservations=reservations,
        associations=associations if has_accounting else None,
        qos=qos if has_accounting else None,
        notes=[],
    )


def _first_line(errors: str) -> str:
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
_limit_fields = _reader("MaxWallPJ", "MaxTRESPJ", "MaxTRESPN", "DefAssoc", "DefQOS")


def _node(line: str) -> Node:
    found = _node_fields(line)
    state = found["State"].upper()
    # IDLE*, IDLE+DRAIN, MIXED+PLANNED, and the short marks * ~ # ! % $ @ ^ - at the end
    flags = {part.rstrip("*~#!%$@^-") for part in state.split("+")}
    if "*" in state:
        flags.add("NOT_RESPONDING")
    return Node(
        name=found["NodeName"],
        cpus=int(found.get("CPUEfctv") or found["CPUTot"]),
        mem_mib=int(found["RealMemory"]) - int(found.get("MemSpecLimit") or 0),
        gres=parse_gres(found.get("Gres", "")),
        features=frozenset(_words(found.get("AvailableFeatures", "")) or ()),
        partitions=tuple(_words(found.get("Partitions", "")) or ()),
        state=frozenset(flags),
    )


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
        default_qos=_qos_name(found.get("DefQOS", "")),
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


def _qos_name(text: str) -> str | None:
    return text.partition("(")[0] or None


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

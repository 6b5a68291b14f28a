"""Run as a program of its own: asks the cluster by pyslurm and writes one JSON document. See `frompyslurm`.

It imports nothing of slurmgpu, and pyslurm's values go out as they are: what they mean is the parent's business.
Read against pyslurm 25.11 (pyslurm/core/partition.pyx, node.pyx, reservation.pyx, slurmctld/config.pyx).
"""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any

FORMAT = "slurmgpu-pyslurm-1"
PARTITION = (
    "name", "is_default", "state", "max_time", "default_time", "min_nodes", "max_nodes", "max_cpus_per_node",
    "max_memory_per_node", "qos", "allowed_accounts", "denied_accounts", "allowed_qos", "denied_qos",
    "allowed_groups", "is_root_only", "requires_reservation",
)  # fmt: skip
NODE = (
    "name", "effective_cpus", "total_cpus", "real_memory", "memory_reserved_for_system", "available_features",
    "partitions", "state",
)  # fmt: skip
RESERVATION = ("name", "users", "accounts", "nodes", "partition", "is_active")
CONFIG = (
    "cluster_name", "version", "max_array_size", "enforce_partition_limits", "accounting_storage_enforce",
    "select_type",
)  # fmt: skip


def main() -> int:
    """Write the document to what was standard output; pyslurm has print statements of its own."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as out:
        os.dup2(2, 1)
        try:
            text = json.dumps(_document())
        except Exception as error:  # whatever it is, the parent says it
            text = json.dumps({"format": FORMAT, "error": f"{type(error).__name__}: {error}"})
        out.write(text + "\n")
    return 0


def _document() -> dict[str, Any]:
    import pyslurm  # may end this process

    return {
        "format": FORMAT,
        "pyslurm": str(pyslurm.__version__),
        "partitions": _rows(pyslurm.Partitions.load().values(), PARTITION),
        "nodes": _rows(pyslurm.Nodes.load().values(), NODE, _gres),
        "reservations": _rows(pyslurm.Reservations.load().values(), RESERVATION),
        # last: slurmctld was there to the end
        "config": _rows([pyslurm.slurmctld.Config.load()], CONFIG)[0],
    }


def _rows(items: Iterable[Any], names: tuple[str, ...], *more: Any) -> list[dict[str, Any]]:
    rows = []
    for item in items:
        row = {name: getattr(item, name) for name in names}
        for function in more:
            row |= function(item)
        rows.append(row)
    return rows


def _gres(node: Any) -> dict[str, Any]:
    try:
        return {"gres": dict(node.configured_gres)}
    except (TypeError, ValueError):  # `lustre:no_consume:4G`
        return {"gres": None}


if __name__ == "__main__":
    sys.exit(main())

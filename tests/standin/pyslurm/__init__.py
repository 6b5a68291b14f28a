"""A stand-in for pyslurm 25.11: the names that slurmgpu asks for, values from a recorded document.

PYSLURM_STAND_IN names the document (`pyslurmchild` wrote it); PYSLURM_DOES is code that runs at import, where the
real module reads slurm.conf and may end the process.
"""

import json
import os
from pathlib import Path
from types import SimpleNamespace

__version__ = "25.11.2"

exec(os.environ.get("PYSLURM_DOES", ""))
_document = json.loads(Path(os.environ["PYSLURM_STAND_IN"]).read_text())


class RPCError(Exception):
    """What slurmctld answered."""


def _collection(rows, **renamed):
    named = [{renamed.get(name, name): value for name, value in row.items()} for row in rows]
    items = {row["name"]: SimpleNamespace(**row) for row in named}
    return SimpleNamespace(load=lambda: items)


Partitions = _collection(_document["partitions"])
Nodes = _collection(_document["nodes"], gres="configured_gres")
Reservations = _collection(_document["reservations"])
slurmctld = SimpleNamespace(Config=SimpleNamespace(load=lambda: SimpleNamespace(**_document["config"])))
exec(os.environ.get("PYSLURM_THEN", ""))

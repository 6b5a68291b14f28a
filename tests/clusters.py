"""Clusters for tests without one: as the test-bed's Slurm told it, and made up."""

from pathlib import Path

from slurmgpu.experiment import scontrol
from slurmgpu.experiment.cluster import Cluster, Node, Partition

RECORDED = Path(__file__).parent / "recorded"


def recorded(version="22.05"):
    """The test-bed's cluster as scontrol of that version told it to alice."""
    return scontrol.parse((RECORDED / f"scontrol-{version}.txt").read_text(), "", "alice")


def made_up(*nodes, **partition):
    """A cluster of one partition `p` with these nodes."""
    return Cluster(
        source="test",
        name="test",
        version=(24, 11),
        user="alice",
        partitions={"p": Partition(name="p", is_default=True, **partition)},
        nodes=list(nodes),
    )


def node(name, cpus=8, mem_mib=1000, features=(), state=("IDLE",), partitions=("p",), **gpus):
    """A node; GPUs by type as keywords, `any` for GPUs without one."""
    by_type = {"" if kind == "any" else kind: number for kind, number in gpus.items() if number}
    return Node(
        name=name,
        cpus=cpus,
        mem_mib=mem_mib,
        gres={"gpu": by_type} if by_type else {},
        features=frozenset(features),
        partitions=partitions,
        state=frozenset(state),
    )

"""The cluster profile out of the live cluster: TOML text that `profile` reads back, the same for the same cluster."""

import re
from collections.abc import Iterator

from slurmgpu.experiment.cluster import Cluster, Node, Partition
from slurmgpu.experiment.options import format_version
from slurmgpu.slurmtext import format_mem, format_time


def profile_text(cluster: Cluster) -> str:
    """A profile of the whole cluster; sizes of a partition are those of its largest nodes."""
    return "\n".join(_lines(cluster)) + "\n"


def _lines(cluster: Cluster) -> Iterator[str]:
    yield f"# The cluster {quoted(cluster.name)[1:-1]} as slurmgpu probe saw it, told by {cluster.source}."
    yield "# Free to edit: defaults of any spec key go under [defaults]."
    yield f"slurm_version = {quoted(format_version(cluster.version))}"
    yield f'gpu_dialect = "{_dialect(cluster)}"'
    yield f"max_array_size = {cluster.max_array_size}"
    if cluster.default_partition:
        yield f"default_partition = {quoted(cluster.default_partition.name)}"
    by_partition: dict[str, list[Node]] = {}
    for node in cluster.nodes:
        for name in node.partitions:
            by_partition.setdefault(name, []).append(node)
    for partition in cluster.partitions.values():
        yield ""
        yield f"[partitions.{_key(partition.name)}]"
        yield from _partition_lines(partition, by_partition.get(partition.name, []))


def _dialect(cluster: Cluster) -> str:
    """--gres works on every site; where GPUs have no type, models may be features of the nodes."""
    typed = any(kind for node in cluster.nodes for kind in node.gpus)
    with_gpus = [node for node in cluster.nodes if node.gpus]
    featured = all(node.features for node in with_gpus)
    kinds = {node.features for node in with_gpus}
    return "gres+constraint" if with_gpus and not typed and featured and len(kinds) > 1 else "gres"


def _partition_lines(partition: Partition, nodes: list[Node]) -> Iterator[str]:
    if partition.max_time_s is not None:
        yield f"max_time = {quoted(format_time(partition.max_time_s))}"
    most = len(nodes) if partition.max_nodes is None else min(len(nodes), partition.max_nodes)
    yield f"nodes = {most}"
    if not nodes:
        return
    yield from _size_lines(partition, nodes)
    kinds = sorted({kind for node in nodes for kind in node.gpus if kind})
    if kinds:
        yield f"gpu_types = [{', '.join(map(quoted, kinds))}]"
    sizes = {(node.cpus, node.mem_mib, sum(node.gpus.values())) for node in nodes if node.gpus}
    if kinds and (len(kinds) > 1 or len(sizes) > 1):
        for kind in kinds:
            having = [node for node in nodes if kind in node.gpus]
            yield ""
            yield f"[partitions.{_key(partition.name)}.types.{_key(kind)}]"
            yield f"nodes = {min(len(having), most)}"
            yield from _size_lines(partition, having, kind)


def _size_lines(partition: Partition, nodes: list[Node], kind: str | None = None) -> Iterator[str]:
    """The largest sizes of some nodes, and the smallest share of a GPU, which fits all of them."""
    yield f"cpus_per_node = {max(_cpus(node, partition) for node in nodes)}"
    yield f"mem_per_node = {quoted(format_mem(max(node.mem_mib for node in nodes)))}"
    counted = [(node, node.gpus[kind] if kind else sum(node.gpus.values())) for node in nodes if node.gpus]
    if not counted:
        yield "gpus_per_node = 0"
        return
    yield f"gpus_per_node = {max(count for _, count in counted)}"
    # of a node with several types each GPU gets the same share
    yield f"cpus_per_gpu = {min(_cpus(node, partition) // sum(node.gpus.values()) for node, _ in counted) or 1}"
    yield f"mem_per_gpu = {quoted(format_mem(min(node.mem_mib // sum(node.gpus.values()) for node, _ in counted)))}"


def _cpus(node: Node, partition: Partition) -> int:
    return node.cpus if partition.max_cpus_per_node is None else min(node.cpus, partition.max_cpus_per_node)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def quoted(text: str) -> str:
    """A TOML basic string."""

    def escape(char: str) -> str:
        if char in _ESCAPES:
            return _ESCAPES[char]
        if "\ud800" <= char <= "\udfff":  # a byte that was no UTF-8; TOML has no place for it
            return "?"
        return f"\\u{ord(char):04x}" if char < " " or char == "\x7f" else char

    return f'"{"".join(map(escape, text))}"'

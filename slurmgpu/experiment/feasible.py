"""Does a request fit some set of nodes, and where it does not: which single number blocks it, and what would fit.

Only sizes are compared (what nodes have, not what is free now): a job that fits waits, one that does not never runs.
Slurm's own word for all of these is "Requested node configuration is not available".
"""

from collections.abc import Callable
from typing import NamedTuple

from slurmgpu.experiment.cluster import Cluster, Node, Partition
from slurmgpu.experiment.constraint import alternatives, matches
from slurmgpu.experiment.request import Gres, Request
from slurmgpu.slurmtext import format_mem


class Need(NamedTuple):
    """One number of a request: the option it came from, how much of each node, what a node has of it."""

    option: str
    wanted: int
    has: Callable[[Node], int]
    show: Callable[[int], str]


class Verdict(NamedTuple):
    """Whether a request fits, and a sentence that says why.

    Where one number alone blocks it, `option` names it and `most` is the highest that would fit (of a node; of the
    job for nodes, ntasks and gpus). `waits`: it fits only with nodes that are down or drained now.
    """

    fits: bool
    reason: str
    option: str = ""
    most: int = 0
    waits: bool = False


def judge(request: Request, cluster: Cluster, partition: Partition) -> Verdict:
    """Whether the request fits the partition's nodes. Raises ValueError for a constraint that cannot be read."""
    wanted = request.nodes or 1
    if partition.max_nodes is not None and wanted > partition.max_nodes:
        reason = f"{wanted} nodes asked for, but {partition.name} takes at most {partition.max_nodes}"
        return Verdict(False, reason, "nodes", partition.max_nodes)
    if wanted < partition.min_nodes:
        return Verdict(False, f"{partition.name} takes jobs of {partition.min_nodes} nodes and more", "nodes")
    nodes = [node for node in cluster.nodes_of(partition.name) if _is_candidate(node, request)]
    if not nodes:
        return Verdict(False, f"no node of {partition.name} has the features or the name asked for")
    needs = _needs(request, partition)
    for need in needs:
        if need.wanted and not any(need.has(node) for node in nodes):
            return Verdict(False, f"{need.show(need.wanted)} asked for, but no node of {partition.name} has any")
    if request.nodes is None or (request.gpus_total is not None and request.nodes > 1):
        verdict = _judge_total(request, nodes, needs)
    elif _fit_together(request, nodes, needs) < request.nodes:
        verdict = _blocked(partition, nodes, needs, request.nodes, _fit_together(request, nodes, needs))
    else:
        verdict = Verdict(True, "")
    if not verdict.fits:
        return verdict
    usable = [node for node in nodes if node.is_usable]
    fit_now = _fit_together(request, usable, needs)
    if fit_now < wanted:
        down = len(nodes) - len(usable)
        reason = (
            f"fits, but {down} of {len(nodes)} nodes of {partition.name} are down or drained now: it waits for them"
        )
        return Verdict(True, reason, waits=True)
    return Verdict(
        True, f"{fit_now} of {len(nodes)} nodes of {partition.name} can run it, {_nodes(wanted)} asked for"
    )


def _is_candidate(node: Node, request: Request) -> bool:
    if node.name in request.exclude:
        return False
    # with fewer names than nodes Slurm adds others of its choice
    if len(request.nodelist) >= (request.nodes or 1) and node.name not in request.nodelist:
        return False
    constraint = request.text("constraint")
    return not constraint or matches(constraint, node.features)


def _needs(request: Request, partition: Partition) -> list[Need]:
    """Every number that a node must have, GPUs first: where several are too high, they are kept the longest."""
    given = request.given
    needs = [_gres_need(request, gres) for gres in request.gres]
    option = next((name for name in ("cpus-per-task", "cpus-per-gpu") if name in given), "ntasks-per-node")
    limit = partition.max_cpus_per_node
    needs.append(
        Need(
            option,
            request.cpus_per_node,
            lambda node: node.cpus if limit is None else min(node.cpus, limit),
            lambda number: f"{number} CPU{'s' if number != 1 else ''}",
        )
    )
    if request.mem_mib:
        option = next((name for name in ("mem-per-cpu", "mem-per-gpu") if name in given), "mem")
        needs.append(
            Need(option, request.mem_mib, lambda node: node.mem_mib, lambda mib: f"{format_mem(mib)} of memory")
        )
    return needs


def _gres_need(request: Request, gres: Gres) -> Need:
    option = request.gpu_option if gres.name == "gpu" else "gres"

    def has(node: Node) -> int:
        of_name = node.gres.get(gres.name, {})
        return of_name.get(gres.kind, 0) if gres.kind else sum(of_name.values())

    def show(number: int) -> str:
        noun = ("GPU" if number == 1 else "GPUs") if gres.name == "gpu" else gres.name
        return f"{number} {gres.kind} {noun}" if gres.kind else f"{number} {noun}"

    return Need(option, gres.number, has, show)


def _fits(node: Node, needs: list[Need]) -> bool:
    return all(need.has(node) >= need.wanted for need in needs)


def _fit_together(request: Request, nodes: list[Node], needs: list[Need]) -> int:
    """How many nodes can be in the job at once; under [a|b] they must all have the same feature."""
    fitting = [node for node in nodes if _fits(node, needs)]
    constraint = request.text("constraint")
    if not constraint or "[" not in constraint:
        return len(fitting)
    return max(sum(matches(one, node.features) for node in fitting) for one in alternatives(constraint))


def _blocked(partition: Partition, nodes: list[Node], needs: list[Need], wanted: int, fitting: int) -> Verdict:
    """The single number whose change is the smallest, else what the best nodes have together."""
    changes: list[tuple[float, Verdict]] = []
    if fitting:
        reason = f"{wanted} nodes asked for, but {_nodes(fitting)} of {partition.name} can run it"
        changes.append((fitting / wanted, Verdict(False, reason, "nodes", fitting)))
    for need in needs:
        others = [other for other in needs if other is not need]
        most = _size_of_nth([node for node in nodes if _fits(node, others)], need, wanted)
        if not 0 < most < need.wanted:
            continue
        # only where the other numbers make a difference are they worth a word
        beside = f" with {_all(others)}" if most < _size_of_nth(nodes, need, wanted) else ""
        reason = f"{need.show(need.wanted)} a node asked for, but {partition.name} has {_nodes(wanted)} with at most "
        reason += f"{need.show(most)}{beside}"
        changes.append((most / need.wanted, Verdict(False, reason, need.option, most)))
    if changes:
        return max(changes, key=lambda change: change[0])[1]
    return Verdict(False, _several(partition, nodes, needs, wanted))


def _several(partition: Partition, nodes: list[Node], needs: list[Need], wanted: int) -> str:
    """No single number is enough: the request cut down to the nodes that come closest."""
    ranked = sorted(nodes, key=lambda node: [min(need.has(node), need.wanted) for need in needs], reverse=True)
    chosen = ranked[:wanted]
    cut = [need.show(min(need.wanted, *(need.has(node) for node in chosen))) for need in needs if need.wanted]
    return (
        f"{_all(needs)} on {_nodes(wanted)}: more than one number is too high for {partition.name}; "
        f"nearest that fits: {', '.join(cut)} on {_nodes(len(chosen))}"
    )


def _size_of_nth(nodes: list[Node], need: Need, number: int) -> int:
    """What each of the `number` best nodes has at least."""
    sizes = sorted((need.has(node) for node in nodes), reverse=True)
    return sizes[number - 1] if len(sizes) >= number else 0


def _all(needs: list[Need]) -> str:
    return ", ".join(need.show(need.wanted) for need in needs)


def _nodes(number: int) -> str:
    return f"{number} node{'s' if number != 1 else ''}"


def _judge_total(request: Request, nodes: list[Node], needs: list[Need]) -> Verdict:
    """A job whose tasks or GPUs Slurm spreads over nodes itself: the sums must do."""
    if request.gpus_total is not None:
        need = _gres_need(request, request.gpus_total)
        sizes = sorted((need.has(node) for node in nodes), reverse=True)
        most = sum(sizes[: request.nodes or len(sizes)])
        if most < need.wanted:
            return Verdict(False, f"{need.show(need.wanted)} asked for, but there are {most}", "gpus", most)
    if request.nodes is None and request.ntasks is not None:
        each = [need for need in needs if need.option not in ("cpus-per-task", "ntasks-per-node")]
        room = sum(node.cpus // request.cpus_per_task for node in nodes if _fits(node, each))
        if room < request.ntasks:
            reason = f"{request.ntasks} tasks of {request.cpus_per_task} CPUs asked for, but there is room for {room}"
            return Verdict(False, reason, "ntasks", room)
    elif request.nodes is not None and (fitting := _fit_together(request, nodes, needs)) < request.nodes:
        return Verdict(False, f"{request.nodes} nodes asked for, but {fitting} can run it", "nodes", fitting)
    return Verdict(True, "")

"""Items of the checklist about numbers: time, resources, limits of a job, array size."""

from slurmgpu.experiment.cluster import Association, Qos
from slurmgpu.experiment.facts import FAIL, NO_PARTITION, OK, SKIP, WARN, Facts, Finding
from slurmgpu.experiment.feasible import judge
from slurmgpu.slurmtext import format_mem, format_time


def time(facts: Facts) -> Finding:
    """Within the limits of the partition, the association and the QOS."""
    asked = facts.request.time_s
    if asked is None and "time" in facts.request.given:
        return facts.fail("time", next(message for option, _, message in facts.request.faults if option == "time"))
    limits = [(limit, whose) for limit, whose in _wall_limits(facts) if limit is not None]
    lowest, whose = min(limits, default=(None, ""))
    if asked is None:
        defaults = [one.default_time_s or one.max_time_s for one in facts.partitions]
        default = defaults[0] if defaults else None
        what = format_time(default) if default else "without end"
        return Finding(WARN, f"none asked for: the partition's default is {what}; write {facts.name('time')}")
    if lowest is not None and (asked == 0 or asked > lowest):
        shown = format_time(asked or None)
        fate = ""
        if whose.startswith("partition") and facts.cluster.enforce_part_limits.upper() in ("NO", "0"):
            fate = "; sbatch would take it and it would pend for ever"
        return facts.fail("time", f"{shown} is over the limit of {whose}, {format_time(lowest)}{fate}")
    return Finding(OK, f"{format_time(asked or None)}" + (f" of {format_time(lowest)} ({whose})" if lowest else ""))


def _wall_limits(facts: Facts) -> list[tuple[int | None, str]]:
    # of several partitions the most generous one counts: the job runs there
    by_partition = [(one.max_time_s, f"partition {one.name}") for one in facts.partitions]
    unlimited = any(limit is None for limit, _ in by_partition)
    found = [] if unlimited or not by_partition else [max(by_partition, key=lambda pair: pair[0] or 0)]
    return [*found, *((one.max_wall_s, whose) for one, whose in _job_limits(facts))]


def _job_limits(facts: Facts) -> list[tuple[Association | Qos, str]]:
    """The limits of one job that Slurm enforces: the association's, the QOS's."""
    if not facts.cluster.enforce & {"limits", "safe", "all"}:
        return []
    found: list[tuple[Association | Qos, str]] = []
    partitions = {one.name for one in facts.partitions}
    for one in facts.cluster.associations or []:
        if one.account == facts.account and (one.partition is None or one.partition in partitions):
            found.append((one, f"account {one.account}"))
            break
    for name in (facts.request.text("qos") or "").lower().split(","):
        if facts.cluster.qos and name in facts.cluster.qos:
            found.append((facts.cluster.qos[name], f"QOS {name}"))
    return found


def resources(facts: Facts) -> Finding:
    """GPUs, CPUs, memory and nodes fit some set of nodes; if not, which single number blocks, and the nearest."""
    if not facts.partitions:
        return NO_PARTITION
    try:
        verdicts = [judge(facts.request, facts.cluster, partition) for partition in facts.partitions]
    except ValueError as error:
        return facts.fail("constraint", str(error))
    good = [verdict for verdict in verdicts if verdict.fits]
    if good:
        best = min(good, key=lambda verdict: verdict.waits)
        return Finding(WARN if best.waits else OK, best.reason)
    worst = verdicts[0]
    fix = f"; nearest that fits: {written(facts, worst.option, worst.most)}" if worst.option and worst.most else ""
    return facts.fail(worst.option, f"{worst.reason}{fix}")


def written(facts: Facts, option: str, most: int) -> str:
    """The highest number that fits, as the user would write it: a spec key's value or an option's."""
    request, key = facts.request, facts.keys.get(option, "")
    gpus, cpus = max(1, request.gpus_per_node), max(1, request.cpus_per_node)
    values = {
        "cpus_per_task": str(most // request.tasks_per_node),
        "cpus_per_gpu": str(most // gpus),
        "ntasks_per_node": str(most // request.cpus_per_task),
        "mem": format_mem(most),
        "mem_per_cpu": format_mem(most // cpus),
        "mem_per_gpu": format_mem(most // gpus),
        "gpus": str(most * (request.nodes or 1) if key else most),
    }
    if option in ("gres", "gpus-per-node", "gpus-per-task") and not key:
        kind = next((one.kind for one in request.gres if one.name == "gpu" and one.kind), "")
        per = most // request.tasks_per_node if option == "gpus-per-task" else most
        typed = f"{kind}:{per}" if kind else str(per)
        return f"--{option}={'gpu:' if option == 'gres' else ''}{typed}"
    name = key or option.replace("-", "_")
    value = values.get(name, str(most))
    return f"`{name}: {value}`" if key else f"--{option}={value}"


def job_limits(facts: Facts) -> Finding:
    """What one job may have at most by its association and QOS."""
    request = facts.request
    nodes = request.nodes or 1
    mine = {
        "cpu": request.cpus_per_node * nodes if request.nodes else (request.ntasks or 1) * request.cpus_per_task,
        "mem": (request.mem_mib or 0) * nodes,
        "node": nodes,
        "gres/gpu": request.gpus_total.number if request.gpus_total else request.gpus_per_node * nodes,
    }
    for one in request.gres:
        name = f"gres/{one.name}:{one.kind}" if one.kind else f"gres/{one.name}"
        mine.setdefault(name, one.number * nodes)
    looked_at = []
    for limits, whose in _job_limits(facts):
        for per, table in (("a job", limits.max_tres), ("a node", limits.max_tres_per_node)):
            for name, most in table.items():
                asked = mine.get(name, 0) // (nodes if per == "a node" else 1)
                looked_at.append(name)
                if asked > most:
                    show = format_mem if name == "mem" else str
                    message = f"{show(asked)} {name} {per} asked for, but {whose} gets at most {show(most)}"
                    return Finding(FAIL, f"{message}; the job would pend for ever", facts.place(_option_of(name)))
    return Finding(OK, f"{len(looked_at)} limits of a job hold" if looked_at else "none set")


def _option_of(tres: str) -> str:
    return {"cpu": "cpus-per-task", "mem": "mem", "node": "nodes"}.get(tres, "gres")


def array(facts: Facts) -> Finding:
    """The highest index is below MaxArraySize, which caps the index and not the number of tasks."""
    last = facts.request.last_index
    if last is None:
        return Finding(OK, "no array")
    most = facts.cluster.max_array_size
    if last >= most:
        return facts.fail("array", f"index {last} is beyond the cluster's highest, {most - 1} (MaxArraySize)")
    return Finding(OK, f"indexes up to {last} of {most - 1}")


def quota(facts: Facts) -> Finding:
    """What is left of the account's GPU-hours, where something can tell it."""
    if facts.quota is None:
        return Finding(SKIP, "this version does not look at quotas")
    return facts.quota(facts.request, facts.cluster)

"""What to ask Slurm for: the spec's GPUs, CPUs, memory and time put into numbers that fit together.

torchrun needs the same number of GPUs on every node, so all GPUs are counted per node; CPUs and memory per GPU
become CPUs of a task and memory of a node, because steps ignored --cpus-per-gpu before Slurm 23.11.
"""

import re
from collections.abc import Callable

from slurmgpu.errors import nearest
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.options import OPTIONS, Version, format_version
from slurmgpu.experiment.profile import Partition, Profile
from slurmgpu.experiment.spec import Spec
from slurmgpu.slurmtext import array_last_index, expand_hostlist, format_time, parse_time

# a MIG profile anywhere in a gres type: 1g.10gb, a100_3g.20gb, nvidia_h100_1c.2g.20gb
_MIG = r"(?i)(?:^|[_-])(?:\d+c\.)?\d+g\.\d+gb"
# the signals that torchrun's agent handles; any other ends it at once, and its ranks with it
_TORCHRUN_SIGNALS = frozenset({"TERM", "INT", "HUP", "QUIT", "15", "2", "1", "3"})

# what `exclusive` may be for a job that has its nodes to itself; user and mcs share them with their like
_WHOLE_NODES = (True, "topo")

Refuse = Callable[[str, str], None]


class Allocation(Fields):
    """The numbers behind the directives, each with the words that `--explain` shows for it."""

    launcher: str
    nodes: int
    gpus_per_node: int
    tasks_per_node: int
    ranks_per_node: int
    cpus_per_task: int | None = None
    mem_mib: int | None = None  # per node, or per CPU if mem_per_cpu
    mem_per_cpu: bool = False
    why: dict[str, str]
    notes: list[str]


def allocate(spec: Spec, profile: Profile, version: Version | None, refuse: Refuse) -> Allocation:
    """The allocation of a spec. `refuse(key, message)` is called for each thing that cannot be."""
    gpus, gpus_why = _gpus_per_node(spec, refuse)
    launcher, launcher_why = _launcher(spec, gpus)
    tasks, ranks = _tasks(spec, launcher, gpus, refuse)
    job = Allocation(
        launcher=launcher,
        nodes=spec.nodes,
        gpus_per_node=gpus,
        tasks_per_node=tasks,
        ranks_per_node=ranks,
        why={"launcher": launcher_why, "gpus_per_node": gpus_why},
        notes=[],
    )
    if launcher == "torchrun" and gpus and ranks > gpus and not spec.force:
        refuse("torchrun", f"starts {ranks} ranks on {gpus} GPUs a node; write `force: true` if that is meant")
    partition = _partition(spec, profile, refuse, job)
    _check_gpu_type(spec, partition, ranks, gpus, refuse)
    partition = _of_type(partition, spec.gpu_type)
    _set_cpus(spec, partition, job)
    _set_mem(spec, profile, partition, job, refuse)
    _check_limits(spec, profile, partition, job, refuse)
    _check_version(spec, version, job, refuse)
    return job


def _gpus_per_node(spec: Spec, refuse: Refuse) -> tuple[int, str]:
    if spec.gpus_per_node is not None:
        return spec.gpus_per_node, ""
    if spec.gpus is None:
        return 0, "no GPUs asked for"
    each, left = divmod(spec.gpus, spec.nodes)
    if left:
        refuse(
            "gpus",
            f"{spec.gpus} do not divide evenly over {spec.nodes} nodes; write {each * spec.nodes or spec.nodes} "
            f"or {(each + 1) * spec.nodes}",
        )
    return each, f"{spec.gpus} GPUs / {spec.nodes} nodes"


def _launcher(spec: Spec, gpus_per_node: int) -> tuple[str, str]:
    if spec.launcher is not None:
        return spec.launcher, ""
    if gpus_per_node * spec.nodes > 1:
        return "torchrun", "default with more than one GPU"
    return "python", "default with one GPU or none"


def _both(spec: Spec, option: str) -> tuple[tuple[str, dict[str, str | None]], ...]:
    """Where an option may stand, as a key of its own and in the sbatch block: (key to name, options)."""
    return (option.replace("-", "_"), spec.options), ("sbatch", spec.sbatch)


def _tasks(spec: Spec, launcher: str, gpus: int, refuse: Refuse) -> tuple[int, int]:
    """Slurm tasks a node and program ranks a node."""
    asked = spec.ntasks_per_node
    for key, options in _both(spec, "tres-per-task"):
        if "gpu" in (options.get("tres-per-task") or ""):
            refuse(key, "hides all GPUs but one from each rank; write `gpus_per_node`")
    if launcher == "torchrun":
        if asked is not None:
            refuse("ntasks_per_node", "must not be given with torchrun: one task a node starts all its ranks")
        for key, options in _both(spec, "signal"):
            name = (options.get("signal") or "TERM").rpartition(":")[2].partition("@")[0]
            if name.upper().removeprefix("SIG") not in _TORCHRUN_SIGNALS:
                refuse(key, f"{name} ends torchrun on the spot, and the ranks never see it; write TERM")
        ranks = spec.torchrun.nproc_per_node or gpus
        if not ranks:
            refuse("launcher", "torchrun needs `gpus_per_node`, or `torchrun: {nproc_per_node: N}` without GPUs")
        return 1, ranks or 1
    if spec.torchrun.nproc_per_node is not None:
        refuse("torchrun", f"has no meaning with launcher {launcher}")
    if launcher == "python":
        if spec.nodes > 1 or (asked or 1) > 1:
            refuse("launcher", "python starts one process on one node; write torchrun or srun for more")
        return 1, 1
    if launcher == "srun" and gpus:
        if asked not in (None, gpus):
            refuse("ntasks_per_node", f"is {asked}, but srun starts one rank a GPU and there are {gpus} a node")
        return gpus, gpus
    return asked or 1, asked or 1


def has_whole_nodes(spec: Spec) -> bool:
    """Whether the job has its nodes to itself, so that it may see more GPUs than it asked for."""
    return spec.exclusive in _WHOLE_NODES


def is_mig(gpu_type: str | None) -> bool:
    """Whether a gres type names a MIG profile."""
    return bool(gpu_type and re.search(_MIG, gpu_type))


def _check_gpu_type(spec: Spec, partition: Partition, ranks: int, gpus: int, refuse: Refuse) -> None:
    kind = spec.gpu_type
    if kind is None:
        return
    if not gpus:
        refuse("gpu_type", "is given without `gpus_per_node` or `gpus`")
    if partition.gpu_types and kind not in partition.gpu_types:
        guess = nearest(kind, partition.gpu_types) or ", ".join(partition.gpu_types)
        refuse("gpu_type", f"{kind!r} is not in this partition; gres types are spelled exactly: {guess}")
    if is_mig(kind) and ranks > 1 and not spec.force:
        # one process sees one MIG device, and NCCL does not run between slices
        refuse("gpu_type", f"{kind!r} is a MIG slice: {ranks} ranks on one node cannot form a group; "
               "ask for one, or write `force: true`")  # fmt: skip


def _partition(spec: Spec, profile: Profile, refuse: Refuse, job: Allocation) -> Partition:
    asked = next(
        ((key, options["partition"]) for key, options in _both(spec, "partition") if "partition" in options), None
    )
    names = (asked[1] if asked else None) or profile.default_partition or ""
    if not profile.partitions:
        return Partition()
    known = [name for name in names.split(",") if name in profile.partitions]
    for name in names.split(",") if names else []:
        if name not in profile.partitions and asked:
            guess = nearest(name, list(profile.partitions)) or ", ".join(profile.partitions)
            refuse(asked[0], f"{name!r} is not in profile {profile.name}; it has {guess}")
    if not known:
        return Partition()
    if len(known) > 1:
        job.notes.append(f"several partitions: sizes and limits are those of {known[0]}, the others unchecked")
    return profile.partitions[known[0]]


def _of_type(partition: Partition, kind: str | None) -> Partition:
    """The partition as a job on one GPU type sees it, where the profile has sizes by type."""
    sizes = partition.types.get(kind or "")
    if sizes is None:
        return partition
    told = {name: value for name, value in vars(sizes).items() if value is not None}
    # the share of the partition is the smallest of its types
    mine = {"cpus_per_gpu": None, "mem_per_gpu": None} if "gpus_per_node" in told else {}
    return Partition(**{**vars(partition), **mine, **told})


def _set_cpus(spec: Spec, partition: Partition, job: Allocation) -> None:
    if spec.cpus_per_task is not None:
        job.cpus_per_task = spec.cpus_per_task
    elif spec.cpus_per_gpu is not None and job.gpus_per_node:
        job.cpus_per_task = -(-spec.cpus_per_gpu * job.gpus_per_node // job.tasks_per_node)
        job.why["cpus_per_task"] = (
            f"cpus_per_gpu {spec.cpus_per_gpu} x {job.gpus_per_node} GPUs / {job.tasks_per_node} tasks a node"
        )
    elif spec.cpus_per_gpu is not None:
        job.cpus_per_task = spec.cpus_per_gpu
        job.why["cpus_per_task"] = "cpus_per_gpu, without GPUs"
    elif partition.cpus_per_gpu and job.gpus_per_node:
        job.cpus_per_task = max(1, partition.cpus_per_gpu * job.gpus_per_node // job.tasks_per_node)
        job.why["cpus_per_task"] = f"the profile's {partition.cpus_per_gpu} CPUs a GPU x {job.gpus_per_node} GPUs"
    elif partition.cpus_per_node and partition.gpus_per_node and job.gpus_per_node:
        share = partition.cpus_per_node * job.gpus_per_node // partition.gpus_per_node
        job.cpus_per_task = max(1, share // job.tasks_per_node)
        job.why["cpus_per_task"] = (
            f"the GPUs' share of a node: {partition.cpus_per_node} CPUs x {job.gpus_per_node} of "
            f"{partition.gpus_per_node} GPUs"
        )
    else:
        job.notes.append("no `cpus_per_gpu` or `cpus_per_task`: Slurm gives the site's default, often one CPU")


def _set_mem(spec: Spec, profile: Profile, partition: Partition, job: Allocation, refuse: Refuse) -> None:
    """Exactly one memory flag, in the site's dialect."""
    if spec.mem_per_cpu is not None:
        job.mem_mib, job.mem_per_cpu = spec.mem_per_cpu, True
        return
    if spec.mem is not None:
        job.mem_mib = spec.mem
    elif spec.mem_per_gpu is not None and job.gpus_per_node:
        job.mem_mib = spec.mem_per_gpu * job.gpus_per_node
        job.why["mem"] = f"mem_per_gpu {spec.mem_per_gpu} MiB x {job.gpus_per_node} GPUs a node"
    elif spec.mem_per_gpu is not None:
        refuse("mem_per_gpu", "is given without GPUs; write `mem`")
        return
    elif has_whole_nodes(spec):
        # --exclusive takes all CPUs and GPUs of a node but only the memory asked for (sbatch(1))
        job.mem_mib = 0
        job.why["mem"] = "exclusive: the node's whole memory"
    elif partition.mem_per_gpu and job.gpus_per_node:
        job.mem_mib = partition.mem_per_gpu * job.gpus_per_node
        job.why["mem"] = f"the profile's {partition.mem_per_gpu} MiB a GPU x {job.gpus_per_node} GPUs"
    elif partition.mem_per_node and partition.gpus_per_node and job.gpus_per_node:
        job.mem_mib = partition.mem_per_node * job.gpus_per_node // partition.gpus_per_node
        job.why["mem"] = (
            f"the GPUs' share of a node: {partition.mem_per_node} MiB x {job.gpus_per_node} of "
            f"{partition.gpus_per_node} GPUs"
        )
    else:
        job.notes.append("no `mem_per_gpu` or `mem`: Slurm gives the site's default, where none is set a whole node")
        return
    if profile.mem_dialect == "mem-per-cpu" and job.mem_mib:
        if job.cpus_per_task is None:
            refuse("mem", f"profile {profile.name} takes memory per CPU only: write `cpus_per_gpu` too")
            return
        cpus = job.cpus_per_task * job.tasks_per_node
        why = job.why.get("mem", f"{job.mem_mib} MiB a node")
        job.why["mem"] = f"{why}, / {cpus} CPUs (the site counts memory per CPU)"
        job.mem_mib, job.mem_per_cpu = -(-job.mem_mib // cpus), True


def _check_limits(spec: Spec, profile: Profile, partition: Partition, job: Allocation, refuse: Refuse) -> None:
    _check_time(spec, partition, job, refuse)
    cpus = (job.cpus_per_task or 0) * job.tasks_per_node
    mem = (job.mem_mib or 0) * (cpus if job.mem_per_cpu else 1)
    for keys, asked, most in (
        (("nodes",), job.nodes, partition.nodes),
        (("gpus_per_node", "gpus"), job.gpus_per_node, partition.gpus_per_node),
        (("cpus_per_task", "cpus_per_gpu"), cpus, partition.cpus_per_node),
        (("mem", "mem_per_gpu", "mem_per_cpu"), mem, partition.mem_per_node),
    ):
        if most is not None and asked > most:
            # the key that stands in the file, not the one that it was computed into
            key = next((key for key in keys if getattr(spec, key) is not None), keys[0])
            unit = " MiB" if keys[0] == "mem" else ""
            refuse(key, f"comes to {asked}{unit}, but this partition has {most}{unit}")
    if spec.array is not None:
        last = array_last_index(spec.array)
        if profile.max_array_size is not None and last >= profile.max_array_size:
            refuse("array", f"index {last} is beyond the cluster's highest, {profile.max_array_size - 1}")
        elif profile.max_array_size is None and last > 1000:
            job.notes.append(f"array index {last}: most clusters stop at 1000 (MaxArraySize)")
    if spec.nodelist is not None:
        _check_nodelist(spec, job, refuse)


def _check_time(spec: Spec, partition: Partition, job: Allocation, refuse: Refuse) -> None:
    if spec.time is None:
        job.notes.append("no `time`: the partition's default applies, which may be short or endless")
        return
    asked = parse_time(spec.time)
    if partition.max_time_s is not None and (asked is None or asked > partition.max_time_s):
        # without EnforcePartLimits such a job is accepted and pends for ever
        refuse("time", f"{spec.time} is over this partition's limit of {format_time(partition.max_time_s)}")


def _check_nodelist(spec: Spec, job: Allocation, refuse: Refuse) -> None:
    try:
        hosts = set(expand_hostlist(spec.nodelist or ""))
    except ValueError as error:
        refuse("nodelist", str(error))
        return
    if len(hosts) < job.nodes:
        job.notes.append(f"`nodelist` has {len(hosts)} of {job.nodes} nodes: Slurm adds others of its choice")
    elif len(hosts) > job.nodes:
        refuse("nodelist", f"names {len(hosts)} nodes, but `nodes` is {job.nodes}")


# uses of a value that only newer releases know: key, test of the value, since when, what it is
_VALUE_RULES: tuple[tuple[str, Callable[[str], bool], Version, str], ...] = (
    ("requeue", lambda value: value == "expedite", (25, 11), "`requeue: expedite`"),
    ("qos", lambda value: "," in value, (24, 11), "a list of QOS"),
    ("output", lambda value: "%r" in value.replace("%%", ""), (25, 11), "%r in a file name"),
    ("output", lambda value: "%b" in value.replace("%%", ""), (24, 11), "%b in a file name"),
    ("error", lambda value: "%r" in value.replace("%%", ""), (25, 11), "%r in a file name"),
    ("error", lambda value: "%b" in value.replace("%%", ""), (24, 11), "%b in a file name"),
    ("export", lambda value: value == "NIL", (23, 11), "`export: NIL`"),
    ("exclusive", lambda value: value == "topo", (24, 5), "`exclusive: topo`"),
)


def _check_version(spec: Spec, version: Version | None, job: Allocation, refuse: Refuse) -> None:
    """The version table, where a version is known to render for."""
    if version is None:
        return
    target = format_version(version)
    for name in (*spec.options, *spec.sbatch):
        option = OPTIONS.get(name)
        if option is None:
            continue
        key = name.replace("-", "_") if name in spec.options else "sbatch"
        if version < option.since and option.since > (21, 8):
            refuse(key, f"--{name} needs Slurm {format_version(option.since)}, not {target}")
        elif option.until is not None and version >= option.until:
            refuse(key, f"--{name} is gone since Slurm {format_version(option.until)}")
    for key, matches, since, what in _VALUE_RULES:
        value = spec.options.get(key) if key in OPTIONS else getattr(spec, key)
        if version < since and isinstance(value, str) and matches(value):
            refuse(key, f"{what} needs Slurm {format_version(since)}, not {target}")
    if job.mem_mib == 0 and spec.nodes > 1 and version < (23, 2):
        job.notes.append(f"mem 0 on Slurm {target} is the smallest node's memory on every node")
    if version < (21, 8):
        job.notes.append(f"Slurm {target} is older than the releases that were compared (21.08 and newer)")

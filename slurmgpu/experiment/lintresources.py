"""The rules of `lint` about GPUs, CPUs and tasks in a header: what does not go together, or binds otherwise."""

import re
from collections.abc import Iterator

from slurmgpu.experiment.finding import Found, Rule
from slurmgpu.experiment.lintscript import Script

_TORCHRUN = re.compile(r"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b|\baccelerate +launch\b|\bdeepspeed\b")
_USES_GPUS = re.compile(rf"{_TORCHRUN.pattern}|\bnvidia-smi\b|(?:^|\s)--nv(?:\s|$)|\bnccl|\bcuda", re.IGNORECASE)
_STEP = re.compile(r"(?:^|[\s;&|(])srun\s", re.MULTILINE)


def uneven(script: Script) -> Iterator[Found]:
    """--gpus is for the job, and every node of a training needs as many as the others."""
    total, nodes = script.request.gpus_total, script.request.nodes or 1
    if total is None or "gpus" not in script.request.given or nodes < 2:
        return
    kind = f"{total.kind}:" if total.kind else ""
    if total.number < nodes:
        message = f"--gpus={total.number} for {nodes} nodes: sbatch refuses less than one each"
        yield *script.place("gpus"), message, f"--gpus-per-node={kind}1"
    elif total.number % nodes:
        share = -(-total.number // nodes)
        message = f"--gpus={total.number} cannot be the same on {nodes} nodes, and torchrun needs it the same"
        yield *script.place("gpus"), message, f"--gpus-per-node={kind}{share} for {share * nodes} in all"


def perhaps_uneven(script: Script) -> Iterator[Found]:
    """Slurm need not give each node the same."""
    total, nodes = script.request.gpus_total, script.request.nodes or 1
    if total and "gpus" in script.request.given and nodes > 1 and total.number >= nodes and not total.number % nodes:
        share = f"{total.kind}:{total.number // nodes}" if total.kind else str(total.number // nodes)
        message = f"--gpus={total.number} is for the whole job: Slurm may split it unevenly over {nodes} nodes"
        yield *script.place("gpus"), message, f"--gpus-per-node={share}"


def both_dialects(script: Script) -> Iterator[Found]:
    """--gres=gpu or --gpus-per-node."""
    if "gpus-per-node" in script.request.given and re.search(r"(^|[,/])gpu\b", script.value("gres") or ""):
        message = "--gres=gpu and --gpus-per-node ask for the same: Slurm refuses them, or takes one"
        yield *script.place("gpus-per-node"), message, "keep one of them"


def slice_as_count(script: Script) -> Iterator[Found]:
    """gpu:3g is 3 times 1024³ GPUs."""
    for option in ("gres", "gpus-per-node", "gpus", "gpus-per-task"):
        for part in (script.value(option) or "").split(","):
            words = part.split(":")
            if re.fullmatch(r"\d+[kKmMgGtT]", words[-1]) and (option != "gres" or words[0] in ("gpu", "gres/gpu")):
                message = f"the last word of {part!r} is a number with a unit to Slurm, and no type"
                yield *script.place(option), message, f"write the whole type and the number: gpu:{words[-1]}.20gb:1"


def bound_to_tasks(script: Script) -> Iterator[Found]:
    """torchrun's ranks must see all GPUs of the node."""
    for option in ("gpus-per-task", "ntasks-per-gpu"):
        if option in script.request.given and _TORCHRUN.search(script.code):
            message = f"--{option} binds GPUs to tasks, and torchrun is one task a node that needs all of them"
            yield *script.place(option), message, "--gpus-per-node=N and --ntasks-per-node=1"


def gpus_without_tasks(script: Script) -> Iterator[Found]:
    """--gpus-per-task multiplies with the tasks."""
    given = script.request.given
    if "gpus-per-task" in given and not {"ntasks", "ntasks-per-node"} & given.keys():
        message = "--gpus-per-task without a number of tasks: Slurm from 23.11 on refuses it"
        yield *script.place("gpus-per-task"), message, "add --ntasks-per-node=N, or write --gpus-per-node=N"


def exclusive_without_gpus(script: Script) -> Iterator[Found]:
    """A whole node's GPUs come to a step only if they were asked for."""
    request = script.request
    asks_none = request.is_exclusive and not request.gpus_per_node and not request.gpus_total
    if asks_none and _STEP.search(script.code) and _USES_GPUS.search(script.code):
        message = "--exclusive without GPUs: the batch script sees them all, a step of srun gets none"
        yield *script.place("exclusive"), message, "add --gpus-per-node=N"


def exclusive_without_mem(script: Script) -> Iterator[Found]:
    """--exclusive takes the node's CPUs and GPUs, and not its memory."""
    given = script.request.given
    if script.request.is_exclusive and not {"mem", "mem-per-cpu", "mem-per-gpu"} & given.keys():
        message = "--exclusive takes every CPU and GPU of the node, but only the default memory"
        yield *script.place("exclusive"), message, "add --mem=0 for all of it"


def both_cpus(script: Script) -> Iterator[Found]:
    """CPUs by task or by GPU."""
    if {"cpus-per-gpu", "cpus-per-task"} <= script.request.given.keys():
        message = "--cpus-per-gpu and --cpus-per-task exclude each other: sbatch refuses them"
        yield *script.place("cpus-per-gpu"), message, "keep --cpus-per-task"


def tasks_by_gpu_and_node(script: Script) -> Iterator[Found]:
    """Tasks by GPU, or by node."""
    given = script.request.given
    for rival in ("ntasks-per-node", "gpus-per-task"):
        if rival in given and "ntasks-per-gpu" in given:
            message = f"--ntasks-per-gpu and --{rival} exclude each other: sbatch refuses them"
            yield *script.place("ntasks-per-gpu"), message, "keep --ntasks-per-node and --gpus-per-node"


RULES = (
    (Rule("SG130", "uneven GPUs", "Ranks of torchrun wait for ever for the ones that are missing."), uneven),
    (Rule("SG131", "GPUs of the job", "Where nodes are in use by others, one may get more than the next.", False),
     perhaps_uneven),
    (Rule("SG132", "GPUs asked for twice", "Invalid generic resource specification."), both_dialects),
    (Rule("SG133", "MIG slice as a number", "Slurm reads k, m, g and t as powers of 1024."), slice_as_count),
    (Rule("SG134", "GPUs bound to tasks", "A rank sees one GPU: invalid device ordinal."), bound_to_tasks),
    (Rule("SG135", "GPUs of no task", "sbatch refuses the script, or Slurm gives one GPU."), gpus_without_tasks),
    (Rule("SG136", "whole node without its GPUs", "The program says that no GPU is there."), exclusive_without_gpus),
    (Rule("SG137", "whole node without its memory", "The job is killed with most of the memory free.", False),
     exclusive_without_mem),
    (Rule("SG138", "CPUs asked for twice", "sbatch refuses the script."), both_cpus),
    (Rule("SG139", "tasks asked for twice", "sbatch refuses the script."), tasks_by_gpu_and_node),
)  # fmt: skip

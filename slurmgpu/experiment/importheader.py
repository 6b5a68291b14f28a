"""The header of a hand-written script as keys of a spec, and what changes on the way."""

import re
from collections.abc import Iterator, Mapping

from slurmgpu.experiment.arguments import Given
from slurmgpu.experiment.lintscript import Script
from slurmgpu.experiment.options import OPTIONS, REFUSED
from slurmgpu.experiment.request import Gres, read_gres

# the line, and what is to be said of it
Note = tuple[int, str]
Keys = dict[str, object]

# options whose key holds the same text
_SAME = ("cpus-per-task", "cpus-per-gpu", "mem", "mem-per-cpu", "mem-per-gpu", "time", "constraint", "nodelist",
         "array", "chdir", "output", "error", "open-mode")  # fmt: skip
_GPUS = frozenset({"gres", "gpus", "gpus-per-node", "gpus-per-task"})
_PLACED = frozenset({"job-name", "nodes", "ntasks", "ntasks-per-node", "exclusive", "requeue", "no-requeue"})
_PATHS = ("chdir", "output", "error", "input")
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)", re.ASCII)
# in the order that people read a spec in
_ORDER = ("name", "nodes", "gpus_per_node", "gpu_type", "ntasks_per_node", "cpus_per_task", "cpus_per_gpu", "mem",
          "mem_per_cpu", "mem_per_gpu", "time", "partition", "account", "qos", "array")  # fmt: skip


def keys_of(script: Script, name: str, environ: Mapping[str, str], notes: list[Note]) -> Keys:
    """The keys that ask for what the header asks for. `name` is that of the file, which sbatch calls a job by."""
    given = script.request.given
    keys: Keys = {"name": (script.value("job-name") or name).replace("/", "-")}
    if "/" in (script.value("job-name") or ""):
        notes.append((given["job-name"].line, "a name with a slash makes folders of the log: - in its place"))
    _add_nodes(script, keys, notes)
    _add_gpus(script, keys, notes)
    for option in _SAME:
        if option in given:
            keys[option.replace("-", "_")] = _text(script, given[option], environ, notes)
    if "exclusive" in given:
        keys["exclusive"] = given["exclusive"].value or True
    if script.request.is_exclusive and not {"mem", "mem-per-cpu", "mem-per-gpu"} & given.keys():
        message = "--exclusive alone takes the default memory; the spec takes all of the node's"
        notes.append((given["exclusive"].line, message))
    if "requeue" in given and not ("no-requeue" in given and given["no-requeue"].line > given["requeue"].line):
        keys["requeue"] = given["requeue"].value or True
    elif "no-requeue" not in given:
        notes.append((0, "it says neither --requeue nor --no-requeue: the spec's default is --no-requeue"))
    for option, one in given.items():
        if option not in _GPUS | _PLACED and option not in _SAME:
            _add_other(script, one, keys, environ, notes)
    _add_log(script, keys, notes)
    return {key: keys[key] for key in (*_ORDER, *keys) if key in keys}


def _text(script: Script, given: Given, environ: Mapping[str, str], notes: list[Note]) -> str:
    """The value; in paths a spec expands ~ and $NAME, which sbatch does not, and which was meant all the same."""
    value = given.value or ""
    if given.option not in _PATHS:
        return value
    found = _VARIABLE.search(value)
    if found and (script.is_ours or found[1] not in environ):
        found = None
    if found := found or re.match(r"~(?=/|$)", value):
        notes.append((given.line, f"sbatch does not expand {found[0]} in --{given.option}; the spec does"))
        return value
    return value.replace("$", "$$")


def _add_nodes(script: Script, keys: Keys, notes: list[Note]) -> None:
    request, given = script.request, script.request.given
    if request.nodes and (request.nodes > 1 or "nodes" in given):
        keys["nodes"] = request.nodes
    if not (script.value("nodes") or "1").isdigit():
        message = f"--nodes={script.value('nodes')} is a range: the spec asks for the least"
        notes.append((given["nodes"].line, message))
    if request.nodes is None and request.ntasks and request.ntasks > 1:
        keys["nodes"] = 1
        keys["ntasks_per_node"] = request.ntasks
        message = f"--ntasks={request.ntasks} without --nodes may be spread: the spec asks for one node"
        notes.append((given["ntasks"].line, message))
    elif request.tasks_per_node > 1 or "ntasks-per-node" in given or "ntasks" in given:
        keys["ntasks_per_node"] = request.tasks_per_node
        if request.ntasks and request.nodes and request.ntasks % request.nodes:
            message = f"--ntasks={request.ntasks} over {request.nodes} nodes: the spec has the same on each"
            notes.append((given["ntasks"].line, message))


def _add_gpus(script: Script, keys: Keys, notes: list[Note]) -> None:
    """GPUs of each node, however they were asked for; other resources stay gres."""
    given = script.request.given
    other = []
    if "gres" in given:
        try:
            other = [one for one in read_gres(given["gres"].value or "") if one.name != "gpu"]
        except ValueError as error:
            notes.append((given["gres"].line, f"--gres is not carried over: {error}"))
    if other:
        keys["gres"] = ",".join(map(str, other))
    gpus = [one for one in script.request.gres if one.name == "gpu"]
    total = script.request.gpus_total
    if total and not gpus:
        nodes = script.request.nodes or 1
        if total.number % nodes:
            message = f"--gpus={total.number} is uneven on {nodes} nodes: the spec has the same on each, and more"
            notes.append((given[script.request.gpu_option].line, message))
        gpus = [Gres("gpu", total.kind, -(-total.number // nodes))]
    if not gpus:
        return
    first = gpus[0]
    keys["gpus_per_node"] = first.number
    if first.kind:
        keys["gpu_type"] = first.kind
    line = given[script.request.gpu_option].line
    if len(gpus) > 1:
        notes.append((line, f"{', '.join(map(str, gpus[1:]))} is not carried over: a spec has GPUs of one type"))
    if script.request.gpu_option == "gpus-per-task":
        notes.append((line, "--gpus-per-task hides the other GPUs from each task: the spec asks for them per node"))


def _add_other(script: Script, given: Given, keys: Keys, environ: Mapping[str, str], notes: list[Note]) -> None:
    option, key = given.option, given.option.replace("-", "_")
    if option in OPTIONS:
        keys[key] = _text(script, given, environ, notes) if given.value is not None else True
    elif option in REFUSED and option != "profile":
        notes.append((given.line, f"--{option} is not carried over: {REFUSED[option]}"))
    else:
        block = keys.setdefault("sbatch", {})
        assert isinstance(block, dict)
        block[option] = given.value if given.value is not None else True


def _add_log(script: Script, keys: Keys, notes: list[Note]) -> None:
    """The log has the name that sbatch gives it."""
    if "output" not in keys:
        keys["output"] = "slurm-%A_%a.out" if "array" in keys else "slurm-%j.out"
    if "open_mode" not in keys and not re.search(r"%\d*[jAJ]", str(keys["output"])):
        notes.append((0, "the spec's log goes on where one of that name is: `open_mode: truncate` starts anew"))


def not_read(script: Script) -> Iterator[Note]:
    """The lines that look like directives, and that sbatch does not read."""
    from slurmgpu.experiment import lintheader

    for rule, check in lintheader.RULES:
        if rule.code in ("SG101", "SG102", "SG103", "SG104", "SG105", "SG106", "SG107", "SG108", "SG109", "SG112"):
            yield from ((line, f"{message}; so it is not carried over") for line, _, message, _ in check(script))

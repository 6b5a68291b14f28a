"""The JSON Schema of a spec, for an editor: made of the same table of keys that a spec is checked by.

Draft 7, because the YAML language server of the common editors takes no newer one. It sees numbers and truth values
where slurmgpu sees text as typed, so a text may be either.
"""

from functools import partial
from typing import Any

from slurmgpu.experiment import kinds, spec
from slurmgpu.experiment.kinds import Kind, OneOf
from slurmgpu.experiment.options import OPTIONS

Schema = dict[str, Any]

_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_ONE_LINE: Schema = {"type": ["string", "number", "boolean"], "minLength": 1, "pattern": r"^[^\x00-\x1f\x7f]*$"}
_TRUTH: Schema = {"enum": [True, False, "true", "false", "True", "False", "TRUE", "FALSE"]}
_LIST: Schema = {"anyOf": [_ONE_LINE, {"type": "array", "items": _ONE_LINE}]}
_TIME: Schema = {
    "type": ["string", "integer"],
    "minimum": 0,
    "pattern": r"^(\d+-\d+(:\d+){0,2}|\d+(:\d+){0,2}|(\d+[dD])?(\d+[hH])?(\d+[mM])?(\d+[sS])?|[A-Za-z]+)$",
    "examples": ["90m", "24:00:00", "1-12", "UNLIMITED"],
}
_MEM: Schema = {
    "type": ["string", "integer"],
    "minimum": 0,
    "pattern": r"^\d+(\.\d+)?\s*([kKmMgGtT]([iI]?[bB])?)?$",
    "examples": ["64G", "1500M"],
}
_ARRAY: Schema = {
    "type": ["string", "integer"],
    "minimum": 0,
    "pattern": r"^\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?$",
    "examples": ["0-9%4"],
}
_COMMAND: Schema = {
    "anyOf": [{"type": ["string", "number"], "minLength": 1}, {"type": "array", "items": _SCALAR, "minItems": 1}]
}
_SECRETS: Schema = {
    "anyOf": [
        {"type": "array", "items": {"type": "string", "pattern": f"^{_NAME}$"}},
        {"type": "object", "propertyNames": {"pattern": f"^{_NAME}$"}, "additionalProperties": _ONE_LINE},
    ]
}
_SWEEP: Schema = {
    "anyOf": [
        {
            "type": "array",
            "description": "A list of points.",
            "minItems": 1,
            "items": {"type": "object", "minProperties": 1, "additionalProperties": _SCALAR},
        },
        {
            "type": "object",
            "description": "A CSV file whose first row names the parameters.",
            "properties": {"file": {"type": "string"}},
            "required": ["file"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "description": "A grid: every value of each parameter with every value of the others.",
            "minProperties": 1,
            "additionalProperties": {"type": "array", "items": _SCALAR, "minItems": 1},
        },
    ]
}


def _whole(least: int) -> Schema:
    return {"type": ["integer", "string"], "minimum": least, "pattern": r"^\+?\d+$"}


_OF_KIND: dict[Kind, Schema] = {
    kinds.text: _ONE_LINE,
    kinds.directory: _ONE_LINE,
    kinds.integer: _whole(1),
    kinds.counting: _whole(0),
    kinds.truth: _TRUTH,
    kinds.time: _TIME,
    kinds.mem: _MEM,
    kinds.some_mem: _MEM,
    kinds.array: _ARRAY,
    kinds.script: _SCALAR,
    kinds.words: _LIST,
    kinds.joined: _LIST,
    kinds.command: _COMMAND,
    kinds.environment: {
        "type": "object", "propertyNames": {"pattern": f"^{_NAME}$"}, "additionalProperties": _SCALAR,
    },
    kinds.secrets: _SECRETS,
}  # fmt: skip
_OF_KEY: dict[str, Schema] = {
    "name": _ONE_LINE,
    "gpu_type": _ONE_LINE,
    "exclusive": {"enum": [*_TRUTH["enum"], "user", "mcs", "topo"]},
    "requeue": {"enum": [*_TRUTH["enum"], "expedite"]},
    "sweep": _SWEEP,
    "sbatch": {"type": "object", "additionalProperties": _SCALAR},
    "container.image": _ONE_LINE,
    "container.mounts": {"type": "array", "items": _ONE_LINE},
    "container.workdir": {"type": "string", "pattern": "^[/~$]"},
    "container.args": {"type": "array", "items": _ONE_LINE},
    "checkpoint.signal": {"type": "string", "pattern": "^([sS][iI][gG])?[uU][sS][rR][12]$", "examples": ["USR1"]},
    "checkpoint.lead_time": _TIME,
    "checkpoint.resume_args": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]},
}
_OF_OPTION: dict[str, Schema] = {
    "flag-or-text": _ONE_LINE,
    "flag-or-integer": {"type": ["integer", "boolean", "string"], "pattern": r"^([+-]?\d+|true|false)$"},
}
_DESCRIPTIONS: dict[str, str] = {
    "command": "The program and its arguments. A .py file is run by the launcher's Python; a list is an exact argv.",
    "name": "The job's name; default: the spec's file name.",
    "launcher": "How the program starts: torchrun, srun (a rank a task), python (one process) or shell (lines).",
    "nodes": "How many nodes.",
    "gpus": "GPUs in all; must divide evenly over the nodes.",
    "gpus_per_node": "GPUs of each node.",
    "gpu_type": "The GPUs' type as the cluster spells it, such as h100.",
    "ntasks_per_node": "Tasks of each node, for launcher srun and shell.",
    "cpus_per_task": "CPUs of each task.",
    "cpus_per_gpu": "CPUs for each GPU.",
    "mem": "Memory of each node; 0 is all of it.",
    "mem_per_cpu": "Memory for each CPU.",
    "mem_per_gpu": "Memory for each GPU.",
    "time": "The time limit: 90m, 12h, 24:00:00, 1-12; a bare number is minutes.",
    "gres": "Other generic resources than GPUs, such as nvme:1.",
    "constraint": "Features that the nodes must have.",
    "nodelist": "Nodes that must be in the job.",
    "array": "The indexes of a job array, such as 0-9%4.",
    "sweep": "Points of parameters: a grid, a list, or a CSV file. They become tasks of job arrays.",
    "max_parallel": "How many points of the sweep run at the same time.",
    "exclusive": "Whole nodes.",
    "chdir": "The folder to run in; default: where the spec is rendered.",
    "output": "The log; %j is the job's number, %x its name.",
    "error": "The log of stderr; default: with output.",
    "open_mode": "What a requeued job does with its log.",
    "requeue": "Whether Slurm may start the job again.",
    "env": "Variables of the program; values arrive byte for byte.",
    "secrets": "Names of variables from your environment, or names with a file of mode 600 that holds the value.",
    "modules": "Modules to load.",
    "conda": "The conda environment to activate.",
    "venv": "The virtual environment to activate.",
    "uv": "The uv project whose environment to use.",
    "setup": "Shell lines before the launch; a failing one ends the job.",
    "torchrun": "How torchrun meets and ends.",
    "torchrun.rendezvous": "c10d, or static where rank 0 must be on the first node.",
    "torchrun.nproc_per_node": "Ranks of each node; default: its GPUs.",
    "torchrun.max_restarts": "How often torchrun starts the ranks again after a failure.",
    "torchrun.exit_wait": "What other nodes get once one has ended.",
    "container": "The image that the program runs in.",
    "container.image": "A file, or an image of a registry, such as nvcr.io/nvidia/pytorch:24.10-py3.",
    "container.runtime": "What starts the image; default: the profile's.",
    "container.mounts": "SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro.",
    "container.workdir": "The folder to start in; default: the job's.",
    "container.args": "Further options of the runtime.",
    "checkpoint": "Save before the time limit, and go on after it.",
    "checkpoint.signal": "What the warning is: USR1 or USR2.",
    "checkpoint.lead_time": "How long before the time limit the warning comes; default 5m.",
    "checkpoint.resume_args": "Arguments behind the command from the second start on.",
    "checkpoint.max_restarts": "How often the job may start again; default 10.",
    "checkpoint.folder": "Where flag files go; default: beside the log.",
    "force": "Render in spite of what the profile says against it.",
    "profile": "The cluster profile to render for.",
    "sbatch": "Any other long option of sbatch; true is a bare flag.",
}


def schema() -> Schema:
    """The schema of a spec."""
    keys = {key: _of(key, kind) for key, kind in spec.KEYS.items()}
    extends = {**_ONE_LINE, "description": "Another spec to start from; this one wins."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "slurmgpu experiment spec",
        "description": "An experiment that slurmgpu turns into an sbatch script.",
        "type": "object",
        "properties": keys | {"extends": extends},
        "anyOf": [{"required": ["command"]}, {"required": ["extends"]}],
        "additionalProperties": False,
    }


def _of(key: str, kind: Kind) -> Schema:
    option = OPTIONS.get(key.replace("_", "-"))
    description = _DESCRIPTIONS.get(key) or (f"sbatch --{key.replace('_', '-')}." if option else "")
    found = _OF_KEY.get(key) or (option and _OF_OPTION.get(option.kind)) or _of_kind(key, kind)
    return {**found, "description": description} if description else found


def _of_kind(key: str, kind: Kind) -> Schema:
    if isinstance(kind, partial):
        kind = kind.func
    if isinstance(kind, OneOf):
        return {"enum": list(kind.words)}
    if isinstance(kind, spec.Block):
        return {
            "type": "object",
            "properties": {name: _of(f"{key}.{name}", one) for name, one in kind.fields.items()},
            "additionalProperties": False,
        }
    return _OF_KIND[kind]

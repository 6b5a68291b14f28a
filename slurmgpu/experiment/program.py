"""The program that a job runs: how a launcher is to be handed the spec's `command`, with a sweep's parameters."""

import re

from slurmgpu.experiment.allocation import Allocation, Refuse
from slurmgpu.experiment.shell import sh
from slurmgpu.experiment.spec import Spec
from slurmgpu.experiment.sweep import Sweep, variable

_PYTHONS = frozenset({"python", "python3"})
_LAUNCHERS = frozenset({"torchrun", "srun", "mpirun", "mpiexec"})


def command_line(spec: Spec, job: Allocation, refuse: Refuse) -> str:
    """The command quoted for bash; with launcher shell its lines as they are."""
    if isinstance(spec.command, str):
        return spec.command.rstrip("\n")
    argv = spec.command
    if argv[0] in _LAUNCHERS or "torch.distributed.run" in argv[:3]:
        refuse("command", f"starts with {argv[0]}: write the program alone, `launcher` starts it")
    if argv[0].startswith("-") and argv[0] != "-m":
        refuse("command", f"starts with {argv[0]}, which a launcher takes for its own; write the program first")
    if argv == ["-m"]:
        refuse("command", "names no module after -m")
    argv = _for_torchrun(argv) if job.launcher == "torchrun" else _with_python(argv)
    line = quoted(argv, spec.sweep)
    if spec.sweep and not any(f"{{{name}}}" in word for name in spec.sweep.names for word in argv):
        # one word each, because a parser takes a value that starts with a dash only so
        line += "".join(f' --{name}="${variable(name)}"' for name in spec.sweep.names)
    return line


def quoted(argv: list[str], sweep: Sweep | None) -> str:
    """The words quoted for bash, with a sweep's parameters for `{lr}` in them."""
    if sweep is None or not sweep.names:
        return " ".join(sh(word) for word in argv)
    placeholder = re.compile("(" + "|".join(re.escape(f"{{{name}}}") for name in sweep.names) + ")")
    words = [
        "".join(
            f'"${variable(piece[1:-1])}"' if placeholder.fullmatch(piece) else sh(piece)
            for piece in placeholder.split(word)
            if piece
        )
        or sh("")
        for word in argv
    ]
    return " ".join(words)


def _is_python(word: str) -> bool:
    return word.endswith(".py") or word == "-m"


def _with_python(argv: list[str]) -> list[str]:
    """A .py file or -m is run by python3, unbuffered so that the log is not minutes behind."""
    return ["python3", "-u", *argv] if _is_python(argv[0]) else argv


def _for_torchrun(argv: list[str]) -> list[str]:
    """torchrun runs python itself: `python train.py` becomes `train.py`, another program --no-python."""
    rest = argv
    if argv[0] in _PYTHONS:
        rest = argv[2:] if argv[1:2] == ["-u"] else argv[1:]
    if rest and _is_python(rest[0]):
        return rest
    return ["--no-python", *argv]


def _looks_expanded(text: str) -> bool:
    return ("$" in text and re.search(r"\$[\w{(]", text) is not None) or "`" in text


def notes(spec: Spec) -> list[str]:
    """What a person may have expected of a value that arrives byte for byte."""
    found = _sweep_notes(spec, spec.sweep) if spec.sweep else []
    if not isinstance(spec.command, str) and any(_looks_expanded(word) for word in spec.command):
        found.append("`command` holds $ or `: words arrive as typed, nothing is expanded (launcher shell expands)")
    found.extend(
        f"`env.{name}` holds $ or `: the value arrives as typed; to extend a variable use `setup`"
        for name, value in spec.env.items()
        if _looks_expanded(value)
    )
    return found


def _sweep_notes(spec: Spec, sweep: Sweep) -> list[str]:
    """Parameters that do not reach the program as a person may have expected."""
    is_shell = isinstance(spec.command, str)
    words = [spec.command, spec.setup or ""] if isinstance(spec.command, str) else spec.command
    placed = [name for name in sweep.names if any(f"{{{name}}}" in word for word in words)]
    found = [
        f"`env.{name}` holds a parameter of the sweep in braces; only `command` and `resume_args` are filled in"
        for name, value in spec.env.items()
        if any(f"{{{parameter}}}" in value for parameter in sweep.names)
    ]
    if is_shell:
        found += [f"`command`: with launcher shell write ${variable(name)} for {{{name}}}" for name in placed]
        missing = [name for name in sweep.names if not any(variable(name) in word for word in words)]
        if len(missing) == len(sweep.names):
            found.append(f"`command` uses no parameter of the sweep; write ${variable(missing[0])} where it belongs")
    elif placed and len(placed) < len(sweep.names):
        missing = [name for name in sweep.names if name not in placed]
        found.append(
            f"`command` does not hold {{{missing[0]}}}: the program finds it as ${variable(missing[0])} only"
        )
    return found

"""sbatch's options as getopt_long reads them: short names, abbreviations, values in the next argument.

`header` splits a script into arguments; here arguments become options with values. Source: slurm_opt.c of every
release from 21.08 to 25.11, compared entry by entry, and getopt_long(3).
"""

from typing import NamedTuple

from slurmgpu.errors import nearest
from slurmgpu.experiment.header import Line
from slurmgpu.experiment.options import OPTIONS, REFUSED, WRITTEN

SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus",
    "H": "hold", "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit",
    "Q": "quiet", "S": "core-spec", "V": "version", "W": "wait", "a": "array", "b": "begin", "c": "cpus-per-task",
    "d": "dependency", "e": "error", "h": "help", "i": "input", "k": "no-kill", "m": "distribution",
    "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "s": "oversubscribe", "t": "time",
    "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip
_OTHER_NAMES = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
_FLAGS = frozenset(
    {
        "consolidate-segments", "contiguous", "external", "help", "hold", "ignore-pbs", "no-requeue", "overcommit",
        "oversubscribe", "parsable", "quiet", "reboot", "spread-job", "spread-segments", "stepmgr", "test-only",
        "usage", "use-min-nodes", "verbose", "version", "wait",
    }
)  # fmt: skip
# a value only after `=`, or for a short option in the same argument
_VALUE_OPTIONAL = frozenset(
    {"exclusive", "get-user-env", "nice", "no-kill", "oom-kill-step", "propagate", "requeue", "resv-ports"}
)
KNOWN = frozenset(
    {
        *OPTIONS, *WRITTEN, *REFUSED, *_OTHER_NAMES, *_FLAGS, *_VALUE_OPTIONAL,
        "autocomplete", "context", "mem-per-gpu", "ntasks", "ntasks-per-tres", "power", "resources",
    }
)  # fmt: skip


class Given(NamedTuple):
    """An option as given: its full name, its value (None for a bare flag), the script's line, and as written.

    `known` is False for a name that is none of sbatch's own, which a plugin of the site may know.
    """

    option: str
    value: str | None
    line: int
    written: str
    known: bool = True


class Fault(NamedTuple):
    """What sbatch would refuse in the header, and the line."""

    line: int
    message: str


def read_options(lines: list[Line]) -> tuple[list[Given], list[Fault]]:
    """The options of a header, in order, and its faults. The lines make one list of arguments, as in sbatch."""
    arguments = [(argument, line.number) for line in lines for argument in line.arguments]
    found: list[Given] = []
    faults: list[Fault] = []
    position = 0
    while position < len(arguments):
        argument, line = arguments[position]
        position += 1
        if argument == "--" or not argument.startswith("-") or argument == "-":
            # sbatch stops here: "Invalid directive found in batch script"
            faults.append(Fault(line, f"{argument!r} is no option; sbatch refuses the script here"))
            break
        following = arguments[position][0] if position < len(arguments) else None
        try:
            given, takes_next = _read_one(argument, line, following)
        except ValueError as error:
            faults.append(Fault(line, str(error)))
            continue
        found.extend(given)
        position += takes_next
    return found, faults


def last_of(given: list[Given]) -> dict[str, Given]:
    """Each option once: sbatch takes the last of several, without a word."""
    return {option.option: option for option in given}


def _read_one(argument: str, line: int, following: str | None) -> tuple[list[Given], bool]:
    if argument.startswith("--"):
        return _read_long(argument, line, following)
    return _read_short(argument, line, following)


def _read_long(argument: str, line: int, following: str | None) -> tuple[list[Given], bool]:
    typed, equals, value = argument[2:].partition("=")
    name, known = _full_name(typed)
    if equals:
        if known and name in _FLAGS:
            raise ValueError(f"--{typed} takes no value")
        return [Given(name, value, line, argument, known)], False
    if not known or name in _FLAGS or name in _VALUE_OPTIONAL:
        return [Given(name, None, line, argument, known)], False
    if following is None:
        raise ValueError(f"--{typed} needs a value")
    return [Given(name, following, line, f"{argument} {following}", known)], True


def _full_name(typed: str) -> tuple[str, bool]:
    """The option that a name or a unique beginning stands for, and whether sbatch itself knows it."""
    if typed in KNOWN:
        return _OTHER_NAMES.get(typed, typed), True
    # names that mean the same option are one to getopt_long only where they end in the same code
    meant = {_OTHER_NAMES.get(name, name) for name in KNOWN if name.startswith(typed)}
    if len(meant) > 1:
        raise ValueError(f"--{typed} could be --{', --'.join(sorted(meant))}; write it in full")
    return (meant.pop(), True) if meant else (typed, False)


def _read_short(argument: str, line: int, following: str | None) -> tuple[list[Given], bool]:
    found: list[Given] = []
    for index, letter in enumerate(argument[1:], start=1):
        name = SHORT.get(letter)
        if name is None:
            raise ValueError(f"-{letter} is no option of sbatch")
        rest = argument[index + 1 :]
        if name in _FLAGS:
            found.append(Given(name, None, line, f"-{letter}"))
        elif rest or name in _VALUE_OPTIONAL:
            found.append(Given(name, rest or None, line, f"-{letter}{rest}"))
            return found, False
        elif following is None:
            raise ValueError(f"-{letter} needs a value")
        else:
            found.append(Given(name, following, line, f"-{letter} {following}"))
            return found, True
    return found, False


def suggestion(option: str) -> str | None:
    """sbatch's option that an unknown name was probably meant to be."""
    guess = nearest(option, sorted(name.replace("-", "_") for name in KNOWN))
    return guess.replace("_", "-") if guess else None

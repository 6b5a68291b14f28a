"""What a spec value may be: one function a kind, from YAML data to a checked value.

Each takes the data, its path and `say(path, message)`, and returns the value, or None after having said what
is wrong. Scalars arrive as the text that was typed (see yamltext), so `1.10`, `03303560` and `no` stay whole.
"""

import re
import shlex
from collections.abc import Callable
from typing import Any, Protocol

from slurmgpu.experiment.yamltext import Data, Path
from slurmgpu.slurmtext import array_last_index, format_time, parse_mem, parse_time


class Say(Protocol):
    """Takes a problem with the value at `path`, or with its key."""

    def __call__(self, path: Path, message: str, *, of_key: bool = False) -> None: ...


Kind = Callable[[Data, Path, Say], Any]

# a newline would end a directive, NUL and CR make sbatch refuse the script, others hide in terminals
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SHELL_SYNTAX = r"[|&;<>]"
_QUOTED = r"""(?s)\\.|"(?:\\.|[^"\\])*"|'[^']*'"""
# variables that bash sets, refuses to set or acts upon (bash(1), Shell Variables)
_SHELLS_OWN = frozenset(
    {
        "_", "COMP_WORDBREAKS", "DIRSTACK", "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME",
        "GLOBIGNORE", "GROUPS", "HISTCMD", "IFS", "LINENO", "OLDPWD", "OPTARG", "OPTIND", "PIPESTATUS",
        "POSIXLY_CORRECT", "PPID", "PWD", "RANDOM", "REPLY", "SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "UID",
    }
)  # fmt: skip
MAX_WORD_BYTES = 131071  # Linux refuses a longer single argument (MAX_ARG_STRLEN)


def _checked(data: Data, path: Path, say: Say, check: Callable[[str], Any]) -> Any:
    """`check(text)` for a scalar; its ValueError becomes a message."""
    if not isinstance(data, str):
        say(path, f"must be one value, not {_shape(data)}")
        return None
    try:
        return check(data)
    except ValueError as error:
        say(path, str(error))
        return None


def _shape(data: Data) -> str:
    if data is None:
        return "nothing; write a value or remove the key"
    return "a mapping" if isinstance(data, dict) else "a list"


def text(data: Data, path: Path, say: Say, max_bytes: int = 1023) -> str | None:
    """One line of text for a directive: not empty, no control character, not longer than Slurm takes."""

    def check(value: str) -> str:
        if not value:
            raise ValueError("is empty, which Slurm refuses; remove the key or write a value")
        if bad := CONTROL.search(value):
            raise ValueError(f"holds {describe(bad[0])}, which has no place in a directive")
        if len(value) * 4 > max_bytes and len(value.encode()) > max_bytes:
            raise ValueError(f"is longer than the {max_bytes} bytes that Slurm takes")
        return value

    result: str | None = _checked(data, path, say, check)
    return result


def describe(char: str) -> str:
    """A control character by name, for a message."""
    names = {"\n": "a newline", "\r": "a carriage return", "\t": "a tab", "\0": "a NUL"}
    return names.get(char, f"the control character 0x{ord(char):02x}")


def integer(data: Data, path: Path, say: Say, least: int = 1) -> int | None:
    """A whole number, `least` or more."""

    def check(value: str) -> int:
        if not (value.isascii() and value.lstrip("+-").isdigit() and value[1:2] not in ("+", "-")):
            raise ValueError(f"{value!r} is not a whole number")
        if len(value) > 9:
            raise ValueError(f"{value[:20]} is out of range; write a smaller number")
        if int(value) < least:
            raise ValueError(f"{value} is out of range; write a number from {least} up")
        return int(value)

    result: int | None = _checked(data, path, say, check)
    return result


def counting(data: Data, path: Path, say: Say) -> int | None:
    """A whole number, 0 included."""
    return integer(data, path, say, least=0)


def truth(data: Data, path: Path, say: Say) -> bool | None:
    """true or false, in YAML 1.2's spelling."""

    def check(value: str) -> bool:
        if value not in _TRUTH:
            raise ValueError(f"must be true or false, not {value!r}")
        return _TRUTH[value]

    result: bool | None = _checked(data, path, say, check)
    return result


def time(data: Data, path: Path, say: Say) -> str | None:
    """A time limit in the normal form D-HH:MM:SS, or UNLIMITED."""
    result: str | None = _checked(data, path, say, lambda value: format_time(parse_time(value)))
    return result


def mem(data: Data, path: Path, say: Say) -> int | None:
    """A memory size in MiB; 0 is the whole node's."""
    result: int | None = _checked(data, path, say, parse_mem)
    return result


def some_mem(data: Data, path: Path, say: Say) -> int | None:
    """A memory size in MiB, above 0."""
    size = mem(data, path, say)
    if size == 0:
        say(path, "must be above 0; `mem: 0` asks for a node's whole memory")
        return None
    return size


def array(data: Data, path: Path, say: Say) -> str | None:
    """Array indexes, such as 0-9%4."""

    def check(value: str) -> str:
        array_last_index(value)
        return value

    result: str | None = _checked(data, path, say, check)
    return result


class OneOf:
    """One of a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, data: Data, path: Path, say: Say) -> str | None:
        """The word."""

        def check(value: str) -> str:
            if value not in self.words:
                raise ValueError(f"must be {' or '.join(self.words)}, not {value!r}")
            return value

        result: str | None = _checked(data, path, say, check)
        return result


def anything(data: Data, path: Path, say: Say) -> str | None:
    """Any text but a NUL, which no environment and no argument can hold."""

    def check(value: str) -> str:
        if "\0" in value:
            raise ValueError("holds a NUL, which no argument and no variable can hold")
        if len(value) * 4 > MAX_WORD_BYTES and len(value.encode()) > MAX_WORD_BYTES:
            raise ValueError("is longer than the 128 KiB that Linux takes")
        return value

    result: str | None = _checked(data, path, say, check)
    return result


def script(data: Data, path: Path, say: Say) -> str | None:
    """Shell lines, which go into the script as they are."""
    lines: str | None = anything(data, path, say)
    if lines is not None and "\r" in lines:
        say(path, "holds a carriage return, for which sbatch refuses the whole script")
        return None
    return None if lines is None else lines.rstrip("\n")


def directory(data: Data, path: Path, say: Say) -> str | None:
    """A path; `~` and `$NAME` are expanded later."""
    return text(data, path, say, max_bytes=4095)


def words(data: Data, path: Path, say: Say) -> list[str] | None:
    """A list of texts, or one text, each without control characters."""
    items = data if isinstance(data, list) else [data]
    return [text(item, (*path, index), say) or "" for index, item in enumerate(items)]


def joined(data: Data, path: Path, say: Say) -> str | None:
    """A list of words joined by commas, or one text, as `mail_type` and `partition` take them."""
    if isinstance(data, list):
        return text(",".join(words(data, path, say) or []), path, say)
    return text(data, path, say)


def command(data: Data, path: Path, say: Say) -> list[str] | str | None:
    """An exact argv (list), or the text as typed (string), which the launcher decides how to read."""
    if isinstance(data, list):
        argv = [anything(item, (*path, index), say) or "" for index, item in enumerate(data)]
        if not argv or not argv[0]:
            say(path, "is empty; write the program and its arguments")
        return argv
    line = anything(data, path, say)
    if line is not None and not line.strip():
        say(path, "is empty; write the program and its arguments")
        return None
    return line


def split_command(line: str) -> list[str]:
    """A command line's words by the shell's rules of quoting; ValueError for shell syntax and open quotes."""
    if not re.search(r"[\"'\\|&;<>]", line):  # four of five commands, and shlex is slow
        return re.findall(r"[^ \t\r\n]+", line)
    try:
        argv = shlex.split(line)
    except ValueError:
        raise ValueError("a quote is never closed; close it, or write the command as a list") from None
    if syntax := re.search(_SHELL_SYNTAX, re.sub(_QUOTED, "", line)):
        raise ValueError(
            f"`{syntax[0]}` is shell syntax, but no shell reads this; use `launcher: shell`, "
            "or quote it to hand it to the program"
        )
    return argv


def environment(data: Data, path: Path, say: Say) -> dict[str, str] | None:
    """Names and values for `export`; values arrive byte for byte."""
    if not isinstance(data, dict):
        say(path, "must be a mapping of names to values, such as {NCCL_DEBUG: WARN}")
        return None
    values = {}
    for name, value in data.items():
        if problem := bad_env_name(name):
            say((*path, name), problem, of_key=True)
        elif value is None:
            say((*path, name), "has no value; write '' for an empty one")
        elif (checked := anything(value, (*path, name), say)) is not None:
            values[name] = checked
    return values


def bad_env_name(name: str) -> str | None:
    """What is wrong with a variable's name, or None."""
    if not re.fullmatch(_ENV_NAME, name):
        return f"{name!r} cannot be a variable's name; use letters, digits and _, no digit first"
    if name.startswith(("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "PET_")):
        return f"{name} steers Slurm or the launcher from behind; write the spec key that it stands for"
    if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        return f"{name} is set by the launcher for each rank"
    if name == "CUDA_VISIBLE_DEVICES":
        return "CUDA_VISIBLE_DEVICES is set by Slurm on each node; another value breaks the binding"
    if name.startswith("BASH") or name in _SHELLS_OWN:
        return f"{name} belongs to the shell that runs the script"
    return None


def secrets(data: Data, path: Path, say: Say) -> dict[str, str | None] | None:
    """Names (list), or names with the file that holds each value (mapping). The value itself is never here."""
    if isinstance(data, list):
        names: dict[str, str | None] = {}
        for index, name in enumerate(data):
            if not isinstance(name, str) or bad_env_name(name):
                say((*path, index), "must be a variable's name; the value comes from the environment")
            else:
                names[name] = None
        return names
    if not isinstance(data, dict):
        say(path, "must be a list of variable names, or a mapping of names to files")
        return None
    files: dict[str, str | None] = {}
    for name, file in data.items():
        if problem := bad_env_name(name):
            say((*path, name), problem, of_key=True)
        files[name] = directory(file, (*path, name), say)
    return files

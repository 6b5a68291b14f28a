"""The commands of a script's body: which of them start the program, with what options of srun, and where."""

import os
import re
from collections.abc import Iterator
from functools import cached_property

from slurmgpu.experiment import request
from slurmgpu.experiment.request import Request
from slurmgpu.experiment.shelltext import Command, Places, read
from slurmgpu.experiment.shellwords import Word

# srun's options that stand alone, and those that may have a value only behind `=`
_FLAGS = frozenset(
    {
        "async", "contiguous", "disable-status", "exact", "exclusive", "interactive", "label", "multi-prog",
        "no-allocate", "no-container-mount-home", "no-container-entrypoint", "no-kill", "overcommit", "overlap",
        "oversubscribe", "preserve-env", "pty", "quiet", "quit-on-interrupt", "kill-on-bad-exit", "resv-ports",
        "spread-job", "test-only", "unbuffered", "use-min-nodes", "verbose", "nice", "propagate", "immediate",
        "container-mount-home", "container-writable", "container-remap-root",
    }
)  # fmt: skip
_SHORT_FLAGS = frozenset("EHIKOQXZklsuvq")
_SHORT = {
    "n": "ntasks",
    "N": "nodes",
    "c": "cpus-per-task",
    "i": "input",
    "w": "nodelist",
    "r": "relative",
    "l": "label",
}
_LONG = {"tasks-per-node": "ntasks-per-node"}
_LAUNCHER = re.compile(r"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b|\baccelerate +launch\b")
_PYTHON = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|mpirun|mpiexec|srun|apptainer|singularity")
_SETTINGS = {"errexit": "e", "nounset": "u", "xtrace": "x"}
_PREFIXES = frozenset({"exec", "time", "nohup", "command", "stdbuf", "numactl", "nice"})


class Step:
    """A command that starts a program: with srun, or as python, torchrun and the like in the batch shell.

    `options` are srun's (long names; None for a flag), `program` the words after them.
    """

    def __init__(self, command: Command, words: list[Word], place: int) -> None:
        self.command = command
        self.start = place
        self.is_srun = os.path.basename(words[0].text) == "srun"
        self.options, self.program = split_srun(words[1:]) if self.is_srun else ({}, words)
        self.text = " ".join(word.text for word in self.program)

    @property
    def is_torchrun(self) -> bool:
        """Whether it starts ranks itself."""
        return _LAUNCHER.search(self.text) is not None

    @property
    def is_background(self) -> bool:
        """Whether the shell goes on at once; also where the group that it is in ends with &."""
        return self.command.after == "&" or any(group.after == "&" for group in self.command.groups())

    def number(self, option: str) -> int | None:
        """An option's value where it is a number."""
        value = self.options.get(option)
        return int(value) if value is not None and value.isascii() and value.isdigit() and len(value) < 9 else None


def split_srun(words: list[Word]) -> tuple[dict[str, str | None], list[Word]]:
    """srun's options, and the words of its program."""
    options: dict[str, str | None] = {}
    position = 0
    while position < len(words):
        text = words[position].text
        if not text.startswith("-"):
            if words[position].is_literal or position == len(words) - 1:
                break
            position += 1  # such as $SRUN_ARGS
            continue
        position += 1
        following = words[position].text if position < len(words) else None
        if text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            name = _LONG.get(name, name)
            takes_next = not equals and name not in _FLAGS
            options[name] = value if equals else following if takes_next else None
        else:
            name = _SHORT.get(text[1:2], text[1:2])
            takes_next = text[1:2] not in _SHORT_FLAGS and len(text) == 2
            options[name] = following if takes_next else text[2:].lstrip("=") or None
        position += takes_next
    return options, words[position:]


class Body:
    """A script as the rules about commands see it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = Places(text)
        self.request: Request = request.read(text.replace("\r", ""))

    @cached_property
    def commands(self) -> list[Command]:
        """The commands that the batch shell runs, those of its substitutions and functions among them."""
        return read(self.text)

    @cached_property
    def steps(self) -> list[Step]:
        """The commands that start a program, other than to read what it prints."""
        return [step for command in self.commands if not command.substituted and (step := _step(command))]

    @cached_property
    def _set(self) -> list[tuple[int, str, bool]]:
        """Where the first line and `set` turn a shell option on or off: e, u, x, pipefail."""
        found = [
            (0, letter, True) for word in re.findall(r"\s-([a-z]+)", self.text.partition("\n")[0]) for letter in word
        ]
        for command in self.named("set"):
            words = [word.text for word in command.words[1:]]
            for word, following in zip(words, [*words[1:], ""], strict=False):
                if word[:1] in ("-", "+"):
                    names = [*word[1:], *([following] if word.endswith("o") else [])]
                    found += [(command.start, _SETTINGS.get(name, name), word[0] == "-") for name in names]
        return found

    def sets(self, name: str) -> bool:
        """Whether the option is on somewhere."""
        return any(is_on for _, one, is_on in self._set if one == name)

    def has_set(self, name: str, position: int) -> bool:
        """Whether the option is on at a place of the script."""
        states = [is_on for start, one, is_on in self._set if one == name and start <= position]
        return bool(states) and states[-1]

    @property
    def nodes(self) -> int:
        """The job's nodes, 1 where the header does not say."""
        return self.request.nodes or 1

    def named(self, *names: str) -> Iterator[Command]:
        """The commands of these names."""
        return (command for command in self.commands if command.name in names)

    def tasks_per_node(self, step: Step) -> int:
        """How many tasks a node srun starts, by its own options or the header's."""
        per_node = step.number("ntasks-per-node")
        if per_node is not None:
            return per_node
        tasks, nodes = step.number("ntasks"), step.number("nodes") or self.nodes
        return -(-tasks // max(1, nodes)) if tasks is not None else self.request.tasks_per_node

    def assigned(self) -> Iterator[tuple[Command, Word]]:
        """Each NAME=value of the script: alone, before a command, or behind export."""
        for command in self.commands:
            for word in command.assignments:
                yield command, word
            if command.name in ("export", "declare", "local", "readonly", "typeset"):
                for word in command.words[1:]:
                    if word.assigned:
                        yield command, word


def _step(command: Command) -> Step | None:
    words = command.words
    while words and (words[0].text in _PREFIXES or (words[0].text == "env" and len(words) > 1)):
        words = words[1:]
        while words and (words[0].assigned or words[0].text.startswith("-")):
            words = words[1:]
    if not words or not _PYTHON.fullmatch(os.path.basename(words[0].text)):
        return None
    return Step(command, words, words[0].start)

"""The commands of a hand-written script as keys of a spec: its environment, its set-up, and what it starts.

What is not understood for certain stays bash: the whole body becomes the lines of `launcher: shell`.
"""

import os
import re
from typing import NamedTuple

from slurmgpu.experiment.importheader import Keys, Note
from slurmgpu.experiment.kinds import split_command
from slurmgpu.experiment.lintscript import Script
from slurmgpu.experiment.shelltext import Command, Places, read
from slurmgpu.experiment.shellwords import Word
from slurmgpu.experiment.steps import Body, Step

# srun's options that the script of a spec has anyway
_OF_SRUN = frozenset(
    {
        "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "kill-on-bad-exit", "K", "unbuffered", "u", "wait",
        "gpus", "gpus-per-node", "gres", "container-image", "container-mounts", "container-workdir",
    }
)  # fmt: skip
# torchrun's options that it has anyway, with the number of words that each takes besides its own
_OF_TORCHRUN = frozenset(
    {
        "nnodes", "nproc-per-node", "rdzv-backend", "rdzv-id", "rdzv-endpoint", "rdzv-conf", "master-addr",
        "master-port", "node-rank", "max-restarts", "standalone", "local-addr",
    }
)  # fmt: skip
_HEAD = re.compile(r"MASTER_ADDR|MASTER_PORT|WORLD_SIZE|\w*(?:head|master|nodes?|hosts?|port|rdzv)\w*", re.IGNORECASE)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY", re.IGNORECASE)
_HOOKS = re.compile(r"conda(?:\.sh|\s+shell\.bash\s+hook)")


class NotUnderstoodError(Exception):
    """Why the body stays bash, with the place in the body."""

    def __init__(self, start: int, why: str) -> None:
        super().__init__(why)
        self.start = start


class Part(NamedTuple):
    """A command of the body's top level with its text, up to the next one."""

    command: Command
    start: int
    end: int


def keys_of(script: Script, header: Keys, notes: list[Note]) -> Keys:
    """The keys for the body, and the header's without those that the launcher does itself."""
    line_of = Places(script.body)
    keys = dict(header)
    if script.is_ours:
        notes.append((2, "made by slurmgpu: the spec that it was made from is the better one to start from"))
        return as_lines(script, keys)
    try:
        return keys | _understood(script, keys, notes, line_of)
    except NotUnderstoodError as reason:
        line = script.end - 1 + line_of(reason.start)[0]
        notes.append((line, f"{reason}: all commands stay bash, with launcher shell"))
    return as_lines(script, dict(header))


def as_lines(script: Script, keys: Keys) -> Keys:
    """The whole body for launcher shell."""
    # the script of a spec stops at a failing command; a body that does not ask for that goes on
    start = "" if script.is_ours else "set +eo pipefail\n"
    return keys | {"launcher": "shell", "command": start + script.body}


def _understood(script: Script, keys: Keys, notes: list[Note], line_of: Places) -> Keys:
    body = Body(script.text)
    offset = len(script.text) - len(script.body)
    parts = _parts(script.body)
    steps = [step for step in body.steps if step.start >= offset]
    if not parts or len(steps) != 1:
        start = steps[1].start - offset if len(steps) > 1 else 0
        raise NotUnderstoodError(
            start, f"{len(steps)} commands start a program" if steps else "nothing starts a program"
        )
    (step,) = steps
    launch = parts[-1]
    if launch.command.start + offset != step.command.start or step.is_background or step.command.group:
        raise NotUnderstoodError(parts[-1].start, "something follows the program, or it is in a group")
    if step.command.redirects or step.command.assignments or step.command.after in ("|", "|&", "&&", "||"):
        raise NotUnderstoodError(launch.start, "the program's line has redirections, a pipe or variables of its own")
    if step.command.words[0].text not in ("srun", *(word.text for word in step.program[:1])):
        raise NotUnderstoodError(launch.start, f"`{step.command.words[0].text}` is before the program")
    found = _launch(script, step, keys, launch.start)
    found |= _before(script, parts[:-1], found, notes, line_of)
    return found


def _parts(body: str) -> list[Part]:
    """The commands of the top level, each with its text; a group is one part with the first of its commands."""
    tops: list[Command] = []
    group_starts: set[int] = set()
    for command in read(body):
        if command.substituted:
            continue
        outer = list(command.groups())[-1:]
        if outer:
            if outer[0].start in group_starts:
                continue
            group_starts.add(outer[0].start)
        tops.append(command)
    if not tops:
        return []
    starts = [min(command.start, *(group.start for group in command.groups())) if command.group else command.start
              for command in tops]  # fmt: skip
    ends = [*starts[1:], len(body)]
    return [Part(command, start, end) for command, start, end in zip(tops, starts, ends, strict=True)]


def _command(words: list[Word], start: int) -> str | list[str]:
    """The words, as one text where that is read as the same words."""
    for word in words:
        if not word.is_literal or word.is_pattern:
            raise NotUnderstoodError(start, f"the shell expands {word.text[:40]!r}, and a spec's command is as typed")
    argv = [word.text for word in words]
    try:
        line = " ".join(argv)
        return line if split_command(line) == argv else argv
    except ValueError:
        return argv


def _launch(script: Script, step: Step, keys: Keys, start: int) -> Keys:
    """launcher, command and what belongs to them; takes back keys of the header that the launcher does itself."""
    found: Keys = {}
    foreign = [name for name in step.options if name not in _OF_SRUN and name != "export"]
    if foreign or step.options.get("export") not in (None, "ALL"):
        raise NotUnderstoodError(start, f"srun has --{foreign[0] if foreign else 'export'}")
    body = Body(script.text)
    tasks = body.tasks_per_node(step) if step.is_srun else 1
    if step.is_srun and step.number("nodes") not in (None, body.nodes):
        raise NotUnderstoodError(start, "srun does not use all the nodes")
    if not step.is_srun and body.nodes > 1:
        raise NotUnderstoodError(start, "the program runs on the first of several nodes")
    if "container-image" in step.options:
        found["container"] = _pyxis(step)
    program = _unwrapped(step.program)
    if not program:
        raise NotUnderstoodError(start, "srun has no program")
    if rest := _after_torchrun(program):
        if tasks > 1:
            raise NotUnderstoodError(start, f"srun starts {tasks} launchers on each node")
        keys.pop("ntasks_per_node", None)
        return found | {"launcher": "torchrun"} | _torchrun(rest, keys, start)
    if os.path.basename(program[0].text) in (
        "torchrun",
        "accelerate",
        "deepspeed",
        "mpirun",
        "mpiexec",
        "apptainer",
        "singularity",
    ):
        raise NotUnderstoodError(start, f"`{program[0].text}` starts the program")
    if os.path.basename(program[0].text) in ("bash", "sh") and len(program) > 1:
        raise NotUnderstoodError(start, "a shell starts the program")
    argv = _command(program, start)
    if tasks * body.nodes == 1:
        keys.pop("ntasks_per_node", None)
        return found | {"launcher": "python", "command": argv}
    gpus = keys.get("gpus_per_node")
    if gpus and gpus != tasks:
        raise NotUnderstoodError(start, f"{tasks} tasks share {gpus} GPUs of a node")
    if gpus:
        keys.pop("ntasks_per_node", None)
    else:
        keys["ntasks_per_node"] = tasks
    return found | {"launcher": "srun", "command": argv}


def _unwrapped(program: list[Word]) -> list[Word]:
    """`bash -c '...'` with one command in it is that command."""
    is_shell = [os.path.basename(word.text) for word in program[:2]] in (["bash", "-c"], ["sh", "-c"])
    if not is_shell or len(program) != 3 or program[2].quote != "'" or not program[2].is_literal:
        return program
    commands = read(program[2].text)
    if len(commands) == 1 and not commands[0].assignments and not commands[0].redirects and not commands[0].group:
        words = commands[0].words
        return words[1:] if commands[0].name == "exec" else words
    return program


def _pyxis(step: Step) -> Keys:
    block: Keys = {"image": step.options["container-image"], "runtime": "pyxis"}
    if mounts := step.options.get("container-mounts"):
        block["mounts"] = mounts.split(",")
    if workdir := step.options.get("container-workdir"):
        block["workdir"] = workdir
    return block


def _after_torchrun(program: list[Word]) -> list[Word]:
    words = [word.text for word in program]
    if os.path.basename(words[0]) == "torchrun":
        return program[1:]
    at = 2 if words[1:2] == ["-u"] else 1
    is_module = words[at : at + 2] in (["-m", "torch.distributed.run"], ["-m", "torch.distributed.launch"])
    return program[at + 2 :] if os.path.basename(words[0]).startswith("python") and is_module else []


def _torchrun(words: list[Word], keys: Keys, start: int) -> Keys:
    """torchrun's own options are what the script of a spec writes; the rest is the command."""
    given: dict[str, str] = {}
    position = 0
    while position < len(words) and words[position].text.startswith("--"):
        name, equals, value = words[position].text[2:].partition("=")
        name = name.replace("_", "-")
        position += 1
        if name not in _OF_TORCHRUN:
            raise NotUnderstoodError(start, f"torchrun has --{name}")
        if not equals and name != "standalone":
            value = words[position].text if position < len(words) else ""
            position += 1
        given[name] = value
    block: Keys = {}
    if "node-rank" in given or given.get("rdzv-backend") == "static":
        block["rendezvous"] = "static"
    if given.get("max-restarts", "0") != "0":
        if not given["max-restarts"].isdigit():
            raise NotUnderstoodError(start, "torchrun's --max-restarts is no number")
        block["max_restarts"] = int(given["max-restarts"])
    ranks = given.get("nproc-per-node", "1")
    if ranks.isdigit() and int(ranks) != keys.get("gpus_per_node"):
        block["nproc_per_node"] = int(ranks)
    argv = _command(words[position:], start)
    if not argv:
        raise NotUnderstoodError(start, "torchrun has no program")
    found: Keys = {"command": argv}
    return found | ({"torchrun": block} if block else {})


def _before(script: Script, parts: list[Part], launch: Keys, notes: list[Note], line_of: Places) -> Keys:
    """What is before the program: the environment as keys while it is in their order, the rest as `setup`."""
    found: Keys = {}
    env: dict[str, str] = {}
    secrets: list[str] = []
    modules: list[str] = []
    stage = 0  # env, modules, conda or venv: in this order the script of a spec has them
    rest: list[Part] = []
    hooks: list[Part] = []  # of conda, which `conda` brings itself
    for part in parts:
        if part.command.name in ("trap", "exec"):
            raise NotUnderstoodError(part.start, f"`{part.command.name}` is before the program")
        words = [word.text for word in part.command.words]
        is_plain = not part.command.group and part.command.after in ("", "\n", ";") and not part.command.redirects
        literal = all(word.is_literal for word in (*part.command.words, *part.command.assignments))
        if rest or not is_plain:
            rest.append(part)
        elif words in (["set", "-e"], ["set", "-eo", "pipefail"], ["set", "-e", "-o", "pipefail"]):
            continue  # the script of a spec has it
        elif _HOOKS.search(script.body[part.start : part.end]) and stage < 2:
            hooks.append(part)
        elif words[:2] == ["module", "load"] and literal and stage < 2 and not part.command.assignments:
            stage = 1
            modules += words[2:]
        elif words[:2] == ["conda", "activate"] and literal and len(words) == 3 and stage < 2:
            stage = 2
            found["conda"] = words[2]
        elif (
            words[:1] in (["source"], ["."]) and words[1].endswith("/bin/activate") and len(words) == 2 and stage < 2
        ):
            stage = 2
            found["venv"] = words[1].removesuffix("/bin/activate")
        elif words[:1] == ["export"] and stage == 0 and len(words) > 1 and all(map(_assigns, part.command.words[1:])):
            for word in part.command.words[1:]:
                _add_variable(word, env, secrets, notes, script.end - 1 + line_of(part.start)[0])
        else:
            rest.append(part)
    setup = _setup(script, rest if "conda" in found else [*hooks, *rest], launch)
    if setup and not Body(script.text).sets("e"):
        notes.append((0, "a failing line of `setup` ends the job; in this script it did not"))
    for key, value in (("env", env), ("secrets", secrets), ("modules", modules), ("setup", setup)):
        if value:
            found[key] = value
    return found


def _assigns(word: Word) -> bool:
    return (
        bool(word.assigned)
        and word.is_literal
        and not word.is_pattern
        and not word.text.startswith(f"{word.assigned}+")
    )


def _add_variable(word: Word, env: dict[str, str], secrets: list[str], notes: list[Note], line: int) -> None:
    name = word.assigned or ""
    if name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"):
        return  # the script of a spec sets them
    if _SECRET.search(name) and len(word.value) > 7 and not name.startswith("TOKENIZERS_"):
        secrets.append(name)
        notes.append((line, f"the value of {name} is not carried over: export it before you submit"))
        return
    env[name] = word.value


def _setup(script: Script, rest: list[Part], launch: Keys) -> str:
    """The lines between, without those that find the head node for a launcher which finds it itself."""
    kept = list(rest)
    if launch["launcher"] in ("torchrun", "srun"):
        for part in reversed(rest):
            words = [*part.command.assignments, *(part.command.words[1:] if part.command.name == "export" else [])]
            names = [word.assigned or word.text for word in words]
            alone = part.command.name in ("", "export") and not part.command.group and names
            others = "".join(script.body[other.start : other.end] for other in kept if other is not part)
            if alone and all(_HEAD.fullmatch(name) and not re.search(rf"\b{name}\b", others) for name in names):
                kept.remove(part)
    if len(kept) == len(rest) and kept:
        text = script.body[kept[0].start : kept[-1].end]
    else:
        text = "\n".join(script.body[part.start : part.end].strip("\n") for part in kept)
    # a directive among the commands is a comment that says otherwise
    text = text if "<<" in text else re.sub(r"(?m)^#SBATCH.*\n?", "", text)
    return text.strip("\n") + "\n" if text.strip() else ""

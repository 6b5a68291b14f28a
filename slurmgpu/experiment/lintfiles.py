"""The rules of `lint` about names, logs and variables in a header."""

import os
import re
from collections.abc import Iterator

from slurmgpu.experiment.checkfiles import NODE_LOCAL, PATTERN
from slurmgpu.experiment.finding import Found, Rule
from slurmgpu.experiment.lintscript import Script

_EXPANDS = re.compile(r"\$(?:[A-Za-z_]\w*|\{[^}]*\}|\([^)]*\))|`[^`]*`", re.ASCII)
_HOME = re.compile(r"~[\w.-]*(?=/|$)", re.ASCII)
_PATHS = ("output", "error", "input", "chdir")
_STEP = re.compile(r"(?:^|[\s;&|(])srun\s", re.MULTILINE)


def _logs(script: Script) -> Iterator[tuple[str, str]]:
    """The log options with a value in which patterns count: a backslash turns them off."""
    for option in ("output", "error"):
        text = script.value(option)
        if text and "\\" not in text:
            yield option, text


def _letters(text: str) -> set[str]:
    return {match[2] for match in PATTERN.finditer(text)}


def expanded(script: Script) -> Iterator[Found]:
    """No variable, no ~: sbatch is not a shell."""
    for given in script.request.given.values():
        match = _EXPANDS.search(given.value or "")
        if given.option in _PATHS:
            match = match or _HOME.match(given.value or "")
        if match:
            message = f"{match[0]!r} in --{given.option} is not expanded: sbatch takes it as it is"
            fix = "a path relative to the folder of sbatch" if given.option in _PATHS else "write the value"
            at = (given.line, script.column(given))
            yield *at, message, f"{fix}, or give the option on sbatch's command line"


def missing_folder(script: Script) -> Iterator[Found]:
    """The folder of a log is there."""
    chdir = script.value("chdir") or ""
    seen = set()
    for option, text in _logs(script):
        folder = os.path.dirname(text)
        path = os.path.join(script.folder, chdir, folder)
        if folder in seen or PATTERN.search(folder) or re.search(r"[$~`]", chdir + folder):
            continue
        seen.add(folder)
        if folder and not os.path.isdir(path):
            message = (
                f"the folder {folder!r} of --{option} is missing: before Slurm 24.11 the job fails without a log"
            )
            yield *script.place(option), message, f"mkdir -p {folder}"


def pattern_in_folder(script: Script) -> Iterator[Found]:
    """A folder's name is known before the job."""
    for option, text in _logs(script):
        if match := PATTERN.search(os.path.dirname(text)):
            message = f"{match[0]} in the folder of --{option}: only Slurm from 24.11 on makes such a folder"
            yield *script.place(option), message, "keep patterns to the file's name"


def no_array(script: Script) -> Iterator[Found]:
    """%A and %a are of an array."""
    if "array" in script.request.given:
        return
    for option, text in _logs(script):
        if "a" in _letters(text):
            message = f"--{option} holds %a, and there is no --array: the name ends in 4294967294"
            yield *script.place(option), message, "write %j"


def one_log(script: Script) -> Iterator[Found]:
    """Each task of an array has a log."""
    if "array" not in script.request.given:
        return
    for option, text in _logs(script):
        if text.startswith("/dev/") or _letters(text) & set("ajJ"):
            continue
        yield *script.place(option), f"every task of the array writes to the same --{option}", "add %A_%a to its name"


def node_local(script: Script) -> Iterator[Found]:
    """A log is where it can be read afterwards."""
    for option, text in _logs(script):
        if text.startswith(NODE_LOCAL):
            message = f"--{option} is below {text[: text.index('/', 1)]}, which each node has for itself"
            yield *script.place(option), message, "a folder that the nodes share"


def requeue_truncates(script: Script) -> Iterator[Found]:
    """A second start keeps the first one's log."""
    if "requeue" in script.request.given and "open-mode" not in script.request.given:
        message = "--requeue without --open-mode=append: the second start empties the first one's log"
        yield *script.place("requeue"), message, "add --open-mode=append"


def bare_environment(script: Script) -> Iterator[Found]:
    """With --export=NONE srun gets nothing either."""
    text = script.value("export")
    if not text or {"ALL", "NIL"} & set(text.upper().split(",")):
        return
    if _STEP.search(script.code) and "SLURM_EXPORT_ENV" not in script.code:
        message = f"--export={text[:40]} holds for srun too: the steps have no PATH and no module"
        yield *script.place("export"), message, "export SLURM_EXPORT_ENV=ALL before the first srun"


def name_in_path(script: Script) -> Iterator[Found]:
    """A job's name that becomes a file's has no slash."""
    name = script.value("job-name") or ""
    for option, text in _logs(script):
        if "/" in name and "x" in _letters(text):
            message = f"--{option} holds %x, and the job's name {name[:60]!r} a slash: that is a folder"
            yield *script.place(option), message, "a name without a slash"


RULES = (
    (Rule("SG140", "variable in a directive", "Nothing expands it; a folder of that name is looked for."), expanded),
    (Rule("SG141", "missing log folder", "The job fails at once, with no log that says so."), missing_folder),
    (Rule("SG142", "pattern in a log's folder", "The job fails without a log where nobody makes it.", False),
     pattern_in_folder),
    (Rule("SG143", "%a without an array", "It has no index to put there."), no_array),
    (Rule("SG144", "one log for all tasks", "They write over one another."), one_log),
    (Rule("SG145", "log on the node", "It stays there, or is gone with the job.", False), node_local),
    (Rule("SG146", "log lost at a requeue", "Slurm opens a log for writing anew, unless told to append.", False),
     requeue_truncates),
    (Rule("SG147", "steps without an environment", "execve(): No such file or directory."), bare_environment),
    (Rule("SG148", "slash in a name", "The folder does not exist, and there is no log."), name_in_path),
)  # fmt: skip

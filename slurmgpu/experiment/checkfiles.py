"""Items of the checklist about the script itself and what surrounds it: header, shell, logs, files, variables."""

import os
import re
from collections.abc import Mapping

from slurmgpu.errors import Place, UnavailableError
from slurmgpu.experiment import slurm
from slurmgpu.experiment.arguments import suggestion
from slurmgpu.experiment.environment import inherited
from slurmgpu.experiment.facts import FAIL, OK, SKIP, WARN, Facts, Finding

# sbatch's file patterns whose value is known before there is a job
PATTERN = re.compile(r"%(\d*)([A-Za-z%])")
# read on the node, so a log there is not here
NODE_LOCAL = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/", "/scratch/local/")


def header(facts: Facts) -> Finding:
    """sbatch can read the header, and knows each option."""
    if not facts.script.startswith("#!"):
        return Finding(
            FAIL, "the first line must be #! and an interpreter, such as #!/bin/bash", Place(facts.source, 1, 1)
        )
    for char, word in (("\0", "a NUL"), ("\r\n", "DOS line ends")):
        if char in facts.script:
            line = facts.script[: facts.script.index(char)].count("\n") + 1
            return Finding(FAIL, f"the script holds {word}, for which Slurm refuses it", Place(facts.source, line, 1))
    for option, line, message in facts.request.faults:
        return Finding(FAIL, message, facts.place(option) or (Place(facts.source, line, 1) if line else None))
    unknown = [given for given in facts.request.given.values() if not given.known]
    if unknown:
        guess = suggestion(unknown[0].option)
        hint = f"; did you mean --{guess}?" if guess else "; a plugin of the site may know it"
        return Finding(
            WARN, f"--{unknown[0].option} is none of sbatch's options{hint}", facts.place(unknown[0].option)
        )
    if facts.request.components > 1:
        return Finding(WARN, f"a heterogeneous job: only the first of {facts.request.components} parts is looked at")
    return Finding(OK, f"{len(facts.request.given)} options")


def start_shell(script: str) -> slurm.Running | None:
    """A shell that reads the script without running it, or None where it is for another interpreter."""
    words = script.partition("\n")[0].removeprefix("#!").split()
    interpreter = os.path.basename(words[0]) if words else ""
    if interpreter == "env" and len(words) > 1:
        interpreter = words[1]
    if interpreter not in ("bash", "sh"):
        return None
    try:
        return slurm.Running([interpreter, "-n"], input=script, timeout_s=10)
    except UnavailableError:  # no bash here; the node may have one
        return None


def shell(facts: Facts) -> Finding:
    """bash can read the whole script: an open quote or here-document swallows what follows."""
    if facts.shell is None:
        return Finding(SKIP, "only scripts for sh and bash are read")
    words = facts.shell.errors.strip().splitlines()
    if words:  # a here-document without an end is a warning to bash, with status 0
        return Finding(FAIL, words[0].partition(": ")[2] or words[0])
    return Finding(OK, "can be read to the end")


def logs(facts: Facts) -> Finding:
    """The folders of the logs are there, or can be made, and are not on the node alone."""
    worst = Finding(OK, "")
    for option, path in log_files(facts).items():
        finding = _log_folder(facts, option, os.path.dirname(path))
        if (finding.status, worst.status) in ((FAIL, OK), (FAIL, WARN), (WARN, OK)) or not worst.message:
            worst = finding
    return worst


def log_files(facts: Facts) -> dict[str, str]:
    """The absolute paths of --output and --error, with what is known of their patterns filled in."""
    chdir = os.path.join(facts.folder, facts.request.text("chdir") or "")
    is_array = facts.request.text("array") is not None
    output = facts.request.text("output") or ("slurm-%A_%a.out" if is_array else "slurm-%j.out")
    files = {"output": output, "error": facts.request.text("error") or output}
    return {option: os.path.join(chdir, _fill(facts, text)) for option, text in files.items()}


def _fill(facts: Facts, text: str) -> str:
    if "\\" in text:  # a backslash turns patterns off
        return text.replace("\\", "")
    name = facts.request.text("job-name") or os.path.basename(facts.source)
    values: Mapping[str, str] = {"x": name, "u": facts.cluster.user, "%": "%"}
    return PATTERN.sub(lambda match: values.get(match[2], match[0]), text)


def _log_folder(facts: Facts, option: str, folder: str) -> Finding:
    makes_it = facts.cluster.version >= (24, 11)
    pattern = PATTERN.search(folder)
    if pattern and not makes_it:
        message = f"{folder}: {pattern[0]} in a folder's name is known only when the job has started, and this Slurm "
        return facts.fail(option, f"{message}makes no folders: the job would fail without a word")
    home = facts.environ.get("HOME", "")
    is_home = bool(home) and f"{folder}/".startswith(f"{home}/")
    if folder in {prefix.rstrip("/") for prefix in NODE_LOCAL} or (folder.startswith(NODE_LOCAL) and not is_home):
        return Finding(WARN, f"{folder} is each node's own: the log stays there", facts.place(option))
    if os.path.isdir(folder):
        if not os.access(folder, os.W_OK):
            return facts.fail(option, f"{folder} is not writable by you")
        return Finding(OK, folder)
    above = folder
    while not os.path.lexists(above) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        return facts.fail(option, f"{above} is in the way: it is no folder")
    if not os.access(above, os.W_OK):
        return facts.fail(option, f"{folder} cannot be made: {above} is not writable by you")
    if makes_it:
        return Finding(OK, f"{folder}, which Slurm makes")
    message = f"{folder} does not exist: `slurmgpu submit` makes it; before sbatch do it yourself, or the job fails"
    return Finding(WARN, f"{message} without a word", facts.place(option))


# a Python or shell file among the words of a command; not what is in quotes, a variable or a pattern
_FILES = re.compile(r"(?:^|[\s=])((?:[\w./~+@%-]|\\ )+\.(?:py|sh))(?=\s|$|;)")


def command(facts: Facts) -> Finding:
    """The file that the command names is there."""
    chdir = os.path.join(facts.folder, facts.request.text("chdir") or "")
    if facts.is_spec:
        if facts.program is None:
            return Finding(SKIP, "found on the node, by PATH or in an image")
        path = os.path.join(chdir, facts.program)
        if os.path.isfile(path):
            return Finding(OK, path)
        return facts.fail("command", f"{path} does not exist on this machine")
    body = [line for line in facts.script.splitlines() if not line.lstrip().startswith("#")]
    if any(re.match(r"\s*(cd|pushd)\s", line) for line in body):
        return Finding(SKIP, "the script changes its folder on the way")
    for line in body:
        for name in _FILES.findall(line):
            path = os.path.join(chdir, os.path.expanduser(name))
            if not os.path.exists(path) and not name.startswith(("/opt/", "/usr/")):
                return Finding(WARN, f"{path} does not exist on this machine")
    return Finding(OK, "every .py and .sh file that it names is there")


def secrets(facts: Facts) -> Finding:
    """Secrets that come with the environment are in it."""
    missing = [name for name in facts.secrets if name not in facts.environ]
    if missing:
        return facts.fail("secrets", f"{missing[0]} is not in the environment: export it before you submit")
    return Finding(OK, f"{len(facts.secrets)} in the environment" if facts.secrets else "none by the environment")


def environment(facts: Facts) -> Finding:
    """No variable of an outer job or of SBATCH_* changes what the script says."""
    found = sorted(inherited(facts.environ))
    if not found:
        return Finding(OK, "no variable steers sbatch or srun from behind")
    outer = facts.environ.get("SLURM_JOB_ID")
    where = f"you are inside job {outer}" if outer else "a login file may set them"
    shown = ", ".join(sorted(found, key=lambda name: not name.startswith("SBATCH_"))[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    message = f"{shown}{more} would win over the script or reach the job; {where}. `slurmgpu submit` removes them"
    return Finding(WARN, message)

"""The rules of `lint` about the shell itself: secrets, environments, exit codes, files that are elsewhere."""

import re
from collections.abc import Iterator

from slurmgpu.experiment.checkfiles import start_shell
from slurmgpu.experiment.finding import Rule
from slurmgpu.experiment.lintlaunch import Spot
from slurmgpu.experiment.steps import Body

_SECRET = re.compile(r"(?:TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY)", re.IGNORECASE)
_NO_SECRET = re.compile(r"your|xxx|<.*>|\.\.\.|^/|^~|false|true|parallelism|^\d{1,6}$|^$", re.IGNORECASE)
_KEY = re.compile(r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{30,})")
_HOOK = re.compile(r"conda\.sh|shell\.bash|shell hook|micromamba|conda init|bashrc|bash_profile|/etc/profile")
_NODELIST = frozenset({"SLURM_JOB_NODELIST", "SLURM_NODELIST"})
_CUTTERS = frozenset({"cut", "sed", "awk", "tr", "grep", "head", "perl"})
_WORDS_AT_THE_END = frozenset(
    {
        "echo",
        "printf",
        "date",
        "hostname",
        "ls",
        "conda",
        "deactivate",
        "module",
        "sleep",
        "true",
        "rm",
        "cp",
        "seff",
        ":",
    }
)
_ERROR = re.compile(r"^[^:]*: (?:line |Zeile |)(\d+): (.*)")


def literal_secret(body: Body) -> Iterator[Spot]:
    """A script is read by many, and Slurm keeps it."""
    fix = "export it in the shell that calls sbatch, or read a file of mode 600"
    for _, word in body.assigned():
        name, value = word.assigned or "", word.value
        if _SECRET.search(name) and word.is_literal and len(value) > 7 and not _NO_SECRET.search(value):
            yield word.start, f"the value of {name} stands in the script, which Slurm keeps and shows", fix
            return
    if match := _KEY.search(body.text):
        yield match.start(), f"{match[0][:6]}... looks like a key, and Slurm keeps and shows the script", fix
        return
    for command in body.named("wandb", "huggingface-cli"):
        words = [word for word in command.words[1:] if not word.text.startswith("-")]
        if len(words) > 1 and words[0].text == "login" and words[1].is_literal and len(words[1].text) > 7:
            yield words[1].start, "a key stands in the script, which Slurm keeps and shows", fix


def traced_secret(body: Body) -> Iterator[Spot]:
    """`set -x` writes values to the log."""
    for command, word in body.assigned():
        is_traced = body.has_set("x", command.start) and not word.is_literal
        if is_traced and _SECRET.search(word.assigned or ""):
            message = f"`set -x` writes {word.assigned} with its value into the log"
            yield word.start, message, "set +x before it"
            return


def unset_variables(body: Body) -> Iterator[Spot]:
    """Activation scripts use variables that are not set."""
    for command in body.commands:
        words = [word.text for word in command.words]
        if body.has_set("u", command.start) and words[:2] in (
            ["conda", "activate"],
            ["module", "load"],
            ["source", "activate"],
        ):
            message = f"`{' '.join(words[:2])}` under `set -u`: its scripts use variables that are not set"
            yield command.start, message, "set +u before it, set -u behind it"
            return


def conda_without_hook(body: Body) -> Iterator[Spot]:
    """conda activate is a function of an interactive shell."""
    if _HOOK.search(body.text) or re.search(r"^#!.*\s-\w*l", body.text):
        return
    for command in body.named("conda", "mamba"):
        if [word.text for word in command.words[1:2]] == ["activate"]:
            message = f"`{command.name} activate` needs a shell function that a batch shell does not have"
            yield command.start, message, 'eval "$(conda shell.bash hook)" before it'
            return


def chosen_gpus(body: Body) -> Iterator[Spot]:
    """Slurm has chosen the GPUs."""
    if not (body.request.gpus_per_node or body.request.gpus_total):
        return
    for _, word in body.assigned():
        if word.assigned == "CUDA_VISIBLE_DEVICES" and re.fullmatch(r"\d+(,\d+)*", word.value):
            message = f"CUDA_VISIBLE_DEVICES={word.value} overwrites what Slurm has set: GPUs of others, or none"
            yield word.start, message, "remove it"


def hidden_failure(body: Body) -> Iterator[Spot]:
    """A job's exit code is that of its last command."""
    is_looked_at = any(command.name in ("exit", "trap") or command.after == "||" for command in body.commands)
    if body.sets("e") or not body.steps or is_looked_at or "$?" in body.text or "PIPESTATUS" in body.text:
        return
    last = next(command for command in reversed(body.commands) if not command.substituted)
    if last.name in _WORDS_AT_THE_END and not last.group and body.steps[-1].start < last.start:
        message = f"`{last.name}` at the end succeeds whatever the program did: a failed job is COMPLETED"
        yield last.start, message, "set -e at the start, or `exit $code` with the program's"


def unreadable(body: Body) -> Iterator[Spot]:
    """bash can read it."""
    # a carriage return is told by the header's rules
    shell = start_shell(body.text.replace("\r", "").replace("\0", ""))
    answer = shell.answer() if shell else None
    for line in answer.errors.splitlines()[:1] if answer else ():
        match = _ERROR.match(line)
        number = int(match[1]) if match else 1
        start = sum(len(text) + 1 for text in body.text.split("\n")[: number - 1])
        yield (
            min(start, len(body.text)),
            f"bash cannot read it: {match[2] if match else line}"[:200],
            "bash -n SCRIPT",
        )


def cut_nodelist(body: Body) -> Iterator[Spot]:
    """n[1-3,7] is no list of names."""
    fix = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    for command, following in zip(body.commands, [*body.commands[1:], None], strict=False):
        for use in command.uses:
            is_cut = use.modifier[:1] in ("%", "#", "/", ":") and use.modifier[:2] != ":-"
            piped = command.after == "|" and following is not None and following.name in _CUTTERS
            if use.name in _NODELIST and (is_cut or (piped and command.name in ("echo", "printf"))):
                yield use.start, f"${use.name} is compressed (n[1-3,7]): cut up it is no node's name", fix
                return


def own_folder(body: Body) -> Iterator[Spot]:
    """The batch script is a copy."""
    for command in body.commands:
        for use in command.uses:
            is_path = command.name in ("dirname", "realpath", "readlink") or use.modifier.startswith("%/")
            if use.name in ("0", "BASH_SOURCE") and is_path:
                message = "Slurm runs a copy of the script in a folder of slurmd's, not where it lies"
                yield use.start, message, '"$SLURM_SUBMIT_DIR", or --chdir'
                return


def image_without_gpus(body: Body) -> Iterator[Spot]:
    """A container gets the GPUs on request."""
    if not (body.request.gpus_per_node or body.request.gpus_total) or re.search(
        r"(APPTAINER|SINGULARITY)_NV", body.text
    ):
        return
    for command in body.commands:
        text = " ".join(word.text for word in command.words)
        match = re.search(r"\b(apptainer|singularity) +(exec|run)\b", text)
        if match and not re.search(r"\s--(nv|nvccli|rocm)\b", text):
            yield (
                command.start,
                f"{match[1]} {match[2]} without --nv: the image has no GPU",
                f"{match[1]} {match[2]} --nv",
            )
            return


RULES = (
    (Rule("SG217", "secret in the script", "Everyone who may read the script has it."), literal_secret),
    (Rule("SG218", "secret in the log", "Everyone who reads the log has it."), traced_secret),
    (Rule("SG219", "set -u and activation", "unbound variable, in somebody else's script.", False), unset_variables),
    (Rule("SG220", "conda without its hook", "CondaError: Run 'conda init' first."), conda_without_hook),
    (Rule("SG221", "GPUs chosen by hand", "Two jobs share a GPU, or the program finds none."), chosen_gpus),
    (Rule("SG222", "failure hidden at the end", "Nobody sees that the program failed."), hidden_failure),
    (Rule("SG223", "unreadable for bash", "The job ends in the middle of the script."), unreadable),
    (Rule("SG225", "node list cut up", "The head node is no node."), cut_nodelist),
    (Rule("SG226", "script's own folder", "Files beside the script are not found."), own_folder),
    (Rule("SG230", "image without GPUs", "CUDA is not available."), image_without_gpus),
)  # fmt: skip

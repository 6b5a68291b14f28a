"""The rules of `lint` about time and memory in a header: what Slurm reads otherwise than it was meant."""

import re
from collections.abc import Iterator

from slurmgpu.experiment.finding import Found, Rule
from slurmgpu.experiment.lintscript import Script

# sbatch(1): minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on; 22.05 to 26.05 refuse the rest
_TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|-1|unlimited|infinite", re.IGNORECASE | re.ASCII)
_MEM = re.compile(r"\d+([kmgt]b?)?", re.IGNORECASE | re.ASCII)
# whole days and half ones: nobody asks for 24 minutes
_HOURS = frozenset({24, 36, 48, 72, 96, 144, 168})
_CLOCK_HOURS = _HOURS | {6, 8, 10, 12, 16, 18, 20}
_MEM_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")


def _is_no_limit(text: str) -> bool:
    return text.lower() in ("0", "-1", "unlimited", "infinite")


def hours_as_minutes(script: Script) -> Iterator[Found]:
    """24 is 24 minutes, and 24:00 too."""
    text = script.value("time") or ""
    plain, clock = re.fullmatch(r"\d{1,6}", text, re.ASCII), re.fullmatch(r"(\d{1,6}):00", text, re.ASCII)
    if plain and int(text) in _HOURS:
        yield *script.place("time"), f"--time={text} is {text} minutes", _in_hours(int(text))
    elif clock and int(clock[1]) in _CLOCK_HOURS:
        yield *script.place("time"), f"--time={text} is {clock[1]} minutes", _in_hours(int(clock[1]))


def _in_hours(number: int) -> str:
    minutes = f"{number // 60:02}:{number % 60:02}:00"
    return f"--time={number}:00:00 for hours; --time={minutes} says that minutes are meant"


def clock_without_hours(script: Script) -> Iterator[Found]:
    """4:30 is four minutes and a half."""
    text = script.value("time") or ""
    match = re.fullmatch(r"(\d{1,6}):(\d{1,2})", text, re.ASCII)
    if match and not (match[2] == "00" and int(match[1]) in _CLOCK_HOURS):
        message = f"--time={text} is {int(match[1])} minutes and {int(match[2])} seconds"
        yield *script.place("time"), message, f"--time={text}:00 for hours and minutes, --time=00:{text} for this"


def unreadable_time(script: Script) -> Iterator[Found]:
    """A time is in one of Slurm's forms."""
    text = script.value("time")
    if text and not text.startswith("$") and not _TIME.fullmatch(text):
        yield *script.place("time"), f"--time={text[:40]} is no time to Slurm", "write 90, 12:00:00 or 2-12:00:00"


def no_limit(script: Script) -> Iterator[Found]:
    """No limit is a limit of the partition, or none at all."""
    text = script.value("time") or ""
    if _is_no_limit(text):
        message = f"--time={text} asks for no limit: a partition with one refuses it or lets it wait for ever"
        yield *script.place("time"), message, "write the time that the job needs"


def no_time(script: Script) -> Iterator[Found]:
    """Without --time it is the partition's default."""
    if "time" not in script.request.given and script.given:
        message = "no --time: the job gets the partition's default, which may be an hour or the partition's longest"
        yield script.given[-1].line, 1, message, "write --time=12:00:00"


def several_mem(script: Script) -> Iterator[Found]:
    """One way of asking for memory."""
    asked = [option for option in _MEM_OPTIONS if option in script.request.given]
    if len(asked) > 1:
        message = f"--{asked[0]} and --{asked[1]} exclude each other: sbatch refuses them"
        yield (
            *script.place(asked[1]),
            message,
            f"keep one; --{asked[0]} counts " + ("a node's memory" if asked[0] == "mem" else "for each CPU"),
        )


def unreadable_mem(script: Script) -> Iterator[Found]:
    """Memory is a whole number and K, M, G or T."""
    for option in _MEM_OPTIONS:
        text = script.value(option)
        if text and not text.startswith("$") and not _MEM.fullmatch(text):
            message = f"--{option}={text[:40]} is no size to Slurm"
            yield *script.place(option), message, "write a whole number and K, M, G or T: 64G, 1500M"


def small_mem(script: Script) -> Iterator[Found]:
    """A bare number is MiB."""
    for option in _MEM_OPTIONS:
        text = script.value(option) or ""
        if re.fullmatch(r"\d{1,3}", text, re.ASCII) and int(text) > 0:
            message = f"--{option}={text} is {text} MiB, less than a Python program takes"
            yield *script.place(option), message, f"--{option}={text}G"


def no_mem(script: Script) -> Iterator[Found]:
    """With GPUs the memory is better said."""
    request = script.request
    asks_gpus = request.gpus_per_node or request.gpus_total
    if asks_gpus and not any(option in request.given for option in _MEM_OPTIONS):
        message = "GPUs, but no memory: the job gets the site's default, often a few GiB for each CPU"
        yield *script.place(request.gpu_option), message, "write --mem=64G (for each node) or --mem-per-gpu=64G"


RULES = (
    (Rule("SG120", "minutes meant as hours", "The job is killed after minutes."), hours_as_minutes),
    (Rule("SG121", "MM:SS", "Two numbers are minutes and seconds.", False), clock_without_hours),
    (Rule("SG122", "unreadable time", "sbatch refuses the script."), unreadable_time),
    (Rule("SG123", "no limit asked for", "No partition with a limit runs it.", False), no_limit),
    (Rule("SG124", "no --time", "The job waits as long as the longest, or is killed at an hour.", False), no_time),
    (Rule("SG125", "several kinds of memory", "sbatch refuses the script."), several_mem),
    (Rule("SG126", "unreadable memory", "sbatch refuses the script."), unreadable_mem),
    (Rule("SG127", "memory without a unit", "A bare number is MiB; the job is killed as it starts."), small_mem),
    (Rule("SG128", "no memory", "Data loaders are killed by the kernel when they reach the default.", False), no_mem),
)  # fmt: skip

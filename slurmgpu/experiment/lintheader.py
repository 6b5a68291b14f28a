"""The rules of `lint` about the header as text: what sbatch does not read, cuts off, or refuses."""

import re
from collections.abc import Iterator

from slurmgpu.experiment.arguments import suggestion
from slurmgpu.experiment.finding import Found, Rule
from slurmgpu.experiment.lintscript import DIRECTIVE, Script, cut

_INDENTED = re.compile(r"[ \t]+#SBATCH[ \t]+-")
_SPACED = re.compile(r"[ \t]*#[ \t]+SBATCH[ \t]+-")
_OTHER_CASE = re.compile(r"[ \t]*#[ \t]*sbatch[ \t]+-", re.IGNORECASE)
_DOUBLED = re.compile(r"[ \t]*##+[ \t]*SBATCH[ \t]+-")
_OPTIONS_BEHIND = re.compile(r"#?\s*(?:#\s*SBATCH\s+)?--?[A-Za-z]")
_NO_JOB = frozenset({"test-only", "help", "usage", "version", "wrap"})


def first_line(script: Script) -> Iterator[Found]:
    """The first line names an interpreter."""
    if not script.text.startswith("#!"):
        what = "starts with a byte order mark, and not with #!" if script.text.startswith("\ufeff") else "has no #!"
        yield 1, 1, f"the script {what} in line 1", "start with #!/bin/bash, nothing before it"


def bytes_that_slurm_refuses(script: Script) -> Iterator[Found]:
    """No NUL, no carriage return."""
    for char, word, fix in (
        ("\0", "a NUL", "remove it; is this a text file?"),
        ("\r", "a carriage return (DOS line ends)", "convert it: sed -i 's/\\r$//' SCRIPT"),
    ):
        if char in script.text:
            before = script.text[: script.text.index(char)]
            yield before.count("\n") + 1, len(before) - before.rfind("\n"), f"holds {word}", fix


def dead(script: Script) -> Iterator[Found]:
    """No directive after the first command."""
    command = script.lines[script.end - 1].strip()[:40] if script.end <= len(script.lines) else ""
    for number, line in enumerate(script.lines, 1):
        if number > script.end and number not in script.heredoc and re.match(r"#SBATCH[ \t]+-", line):
            what = f"is behind the first command ({command!r}, line {script.end}), so it is a comment"
            yield number, 1, f"{line.strip()[:60]!r} {what}", f"move it above line {script.end}"


def _matching(script: Script, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(script.lines, 1):
        if "#" in line and number not in script.heredoc and pattern.match(line):
            yield number, line


def indented(script: Script) -> Iterator[Found]:
    """A directive starts in the first column."""
    for number, line in _matching(script, _INDENTED):
        yield (
            number,
            1,
            "a directive that is indented is a comment",
            f"write {line.strip()[:60]!r} in the first column",
        )


def spaced(script: Script) -> Iterator[Found]:
    """No blank in `# SBATCH`."""
    for number, line in _matching(script, _SPACED):
        yield number, line.index("#") + 1, "`# SBATCH` is a comment", "write #SBATCH without the blank"


def other_case(script: Script) -> Iterator[Found]:
    """Capital letters."""
    for number, line in _matching(script, _OTHER_CASE):
        word = line.split()[0] if line.split()[0] != "#" else " ".join(line.split()[:2])
        if "SBATCH" not in word:
            yield number, line.index("#") + 1, f"`{word}` is a comment", "write #SBATCH in capital letters"


def doubled(script: Script) -> Iterator[Found]:
    """`##SBATCH` is a comment, often on purpose."""
    for number, line in _matching(script, _DOUBLED):
        yield number, line.index("#") + 1, "`##SBATCH` is a comment", "write #SBATCH, or remove the line"


def joined(script: Script) -> Iterator[Found]:
    """A comment must not start with #SBATCH."""
    for number, text in enumerate(script.lines[: script.end - 1], 1):
        behind = text[len(DIRECTIVE) : len(DIRECTIVE) + 1]
        if text.startswith(DIRECTIVE) and behind.strip() and behind not in "-#":
            yield (
                number, 1, f"{text.split()[0][:40]!r} starts with #SBATCH, so sbatch reads it as a directive",
                "write a blank behind #SBATCH, or start the comment otherwise",
            )  # fmt: skip


def cut_off(script: Script) -> Iterator[Found]:
    """An unquoted # ends the line, in the middle of a word too."""
    for line in script.header:
        text = script.lines[line.number - 1]
        rest = text[len(DIRECTIVE) :]
        at = cut(rest)
        if at is None:
            continue
        in_word = at > 0 and not rest[at - 1].isspace()
        if in_word or _OPTIONS_BEHIND.match(rest, at):
            lost = rest[at:].strip()[:60]
            fix = "put the value in double quotes" if in_word else "put these options on a line of their own"
            yield (
                line.number,
                len(DIRECTIVE) + at + 1,
                f"sbatch does not read {lost!r}: an unquoted # ends the line",
                fix,
            )


def unreadable(script: Script) -> Iterator[Found]:
    """Every quote is closed."""
    told = {number for number, *_ in joined(script)}
    for fault in script.unread:
        if fault.line in told:
            continue
        yield fault.line, 1, fault.message, "close the quote, or put a backslash before it"


def refused(script: Script) -> Iterator[Found]:
    """sbatch takes the options and the words between them."""
    # that of a comment that starts with #SBATCH has been told
    told = {number for number, *_ in joined(script)}
    for fault in script.faults:
        if fault.line not in told:  # the first of a line, which the others may come from
            told.add(fault.line)
            yield fault.line, 1, fault.message, "write --option=value; a value with blanks in double quotes"


def _is_of_pyxis(option: str) -> bool:
    return option.startswith("container-")


def unknown(script: Script) -> Iterator[Found]:
    """The option exists."""
    for given in script.given:
        if not given.known and not _is_of_pyxis(given.option) and (guess := suggestion(given.option)):
            yield given.line, script.column(given), f"--{given.option} is no option of sbatch", f"--{guess}?"


def of_a_plugin(script: Script) -> Iterator[Found]:
    """An option that may be a plugin's."""
    for given in script.given:
        if not given.known and not _is_of_pyxis(given.option) and not suggestion(given.option):
            message = f"--{given.option} is none of sbatch's own options"
            yield given.line, script.column(given), message, "make sure that a plugin of the site knows it"


def twice(script: Script) -> Iterator[Found]:
    """Each option once."""
    last = script.request.given
    for given in script.given:
        final = last.get(given.option)
        if final is not None and final is not given and final.value != given.value:
            message = f"{given.written} does not count: line {final.line} says {final.written}"
            yield given.line, script.column(given), message, "keep one of them"


def empty(script: Script) -> Iterator[Found]:
    """An option has a value or is not there."""
    for given in script.given:
        if given.value == "":
            yield given.line, script.column(given), f"--{given.option}= has no value", "write one, or remove the line"


def no_job(script: Script) -> Iterator[Found]:
    """Options of the command line only."""
    for given in script.given:
        if given.option in _NO_JOB:
            message = f"--{given.option} in a script means that no job is made of it"
            yield given.line, script.column(given), message, "give it to sbatch on the command line"


def old_word(script: Script) -> Iterator[Found]:
    """`hetjob`, not `packjob`."""
    for line in script.header:
        if line.arguments[:1] == ["packjob"]:
            yield line.number, 1, "`packjob` is the word of before Slurm 20.02", "write #SBATCH hetjob"


def container(script: Script) -> Iterator[Found]:
    """pyxis' options belong to srun."""
    for given in script.given:
        if not given.known and _is_of_pyxis(given.option):
            message = f"--{given.option} in the header runs the script itself in the image, where there is no srun"
            yield given.line, script.column(given), message, "write it on the srun line"
            return


RULES = (
    (Rule("SG101", "dead directive", "sbatch stops reading at the first command; what follows is lost."), dead),
    (Rule("SG102", "indented directive", "sbatch looks for #SBATCH in the first column only."), indented),
    (Rule("SG103", "`# SBATCH`", "With a blank it is a comment, and the option is lost without a word."), spaced),
    (Rule("SG104", "`#sbatch`", "sbatch reads capital letters only; the option is lost without a word."), other_case),
    (Rule("SG105", "`##SBATCH`", "A comment; the option is not applied.", False), doubled),
    (
        Rule("SG106", "comment that sbatch reads", "Every line that starts with #SBATCH is a directive to sbatch."),
        joined,
    ),
    (Rule("SG107", "line cut at #", "An unquoted # ends a directive, so values and options are lost."), cut_off),
    (Rule("SG108", "open quote", "sbatch refuses the script."), unreadable),
    (Rule("SG109", "unreadable option", "sbatch refuses the script, or stops reading here."), refused),
    (Rule("SG110", "unknown option", "sbatch refuses the script."), unknown),
    (Rule("SG111", "option of a plugin", "sbatch refuses what neither it nor a plugin knows.", False), of_a_plugin),
    (Rule("SG112", "option twice", "sbatch takes the last one, without a word."), twice),
    (Rule("SG113", "empty option", "sbatch refuses an empty value."), empty),
    (Rule("SG114", "option of the command line", "In a script it keeps sbatch from making a job."), no_job),
    (Rule("SG115", "no #! line", "sbatch refuses a script without an interpreter in line 1."), first_line),
    (Rule("SG116", "bytes that Slurm refuses", "sbatch takes no NUL, no DOS line ends."), bytes_that_slurm_refuses),
    (Rule("SG117", "`packjob`", "Newer releases of Slurm drop the old word.", False), old_word),
    (
        Rule("SG118", "container options in the header", "pyxis puts the batch script into the image too."),
        container,
    ),
)  # fmt: skip

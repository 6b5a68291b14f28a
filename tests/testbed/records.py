"""What scontrol and sacct print, as dictionaries."""

import re
from collections.abc import Sequence

DELIMITER = "\x1f"  # the usual `|` may stand in a job's name
ENDED = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
    }
)
_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][\w/:]*)=")
# keys whose value is the user's free text, and the keys that Slurm, by its version, prints next
_FREE_TEXT = {"JobName": {"UserId", "SLUID"}, "Command": {"SubmitLine", "WorkDir"}}


def parse_scontrol(line: str) -> dict[str, str]:
    """One record of `scontrol show -o`: a value reaches up to the next key. Of a repeated key the first one stays.

    `scontrol` quotes nothing. A job's name or command line that itself has `Key=` in it is read up to the key that
    follows it in every Slurm; in other values such a text starts a key of its own.
    """
    record: dict[str, str] = {}
    keys = list(_KEY.finditer(line))
    position = 0
    while position < len(keys):
        name, start = keys[position][1], keys[position].end()
        following = position + 1
        if name in _FREE_TEXT and name not in record:
            later = range(following, len(keys))
            following = next((i for i in later if keys[i][1] in _FREE_TEXT[name]), following)
        end = keys[following].start() if following < len(keys) else len(line)
        record.setdefault(name, line[start:end].rstrip())
        position = following
    return record


def has_ended(job: dict[str, str]) -> bool:
    """Whether a job record of scontrol is final."""
    return job.get("JobState", "").split(",")[0] in ENDED


def parse_sacct(output: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """The rows of `sacct --parsable2 --delimiter=DELIMITER`, under the names that the caller asked by."""
    header, *rows = output.splitlines()
    names = fields or header.split(DELIMITER)
    return [dict(zip(names, row.split(DELIMITER), strict=True)) for row in rows]


def is_complete(row: dict[str, str]) -> bool:
    """Whether slurmdbd knows all of a row. It first hears of a short job's end, and seconds later who it was."""
    return "." in row["JobID"] or row["QOS"] != "Unknown"


def is_final(row: dict[str, str]) -> bool:
    """Whether a row of sacct is of a run that ended; a requeued run ended as well."""
    return row["State"].split(" ")[0] in ENDED | {"REQUEUED"} and row["End"] != "Unknown"

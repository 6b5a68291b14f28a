"""Quoting for bash, so that any text arrives byte for byte."""

import re
import shlex

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ANSI_C = r"[\x00-\x1f\x7f'\\]"
_NAMED = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "'": r"\'", "\\": r"\\"}


def sh(value: str) -> str:
    """`value` as one word of bash, on one line.

    Control characters go into $'...': a raw carriage return would make sbatch refuse the script, and a raw
    newline would start a line that looks like one of the script's own.
    """
    if not _CONTROL.search(value):
        return shlex.quote(value)
    escaped = re.sub(_ANSI_C, lambda match: _NAMED.get(match[0]) or f"\\x{ord(match[0]):02x}", value)
    return f"$'{escaped}'"


def comment(text: str) -> str:
    """`text` as the rest of a comment line: no character that could end it."""
    return _CONTROL.sub("?", text).replace("\u2028", "?").replace("\u2029", "?")

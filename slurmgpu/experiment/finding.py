"""What `lint` finds in a script."""

from collections.abc import Callable
from typing import NamedTuple


class Finding(NamedTuple):
    """One place of a script that is wrong: line and column from 1, what it is, and what to write instead."""

    line: int
    column: int
    code: str
    message: str
    fix: str


# a finding before it has its code: line, column, message, fix
Found = tuple[int, int, str, str]


class Rule(NamedTuple):
    """A rule of `lint`: a fault of this kind has this code; `why` says in a sentence what happens with it.

    `is_error` is False where the script may be meant as it is.
    """

    code: str
    title: str
    why: str
    is_error: bool = True


# says that the rule `code` is broken at a line and column, with the message and the fix
Report = Callable[[str, int, int, str, str], None]

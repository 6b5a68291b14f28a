"""A record of named fields whose class costs nothing to make.

A command that lives for a tenth of a second feels it: a dataclass of forty fields takes 5 ms to build at import,
as long as a quarter of the interpreter's start. Type checkers see a dataclass all the same.
"""

from typing import Any, dataclass_transform


@dataclass_transform(kw_only_default=True)
class Fields:
    """Keyword arguments become attributes; class attributes are the defaults and are never changed in place."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

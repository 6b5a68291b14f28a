"""--constraint expressions: the features that one names, and whether a node can be part of the job.

Source: sbatch(1). `&` (or a comma) and `|` are read from left to right, parentheses group, `[a|b]` wants all nodes
to have the same one, `a*2` counts nodes.
"""

_SIGNS = "[]()&|,"


def feature_names(constraint: str) -> list[str]:
    """Every feature that a constraint names: `[a|b]&c*2` gives a, b, c."""
    words = constraint.translate({ord(sign): " " for sign in _SIGNS}).split()
    return [name for word in words if (name := word.partition("*")[0])]


def alternatives(constraint: str) -> list[str]:
    """The constraints of which one must hold on all nodes at once: `[a|b]&c` gives `a&c` and `b&c`."""
    start, end = constraint.find("["), constraint.find("]")
    if start < 0 or end < start or "*" in constraint[start:end]:
        return [constraint]
    return [f"{constraint[:start]}({one}){constraint[end + 1 :]}" for one in constraint[start + 1 : end].split("|")]


def matches(constraint: str, features: frozenset[str]) -> bool:
    """Whether a node with these features can be part of the job.

    Counts and brackets speak of several nodes; here one of their features is enough. Raises ValueError for brackets
    that do not pair.
    """
    start, end = constraint.find("["), constraint.find("]")
    if start >= 0 or end >= 0:
        if end < start or start < 0:
            raise ValueError(f"brackets do not pair in {constraint!r}")
        inside = constraint[start + 1 : end].replace("&", "|")
        return matches(f"{constraint[:start]}({inside}){constraint[end + 1 :]}", features)
    value, rest = _any_of(constraint.replace(",", "&"), features)
    if rest:
        raise ValueError(f"brackets do not pair in {constraint!r}")
    return value


def _any_of(text: str, features: frozenset[str]) -> tuple[bool, str]:
    value, text = _one_of(text, features)
    while text[:1] in ("&", "|"):
        sign = text[0]
        right, text = _one_of(text[1:], features)
        value = (value and right) if sign == "&" else (value or right)
    return value, text


def _one_of(text: str, features: frozenset[str]) -> tuple[bool, str]:
    if text.startswith("("):
        value, rest = _any_of(text[1:], features)
        if not rest.startswith(")"):
            raise ValueError("a parenthesis is never closed")
        return value, rest[1:].lstrip("*0123456789")
    end = next((index for index, char in enumerate(text) if char in "&|()"), len(text))
    return text[:end].partition("*")[0] in features, text[end:]

"""A spec written as YAML, so that the reader of specs finds every value as it is."""

import json
import re

# what YAML of any version reads as this very text
_PLAIN = re.compile(r"(?![-?:] )[A-Za-z0-9_./%+@-][A-Za-z0-9_./%+@=,^ ()-]*(?<! )", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"})
_ESCAPED = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_IN_LINES = re.compile(r"[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]*")


def write(keys: dict[str, object]) -> str:
    """The mapping, a key a line."""
    # a text of several lines goes to the end, where it hides nothing
    order = sorted(keys, key=lambda key: isinstance(keys[key], str) and "\n" in str(keys[key]))
    return "".join(f"{key}:{_value(keys[key], 0)}\n" for key in order)


def _value(value: object, depth: int) -> str:
    if value is True or value is False:
        return " true" if value else " false"
    if isinstance(value, int):
        return f" {value}"
    if isinstance(value, list):
        return " [" + ", ".join(_text(str(item), in_flow=True) for item in value) + "]"
    if isinstance(value, dict):
        indent = "  " * (depth + 1)
        return "".join(f"\n{indent}{_text(key)}:{_value(item, depth + 1)}" for key, item in value.items())
    return " " + _text(str(value), in_flow=depth > 0)


def _text(text: str, in_flow: bool = False) -> str:
    if "\n" in text and not in_flow and _IN_LINES.fullmatch(text) and text.strip():
        return _lines(text)
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS and not (in_flow and "," in text)
    return text if is_plain and not text.startswith(("%", "@", "---")) else _quoted(text)


def _quoted(text: str) -> str:
    """In double quotes; what no reader of YAML takes as it is gets an escape."""
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _lines(text: str) -> str:
    """A literal block; its chomping keeps the line ends at the end as they are."""
    bare = text.rstrip("\n")
    ends = len(text) - len(bare)
    chomp = "-" if ends == 0 else "" if ends == 1 else "+"
    first = "2" if text[:1] in (" ", "\n", "\t") else ""
    block = "\n".join(f"  {line}" if line else "" for line in text.removesuffix("\n").split("\n"))
    return f"|{first}{chomp}\n{block}"

"""Slurm's small grammars as pure functions: time, memory, array indexes, host lists.

Every function either returns a value or raises ValueError with a sentence that says what to write; a text
that cannot be read never becomes a default. Grammar: sbatch(1), and what real versions accept.
"""

import re

# the patterns below are compiled at their first use: a render needs two of them


def _match(pattern: str, text: str) -> re.Match[str] | None:
    # no time, size or index has more digits than fit here, and Python refuses to read thousands of them
    return re.fullmatch(pattern, text, re.ASCII) if len(text) < 64 else None


MINUTE_S = 60
HOUR_S = 3600
DAY_S = 86400

# sbatch(1): "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours", "days-hours:minutes",
# "days-hours:minutes:seconds"
_DAYS = r"(\d+)-(\d+)(?::(\d+))?(?::(\d+))?"
_CLOCK = r"(\d+)(?::(\d+))?(?::(\d+))?"
_UNITS = r"(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?"
_NO_LIMIT = frozenset({"unlimited", "infinite", "0"})
_TIME_FORMS = "write minutes (90), HH:MM:SS (24:00:00), D-HH:MM:SS (2-12:00:00), or 90m, 12h, 2d"
# Slurm keeps minutes in 32 bits; a year of ten is beyond every real limit and far below the overflow
MAX_TIME_S = 3650 * DAY_S


def parse_time(text: str) -> int | None:
    """Seconds of a Slurm time limit, or of the forms 90m, 12h, 2d, 1h30m; None means no limit.

    `90` is 90 minutes and `24:00:00` a day, as in sbatch(1); 0, UNLIMITED and INFINITE are no limit.
    """
    if text.lower() in _NO_LIMIT:
        return None
    if match := _match(_DAYS, text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    elif match := _match(_CLOCK, text):
        first, second, third = match.groups()
        days = 0
        if third is not None:
            hours, minutes, seconds = int(first), int(second), int(third)
        else:
            hours, minutes, seconds = 0, int(first), int(second or 0)
    elif match := _match(_UNITS, text.lower()):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    else:
        raise ValueError(f"{text!r} is not a time; {_TIME_FORMS}")
    total_s = days * DAY_S + hours * HOUR_S + minutes * MINUTE_S + seconds
    if total_s == 0:
        raise ValueError(f"{text!r} is no time at all; for no limit write UNLIMITED")
    if total_s > MAX_TIME_S:
        raise ValueError(f"{text!r} is more than ten years; {_TIME_FORMS}")
    return total_s


def format_time(time_s: int | None) -> str:
    """`1-00:00:00` for 86400, `UNLIMITED` for None: the one form that nobody misreads."""
    if time_s is None:
        return "UNLIMITED"
    minutes, seconds = divmod(time_s, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"


_MEM = r"(\d+)(?:\.(\d+))?\s*([kmgt]?)(i?b)?"
_KIB: dict[str, int] = {"k": 1, "": 1024, "m": 1024, "g": 1024**2, "t": 1024**3}
# above this Slurm's own 64-bit flag for memory per CPU is reached; no node is near it
MAX_MEM_MIB = 1024**4


def parse_mem(text: str) -> int:
    """MiB of a Slurm memory size, rounded up. K, M, G, T are powers of 1024 and a bare number is MiB.

    Beyond sbatch(1), decimals (`1.5G`) and `GiB` are read, because people write them and Slurm refuses them.
    """
    match = _match(_MEM, text.lower())
    if not match or (match[4] and not match[3]):
        raise ValueError(f"{text!r} is not a memory size; write a number and K, M, G or T, such as 120G")
    whole, decimals, unit, _ = match.groups()
    digits = decimals or ""
    kib_scaled = int(whole + digits) * _KIB[unit]
    mib: int = -(-kib_scaled // (1024 * 10 ** len(digits)))
    if mib > MAX_MEM_MIB:
        raise ValueError(f"{text!r} is more memory than Slurm can count; write a number and K, M, G or T")
    return mib


def format_mem(mib: int) -> str:
    """`120G` for 122880, `1500M` for 1500: integers with a unit, the only form every Slurm accepts."""
    if mib and mib % 1024 == 0:
        return f"{mib // 1024}G"
    return f"{mib}M" if mib else "0"


_ARRAY_PART = r"(\d+)(?:-(\d+)(?::(\d+))?)?"


def array_last_index(text: str) -> int:
    """The highest index of a `--array` text such as `0-9:2,15%4`.

    MaxArraySize caps the index, not the number of tasks (slurm.conf(5)).
    """
    indexes, percent, throttle = text.partition("%")
    if percent and not (throttle.isascii() and throttle.isdigit() and int(throttle)):
        raise ValueError(f"{text!r}: after % goes the number of tasks that may run at once")
    last = 0
    for part in indexes.split(","):
        match = _match(_ARRAY_PART, part)
        if not match:
            raise ValueError(f"{text!r} is not an array; write indexes such as 0-9, 1,3,7 or 0-99%4")
        first, end, step = int(match[1]), int(match[2] or match[1]), match[3]
        if end < first or (step is not None and int(step) == 0):
            raise ValueError(f"{part!r} holds no index; write the lower one first and a step above 0")
        last = max(last, end)
    return last


MAX_ARRAY_INDEX = 4_000_000  # slurm.conf(5), MaxArraySize


def array_indexes(text: str) -> list[int]:
    """The indexes of an `--array` text, in order: `0-6:3,15%4` gives 0, 3, 6, 15."""
    if array_last_index(text) > MAX_ARRAY_INDEX:
        raise ValueError(f"{text!r} goes beyond {MAX_ARRAY_INDEX}, the highest index of any cluster")
    indexes: set[int] = set()
    for part in text.partition("%")[0].split(","):
        match = _match(_ARRAY_PART, part)
        assert match
        first = int(match[1])
        indexes.update(range(first, int(match[2] or first) + 1, int(match[3] or 1)))
    return sorted(indexes)


def format_indexes(indexes: list[int]) -> str:
    """Indexes in rising order as an `--array` text: 3, 7, 8, 9 gives `3,7-9`."""
    parts: list[str] = []
    first = last = -1
    for index in [*indexes, -1]:
        if index == last + 1 and first >= 0:
            last = index
            continue
        if first >= 0:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = index
    return ",".join(parts)


MAX_HOSTS = 65536
_BRACKETS = r"\[([^\[\]]*)\]"
_RANGE = r"(\d+)(?:-(\d+))?"


def expand_hostlist(text: str) -> list[str]:
    """The host names of a Slurm host list, in order: `a,b[001,003],c` gives a, b001, b003, c.

    Several bracket groups in one name multiply, the leftmost slowest, as `scontrol show hostnames` does.
    """
    hosts: list[str] = []
    for item in _split_outside_brackets(text):
        hosts.extend(_expand_item(item, MAX_HOSTS - len(hosts)))
    return hosts


def _split_outside_brackets(text: str) -> list[str]:
    items, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"{text!r}: brackets do not pair in this host list")
        if char == "," and depth == 0:
            items.append(text[start:position])
            start = position + 1
    items.append(text[start:])
    if depth or not all(items):
        raise ValueError(f"{text!r} is not a host list; write names such as n1,n[3-5]")
    return items


def _expand_item(item: str, room: int) -> list[str]:
    names = [""]
    end = 0
    for match in re.finditer(_BRACKETS, item):
        numbers = _expand_ranges(match[1], item, room)
        prefix = item[end : match.start()]
        end = match.end()
        if len(names) * len(numbers) > room:
            raise ValueError(f"{item!r} names more than {MAX_HOSTS} hosts")
        names = [name + prefix + number for name in names for number in numbers]
    if end and end < len(item):  # scontrol: "Invalid hostlist"
        raise ValueError(f"{item!r}: nothing may follow the last bracket of a host name")
    return [name + item[end:] for name in names]


def _expand_ranges(ranges: str, item: str, room: int) -> list[str]:
    numbers: list[str] = []
    for part in ranges.split(","):
        match = _match(_RANGE, part)
        if not match:
            raise ValueError(f"{item!r}: [{ranges}] is not a list of numbers such as [1-3,7]")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= room:
            raise ValueError(f"{item!r}: the range {part} is empty or too long")
        numbers.extend(str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return numbers

"""Slurm's grammars: expected values are those of sbatch(1), slurm.conf(5) and `scontrol show hostnames`."""

import itertools
import os
import re
import shutil
import subprocess
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurmgpu.slurmtext import (
    MAX_HOSTS,
    MAX_MEM_MIB,
    MAX_TIME_S,
    array_last_index,
    expand_hostlist,
    format_mem,
    format_time,
    parse_mem,
    parse_time,
)

PROPERTY = settings(max_examples=120, deadline=None)
SMALL = st.integers(0, 99)

# --- time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        # sbatch(1): minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, and all four
        ("10", 600),
        ("1", 60),
        ("24", 1440),
        ("43200", 2_592_000),
        ("4:00", 240),
        ("24:00", 1440),
        ("30:00", 1800),
        ("0:30", 30),
        ("1:30", 90),
        ("1:00:00", 3600),
        ("00:00:30", 30),
        ("12:00:00", 43_200),
        ("24:00:00", 86_400),
        ("48:00:00", 172_800),
        ("08:00:00", 28_800),
        ("010", 600),
        ("1-0", 86_400),
        ("1-12", 129_600),
        ("2-12", 216_000),
        ("3-0:00", 259_200),
        ("3-00:00", 259_200),
        ("1-2:3", 93_780),
        ("2-00:00:00", 172_800),
        ("1-02:03:04", 93_784),
        ("0-00:00:01", 1),
        ("1-30", 194_400),
        ("1:90:00", 9000),
        # ours
        ("90m", 5400),
        ("12h", 43_200),
        ("2d", 172_800),
        ("45s", 45),
        ("1h30m", 5400),
        ("1d12h", 129_600),
        ("1D2H3M4S", 93_784),
        # no limit
        ("UNLIMITED", None),
        ("unlimited", None),
        ("INFINITE", None),
        ("infinite", None),
        ("0", None),
        # the most that is taken
        ("3650-0", MAX_TIME_S),
        ("5256000", MAX_TIME_S),
    ],
)
def test_time(text, seconds):
    assert parse_time(text) == seconds


NO_TIMES = [
    "", " ", "4h30", "1-", "-5", "-1", "1:2:3:4", "1.5", "1.5h", "1h 30m", "30m1h", "h", "1:", ":1", "1::2", "1-1-1",
    "1-1:1:1:1", "10 ", " 10", "10\n", "1d\n", "+5", "1e3", "0x10", "1_000", "forever", "none", "infinity", "null",
    "12:00:00 PM", "tomorrow", "٣", "٣h", "1,5", "1w",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_TIMES)
def test_what_is_no_time_is_refused_and_the_forms_are_named(text):
    with pytest.raises(
        ValueError, match=r"is not a time; write minutes \(90\), HH:MM:SS .*D-HH:MM:SS .*90m, 12h, 2d"
    ):
        parse_time(text)


@pytest.mark.parametrize("text", ["00", "0:00", "00:00:00", "0-0", "0d", "0m", "0h0m"])
def test_a_time_of_nothing_is_refused_and_never_becomes_no_limit(text):
    with pytest.raises(ValueError, match="write UNLIMITED"):
        parse_time(text)


# Slurm's own overflow granted 2,982,611 days for -5
@pytest.mark.parametrize("text", ["5256001", "3650-00:00:01", "3651d", "99999999999999999999"])
def test_more_than_ten_years_is_refused(text):
    with pytest.raises(ValueError, match="is more than ten years; write minutes"):
        parse_time(text)


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse_time, "9" * 5000), (parse_mem, "9" * 5000 + "G"), (array_last_index, "9" * 5000)],
)
def test_absurdly_long_numbers_are_refused_in_our_words(parse, text):
    with pytest.raises(ValueError, match="write") as refused:
        parse(text)
    assert "set_int_max_str_digits" not in str(refused.value)


@PROPERTY
@given(days=st.integers(0, 3000), hours=SMALL, minutes=SMALL, seconds=SMALL)
def test_every_form_of_a_time_means_the_same_seconds(days, hours, minutes, seconds):
    clock_s = hours * 3600 + minutes * 60 + seconds
    forms = {
        f"{days}-{hours}:{minutes}:{seconds}": days * 86_400 + clock_s,
        f"{days}-{hours:02}:{minutes:02}": days * 86_400 + clock_s - seconds,
        f"{days}-{hours}": days * 86_400 + hours * 3600,
        f"{hours}:{minutes:02}:{seconds:02}": clock_s,
        f"{minutes}:{seconds}": minutes * 60 + seconds,
        f"{days}d{hours}h{minutes}m{seconds}s": days * 86_400 + clock_s,
        f"{days}": days * 60,
    }
    for text, expected_s in forms.items():
        if text == "0":
            continue  # no limit
        if expected_s == 0:
            with pytest.raises(ValueError, match="no time at all"):
                parse_time(text)
        else:
            assert parse_time(text) == expected_s, text


@PROPERTY
@given(st.integers(1, MAX_TIME_S))
def test_the_normal_form_keeps_the_seconds_and_is_stable(seconds):
    normal = format_time(seconds)
    assert re.fullmatch(r"\d+-[0-2]\d:[0-5]\d:[0-5]\d", normal)
    assert parse_time(normal) == seconds
    assert format_time(parse_time(normal)) == normal


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (86_400, "1-00:00:00"),
        (86_399, "0-23:59:59"),
        (60, "0-00:01:00"),
        (1, "0-00:00:01"),
        (5400, "0-01:30:00"),
        (MAX_TIME_S, "3650-00:00:00"),
        (None, "UNLIMITED"),
    ],
)
def test_the_normal_form(seconds, text):
    assert format_time(seconds) == text
    assert parse_time(text) == seconds


@PROPERTY
@given(st.text(alphabet="0123456789:-dhms UNLIMITED.", max_size=12))
@example("0")
def test_no_limit_comes_only_from_its_three_words(text):
    try:
        read = parse_time(text)
    except ValueError:
        return
    assert (read is None) == (text.lower() in ("0", "unlimited", "infinite"))
    assert read is None or 0 < read <= MAX_TIME_S


# --- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("1", 1),  # a bare number is megabytes (sbatch(1))
        ("4096", 4096),
        ("0", 0),
        ("1M", 1),
        ("1G", 1024),
        ("1T", 1_048_576),
        ("120G", 122_880),
        ("120g", 122_880),
        ("120GB", 122_880),
        ("120GiB", 122_880),
        ("120 GB", 122_880),
        ("1024K", 1),
        ("1025K", 2),
        ("1K", 1),
        ("1kb", 1),
        ("0K", 0),
        ("1.5G", 1536),
        ("1.5GiB", 1536),
        ("0.5T", 524_288),
        ("1.5", 2),
        ("0.4M", 1),
        ("2.0G", 2048),
        ("0.001G", 2),  # 1.024 MiB
        ("1.0000000000000000000001G", 1025),
        ("007G", 7168),
        ("1048576T", MAX_MEM_MIB),
    ],
)
def test_memory(text, mib):
    assert parse_mem(text) == mib


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "G", "-1G", "+1G", "1.G", ".5G", "1e3", "1e3M", "1,5G", "1_000M", "0x10G", "1GG", "1Gi", "1B", "1iB",
        "1P", "1E", "1 000G", " 1G", "1G ", "1G\n", "1g/cpu", "half", "80%", "٣G", "1..5G", "1.5.5G", "inf", "None",
    ],
)  # fmt: skip
def test_what_is_no_memory_size_is_refused(text):
    with pytest.raises(ValueError, match="is not a memory size; write a number and K, M, G or T, such as 120G"):
        parse_mem(text)


@pytest.mark.parametrize("text", ["1048577T", "1099511627777", "1099511627776.001M"])
def test_more_memory_than_slurm_counts_is_refused(text):
    with pytest.raises(ValueError, match="more memory than Slurm can count"):
        parse_mem(text)


@PROPERTY
@given(
    whole=st.integers(0, 10**6),
    decimals=st.from_regex(r"[0-9]{0,8}", fullmatch=True),
    unit=st.sampled_from(["", "K", "M", "G", "k", "g", "GB", "KiB", " MB", "mib"]),
)
def test_memory_is_rounded_up_by_less_than_a_megabyte(whole, decimals, unit):
    factor = {"k": Fraction(1, 1024), "g": 1024}.get(unit.strip().lower()[:1], 1)
    exact = Fraction(f"{whole}.{decimals or 0}") * factor
    mib = parse_mem(f"{whole}{'.' if decimals else ''}{decimals}{unit}")
    assert exact <= mib < exact + 1


@PROPERTY
@given(st.one_of(st.integers(0, MAX_MEM_MIB), st.integers(0, 1024).map(lambda gib: gib * 1024)))
@example(0)
@example(1023)
@example(1024)
def test_written_memory_is_an_integer_with_a_unit_and_loses_nothing(mib):
    text = format_mem(mib)
    assert re.fullmatch(r"0|[1-9][0-9]*[MG]", text)
    assert parse_mem(text) == mib


@pytest.mark.parametrize(
    ("mib", "text"), [(0, "0"), (1, "1M"), (1500, "1500M"), (1024, "1G"), (122_880, "120G"), (1_048_576, "1024G")]
)
def test_written_memory(mib, text):
    assert format_mem(mib) == text


# --- arrays -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("0", 0),
        ("7", 7),
        ("0-9", 9),
        ("0-9:2,15%4", 15),
        ("1,3,7", 7),
        ("7,3,1", 7),
        ("0-15:4", 15),  # Slurm compares the end as written with MaxArraySize
        ("0-99%4", 99),
        ("5-5", 5),
        ("1000", 1000),
        ("0-10:3", 10),
        ("3-4,0-2", 4),
    ],
)
def test_highest_array_index(text, last):
    assert array_last_index(text) == last


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write indexes such as 0-9, 1,3,7 or 0-99%4"),
        ("a", "write indexes such as"),
        ("1,", "write indexes such as"),
        (",1", "write indexes such as"),
        ("-1", "write indexes such as"),
        ("1-", "write indexes such as"),
        ("1-2-3", "write indexes such as"),
        ("1:2", "write indexes such as"),
        ("0-3, 5", "write indexes such as"),
        (" 1", "write indexes such as"),
        ("1\n", "write indexes such as"),
        ("٣", "write indexes such as"),
        ("%4", "write indexes such as"),
        ("9-0", "write the lower one first"),
        ("0-9:0", "a step above 0"),
        ("0-9%", "after % goes the number of tasks"),
        ("0-9%0", "after % goes the number of tasks"),
        ("0-9%-1", "after % goes the number of tasks"),
        ("0-9%4%4", "after % goes the number of tasks"),
        ("0-9%٣", "after % goes the number of tasks"),
        ("0-9%x", "after % goes the number of tasks"),
    ],
)
def test_what_is_no_array_is_refused(text, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        array_last_index(text)


@PROPERTY
@given(
    st.lists(st.tuples(st.integers(0, 999), st.integers(0, 99), st.integers(1, 9)), min_size=1, max_size=5),
    st.integers(0, 9),
)
def test_highest_array_index_of_any_array(parts, throttle):
    written = [
        str(first) if not length else f"{first}-{first + length}" + (f":{step}" if step > 1 else "")
        for first, length, step in parts
    ]
    text = ",".join(written) + (f"%{throttle}" if throttle else "")
    assert array_last_index(text) == max(first + length for first, length, _ in parts)


# --- host lists -------------------------------------------------------------------------------------------------

HOSTLISTS = [
    ("n1", ["n1"]),
    ("n1,n2", ["n1", "n2"]),
    ("n[1-3]", ["n1", "n2", "n3"]),
    ("n[3,1]", ["n3", "n1"]),
    ("n[01-03]", ["n01", "n02", "n03"]),
    ("n[08-12]", ["n08", "n09", "n10", "n11", "n12"]),
    ("n[9-11]", ["n9", "n10", "n11"]),
    ("n[01-003]", ["n01", "n02", "n03"]),
    ("n[098-101]", ["n098", "n099", "n100", "n101"]),
    ("n[1-2,7,9-10]", ["n1", "n2", "n7", "n9", "n10"]),
    ("nodeA,nodeB[001,003],nodeC", ["nodeA", "nodeB001", "nodeB003", "nodeC"]),
    ("a[1-2],b[3-4]", ["a1", "a2", "b3", "b4"]),
    ("r[1-2]n[3-4]", ["r1n3", "r1n4", "r2n3", "r2n4"]),
    ("r[1-2][3-4]", ["r13", "r14", "r23", "r24"]),
    ("gpu-n[1-2].cluster-[7]", ["gpu-n1.cluster-7", "gpu-n2.cluster-7"]),
    ("n[5]", ["n5"]),
    ("n[00-01]", ["n00", "n01"]),
    ("n1,n1", ["n1", "n1"]),
]


@pytest.mark.parametrize(("text", "hosts"), HOSTLISTS)
def test_hostlist(text, hosts):
    assert expand_hostlist(text) == hosts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a host list; write names such as n1,n[3-5]"),
        ("n1,", "is not a host list"),
        (",n1", "is not a host list"),
        ("n1,,n2", "is not a host list"),
        ("n[1-2", "is not a host list"),
        ("n1-2]", "brackets do not pair"),
        ("n[[1-2]]", "brackets do not pair"),
        ("n[]", "is not a list of numbers such as [1-3,7]"),
        ("n[1-]", "is not a list of numbers"),
        ("n[-1]", "is not a list of numbers"),
        ("n[1,,2]", "is not a list of numbers"),
        ("n[a-b]", "is not a list of numbers"),
        ("n[1 - 2]", "is not a list of numbers"),
        ("n[1-2-3]", "is not a list of numbers"),
        ("n[٣]", "is not a list of numbers"),
        ("n[3-1]", "the range 3-1 is empty or too long"),
        ("n[1-99999999]", "the range 1-99999999 is empty or too long"),
        ("n[0-65535],m1,m[1-2]", "too long"),
        ("n[1-256][1-257]", f"names more than {MAX_HOSTS} hosts"),
        ("n[1-256][1-256][1-256]", f"names more than {MAX_HOSTS} hosts"),
    ],
)
def test_what_is_no_hostlist_is_refused(text, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        expand_hostlist(text)


def test_as_many_hosts_as_slurm_takes():
    assert len(expand_hostlist("n[1-65536]")) == MAX_HOSTS
    assert len(expand_hostlist("n[1-256][1-256]")) == MAX_HOSTS


PREFIX = st.from_regex(r"[a-z][a-z.-]{0,3}[a-z]", fullmatch=True)
RANGE = st.tuples(st.integers(0, 120), st.integers(0, 12), st.integers(1, 4))  # first, how many more, width
ITEM = st.lists(st.tuples(PREFIX, st.lists(RANGE, min_size=1, max_size=3)), min_size=0, max_size=2)


def written_and_hosts(items):
    """A host list and, built beside it without any parsing, its hosts."""
    texts, hosts = [], []
    for groups in items:
        if not groups:
            texts.append("login")
            hosts.append("login")
            continue
        text, choices = "", []
        for prefix, ranges in groups:
            texts_of_ranges = [
                f"{first:0{width}}-{first + more:0{width}}" if more else f"{first:0{width}}"
                for first, more, width in ranges
            ]
            text += f"{prefix}[{','.join(texts_of_ranges)}]"
            choices.append(
                [
                    f"{prefix}{number:0{width}}"
                    for first, more, width in ranges
                    for number in range(first, first + more + 1)
                ]
            )
        texts.append(text)
        hosts += ["".join(parts) for parts in itertools.product(*choices)]
    return ",".join(texts), hosts


@PROPERTY
@given(st.lists(ITEM, min_size=1, max_size=4))
def test_hostlist_as_a_naive_reading_gives_it(items):
    text, hosts = written_and_hosts(items)
    assert expand_hostlist(text) == hosts


@pytest.fixture(scope="module")
def scontrol(tmp_path_factory):
    """`scontrol show hostnames`, which needs a slurm.conf but no daemon."""
    program = shutil.which("scontrol")
    if program is None:
        pytest.skip("scontrol is not installed")
    conf = tmp_path_factory.mktemp("conf") / "slurm.conf"
    conf.write_text("ClusterName=t\nSlurmctldHost=localhost\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n")

    def hostnames(text):
        ended = subprocess.run(
            [program, "show", "hostnames", text],
            env=os.environ | {"SLURM_CONF": str(conf)},
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.split()

    return hostnames


@pytest.mark.parametrize(("text", "hosts"), HOSTLISTS)
def test_scontrol_reads_the_table_likewise(scontrol, text, hosts):
    assert scontrol(text) == hosts


@settings(max_examples=60, deadline=None)
@given(st.lists(ITEM, min_size=1, max_size=4))
def test_hostlist_as_scontrol_gives_it(scontrol, items):
    text, _ = written_and_hosts(items)
    assert expand_hostlist(text) == scontrol(text)

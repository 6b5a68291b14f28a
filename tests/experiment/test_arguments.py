"""sbatch's options out of a header: names, abbreviations, values in the next argument, faults."""

import pytest

from slurmgpu.experiment.arguments import KNOWN, SHORT, last_of, read_options
from slurmgpu.experiment.header import read_header
from slurmgpu.experiment.options import OPTIONS


def options(*lines):
    return read_options(read_header("\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines)])))


GIVEN = [
    (["--time=5"], [("time", "5")]),
    (["--time 5"], [("time", "5")]),
    (["--time", "5"], [("time", "5")]),  # the value in the next line
    (["-t5"], [("time", "5")]),
    (["-t 5"], [("time", "5")]),
    (["-t=5"], [("time", "=5")]),  # getopt keeps the sign
    (["-N2 -n 4 -c 8"], [("nodes", "2"), ("ntasks", "4"), ("cpus-per-task", "8")]),
    (["-HOp gpu"], [("hold", None), ("overcommit", None), ("partition", "gpu")]),
    (["--exclusive"], [("exclusive", None)]),
    (["--exclusive=user"], [("exclusive", "user")]),
    (["--exclusive --nice -k"], [("exclusive", None), ("nice", None), ("no-kill", None)]),
    (["--tasks-per-node=2"], [("ntasks-per-node", "2")]),
    (["--cluster=x"], [("clusters", "x")]),
    (["--part=gpu"], [("partition", "gpu")]),
    (["--gpus-per-n=4"], [("gpus-per-node", "4")]),
    (["--mem=1G"], [("mem", "1G")]),  # whole names win over longer ones
    (["--time=5", "--time=6"], [("time", "5"), ("time", "6")]),
    (["--requeue"], [("requeue", None)]),
    (["--gres="], [("gres", "")]),
]


@pytest.mark.parametrize(("lines", "expected"), GIVEN)
def test_options_are_read_as_getopt_does(lines, expected):
    found, faults = options(*lines)
    assert [(one.option, one.value) for one in found] == expected
    assert faults == []
    assert all(one.known for one in found)


FAULTS = [
    (["--time=5 minutes"], 2, "'minutes' is no option"),
    (["--job-name=x", "gpu"], 3, "'gpu' is no option"),
    (["--time"], 2, "--time needs a value"),
    (["-t"], 2, "-t needs a value"),
    (["--mem-=1"], 2, "--mem- could be --mem-bind, --mem-per-cpu, --mem-per-gpu, --mem-update"),
    (["-Z"], 2, "-Z is no option"),
    (["--hold=1"], 2, "--hold takes no value"),
    (["--"], 2, "'--' is no option"),
]


@pytest.mark.parametrize(("lines", "line", "message"), FAULTS)
def test_what_sbatch_refuses_is_a_fault_with_its_line(lines, line, message):
    _, faults = options(*lines)
    assert [fault.line for fault in faults] == [line]
    assert message in faults[0].message


def test_an_option_of_a_plugin_is_kept_and_marked():
    found, faults = options("--container-image=x#y", "--my-flag", "--time=5")
    assert faults == []
    assert [(one.option, one.value, one.known) for one in found] == [
        ("container-image", "x", False),
        ("my-flag", None, False),
        ("time", "5", True),
    ]


def test_the_last_of_several_counts():
    found, _ = options("--time=5", "-t 6")
    assert last_of(found)["time"].value == "6"


def test_every_short_name_stands_for_a_known_option():
    assert set(SHORT.values()) <= KNOWN
    assert set(OPTIONS) <= KNOWN

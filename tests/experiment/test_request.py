"""What a header asks for, in numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgpu.experiment.request import Gres, read, read_gres


def request(*lines):
    return read("\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "srun x"]))


ROWS = [
    ("", {"nodes": 1, "tasks_per_node": 1, "cpus_per_node": 1, "mem_mib": None, "time_s": None, "gpus_per_node": 0}),
    ("-N 2 --ntasks-per-node=4 -c 8", {"nodes": 2, "tasks_per_node": 4, "cpus_per_node": 32}),
    ("-N 2-4", {"nodes": 2}),
    ("-n 5 -N 2", {"nodes": 2, "tasks_per_node": 3, "cpus_per_node": 3}),
    ("-n 8", {"nodes": None, "ntasks": 8}),
    ("-n 8 --ntasks-per-node=4", {"nodes": 2, "tasks_per_node": 4}),
    ("-w n[1-3]", {"nodes": 3, "nodelist": ["n1", "n2", "n3"]}),
    ("--gres=gpu:a100:2", {"gpus_per_node": 2, "gres": [Gres("gpu", "a100", 2)]}),
    ("--gres=gpu:a100:2,gpu:v100:1,nvme:1", {"gpus_per_node": 3}),
    ("--gres=gpu", {"gpus_per_node": 1}),
    ("--gres=gpu:a100", {"gres": [Gres("gpu", "a100", 1)]}),
    ("--gres=gpu:3g", {"gpus_per_node": 3 * 2**30}),  # Slurm reads a count with a suffix
    ("--gres=none", {"gres": []}),
    ("--gpus-per-node=a100:4", {"gres": [Gres("gpu", "a100", 4)]}),
    ("--gpus-per-node=4", {"gres": [Gres("gpu", "", 4)]}),
    ("--gpus-per-task=1 --ntasks-per-node=4", {"gpus_per_node": 4}),
    ("-G 4 -N 1", {"gpus_per_node": 4}),
    ("-G 4 -N 2", {"gpus_per_node": 0, "gpus_total": Gres("gpu", "", 4)}),
    ("--cpus-per-gpu=6 --gres=gpu:4", {"cpus_per_node": 24}),
    ("--mem=120G", {"mem_mib": 122880}),
    ("--mem=0", {"mem_mib": 0}),
    ("--mem-per-cpu=2G -c 4", {"mem_mib": 8192, "mem_per_cpu": 2048}),
    ("--mem-per-gpu=10G --gres=gpu:2", {"mem_mib": 20480}),
    ("-t 90", {"time_s": 5400}),
    ("-t UNLIMITED", {"time_s": 0}),
    ("-p a,b", {"partitions": ["a", "b"]}),
    ("-a 0-9,20%3", {"last_index": 20}),
    ("--exclusive", {"is_exclusive": True}),
    ("--exclusive=user", {"is_exclusive": False}),
    ("-x n[1-2] -w /a/file", {"exclude": ["n1", "n2"], "nodelist": []}),
]


@pytest.mark.parametrize(("line", "expected"), ROWS)
def test_numbers(line, expected):
    found = request(line) if line else request()
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.faults == []


FAULTS = [
    ("--time=1d2", "time", "is not a time"),
    ("--mem=lots", "mem", "is not a memory size"),
    ("--gres=gpu:a100:x", "gres", "has no number at its end"),
    ("--gres=gpu:a:b:c:1", "gres", "is no resource"),
    ("--gres=gpu:1,", "gres", "empty resource"),
    ("-c many", "cpus-per-task", "is not a number"),
    ("-N some", "nodes", "is not a number of nodes"),
    ("-a 5-1", "array", "holds no index"),
    ("-w n[1-", "nodelist", "brackets do not pair|not a host list"),
    ("--job-name='x", "", "never closed"),
]


@pytest.mark.parametrize(("line", "option", "message"), FAULTS)
def test_what_cannot_be_read_is_a_fault_of_its_option(line, option, message):
    import re

    (fault,) = request(line).faults
    assert fault[0] == option
    assert re.search(message, fault[2])
    assert fault[1] == (2 if option else 0)


@given(st.text())
def test_any_script_is_read_without_an_exception(text):
    read(f"#!/bin/bash\n#SBATCH {text}\n")


@given(st.text(alphabet="gpu:a1,=x2G()"))
def test_any_gres_gives_resources_or_a_value_error(text):
    try:
        found = read_gres(text)
    except ValueError:
        return
    assert all(isinstance(one.number, int) for one in found)

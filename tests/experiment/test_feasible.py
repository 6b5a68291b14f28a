"""Which single number blocks a request, and the nearest that fits: held against counting it out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgpu.experiment.feasible import judge
from slurmgpu.experiment.request import read
from tests.clusters import made_up, node


def ask(options):
    return read(f"#!/bin/bash\n#SBATCH {options}\n")


def verdict(options, *nodes, **partition):
    cluster = made_up(*nodes, **partition)
    return judge(ask(options), cluster, cluster.partitions["p"])


TWO = (node("n1", cpus=32, mem_mib=64000, a100=4), node("n2", cpus=32, mem_mib=64000, a100=4))
MIXED = (
    node("g1", cpus=16, mem_mib=64000, features=["ib"], h100=8),
    node("g2", cpus=64, mem_mib=32000, features=["eth"], h100=2),
    node("c1", cpus=128, mem_mib=256000, features=["ib"]),
)

BLOCKED = [
    (TWO, "-N2 --gres=gpu:a100:8", "gres", 4, "but p has 2 nodes with at most 4 a100 GPUs"),
    (TWO, "-N3 --gres=gpu:4", "nodes", 2, "3 nodes asked for, but 2 nodes of p can run it"),
    (TWO, "-N1 -c 33", "cpus-per-task", 32, "33 CPUs a node asked for, but p has 1 node with at most 32 CPUs"),
    (TWO, "-N1 --mem=65G", "mem", 64000, "but p has 1 node with at most 64000M of memory"),
    (TWO, "-N1 --ntasks-per-node=40", "ntasks-per-node", 32, "40 CPUs a node"),
    (TWO, "-N2 --mem-per-cpu=3G -c 32", "mem-per-cpu", 64000, "96G of memory"),
    (TWO, "--gpus-per-node=5", "gpus-per-node", 4, "5 GPUs a node"),
    (MIXED, "--gres=gpu:8 -c 32", "cpus-per-task", 16, "p has 1 node with at most 16 CPUs with 8 GPUs"),
    (MIXED, "--gres=gpu:2 -c 32 --mem=40G", "mem", 32000, "with 2 GPUs, 32 CPUs"),
    (MIXED, "--gres=gpu:8 -C eth", "gres", 2, "8 GPUs a node"),
    (TWO, "-G 9 -N2", "gpus", 8, "9 GPUs asked for, but there are 8"),
    (TWO, "-n 100", "ntasks", 64, "100 tasks of 1 CPUs asked for, but there is room for 64"),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "options", "option", "most", "reason"), BLOCKED)
def test_the_single_number_that_blocks_is_named_with_the_highest_that_fits(nodes, options, option, most, reason):
    found = verdict(options, *nodes)
    assert (found.fits, found.option, found.most) == (False, option, most)
    assert reason in found.reason


def test_several_numbers_are_said_together_with_a_request_that_fits():
    found = verdict("-N2 --gres=gpu:8 -c 64 --mem=64000M", *TWO)
    assert not found.fits
    assert "more than one number is too high for p" in found.reason
    assert "nearest that fits: 4 GPUs, 32 CPUs, 64000M of memory on 2 nodes" in found.reason


def test_nodes_that_are_down_make_it_wait_and_not_fail():
    down = node("n2", cpus=32, mem_mib=64000, state=["DOWN"], a100=4)
    found = verdict("-N2 --gres=gpu:4", TWO[0], down)
    assert (found.fits, found.waits) == (True, True)
    assert "1 of 2 nodes of p are down or drained" in found.reason
    assert not verdict("-N1 --gres=gpu:4", TWO[0], down).waits


def test_limits_of_the_partition_count():
    assert verdict("-N2", *TWO, max_nodes=1).option == "nodes"
    assert "takes jobs of 2 nodes and more" in verdict("-N1", *TWO, min_nodes=2).reason
    assert verdict("-c 20", *TWO, max_cpus_per_node=16).most == 16


def test_under_brackets_all_nodes_must_have_the_same_feature():
    nodes = (node("a1", features=["a"]), node("b1", features=["b"]))
    assert verdict("-N2 -C a|b", *nodes).fits
    found = verdict("-N2 -C [a|b]", *nodes)
    assert (found.fits, found.option, found.most) == (False, "nodes", 1)


def test_names_shut_nodes_out():
    assert verdict("-N1 -w n1 --gres=gpu:4", *TWO).fits
    assert "no node of p has the features or the name" in verdict("-N1 -w n9", *TWO).reason
    assert verdict("-N2 -x n1", *TWO).option == "nodes"


sizes = st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(0, 4))


@settings(max_examples=300)
@given(
    st.lists(sizes, min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 5),
)
def test_the_verdict_is_what_counting_gives(nodes, count, cpus, mem, gpus):
    made = [node(f"n{i}", cpus=c, mem_mib=m * 100, any=g) for i, (c, m, g) in enumerate(nodes)]

    def fits(count, cpus, mem, gpus):
        return sum(c >= cpus and m >= mem and g >= gpus for c, m, g in nodes) >= count

    def options(count, cpus, mem, gpus):
        return f"-N{count} -c {cpus} --mem={mem * 100}" + (f" --gres=gpu:{gpus}" if gpus else "")

    found = verdict(options(count, cpus, mem, gpus), *made)
    assert found.fits == fits(count, cpus, mem, gpus)
    if found.option:
        changed = {"nodes": count, "cpus-per-task": cpus, "mem": mem, "gres": gpus}
        step = 100 if found.option == "mem" else 1
        most = found.most // step
        assert most < changed[found.option]
        # the number named fits, and is the highest that does while the others stay
        assert fits(*(changed | {found.option: most}).values())
        assert not fits(*(changed | {found.option: most + 1}).values())
    elif not found.fits:
        # no single number that is lowered to something above 0 is enough
        for name, value in {"nodes": count, "cpus-per-task": cpus, "mem": mem, "gres": gpus}.items():
            asked = {"nodes": count, "cpus-per-task": cpus, "mem": mem, "gres": gpus}
            assert not any(fits(*(asked | {name: lower}).values()) for lower in range(1, value))

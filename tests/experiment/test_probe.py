"""A probed profile reads back, and a spec rendered with it, offline, gets that cluster's defaults."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgpu.errors import InputError, Place
from slurmgpu.experiment import profile
from slurmgpu.experiment.probe import profile_text, quoted
from tests.clusters import made_up, node, recorded
from tests.rendering import directives


def load(cluster, tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(profile_text(cluster))
    return profile.load(str(path), Place("test"))


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_the_profile_of_a_recorded_cluster(version, tmp_path):
    found = load(recorded(version), tmp_path)
    assert found.slurm_version == tuple(map(int, version.split(".")))
    assert (found.gpu_dialect, found.max_array_size, found.default_partition) == ("gres", 1001, "gpu")
    assert list(found.partitions) == ["gpu", "short", "mig", "cpu", "no", "all"]
    gpu = found.partitions["gpu"]
    assert (gpu.nodes, gpu.cpus_per_node, gpu.mem_per_node, gpu.gpus_per_node) == (2, 32, 64000, 4)
    assert (gpu.cpus_per_gpu, gpu.mem_per_gpu, gpu.gpu_types, gpu.max_time_s) == (8, 16000, ["a100"], 172800)
    assert found.partitions["cpu"].gpus_per_node == 0
    assert found.partitions["mig"].types["1g.10gb"].gpus_per_node == 4
    assert found.partitions["all"].types["a100"].cpus_per_gpu == 8


def rendered(tmp_path, cluster=None, **spec):
    (tmp_path / "site.toml").write_text(profile_text(cluster or recorded()))
    return directives({"command": "x.py", "time": "1h"} | spec, profile=str(tmp_path / "site.toml"))


DEFAULTS = [
    ({"gpus_per_node": 2}, "16", "32000M", "gpu:2"),
    ({"gpus_per_node": 4, "nodes": 2}, "32", "62.5G", "gpu:4"),
    ({"gpus_per_node": 1, "partition": "mig", "gpu_type": "1g.10gb"}, "2", "10666M", "gpu:1g.10gb:1"),
    ({"gpus_per_node": 2, "partition": "all", "gpu_type": "a100"}, "16", "32000M", "gpu:a100:2"),
    ({"gpus_per_node": 2, "partition": "all"}, "4", "21332M", "gpu:2"),  # what fits any node of it
    ({"gpus_per_node": 2, "launcher": "srun"}, "8", "32000M", "gpu:2"),
]


@pytest.mark.parametrize(("spec", "cpus", "mem", "gres"), DEFAULTS)
def test_defaults_are_the_gpu_s_share_of_a_node(spec, cpus, mem, gres, tmp_path):
    found = rendered(tmp_path, **spec)
    mem = "64000M" if mem == "62.5G" else mem
    assert (found["cpus-per-task"], found["mem"], found["gres"]) == (cpus, mem, gres)


REFUSED = [
    ({"gpus_per_node": 5}, "comes to 5, but this partition has 4"),
    (
        {"gpus_per_node": 1, "partition": "all", "gpu_type": "a100", "cpus_per_gpu": 33},
        "33, but this partition has 32",
    ),
    ({"gpus_per_node": 5, "partition": "mig", "gpu_type": "1g.10gb", "force": True}, "5, but this partition has 4"),
    ({"gpus_per_node": 1, "gpu_type": "A100"}, "spelled exactly: a100"),
    ({"time": "3-0"}, "over this partition's limit of 2-00:00:00"),
    ({"array": "0-1001"}, "beyond the cluster's highest, 1000"),
    ({"partition": "gpuu"}, "it has gpu"),
    ({"nodes": 3, "gpus_per_node": 1}, "comes to 3, but this partition has 2"),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_limits_of_the_cluster_hold_offline(spec, message, tmp_path):
    with pytest.raises(InputError, match=message):
        rendered(tmp_path, **spec)


def test_models_as_features_give_that_dialect(tmp_path):
    cluster = made_up(node("n1", features=["a100"], any=4), node("n2", features=["h100"], any=4))
    found = rendered(tmp_path, cluster, gpus_per_node=1, gpu_type="h100")
    assert (found["gres"], found["constraint"]) == ("gpu:1", "h100")


def test_a_limit_of_cpus_a_node_limits_the_share(tmp_path):
    cluster = made_up(node("n1", cpus=64, any=4), max_cpus_per_node=32)
    assert rendered(tmp_path, cluster, gpus_per_node=1)["cpus-per-task"] == "8"


def test_the_same_cluster_gives_the_same_text():
    assert profile_text(recorded()) == profile_text(recorded())


@given(st.text())
def test_any_name_is_quoted_for_toml(name):
    read = tomllib.loads(f"key = {quoted(name)}\n")["key"]
    assert read == "".join("?" if "\ud800" <= char <= "\udfff" else char for char in name)


def test_a_partition_with_an_odd_name(tmp_path):
    cluster = made_up(node("n1", any=1, partitions=('p"\\]\n#',)))
    odd = cluster.partitions.pop("p")
    odd.name, odd.is_default = 'p"\\]\n#', False
    cluster.partitions[odd.name] = odd
    assert load(cluster, tmp_path).partitions[odd.name].gpus_per_node == 1


def test_of_unlike_nodes_the_largest_is_the_limit_and_the_smallest_share_the_default(tmp_path):
    big, small = node("n1", cpus=64, mem_mib=8000, a100=4), node("n2", cpus=16, mem_mib=4000, a100=4)
    cluster = made_up(big, small)
    found = rendered(tmp_path, cluster, gpus_per_node=2)
    assert (found["cpus-per-task"], found["mem"]) == ("8", "2000M")
    assert rendered(tmp_path, cluster, gpus_per_node=2, cpus_per_gpu=32)["cpus-per-task"] == "64"
    with pytest.raises(InputError, match="66, but this partition has 64"):
        rendered(tmp_path, cluster, gpus_per_node=2, cpus_per_gpu=33)

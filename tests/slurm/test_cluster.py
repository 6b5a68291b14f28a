"""Both sources tell the same cluster, and it is the one that runs. pyslurm needs the Slurm that it was built for."""

import importlib.metadata
import json
import sys

import pytest

from slurmgpu.experiment.cluster import SOURCES

# asks as alice, and writes the records as JSON
ASK = """
import json, sys
from slurmgpu.errors import UnavailableError
from slurmgpu.experiment.cluster import ask

def plain(value):
    return sorted(value) if isinstance(value, (set, frozenset)) else vars(value)

try:
    print(json.dumps(vars(ask(sys.argv[1]).cluster()), default=plain))
except UnavailableError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def told(cluster, source):
    if source == "pyslurm" and (reason := no_pyslurm(cluster)):
        pytest.skip(f"the pyslurm half did not run: {reason}")
    ended = cluster.run([sys.executable, "-c", ASK, source], check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def no_pyslurm(cluster):
    """Why pyslurm cannot be had for this cluster; None where it must work."""
    try:
        release = ".".join(importlib.metadata.version("pyslurm").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        return "pyslurm is not installed"
    return None if release == cluster.version else f"pyslurm {release} is not for Slurm {cluster.version}"


@pytest.fixture(params=SOURCES)
def source(request):
    return request.param


def test_the_cluster_is_the_one_that_runs(cluster, source):
    found = told(cluster, source)
    assert (found["source"], found["name"], found["user"]) == (source, "testbed", "alice")
    assert found["version"] == [int(part) for part in cluster.version.split(".")]
    assert (found["max_array_size"], found["enforce_part_limits"]) == (1001, "NO")
    assert found["enforce"] == ["associations", "limits", "qos"]
    assert list(found["partitions"]) == ["gpu", "short", "mig", "cpu", "no", "all"]
    gpu, short = found["partitions"]["gpu"], found["partitions"]["short"]
    assert (gpu["is_default"], gpu["state"], gpu["max_time_s"], gpu["default_time_s"]) == (True, "UP", 172800, 600)
    assert (short["is_default"], short["max_time_s"]) == (False, 1800)
    assert (short["min_nodes"], short["max_nodes"]) == (0, None)
    assert (gpu["allow_accounts"], gpu["deny_accounts"], gpu["allow_qos"], gpu["deny_qos"]) == (None, [], None, [])
    nodes = {node["name"]: node for node in found["nodes"]}
    assert sorted(nodes) == ["c1", "m1", "n1", "n2"]
    assert (nodes["n1"]["cpus"], nodes["n1"]["mem_mib"]) == (32, 64000)
    assert nodes["n1"]["gres"] == {"gpu": {"a100": 4}}
    assert nodes["m1"]["gres"] == {"gpu": {"1g.10gb": 4, "a100_3g.20gb": 2}}
    assert nodes["c1"]["gres"] == {}
    assert (nodes["n1"]["features"], nodes["n1"]["partitions"]) == (["a100", "nvlink"], ["gpu", "short", "no", "all"])
    accounts = {one["account"]: one for one in found["associations"]}
    assert sorted(accounts) == ["03303560", "physics"]
    assert (accounts["physics"]["is_default"], accounts["03303560"]["is_default"]) == (True, False)
    assert sorted(found["qos"]) == ["high", "normal"]


@pytest.fixture
def changed(cluster):
    """Another cluster in every respect that a source tells; undone at the end."""
    partition = "update partitionname=mig"
    steps = [
        (["scontrol", *partition.split(), "maxnodes=1", "minnodes=1", "maxtime=UNLIMITED", "defaulttime=5"],
         ["scontrol", *partition.split(), "maxnodes=UNLIMITED", "minnodes=0", "maxtime=1-0", "defaulttime=10"]),
        (["scontrol", *partition.split(), "allowaccounts=physics,chem", "denyqos=high", "qos=normal", "state=DRAIN"],
         ["scontrol", *partition.split(), "allowaccounts=ALL", "denyqos=", "qos=", "state=UP"]),
        (["scontrol", *partition.split(), "maxcpuspernode=3", "rootonly=yes", "reqresv=yes"],
         ["scontrol", *partition.split(), "maxcpuspernode=UNLIMITED", "rootonly=no", "reqresv=no"]),
        (["scontrol", "update", "nodename=m1", "state=drain", "reason=State=IDLE Gres=gpu:h100:8"],
         ["scontrol", "update", "nodename=m1", "state=resume"]),
        (["scontrol", "create", "reservation", "reservationname=bobs", "starttime=now+1hour", "duration=60",
          "users=bob", "nodes=n2"], ["scontrol", "delete", "reservation", "bobs"]),
        (["scontrol", "create", "reservation", "reservationname=ours", "starttime=now", "duration=60",
          "accounts=physics", "partitionname=cpu", "nodes=c1"], ["scontrol", "delete", "reservation", "ours"]),
    ]  # fmt: skip
    done = []
    try:
        for command, back in steps:
            cluster.run(command, user="root")
            done.append(back)
        yield
    finally:
        for back in reversed(done):
            cluster.run(back, user="root")


def test_what_a_site_may_set(cluster, source, changed):
    found = told(cluster, source)
    mig = found["partitions"]["mig"]
    assert (mig["max_nodes"], mig["min_nodes"], mig["max_time_s"], mig["default_time_s"]) == (1, 1, None, 300)
    assert (mig["allow_accounts"], mig["deny_qos"], mig["qos"]) == (["physics", "chem"], ["high"], "normal")
    assert (mig["state"], mig["max_cpus_per_node"]) == ("DRAIN", 3)
    assert (mig["is_root_only"], mig["needs_reservation"]) == (True, True)
    node = next(node for node in found["nodes"] if node["name"] == "m1")
    assert (node["state"], node["gres"]) == (["DRAIN", "IDLE"], {"gpu": {"1g.10gb": 4, "a100_3g.20gb": 2}})
    bobs, ours = found["reservations"]["bobs"], found["reservations"]["ours"]
    assert (bobs["users"], bobs["accounts"], bobs["nodes"], bobs["state"]) == (["bob"], None, "n2", "INACTIVE")
    assert (ours["users"], ours["accounts"], ours["nodes"], ours["state"]) == (None, ["physics"], "c1", "ACTIVE")
    assert ours["partition"] == "cpu"


def test_both_sources_tell_the_same(cluster, changed):
    by_pyslurm, by_scontrol = told(cluster, "pyslurm"), told(cluster, "scontrol")
    assert (by_pyslurm.pop("source"), by_scontrol.pop("source")) == ("pyslurm", "scontrol")
    assert by_pyslurm == by_scontrol


def test_a_slurm_conf_that_is_not_there(cluster, source):
    """pyslurm ends its process for it, and only that one."""
    env = {"SLURM_CONF": "/nowhere", "SLURMGPU_TIMEOUT_S": "30"}
    ended = cluster.run([sys.executable, "-c", ASK, source], env=env, check=False)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert source in ended.stderr
    assert "Traceback" not in ended.stderr

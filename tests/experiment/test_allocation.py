"""From a spec to directives: GPUs, CPUs, memory and time in every dialect, and what is refused on the way."""

import copy
import functools

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgpu.errors import InputError
from slurmgpu.experiment import merge, yamltext
from slurmgpu.experiment.allocation import is_mig
from slurmgpu.experiment.header import read_header
from slurmgpu.experiment.paths import Place
from slurmgpu.experiment.profile import NONE, Partition, Profile
from slurmgpu.experiment.render import Renderer

PLACE = Place("/home/alice/exp", {"HOME": "/home/alice"})
MEMORY = {"mem", "mem-per-cpu", "mem-per-gpu"}
GPUS = {"gres", "gpus", "gpus-per-node", "gpus-per-task", "constraint"}
# one node of it: 8 GPUs, 128 CPUs, 1000 GiB
GPU = Partition(
    max_time_s=2 * 86_400, nodes=4, cpus_per_node=128, mem_per_node=1_024_000, gpus_per_node=8, gpu_types=["h100"]
)


def site(**values):
    """A profile whose default partition is `gpu`."""
    return Profile(**{"name": "site", "default_partition": "gpu", "partitions": {"gpu": GPU}} | values)


@functools.cache
def renderer():
    return Renderer()


def rendered(spec, profile=NONE, version=None):
    mine = copy.copy(renderer())
    mine.profile, mine.version = profile, version or profile.slurm_version
    content = spec if isinstance(spec, str) else yaml.safe_dump({"command": "train.py"} | spec, sort_keys=False)
    return mine.render(merge.start(yamltext.load(content.encode(), "exp.yaml")), "exp.yaml", PLACE)


def directives(spec, profile=NONE, version=None):
    """The directives of a spec, as Slurm reads them out of the script."""
    arguments = [word for line in read_header(rendered(spec, profile, version).text) for word in line.arguments]
    found = {}
    for argument in arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        assert name not in found, f"--{name} stands twice"
        found[name] = value if equals else None
    assert len(MEMORY & set(found)) <= 1
    return found


def some(found, names):
    return {name: value for name, value in found.items() if name in names}


def problems(spec, profile=NONE, version=None):
    with pytest.raises(InputError) as refused:
        rendered(spec, profile, version)
    return [str(problem) for problem in refused.value.problems]


def notes(spec, profile=NONE, version=None):
    return rendered(spec, profile, version).notes


# --- GPUs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "spec", "expected"),
    [
        ("gres", {"gpus_per_node": 4}, {"gres": "gpu:4"}),
        ("gres", {"gpus_per_node": 4, "gpu_type": "h100"}, {"gres": "gpu:h100:4"}),
        ("gres", {"gpus": 8, "nodes": 2}, {"gres": "gpu:4"}),
        ("gres", {"gpus": 3}, {"gres": "gpu:3"}),
        ("gres", {"gpus_per_node": 2, "gres": "nvme:1"}, {"gres": "gpu:2,nvme:1"}),
        ("gres", {"gres": "nvme:1"}, {"gres": "nvme:1"}),
        ("gres", {"gpus_per_node": 1, "constraint": "ib&80g"}, {"gres": "gpu:1", "constraint": "ib&80g"}),
        ("gres", {"gpus_per_node": 1, "gpu_type": "1g.10gb"}, {"gres": "gpu:1g.10gb:1"}),
        ("gres", {"gpus_per_node": 0}, {}),
        ("gres", {"gpus": 0}, {}),
        ("gres", {}, {}),
        ("gpus-per-node", {"gpus_per_node": 4}, {"gpus-per-node": "4"}),
        ("gpus-per-node", {"gpus": 8, "nodes": 2, "gpu_type": "h100"}, {"gpus-per-node": "h100:4"}),
        ("gpus-per-node", {"gpus_per_node": 2, "gres": "nvme:1"}, {"gpus-per-node": "2", "gres": "nvme:1"}),
        ("gpus-per-node", {"gpus_per_node": 0}, {}),
        ("gpus", {"gpus_per_node": 4}, {"gpus": "4"}),
        ("gpus", {"gpus": 2, "gpu_type": "h100"}, {"gpus": "h100:2"}),
        ("gpus", {"nodes": 2, "launcher": "srun"}, {}),
        ("gres+constraint", {"gpus_per_node": 4}, {"gres": "gpu:4"}),
        ("gres+constraint", {"gpus_per_node": 4, "gpu_type": "h100"}, {"gres": "gpu:4", "constraint": "h100"}),
        (
            "gres+constraint",
            {"gpus_per_node": 4, "gpu_type": "h100", "constraint": "ib&80g", "gres": "nvme:1"},
            {"gres": "gpu:4,nvme:1", "constraint": "h100&ib&80g"},
        ),
        ("gres+constraint", {"gpus_per_node": 4, "constraint": "a|b"}, {"gres": "gpu:4", "constraint": "a|b"}),
    ],
)
def test_gpus_in_the_sites_dialect(dialect, spec, expected):
    profile = Profile(name="site", gpu_dialect=dialect)
    assert some(directives(spec, profile), GPUS) == expected


def test_gpus_per_job_are_refused_over_several_nodes():
    spec = "command: x\nnodes: 2\ngpus_per_node: 4\n"
    assert problems(spec, Profile(name="site", gpu_dialect="gpus")) == [
        "exp.yaml:3:16: `gpus_per_node` profile site asks for GPUs per job (--gpus), which Slurm splits unevenly "
        "over several nodes; ask for one node"
    ]


def test_a_constraint_of_alternatives_is_not_joined_with_a_gpu_type():
    spec = "command: x\ngpus_per_node: 4\ngpu_type: h100\nconstraint: a|b\n"
    (said,) = problems(spec, Profile(name="site", gpu_dialect="gres+constraint"))
    assert said.startswith("exp.yaml:4:13: `constraint` cannot be joined with the GPU type h100")


@pytest.mark.parametrize(
    ("gpus", "nodes", "words"),
    [
        (5, 2, "5 do not divide evenly over 2 nodes; write 4 or 6"),
        (1, 2, "1 do not divide evenly over 2 nodes; write 2 or 2"),
        (10, 4, "10 do not divide evenly over 4 nodes; write 8 or 12"),
    ],
)
def test_gpus_that_do_not_divide_are_refused(gpus, nodes, words):
    said = problems(f"command: x\nnodes: {nodes}\ngpus: {gpus}\nlauncher: srun\n")
    assert said == [f"exp.yaml:3:7: `gpus` {words}"]


@settings(max_examples=60, deadline=None)
@given(gpus=st.integers(0, 64), nodes=st.integers(1, 9))
def test_gpus_are_equal_on_every_node_or_refused(gpus, nodes):
    spec = {"gpus": gpus, "nodes": nodes, "launcher": "srun"}
    if gpus % nodes:
        assert "do not divide evenly" in problems(spec)[0]
    elif gpus:
        assert directives(spec)["gres"] == f"gpu:{gpus // nodes}"
    else:
        assert "gres" not in directives(spec)


@pytest.mark.parametrize(
    ("name", "mig"),
    [
        ("1g.10gb", True), ("1G.10GB", True), ("a100_3g.20gb", True), ("a100-3g.20gb", True), ("1g.10gb+me", True),
        ("nvidia_h100_1c.2g.20gb", True), ("1c.2g.20gb", True), ("7g.80gb", True), ("1g.5gb.me", True),
        ("h100", False), ("a100", False), ("nvidia_a100-sxm4-80gb", False), ("3g", False), ("80gb", False),
        (None, False), ("gh200", False), ("x1g.10gb", False),
    ],
)  # fmt: skip
def test_mig_types(name, mig):
    assert is_mig(name) is mig


@pytest.mark.parametrize(
    "spec",
    [
        {"gpus_per_node": 2},
        {"gpus_per_node": 2, "launcher": "srun"},
        {"gpus": 4, "nodes": 2},
        {"gpus_per_node": 1, "torchrun": {"nproc_per_node": 2}, "launcher": "torchrun"},
        {"gpus_per_node": 1, "ntasks_per_node": 2, "launcher": "shell"},
    ],
)
def test_several_ranks_on_mig_slices_are_refused_unless_forced(spec):
    said = problems(spec | {"gpu_type": "1g.10gb"})
    assert any(
        "`gpu_type` '1g.10gb' is a MIG slice: 2 ranks on one node cannot form a group; ask for one, or write "
        "`force: true`" in line
        for line in said
    )
    gpus = spec.get("gpus_per_node", 2)
    assert directives(spec | {"gpu_type": "1g.10gb", "force": "true"})["gres"] == f"gpu:1g.10gb:{gpus}"


@pytest.mark.parametrize("spec", [{}, {"launcher": "torchrun"}, {"launcher": "srun", "nodes": 2}])
def test_one_rank_on_a_mig_slice_is_taken(spec):
    assert directives({"gpus_per_node": 1, "gpu_type": "1g.10gb"} | spec)["gres"] == "gpu:1g.10gb:1"


def test_a_type_without_gpus_is_refused():
    assert problems("command: x\ngpu_type: h100\n") == [
        "exp.yaml:2:11: `gpu_type` is given without `gpus_per_node` or `gpus`"
    ]


def test_more_ranks_than_gpus_are_refused_unless_forced():
    spec = {"gpus_per_node": 4, "torchrun": {"nproc_per_node": 8}}
    assert "`torchrun` starts 8 ranks on 4 GPUs a node; write `force: true` if that is meant" in problems(spec)[0]
    assert directives(spec | {"force": "true"})["gres"] == "gpu:4"
    assert directives({"torchrun": {"nproc_per_node": 8}, "launcher": "torchrun"})["ntasks-per-node"] == "1"


# --- tasks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "nodes", "tasks"),
    [
        ({}, "1", "1"),
        ({"gpus_per_node": 1}, "1", "1"),
        ({"gpus_per_node": 8}, "1", "1"),
        ({"gpus_per_node": 2, "nodes": 4}, "4", "1"),
        ({"gpus_per_node": 1, "nodes": 2}, "2", "1"),
        ({"gpus_per_node": 8, "launcher": "srun"}, "1", "8"),
        ({"gpus_per_node": 8, "launcher": "srun", "ntasks_per_node": 8}, "1", "8"),
        ({"gpus": 8, "nodes": 2, "launcher": "srun"}, "2", "4"),
        ({"launcher": "srun", "ntasks_per_node": 3}, "1", "3"),
        ({"launcher": "srun", "nodes": 2}, "2", "1"),
        ({"launcher": "shell", "gpus_per_node": 4}, "1", "1"),
        ({"launcher": "shell", "gpus_per_node": 4, "ntasks_per_node": 4, "nodes": 2}, "2", "4"),
        ({"launcher": "python", "gpus_per_node": 4}, "1", "1"),
    ],
)
def test_tasks(spec, nodes, tasks):
    found = directives(spec)
    assert (found["nodes"], found["ntasks-per-node"]) == (nodes, tasks)
    assert "ntasks" not in found


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        ("launcher: torchrun\ngpus_per_node: 2\nntasks_per_node: 2", "4:18",
         "`ntasks_per_node` must not be given with torchrun: one task a node starts all its ranks"),
        ("gpus_per_node: 2\nntasks_per_node: 1", "3:18", "must not be given with torchrun"),
        ("launcher: srun\ngpus_per_node: 4\nntasks_per_node: 2", "4:18",
         "`ntasks_per_node` is 2, but srun starts one rank a GPU and there are 4 a node"),
        ("launcher: torchrun", "2:11",
         "`launcher` torchrun needs `gpus_per_node`, or `torchrun: {nproc_per_node: N}`"),
        ("launcher: python\nnodes: 2", "2:11",
         "python starts one process on one node; write torchrun or srun for more"),
        ("launcher: python\nntasks_per_node: 2", "2:11", "python starts one process"),
        ("launcher: srun\ntorchrun: {nproc_per_node: 2}", "3:11", "`torchrun` has no meaning with launcher srun"),
        ("gpus_per_node: 2\nsignal: USR1@120", "3:9",
         "`signal` USR1 ends torchrun on the spot, and the ranks never see it; write TERM"),
        ("gpus_per_node: 2\nsignal: B:USR2@120", "3:9", "`signal` USR2 ends torchrun on the spot"),
        ("gpus_per_node: 2\nsignal: SIGUSR1", "3:9", "SIGUSR1 ends torchrun"),
        ("gpus_per_node: 2\nsignal: '10@60'", "3:9", "10 ends torchrun"),
        ("gpus_per_node: 2\nsignal: RB:usr1@60", "3:9", "usr1 ends torchrun"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_launcher_is_refused(lines, place, words):
    (said,) = problems(f"command: x\n{lines}\n")
    assert said.startswith(f"exp.yaml:{place}: ")
    assert words in said


@pytest.mark.parametrize("signal", ["TERM@120", "B:TERM@120", "SIGINT@60", "hup", "15@60", "QUIT", "R:TERM@9"])
def test_signals_that_torchrun_handles(signal):
    assert directives({"gpus_per_node": 2, "signal": signal})["signal"] == signal


def test_other_launchers_take_any_signal():
    assert directives({"launcher": "srun", "gpus_per_node": 2, "signal": "USR1@120"})["signal"] == "USR1@120"
    assert directives({"signal": "B:USR1@120"})["signal"] == "B:USR1@120"


# --- CPUs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "profile", "cpus"),
    [
        ({"cpus_per_task": 6}, NONE, "6"),
        ({"cpus_per_gpu": 12, "gpus_per_node": 8}, NONE, "96"),
        ({"cpus_per_gpu": 12, "gpus_per_node": 8, "launcher": "srun"}, NONE, "12"),
        ({"cpus_per_gpu": 12, "gpus_per_node": 1}, NONE, "12"),
        ({"cpus_per_gpu": 3, "gpus": 8, "nodes": 2, "launcher": "torchrun"}, NONE, "12"),
        ({"cpus_per_gpu": 4, "gpus_per_node": 4, "launcher": "shell", "ntasks_per_node": 2}, NONE, "8"),
        ({"cpus_per_gpu": 4}, NONE, "4"),
        ({"cpus_per_gpu": 4, "gpus_per_node": 0}, NONE, "4"),
        ({}, NONE, None),
        ({"gpus_per_node": 4}, NONE, None),
        # the GPUs' share of a node of 128 CPUs and 8 GPUs
        ({"gpus_per_node": 8}, site(), "128"),
        ({"gpus_per_node": 4}, site(), "64"),
        ({"gpus_per_node": 1}, site(), "16"),
        ({"gpus_per_node": 4, "launcher": "srun"}, site(), "16"),
        ({"gpus_per_node": 4, "cpus_per_task": 2}, site(), "2"),
        ({"gpus_per_node": 4, "cpus_per_gpu": 2}, site(), "8"),
        ({}, site(), None),
        ({"gpus_per_node": 3}, site(partitions={"gpu": Partition(cpus_per_node=10, gpus_per_node=4)}), "7"),
        ({"gpus_per_node": 1}, site(partitions={"gpu": Partition(cpus_per_node=2, gpus_per_node=4)}), "1"),
        ({"gpus_per_node": 1}, site(partitions={"gpu": Partition(gpus_per_node=4)}), None),
        ({"gpus_per_node": 1}, site(partitions={"gpu": Partition(cpus_per_node=4)}), None),
    ],
)
def test_cpus(spec, profile, cpus):
    found = directives(spec, profile)
    assert found.get("cpus-per-task") == cpus
    assert "cpus-per-gpu" not in found
    missing = "no `cpus_per_gpu` or `cpus_per_task`: Slurm gives the site's default, often one CPU"
    assert (missing in notes(spec, profile)) == (cpus is None)


# --- memory -----------------------------------------------------------------------------------------------------

PER_CPU = Profile(name="site", mem_dialect="mem-per-cpu")


@pytest.mark.parametrize(
    ("spec", "profile", "expected"),
    [
        ({"mem": "120G"}, NONE, {"mem": "120G"}),
        ({"mem": "1.5G"}, NONE, {"mem": "1536M"}),
        ({"mem": "0"}, NONE, {"mem": "0"}),
        ({"mem": "100"}, NONE, {"mem": "100M"}),
        ({"mem_per_gpu": "120G", "gpus_per_node": 8}, NONE, {"mem": "960G"}),
        ({"mem_per_gpu": "1500M", "gpus_per_node": 2}, NONE, {"mem": "3000M"}),
        ({"mem_per_gpu": "40G", "gpus": 8, "nodes": 2}, NONE, {"mem": "160G"}),
        ({"mem_per_cpu": "4G"}, NONE, {"mem-per-cpu": "4G"}),
        ({"mem_per_cpu": "4G", "gpus_per_node": 8, "exclusive": "true"}, NONE, {"mem-per-cpu": "4G"}),
        ({}, NONE, {}),
        # sbatch(1): --exclusive gives all CPUs and GPUs but only the memory that was asked for
        ({"exclusive": "true"}, NONE, {"mem": "0"}),
        ({"exclusive": "true", "gpus_per_node": 8}, NONE, {"mem": "0"}),
        ({"exclusive": "true", "mem": "8G"}, NONE, {"mem": "8G"}),
        ({"exclusive": "true", "mem_per_gpu": "8G", "gpus_per_node": 2}, NONE, {"mem": "16G"}),
        ({"exclusive": "false"}, NONE, {}),
        ({"exclusive": "true", "gpus_per_node": 2}, site(), {"mem": "0"}),
        # the GPUs' share of a node of 1000 GiB and 8 GPUs
        ({"gpus_per_node": 8}, site(), {"mem": "1000G"}),
        ({"gpus_per_node": 2}, site(), {"mem": "250G"}),
        ({"gpus_per_node": 2, "mem": "8G"}, site(), {"mem": "8G"}),
        ({"gpus_per_node": 2, "mem_per_cpu": "8G"}, site(), {"mem-per-cpu": "8G"}),
        ({}, site(), {}),
        ({"gpus_per_node": 1}, site(partitions={"gpu": Partition(mem_per_node=1000, gpus_per_node=3)}),
         {"mem": "333M"}),
        # the dialect of sites that take memory per CPU only
        ({"mem": "120G", "cpus_per_task": 12}, PER_CPU, {"mem-per-cpu": "10G"}),
        ({"mem_per_gpu": "48G", "gpus_per_node": 2, "cpus_per_gpu": 12}, PER_CPU, {"mem-per-cpu": "4G"}),
        ({"mem_per_gpu": "48G", "gpus_per_node": 2, "cpus_per_gpu": 12, "launcher": "srun"}, PER_CPU,
         {"mem-per-cpu": "4G"}),
        ({"mem": "100M", "cpus_per_task": 3}, PER_CPU, {"mem-per-cpu": "34M"}),
        ({"mem_per_cpu": "3G"}, PER_CPU, {"mem-per-cpu": "3G"}),
        ({"mem": "0"}, PER_CPU, {"mem": "0"}),
        ({}, PER_CPU, {}),
        ({"gpus_per_node": 2}, site(mem_dialect="mem-per-cpu"), {"mem-per-cpu": "8000M"}),
    ],
)  # fmt: skip
def test_memory(spec, profile, expected):
    assert some(directives(spec, profile), MEMORY) == expected


@settings(max_examples=60, deadline=None)
@given(mem=st.integers(1, 10**6), cpus=st.integers(1, 300), gpus=st.integers(1, 8))
def test_memory_per_cpu_is_never_less_than_what_was_asked_for(mem, cpus, gpus):
    spec = {"mem": f"{mem}M", "cpus_per_task": cpus, "gpus_per_node": gpus, "launcher": "srun"}
    text = directives(spec, PER_CPU)["mem-per-cpu"]
    mib = int(text[:-1]) * {"M": 1, "G": 1024}[text[-1]]
    assert mem <= mib * cpus * gpus < mem + cpus * gpus


@pytest.mark.parametrize(
    ("spec", "profile", "said"),
    [
        ("command: x\nmem_per_gpu: 4G\n", NONE, "exp.yaml:2:14: `mem_per_gpu` is given without GPUs; write `mem`"),
        ("command: x\nmem: 4G\n", PER_CPU,
         "exp.yaml:2:6: `mem` profile site takes memory per CPU only: write `cpus_per_gpu` too"),
    ],
)  # fmt: skip
def test_memory_that_cannot_be_asked_for(spec, profile, said):
    assert problems(spec, profile) == [said]


def test_what_slurm_will_choose_is_noted():
    assert "no `mem_per_gpu` or `mem`: Slurm gives the site's default, where none is set a whole node" in notes({})
    assert "no `time`: the partition's default applies, which may be short or endless" in notes({})
    full = {"mem": "1G", "time": "1h", "cpus_per_task": 1}
    assert notes(full) == ["no cluster profile: partition, limits and gres types are not checked"]
    assert notes(full, site()) == []


# --- limits of a profile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "place", "words"),
    [
        ("nodes: 5\ngpus_per_node: 1", "2:8", "`nodes` comes to 5, but this partition has 4"),
        (
            "gpus_per_node: 9\ncpus_per_task: 1\nmem: 1G",
            "2:16",
            "`gpus_per_node` comes to 9, but this partition has 8",
        ),
        ("cpus_per_task: 129", "2:16", "`cpus_per_task` comes to 129, but this partition has 128"),
        ("launcher: srun\ngpus_per_node: 2\ncpus_per_task: 65", "4:16", "comes to 130, but this partition has 128"),
        ("mem: 1001G", "2:6", "`mem` comes to 1025024 MiB, but this partition has 1024000 MiB"),
        ("time: 2-00:00:01", "2:7", "`time` 2-00:00:01 is over this partition's limit of 2-00:00:00"),
        ("time: 49h", "2:7", "`time` 2-01:00:00 is over this partition's limit of 2-00:00:00"),
        ("time: UNLIMITED", "2:7", "UNLIMITED is over this partition's limit of 2-00:00:00"),
        (
            "gpus_per_node: 1\ngpu_type: H100",
            "3:11",
            "'H100' is not in this partition; gres types are spelled exactly: h100",
        ),
        ("gpus_per_node: 1\ngpu_type: a100", "3:11", "'a100' is not in this partition"),
        ("partition: gpus", "2:12", "`partition` 'gpus' is not in profile site; it has gpu"),
        ("partition: [gpu, nope]", "2:12", "'nope' is not in profile site; it has gpu"),
    ],
)
def test_what_is_over_a_limit_is_refused(lines, place, words):
    (said,) = problems(f"command: x\n{lines}\n", site())
    assert said.startswith(f"exp.yaml:{place}: ")
    assert words in said


def test_exactly_the_limit_is_taken():
    spec = {"nodes": 4, "gpus_per_node": 8, "cpus_per_task": 128, "mem": "1000G", "time": "2d", "gpu_type": "h100"}
    found = directives(spec, site())
    assert (found["nodes"], found["gres"], found["time"]) == ("4", "gpu:h100:8", "2-00:00:00")


def test_all_limits_are_said_at_once():
    spec = "command: x\nnodes: 5\ngpus_per_node: 9\ncpus_per_task: 200\nmem: 2000G\ntime: 3d\narray: 0-1001\n"
    said = problems(spec, site(max_array_size=1001))
    assert [line.split(":")[1] for line in said] == ["2", "3", "4", "5", "6", "7"]


def test_a_partition_that_is_asked_for_decides_and_not_the_default():
    small = Partition(cpus_per_node=8, mem_per_node=8192, gpus_per_node=2)
    profile = site(partitions={"gpu": GPU, "small": small})
    found = directives({"partition": "small", "gpus_per_node": 1}, profile)
    assert (found["partition"], found["cpus-per-task"], found["mem"]) == ("small", "4", "4G")
    found = directives({"gpus_per_node": 1}, profile)
    assert "partition" not in found
    assert (found["cpus-per-task"], found["mem"]) == ("16", "125G")
    both = {"partition": "small,gpu", "gpus_per_node": 1}
    assert directives(both, profile)["mem"] == "4G"
    assert "several partitions: sizes and limits are those of small, the others unchecked" in notes(both, profile)


@pytest.mark.parametrize(
    ("array", "size", "refused"),
    [
        ("0-1000", 1001, False),
        ("0-1001", 1001, True),
        ("1001", 1001, True),
        ("1,5,2000%2", 1001, True),
        ("0-9999", 10_000, False),
        ("0-10:3", 10, True),  # Slurm compares the end as written
        ("0", 1, False),
    ],
)
def test_the_highest_array_index_is_one_below_max_array_size(array, size, refused):
    spec = f"command: x\narray: '{array}'\n"
    if refused:
        (said,) = problems(spec, site(max_array_size=size))
        assert said.startswith("exp.yaml:2:8: `array` index ")
        assert said.endswith(f"is beyond the cluster's highest, {size - 1}")
    else:
        assert directives(spec, site(max_array_size=size))["array"] == array


def test_an_array_beyond_the_usual_is_noted_where_the_site_is_unknown():
    assert "array index 1001: most clusters stop at 1000 (MaxArraySize)" in notes({"array": "0-1001"})
    assert not any("array" in note for note in notes({"array": "0-1000"}))


@pytest.mark.parametrize(
    ("nodelist", "nodes", "words"),
    [
        ("n[1-3]", 2, "`nodelist` names 3 nodes, but `nodes` is 2"),
        ("n1,n2", 1, "`nodelist` names 2 nodes, but `nodes` is 1"),
        ("n[1-", 1, "`nodelist` 'n[1-' is not a host list"),
        ("n[3-1]", 1, "the range 3-1 is empty or too long"),
    ],
)
def test_a_nodelist_that_does_not_fit_is_refused(nodelist, nodes, words):
    (said,) = problems(f"command: x\nlauncher: srun\nnodes: {nodes}\nnodelist: '{nodelist}'\n")
    assert said.startswith("exp.yaml:4:11: ")
    assert words in said


def test_a_nodelist_that_fits_and_one_that_is_filled_up():
    spec = {"nodes": 3, "launcher": "srun", "nodelist": ["n1", "n[4-5]"]}
    assert directives(spec)["nodelist"] == "n1,n[4-5]"
    assert not any("nodelist" in note for note in notes(spec))
    assert "`nodelist` has 1 of 3 nodes: Slurm adds others of its choice" in notes(spec | {"nodelist": "n1"})


# --- versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "since", "words"),
    [
        ("prefer: x", (22, 5), "--prefer needs Slurm 22.05, not 21.08"),
        ("extra: x", (23, 2), "--extra needs Slurm 23.02, not 22.05"),
        ("tres_bind: x", (23, 11), "--tres-bind needs Slurm 23.11, not 23.02"),
        ("segment: 4", (24, 5), "--segment needs Slurm 24.05, not 23.11"),
        ("stepmgr: true", (24, 5), "--stepmgr needs Slurm 24.05, not 23.11"),
        ("oom_kill_step: true", (24, 11), "--oom-kill-step needs Slurm 24.11, not 24.05"),
        ("consolidate_segments: true", (25, 11), "--consolidate-segments needs Slurm 25.11, not 25.05"),
        ("requeue: expedite", (25, 11), "`requeue: expedite` needs Slurm 25.11, not 25.05"),
        ("qos: a,b", (24, 11), "a list of QOS needs Slurm 24.11, not 24.05"),
        ("exclusive: topo", (24, 5), "`exclusive: topo` needs Slurm 24.05, not 23.11"),
        ("output: x-%j-%r", (25, 11), "%r in a file name needs Slurm 25.11, not 25.05"),
        ("error: x-%j-%r", (25, 11), "%r in a file name needs Slurm 25.11, not 25.05"),
        ("sbatch: {segment: 4}", (24, 5), "--segment needs Slurm 24.05, not 23.11"),
    ],
)
def test_what_a_slurm_does_not_know_yet_is_refused(line, since, words):
    spec = f"command: x\n{line}\n"
    older = tuple(int(part) for part in words.rpartition(" ")[2].split("."))
    (said,) = problems(spec, version=older)
    assert said.startswith("exp.yaml:2:")
    assert words in said
    assert problems(spec, Profile(name="site", slurm_version=older)) == [said]
    assert directives(spec, version=since)["job-name"] == "exp"
    assert directives(spec)["job-name"] == "exp"


def test_what_a_slurm_no_longer_knows_is_refused():
    assert "--power is gone since Slurm 24.05" in problems("command: x\npower: x\n", version=(24, 5))[0]
    assert directives({"power": "x"}, version=(23, 11))["power"] == "x"


def test_plain_values_are_taken_by_the_oldest():
    spec = {"qos": "high", "output": "x-%%r-%j", "exclusive": "user", "requeue": "true", "mail_type": ["END"]}
    assert directives(spec, version=(21, 8))["qos"] == "high"


def test_a_version_that_was_never_compared_is_noted():
    assert any(
        "Slurm 20.11 is older than the releases that were compared" in note for note in notes({}, version=(20, 11))
    )
    assert not any("older" in note for note in notes({}, version=(21, 8)))


def test_mem_0_over_unequal_nodes_is_noted_for_old_releases():
    spec = {"nodes": 2, "launcher": "srun", "mem": "0"}
    assert "mem 0 on Slurm 22.05 is the smallest node's memory on every node" in notes(spec, version=(22, 5))
    assert not any("mem 0" in note for note in notes(spec, version=(23, 2)))
    assert not any("mem 0" in note for note in notes({"mem": "0"}, version=(22, 5)))


# --- the rest -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"no-requeue": None}),
        ({"requeue": "false"}, {"no-requeue": None}),
        ({"requeue": "true"}, {"requeue": None}),
        ({"requeue": "expedite"}, {"requeue": "expedite"}),
    ],
)
def test_requeue_is_always_said(spec, expected):
    assert some(directives(spec), {"requeue", "no-requeue"}) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"exclusive": "true"}, None),
        ({"exclusive": "user"}, "user"),
        ({"nice": "true"}, None),
        ({"nice": "100"}, "100"),
        ({"nice": "0"}, "0"),
        ({"nice": "-5"}, "-5"),
        ({"hold": "true"}, None),
        ({"core_spec": "0"}, "0"),
        ({"resv_ports": "0"}, "0"),
        ({"segment": "1"}, "1"),
        ({"tmp": "5G"}, "5120M"),
        ({"time_min": "1:00:00"}, "0-01:00:00"),
        ({"account": "03303560"}, "03303560"),
        ({"begin": "2026-01-20T12:34:00"}, "2026-01-20T12:34:00"),
        ({"dependency": "afterok:12:34?afterany:5"}, "afterok:12:34?afterany:5"),
        ({"mail_type": ["END", "FAIL"]}, "END,FAIL"),
        ({"array": "0-9%2"}, "0-9%2"),
        ({"time": "24:00:00"}, "1-00:00:00"),
        ({"time": "90"}, "0-01:30:00"),
        ({"time": "unlimited"}, "UNLIMITED"),
        ({"open_mode": "truncate"}, "truncate"),
        ({"comment": "Hi, #1 'x' \"y\" a\\b"}, "Hi, #1 'x' \"y\" a\\b"),
        ({"constraint": "a100|h100"}, "a100|h100"),
    ],
)
def test_one_option(spec, expected):
    ((key, _),) = spec.items()
    found = directives(spec)
    assert found.get(key.replace("_", "-"), "missing") == expected


def test_a_flag_that_is_off_is_not_written():
    found = directives({"hold": "false", "exclusive": "false", "contiguous": "false"})
    assert not {"hold", "exclusive", "contiguous"} & set(found)


def test_the_whole_of_a_plain_job_in_order():
    found = directives(
        {
            "name": "llama",
            "nodes": 2,
            "gpus_per_node": 8,
            "gpu_type": "h100",
            "cpus_per_gpu": 12,
            "mem_per_gpu": "120G",
            "time": "24:00:00",
            "partition": "gpu",
            "account": "a1",
            "qos": "high",
            "sbatch": {"segment": 2, "new-flag": "true"},
        }
    )
    assert list(found.items()) == [
        ("job-name", "llama"),
        ("account", "a1"),
        ("qos", "high"),
        ("partition", "gpu"),
        ("nodes", "2"),
        ("ntasks-per-node", "1"),
        ("cpus-per-task", "96"),
        ("gres", "gpu:h100:8"),
        ("mem", "960G"),
        ("time", "1-00:00:00"),
        ("chdir", "/home/alice/exp"),
        ("output", "/home/alice/exp/%x-%j.out"),
        ("open-mode", "append"),
        ("no-requeue", None),
        ("segment", "2"),
        ("new-flag", None),
    ]


def test_a_resource_that_is_wrong_and_a_path_that_is_wrong_are_said_together():
    spec = "command: srun x\noutput: logs/\ngpus: 3\nnodes: 2\nsignal: USR1\nchdir: ~bob\n"
    assert [line.split(":")[1] for line in problems(spec)] == ["1", "2", "3", "5", "6"]


# --- what went wrong once ---------------------------------------------------------------------------------------


def test_more_ranks_than_gpus_of_a_type_are_refused():
    spec = {"gpus_per_node": 4, "gpu_type": "h100", "torchrun": {"nproc_per_node": 8}}
    assert "starts 8 ranks on 4 GPUs a node" in problems(spec)[0]


def test_a_shell_job_may_start_several_tasks_on_one_gpu():
    spec = {"launcher": "shell", "gpus_per_node": 4, "ntasks_per_node": 8, "gpu_type": "h100"}
    assert some(directives(spec), {"gres", "ntasks-per-node"}) == {"gres": "gpu:h100:4", "ntasks-per-node": "8"}


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        ({"gpus_per_node": 1, "ntasks_per_node": 2, "cpus_per_gpu": 1}, "1"),
        ({"gpus_per_node": 1, "ntasks_per_node": 49, "cpus_per_gpu": 49}, "1"),
    ],
)
def test_a_task_has_at_least_one_cpu(spec, cpus):
    assert directives(spec | {"launcher": "shell", "force": "true"})["cpus-per-task"] == cpus


def test_a_signal_in_the_sbatch_block_is_refused_with_torchrun_too():
    assert "ends torchrun" in problems({"gpus_per_node": 2, "sbatch": {"signal": "USR1@120"}})[0]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("gpus: 9\ncpus_per_task: 1\nmem: 1G", "exp.yaml:2:7: `gpus`"),
        ("gpus_per_node: 8\ncpus_per_gpu: 17\nmem: 1G", "exp.yaml:3:15: `cpus_per_gpu`"),
        ("gpus_per_node: 8\nmem_per_gpu: 126G", "exp.yaml:3:14: `mem_per_gpu`"),
    ],
)
def test_a_limit_is_said_of_the_key_in_the_file(line, place):
    (said,) = problems(f"command: x\n{line}\n", site())
    assert said.startswith(place)


def test_memory_per_cpu_over_a_node_is_refused():
    said = problems("command: x\ncpus_per_task: 128\nmem_per_cpu: 100G\n", site())
    assert said[0].startswith("exp.yaml:3:14: `mem_per_cpu` ")


@pytest.mark.parametrize("shared_with", ["user", "mcs"])
def test_a_node_shared_with_the_users_own_jobs_is_not_emptied_of_memory(shared_with):
    assert some(directives({"exclusive": shared_with}), MEMORY) == {}


def test_a_node_named_twice_is_one_node():
    said = notes({"nodes": 2, "launcher": "srun", "nodelist": "n1,n1"})
    assert "`nodelist` has 1 of 2 nodes: Slurm adds others of its choice" in said


# --- faults that are known ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["input", "bbf", "export_file", "nodefile"])
def test_every_file_of_a_directive_is_made_absolute(key):
    assert directives({key: "~/x y"})[key.replace("_", "-")] == "/home/alice/x y"


@pytest.mark.parametrize("spec", [{"tres_per_task": "gres/gpu:1"}, {"sbatch": {"tres-per-task": "gres/gpu:1"}}])
def test_gpus_per_task_do_not_come_in_as_tres(spec):
    assert "hides all GPUs but one" in problems({"gpus_per_node": 2, "launcher": "srun"} | spec)[0]


def test_a_partition_in_the_sbatch_block_is_held_against_the_profile():
    assert "'nope' is not in profile site" in problems({"sbatch": {"partition": "nope"}}, site())[0]


def test_a_constraint_in_brackets_can_be_set():
    merged = merge.over(merge.start(yamltext.load(b"command: x\n", "exp.yaml")), merge.setting("constraint=[a|b]"))
    script = renderer().render(merged, "exp.yaml", PLACE)
    assert "#SBATCH --constraint=[a|b]" in script.text

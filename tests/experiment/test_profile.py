"""Profiles: where they are found, what they hold, and every fault in one."""

import pytest

from slurmgpu.errors import InputError, Place
from slurmgpu.experiment import profile
from slurmgpu.experiment.profile import NONE, Partition

FULL = """\
slurm_version = "24.11.5"
gpu_dialect = "gres+constraint"
mem_dialect = "mem-per-cpu"
max_array_size = 1001
default_partition = "gpu"
nccl_socket_ifname = "ib"
gloo_socket_ifname = "ib0"
module_init = "/etc/profile.d/lmod.sh"
setup = "ulimit -l unlimited\\nulimit -n 65536"

[defaults]
account = "03303560"
nodes = 1
exclusive = true
mail_type = ["END", "FAIL"]
env = { NCCL_DEBUG = "WARN", OMP_NUM_THREADS = 4 }

[partitions.gpu]
max_time = "2-00:00:00"
nodes = 10
cpus_per_node = 128
mem_per_node = "1000G"
gpus_per_node = 8
gpu_types = ["h100"]
cpus_per_gpu = 15
mem_per_gpu = "120G"

[partitions.gpu.types.h100]
cpus_per_node = 96

[partitions."long.1"]
max_time = "UNLIMITED"
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder of profiles that is the user's, and no site's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config/slurmgpu/profiles"
    folder.mkdir(parents=True)
    # a profile of this machine must not decide
    monkeypatch.setattr(profile, "folders", lambda: [str(folder), str(tmp_path / "etc")])
    return folder


def load(tmp_path, content):
    path = tmp_path / "site.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return profile.load(str(path), Place("exp.yaml", 3, 10))


def said(tmp_path, content):
    with pytest.raises(InputError) as refused:
        load(tmp_path, content)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in refused.value.problems]


def test_every_key(tmp_path):
    site = load(tmp_path, FULL)
    assert vars(site) | {"partitions": None} == {
        "name": "site",
        "slurm_version": (24, 11),
        "gpu_dialect": "gres+constraint",
        "mem_dialect": "mem-per-cpu",
        "max_array_size": 1001,
        "default_partition": "gpu",
        "nccl_socket_ifname": "ib",
        "gloo_socket_ifname": "ib0",
        "module_init": "/etc/profile.d/lmod.sh",
        "setup": "ulimit -l unlimited\nulimit -n 65536",
        "defaults": {
            "account": "03303560",
            "nodes": "1",
            "exclusive": "true",
            "mail_type": ["END", "FAIL"],
            "env": {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "4"},
        },
        "partitions": None,
    }
    assert list(site.partitions) == ["gpu", "long.1"]
    types = {kind: vars(sizes) for kind, sizes in site.partitions["gpu"].types.items()}
    assert types == {"h100": {"cpus_per_node": 96}}
    assert vars(site.partitions["gpu"]) | {"types": None} == {
        "max_time_s": 172_800,
        "nodes": 10,
        "cpus_per_node": 128,
        "mem_per_node": 1_024_000,
        "gpus_per_node": 8,
        "gpu_types": ["h100"],
        "cpus_per_gpu": 15,
        "mem_per_gpu": 122_880,
        "types": None,
    }
    assert vars(site.partitions["long.1"]) == {"max_time_s": None, "types": {}}


def test_an_empty_profile_is_a_plain_site(tmp_path):
    site = load(tmp_path, "")
    assert (site.gpu_dialect, site.mem_dialect, site.slurm_version, site.max_array_size) == (
        "gres",
        "mem",
        None,
        None,
    )
    assert (site.defaults, site.partitions) == ({}, {})


def test_partitions_of_one_profile_are_not_those_of_the_next(tmp_path):
    assert load(tmp_path, FULL).partitions
    assert load(tmp_path, "").partitions == {}
    assert NONE.partitions == {}
    assert Partition().gpu_types is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('gpu_dialect = "gpu"', "`gpu_dialect` must be one of gres, gpus-per-node, gpus, gres+constraint, not 'gpu'"),
        ('mem_dialect = "mem-per-gpu"', "`mem_dialect` must be one of mem, mem-per-cpu, not 'mem-per-gpu'"),
        ('slurm_version = "new"', "`slurm_version` 'new' is not a Slurm version; write one such as 24.11"),
        ("slurm_version = 24.11", "`slurm_version` must be text, not 24.11"),
        ('max_array_size = "1001"', "`max_array_size` must be a whole number, not '1001'"),
        ("max_array_size = -1", "`max_array_size` must be a whole number, not -1"),
        ("max_array_size = true", "`max_array_size` must be a whole number, not True"),
        ("max_array_size = 1.5", "`max_array_size` must be a whole number, not 1.5"),
        ('gpu_dialct = "gres"', "unknown key 'gpu_dialct'; did you mean 'gpu_dialect'?"),
        ("zzz = 1", "unknown key 'zzz'"),
        ('default_partition = "a\\nb"', "`default_partition` must be one line"),
        ('module_init = ""', "`module_init` must be text, not ''"),
        ('setup = "a\\rb"', "`setup` must be text, not "),
        ("defaults = 1", "`defaults` must be a table of spec keys"),
        ("[partitions]\ngpu = 4", "`partitions.gpu` must be a table"),
        ('[partitions.gpu]\nmax_time = "2 days"', "`partitions.gpu.max_time` '2 days' is not a time; write minutes"),
        ("[partitions.gpu]\nmax_time = 60", "`partitions.gpu.max_time` must be text, not 60"),
        ('[partitions.gpu]\nmem_per_node = "lots"', "`partitions.gpu.mem_per_node` 'lots' is not a memory size"),
        ("[partitions.gpu]\ncpus = 4", "unknown key 'partitions.gpu.cpus'"),
        (
            "[partitions.gpu]\ngpus_pr_node = 4",
            "unknown key 'partitions.gpu.gpus_pr_node'; did you mean 'gpus_per_node'?",
        ),
        ('[partitions.gpu]\ngpu_types = "h100"', "`partitions.gpu.gpu_types` must be a list of names, not 'h100'"),
        ("[partitions.gpu]\ntypes = 1", "`partitions.gpu.types` must be a table of GPU types"),
        ("[partitions.gpu.types]\na100 = 1", "`partitions.gpu.types.a100` must be a table"),
        ("[partitions.gpu.types.a100]\ncpus = 1", "unknown key 'partitions.gpu.types.a100.cpus'"),
        ("[partitions.gpu]\ngpu_types = [1]", "`partitions.gpu.gpu_types` must be text, not 1"),
    ],
)
def test_a_fault_names_its_key_and_what_to_write(tmp_path, line, words):
    (message,) = said(tmp_path, line)
    assert message.startswith(f"site.toml: {words}")


def test_all_faults_are_said_at_once(tmp_path):
    assert (
        len(said(tmp_path, 'zzz = 1\ngpu_dialect = "x"\n[partitions.a]\nnodes = "x"\n[partitions.b]\nyyy = 1\n')) == 4
    )


@pytest.mark.parametrize(
    ("content", "words"), [("a = ]", "line 1"), ("a = 1\na = 2\n", "line 2"), (b"a = '\xff'", "utf-8")]
)
def test_what_is_no_toml(tmp_path, content, words):
    (message,) = said(tmp_path, content)
    assert message.startswith("site.toml: not valid TOML: ")
    assert words in message


def test_a_profile_that_cannot_be_read_is_said_where_it_is_named(home):
    with pytest.raises(InputError) as refused:
        profile.find("./gone.toml", Place("exp.yaml", 3, 10))
    assert str(refused.value) == "exp.yaml:3:10: profile ./gone.toml cannot be read: No such file or directory"


def test_by_name_the_users_comes_before_the_sites(home, tmp_path):
    site = tmp_path / "etc"
    site.mkdir()
    (site / "h200.toml").write_text("max_array_size = 1\n")
    (site / "other.toml").write_text("max_array_size = 2\n")
    assert profile.find("h200", Place("x")).max_array_size == 1
    (home / "h200.toml").write_text("max_array_size = 3\n")
    assert profile.find("h200", Place("x")).max_array_size == 3
    assert profile.find("other", Place("x")).max_array_size == 2
    assert profile.find(str(site / "h200.toml"), Place("x")).max_array_size == 1
    (home / "notes.txt").write_text("")
    assert profile.names() == ["h200", "other"]


def test_default_is_taken_where_no_name_is_given(home):
    assert profile.find(None, Place("x")) is NONE
    (home / "default.toml").write_text("max_array_size = 5\n")
    assert profile.find(None, Place("x")).max_array_size == 5


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all(home):
    (home / "h200.toml").write_text("")
    (home / "cpu.toml").write_text("")
    with pytest.raises(InputError, match=r"^exp.yaml:3:10: no profile 'h20' in .*; did you mean 'h200'\?$"):
        profile.find("h20", Place("exp.yaml", 3, 10))
    with pytest.raises(InputError, match=r"no profile 'zzz' in .*; there is cpu, h200 here$"):
        profile.find("zzz", Place("exp.yaml", 3, 10))


def test_folders_follow_the_environment(monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    assert profile.folders() == ["/c/slurmgpu/profiles", "/etc/slurmgpu/profiles"]
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.setenv("HOME", "/home/alice")
    assert profile.folders() == ["/home/alice/.config/slurmgpu/profiles", "/etc/slurmgpu/profiles"]


def test_defaults_are_a_document_that_names_the_profile(tmp_path):
    document = profile.defaults_document(load(tmp_path, FULL))
    assert document.data["account"] == "03303560"
    assert document.places[("account",)] == Place("profile site")
    assert str(document.places[("account",)]) == "profile site"
    document.data["account"] = "changed"
    assert profile.defaults_document(load(tmp_path, FULL)).data["account"] == "03303560"

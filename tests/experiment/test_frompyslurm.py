"""The cluster by pyslurm: the records of the text source, and no way for pyslurm to take us along."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmgpu.errors import UnavailableError
from slurmgpu.experiment import frompyslurm, scontrol, slurm
from slurmgpu.experiment.cluster import ask
from slurmgpu.experiment.fields import Fields
from tests.clusters import RECORDED, recorded

DOCUMENT = RECORDED / "pyslurm-25.11.json"
STAND_IN = Path(__file__).parent.parent / "standin"


def plain(value):
    """Records as dictionaries, to compare them."""
    if isinstance(value, Fields):
        return {name: plain(one) for name, one in vars(value).items()}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A machine with the stand-in and a scontrol that says what was recorded; both can be changed."""
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.setenv("PYSLURM_STAND_IN", str(DOCUMENT))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("slurmgpu.experiment.cluster.user_name", lambda: "alice")
    monkeypatch.syspath_prepend(str(STAND_IN))

    class Site:
        text = (RECORDED / "scontrol-24.11.txt").read_text()
        document = json.loads(DOCUMENT.read_text())

        def does(self, code):
            monkeypatch.setenv("PYSLURM_DOES", code)

        def then(self, code):
            monkeypatch.setenv("PYSLURM_THEN", code)

        def scontrol(self, script):
            path = tmp_path / "scontrol"
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

        def write(self):
            (tmp_path / "told.txt").write_text(self.text)
            self.scontrol(f"cat >{tmp_path}/asked; cat {tmp_path}/told.txt")
            (tmp_path / "document.json").write_text(json.dumps(self.document))
            monkeypatch.setenv("PYSLURM_STAND_IN", str(tmp_path / "document.json"))

    made = Site()
    made.write()
    return made


def test_the_records_are_those_of_the_text_source(site):
    found, text = plain(ask("pyslurm").cluster()), plain(recorded("24.11"))
    assert (found.pop("source"), text.pop("source")) == ("pyslurm", "scontrol")
    assert (found.pop("version"), text.pop("version")) == ((25, 11), (24, 11))
    assert found == text


def test_values_with_a_meaning_of_their_own(site):
    """Zero is no number to pyslurm, and ALL is nobody where it is about denial."""
    first = site.document["partitions"][0]
    first |= {"max_nodes": None, "max_time": "UNLIMITED", "default_time": None, "max_memory_per_node": 1000}
    first |= {"allowed_accounts": ["physics", "chem"], "denied_qos": ["high"], "min_nodes": 2, "qos": "high"}
    first |= {"is_root_only": True, "requires_reservation": True, "state": "DRAIN", "max_cpus_per_node": 3}
    site.document["nodes"][0] |= {"effective_cpus": 0, "memory_reserved_for_system": 1024, "state": "DOWN+DRAIN*"}
    site.document["reservations"] = [
        {"name": "r", "users": [], "accounts": ["-chem"], "nodes": None, "partition": None, "is_active": False}
    ]
    site.document["config"] |= {"max_array_size": None, "accounting_storage_enforce": []}
    site.write()
    found = ask("pyslurm").cluster()
    gpu, node = found.partitions["gpu"], found.nodes[0]
    assert (gpu.max_nodes, gpu.min_nodes, gpu.max_time_s, gpu.default_time_s) == (0, 2, None, None)
    assert (gpu.max_mem_per_node, gpu.max_cpus_per_node, gpu.qos, gpu.state) == (1000, 3, "high", "DRAIN")
    assert (gpu.allow_accounts, gpu.deny_accounts, gpu.deny_qos) == (["physics", "chem"], [], ["high"])
    assert gpu.is_root_only
    assert gpu.needs_reservation
    assert (node.cpus, node.mem_mib, node.is_usable) == (16, 64000 - 1024, False)
    assert node.state == {"DOWN", "DRAIN", "NOT_RESPONDING"}
    reservation = found.reservations["r"]
    assert (reservation.users, reservation.accounts, reservation.nodes) == (None, ["-chem"], "")
    assert (reservation.state, found.max_array_size, found.enforce) == ("INACTIVE", 0, frozenset())


def test_gres_that_pyslurm_misreads_come_from_scontrol(site):
    """`configured_gres` makes 3090 GPUs without a type of the first, and an error of the second."""
    site.text = site.text.replace("Gres=(null)", "Gres=gpu:3090:4,shard:2K")
    site.text = site.text.replace("Gres=gpu:a100:4", "Gres=gpu:a100:4(S:0-1),lustre:no_consume:4G", 1)
    site.document["nodes"][0]["gres"] = {"gpu": 3090}
    site.document["nodes"][2]["gres"] = None
    site.write()
    nodes = {node.name: node.gres for node in ask("pyslurm").cluster().nodes}
    assert nodes["c1"] == {"gpu": {"3090": 4}, "shard": {"": 2048}}
    assert nodes["n1"] == {"gpu": {"a100": 4}, "lustre": {"": 4 * 1024**3}}


def test_without_scontrol_pyslurm_tells_what_it_can(site, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "scontrol").unlink()
    found = ask("pyslurm").cluster()
    assert [plain(node) for node in found.nodes] == [plain(node) for node in recorded("24.11").nodes]
    assert (found.associations, found.qos) == (None, None)
    assert "no scontrol on PATH" in found.notes[0]
    site.document["nodes"][2]["gres"] = None
    (tmp_path / "document.json").write_text(json.dumps(site.document))
    with pytest.raises(UnavailableError, match="pyslurm cannot read the gres of node n1; `--source scontrol`"):
        ask("pyslurm").cluster()


@pytest.mark.parametrize(
    "text",
    ["", "No associations\n", "scontrol: show node\nNodeName=n1 CPUTot=1 RealMemory=1 State=IDLE\n"],
)
def test_half_an_answer_of_scontrol_is_none(site, text):
    site.text = text
    site.write()
    with pytest.raises(UnavailableError, match="pyslurm answered, but scontrol beside it did not"):
        ask("pyslurm").cluster()


def test_a_user_without_an_association(site):
    site.text = "\n".join(line for line in site.text.splitlines() if "UserName=alice" not in line)
    site.write()
    assert ask("pyslurm").cluster().associations == []


# what pyslurm does at import, and the words of the error
DEATHS = [
    ("import os, sys; print('fatal: no slurm.conf', file=sys.stderr); os._exit(1)",
     "pyslurm ended its process with status 1: fatal: no slurm.conf"),
    ("import os; os._exit(0)", "pyslurm ended its process with status 0: it said nothing"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "pyslurm was ended by SIGSEGV: it said nothing"),
    ("raise ImportError('libslurm.so.44: cannot open shared object file')", "pyslurm: ImportError: libslurm.so.44: "),
    ("raise SystemExit('no')", "pyslurm ended its process with status 1: no"),
    ("class Odd(Exception): pass\nraise Odd('Zero Bytes were transmitted or received')", "pyslurm: Odd: Zero Bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "words"), DEATHS)
def test_the_end_of_pyslurm_is_not_ours(site, code, words):
    site.does(code)
    with pytest.raises(UnavailableError) as caught:
        ask("pyslurm").cluster()
    assert words in str(caught.value)
    assert "`--source scontrol` does without pyslurm" in str(caught.value)
    found = ask().cluster()  # nobody asked for pyslurm by name
    assert found.source == "scontrol"
    assert words in found.notes[-1]
    assert found.notes[-1].endswith("scontrol was asked instead")
    assert plain(found.nodes) == plain(recorded("24.11").nodes)


def test_a_pyslurm_of_another_release_lacks_names(site):
    site.then("del Reservations")
    with pytest.raises(UnavailableError, match="pyslurm: AttributeError: module 'pyslurm' has no .*Reservations"):
        ask("pyslurm").cluster()


def test_slurmctld_that_goes_away_in_between(site):
    site.then("def _gone(): raise RPCError('Unable to contact slurm controller')\nslurmctld.Config.load = _gone")
    with pytest.raises(UnavailableError, match="pyslurm: RPCError: Unable to contact slurm controller"):
        ask("pyslurm").cluster()


def test_a_hang_is_bounded(site, monkeypatch):
    monkeypatch.setenv(slurm.TIMEOUT_VARIABLE, "1")
    site.does("import time; time.sleep(1000)")
    started = time.monotonic()
    with pytest.raises(UnavailableError, match="`pyslurm` did not answer within 1 s; is slurmctld up"):
        ask("pyslurm").cluster()
    assert time.monotonic() - started < 15


def test_a_scontrol_that_hangs_beside_it_is_bounded(site, monkeypatch):
    site.scontrol("exec sleep 1000")
    monkeypatch.setenv(slurm.TIMEOUT_VARIABLE, "2")
    with pytest.raises(UnavailableError, match="`scontrol --oneliner --all` did not answer within 2 s"):
        ask("pyslurm").cluster()


def test_an_endless_output_is_bounded(site, monkeypatch):
    monkeypatch.setattr(slurm, "MAX_OUTPUT_BYTES", 1 << 20)
    site.does("import os\nwhile True: os.write(2, b'x' * 65536)")
    with pytest.raises(UnavailableError, match="pyslurm wrote more than 1 MiB"):
        ask("pyslurm").cluster()


def test_what_pyslurm_prints_is_no_part_of_the_answer(site):
    """It has a print statement left in it, and C code writes past Python's streams."""
    site.does("import os; print('gres', None); os.write(1, b'error: something\\n')")
    assert ask("pyslurm").cluster().source == "pyslurm"


def test_odd_names(site):
    odd = "ü ',\"\\ \x7f \ud800 💥"
    site.document["nodes"][0] |= {"available_features": [odd, ""]}
    site.document["partitions"][1]["name"] = odd
    site.write()
    found = ask("pyslurm").cluster()
    assert found.nodes[0].features == {odd}
    assert found.partitions[odd].name == odd


def test_a_large_cluster(site):
    node = site.document["nodes"][2]
    site.document["nodes"] = [node | {"name": f"n{number}"} for number in range(5000)]
    (line,) = [line for line in site.text.splitlines() if line.startswith("NodeName=n1 ")]
    lines = "\n".join(line.replace("NodeName=n1 ", f"NodeName=n{number} ", 1) for number in range(5000))
    site.text = site.text.replace(line, lines)
    site.write()
    assert len(ask("pyslurm").cluster().nodes) == 5000


def test_a_module_in_the_current_folder_is_not_loaded(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('wrong json')")
    assert ask("pyslurm").cluster().source == "pyslurm"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("UNLIMITED"),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(), some, max_size=3),
    max_leaves=5,
)


@given(data=st.data(), value=VALUES)
def test_whatever_pyslurm_tells_is_read_or_refused(data, value):
    """One value of the document is something else."""
    document = json.loads(DOCUMENT.read_text())
    part = document[data.draw(st.sampled_from(["partitions", "nodes", "config"]))]
    row = part if isinstance(part, dict) else part[0]
    row[data.draw(st.sampled_from(sorted(row)))] = value
    source = frompyslurm.PyslurmSource.__new__(frompyslurm.PyslurmSource)
    source._user, source._fallback, source._scontrol, source._no_scontrol = "alice", None, None, "no scontrol"
    source._child = Answered(json.dumps(document))
    with contextlib.suppress(UnavailableError):  # any other error fails the test
        source.cluster()


@given(text=st.text())
def test_garbage_is_refused(text):
    with pytest.raises(UnavailableError, match="pyslurm"):
        frompyslurm._document(slurm.Answer(text, "", 0))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "1" * 5000, '{"format": 1}', "null", '{"format": "slurmgpu-pyslurm-1"']
)
def test_garbage_with_a_form_is_refused(text):
    with pytest.raises(UnavailableError, match="pyslurm told what cannot be read"):
        frompyslurm._document(slurm.Answer(text, "", 0))


class Answered:
    """A child that has ended."""

    def __init__(self, output):
        self._output = output

    def answer(self):
        return slurm.Answer(self._output, "", 0)

    def end(self):
        pass


def test_pyslurm_is_found_without_being_loaded(site, tmp_path):
    assert frompyslurm.is_possible()
    code = (
        "import sys; from slurmgpu.experiment import frompyslurm; "
        "print(frompyslurm.is_possible(), 'pyslurm' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout
    assert said == "True False\n"


def test_a_folder_of_that_name_is_no_pyslurm(tmp_path, monkeypatch):
    (tmp_path / "pyslurm").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert not frompyslurm.is_possible()


def test_ending_early_leaves_nothing(site, tmp_path):
    site.does(f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(1000)")
    source = ask("pyslurm")
    for _ in range(300):
        if (tmp_path / "pid").exists() and (pid := (tmp_path / "pid").read_text()):
            break
        time.sleep(0.1)
    source.end()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_the_text_source_leaves_out_no_enforcement():
    text = (RECORDED / "scontrol-24.11.txt").read_text().replace("= associations,limits,qos", "= none")
    assert scontrol.parse(text, "", "alice").enforce == frozenset()

"""The job's name, folder and log files: absolute, by Slurm's patterns, right for arrays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmgpu.experiment.paths import Place, paths
from slurmgpu.experiment.spec import Spec

PLACE = Place("/home/alice/exp", {"HOME": "/home/alice", "SCRATCH": "/scratch/alice", "EMPTY": "", "N": "7"})


def made(place=PLACE, source="exp.yaml", **values):
    """The paths of a spec; nothing may be refused."""
    refused = []
    found = paths(Spec(command=["x"], **values), source, place, lambda key, message: refused.append((key, message)))
    assert refused == []
    return found


def refusal(place=PLACE, **values):
    refused = []
    paths(Spec(command=["x"], **values), "exp.yaml", place, lambda key, message: refused.append((key, message)))
    assert len(refused) == 1, refused
    return refused[0]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("exp.yaml", "exp"),
        ("dir/exp.v2.yaml", "exp.v2"),
        ("/a/my exp (1).yaml", "my-exp-1"),
        ("stdin", "stdin"),
        ("é.yaml", "job"),
        (".hidden", "job"),
        ("a%j.yaml", "a-j"),
    ],
)
def test_a_job_without_a_name_is_named_after_its_file(source, name):
    assert made(source=source).name == name
    assert made(source=source, name="given").name == "given"


@pytest.mark.parametrize(
    ("chdir", "expected"),
    [
        (None, "/home/alice/exp"),
        ("/data", "/data"),
        ("runs", "/home/alice/exp/runs"),
        (".", "/home/alice/exp"),
        ("../x/", "/home/alice/x"),
        ("~", "/home/alice"),
        ("~/x y", "/home/alice/x y"),
        ("$SCRATCH/x", "/scratch/alice/x"),
        ("${SCRATCH}x", "/scratch/alicex"),
        ("run$N", "/home/alice/exp/run7"),
        ("a$$b", "/home/alice/exp/a$b"),
        ("$$SCRATCH", "/home/alice/exp/$SCRATCH"),
        ("a~b", "/home/alice/exp/a~b"),
        ("$EMPTY/x", "/x"),
    ],
)
def test_chdir(chdir, expected):
    assert made(chdir=chdir).chdir == expected


@pytest.mark.parametrize(
    ("values", "output"),
    [
        ({}, "/home/alice/exp/%x-%j.out"),
        ({"array": "0-3"}, "/home/alice/exp/%x-%A_%a.out"),
        ({"output": "logs/%x-%j.out"}, "/home/alice/exp/logs/%x-%j.out"),
        ({"output": "~/l/%j"}, "/home/alice/l/%j"),
        ({"output": "$SCRATCH/%j.log"}, "/scratch/alice/%j.log"),
        ({"output": "runs with spaces/%j.log"}, "/home/alice/exp/runs with spaces/%j.log"),
        ({"output": "/l/%4j"}, "/l/%4j"),
        ({"output": "/l/%%j-%j"}, "/l/%%j-%j"),
        ({"output": "l/%j", "chdir": "/data"}, "/data/l/%j"),
        # an array's tasks have unrelated job ids; %a outside an array is 4294967294
        ({"output": "/l/%j.out", "array": "0-3"}, "/l/%A_%a.out"),
        ({"output": "/l/%%j-%j.out", "array": "0-3"}, "/l/%%j-%A_%a.out"),
        ({"output": "/l/%j_%a.out", "array": "0-3"}, "/l/%j_%a.out"),
        ({"output": "/l/%A/%a.out", "array": "0-3"}, "/l/%A/%a.out"),
        ({"output": "/l/%%a-%j", "array": "0-3"}, "/l/%%a-%A_%a"),
        ({"output": "/l/%A_%a.out"}, "/l/%j.out"),
        ({"output": "/l/%%%A_%a.out"}, "/l/%%%j.out"),
        ({"output": "/l/%%a-%j"}, "/l/%%a-%j"),
    ],
)
def test_output(values, output):
    assert made(**values).output == output


def test_a_percent_sign_in_the_folder_is_no_pattern():
    place = Place("/data/50%j", {"HOME": "/h"})
    found = made(place)
    assert found.chdir == "/data/50%j"
    assert found.output == "/data/50%%j/%x-%j.out"


def test_error_goes_the_same_way_and_is_none_by_default():
    assert made().error is None
    found = made(error="e/%j.err", array="1,2")
    assert found.error == "/home/alice/exp/e/%A_%a.err"


@pytest.mark.parametrize(
    ("values", "key", "words"),
    [
        ({"output": "a\\b-%j"}, "output", "holds a backslash, with which Slurm turns its patterns off; leave it out"),
        ({"output": "logs/"}, "output", "names a folder; add a file name such as %x-%j.out"),
        ({"output": "%j-%q.out"}, "output", "holds %q, which is no pattern of Slurm's; write %% for a percent sign"),
        ({"output": "%j-50%"}, "output", "write %% for a percent sign"),
        ({"output": "%j-50% off"}, "output", "holds % , which is no pattern"),
        ({"error": "%j-%Q"}, "error", "holds %Q, which is no pattern"),
        ({"output": "log-%a.out"}, "output", "holds %a, which outside an array is 4294967294; write %j"),
        (
            {"output": "$NOPE/%j"},
            "output",
            "names $NOPE, which is not set here; set it, or write $$ for a dollar sign",
        ),
        ({"chdir": "${NOPE}"}, "chdir", "names $NOPE, which is not set here"),
        ({"chdir": "~bob/x"}, "chdir", "starts with ~USER, which is not expanded; write the path in full"),
        (
            {"output": "x" * 250 + "%j"},
            "output",
            "longer than the 255 bytes that a file system takes; shorten `name`",
        ),
        ({"name": "n" * 250}, "output", "longer than the 255 bytes"),
        ({"name": "é" * 120}, "output", "longer than the 255 bytes"),
    ],
)
def test_refused(values, key, words):
    got_key, message = refusal(**values)
    assert got_key == key
    assert words in message


def test_tilde_without_home_is_refused():
    assert refusal(Place("/x", {}), chdir="~/a") == (
        "chdir",
        "starts with ~, but HOME is not set here; write the path in full",
    )


@pytest.mark.parametrize(
    ("values", "notes"),
    [
        ({}, []),
        ({"array": "0-3"}, []),
        ({"output": "/l/train.log"}, ["`output` has no %j: every run writes to the same file"]),
        ({"output": "/l/%%j.log"}, ["`output` has no %j: every run writes to the same file"]),
        ({"output": "/l/%j-%N.log"}, []),
        ({"output": "/l/%j-%t.log"}, ["`output` has %t, which tells steps apart; the whole job has one log"]),
        (
            {"output": "/l/%j.log", "array": "0-3"},
            ["`output`: %j became %A_%a, so that an array's logs stand together"],
        ),
        ({"output": "/l/%A_%a.log"}, ["`output`: %A_%a became %j, because this is no array"]),
    ],
)
def test_notes(values, notes):
    assert made(**values).notes == notes


def test_log_folders_are_those_without_a_pattern():
    assert made().log_folders() == ["/home/alice/exp"]
    assert made(output="/a/%j", error="/b/%j").log_folders() == ["/a", "/b"]
    assert made(output="/a/%j", error="/a/%j.err").log_folders() == ["/a"]
    assert made(output="/a/%x/%j").log_folders() == []


# one Slurm pattern after another, without the letters that mean an array
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["%%", "%j", "%x", "%u", "%N", "%4j", "a", "j", " ", "-", "_%%"]), min_size=1, max_size=8
    )
)
def test_patterns_are_kept_as_written_outside_arrays(pieces):
    text = "".join(pieces).strip() or "%j"
    assert made(output=f"/l/{text}").output == f"/l/{text}"


# --- what went wrong once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["/l/log-%4a.out", "/l/%j-%2a.out"])
def test_a_padded_array_index_outside_an_array_is_refused(output):
    assert "which outside an array is 4294967294" in refusal(output=output)[1]


def test_an_array_whose_tasks_write_to_one_file_is_noted():
    assert made(output="/l/%A.out", array="0-3").notes


def test_a_percent_sign_in_a_variable_is_no_pattern():
    place = Place("/x", {"HOME": "/home/a%j", "SCRATCH": "/s/50%j"})
    assert made(place, output="$SCRATCH/%j.out").output == "/s/50%%j/%j.out"
    assert made(place, output="~/%j.out").output == "/home/a%%j/%j.out"


def test_a_backslash_in_the_folder_turns_patterns_off_and_is_refused():
    assert "backslash" in refusal(Place("/data/a\\b", {}))[1]

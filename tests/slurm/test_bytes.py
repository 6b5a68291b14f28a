"""Bytes on a real Slurm: what a spec says arrives at the program, and our header rules are sbatch's own."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmgpu.errors import InputError
from slurmgpu.experiment.header import read_header
from tests.rendering import text
from tests.slurm.jobs import finish

DUMP = """import json, os, sys
names = ("VALUE", "SLURM_JOB_NAME")
seen = {"argv": sys.argv[1:], **{name: os.environ.get(name) for name in names}}
json.dump(seen, open("seen.json", "w"))  # ASCII, lone bytes as surrogates
"""
TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=40)
LINE = st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="/"), min_size=1, max_size=40)
HOSTILE = 'it\'s "a" \\b $(id) `id` ${HOME} {{ 7 }} #SBATCH ünï\U0001f600 ;|&><*?~!%'


def arrives(cluster, values, variable, name, output):
    home = cluster.home("alice")
    (home / "dump.py").write_text(DUMP)
    (home / "seen.json").unlink(missing_ok=True)
    spec = {"command": ["python3", "dump.py", *values], "launcher": "srun", "env": {"VALUE": variable}}
    spec |= {"name": name, "output": f"{output}-%j.log", "mem": "100M", "time": "5m", "cpus_per_task": 1}
    record, log = finish(cluster, spec)
    assert record["JobState"] == "COMPLETED", (record, log)
    seen = json.loads((home / "seen.json").read_text())
    assert seen == {"argv": values, "VALUE": variable, "SLURM_JOB_NAME": name}
    return home, record


def test_hostile_text_arrives_through_slurm(cluster):
    home, record = arrives(cluster, [HOSTILE, "a\r\nb", "", "x" * 4096], HOSTILE + "\n#SBATCH --x", HOSTILE, "log")
    assert (home / f"log-{record['JobId']}.log").exists()


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    database=None,
)
@given(values=st.lists(TEXT, max_size=4), variable=TEXT, name=LINE, output=LINE)
def test_any_text_arrives_through_slurm_or_is_refused(cluster, values, variable, name, output):
    spec = {"command": ["python3", *values], "name": name, "output": f"{output}-%j.log"}
    try:
        text(spec)
    except InputError:
        # a pattern of Slurm's, a variable or a backslash in the file's name: tried again without
        output = "".join(char for char in output if char.isalnum()) or "log"
    _, record = arrives(cluster, values, variable, name.strip() or "job", output)
    assert record["StdOut"].endswith(f"-{record['JobId']}.log")


RAW = [
    "--comment=plain",
    "--comment='single quoted'",
    '--comment="double quoted"',
    "--comment='a\\b'",
    '--comment="a\\"b"',
    "--comment=a\\\\b",
    "--comment=a#b --nice=7",
    '--comment="a#b" --nice=7',
    "--comment=a\\#b",
    "--comment=a'b c'd",
    "  --comment=spaces   --nice=7  ",
    "\t--comment=tab",
    "--comment=$HOME",
    '--comment="it\'s"',
    "--comment=x '' --nice=7",
]


@pytest.mark.parametrize("raw", RAW)
def test_our_header_rules_are_those_of_sbatch(cluster, raw):
    comments = "# SBATCH --nice=1\n #SBATCH --nice=2\n##SBATCH --nice=3\n\n"
    script = f"#!/bin/bash\n#SBATCH --hold --mem=100M\n{comments}#SBATCH {raw}\ntrue\n#SBATCH --nice=9\n"
    options = dict(
        argument.removeprefix("--").partition("=")[::2] for line in read_header(script) for argument in line.arguments
    )
    job_id = cluster.sbatch(script)
    seen = cluster.run(["squeue", "-h", "-j", str(job_id), "-o", "%k"]).stdout.rstrip("\n")
    nice = cluster.job(job_id)["Nice"]
    cluster.run(["scancel", str(job_id)])
    assert seen == options["comment"]
    assert nice == options.get("nice", "0")


@pytest.mark.parametrize("raw", ["--comment='open", '--comment="open', "--comment=x: y word", "bare"])
def test_what_sbatch_refuses_our_rules_do_not_take_for_more(cluster, raw):
    """An open quote is an error for both; a bare word is an argument that is no option."""
    script = f"#!/bin/bash\n#SBATCH {raw}\ntrue\n"
    ended = cluster.run(["sbatch", "--hold"], input=script, check=False)
    assert ended.returncode != 0
    if "open" in raw:
        with pytest.raises(ValueError, match="never closed"):
            read_header(script)
    else:
        assert any(not argument.startswith("--") for line in read_header(script) for argument in line.arguments)


def test_an_escaped_space_outside_quotes_is_kept_since_24_05(cluster):
    script = "#!/bin/bash\n#SBATCH --hold --mem=100M\n#SBATCH --comment=a\\ b\ntrue\n"
    assert read_header(script)[1].arguments == ["--comment=a b"]
    ended = cluster.run(["sbatch", "--parsable"], input=script, check=False)
    if tuple(map(int, cluster.version.split("."))) < (24, 5):
        assert "Invalid directive found in batch script: b" in ended.stderr
        return
    job_id = ended.stdout.strip()
    assert cluster.run(["squeue", "-h", "-j", job_id, "-o", "%k"]).stdout == "a b\n"
    cluster.run(["scancel", job_id])

"""lint's rules about headers: for each a script that breaks it, where it points to, and a twin that does not."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurmgpu.experiment import command
from slurmgpu.experiment.finding import Rule
from slurmgpu.experiment.lint import RULES, lint
from tests.experiment.test_bytes import PROPERTY
from tests.rendering import ENVIRON, FOLDER

ROOT = Path(__file__).parent.parent.parent

# nothing to say about this one
GOOD = "#!/bin/bash\n#SBATCH --time=12:00:00\n#SBATCH --mem=8G\n"


def header(*lines, body="srun python train.py\n"):
    return GOOD + "".join(f"#SBATCH {line}\n" for line in lines) + body


def timed(value):
    return header("").replace("12:00:00", value)


def mem(*options):
    return GOOD.replace("--mem=8G", " ".join(options)) + "srun python train.py\n"


def found(text, folder="/"):
    """The codes; the columns are those of characters of the script."""
    findings = lint(text, folder)
    lines = text.split("\n")
    for finding in findings:
        assert finding.message
        assert finding.fix
        assert 1 <= finding.line <= len(lines)
        assert 1 <= finding.column <= len(lines[finding.line - 1]) + 1
    return findings


# code, the script, what stands where the finding points to, a word of the message, the twin without the fault
ROWS = [
    # the header as text
    ("SG101", GOOD + "cd x\n#SBATCH --nodes=2\n", "#SBATCH --nodes=2", "'cd x', line 4", header("--nodes=2")),
    ("SG101", GOOD + "set -e # x\n\n#SBATCH -N2\n", "#SBATCH -N2", "line 4", header("-N2")),
    ("SG102", GOOD + "  #SBATCH --nodes=2\n:\n", "  #SBATCH", "is a comment", header("--nodes=2")),
    ("SG102", GOOD + "\t#SBATCH --nodes=2\n:\n", "\t#SBATCH", "is a comment", header("--nodes=2")),
    ("SG103", GOOD + "# SBATCH --nodes=2\n:\n", "# SBATCH", "is a comment", GOOD + "# SBATCH is read by sbatch\n:\n"),
    ("SG103", GOOD + "#  SBATCH -N2\n:\n", "#  SBATCH", "is a comment", header("-N2")),
    ("SG104", GOOD + "#sbatch --nodes=2\n:\n", "#sbatch", "`#sbatch`", GOOD + "#sbatch reads what follows\n:\n"),
    ("SG104", GOOD + "# Sbatch --nodes=2\n:\n", "# Sbatch", "`# Sbatch`", header("--nodes=2")),
    ("SG105", GOOD + "##SBATCH --nodes=2\n:\n", "##SBATCH", "is a comment", header("--nodes=2")),
    ("SG106", GOOD + "#SBATCHES of 64\n:\n", "#SBATCHES", "'#SBATCHES'", GOOD + "# SBATCHES of 64\n:\n"),
    ("SG106", GOOD + "#SBATCH: two nodes\n:\n", "#SBATCH:", "'#SBATCH:'", GOOD + "# two nodes\n:\n"),
    ("SG107", header("--job-name=exp#1"), "#1", "'#1'", header('--job-name="exp#1"')),
    ("SG107", header("--job-name=exp#1 --nodes=2"), "#1 --nodes=2", "'#1 --nodes=2'", header("--job-name='exp#1'")),
    ("SG107", header("--nodes=2 # --exclusive"), "# --exclusive", "own", header("--nodes=2 # two of them")),
    ("SG108", header("--comment='x"), "#SBATCH --comment", "quote", header("--comment='x'")),
    ("SG109", header("train on two"), "#SBATCH train", "'train' is no option", header("--comment='train on two'")),
    ("SG109", header("-N 2 --mem-per=4"), "#SBATCH -N", "could be", header("-N 2")),
    ("SG109", header("-Z 2"), "#SBATCH -Z", "-Z is no option", header("-N 2")),
    ("SG110", header("--cpu-per-task=4"), "--cpu-per-task", "no option", header("--cpus-per-task=4 -c4")),
    ("SG111", header("--frobnicate=2"), "--frobnicate", "none of sbatch's own", header()),
    ("SG112", header("-N 2", "--qos=a --nodes=3"), "-N 2", "line 5 says --nodes=3", header("-N 2", "--nodes=2")),
    ("SG113", header("--partition="), "--partition=", "has no value", header("--partition=gpu")),
    ("SG114", header("--test-only"), "--test-only", "no job", header()),
    ("SG115", "\n" + GOOD + ":\n", "", "no #! in line 1", GOOD + ":\n"),
    ("SG115", "\ufeff" + GOOD + ":\n", "\ufeff", "byte order mark", GOOD + ":\n"),
    ("SG116", GOOD + "echo x\r\n", "\r", "sed -i", GOOD + "echo x\n"),
    ("SG116", GOOD + "echo \0\n", "\0", "NUL", GOOD + "echo\n"),
    ("SG117", GOOD + "#SBATCH packjob\n#SBATCH --mem=1G\n:\n", "#SBATCH packjob", "20.02",
     GOOD + "#SBATCH hetjob\n#SBATCH --mem=1G\n:\n"),
    ("SG118", header("--container-image=x"), "--container-image", "no srun",
     header(body="srun --container-image=x y\n")),
    # time and memory
    ("SG120", timed("24"), "--time=24", "24 minutes", timed("23")),
    ("SG120", timed("72"), "--time=72", "01:12:00", timed("72:00:00")),
    ("SG120", timed("24:00"), "--time=24:00", "24 minutes", timed("24:00:00")),
    ("SG120", timed("8:00"), "--time=8:00", "8 minutes", timed("00:08:00")),
    ("SG120", GOOD.replace("--time=12:00:00", "-t 48") + ":\n", "-t 48", "48 minutes", header("-t 12:00:00")),
    ("SG121", timed("4:30"), "--time=4:30", "4 minutes and 30 seconds", timed("4:30:00")),
    ("SG121", timed("1:00"), "--time=1:00", "1 minutes", timed("1:00:00")),
    ("SG122", timed("12h"), "--time=12h", "no time", timed("0-12")),
    ("SG122", timed("1-00:00:00:00"), "--time=1-", "no time", timed("1-00:00:00")),
    ("SG122", timed("2d"), "--time=2d", "no time", timed("2-0")),
    ("SG123", timed("UNLIMITED"), "--time=UNLIMITED", "no limit", timed("7-0")),
    ("SG123", timed("0"), "--time=0", "no limit", timed("1")),
    ("SG124", "#!/bin/bash\n#SBATCH --mem=8G\n:\n", "#SBATCH --mem", "default", GOOD + ":\n"),
    ("SG125", mem("--mem=8G", "--mem-per-gpu=4G"), "--mem-per-gpu", "exclude each other", mem("--mem-per-cpu=4G")),
    ("SG126", mem("--mem=1.5G"), "--mem=1.5G", "no size", mem("--mem=1536M")),
    ("SG126", mem("--mem=64GiB"), "--mem=64GiB", "no size", mem("--mem=64GB")),
    ("SG126", mem("--mem-per-cpu='4 G'"), "--mem-per-cpu", "no size", mem("--mem-per-cpu=4g")),
    ("SG127", mem("--mem=64"), "--mem=64", "64 MiB", mem("--mem=64000")),
    ("SG127", mem("--mem-per-cpu=4"), "--mem-per-cpu=4", "4 MiB", mem("--mem=0")),
    ("SG128", GOOD.replace("--mem=8G", "--gres=gpu:2") + ":\n", "--gres", "default", header("--gres=gpu:2")),
    ("SG128", GOOD.replace("--mem=8G", "-G 2") + ":\n", "-G 2", "default", mem("-G 2 --mem-per-gpu=8G")),
    # GPUs, CPUs, tasks
    ("SG130", header("--nodes=2 --gpus=5"), "--gpus=5", "--gpus-per-node=3", header("--nodes=2 --gpus-per-node=3")),
    ("SG130", header("-N 2", "-G h100:5"), "-G h100:5", "--gpus-per-node=h100:3", header("-N 1", "-G h100:5")),
    ("SG130", header("--nodes=3 --gpus=2"), "--gpus=2", "refuses", header("--nodes=3 --gpus-per-node=1")),
    ("SG131", header("--nodes=2 --gpus=8"), "--gpus=8", "--gpus-per-node=4", header("--nodes=2 --gpus-per-node=4")),
    ("SG131", header("--nodes=2 --gpus=2"), "--gpus=2", "--gpus-per-node=1", header("--nodes=2 --gpus-per-node=1")),
    ("SG132", header("--gres=gpu:2 --gpus-per-node=2"), "--gpus-per-node", "same",
     header("--gres=nvme:2 --gpus-per-node=2")),
    ("SG133", header("--gres=gpu:3g"), "--gres", "3g.20gb", header("--gres=gpu:3g.20gb:1")),
    ("SG133", header("--gpus-per-node=1g"), "--gpus-per-node", "unit", header("--gres=gpu:1,scratch:100g")),
    ("SG134", header("--ntasks=2 --gpus-per-task=1", body="srun torchrun x.py\n"), "--gpus-per-task", "binds",
     header("--ntasks=2 --gpus-per-task=1")),
    ("SG135", header("--gpus-per-task=1"), "--gpus-per-task", "23.11", header("--gpus-per-task=1 -n 4")),
    ("SG136", header("--exclusive --mem=0", body="srun torchrun --standalone x.py\n").replace("--mem=8G", "-c 4"),
     "--exclusive", "gets none",
     header("--exclusive --mem=0 --gpus-per-node=4", body="srun torchrun x.py\n").replace("--mem=8G", "-c 4")),
    ("SG137", GOOD.replace("--mem=8G", "--exclusive") + "true\n", "--exclusive", "--mem=0", header("--exclusive")),
    ("SG138", header("--cpus-per-gpu=4 -c 8 --gres=gpu:2"), "--cpus-per-gpu", "exclude each other",
     header("--cpus-per-gpu=4 --gres=gpu:2")),
    ("SG139", header("--gpus=2 --ntasks-per-gpu=1 --ntasks-per-node=2"), "--ntasks-per-gpu", "exclude each other",
     header("--gpus=2 --ntasks-per-gpu=1")),
    # names, logs, variables
    ("SG140", header("--chdir=$HOME/x"), "--chdir", "'$HOME'", header("--chdir=/home/me")),
    ("SG140", header("--job-name=${MODEL}-1"), "--job-name", "'${MODEL}'", header("--job-name=model-1")),
    ("SG140", header("--comment=`date`"), "--comment", "'`date`'", header("--comment='costs 5$'")),
    ("SG140", header("--comment=$(date)"), "--comment", "'$(date)'", header("--comment='~x'")),
    ("SG140", header("-o ~/x.out"), "-o", "'~'", header("-o x.out")),
    ("SG141", header("--output=no/such/%j.out"), "--output", "'no/such'", header("--output=dev/%j.out")),
    ("SG141", header("--chdir=/dev --error=logs/x-%j"), "--error", "'logs'", header("--chdir=/dev --error=shm/x-%j")),
    ("SG142", header("--output=/dev/%x/%j.out"), "--output", "24.11", header("--output=/dev/%x-%j.out")),
    ("SG143", header("--output=%A_%a.out"), "--output", "4294967294", header("--output=%A_%a.out", "--array=0-3")),
    ("SG144", header("--array=0-3 --output=x.out"), "--output", "same", header("--array=0-3 --output=x-%a.out")),
    ("SG144", header("-a 1,2 -e %x"), "-e", "--error", header("-a 1,2 -e %x-%j")),
    ("SG145", header("--output=/tmp/%j.out"), "--output", "/tmp", header("--output=%j.out")),
    ("SG146", header("--requeue"), "--requeue", "append", header("--requeue --open-mode=append")),
    ("SG147", header("--export=NONE"), "--export", "PATH",
     header("--export=NONE", body="export SLURM_EXPORT_ENV=ALL\nsrun x\n")),
    ("SG147", header("--export=HOME,LANG"), "--export", "PATH", header("--export=ALL,LANG=C")),
    ("SG147", header("--export=NONE"), "--export", "PATH", header("--export=NONE", body="python x.py\n")),
    ("SG148", header("--job-name=a/b --output=%x.out"), "--output", "slash",
     header("--job-name=a/b --output=%j.out")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "bad", "at", "word", "good"), ROWS, ids=[f"{row[0]}-{n}" for n, row in enumerate(ROWS)]
)
def test_each_rule_is_told_once_where_it_stands_and_not_of_its_twin(code, bad, at, word, good):
    findings = [finding for finding in found(bad) if not finding.code.startswith("SG2")]
    assert [finding.code for finding in findings] == [code], findings
    (finding,) = findings
    assert bad.split("\n")[finding.line - 1][finding.column - 1 :].startswith(at), finding
    assert word in f"{finding.message}: {finding.fix}"
    assert [finding for finding in found(good) if not finding.code.startswith("SG2")] == []


def test_every_rule_about_the_header_has_a_row():
    codes = {code for code in RULES if code.startswith("SG1")}
    assert codes == {row[0] for row in ROWS}


def test_every_rule_says_what_happens():
    for code, rule in RULES.items():
        assert isinstance(rule, Rule)
        assert re.fullmatch(r"SG\d{3}", code)
        assert len(rule.title) <= 40
        assert rule.why.endswith(".")


def test_a_folder_is_looked_for_where_sbatch_is_called(tmp_path):
    script = header("--output=logs/%j.out")
    (finding,) = found(script, str(tmp_path))
    assert (finding.code, finding.fix) == ("SG141", "mkdir -p logs")
    (tmp_path / "logs").mkdir()
    assert found(script, str(tmp_path)) == []


@pytest.mark.parametrize(
    "lines",
    [
        "#SBATCH --time=24  # slurmgpu: ignore=SG120\n",
        "# slurmgpu: ignore=SG120\n#SBATCH --time=24\n",
        "#slurmgpu:ignore=SG101, SG120\n#SBATCH --time=24\n",
    ],
)
def test_a_comment_silences_a_rule_in_its_line_and_the_next(lines):
    assert found(f"#!/bin/bash\n#SBATCH --mem=8G\n{lines}:\n") == []
    other = lines.replace("SG120", "SG121")
    assert [finding.code for finding in found(f"#!/bin/bash\n#SBATCH --mem=8G\n{other}:\n")] == ["SG120"]
    assert len(found("#!/bin/bash\n#SBATCH --mem=8G\n# slurmgpu: ignore=SG120\n\n#SBATCH --time=24\n:\n")) == 1


def test_the_directives_of_a_script_that_this_one_writes_are_not_its_own():
    script = GOOD + "sbatch <<EOF\n#!/bin/bash\n#SBATCH --time=24\n  #SBATCH --mem=1\nEOF\n"
    assert [finding for finding in found(script) if finding.code.startswith("SG1")] == []
    quoted = script.replace("<<EOF", "<<'EOF'").replace("sbatch <", "sbatch -N1 <")
    assert [finding for finding in found(quoted) if finding.code.startswith("SG1")] == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_nothing_is_found_in_what_slurmgpu_renders(path):
    request = command.Request(str(path), path.read_bytes(), ("force=true",))
    for script in command.render_all(request, FOLDER, ENVIRON, lambda: None):
        assert {finding.code for finding in found(script.text)} <= {"SG141"}  # no logs' folder in this test


def test_findings_stand_in_the_order_of_the_lines():
    script = "#!/bin/bash\n#SBATCH --time=24\n# SBATCH -N 2\n#SBATCH --mem=64\ncd x\n#SBATCH -n1\n"
    assert [finding.line for finding in found(script)] == [2, 3, 4, 6]


WORDS = st.lists(
    st.sampled_from(
        [*"#$`'\"\\= \t\r\0-%~é\udcff", "\n", "\n#SBATCH ", "--time=", "--mem=", "--gpus=", "-N", "-a", "%a",
         "24", "gpu:", "<<EOF\n",
         "srun ", "torchrun ", "$(", ")", "{", "}", "|", "&",
         "for x in ", "do ", "done", "slurmgpu: ignore=SG101", "hetjob"]
    ),
    max_size=40,
)  # fmt: skip


@PROPERTY
@given(st.one_of(st.text(max_size=80), WORDS.map("".join), WORDS.map(lambda words: header("".join(words)))))
@example("#!/bin/bash\n#SBATCH --nodes=99999999999999999999999\n")
@example("#SBATCH --gres=gpu:" + "9" * 5000)
@example("#SBATCH --time=" + "9" * 5000)
@example("")
def test_no_text_is_too_odd(text):
    found(text)


def test_the_time_goes_with_the_length():
    """Twice as long must not be four times as slow; a script of 4 MiB takes seconds."""
    row = "#SBATCH --comment='x # y' --nodes=2\nsrun python x.py --lr=$LR | tee a-$(date).log # note\n  #SBATCH -N1\n"

    def took(times):
        started = time.perf_counter()
        lint(GOOD + row * times, "/")
        return time.perf_counter() - started

    took(10)
    few, many = min(took(400) for _ in range(3)), min(took(3200) for _ in range(2))
    assert many < few * 8 * 3

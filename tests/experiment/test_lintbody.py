"""lint's rules about commands: for each, scripts that break it, where it points to, and a twin that does not."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurmgpu.experiment.lint import RULES, lint
from tests.experiment.test_bytes import PROPERTY
from tests.experiment.test_lint import header

SCRIPTS = Path(__file__).parent.parent / "scripts" / "good"
GPUS = "--gpus-per-node=4"
RUN = 'srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python train.py'


def two(body, *options):
    return header("--nodes=2", GPUS, *options, body=body)


def one(body, *options):
    return header(GPUS, *options, body=body)


# code, the script, what stands where the finding points to, a word of the message or the fix, the twin
ROWS = [
    ("SG201", two("srun torchrun --standalone x.py\n", "--ntasks-per-node=4"), "srun", "starts 4 launchers",
     two("srun torchrun --standalone x.py\n", "--ntasks-per-node=1")),
    ("SG201", one("srun --ntasks=8 python -m torch.distributed.run --standalone x.py\n"), "srun", "8 launchers",
     one("srun --ntasks=1 python -m torch.distributed.run --standalone x.py\n")),
    ("SG201", two("srun --ntasks-per-node 2 bash -c 'torchrun --standalone x.py'\n"), "srun", "2 launchers",
     two("srun --ntasks-per-node 4 bash -c 'python x.py'\n")),
    ("SG202", one("srun python x.py\n", "--cpus-per-task=8"), "srun", "22.05 to 23.02",
     one("srun -c 8 python x.py\n", "--cpus-per-task=8")),
    ("SG202", one("srun python x.py\n", "-c 8"), "srun", "22.05 to 23.02",
     one("export SRUN_CPUS_PER_TASK=8\nsrun python x.py\n", "-c 8")),
    ("SG203",
     two("srun torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master-port=$P x.py\n"), "$SLURM_NODEID", "same",
     two("srun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master-port=$P x.py'\n")),
    ("SG203", one('srun bash -c "RANK=$SLURM_PROCID python x.py"\n'), "$SLURM_PROCID", "same",
     one('srun bash -c "RANK=\\$SLURM_PROCID python x.py"\n')),
    ("SG203", one("srun bash <<EOF\npython x.py $SLURM_LOCALID\nEOF\n"), "$SLURM_LOCALID", "same",
     one("srun bash <<'EOF'\npython x.py $SLURM_LOCALID\nEOF\n")),
    ("SG203", one("export RANK=$SLURM_PROCID\nsrun python x.py\n"), "$SLURM_PROCID", "which is 0",
     one("export RANK=$SLURM_JOB_ID\nsrun python x.py\n")),
    ("SG204",
     one("srun torchrun --standalone --nproc_per_node=$SLURM_GPUS_PER_NODE x.py\n").replace(GPUS, "--gres=gpu:4"),
     "srun", "holds a type", one("srun torchrun --standalone --nproc_per_node=$SLURM_GPUS_PER_NODE x.py\n")),
    ("SG204", one("torchrun --standalone --nproc-per-node $SLURM_NTASKS_PER_NODE x.py\n"), "torchrun",
     "tasks of Slurm",
     one("torchrun --standalone --nproc-per-node $SLURM_GPUS_ON_NODE x.py\n")),
    ("SG205", one("trap 'touch stop' USR1\nsrun python x.py\n", "--signal=B:USR1@60"), "srun", "only after this",
     one("trap 'touch stop' USR1\nsrun python x.py &\nwait\n", "--signal=B:USR1@60")),
    ("SG205", one("f() { touch stop; }\ntrap f SIGTERM\npython x.py\n", "--signal=B:TERM@60"), "python", "only after",
     one("f() { touch stop; }\ntrap f SIGTERM\n{ python x.py; } &\nwait $!\n", "--signal=B:TERM@60")),
    ("SG206", one("srun python x.py\n", "--signal=B:USR1@60"), "#SBATCH --signal", "has no trap",
     one("exec python x.py\n", "--signal=B:USR1@60")),
    ("SG206", one("trap 'x' TERM\nsrun python x.py & wait\n", "--signal=B:12@60"), "#SBATCH --signal", "no trap",
     one("trap 'x' 12\nsrun python x.py & wait\n", "--signal=B:12@60")),
    ("SG207", one("srun torchrun --standalone x.py\n", "--signal=USR1@60"), "srun", "die of it",
     one("srun python x.py\n", "--signal=USR1@60")),
    ("SG208", two("export MASTER_PORT=29500\nsrun python x.py\n"), "MASTER_PORT", "29500",
     two("export MASTER_PORT=29500\nsrun python x.py\n", "--exclusive --mem=0").replace("--mem=8G", "-c 1")
     .replace("srun", "srun -c 1")),
    ("SG208", one("torchrun --nproc-per-node=4 --master_port=29501 x.py\n"), "torchrun", "29501",
     one("torchrun --nproc-per-node=4 --master_port=$PORT x.py\n")),
    ("SG208", two("srun torchrun --nnodes=2 --rdzv-endpoint=$HEAD:29500 x.py\n"), "srun", "29500",
     two("srun torchrun --nnodes=2 --rdzv-endpoint=$HEAD:$MASTER_PORT x.py\n")),
    ("SG209", one("torchrun --nproc-per-node=4 x.py\n"), "torchrun", "29500",
     one("torchrun --standalone --nproc-per-node=4 x.py\n")),
    ("SG210", two("srun torchrun --nnodes=2 --rdzv_id=101 --rdzv-endpoint=$H:$P x.py\n"), "srun", "'101'",
     two("srun torchrun --nnodes=2 --rdzv_id=$SLURM_JOB_ID --rdzv-endpoint=$H:$P x.py\n")),
    ("SG211", two("export MASTER_PORT=$((30000 + SLURM_JOB_ID % 10000))\nsrun python x.py\n"), "MASTER_PORT", "39999",
     two("export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))\nsrun python x.py\n")),
    ("SG211", two("MASTER_PORT=$((RANDOM % 1000))\nsrun python x.py\n"), "MASTER_PORT", "0 to 999",
     two("MASTER_PORT=$((RANDOM % 1000 + 12000))\nsrun python x.py\n")),
    ("SG212", two("export MASTER_ADDR=localhost\nsrun python x.py\n"), "MASTER_ADDR", "its own head",
     one("export MASTER_ADDR=localhost\nsrun python x.py\n")),
    ("SG212",
     two("MASTER_ADDR=$(scontrol show hostnames | head -n1 || echo localhost)\nsrun python x.py\n"), "MASTER_ADDR",
     "its own head", two("MASTER_ADDR=$(scontrol show hostnames | head -n1)\nsrun python x.py\n")),
    ("SG213", one("srun python x.py 2>&1 | tee log.txt\n"), "srun", "hides",
     one("set -o pipefail\nsrun python x.py 2>&1 | tee log.txt\n")),
    ("SG213", one("python x.py |& tee log.txt\n"), "python", "hides",
     one("set -euo pipefail\npython x.py | tee log.txt\n")),
    ("SG214", one('while read -r a; do\n  srun python x.py "$a"\ndone < list.txt\n'), "srun", "one line",
     one('while read -r a; do\n  srun --input=none python x.py "$a"\ndone < list.txt\n')),
    ("SG214", one('cat list | while IFS= read -r a; do srun x "$a"; done\n'), "srun", "one line",
     one('while read -r a; do srun x "$a" </dev/null; done < list.txt\n')),
    ("SG215", one("srun -n1 python a.py &\nsrun -n1 python b.py &\nwait\n"), "srun -n1 python b.py", "waits until",
     one("srun -n1 --exact python a.py &\nsrun -n1 --exact python b.py &\nwait\n")),
    ("SG215", one("for i in 1 2 3; do\n  srun -n1 python $i.py &\ndone\nwait\n"), "srun", "waits until",
     one("for i in 1 2 3; do\n  srun -n1 python $i.py\ndone\n")),
    ("SG216", one("srun python x.py &\n"), "srun", "nothing waits", one("srun python x.py &\nwait\n")),
    ("SG216", one("python server.py &\npython x.py &\n"), "python x.py", "nothing waits",
     one("python server.py &\npython x.py\n")),
    ("SG217", one("export WANDB_API_KEY=0123456789abcdef0123\nsrun python x.py\n"), "WANDB_API_KEY",
     "keeps and shows",
     one("export WANDB_API_KEY=$(cat ~/.wandb)\nsrun python x.py\n")),
    ("SG217", one("wandb login 0123456789abcdef0123\nsrun python x.py\n"), "0123", "keeps and shows",
     one('wandb login "$KEY"\nexport TOKENIZERS_PARALLELISM=false\nsrun python x.py\n')),
    ("SG217", one("srun python x.py --token hf_abcdefghijklmnopqrstuvwx\n"), "hf_", "looks like a key",
     one("srun python x.py --token-file hf_token\n")),
    ("SG218", one("set -x\nexport HF_TOKEN=$(cat ~/.hf)\nsrun python x.py\n"), "HF_TOKEN", "into the log",
     one("export HF_TOKEN=$(cat ~/.hf)\nsrun python x.py\n")),
    ("SG219", one("set -eu\nmodule load cuda\nsrun python x.py\n"), "module load", "not set",
     one("set -e\nmodule load cuda\nsrun python x.py\n")),
    ("SG220", one("conda activate torch\nsrun python x.py\n"), "conda activate", "shell function",
     one('eval "$(conda shell.bash hook)"\nconda activate torch\nsrun python x.py\n')),
    ("SG220", one("module load conda\nconda activate torch\nsrun python x.py\n"), "conda activate", "shell function",
     one("source ~/miniconda3/etc/profile.d/conda.sh\nconda activate torch\nsrun python x.py\n")),
    ("SG221", one("export CUDA_VISIBLE_DEVICES=0,1,2,3\nsrun python x.py\n"), "CUDA_VISIBLE_DEVICES", "overwrites",
     one("srun bash -c 'CUDA_VISIBLE_DEVICES=$SLURM_LOCALID python x.py'\n")),
    ("SG222", one("srun python x.py\necho done\n"), "echo", "COMPLETED",
     one("set -e\nsrun python x.py\necho done\n")),
    ("SG222", one("python x.py\ndate\n"), "date", "COMPLETED", one("python x.py\ncode=$?\ndate\nexit $code\n")),
    ("SG223", one("if true; then\n  srun python x.py\n"), "", "cannot read",
     one("if true; then\n  srun python x.py\nfi\n")),
    ("SG223", one("srun python x.py 'a\n"), "", "cannot read", one("srun python x.py 'a'\n")),
    ("SG225", two("H=$(echo $SLURM_JOB_NODELIST | cut -d, -f1)\nsrun python x.py\n"), "$SLURM_JOB_NODELIST",
     "compressed",
     two('H=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)\nsrun python x.py\n')),
    ("SG225", two("H=${SLURM_NODELIST%%,*}\nsrun python x.py\n"), "${SLURM_NODELIST", "compressed",
     two("H=${SLURM_NODELIST:-x}\nsrun python x.py\n")),
    ("SG226", one('cd "$(dirname "$0")"\nsrun python x.py\n'), "$0", "copy",
     one('cd "$SLURM_SUBMIT_DIR"\nsrun python x.py\n')),
    ("SG226", one('D=$(dirname "${BASH_SOURCE[0]}")\nsrun python x.py\n'), "${BASH_SOURCE", "copy",
     one('D=$(dirname "$FILE")\nsrun python x.py\n')),
    ("SG227", two("torchrun --nnodes=2 --master-port=$P x.py\n"), "torchrun", "first of 2 nodes",
     two("srun torchrun --nnodes=2 --master-port=$P x.py\n")),
    ("SG230", one("srun apptainer exec image.sif python x.py\n"), "srun", "--nv",
     one("srun apptainer exec --nv image.sif python x.py\n")),
    ("SG230", one("singularity run -B /data image.sif\n"), "singularity", "--nv",
     header(body="singularity run -B /data image.sif\n")),
]  # fmt: skip


def codes(text):
    return [finding.code for finding in lint(text, "/")]


@pytest.mark.parametrize(
    ("code", "bad", "at", "word", "good"), ROWS, ids=[f"{row[0]}-{n}" for n, row in enumerate(ROWS)]
)
def test_each_rule_is_told_once_where_it_stands_and_not_of_its_twin(code, bad, at, word, good):
    findings = lint(bad, "/")
    assert [finding.code for finding in findings] == [code], findings
    (finding,) = findings
    assert bad.split("\n")[finding.line - 1][finding.column - 1 :].startswith(at), finding
    assert word in f"{finding.message}: {finding.fix}"
    assert lint(good, "/") == []


def test_every_rule_about_commands_has_a_row():
    assert {code for code in RULES if code.startswith("SG2")} == {row[0] for row in ROWS}


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.sh")), ids=lambda path: path.stem)
def test_nothing_is_found_in_good_scripts(path, tmp_path):
    (tmp_path / "logs").mkdir()
    assert lint(path.read_text(), str(tmp_path)) == []


def test_there_are_good_scripts_of_many_kinds():
    assert len(list(SCRIPTS.glob("*.sh"))) >= 12


@pytest.mark.parametrize("first", ["#!/usr/bin/env python3", "#!/usr/bin/python3", "#!/usr/bin/perl"])
def test_another_interpreter_s_script_has_no_commands_of_bash(first):
    script = one("srun python x.py |\nif (\n").replace("#!/bin/bash", first)
    assert codes(script) == []
    assert "SG223" in codes(script.replace(first, "#!/usr/bin/env bash"))


WORDS = st.lists(
    st.sampled_from(
        ["srun ", "torchrun ", "-n", "--nnodes=2 ", "$SLURM_PROCID", "$(", ")", "((", "))", "{", "}", "${",
     "|", "&", "&&", ";",
         ";;", "\n", " ", "'", '"', "`", "\\", "#", "<<EOF\n", "EOF\n", "<(", "for x in ", "do ", "done",
     "while read ", "if ",
         "then ", "fi", "case x in ", "esac", "f() ", "MASTER_PORT=", "29500", "export ", "trap ", "set -x",
     "[[ ", " ]]", "%",
         "wait", "conda activate x", "=(", "$'", "$\"", "!", "é", "\udcff", "\0"]
    ),
    max_size=50,
)  # fmt: skip


@PROPERTY
@given(WORDS.map("".join))
@example("$(" * 2000)
@example("`" * 2001 + "\\")
@example("((" * 500 + "{" * 500)
@example("x <<A <<B\n")
def test_no_script_is_too_odd(text):
    for finding in lint(one(text), "/"):
        assert finding.message
        assert finding.fix

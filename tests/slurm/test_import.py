"""A script by hand, and the same through import and render, on a real Slurm: the same job, the same log."""

from pathlib import Path

import pytest

from tests.slurm.jobs import SLURMGPU

FIELDS = ("JobName", "NumNodes", "NumTasks", "CPUs/Task", "TimeLimit", "MinMemoryNode", "MinMemoryCPU",
          "TresPerNode",
          "Partition",
          "Account", "QOS", "Comment", "WorkDir", "StdOut", "JobState", "ExitCode", "ReqTRES")  # fmt: skip
SCRIPTS = {
    "lines": """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2
#SBATCH --gres=gpu:2
#SBATCH --mem=200M
#SBATCH -t 7 -o lines-%j.out --comment="two # nodes"
false
for word in a "b c"; do
  srun bash -c 'echo $SLURM_PROCID "$0" gpus=$SLURM_GPUS_ON_NODE' "$word" | sort
done
exit 4
""",
    "ranks": """#!/bin/bash
#SBATCH -J ranks -N 2 -n 4 -c 1 --gpus-per-node=2 --mem=200M --time=00:05:00
#SBATCH --output=ranks-%j.out
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR=$head MASTER_PORT=29500
export SEED=3
srun python3 -c 'import os; print(os.environ["SLURM_PROCID"], os.environ["MASTER_ADDR"], os.environ["SEED"])'
""",
    "array": """#!/bin/bash
#SBATCH --array=1-3 --mem=100M --partition=short --time=3 -o array-%A_%a.out
export A='$x "y"'
python3 -c 'import os; print(os.environ["A"], os.environ["SLURM_ARRAY_TASK_ID"])'
""",
    "one": """#!/bin/bash
#SBATCH --gres=gpu:a100:1 --cpus-per-task=2 --mem-per-cpu=100M --time=0-00:04 --qos=normal
module() { echo "module $*"; }
module load cuda
python3 -c 'print("done")'
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_job(cluster, name):
    home = cluster.home("alice")
    (home / f"{name}.sh").write_text(SCRIPTS[name])
    (home / f"{name}.sh").chmod(0o644)
    ways = {
        "by hand": f"sbatch --parsable {name}.sh",
        "imported": f"set -o pipefail; {SLURMGPU} import {name}.sh | {SLURMGPU} render - | sbatch --parsable",
    }
    jobs = {}
    for way, line in ways.items():
        number = cluster.run(["bash", "-c", line]).stdout.strip()
        cluster.wait(int(number))
        records = sorted(cluster.jobs(number), key=lambda record: record.get("ArrayTaskId", ""))
        jobs[way] = [
            {field: record.get(field) for field in FIELDS}
            | {"StdOut": Path(record["StdOut"]).name.replace(f"-{number}", "-N")}
            | {
                "log": sorted(
                    line for line in Path(record["StdOut"]).read_text().splitlines() if not line.startswith("srun:")
                )
            }
            for record in records
        ]
    for mine, theirs in zip(jobs["imported"], jobs["by hand"], strict=True):
        assert {field: (mine[field], theirs[field]) for field in mine if mine[field] != theirs[field]} == {}
    assert all(job["log"] for job in jobs["imported"])

"""How each peer turns one DDP job into a batch script, for bench/render.py to time.

Run inside a venv made from peers.txt: the commands are those beside the interpreter, and the peers are
imported only where they are used. `python bench/peers.py` runs everything once and prints the outcome.
"""

import atexit
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

PEERS = Path(__file__).resolve().parent / "peers"
SALVO_SPEC = PEERS / "salvo.yaml"
SALVO_CLUSTER = "narval"  # one of its presets: account and partition are in the spec, so it asks no Slurm
SLURMFORGE_SPEC = PEERS / "slurmforge" / "experiment.yaml"
COMMAND = "torchrun --nnodes=2 --nproc-per-node=4 train.py --epochs 10 --lr 0.001"


def cold_commands() -> dict[str, list[str]]:
    """One process from nothing to the script. slurmforge writes its script below a temporary folder."""
    programs = Path(sys.executable).parent  # not resolved: the venv's own folder
    runs = tempfile.mkdtemp(prefix="slurmforge-")
    atexit.register(shutil.rmtree, runs, ignore_errors=True)
    plan = [str(programs / "sforge"), "plan", "train", "--config", str(SLURMFORGE_SPEC)]
    slurmate = {
        "job-name": "ddp", "account": "lab", "partition": "gpu", "nodes": "2", "ntasks-per-node": "1",
        "gpus-per-node": "4", "cpus": "16", "mem": "128G", "time": "02:00:00", "env-type": "none",
        "command": f"srun {COMMAND}",
    }  # fmt: skip
    return {
        "salvo": [str(programs / "salvo"), "render", str(SALVO_SPEC), "--cluster", SALVO_CLUSTER],
        "slurmforge": [*plan, "--set", f"storage.root={runs}"],
        # the plan as JSON, without the script and without files
        "slurmforge dry run": [*plan, "--dry-run=full"],
        # --force: partition and account are not looked up in a Slurm
        "slurmate": [
            str(programs / "slurmate"),
            "--print",
            "--force",
            *(f"--{name}={value}" for name, value in slurmate.items()),
        ],
        # no command line that renders: the import alone, which every script using it pays
        "submitit import": [sys.executable, "-c", "import submitit"],
    }


def warm_renderers() -> dict[str, Callable[[], str]]:
    """Functions to call again and again: validation of a spec read before, then the script's text."""
    return {
        "salvo": _salvo_renderer(),
        "salvo, public render()": _salvo_public_renderer(),
        "slurmforge": _slurmforge_renderer(),
        "submitit": _submitit_renderer(),
    }


def _salvo_renderer() -> Callable[[], str]:
    from salvo import JobSpec, load_cluster
    from salvo.job.render import render_sbatch

    raw = yaml.safe_load(SALVO_SPEC.read_text(encoding="utf-8"))
    cluster = load_cluster(SALVO_CLUSTER)

    def render() -> str:
        spec = JobSpec.model_validate(raw)
        return render_sbatch(
            spec,
            cluster=cluster,
            account=spec.account,
            partition=spec.partition,
            artifact_dir="<artifact_dir>",
        )

    return render


def _salvo_public_renderer() -> Callable[[], str]:
    """The documented way in, which reads the cluster's YAML at every call."""
    from salvo import JobSpec, render

    raw = yaml.safe_load(SALVO_SPEC.read_text(encoding="utf-8"))
    return lambda: render(JobSpec.model_validate(raw), cluster_id=SALVO_CLUSTER)


def _slurmforge_renderer() -> Callable[[], str]:
    from slurmforge.emit.stage_render import render_stage_group_sbatch
    from slurmforge.orchestration.stage_build import build_train_stage_batch
    from slurmforge.spec import parse_experiment_spec, validate_experiment_spec

    raw = yaml.safe_load(SLURMFORGE_SPEC.read_text(encoding="utf-8"))

    def render() -> str:
        spec = parse_experiment_spec(raw, config_path=SLURMFORGE_SPEC, project_root=SLURMFORGE_SPEC.parent)
        validate_experiment_spec(spec)
        batch = build_train_stage_batch(spec)
        return "".join(render_stage_group_sbatch(batch, group) for group in batch.group_plans)

    return render


def _submitit_renderer() -> Callable[[], str]:
    """Private, but all that there is: submitit renders while it submits. It adds srun itself."""
    from submitit.slurm.slurm import _make_sbatch_string

    return lambda: _make_sbatch_string(
        command=COMMAND,
        folder="logs",
        job_name="ddp",
        partition="gpu",
        account="lab",
        nodes=2,
        ntasks_per_node=1,
        gpus_per_node=4,
        cpus_per_task=16,
        mem="128G",
        time=120,
    )


def main() -> None:
    for name, argv in cold_commands().items():
        run = subprocess.run(argv, capture_output=True, text=True, check=False)
        print(f"cold {name}: exit {run.returncode}, {len(run.stdout)} characters on stdout")
    for name, render in warm_renderers().items():
        text = render()
        print(f"warm {name}: {len(text)} characters, the same again: {render() == text}")


if __name__ == "__main__":
    main()

"""A spec through the whole pipe: `slurmgpu render SPEC | sbatch` as a user of the real cluster."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

SLURMGPU = Path(sys.executable).with_name("slurmgpu")


class Submitted(NamedTuple):
    """A job's id, its scontrol record right after the submission, and what slurmgpu said."""

    id: int
    record: dict[str, str]
    notes: str


def submit(
    cluster: Any,
    spec: dict[str, Any],
    *,
    user: str = "alice",
    sbatch: str = "",
    render: str = "",
    env: dict[str, str] | None = None,
) -> Submitted:
    """Write the spec into the user's home and pipe it; sbatch's and render's further options as text."""
    home = cluster.home(user)
    number = len(list(home.glob("spec-*.yaml")))
    path = home / f"spec-{number}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False, allow_unicode=False))
    path.chmod(0o644)
    pipe = f"set -o pipefail; {SLURMGPU} render {shlex.quote(path.name)} {render} | sbatch --parsable {sbatch}"
    ended = cluster.run(["bash", "-c", pipe], user=user, env=env)
    job_id = int(ended.stdout.strip().split(";")[0])
    return Submitted(job_id, cluster.job(job_id), ended.stderr)


def log(cluster: Any, record: dict[str, str]) -> str:
    """What the job has written, its patterns expanded as scontrol shows them."""
    path = Path(record["StdOut"])
    return path.read_text(errors="surrogateescape") if path.exists() else ""


def finish(cluster: Any, spec: dict[str, Any], **options: Any) -> tuple[dict[str, str], str]:
    """Submit, wait for the end; the record and the log."""
    job = submit(cluster, spec, **options)
    record = cluster.wait(job.id)
    return record, log(cluster, record)


def slurmgpu(
    cluster: Any, *arguments: str, env: dict[str, str] | None = None, timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """A command as alice, whatever its exit status."""
    ended: subprocess.CompletedProcess[str] = cluster.run(
        [SLURMGPU, *arguments], env=env, check=False, timeout=timeout
    )
    return ended


def send(
    cluster: Any, name: str, spec: dict[str, Any], *options: str, env: dict[str, str] | None = None
) -> list[int]:
    """`slurmgpu submit` of a spec under this name in alice's home; the numbers of the jobs."""
    path = cluster.home("alice") / f"{name}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False, allow_unicode=False))
    path.chmod(0o644)
    ended = slurmgpu(cluster, "submit", path.name, *options, env=env)
    assert ended.returncode == 0, ended.stderr
    return [int(line) for line in ended.stdout.splitlines()]

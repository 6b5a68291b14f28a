"""What `check` costs beside `sbatch --test-only` alone, and `probe` of a cluster of 10,000 nodes.

    python bench/check.py [RUNS]     as root, on a machine with Slurm: it starts the test-bed

Prints tables; asserts nothing about time. Commands run in turns, so that a slow moment hits all of them alike.
"""

import json
import shlex
import shutil
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.testbed import Cluster

EXAMPLES = Path(__file__).parent.parent / "examples"
SLURMGPU = Path(sys.executable).with_name("slurmgpu")
NODES = 10_000

# as alice in the cluster: milliseconds of each run, and the peak memory of the last, of every command in turns
MEASURE = """
import json, os, resource, subprocess, sys, time
commands, runs = json.loads(sys.argv[1]), int(sys.argv[2])
found = {name: [] for name in commands}
memory = {}
for _ in range(runs):
    for name, argv in commands.items():
        started = time.perf_counter()
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        found[name].append((time.perf_counter() - started) * 1000)
        memory[name] = usage.ru_maxrss / 1024
print(json.dumps([found, memory]))
"""
# counts the starts of Slurm's commands
COUNTER = """#!/bin/sh
echo {name} >>{log}
exec /usr/bin/{name} "$@"
"""


def measure(cluster: Cluster, folder: Path, commands: dict[str, str], runs: int, path: str = "") -> None:
    """Print a table of the commands; the first one is the measure of the others."""
    argv = {name: shlex.split(text) for name, text in commands.items()}
    env = {"PATH": f"{path}:/usr/bin:/bin" if path else "/usr/bin:/bin"}
    measured = cluster.run(
        [sys.executable, "-c", MEASURE, json.dumps(argv), str(runs)], cwd=folder, env=env, timeout=550
    )
    found, memory = json.loads(measured.stdout)
    base = statistics.median(next(iter(found.values())))
    print(f"| {'command':<58} | median ms (min-max) | of the first | peak MiB |\n| --- | --- | --- | --- |")
    for name, times in found.items():
        middle = statistics.median(times)
        spread = f"{middle:.1f} ({min(times):.1f}-{max(times):.1f})"
        print(f"| {name:<58} | {spread:<19} | {middle / base:<12.1f} | {memory[name]:.0f} |")


def big_answer(small: str) -> str:
    """scontrol's answer with NODES nodes instead of the four of the test-bed."""
    lines = small.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("NodeName=n1 "))
    kept = [line for line in lines if not line.startswith("NodeName=")]
    nodes = [lines[at].replace("n1", f"n{number}") for number in range(NODES)]
    return "\n".join([*kept[: at - 2], *nodes, *kept[at - 2 :], ""])


def main(runs: int) -> None:
    """Start a cluster and print both tables."""
    with Cluster.start() as cluster:
        folder = cluster.home("alice") / "bench"
        programs = folder / "programs"
        cluster.run(["mkdir", "-p", programs, folder / "examples"])
        shutil.copy(EXAMPLES / "ddp.yaml", folder)
        shutil.copy(EXAMPLES / "train_ddp.py", folder / "examples")
        cluster.run(["bash", "-c", f"{SLURMGPU} render ddp.yaml >ddp.sh"], cwd=folder)
        checked = cluster.run([SLURMGPU, "check", "ddp.yaml"], cwd=folder)
        print(checked.stdout.splitlines()[-1], f"(Slurm {cluster.version})\n")
        for name in ("scontrol", "sbatch", "sacctmgr"):
            (programs / name).write_text(COUNTER.format(name=name, log=folder / "log"))
            (programs / name).chmod(0o755)
        cluster.run([SLURMGPU, "check", "ddp.yaml"], cwd=folder, env={"PATH": f"{programs}:/usr/bin:/bin"})
        print("Slurm commands of one check:", ", ".join((folder / "log").read_text().split()), "\n")
        measure(
            cluster,
            folder,
            {
                "sbatch --test-only ddp.sh": "sbatch --test-only ddp.sh",
                "python -I -c pass": f"{sys.executable} -I -c pass",
                "slurmgpu render ddp.yaml": f"{SLURMGPU} render ddp.yaml",
                "slurmgpu check ddp.sh (the rendered script)": f"{SLURMGPU} check ddp.sh",
                "slurmgpu check ddp.yaml": f"{SLURMGPU} check ddp.yaml",
                "slurmgpu check ddp.yaml, with a QOS": f"{SLURMGPU} check ddp.yaml --set qos=high",
            },
            runs,
        )
        questions = (
            "show assoc_mgr users=alice flags=assoc,qos\nshow reservation\nshow node\nshow partition\nshow config\n"
        )
        answer = cluster.run(["scontrol", "--oneliner", "--all"], input=questions).stdout
        (folder / "answer.txt").write_text(big_answer(answer))
        (programs / "scontrol").write_text(f"#!/bin/sh\nexec cat {folder}/answer.txt\n")
        size = (folder / "answer.txt").stat().st_size / 1e6
        print(f"\nA cluster of {NODES} nodes ({size:.1f} MB of scontrol's text):\n")
        measure(
            cluster,
            folder,
            {
                "cat of that text": f"cat {folder}/answer.txt",
                "slurmgpu probe": f"{SLURMGPU} probe --source scontrol",
                "slurmgpu check ddp.yaml": f"{SLURMGPU} check ddp.yaml --source scontrol",
            },
            max(3, runs // 3),
            str(programs),
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)

"""What a render costs, cold and warm, beside the peers, in one run. Prints tables; asserts nothing.

    python3 bench/render.py [--peers VENV] [--runs 15]

VENV is an environment made from bench/peers.txt (default: one is made in a temporary folder). Cold is a whole
process; its unit is the bare interpreter's start, so that machines can be compared. Warm is one core of one
process, after warm-up, validation included.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "ddp.yaml"
WARM_S = 2.0

# runs in the peers' own interpreter and prints JSON
PEER_COLD = """
import json, peers, sys
print(json.dumps(peers.cold_commands()), flush=True)
sys.stdin.read()
"""
PEER_WARM = """
import json, time, peers
def rate(function, seconds):
    for _ in range(3): function()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        function(); count += 1
    return count / (time.perf_counter() - start)
print(json.dumps({name: [rate(function, %f) for _ in range(3)] for name, function in peers.warm_renderers().items()}))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="a virtual environment with the peers")
    parser.add_argument("--runs", type=int, default=15, help="cold processes of each command")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peers = options.peers or make_peers(Path(folder) / "peers")
        cold(peers, options.runs, Path(folder))
        warm(peers)
        growth()


def make_peers(folder: Path) -> Path:
    """A virtual environment from peers.txt."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "-q", "-r", ROOT / "bench/peers.txt"], check=True)
    return folder


def cold(peers: Path, runs: int, home: Path) -> None:
    """Whole processes, taken in turns so that a busy moment hits all alike."""
    python = peers / "bin/python"
    listing = subprocess.Popen(
        [python, "-c", PEER_COLD], cwd=ROOT / "bench", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert listing.stdout is not None
    commands: dict[str, list[str]] = {
        "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
        "slurmgpu render": [str(Path(sys.executable).with_name("slurmgpu")), "render", str(EXAMPLE)],
        "slurmgpu --version": [str(Path(sys.executable).with_name("slurmgpu")), "--version"],
        "libraries alone (click, yaml, jinja2)": [sys.executable, "-I", "-c", "import click, yaml, jinja2"],
        **json.loads(listing.stdout.readline()),
    }
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for run in range(runs + 1):
        for name, argv in commands.items():
            start = time.perf_counter()
            subprocess.run(argv, env=environ, cwd=home, capture_output=True)
            if run:  # the first fills the caches
                times[name].append(time.perf_counter() - start)
    listing.communicate("")
    bare = statistics.median(times["python -I -c pass"])
    print(f"\nCold: whole processes, {runs} runs each, in turns\n")
    print(f"{'':40}{'median ms':>10}{'min':>8}{'max':>8}{'bare starts':>13}")
    for name, taken in sorted(times.items(), key=lambda item: statistics.median(item[1])):
        middle = statistics.median(taken)
        print(f"{name:40}{middle * 1e3:10.1f}{min(taken) * 1e3:8.1f}{max(taken) * 1e3:8.1f}{middle / bare:13.1f}")


def warm(peers: Path) -> None:
    """Scripts a second of one process; three rounds each."""
    rates = {name: [rate(function) for _ in range(3)] for name, function in renderers().items()}
    said = subprocess.run(
        [peers / "bin/python", "-c", PEER_WARM % WARM_S],
        cwd=ROOT / "bench",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rates |= json.loads(said.splitlines()[-1])
    print(f"\nWarm: scripts a second on one core, validation included, three rounds of {WARM_S:g} s\n")
    print(f"{'':40}{'median':>10}{'min':>10}{'max':>10}")
    for name, found in sorted(rates.items(), key=lambda item: -statistics.median(item[1])):
        print(f"{name:40}{statistics.median(found):10.0f}{min(found):10.0f}{max(found):10.0f}")


def renderers() -> dict[str, Callable[[], object]]:
    """Our own: from a spec that was read before, as a sweep does it, and from YAML text."""
    from slurmgpu.experiment import merge, yamltext
    from slurmgpu.experiment.paths import Place
    from slurmgpu.experiment.render import Renderer

    content = EXAMPLE.read_bytes()
    renderer = Renderer()
    place = Place("/home/alice", {"HOME": "/home/alice"})
    read = merge.start(yamltext.load(content, "ddp.yaml"))
    return {
        "slurmgpu": lambda: renderer.render(read, "ddp.yaml", place),
        "slurmgpu, from YAML text": lambda: renderer.render(
            merge.start(yamltext.load(content, "ddp.yaml")), "ddp.yaml", place
        ),
    }


def rate(function: Callable[[], object], seconds: float = WARM_S) -> float:
    """Calls a second."""
    for _ in range(3):
        function()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        function()
        count += 1
    return count / (time.perf_counter() - start)


def growth() -> None:
    """Whether the rate and the memory stay flat from 10 to 10,000 scripts."""
    function = renderers()["slurmgpu"]
    print(f"\nGrowth: one process, one after the other\n\n{'scripts':>10}{'a second':>10}{'peak MiB':>10}")
    for count in (10, 100, 1000, 10_000):
        start = time.perf_counter()
        for _ in range(count):
            function()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{count:10}{count / (time.perf_counter() - start):10.0f}{peak:10.1f}")


if __name__ == "__main__":
    main()

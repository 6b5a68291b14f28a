"""sbatch's long options as data: which value each takes, since which Slurm, and which ones a spec may not set.

Source: sbatch(1) of every release from 21.08 to 26.05, compared option by option.
"""

from typing import NamedTuple

Version = tuple[int, int]


class Option(NamedTuple):
    """One sbatch option. `kind`: text, integer, flag, time, mem, path, pattern (a path with %j and the like), or
    flag-or-text (`--propagate` and `--propagate=NONE`) and flag-or-integer (`--nice` and `--nice=100`).
    """

    kind: str
    since: Version = (21, 8)  # the oldest Slurm whose pages were compared
    until: Version | None = None  # the first Slurm without it
    max_bytes: int = 1023  # slurmctld refuses longer texts (job_mgr.c, _test_strlen)


# Options that a spec key of the same name (with _ for -) hands to sbatch as they are.
OPTIONS: dict[str, Option] = {
    "account": Option("text"),
    "qos": Option("text"),
    "partition": Option("text"),
    "reservation": Option("text"),
    "clusters": Option("text"),
    "cluster-constraint": Option("text"),
    "wckey": Option("text"),
    "time-min": Option("time"),
    "begin": Option("text"),
    "deadline": Option("text"),
    "dependency": Option("text", max_bytes=128 * 1024 - 1),
    "kill-on-invalid-dep": Option("text"),
    "nice": Option("flag-or-integer"),
    "priority": Option("integer"),
    "hold": Option("flag"),
    "prefer": Option("text", since=(22, 5)),
    "batch": Option("text"),
    "exclude": Option("text", max_bytes=64 * 1024 - 1),
    "oversubscribe": Option("flag"),
    "overcommit": Option("flag"),
    "spread-job": Option("flag"),
    "use-min-nodes": Option("flag"),
    "contiguous": Option("flag"),
    "switches": Option("text"),
    "segment": Option("integer", since=(24, 5)),
    "consolidate-segments": Option("flag", since=(25, 11)),
    "spread-segments": Option("flag", since=(25, 11)),
    "network": Option("text"),
    "licenses": Option("text"),
    "mincpus": Option("integer"),
    "tmp": Option("mem"),
    "cores-per-socket": Option("integer"),
    "sockets-per-node": Option("integer"),
    "threads-per-core": Option("integer"),
    "ntasks-per-core": Option("integer"),
    "ntasks-per-socket": Option("integer"),
    "extra-node-info": Option("text"),
    "core-spec": Option("integer"),
    "thread-spec": Option("integer"),
    "hint": Option("text"),
    "distribution": Option("text"),
    "mem-bind": Option("text"),
    "cpu-freq": Option("text"),
    "gpu-freq": Option("text"),
    "gres-flags": Option("text"),
    "tres-per-task": Option("text", since=(23, 2)),
    "tres-bind": Option("text", since=(23, 11)),
    "power": Option("text", until=(24, 5)),
    "acctg-freq": Option("text"),
    "bb": Option("text", max_bytes=8191),
    "bbf": Option("path", max_bytes=4095),
    "comment": Option("text"),
    "extra": Option("text", since=(23, 2)),
    "container-id": Option("text", since=(23, 2)),
    "delay-boot": Option("text"),
    "reboot": Option("flag"),
    "export": Option("text", max_bytes=64 * 1024 - 1),
    "export-file": Option("path", max_bytes=4095),
    "get-user-env": Option("flag-or-text"),
    "ignore-pbs": Option("flag"),
    "input": Option("pattern", max_bytes=4095),
    "mail-type": Option("text"),
    "mail-user": Option("text"),
    "mcs-label": Option("text"),
    "no-kill": Option("flag-or-text"),
    "nodefile": Option("path", max_bytes=4095),
    "oom-kill-step": Option("flag-or-text", since=(24, 11)),
    "propagate": Option("flag-or-text"),
    "resv-ports": Option("integer", since=(24, 5)),
    "signal": Option("text"),
    "stepmgr": Option("flag", since=(24, 5)),
    "wait-all-nodes": Option("text"),
    "mem-update": Option("text", since=(26, 5)),
}

# sbatch options that slurmgpu writes itself, so that they fit together
WRITTEN = frozenset(
    {
        "job-name", "nodes", "ntasks-per-node", "cpus-per-task", "gres", "gpus", "gpus-per-node", "constraint",
        "mem", "mem-per-cpu", "mem-per-gpu", "time", "exclusive", "array", "nodelist", "chdir", "output",
        "error", "open-mode", "requeue", "no-requeue", "cpus-per-gpu",
    }
)  # fmt: skip

# What a spec may not ask of sbatch, and what to write instead.
REFUSED: dict[str, str] = {
    "job-name": "write `name`",
    "ntasks": "write `nodes` and, for launcher srun or shell, `ntasks_per_node`",
    "tasks-per-node": "write `ntasks_per_node`",
    "gpus-per-task": "it hides all GPUs but one from each rank; write `gpus_per_node`",
    "gpus-per-socket": "it splits unevenly; write `gpus_per_node`",
    "ntasks-per-gpu": "it hides all GPUs but one from each rank; write `gpus_per_node` and `launcher: srun`",
    "gpu-bind": "ranks that cannot see each other's GPUs lose peer-to-peer; leave binding to the program",
    "no-requeue": "write `requeue: false`",
    "wrap": "write `command` and `launcher: shell`",
    "container": "it names an OCI bundle for Slurm's own runtime, under `sbatch:`; `container` is a block here",
    "profile": "here `profile` names the cluster profile; for --profile write it under `sbatch:`",
    "uid": "only root may, and a spec is not the place",
    "gid": "only root may, and a spec is not the place",
    "parsable": "it is for sbatch's command line",
    "test-only": "it is for sbatch's command line",
    "wait": "it is for sbatch's command line",
    "quiet": "it is for sbatch's command line",
    "verbose": "it is for sbatch's command line",
    "version": "it is for sbatch's command line",
    "help": "it is for sbatch's command line",
    "usage": "it is for sbatch's command line",
}


def parse_version(text: str) -> Version:
    """`24.11` or `24.11.5` as (24, 11); ValueError for anything else."""
    parts = text.split(".")
    if len(parts) in (2, 3) and all(part.isascii() and part.isdigit() for part in parts):
        return int(parts[0]), int(parts[1])
    raise ValueError(f"{text!r} is not a Slurm version; write one such as 24.11")


def format_version(version: Version) -> str:
    """(24, 5) as `24.05`, the way Slurm writes it."""
    return f"{version[0]}.{version[1]:02}"

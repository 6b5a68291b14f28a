"""What a machine must have before a cluster can be started on it."""

import functools
import os
import re
import shutil
import subprocess

# program -> the Debian package it comes from
PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
}
OF_SLURM = {"slurmctld", "slurmd", "slurmdbd", "sbatch", "munged"}
PREFIX_VARIABLE = "SLURMGPU_TESTBED_PREFIX"  # of a Slurm built from source; it then is the host's
NAMESPACES = ("--mount", "--pid", "--uts", "--ipc")


def programs_of(prefix: str | None) -> str:
    """The start of a PATH on which the Slurm under this prefix is found first."""
    return f"{prefix}/bin:{prefix}/sbin:" if prefix else ""


def search_path() -> str:
    """PATH with the folders of daemons, which a desktop's or a cron job's PATH lacks."""
    own = programs_of(os.environ.get(PREFIX_VARIABLE))
    return own + os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"


def which(program: str) -> str:
    """The full path of a program, else its bare name for an error message to show."""
    return shutil.which(program, path=search_path()) or program


@functools.cache
def missing(*, slurm_of_host: bool = True) -> str | None:
    """Why no cluster can be started here; None when one can."""
    if os.geteuid() != 0:
        return "a real Slurm needs root"
    absent = [program for program in PROGRAMS if slurm_of_host or program not in OF_SLURM]
    absent = [program for program in absent if not shutil.which(program, path=search_path())]
    if absent:
        packages = " ".join(sorted({PROGRAMS[program] for program in absent}))
        return f"not installed: {', '.join(absent)} (apt-get install {packages})"
    answer = subprocess.run([which("unshare"), *NAMESPACES, "--fork", which("true")], capture_output=True, text=True)
    if answer.returncode:
        # in a chroot there is no mount that could be made private
        cure = "; in a chroot, first: mount --bind ROOT ROOT" if "propagation" in answer.stderr else ""
        return f"namespaces are refused: {answer.stderr.strip()}{cure}"
    return None


@functools.cache
def host_version() -> str | None:
    """The version of the host's Slurm as major.minor; None without Slurm."""
    program = shutil.which("slurmctld", path=search_path())
    return version_of([program]) if program else None


def version_of(slurmctld: list[str]) -> str | None:
    """The version, as major.minor, of the slurmctld that this command starts."""
    try:
        answer = subprocess.run([*slurmctld, "-V"], capture_output=True, text=True)
    except OSError:
        return None
    found = re.search(r"(\d+\.\d+)\.\d+", answer.stdout)
    return found[1] if found else None

"""Root folders of Debian suites that have another Slurm than the host, made once by debootstrap and then kept."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.testbed import host_python
from tests.testbed.failure import TestbedError
from tests.testbed.requirements import NAMESPACES, version_of, which

SUITES = {"24.11": "trixie", "26.05": "forky"}
PACKAGES = (
    *("slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin"),
    *("munge", "procps"),
)
# one script of debootstrap makes all newer suites; it knows those by name that are older than itself
SCRIPT = Path("/usr/share/debootstrap/scripts/sid")
MIRROR = "http://deb.debian.org/debian"
BUILD_S = 1200
# Debian has apptainer in unstable only, which the newest image can take it from
APPTAINER_IN = "26.05"
APPTAINER = "usr/bin/apptainer"
NO_APPTAINER = "etc/no-apptainer"  # why it could not be had; tried once
APPTAINER_S = 300


def cache() -> Path:
    """The folder that keeps the images."""
    return Path(os.environ.get("SLURMGPU_TESTBED_CACHE") or "/var/cache/slurmgpu-testbed").absolute()


def get(version: str) -> Path:
    """The image with this Slurm; built when it is not there."""
    if version not in SUITES:
        raise TestbedError(f"no Slurm {version} on this machine; images can be made for {', '.join(SUITES)}")
    image = cache() / f"slurm-{version}"
    cache().mkdir(mode=0o755, parents=True, exist_ok=True)
    with (cache() / f".{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second run waits, and then finds the image
        if not image.exists():
            _build(version, image)
        if version == APPTAINER_IN and not any((image / name).exists() for name in (APPTAINER, NO_APPTAINER)):
            _add_apptainer(image)
        host_python.prepare_image(image)
    return image


def _build(version: str, image: Path) -> None:
    if not shutil.which(which("debootstrap")):
        raise TestbedError(f"Slurm {version} needs debootstrap (apt-get install debootstrap)")
    suite = SUITES[version]
    print(
        f"building the image for Slurm {version} from Debian {suite} in {image}: about a minute",
        file=sys.stderr,
    )
    unfinished = image.with_name(f".{image.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # nobody else has it: the lock is ours
    command = [
        # debootstrap mounts /proc and more, and leaves them when it fails: in here they vanish
        *(which("unshare"), *NAMESPACES, "--fork", "--kill-child", "--"),
        *(which("debootstrap"), "--variant=minbase", f"--include={','.join(PACKAGES)}"),
        *(suite, str(unfinished), *_mirror_and_script()),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S)
    if answer.returncode:
        log = unfinished / "debootstrap" / "debootstrap.log"
        tail = log.read_text(errors="replace")[-3000:] if log.exists() else ""
        raise TestbedError(f"debootstrap {suite} failed\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}{tail}")
    found = version_of([which("chroot"), str(unfinished), "/usr/sbin/slurmctld"])
    if found != version:
        shutil.rmtree(unfinished)
        raise TestbedError(f"Debian {suite} has Slurm {found} by now, not {version}")
    for disposable in (
        "var/cache/apt",
        "var/lib/apt/lists",
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
    ):
        shutil.rmtree(unfinished / disposable, ignore_errors=True)
    unfinished.rename(image)


def _add_apptainer(image: Path) -> None:
    """Install apptainer into an image, for the tests of containers; without it they are skipped."""
    (image / "etc/apt/sources.list.d/unstable.list").write_text(f"deb {_mirror() or MIRROR} sid main\n")
    apt = "apt-get -q -o Acquire::Check-Valid-Until=false"
    script = (
        f"{apt} update && DEBIAN_FRONTEND=noninteractive {apt} install -y --no-install-recommends -t sid apptainer"
    )
    command = [
        *(which("unshare"), *NAMESPACES, "--fork", "--kill-child", "--"),
        *(which("chroot"), str(image), "/bin/sh", "-c", script),
    ]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=APPTAINER_S)
        said = answer.stderr[-1000:] if answer.returncode else ""
    except subprocess.TimeoutExpired:
        said = f"took longer than {APPTAINER_S} s"
    if said:
        (image / NO_APPTAINER).write_text(said)
    # under this Debian's /usr the starter looks for its session folder here
    (image / "usr/lib/var/lib/apptainer/mnt/session").mkdir(parents=True, exist_ok=True)
    for disposable in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(image / disposable, ignore_errors=True)


def _mirror_and_script() -> list[str]:
    mirror = _mirror()
    return [mirror or "", str(SCRIPT)] if SCRIPT.exists() else [mirror] if mirror else []


def _mirror() -> str | None:
    """The Debian mirror of the host's own package sources; None leaves the choice to debootstrap."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for path in files:
        if path.suffix not in {".list", ".sources"}:
            continue
        text = path.read_text(errors="replace") if path.is_file() else ""
        lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
        for uri in re.findall(r"https?://\S+", lines):
            # debian-security is a mirror of another kind, and a host that is not Debian has none that fits
            if uri.rstrip("/").endswith("/debian"):
                return str(uri)
    return None

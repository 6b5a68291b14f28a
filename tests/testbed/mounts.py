"""The private view of the file system that all processes of a cluster share. Runs inside the mount namespace."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.testbed import config, host_python
from tests.testbed.failure import TestbedError
from tests.testbed.plan import Plan
from tests.testbed.requirements import which


def _mount(*arguments: str | Path) -> None:
    answer = subprocess.run([which("mount"), *map(str, arguments)], capture_output=True, text=True)
    if answer.returncode:
        raise TestbedError(f"mount {' '.join(map(str, arguments))}: {answer.stderr.strip()}")


def _bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    _mount("--bind", source, target)
    if read_only:
        _mount("-o", "remount,bind,ro", target)


def _own_tmpfs(target: Path, mode: str) -> None:
    _mount("-t", "tmpfs", "-o", f"mode={mode}", "testbed", target)


def prepare(plan: Plan) -> None:
    """Make the file system under `plan.root` that the cluster's processes see."""
    _mount("--make-rprivate", "/")  # the shell command does so too; a mount that leaks out would be there for good
    if plan.image:
        _image_root(plan, plan.image)
    else:
        _host_root(plan)


def _host_root(plan: Plan) -> None:
    _mount("-t", "proc", "proc", "/proc")
    if not plan.etc.parent.is_dir() or not Path("/etc/slurm").is_dir():
        raise TestbedError("/etc/slurm is missing: Slurm's packages make it")
    _bind(plan.etc, Path("/etc/slurm"))
    for name, text in _tables(Path("/etc"), plan).items():
        private = plan.folder / "etc" / name
        private.write_text(text)
        private.chmod(0o644)
        _bind(private, Path("/etc") / name)
    needed = [plan.folder, *plan.readable]
    _replace(Path("/run"), needed, "0755")  # munge's socket and pid files of daemons have fixed places there
    _replace(Path("/tmp"), needed, "1777")
    if Path("/dev/shm").is_dir():
        _own_tmpfs(Path("/dev/shm"), "1777")
    for closed in _closed_folders(needed):
        _replace(closed, needed, "0755")


def _tables(etc: Path, plan: Plan) -> dict[str, str]:
    return {
        "passwd": config.passwd((etc / "passwd").read_text(), plan),
        "group": config.group((etc / "group").read_text()),
        "hosts": config.hosts(Path("/etc/hosts").read_text()),
    }


def _closed_folders(needed: Iterable[Path]) -> list[Path]:
    """The topmost folders above `needed` that other users may not enter, /root for one."""
    closed: list[Path] = []
    for path in needed:
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & 0o001:
                if folder not in closed:
                    closed.append(folder)
                break
    return closed


def _replace(folder: Path, needed: Iterable[Path], mode: str) -> None:
    """Put an empty folder over `folder`, and bring back what is needed below it, at its own path."""
    kept = {path: os.open(path, os.O_PATH) for path in needed if folder in path.parents}
    _own_tmpfs(folder, mode)
    for path, descriptor in sorted(kept.items()):
        if not path.exists():  # else it lies in one that is back already
            path.mkdir(parents=True)
            # by the number of this process, for `mount` has a /proc/self of its own, and unresolved: what the link
            # names is by now the empty folder
            _mount("--no-canonicalize", "--bind", f"/proc/{os.getpid()}/fd/{descriptor}", path)
        os.close(descriptor)


def _image_root(plan: Plan, image: Path) -> None:
    """A root folder of its own in memory; of the image, which other clusters use as well, only /usr is bound."""
    root = plan.root
    root.mkdir()
    _own_tmpfs(root, "0755")
    for entry in image.iterdir():
        if entry.is_symlink():  # /bin, /lib and so on
            (root / entry.name).symlink_to(entry.readlink())
        elif entry.name == "etc":
            shutil.copytree(entry, root / "etc", symlinks=True)
        elif entry.is_dir():
            (root / entry.name).mkdir()
    _bind(image / "usr", root / "usr", read_only=True)
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(0o1777)
    for name in ("var/log", "var/spool", "var/lib"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in _tables(image / "etc", plan).items():
        (root / "etc" / name).write_text(text)
    for name in ("slurm", *(str(path).lstrip("/") for path in (plan.folder, *plan.readable))):
        target = root / "etc" / "slurm" if name == "slurm" else root / name
        target.mkdir(parents=True, exist_ok=True)
    host_python.install(plan, _bind)
    for path in plan.readable:
        _bind(path, plan.inside(str(path)), read_only=True)
    _bind(plan.folder, plan.inside(str(plan.folder)))
    _bind(plan.etc, root / "etc" / "slurm")
    _mount("--rbind", "/dev", root / "dev")
    if (root / "dev" / "shm").is_dir():
        _own_tmpfs(root / "dev" / "shm", "1777")
    _mount("--rbind", "/sys", root / "sys")
    _mount("-t", "proc", "proc", root / "proc")
    # the init process and mariadbd live outside of the image, and look at the same processes
    _mount("-t", "proc", "proc", "/proc")
    host_python.find_libraries(plan)

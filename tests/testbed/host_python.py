"""The host's Python inside an image: a virtual environment made on the host runs there as it does on the host.

A newer C library runs older programs, so that the interpreter, its modules and the shared libraries which the image
does not have are all it takes. Images are made without a Python of their own.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.testbed.plan import Plan
from tests.testbed.requirements import which

SYSTEM_PREFIX = Path("/usr")
LIBRARIES = "/opt/host-lib"


def _name() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def prepare_image(image: Path) -> None:
    """Make, in an image's read-only /usr, what `install` binds the host's files to; may be done many times."""
    usr = image / "usr"
    (usr / "bin" / _name()).touch()
    (usr / "lib" / _name()).mkdir(exist_ok=True)
    for shared in ("lib/python3", "local/lib/" + _name()):
        (usr / shared).mkdir(parents=True, exist_ok=True)
    link = usr / "bin" / "python3"
    if not link.is_symlink() or link.readlink() != Path(_name()):
        link.unlink(missing_ok=True)
        link.symlink_to(_name())


def install(plan: Plan, bind: Callable[[Path, Path], None]) -> None:
    """Bind the interpreter of the system into the image, and the libraries that any interpreter needs."""
    if plan.python == SYSTEM_PREFIX:
        usr = plan.root / "usr"
        bind(Path("/usr/bin") / _name(), usr / "bin" / _name())
        for folder in ("lib/" + _name(), "lib/python3", "local/lib/" + _name()):
            if (SYSTEM_PREFIX / folder).is_dir():
                bind(SYSTEM_PREFIX / folder, usr / folder)
    target = plan.inside(LIBRARIES)
    target.mkdir(parents=True)
    known = _libraries_of_image(plan)
    for name, path in sorted(_needed(plan.python)):
        if name not in known and not (target / name).exists():
            (target / name).touch()
            bind(path, target / name)


def find_libraries(plan: Plan) -> None:
    """Tell the image's loader of the libraries; an environment variable would not reach every job."""
    plan.inside("/etc/ld.so.conf.d/host.conf").write_text(f"{LIBRARIES}\n")
    subprocess.run([which("chroot"), str(plan.root), "/sbin/ldconfig"], check=True, capture_output=True)


def _libraries_of_image(plan: Plan) -> set[str]:
    folders = plan.root.glob("usr/lib/*-linux-gnu*")
    return {path.name for folder in [*folders, plan.root / "usr" / "lib"] for path in folder.glob("*.so.*")}


def _needed(prefix: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of every library that the interpreter under `prefix` and its own modules load."""
    modules = (prefix / "lib" / _name() / "lib-dynload").glob("*.so")
    programs = [str(prefix / "bin" / _name()), *map(str, modules)]
    answer = subprocess.run([which("ldd"), *programs], capture_output=True, text=True)
    for name, path in set(re.findall(r"^\s+(\S+\.so\S*) => (/\S+)", answer.stdout, re.MULTILINE)):
        yield name, Path(path)

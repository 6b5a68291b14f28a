"""The `container:` block: the program runs in an image, started on each node by pyxis, apptainer or docker.

Facts: enroot names a registry `HOST#PATH` (pyxis README), apptainer `docker://HOST/PATH`. pyxis and apptainer keep an
image's value of a variable unless told otherwise; docker takes nothing from outside that is not named.
"""

import re

from slurmgpu.experiment import kinds
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.kinds import Kind, Say
from slurmgpu.experiment.yamltext import Data, Path

RUNTIMES = ("pyxis", "apptainer", "docker")
_SCHEMES = ("docker://", "oras://", "library://", "shub://", "docker-daemon://")
_FILE_ENDS = (".sif", ".sqsh", ".squashfs", ".img")


class Container(Fields):
    """The `container:` block. A mount is (source, target, flag), the flag `ro`, `rw` or none."""

    image: str
    runtime: str | None = None
    mounts: list[tuple[str, str, str]] = []
    workdir: str | None = None
    args: list[str] = []


def _image(data: Data, path: Path, say: Say) -> str | None:
    name = kinds.text(data, path, say, max_bytes=4095)
    if name and name.startswith("-"):
        say(path, f"{name!r} would be read as an option; write an image's name or file")
        return None
    return name


def _mounts(data: Data, path: Path, say: Say) -> list[tuple[str, str, str]] | None:
    if not isinstance(data, list):
        say(path, "must be a list of mounts, such as [/data, /scratch/$USER:/scratch, /ref:/ref:ro]")
        return None
    found = []
    for index, item in enumerate(data):
        text = kinds.directory(item, (*path, index), say)
        if text is None:
            continue
        source, *rest = text.split(":")
        flag = rest.pop() if rest and rest[-1] in ("ro", "rw") else ""
        target = rest[0] if rest else ""
        if len(rest) > 1 or "," in text or not source:
            say(
                (*path, index),
                f"{text!r} is no mount; write SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro, without commas",
            )
        elif target and not target.startswith("/"):
            say((*path, index), f"the target {target!r} must be an absolute path in the container")
        else:
            found.append((source, target, flag))
    return found


def _workdir(data: Data, path: Path, say: Say) -> str | None:
    text = kinds.directory(data, path, say)
    if text and not text.startswith("/"):
        say(path, f"{text!r} must be an absolute path in the container")
        return None
    return text


def _args(data: Data, path: Path, say: Say) -> list[str] | None:
    if not isinstance(data, list):
        say(path, "must be a list of the runtime's own options, such as [--writable-tmpfs]")
        return None
    found = kinds.words(data, path, say) or []
    if found and not found[0].startswith("-"):
        say(path, f"starts with {found[0]!r}, which is no option; the image is `image`, the program is `command`")
    return found


KINDS: dict[str, Kind] = {
    "image": _image,
    "runtime": kinds.OneOf(*RUNTIMES),
    "mounts": _mounts,
    "workdir": _workdir,
    "args": _args,
}


def check(data: Data, values: dict[str, object], say: Say) -> None:
    """What the block needs, and what cannot stand beside it."""
    block = values.get("container")
    if not isinstance(block, Container):
        return
    if not getattr(block, "image", None):
        say(("container",), "needs `image`, such as nvcr.io/nvidia/pytorch:24.10-py3 or /images/torch.sif")
    if values.get("launcher") == "shell":
        say(("launcher",), "shell runs its lines on the node, not in `container`; start the runtime in them")
    for key in ("conda", "venv", "uv"):
        if key in values:
            say((key,), "is of the node, and the program runs in `container`; put it into the image")


def is_file(image: str) -> bool:
    """Whether an image is a file or a folder and not the name of one in a registry."""
    return image.startswith(("/", "./", "../", "~", "$")) or image.endswith(_FILE_ENDS)


def image_for(runtime: str, image: str) -> str:
    """An image of a registry in the runtime's own words; `nvcr.io/nvidia/x:1` and `nvcr.io#nvidia/x:1` both do.

    Raises ValueError where the runtime cannot take it.
    """
    scheme = next((scheme for scheme in _SCHEMES if image.startswith(scheme)), "")
    name = image.removeprefix(scheme)
    if scheme not in ("", "docker://") and runtime != "apptainer":
        raise ValueError(f"{image!r} is an image for apptainer; {runtime} takes names such as ubuntu:24.04")
    if runtime == "apptainer":
        return f"{scheme or 'docker://'}{name.replace('#', '/', 1)}"
    if runtime == "docker":
        return name.replace("#", "/", 1)
    host, slash, rest = name.partition("/")
    is_host = bool(slash) and "#" not in name and (re.search("[.:]", host) is not None or host == "localhost")
    return f"{host}#{rest}" if is_host else name

"""What is behind the options of commands that take a spec: files, profile, template and version put together."""

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from slurmgpu.errors import InputError, Place, Problem
from slurmgpu.experiment import merge, profile
from slurmgpu.experiment.options import Version, parse_version
from slurmgpu.experiment.paths import Place as RenderPlace
from slurmgpu.experiment.render import Renderer, Script, Session
from slurmgpu.experiment.shell import sh
from slurmgpu.experiment.yamltext import MAX_BYTES

__all__ = ["MAX_BYTES", "Request", "render", "render_all", "session"]


class Request(NamedTuple):
    """What was asked for; `content` is the spec itself where it came from stdin."""

    spec: str
    content: bytes | None
    settings: tuple[str, ...] = ()
    profile: str | None = None
    slurm_version: str | None = None
    template: str | None = None
    explain: bool = False
    part: int | None = None  # of a sweep that is several arrays, from 1


def render(request: Request, folder: str, environ: Mapping[str, str]) -> Script:
    """The script of a request. Raises InputError with every problem found."""
    renderer, merged, source = _prepare(request, environ)
    script = renderer.render(merged, source, RenderPlace(folder, environ), request.explain, request.part)
    return script._replace(notes=[*script.notes, *_missing_folders(script, renderer.version)])


def render_all(
    request: Request, folder: str, environ: Mapping[str, str], max_array_size: Callable[[], int]
) -> list[Script]:
    """The script of a request, or of each array of its sweep. `max_array_size` asks the cluster, for a sweep only."""
    renderer, merged, source = _prepare(request, environ)
    return renderer.render_all(merged, source, RenderPlace(folder, environ), max_array_size)


def session(request: Request, folder: str, environ: Mapping[str, str]) -> Session:
    """An interactive session with the resources and the environment of a request."""
    renderer, merged, source = _prepare(request, environ)
    return renderer.session(merged, source, RenderPlace(folder, environ))


def _prepare(request: Request, environ: Mapping[str, str]) -> tuple[Renderer, merge.Merged, str]:
    version = _version(request.slurm_version)
    merged = merge.spec_file(request.spec, request.content)
    for text in request.settings:
        merged = merge.over(merged, merge.setting(text))
    site, merged = _with_profile(merged, request.profile)
    renderer = Renderer(site, version, request.template, cache_folder(environ))
    return renderer, merged, "stdin" if request.spec == "-" else request.spec


def _missing_folders(script: Script, version: Version | None) -> list[str]:
    """Slurm before 24.11 fails a job whose log folder is missing, without a word (slurmstepd's io.c)."""
    if version is not None and version >= (24, 11):
        return []
    missing = [folder for folder in script.log_folders if not os.path.isdir(folder)]
    return [
        f"the job would fail without a word for want of its log folder: mkdir -p {sh(folder)}" for folder in missing
    ]


def _version(text: str | None) -> Version | None:
    try:
        return parse_version(text) if text is not None else None
    except ValueError as error:
        raise InputError([Problem(Place("--slurm-version"), str(error))]) from None


def _with_profile(merged: merge.Merged, name: str | None) -> tuple[profile.Profile, merge.Merged]:
    """The profile that is asked for, and the spec over its defaults."""
    named_at = Place("--profile")
    if name is None and isinstance(merged.data, dict) and isinstance(merged.data.get("profile"), str):
        name = merged.data["profile"]
        named_at = merged.places.get(("profile",), named_at)
    site = profile.find(name, named_at)
    if site.defaults and isinstance(merged.data, dict):
        merged = merge.under(merged, profile.defaults_document(site))
    return site, merged


def cache_folder(environ: Mapping[str, str]) -> str | None:
    """A private folder for the compiled template, which saves a third of a start; None where there is none."""
    base = environ.get("XDG_CACHE_HOME") or (environ.get("HOME") and os.path.join(environ["HOME"], ".cache"))
    if not base or not os.path.isabs(base):
        return None
    folder = os.path.join(base, "slurmgpu")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.stat(folder)
    except OSError:
        return None
    # what is read back from here is run as code: nobody else may write to it
    return folder if status.st_uid == os.geteuid() and not status.st_mode & 0o022 else None

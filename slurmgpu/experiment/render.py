"""A spec becomes a script: pure, offline, the same bytes for the same spec, profile and versions.

`Renderer` holds what is the same for many scripts (the compiled template); `render` makes one script out of a
merged spec. After rendering, the header is read back by Slurm's own rules and must say what was meant.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jinja2

import slurmgpu
from slurmgpu import bundled
from slurmgpu.errors import InputError, Problem, SlurmgpuError
from slurmgpu.errors import Place as Written
from slurmgpu.experiment import program
from slurmgpu.experiment.allocation import Allocation, allocate, has_whole_nodes
from slurmgpu.experiment.arrays import Part, parts_of
from slurmgpu.experiment.contained import contained
from slurmgpu.experiment.context import Context, Lines, why
from slurmgpu.experiment.directives import Directive, directives
from slurmgpu.experiment.header import read_header
from slurmgpu.experiment.merge import Merged
from slurmgpu.experiment.options import Version
from slurmgpu.experiment.paths import Paths, Place, absolute, paths, resolve_options
from slurmgpu.experiment.profile import NONE, Profile
from slurmgpu.experiment.restarts import restarts
from slurmgpu.experiment.shell import comment, sh
from slurmgpu.experiment.spec import Spec, check, place_of
from slurmgpu.experiment.sweep import duplicates
from slurmgpu.slurmtext import parse_time

# slurmctld's default max_script_size
MAX_SCRIPT_BYTES = 4 * 1024 * 1024


NO_PROFILE = "no cluster profile: partition, limits and gres types are not checked"


class Script(NamedTuple):
    """A rendered script, what to say about it on stderr, the folders that its logs need, and what it came from.

    `part` holds the points where it is an array of a sweep.
    """

    text: str
    notes: list[str]
    log_folders: list[str]
    spec: Spec
    merged: Merged
    directives: list[Directive]
    part: Part | None = None


class Session(NamedTuple):
    """An interactive session: the script of such a job, its numbers, the shell lines of its environment and setup."""

    script: Script
    job: Context
    start: str


class Prepared(NamedTuple):
    """A spec before it becomes text."""

    spec: Spec
    context: Context
    notes: list[str]
    log_folders: list[str]
    parts: list[Part]


class Renderer:
    """Compiled template and profile, ready for many scripts."""

    def __init__(
        self,
        profile: Profile = NONE,
        version: Version | None = None,
        template_file: str | None = None,
        cache_folder: str | None = None,
    ) -> None:
        self.profile = profile
        self.version = version or profile.slurm_version
        self.template_file = template_file
        self._template = _compile(template_file, cache_folder)

    def render(
        self, merged: Merged, source: str, place: Place, explain: bool = False, part: int | None = None
    ) -> Script:
        """The script of a merged spec, of a sweep's array number `part` from 1.

        Raises InputError with every problem found.
        """
        job = self._prepare(merged, source, place, lambda: self.profile.max_array_size)
        if explain:
            job.context.origin = _origin(merged)
        count = len(job.parts)
        if part is not None and not 1 <= part <= count:
            what = f"must be from 1 to {count}" if count else "is of a sweep, and the spec has none"
            raise InputError([Problem(Written("--part"), what)])
        if part is None and count > 1:
            first = job.parts[0]
            message = (
                f"`sweep` has {first.size} points, and an array takes {len(first.points)}: `slurmgpu submit` sends "
                f"all {count} arrays, `render --part 1` to `--part {count}` shows one"
            )
            raise InputError([Problem(place_of(("sweep",), merged.key_places, merged.places, source), message)])
        return self._script(job, merged, job.parts[(part or 1) - 1] if count else None)

    def render_all(
        self, merged: Merged, source: str, place: Place, max_array_size: Callable[[], int]
    ) -> list[Script]:
        """The script of a merged spec, or of each array of its sweep on a cluster with this MaxArraySize.

        `max_array_size` is asked for a sweep only. Raises InputError as `render` does.
        """

        def most() -> int:
            live = max_array_size()
            return live if self.profile.max_array_size is None else min(live, self.profile.max_array_size)

        job = self._prepare(merged, source, place, most)
        if not job.parts:
            return [self._script(job, merged, None)]
        return [self._script(job, merged, part) for part in job.parts]

    def session(self, merged: Merged, source: str, place: Place) -> Session:
        """What an interactive session with the resources and the environment of a spec needs."""
        job = self._prepare(merged, source, place, lambda: self.profile.max_array_size)
        context = self._template.new_context({"job": job.context})
        parts = [part for name in ("environment", "setup") for part in self._template.blocks[name](context)]
        return Session(self.render(merged, source, place), job.context, "".join(parts))

    def _prepare(
        self, merged: Merged, source: str, place: Place, max_array_size: Callable[[], int | None]
    ) -> Prepared:
        """A spec with every number and path settled. Raises InputError with every problem found."""
        problems: list[Problem] = []
        spec = check(merged.data, merged.places, merged.key_places, source, of_keys=problems)

        def refuse(key: str, message: str) -> None:
            where = place_of((key,), merged.places, merged.key_places, source)
            problems.append(Problem(where, f"`{key}` {message}"))

        parts = parts_of(spec, merged, place, max_array_size, problems, refuse)
        if spec.sweep:
            spec.array = parts[0].array if parts else "0"
        job = allocate(spec, self.profile, self.version, refuse)
        where_to = paths(spec, source, place, refuse)
        here = Place(where_to.chdir, place.environ)
        if len(parts) > 1 and not where_to.tell_arrays_apart():
            refuse("output", f"must hold %A: the {len(parts)} arrays of this sweep have tasks of the same numbers")
        spec.options = resolve_options(spec.options, here, refuse)
        spec.sbatch = resolve_options(spec.sbatch, here, refuse)
        lines = directives(spec, job, self.profile, where_to, refuse)
        context = self._context(merged, spec, job, where_to, lines, source, place, refuse)
        if problems:
            raise InputError(problems)
        notes = [*merged.notes, *job.notes, *where_to.notes, *program.notes(spec)]
        if spec.sweep and (note := duplicates(spec.sweep)):
            notes.append(note)
        return Prepared(spec, context, notes, where_to.log_folders(), parts)

    def _script(self, job: Prepared, merged: Merged, part: Part | None) -> Script:
        context = job.context
        if part is not None:
            context.sweep = part
            context.directives = [
                line._replace(value=part.array) if line.option == "array" else line for line in context.directives
            ]
        context.digest = _digest(merged.data, context.directives, part)
        text = self._fill(context)
        self._check_header(text, context.directives)
        notes = [*job.notes, NO_PROFILE] if self.profile is NONE else job.notes
        return Script(text, notes, job.log_folders, job.spec, merged, context.directives, part)

    def _context(
        self,
        merged: Merged,
        spec: Spec,
        job: Allocation,
        where_to: Paths,
        lines: list[Directive],
        source: str,
        place: Place,
        refuse: Any,
    ) -> Context:
        here = Place(where_to.chdir, place.environ)
        threads, threads_why = _omp_num_threads(spec, job)
        env = _environment(spec, job, self.profile)
        setup = {"profile": self.profile.setup, "setup": spec.setup}
        several = job.nodes > 1
        again = restarts(spec, job, self.profile, where_to, refuse, here)
        folders = [where_to.chdir, *([again.folder] if again else [])]
        return Context(
            version=slurmgpu.__version__,
            source=comment(os.path.basename(source)),
            digest="",
            name=where_to.name,
            directives=lines,
            launcher=job.launcher,
            nodes=job.nodes,
            gpus_per_node=job.gpus_per_node,
            tasks_per_node=job.tasks_per_node,
            ranks_per_node=job.ranks_per_node,
            cpus_per_task=job.cpus_per_task,
            gpu_test="-ge" if has_whole_nodes(spec) else "-eq",
            needs_head=job.launcher == "srun" or (job.launcher == "torchrun" and several),
            command=program.command_line(spec, job, refuse),
            rendezvous=spec.torchrun.rendezvous,
            max_restarts=spec.torchrun.max_restarts,
            exit_wait_s=(parse_time(spec.torchrun.exit_wait) or 0) if job.launcher == "torchrun" else 0,
            omp_num_threads=threads,
            omp_why=threads_why,
            env=env,
            secrets={
                name: absolute("secrets", file, here, refuse) if file else None for name, file in spec.secrets.items()
            },
            modules=spec.modules,
            module_init=self.profile.module_init,
            conda=spec.conda,
            venv=absolute("venv", spec.venv, here, refuse) if spec.venv else None,
            uv=absolute("uv", spec.uv, here, refuse) if spec.uv else None,
            setup=[Lines(key, text) for key, text in setup.items() if text],
            container=contained(spec, job, self.profile, env, folders, here, refuse),
            restarts=again,
            kept=frozenset((*spec.options, *spec.sbatch)),
        )

    def _fill(self, context: Context) -> str:
        try:
            text = self._template.render(job=context)
        except jinja2.TemplateError as error:
            raise InputError([_template_problem(error, self.template_file)]) from None
        text = text.rstrip("\n") + "\n"
        if len(text) * 4 > MAX_SCRIPT_BYTES and len(text.encode()) > MAX_SCRIPT_BYTES:
            more = "; a lower max_array_size in the profile makes more and smaller arrays" if context.sweep else ""
            message = f"comes to a script over the 4 MiB that Slurm takes{more}"
            raise InputError([Problem(Written(context.source), message)])
        return text

    def _check_header(self, text: str, lines: list[Directive]) -> None:
        """Slurm must read from the script what was meant; a template of the user's may add lines to it."""
        try:
            found = [argument for line in read_header(text) for argument in line.arguments]
        except ValueError as error:
            found = [str(error)]
        wanted = [line.argument for line in lines]
        if found == wanted:
            return
        if self.template_file is None:
            raise SlurmgpuError(f"the header reads back as {found}, not as {wanted}")
        missing = [argument for argument in wanted if argument not in found]
        if missing or not text.startswith("#!"):
            what = f"the script lacks {missing[0]}" if missing else "the script does not start with #!"
            raise InputError(
                [Problem(Written(self.template_file), f"{what}: keep the block `directives` whole and first")]
            )


class _Cache(jinja2.FileSystemBytecodeCache):
    """Kept compiled templates; a full disk or quota costs time and nothing else."""

    def dump_bytecode(self, bucket: Any) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _compile(template_file: str | None, cache_folder: str | None) -> jinja2.Template:
    cache = _Cache(cache_folder, "%s.cache") if cache_folder else None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(bundled.folder("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
        bytecode_cache=cache,
    )
    environment.filters |= {"sh": sh, "why": why}
    try:
        if template_file is None:
            return environment.get_template("sbatch.sh.j2")
        with open(template_file, encoding="utf-8") as file:
            return environment.from_string(file.read())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise InputError([Problem(Written(str(template_file)), f"cannot be read: {reason}")]) from None
    except jinja2.TemplateError as error:
        raise InputError([_template_problem(error, template_file)]) from None


def _template_problem(error: jinja2.TemplateError, template_file: str | None) -> Problem:
    line = getattr(error, "lineno", None) or 0
    return Problem(Written(template_file or "sbatch.sh.j2", line, 1 if line else 0), error.message or str(error))


def _origin(merged: Merged) -> Any:
    def origin(key: str) -> str:
        path: tuple[str | int, ...] = tuple(int(part) if part.isdigit() else part for part in key.split("."))
        while path:
            found = merged.key_places.get(path) or merged.places.get(path)
            if found:
                return str(found)
            path = path[:-1]
        return "default"

    return origin


def _digest(data: Any, lines: list[Directive], part: Part | None) -> str:
    """Twelve hex digits over what was asked (as merged, and in a sweep's file) and what came of it."""
    came = [data, [line.argument for line in lines], *([part.offset, part.points] if part else [])]
    resolved = json.dumps(came, sort_keys=True)
    return hashlib.sha256(resolved.encode()).hexdigest()[:12]


def _omp_num_threads(spec: Spec, job: Allocation) -> tuple[str | None, str]:
    """Threads a rank: torchrun would set 1 where none is set."""
    if "OMP_NUM_THREADS" in spec.env:
        return None, ""
    ranks_of_task = job.ranks_per_node // job.tasks_per_node
    if job.cpus_per_task is not None:
        threads = max(1, job.cpus_per_task // max(1, ranks_of_task))
        return str(threads), f"{job.cpus_per_task} CPUs a task / {ranks_of_task} ranks a task"
    ranks = job.ranks_per_node
    return f"$(( SLURM_CPUS_ON_NODE > {ranks} ? SLURM_CPUS_ON_NODE / {ranks} : 1 ))", "the node's CPUs / its ranks"


def _environment(spec: Spec, job: Allocation, profile: Profile) -> dict[str, str]:
    """The spec's variables, with the site's network interfaces for jobs of several nodes."""
    site: dict[str, str] = {}
    if job.nodes > 1 and profile.nccl_socket_ifname:
        site["NCCL_SOCKET_IFNAME"] = profile.nccl_socket_ifname
    if job.nodes > 1 and profile.gloo_socket_ifname:
        site["GLOO_SOCKET_IFNAME"] = profile.gloo_socket_ifname
    return site | spec.env

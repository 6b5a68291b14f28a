"""The pre-submit checklist: one function an item, each with its own word about a request and the live cluster.

An item reads facts and judges; it changes nothing. `sbatch --test-only` is the last one: it accepts a time above the
limit, and an unknown account where accounting is not enforced, and has one sentence for five causes.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from slurmgpu.errors import Place, UnavailableError
from slurmgpu.experiment import checkfiles, checknames, checksizes, request, slurm
from slurmgpu.experiment.cluster import Cluster, Source
from slurmgpu.experiment.environment import for_submission
from slurmgpu.experiment.facts import FAIL, OK, SKIP, WARN, Facts, Finding, Quota

if TYPE_CHECKING:  # a script by hand is checked without what renders one
    from slurmgpu.experiment.render import Script


class Item(NamedTuple):
    """An item by its name, and its finding."""

    name: str
    finding: Finding


class Report(NamedTuple):
    """All items of one script, in order."""

    source: str
    cluster: Cluster
    items: list[Item]

    @property
    def is_good(self) -> bool:
        """Whether no item fails."""
        return all(item.finding.status != FAIL for item in self.items)


ITEMS: tuple[tuple[str, Callable[[Facts], Finding]], ...] = (
    ("header", checkfiles.header),
    ("shell", checkfiles.shell),
    ("partition", checknames.partition),
    ("account", checknames.account),
    ("qos", checknames.qos),
    ("reservation", checknames.reservation),
    ("features", checknames.features),
    ("gres", checknames.gres),
    ("time", checksizes.time),
    ("resources", checksizes.resources),
    ("job limits", checksizes.job_limits),
    ("array", checksizes.array),
    ("quota", checksizes.quota),
    ("logs", checkfiles.logs),
    ("command", checkfiles.command),
    ("secrets", checkfiles.secrets),
    ("environment", checkfiles.environment),
)


# items whose failure sbatch --test-only cannot be speaking of
NOT_SLURMS = frozenset({"shell", "quota", "logs", "command", "secrets", "environment"})


class Check:
    """A script being checked. Slurm's commands start when it is made, and run while the others answer."""

    def __init__(
        self, text: str, source: str, folder: str, environ: Mapping[str, str], script: "Script | None" = None
    ) -> None:
        self._text, self._source, self._folder, self._environ = text, source, folder, environ
        self._script = script
        self._request = request.read(text)
        self._test = slurm.Running(
            ["sbatch", "--test-only"],
            input=text,
            environ=for_submission(environ)[0],
            folder=folder,
        )
        self._shell = checkfiles.start_shell(text)
        self._qos = None
        if self._request.text("qos"):
            fields = "format=cluster,account,qos"
            try:
                self._qos = slurm.Running(["sacctmgr", "-nP", "show", "assoc", "where", f"user={_me()}", fields])
            except UnavailableError:  # no sacctmgr on this machine
                self._qos = None

    def report(self, source: Source, quota: Quota | None = None) -> Report:
        """Every item's finding. Raises UnavailableError where the cluster does not answer."""
        try:
            cluster = source.cluster()
            facts = self._facts(cluster, quota)
            items = [Item(name, judge(facts)) for name, judge in ITEMS]
            items.append(Item("sbatch", _sbatch(facts, items)))
            return Report(self._source, cluster, items)
        finally:
            for running in filter(None, (self._test, self._shell, self._qos)):
                running.end()

    def _facts(self, cluster: Cluster, quota: Quota | None) -> Facts:
        facts = Facts(
            script=self._text,
            source=self._source,
            request=self._request,
            cluster=cluster,
            folder=self._folder,
            environ=self._environ,
            groups=_groups(),
            places={name: Place(self._source, given.line, 1) for name, given in self._request.given.items()},
            keys={},
            allowed_qos=self._allowed_qos(cluster),
            shell=self._shell.answer() if self._shell else None,
            test_only=self._test.answer(),
            quota=quota,
        )
        if self._script is not None:
            _add_spec(facts, self._script)
        return facts

    def _allowed_qos(self, cluster: Cluster) -> dict[str, list[str]] | None:
        if cluster.associations and all(one.qos is not None for one in cluster.associations):
            return {one.account: one.qos or [] for one in cluster.associations}
        if self._qos is None:
            return None
        answer = self._qos.answer()
        if answer.status:
            return None
        rows = [line.split("|") for line in answer.output.splitlines()]
        return {row[1]: row[2].split(",") for row in rows if len(row) == 3 and row[0] == cluster.name}


def _me() -> str:
    from slurmgpu.experiment.cluster import user_name

    return user_name()


def _groups() -> frozenset[str]:
    import grp

    names = set()
    for number in {os.getgid(), *os.getgroups()}:
        try:
            names.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return frozenset(names)


def _add_spec(facts: Facts, script: "Script") -> None:
    """Where the spec says what the script's options say, and the files that it names."""
    from slurmgpu.experiment.spec import place_of

    merged, spec = script.merged, script.spec
    facts.keys = {line.option: line.key for line in script.directives}
    facts.places = {}
    for option, key in [
        *facts.keys.items(),
        ("command", "command"),
        ("secrets", "secrets"),
        ("gpu_type", "gpu_type"),
    ]:
        if isinstance(merged.data, dict) and key.split(".")[0] in merged.data:
            facts.places[option] = place_of(tuple(key.split(".")), merged.places, merged.key_places, facts.source)
    facts.secrets = [name for name, file in spec.secrets.items() if file is None]
    argv = spec.command if isinstance(spec.command, list) else []
    words = argv[1:] if argv and os.path.basename(argv[0]) in ("python", "python3") else argv
    first = next((word for word in words if word != "-u"), "")
    is_elsewhere = (
        "cd " in (spec.setup or "")
        or (spec.sweep is not None and "{" in first)
        or (spec.container is not None and (first.startswith("/") or spec.container.workdir is not None))
    )
    if not is_elsewhere and (first.endswith((".py", ".sh")) or "/" in first):
        facts.program = first


def _sbatch(facts: Facts, items: list[Item]) -> Finding:
    """What Slurm itself says, and whether an item above has said it already."""
    answer = facts.test_only
    if answer is None:
        return Finding(SKIP, "not asked")
    failed = [item.name for item in items if item.finding.status == FAIL and item.name not in NOT_SLURMS]
    lines = [
        line.removeprefix("sbatch: ").removeprefix("error: ") for line in answer.errors.splitlines() if line.strip()
    ]
    said = "; ".join(dict.fromkeys(lines)) or f"exit status {answer.status}"
    if answer.status == 0:
        if failed:
            return Finding(OK, f"{said}. It does not look at: {', '.join(failed)}")
        return Finding(OK, said)
    if not failed and (queued := _is_queued_all_the_same(facts, items)):
        return Finding(WARN, f"{said}; but sbatch itself would queue it: {queued}")
    if failed:
        return Finding(FAIL, f"{said} (see {', '.join(failed)})")
    return Finding(FAIL, f"{said}; no check above knows why")


def _is_queued_all_the_same(facts: Facts, items: list[Item]) -> str | None:
    """Why --test-only refuses what sbatch takes (run on 22.05 to 26.05), or None."""
    if "node configuration is not available" not in (facts.test_only.errors if facts.test_only else ""):
        return None
    if any(item.name == "resources" and item.finding.status == WARN for item in items):
        return "--test-only does not count nodes that are down or drained"
    if 0 < len(facts.request.nodelist) < (facts.request.nodes or 1):
        return "--test-only does not add nodes to a nodelist that has too few"
    return None

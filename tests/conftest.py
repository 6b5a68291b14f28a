"""The session fixture `cluster`: a real Slurm, once per version, for the tests that ask for it."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.testbed import Cluster
from tests.testbed.requirements import host_version, missing

MATRIX_VARIABLE = "SLURMGPU_SLURM_MATRIX"
VERSION_PROPERTY = "slurm_version"


def slurm_versions() -> list[str]:
    """The host's Slurm first, then those of the environment variable."""
    more = os.environ.get(MATRIX_VARIABLE, "").replace(",", " ").split()
    return list(dict.fromkeys([host_version() or "host", *more]))


@pytest.fixture(scope="session", params=slurm_versions())
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running cluster. The tests of one version run together, so that one cluster runs at a time."""
    # other than in a test, an error here fails every test of the version: what is asked for must not go untested
    with Cluster.start(request.param) as running:
        yield running


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what runs on a real Slurm, note the version for the summary, keep what runs once to the first version."""
    again = [item for item in items if item.get_closest_marker("once") and _version(item) != slurm_versions()[0]]
    config.hook.pytest_deselected(items=again)
    items[:] = [item for item in items if item not in again]
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker("slurm")
        if item.get_closest_marker("slurm"):
            item.user_properties.append((VERSION_PROPERTY, _version(item)))


def _version(item: pytest.Item) -> str:
    version = item.callspec.params.get("cluster") if hasattr(item, "callspec") else None
    return version or slurm_versions()[0]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip where no cluster can be started, and say what is missing."""
    if item.get_closest_marker("slurm") and (reason := missing()):
        pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much ran on a real Slurm: a run without one looks just as green."""
    counts = {"ran": Counter[str](), "skipped": Counter[str]()}
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            version = dict(getattr(report, "user_properties", ())).get(VERSION_PROPERTY)
            if version and outcome in {"passed", "failed", "xfailed", "xpassed"}:
                counts["ran"][version] += 1
            elif version and outcome == "skipped":
                counts["skipped"][version] += 1
    for version in slurm_versions():
        ran, skipped = counts["ran"][version], counts["skipped"][version]
        if ran or skipped:
            reason = f", {skipped} skipped ({missing() or 'see above'})" if skipped else ""
            terminalreporter.write_line(f"real Slurm {version}: {ran} tests ran{reason}")

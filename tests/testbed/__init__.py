"""A real Slurm cluster in a temporary folder: `Cluster` for tests, `python -m tests.testbed` for use by hand."""

from tests.testbed.cluster import Cluster
from tests.testbed.failure import TestbedError

__all__ = ["Cluster", "TestbedError"]

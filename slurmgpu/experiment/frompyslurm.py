"""The cluster by pyslurm, in a child process: importing it without a usable slurm.conf ends the whole process."""

from slurmgpu.experiment.cluster import Cluster


def is_possible() -> bool:
    """Whether pyslurm is installed and finds a slurm.conf."""
    return False


class PyslurmSource:
    """Not written yet."""

    name = "pyslurm"

    def __init__(self, user: str, fallback: object) -> None:
        self._user = user

    def cluster(self) -> Cluster:
        """The cluster."""
        raise NotImplementedError

    def end(self) -> None:
        """Nothing runs."""

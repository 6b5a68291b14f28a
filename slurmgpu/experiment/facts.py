"""What an item of the checklist knows, and what it says."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from slurmgpu.errors import Place, nearest
from slurmgpu.experiment.cluster import Cluster, Partition
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.request import Request
from slurmgpu.experiment.slurm import Answer

OK, WARN, FAIL, SKIP = "ok", "warn", "fail", "skip"


class Finding(NamedTuple):
    """An item's word: `ok`, `warn`, `fail` or `skip` (could not or need not be looked at), and why.

    `place` is where the blocking value was written, None where there is no such place.
    """

    status: str
    message: str
    place: Place | None = None


NO_PARTITION = Finding(SKIP, "there is no partition to look at")

# what a later part of slurmgpu may say about the quota that is left for a request
Quota = Callable[[Request, Cluster], Finding]


class Facts(Fields):
    """Everything about one script: what it asks for, where that was written, the cluster, the surroundings.

    `keys` maps an option to the spec key that it came from and is empty for a script written by hand. `program` is
    the file that the spec's command names. `allowed_qos` maps an account to its QOS, None where unknown. `shell` and
    `test_only` are the answers of `bash -n` and of `sbatch --test-only`, None where they were not asked.
    """

    script: str
    source: str
    request: Request
    cluster: Cluster
    folder: str
    environ: Mapping[str, str]
    groups: frozenset[str]
    places: dict[str, Place]
    keys: dict[str, str]
    program: str | None = None
    secrets: list[str] = []
    allowed_qos: dict[str, list[str]] | None = None
    shell: Answer | None = None
    test_only: Answer | None = None
    quota: Quota | None = None

    @property
    def is_spec(self) -> bool:
        """Whether the script was rendered from a spec."""
        return bool(self.keys)

    @property
    def partitions(self) -> list[Partition]:
        """The partitions asked for that exist, or the default one."""
        if self.request.partitions:
            names = self.request.partitions
            return [self.cluster.partitions[name] for name in names if name in self.cluster.partitions]
        default = self.cluster.default_partition
        return [default] if default else []

    @property
    def account(self) -> str | None:
        """The account that pays: the one asked for, or the user's default."""
        asked = self.request.text("account")
        if asked is not None:
            return asked.lower()  # Slurm keeps names in lower case
        return next((one.account for one in self.cluster.associations or [] if one.is_default), None)

    def place(self, option: str) -> Place | None:
        """Where an option was written."""
        return self.places.get(option)

    def name(self, option: str) -> str:
        """The option in the words of what the user wrote: a spec key, or the option."""
        return f"`{self.keys[option]}`" if option in self.keys else f"--{option}"

    def fail(self, option: str, message: str) -> Finding:
        """A failure of an option's value."""
        return Finding(FAIL, message, self.place(option))


def known(word: str, words: list[str]) -> str:
    """The end of a message about an unknown name: the nearest one, or all that there are."""
    lowered = {name.lower().replace("-", "_"): name for name in words}
    guess = nearest(word, list(lowered))
    if guess:
        return f"did you mean {lowered[guess]!r}?"
    shown = ", ".join(sorted(words)[:12]) + (", ..." if len(words) > 12 else "")
    return f"there is {shown or 'none'}"

"""What one cluster is made of: its folder, ports, users and nodes. Written as plan.json for the init process."""

import dataclasses
import json
from pathlib import Path
from typing import NamedTuple

DAEMON_PORTS = ("slurmctld", "slurmdbd", "mariadbd", "n1", "n2", "m1", "c1")
LOGIN_NODE = "login"
PLAN_FILE = "plan.json"


class User(NamedTuple):
    """A user of the cluster; the first account is the default one."""

    name: str
    uid: int
    accounts: tuple[str, ...]


# Debian and its kin never hand out 58000 and up by themselves: adduser counts from 1000, systemd from 60000.
# A numeric account with a leading zero is what a university really has; many a program makes a number of it.
USERS = (User("alice", 58001, ("physics", "03303560")), User("bob", 58002, ("chem",)))


class Gpus(NamedTuple):
    """A gres.conf line's worth of fake GPUs."""

    kind: str
    number: int


class Node(NamedTuple):
    """A slurmd. Its own loopback address keeps `is this host me?` tests (torchrun has one) honest."""

    name: str
    address: str
    cpus: int
    memory: int
    features: str
    gpus: tuple[Gpus, ...] = ()


NODES = (
    Node("n1", "127.0.71.1", 32, 64000, "a100,nvlink", (Gpus("a100", 4),)),
    Node("n2", "127.0.71.2", 32, 64000, "a100,nvlink", (Gpus("a100", 4),)),
    Node("m1", "127.0.71.3", 16, 64000, "a100,mig", (Gpus("1g.10gb", 4), Gpus("a100_3g.20gb", 2))),
    Node("c1", "127.0.71.4", 16, 64000, "cpuonly"),
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """One cluster. `image` is the root of the distribution that Slurm comes from; None is the host itself."""

    folder: Path
    version: str
    image: Path | None
    ports: dict[str, int]
    readable: tuple[Path, ...]  # folders outside that users must be able to read: checkout, virtual environment
    python: Path  # sys.base_prefix of the virtual environment's interpreter
    prefix: str | None = None  # of a Slurm built from source, without an image

    @property
    def etc(self) -> Path:
        """What the cluster sees as /etc/slurm."""
        return self.folder / "etc" / "slurm"

    @property
    def log(self) -> Path:
        """The daemons' logs."""
        return self.folder / "log"

    @property
    def run(self) -> Path:
        """Pid files."""
        return self.folder / "run"

    @property
    def root(self) -> Path:
        """The root folder of everything that runs in the cluster, as its init process sees it."""
        return self.folder / "root" if self.image else Path("/")

    @property
    def munge_socket(self) -> Path:
        """Munge's socket, as the init process sees it. Not every client can be told of another place."""
        return self.inside("/run/munge/munge.socket.2")

    @property
    def database_socket(self) -> Path:
        """The database's socket."""
        return self.folder / "database" / "socket"

    def home(self, user: str) -> Path:
        """The home folder of a user of the cluster."""
        return self.folder / "home" / user

    def inside(self, path: str) -> Path:
        """Where the init process finds the cluster's absolute `path`."""
        return self.root / path.lstrip("/")

    def write(self) -> None:
        """Leave the plan in the folder for the init process."""
        fields = dataclasses.asdict(self)
        (self.folder / PLAN_FILE).write_text(json.dumps(fields, default=str))

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        """The plan that `write` left."""
        fields = json.loads((folder / PLAN_FILE).read_text())
        return cls(
            folder=Path(fields["folder"]),
            version=fields["version"],
            image=Path(fields["image"]) if fields["image"] else None,
            ports=fields["ports"],
            readable=tuple(Path(path) for path in fields["readable"]),
            python=Path(fields["python"]),
            prefix=fields["prefix"],
        )

"""The texts of the configuration files."""

from collections.abc import Iterable, Iterator

from tests.testbed.plan import LOGIN_NODE, NODES, USERS, Node, Plan

CLUSTER_NAME = "testbed"


def slurm_conf(plan: Plan) -> str:
    """slurm.conf: short intervals, so that tests wait for work and not for timers."""
    types = sorted({gpus.kind for node in NODES for gpus in node.gpus})
    tracked = ",".join(["gres/gpu", *(f"gres/gpu:{kind}" for kind in types), "license/matlab"])
    lines = f"""
ClusterName={CLUSTER_NAME}
SlurmctldHost={LOGIN_NODE}(127.0.0.1)
SlurmctldPort={plan.ports["slurmctld"]}
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation={plan.folder}/state
SlurmdSpoolDir={plan.folder}/spool/%n
SlurmctldPidFile={plan.run}/slurmctld.pid
SlurmdPidFile={plan.run}/slurmd-%n.pid
MailProg=/bin/true

# works wherever the kernel does; a cgroup tree may be read-only in a container
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5

SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityWeightQOS=10000
PriorityWeightAge=1000
# nothing preempts until a test gives a partition a higher PriorityTier
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
# without a default a job takes a node's whole memory, and no second job fits
DefMemPerCPU=1000

# nodes claim more CPUs than the machine has; without this they come up as invalid
SlurmdParameters=config_overrides
GresTypes=gpu
Licenses=matlab:10

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={LOGIN_NODE}
AccountingStoragePort={plan.ports["slurmdbd"]}
AccountingStorageTRES={tracked}
AccountingStorageEnforce=associations,limits,qos
JobCompType=jobcomp/none

JobRequeue=1
KillWait=5
# a test reads `scontrol show job` long after the job's end
MinJobAge=3600
InactiveLimit=30
MessageTimeout=10
SlurmctldTimeout=30
SlurmdTimeout=30
ReturnToService=2
SlurmctldDebug=verbose
SlurmdDebug=verbose
"""
    return lines.lstrip() + "\n".join([*_nodes(plan), *_partitions(), ""])


def _nodes(plan: Plan) -> Iterator[str]:
    for node in NODES:
        gres = ",".join(f"gpu:{gpus.kind}:{gpus.number}" for gpus in node.gpus)
        yield (
            f"NodeName={node.name} NodeHostname={node.name} NodeAddr={node.address} Port={plan.ports[node.name]}"
            f" CPUs={node.cpus} Sockets=2 CoresPerSocket={node.cpus // 2} ThreadsPerCore=1"
            f" RealMemory={node.memory} Feature={node.features} State=UNKNOWN" + (f" Gres={gres}" if gres else "")
        )


def _partitions() -> Iterator[str]:
    yield "PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=2-00:00:00 DefaultTime=10 State=UP"
    yield "PartitionName=short Nodes=n1,n2 MaxTime=30 DefaultTime=10 State=UP"
    yield "PartitionName=mig Nodes=m1 MaxTime=1-00:00:00 DefaultTime=10 State=UP"
    yield "PartitionName=cpu Nodes=c1 MaxTime=1-00:00:00 DefaultTime=10 State=UP"
    # YAML 1.1 reads a bare `no` as false
    yield "PartitionName=no Nodes=n1 MaxTime=1-00:00:00 DefaultTime=10 State=UP"
    yield "PartitionName=all Nodes=n1,n2,m1,c1 MaxTime=1-00:00:00 DefaultTime=10 State=UP"


def gpu_files(plan: Plan, node: Node) -> list[str]:
    """The device files of a node, in the order of its gres."""
    total = sum(gpus.number for gpus in node.gpus)
    return [f"{plan.folder}/dev/{node.name}/nvidia{index}" for index in range(total)]


def gres_conf(plan: Plan) -> str:
    """gres.conf: one line per GPU type of a node."""
    lines = ["AutoDetect=off"]  # a GPU of the machine is not the cluster's
    for node in NODES:
        first = 0
        for gpus in node.gpus:
            last = first + gpus.number - 1
            device = f"{plan.folder}/dev/{node.name}/nvidia[{first}-{last}]"
            lines.append(f"NodeName={node.name} Name=gpu Type={gpus.kind} File={device}")
            first = last + 1
    return "\n".join([*lines, ""])


def cgroup_conf(plan: Plan) -> str:
    """cgroup.conf: a slurmd of 23.11 and later looks for cgroups even when no plugin asks for them."""
    version = tuple(int(part) for part in plan.version.split("."))
    return "CgroupPlugin=disabled\n" if version >= (23, 11) else ""


def slurmdbd_conf(plan: Plan, password: str) -> str:
    """slurmdbd.conf."""
    return f"""AuthType=auth/munge
DbdHost={LOGIN_NODE}
DbdAddr=127.0.0.1
DbdPort={plan.ports["slurmdbd"]}
SlurmUser=slurm
PidFile={plan.run}/slurmdbd.pid
DebugLevel=verbose
MessageTimeout=10
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={plan.ports["mariadbd"]}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm_acct_db
"""


def database_setup(password: str) -> str:
    """The statements that mariadbd runs when it starts; each must stand on one line."""
    return f"""CREATE DATABASE slurm_acct_db;
CREATE USER slurm@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';
"""


def passwd(original: str, plan: Plan) -> str:
    """`original` and the cluster's users."""
    return _extended(original, [f"{u.name}:x:{u.uid}:{u.uid}::{plan.home(u.name)}:/bin/bash" for u in USERS])


def group(original: str) -> str:
    """`original` and a group of its own for each of the cluster's users."""
    return _extended(original, [f"{u.name}:x:{u.uid}:" for u in USERS])


def hosts(original: str) -> str:
    """The cluster's names first, so that they win over the machine's own."""
    # the first name of an address is the one that Slurm shows, in AllocNode for one
    lines = [f"127.0.0.1 {LOGIN_NODE} localhost", *(f"{node.address} {node.name}" for node in NODES)]
    return "\n".join([*lines, original])


def _extended(original: str, lines: Iterable[str]) -> str:
    names = {user.name for user in USERS}
    ids = {str(user.uid) for user in USERS}
    entries = (line.split(":") for line in original.splitlines() if line.count(":") >= 3)
    # an entry of the machine that has a name or number of ours would be found first: it has to give way
    kept = [":".join(entry) for entry in entries if entry[0] not in names and entry[2] not in ids]
    return "\n".join([*kept, *lines, ""])


def accounting_commands() -> Iterator[list[str]]:
    """The sacctmgr commands that fill an empty database."""
    yield ["add", "cluster", CLUSTER_NAME]
    yield ["add", "qos", "high", "priority=1000"]
    accounts = sorted({account for user in USERS for account in user.accounts})
    yield [
        "add",
        "account",
        ",".join(accounts),
        f"cluster={CLUSTER_NAME}",
        "qos=normal,high",
        "defaultqos=normal",
    ]
    for user in USERS:
        yield [
            *("add", "user", user.name, f"account={','.join(user.accounts)}"),
            *(f"defaultaccount={user.accounts[0]}", f"cluster={CLUSTER_NAME}"),
        ]

"""Items of the checklist about names: do they exist on this cluster, and may this user use them."""

from slurmgpu.experiment.cluster import Partition
from slurmgpu.experiment.constraint import feature_names, matches
from slurmgpu.experiment.facts import FAIL, NO_PARTITION, OK, SKIP, WARN, Facts, Finding, known


def partition(facts: Facts) -> Finding:
    """Exists, is up, and takes jobs of this user, account and QOS."""
    cluster = facts.cluster
    for name in facts.request.partitions:
        if name not in cluster.partitions:
            return facts.fail("partition", f"no partition {name!r}; {known(name, list(cluster.partitions))}")
    if not facts.partitions:
        return Finding(FAIL, "none asked for, and the cluster has no default partition; name one")
    closed = [reason for one in facts.partitions if (reason := _why_closed(facts, one))]
    if len(closed) == len(facts.partitions):
        return facts.fail("partition", "; ".join(closed))
    if closed:
        return Finding(WARN, "; ".join(closed), facts.place("partition"))
    names = ", ".join(one.name for one in facts.partitions)
    return Finding(OK, names if facts.request.partitions else f"{names}, the default")


def _why_closed(facts: Facts, one: Partition) -> str | None:
    account, qos = facts.account, facts.request.text("qos")
    if one.state not in ("UP", "DRAIN"):
        return f"{one.name} is {one.state}: jobs wait until an admin opens it"
    if one.state == "DRAIN":
        return f"{one.name} is draining and takes no new jobs"
    if one.is_root_only and facts.cluster.user != "root":
        return f"{one.name} is for root only"
    if one.allow_groups is not None and not facts.groups & set(one.allow_groups):
        return f"{one.name} is for the groups {', '.join(one.allow_groups)}; you are in none of them"
    if account is not None and one.allow_accounts is not None and account not in one.allow_accounts:
        return f"{one.name} is for the accounts {', '.join(one.allow_accounts)}, not {account}"
    if account is not None and one.allow_accounts is None and account in one.deny_accounts:
        return f"{one.name} is closed for account {account}"
    if qos is not None and one.allow_qos is not None and qos not in one.allow_qos:
        return f"{one.name} takes the QOS {', '.join(one.allow_qos)}, not {qos}"
    if qos is not None and one.allow_qos is None and qos in one.deny_qos:
        return f"{one.name} is closed for QOS {qos}"
    if one.needs_reservation and facts.request.text("reservation") is None:
        return f"{one.name} takes jobs of a reservation only"
    return None


def account(facts: Facts) -> Finding:
    """Exists for this user, in one of the partitions asked for."""
    cluster, asked = facts.cluster, facts.request.text("account")
    if cluster.associations is None:
        return Finding(SKIP, "this cluster keeps no accounts, or does not show them")
    enforced = bool(cluster.enforce & {"associations", "limits", "qos", "safe", "wckeys", "all"})
    mine = sorted({one.account for one in cluster.associations})
    if not mine:
        status = FAIL if enforced else WARN
        return Finding(status, f"{cluster.user} has no account on cluster {cluster.name}; ask an admin for one")
    if facts.account is None:
        return Finding(WARN, f"none asked for and no default; one of {', '.join(mine)}")
    if facts.account not in mine:
        message = f"{asked!r} is no account of {cluster.user}; {known(facts.account, mine)}"
        if enforced:
            return facts.fail("account", message)
        return Finding(WARN, f"{message} (not enforced here: the job would run uncounted)", facts.place("account"))
    places = {one.partition for one in cluster.associations if one.account == facts.account}
    wanted = {one.name for one in facts.partitions}
    if None not in places and not places & wanted:
        there = ", ".join(sorted(filter(None, places)))
        return facts.fail("account", f"{facts.account} may use {there} only, not {', '.join(sorted(wanted))}")
    return Finding(OK, facts.account if asked else f"{facts.account}, the default")


def qos(facts: Facts) -> Finding:
    """Exists, and belongs to the account."""
    asked = facts.request.text("qos")
    if asked is None:
        return Finding(OK, "the default")
    if facts.cluster.qos is None:
        return Finding(SKIP, "this cluster keeps no QOS, or does not show them")
    # of an account that is not the user's the item above has spoken
    allowed = (facts.allowed_qos or {}).get(facts.account or "")
    for name in asked.lower().split(","):
        if name not in facts.cluster.qos:
            return facts.fail("qos", f"no QOS {name!r}; {known(name, allowed or list(facts.cluster.qos))}")
        if allowed is not None and name not in allowed:
            message = f"{name} is not among the QOS of account {facts.account}: {', '.join(allowed) or 'none'}"
            if facts.cluster.enforce & {"qos", "all"}:
                return facts.fail("qos", message)
            return Finding(WARN, f"{message} (not enforced here)", facts.place("qos"))
    return Finding(OK, asked)


def reservation(facts: Facts) -> Finding:
    """Exists, is not over, and is this user's."""
    asked = facts.request.text("reservation")
    if asked is None:
        return Finding(OK, "none asked for")
    for name in asked.split(","):
        found = facts.cluster.reservations.get(name)
        if found is None:
            return facts.fail(
                "reservation", f"no reservation {name!r}; {known(name, list(facts.cluster.reservations))}"
            )
        user, mine = facts.cluster.user, {one.account for one in facts.cluster.associations or []}
        by_user = _is_named(found.users, {user})
        by_account = _is_named(found.accounts, mine)
        if by_user is False or (by_account is False and not by_user):
            whose = ", ".join([*(found.users or []), *(found.accounts or [])])
            return facts.fail("reservation", f"{name} is for {whose}, not for {user}")
        if found.partition and facts.request.partitions and found.partition not in facts.request.partitions:
            return facts.fail("reservation", f"{name} lies in partition {found.partition}; ask for that one")
    return Finding(OK, asked)


def _is_named(names: list[str] | None, mine: set[str]) -> bool | None:
    """Whether a list of names, or of `-` and names that are shut out, lets one of mine in; None for no list."""
    if not names:
        return None
    shut_out = {name[1:] for name in names if name.startswith("-")}
    return not mine & shut_out if shut_out else bool(mine & set(names))


def features(facts: Facts) -> Finding:
    """Every feature of --constraint is on some node of the partition."""
    constraint = facts.request.text("constraint")
    if not constraint:
        return Finding(OK, "none asked for")
    if not facts.partitions:
        return NO_PARTITION
    nodes = [node for one in facts.partitions for node in facts.cluster.nodes_of(one.name)]
    there = {feature for node in nodes for feature in node.features}
    for name in feature_names(constraint):
        if name not in there:
            elsewhere = any(name in node.features for node in facts.cluster.nodes)
            where = "in this partition" if elsewhere else "on this cluster"
            return facts.fail("constraint", f"no node {where} has the feature {name!r}; {known(name, sorted(there))}")
    try:
        count = sum(matches(constraint, node.features) for node in nodes)
    except ValueError as error:
        return facts.fail("constraint", str(error))
    if not count:
        return facts.fail("constraint", f"no node has {constraint} all at once")
    return Finding(OK, f"{constraint}: {count} of {len(nodes)} nodes")


def gres(facts: Facts) -> Finding:
    """Every resource and GPU type is on some node of the partition."""
    nodes = [node for one in facts.partitions for node in facts.cluster.nodes_of(one.name)]
    asked = [*facts.request.gres, *([facts.request.gpus_total] if facts.request.gpus_total else [])]
    if not asked:
        return Finding(OK, "none asked for")
    if not facts.partitions:
        return NO_PARTITION
    for one in asked:
        there = sorted({name for node in nodes for name in node.gres})
        option = next(
            (name for name in ("gpus-per-node", "gpus-per-task", "gpus") if name in facts.request.given), "gres"
        )
        if one.name not in there:
            if one.name == "gpu":
                names = ", ".join(part.name for part in facts.partitions)
                return facts.fail(option, f"no node of partition {names} has GPUs; {_where_gpus(facts)}")
            return facts.fail("gres", f"no resource {one.name!r}; {known(one.name, there)}")
        kinds = sorted({kind for node in nodes for kind in node.gres.get(one.name, {}) if kind})
        if one.kind and one.kind not in kinds:
            option = "gpu_type" if "gpu_type" in facts.places else option
            return facts.fail(option, f"no {one.name} type {one.kind!r}, spelled exactly; {known(one.kind, kinds)}")
    return Finding(OK, ", ".join(map(str, asked)))


def _where_gpus(facts: Facts) -> str:
    names = sorted({name for node in facts.cluster.nodes if node.gpus for name in node.partitions})
    return f"there are some in {', '.join(names)}" if names else "the cluster has none"

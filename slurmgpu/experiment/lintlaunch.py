"""The rules of `lint` about how a script starts its program: launchers, signals, ports, several steps at once."""

import re
from collections.abc import Iterator

from slurmgpu.experiment.finding import Rule
from slurmgpu.experiment.steps import Body

# position in the script, message, fix
Spot = tuple[int, str, str]

_OF_A_TASK = frozenset({"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"})
_NPROC = re.compile(
    r"--nproc[-_]per[-_]node[= ]\$\{?(SLURM_GPUS_PER_NODE|SLURM_GPUS_PER_TASK|SLURM_NTASKS_PER_NODE)\b(?!\W*[#%])"
)
_PORTS = re.compile(r"--master[-_]port[= ](\d+)|--rdzv[-_]endpoint[= ]\S*:(\d+)|tcp://[^\s'\"]*:(\d+)")
_RDZV_ID = re.compile(r"--rdzv[-_]id[= ]([\w.-]+)(?=\s|$)")
_FORMULA = re.compile(r"\(\(\s*\(?\s*(?:(\d+)\s*\+\s*)?\(?[^%()+]*%\s*(\d+)\s*\)?\s*(?:\+\s*(\d+)\s*)?\)?\s*\)\)")
_LOCAL = re.compile(r"(?:\|\|\s*echo\s+|:-)[\"']?(localhost|127\.0\.0\.1)|^[\"']?(localhost|127\.0\.0\.1)[\"']?$")
_EPHEMERAL = 32768  # ip(7), the first port that the kernel gives away


def several_launchers(body: Body) -> Iterator[Spot]:
    """One torchrun a node."""
    for step in body.steps:
        tasks = body.tasks_per_node(step)
        if step.is_srun and step.is_torchrun and tasks > 1:
            message = f"srun starts {tasks} launchers on each node, and each starts all the ranks"
            yield step.start, message, "--ntasks-per-node=1, and the number of ranks with --nproc-per-node"


def first_node_only(body: Body) -> Iterator[Spot]:
    """A launcher of several nodes runs on each."""
    helped = any(step.is_srun for step in body.steps) or re.search(
        r"\b(p?ssh|pdsh|clush|mpirun|mpiexec)\b", body.text
    )
    for step in body.steps:
        if body.nodes > 1 and not helped and step.is_torchrun:
            message = f"the batch script runs on the first of {body.nodes} nodes only, so the others have no launcher"
            yield step.start, message, f"srun --nodes={body.nodes} --ntasks-per-node=1 before it"


def forgotten_cpus(body: Body) -> Iterator[Spot]:
    """srun of some versions does not know the header's CPUs."""
    if "cpus-per-task" not in body.request.given or "SRUN_CPUS_PER_TASK" in body.text:
        return
    for step in body.steps:
        if step.is_srun and "cpus-per-task" not in step.options and step.program:
            message = "srun of Slurm 22.05 to 23.02 does not take --cpus-per-task from the header: one CPU a task"
            yield step.start, message, 'srun --cpus-per-task="$SLURM_CPUS_PER_TASK"'


def expanded_too_early(body: Body) -> Iterator[Spot]:
    """A task's variables are expanded in the task."""
    fix = "srun ... bash -c '... $NAME ...' in single quotes, or a script that srun starts"
    has_step = False
    for step in body.steps:
        has_step = has_step or step.is_srun
        if step.is_srun:
            spots = [use for word in step.program for use in word.uses] + list(step.command.heredoc)
            for use in spots:
                if use.name in _OF_A_TASK:
                    message = f"the batch script expands ${use.name} before srun starts: every task gets the same"
                    yield use.start, message, fix.replace("NAME", use.name)
    if has_step:
        for command, word in body.assigned():
            for use in word.uses:
                if use.name in _OF_A_TASK and not (command.words and command.name == "srun"):
                    message = f"the batch script sets {word.assigned} from its own ${use.name}, which is 0"
                    yield use.start, message, fix.replace("NAME", use.name)


def ranks_from_the_header(body: Body) -> Iterator[Spot]:
    """The number of GPUs on the node."""
    gpus = body.request.text("gpus-per-node") or ""
    for step in body.steps:
        match = _NPROC.search(step.text)
        if not match or (match[1] == "SLURM_GPUS_PER_NODE" and gpus.isdigit()):
            continue
        if match[1] == "SLURM_NTASKS_PER_NODE":
            message = "$SLURM_NTASKS_PER_NODE counts tasks of Slurm, and a launcher is one task a node"
        else:
            message = f"${match[1]} is not set, or holds a type (h100:4), unless the header has --gpus-per-node=N"
        yield step.start, message, '--nproc-per-node="$SLURM_GPUS_ON_NODE" inside of the task, or the number'


def _warning(body: Body) -> tuple[str, bool]:
    """The signal of --signal, and whether it goes to the batch shell."""
    value = (body.request.text("signal") or "").upper()
    flags, colon, rest = value.rpartition(":")
    return rest.partition("@")[0].removeprefix("SIG"), "B" in flags if colon else False


def _traps(body: Body, signal: str) -> list[int]:
    names = {
        signal,
        f"SIG{signal}",
        {"USR1": "10", "USR2": "12", "TERM": "15", "INT": "2", "HUP": "1"}.get(signal, signal),
    }
    return [
        command.start
        for command in body.named("trap")
        if names & {word.text.upper() for word in command.words[2:]}
        or (names & {word.text for word in command.words[2:]})
    ]


def trap_behind_step(body: Body) -> Iterator[Spot]:
    """bash runs a trap when the command in the foreground has ended."""
    signal, to_batch = _warning(body)
    traps = _traps(body, signal) if to_batch else []
    for step in body.steps:
        is_late = traps and min(traps) < step.start
        if is_late and not step.is_background and not any(group.function for group in step.command.groups()):
            message = f"bash runs the trap of {signal} only after this has ended, which the time limit then does"
            yield step.start, message, "put & behind it, and `wait` in the next line"
            return


def no_trap(body: Body) -> Iterator[Spot]:
    """The batch shell dies of a signal that it does not catch."""
    signal, to_batch = _warning(body)
    if to_batch and signal and not _traps(body, signal):
        if any(command.name == "exec" and command.words[1:] for command in body.commands):
            return
        line = body.request.given["signal"].line
        start = sum(len(text) + 1 for text in body.text.split("\n")[: line - 1])
        message = f"{signal} goes to the batch shell, which has no trap for it and dies"
        yield start, message, f"trap '...' {signal}, then `srun ... &` and `wait`"


def signal_to_launcher(body: Body) -> Iterator[Spot]:
    """torchrun's agents die of a signal that they do not know."""
    signal, to_batch = _warning(body)
    for step in body.steps:
        if signal and not to_batch and signal != "TERM" and step.is_srun and step.is_torchrun:
            message = (
                f"--signal={signal} goes to the tasks, which are launchers: they die of it, and the ranks with them"
            )
            yield step.start, message, f"--signal=B:{signal}@..., and a trap that tells the ranks by a file"
            return


def fixed_port(body: Body) -> Iterator[Spot]:
    """Two jobs on a node, two ports."""
    if body.request.is_exclusive:
        return
    fix = "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"
    for _, word in body.assigned():
        if word.assigned in ("MASTER_PORT", "PORT") and word.value.isdigit() and word.value != "0":
            yield word.start, f"port {word.value} is every job's: a second one on the node cannot listen", fix
    for step in body.steps:
        match = _PORTS.search(step.text)
        port = next(filter(None, match.groups()), None) if match else None
        if port and port != "0":
            yield step.start, f"port {port} is every job's: a second one on the node cannot listen", fix


def default_port(body: Body) -> Iterator[Spot]:
    """Alone on a node a launcher needs a port too."""
    for step in body.steps:
        is_alone = (
            "accelerate" not in step.text
            and re.search(r"--nnodes[= ](?!1(?:\s|$))", step.text) is None
            and body.nodes == 1
        )
        has_port = re.search(r"--standalone|[-_]port|[-_]endpoint|127\.0\.0\.1|localhost", step.text)
        if (
            is_alone
            and step.is_torchrun
            and not has_port
            and not body.request.is_exclusive
            and "PORT" not in body.text
        ):
            yield (
                step.start,
                "without --standalone the launcher takes port 29500, as that of every job",
                "--standalone",
            )


def fixed_id(body: Body) -> Iterator[Spot]:
    """A rendezvous of each job."""
    for step in body.steps:
        if match := _RDZV_ID.search(step.text):
            message = f"the rendezvous id {match[1]!r} is the same for every job"
            yield step.start, message, '--rdzv-id="$SLURM_JOB_ID"'


def port_out_of_range(body: Body) -> Iterator[Spot]:
    """Ports that are nobody's."""
    for _, word in body.assigned():
        if "PORT" not in (word.assigned or "") or not (match := _FORMULA.search(word.value)):
            continue
        first = int((match[1] or match[3] or "0")[:9])
        last = first + int(match[2][:9]) - 1
        if first < 1024 or last >= _EPHEMERAL:
            what = (
                "well-known ports"
                if first < 1024
                else f"ports from {_EPHEMERAL} on, which the kernel gives to anybody"
            )
            message = f"{word.assigned} can be {first} to {last}, with {what}"
            yield word.start, message, "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"


def local_head(body: Body) -> Iterator[Spot]:
    """The head node has a name that the others know."""
    fix = 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    for _, word in body.assigned():
        match = _LOCAL.search(word.value) if word.assigned == "MASTER_ADDR" else None
        if match and (match[1] or body.nodes > 1):
            where = match[1] or match[2]
            yield word.start, f"with {where} every node is its own head, and waits for ranks that do not come", fix


def hidden_by_pipe(body: Body) -> Iterator[Spot]:
    """A pipe has the exit code of its last command."""
    if body.sets("pipefail") or "PIPESTATUS" in body.text:
        return
    for step in body.steps:
        if step.command.after in ("|", "|&"):
            yield step.start, "the pipe hides the exit code: a failed program is a job COMPLETED", "set -o pipefail"


def eats_the_list(body: Body) -> Iterator[Spot]:
    """A step reads stdin."""
    for step in body.steps:
        is_read = any(group.kind == "loop" and group.reads for group in step.command.groups())
        has_own = "input" in step.options or any(one.operator.startswith("<") for one in step.command.redirects)
        if step.is_srun and is_read and not has_own and step.command.part == "body":
            yield (
                step.start,
                "srun reads the loop's list as its stdin: the loop ends after one line",
                "srun --input=none",
            )


def waits_for_the_other(body: Body) -> Iterator[Spot]:
    """Steps at the same time share the job by agreement only."""
    apart = {"exact", "overlap", "exclusive", "nodelist", "relative", "jobid", "het-group"}
    steps = [step for step in body.steps if step.is_srun and step.is_background and not apart & step.options.keys()]
    loops = [step for step in steps if any(group.kind == "loop" for group in step.command.groups())]
    for step in steps[1:] or loops:
        message = "a step takes all of the job that it can get, and this one waits until the other has ended"
        yield step.start, message, "--exact with its own --ntasks, --cpus-per-task, --gpus and --mem"
        return


def nobody_waits(body: Body) -> Iterator[Spot]:
    """The job ends with the script."""
    if not body.steps or not body.steps[-1].is_background:
        return
    last = body.steps[-1]
    waits = any(command.name in ("wait", "fg") and command.start > last.start for command in body.commands)
    if not waits and "wait" not in "".join(group.function for group in last.command.groups()):
        yield last.start, "nothing waits for this: the script ends, and the job with it", "`wait` at the end"


RULES = (
    (Rule("SG201", "several launchers a node", "Ranks are there many times over."), several_launchers),
    (Rule("SG202", "CPUs not on the srun line", "Data loaders share one CPU.", False), forgotten_cpus),
    (Rule("SG203", "expanded too early", "All ranks are rank 0."), expanded_too_early),
    (Rule("SG204", "ranks from the header", "The launcher cannot read it."), ranks_from_the_header),
    (Rule("SG205", "trap behind a step", "The checkpoint is never written."), trap_behind_step),
    (Rule("SG206", "signal without a trap", "The job ends early, by its own signal."), no_trap),
    (Rule("SG207", "signal to a launcher", "The warning ends the job that it was to save."), signal_to_launcher),
    (Rule("SG208", "fixed port", "Address already in use, or ranks of two jobs meet."), fixed_port),
    (Rule("SG209", "default port", "Two such jobs on a node collide.", False), default_port),
    (Rule("SG210", "fixed rendezvous id", "A restart meets what is left of the start before.", False), fixed_id),
    (Rule("SG211", "port out of range", "Some jobs fail, by their number."), port_out_of_range),
    (Rule("SG212", "head on every node", "The job hangs until its time limit."), local_head),
    (Rule("SG213", "exit code lost in a pipe", "Nobody sees that the program failed."), hidden_by_pipe),
    (Rule("SG214", "step in a read loop", "One line is done, the others are not."), eats_the_list),
    (Rule("SG215", "steps one after the other", "Step creation temporarily disabled."), waits_for_the_other),
    (Rule("SG216", "background without wait", "The program is killed as it starts."), nobody_waits),
    (Rule("SG227", "launcher on the first node only", "It waits for the others until it gives up."), first_node_only),
)  # fmt: skip

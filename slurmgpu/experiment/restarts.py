"""How a job with a `checkpoint:` block is warned, ends and starts again, settled for the script."""

import os

from slurmgpu.experiment.allocation import Allocation, Refuse
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.paths import Paths, Place, absolute
from slurmgpu.experiment.profile import Profile
from slurmgpu.experiment.program import quoted
from slurmgpu.experiment.spec import Spec


class Restarts(Fields):
    """What the template sees as `job.restarts`.

    signal       the warning's name, without SIG
    lead_time_s  how long before the time limit the program is to save
    is_relayed   whether the program gets the signal too: where srun starts it itself
    resume_args  quoted for bash, behind the command from the second start on
    most         starts after the first
    folder       where the flag files are; every node sees it
    """

    signal: str
    lead_time_s: int
    is_relayed: bool
    resume_args: str
    most: int
    folder: str


def restarts(
    spec: Spec, job: Allocation, profile: Profile, where_to: Paths, refuse: Refuse, here: Place
) -> Restarts | None:
    """The restarts of a spec, or None. Flag files stand beside the log; in chdir where its folder is a pattern."""
    block = spec.checkpoint
    if block is None:
        return None
    beside = os.path.dirname(where_to.output)
    runtime = (spec.container.runtime or profile.container_runtime) if spec.container else None
    nearby = where_to.chdir if "%" in beside else beside
    return Restarts(
        signal=block.signal,
        lead_time_s=block.lead_time,
        # apptainer and docker stand between srun and the program
        is_relayed=job.launcher in ("srun", "python") and runtime in (None, "pyxis"),
        resume_args=quoted(block.resume_args, spec.sweep),
        most=block.max_restarts,
        folder=absolute("checkpoint", block.folder, here, refuse) if block.folder else nearby,
    )

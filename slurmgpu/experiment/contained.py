"""The container of a job, settled: what its runtime gets on each node, which variables win over the image's."""

from slurmgpu.experiment.allocation import Allocation, Refuse
from slurmgpu.experiment.container import Container, image_for, is_file
from slurmgpu.experiment.fields import Fields
from slurmgpu.experiment.paths import Place, absolute
from slurmgpu.experiment.profile import Profile
from slurmgpu.experiment.spec import Spec

Mount = tuple[str, str, str]


class Contained(Fields):
    """A job's container as the template sees it.

    runtime     pyxis, apptainer or docker
    words       what the runtime gets on every node, the image last; for pyxis what srun gets
    variables   names whose values win over the image's
    needs_gpus  whether GPUs are to be seen inside
    """

    runtime: str
    words: list[str]
    variables: list[str]
    needs_gpus: bool


def contained(
    spec: Spec,
    job: Allocation,
    profile: Profile,
    env: dict[str, str],
    folders: list[str],
    here: Place,
    refuse: Refuse,
) -> Contained | None:
    """The container of a spec, or None. `folders` are of the node and must be seen inside, the first to work in."""
    block = spec.container
    if block is None:
        return None
    runtime = block.runtime or profile.container_runtime
    if runtime is None:
        refuse("container", "needs `runtime`: pyxis, apptainer or docker (or container_runtime in the profile)")
        return None
    image = _image(block, runtime, here, refuse)
    mounts = _mounts(block, folders, here, refuse)
    workdir = block.workdir or folders[0]
    gpus = bool(job.gpus_per_node)
    variables = _variables(spec, env)
    bound = [f"{source}:{target}:{flag}" if flag else f"{source}:{target}" for source, target, flag in mounts]
    if runtime == "pyxis":
        words = [f"--container-image={image}", f"--container-mounts={','.join(bound)}"]
        words += [f"--container-workdir={workdir}", f"--container-env={','.join(variables)}", *block.args]
    elif runtime == "apptainer":
        words = [*(["--nv"] if gpus else []), *(f"--bind={one}" for one in bound), f"--pwd={workdir}"]
        words += [*block.args, image]
    else:
        words = [*(f"--volume={one}" for one in bound), f"--workdir={workdir}", *block.args, image]
    return Contained(runtime=runtime, words=words, variables=variables, needs_gpus=gpus)


def _image(block: Container, runtime: str, here: Place, refuse: Refuse) -> str:
    image = block.image
    if is_file(image):
        if runtime == "docker":
            refuse("container", f"image {image!r} is a file, and docker runs images of a registry or its own store")
        return absolute("container", image, here, refuse)
    try:
        return image_for(runtime, image)
    except ValueError as error:
        refuse("container", f"image {error}")
        return image


def _mounts(block: Container, folders: list[str], here: Place, refuse: Refuse) -> list[Mount]:
    """The mounts, sources absolute; the job's own folders come first, unless a mount stands for them."""
    found: list[Mount] = []
    for source, target, flag in block.mounts:
        path = absolute("container", source, here, refuse)
        found.append((path, target or path, flag))
    targets = {target for _, target, _ in found}
    own: list[Mount] = [(folder, folder, "") for folder in dict.fromkeys(folders) if folder not in targets]
    for source, _, _ in (*own, *found):
        if set(source) & set(":,"):
            refuse("container", f"cannot mount {source!r}: runtimes split at `:` and `,`")
    return [*own, *found]


def _variables(spec: Spec, env: dict[str, str]) -> list[str]:
    """The names that must reach the program as the spec and the launcher mean them."""
    launcher = ("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    return list(dict.fromkeys([*env, *spec.secrets, *launcher]))

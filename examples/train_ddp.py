"""A data-parallel training script to copy: one process, torchrun, or ranks started by srun; CPU or GPU.

Replace build_dataset() and build_model() by your own. To run it:

    python train_ddp.py                                        one process
    torchrun --standalone --nproc-per-node=4 train_ddp.py      four ranks on one machine
    srun torchrun ... train_ddp.py                             several nodes, one torchrun on each
    srun python train_ddp.py                                   one task per rank, RANK_VARIABLES set
"""

import argparse
import contextlib
import io
import itertools
import os
import random
import sys
import traceback

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

try:
    import numpy as np
except ImportError:  # torch works without it
    np = None

RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
AMP_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
SAMPLES, FEATURES = 512, 16


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--epochs", type=int, default=3, help="passes over the data (default: 3)")
    add("--batch-size", type=int, default=16, help="samples per rank and micro-step (default: 16)")
    add("--accumulate", type=int, default=1, metavar="N", help="micro-steps per optimiser step (default: 1)")
    add("--lr", type=float, default=1e-2, help="learning rate (default: 0.01)")
    add("--dropout", type=float, default=0.1, help="dropout of the model (default: 0.1)")
    add("--clip", type=float, default=1.0, help="largest gradient norm, 0: no clipping (default: 1)")
    add("--seed", type=int, default=0, help="of the data, the weights, each rank's dropout (default: 0)")
    add("--amp", choices=("off", *AMP_TYPES), default="off", help="mixed precision; fp16 needs a GPU")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help="cuda fails where no GPU is seen")
    add("--checkpoint", metavar="PATH", help="written after each epoch, whole or not at all")
    add("--resume", action="store_true", help="go on from --checkpoint if that file exists")
    add("--fail-rank", type=int, metavar="R", help="this rank exits in the first epoch, to test failures")
    add("--fail-code", type=int, default=1, metavar="C", help="with this exit code (default: 1)")
    args = parser.parse_args(argv)
    if min(args.epochs, args.batch_size, args.accumulate) < 1:
        parser.error("--epochs, --batch-size and --accumulate must be at least 1")
    if args.resume and not args.checkpoint:
        parser.error("--resume needs --checkpoint PATH")
    return args


def rank_from_environment():  # (rank, local rank, world size), or None to run as one process
    missing = [name for name in RANK_VARIABLES if name not in os.environ]
    if not missing:
        return tuple(int(os.environ[name]) for name in RANK_VARIABLES[:3])
    if "RANK" in os.environ or "WORLD_SIZE" in os.environ:
        raise SystemExit(f"train_ddp: this is a rank of several, but {', '.join(missing)} not set")
    # Otherwise every task would train alone, and all of them overwrite one checkpoint.
    if int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        raise SystemExit("train_ddp: srun started several tasks, but RANK and WORLD_SIZE are not set")
    return None


def pick_device(wanted, local_rank):
    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if local_rank >= (visible := torch.cuda.device_count()):
        raise SystemExit(
            f"train_ddp: LOCAL_RANK {local_rank} needs {local_rank + 1} GPUs, this process sees {visible}."
            " If each task sees one GPU: ask for GPUs per node, do not bind them per task (--gpus-per-task)."
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)  # the CPU and every GPU
    if np is not None:
        np.random.seed(seed % 2**32)


def build_dataset(seed):  # the job's seed, not the rank's: the same data on every rank
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    targets = (inputs @ torch.randn(FEATURES, 1, generator=generator)).tanh()
    return TensorDataset(inputs, targets)


def build_model(dropout):
    nn = torch.nn
    return nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 1))


def rng_state(device):
    """Plain numbers and tensors only, so that the checkpoint loads with weights_only=True."""
    state = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if np is not None:
        name, keys, *rest = np.random.get_state()
        state["numpy"] = (name, keys.tolist(), *rest)
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_rng_state(state, device):
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if np is not None and "numpy" in state:
        np.random.set_state(state["numpy"])
    if device.type == "cuda" and "cuda" in state:  # not in a checkpoint from the CPU
        torch.cuda.set_rng_state(state["cuda"], device)


def gather(value):
    """`value` of every rank, in the order of ranks; sent as bytes, because all_gather_object needs NumPy."""
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    buffer = io.BytesIO()
    torch.save(value, buffer)
    sent = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8).to(device)
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([sent.numel()], device=device))
    padded = torch.zeros(int(max(sizes)), dtype=torch.uint8, device=device)
    padded[: sent.numel()] = sent
    received = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(received, padded)
    texts = [bytes(part[: int(size)].tolist()) for part, size in zip(received, sizes, strict=True)]
    return [torch.load(io.BytesIO(text), weights_only=True) for text in texts]


def save_checkpoint(path, epoch, parts, device):
    random_states = gather(rng_state(device))  # each rank draws its own numbers
    if dist.get_rank() != 0:
        return
    # Killed at any moment, `path` is the old checkpoint or the new one, never half of one.
    temporary = f"{path}.tmp"  # in the same folder: a rename across file systems would copy
    with open(temporary, "wb") as file:
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save(states | {"epoch": epoch, "rng": random_states}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load_checkpoint(path, parts, device):
    """Return the first epoch still to do: 0 where there is no checkpoint yet."""
    first = 0
    if os.path.exists(path):
        # To the CPU: RNG states belong there, and GPU 0 need not hold a copy for every rank.
        saved = torch.load(path, map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        if len(saved["rng"]) == dist.get_world_size():  # other ranks than then: keep the fresh seeds
            set_rng_state(saved["rng"][dist.get_rank()], device)
        first = saved["epoch"] + 1
    if len(set(gather(first))) > 1:
        raise SystemExit(f"train_ddp: the ranks do not see the same {path}: put it on a shared file system")
    return first


def summed_loss(model, batch, args, device):
    inputs, targets = (tensor.to(device) for tensor in batch)
    with torch.autocast(device.type, AMP_TYPES.get(args.amp), enabled=args.amp != "off"):
        outputs = model(inputs)
    return torch.nn.functional.mse_loss(outputs.float(), targets, reduction="sum")


def train_step(model, group, optimizer, scaler, args, device):
    # Divided by the samples of this very group: a short last batch or group weighs what it should.
    samples = sum(len(batch[0]) for batch in group)
    optimizer.zero_grad(set_to_none=True)
    for batch in group:
        # The ranks exchange gradients once per optimiser step, in the last backward().
        with contextlib.nullcontext() if batch is group[-1] else model.no_sync():
            scaler.scale(summed_loss(model, batch, args, device) / samples).backward()
    if args.clip:
        scaler.unscale_(optimizer)  # the norm is meant of the true gradients
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    scaler.step(optimizer)
    scaler.update()


@torch.no_grad()
def mean_loss(model, loader, args, device):  # over the samples of all ranks: the same number on each
    model.eval()
    total = torch.zeros(2, dtype=torch.float64, device=device)
    for batch in loader:
        total[0] += summed_loss(model.module, batch, args, device)
        total[1] += len(batch[0])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def common_checksum(model):
    """The sum of the parameters' bits; an error where the ranks' models have drifted apart."""
    bits = sum(p.detach().contiguous().view(torch.int32).sum() for p in model.parameters())
    if len(set(gather(bits.item()))) > 1:
        raise RuntimeError(f"rank {dist.get_rank()}: the ranks ended with different parameters")
    return bits.item()


def train(args, device):
    rank, world = dist.get_rank(), dist.get_world_size()
    seed_everything(args.seed + rank)
    dataset = build_dataset(args.seed)
    # Where the ranks do not divide the data, the sampler repeats samples to give each rank as many.
    sampler = DistributedSampler(dataset, seed=args.seed)
    loader = DataLoader(dataset, args.batch_size, sampler=sampler)
    model = build_model(args.dropout).to(device)
    model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler(device.type, enabled=args.amp == "fp16")  # disabled, it does nothing
    parts = {"model": model.module, "optimizer": optimizer, "scaler": scaler}
    first = load_checkpoint(args.checkpoint, parts, device) if args.resume else 0
    for epoch in range(first, args.epochs):
        model.train()
        sampler.set_epoch(epoch)  # else every epoch has the order of the first
        batches = iter(loader)
        while group := list(itertools.islice(batches, args.accumulate)):  # the last may be shorter
            train_step(model, group, optimizer, scaler, args, device)
            if epoch == 0 and rank == args.fail_rank:
                raise SystemExit(args.fail_code)
        if args.checkpoint:
            save_checkpoint(args.checkpoint, epoch, parts, device)

    # One write for each line: print() writes the newline apart, and the ranks' lines would run together.
    sys.stdout.write(f"rank {rank}/{world} all-reduced loss {mean_loss(model, loader, args, device):.6f}\n")
    checksum = common_checksum(model)
    if rank == 0:
        sys.stdout.write(f"epochs {first}-{args.epochs - 1} on {device}, parameter checksum {checksum}\n")
    dist.barrier()  # nobody leaves while another still gathers


@record  # torchrun shows the traceback of the rank that failed first
def main():
    args = parse_arguments()
    ranks = rank_from_environment()
    device = pick_device(args.device, local_rank=ranks[1] if ranks else 0)
    if args.amp == "fp16" and device.type == "cpu":
        raise SystemExit("train_ddp: --amp fp16 needs a GPU; on the CPU use --amp bf16")
    on_gpu = device.type == "cuda"
    options = {"device_id": device} if on_gpu else {}  # else NCCL guesses a device at the first collective
    if not ranks:  # one process is a group of one: no port, and no second way through the script
        options |= {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("nccl" if on_gpu else "gloo", **options)
    try:
        train(args, device)
    finally:
        dist.destroy_process_group()


def run():
    """main(), then out at once: while Python takes itself apart a thread of gloo's may still hold a tensor, and a
    process that has done all its work ends with SIGABRT now and then (seen with PyTorch 2.13)."""
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if code and not isinstance(stop.code, int):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()

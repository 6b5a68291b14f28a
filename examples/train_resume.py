"""Trains in steps, saves when the job is about to end, and goes on from there at the next start.

The least that `checkpoint:` needs of a program: `--resume last.pt` takes up a saved state if there is one, and
`should_stop()` is asked after every step. Runs as one process, under torchrun, as ranks of srun, on GPUs and CPUs.
With --record each step that was done is a line of that file.
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    from slurmgpu.job import resume
except ImportError:  # slurmgpu/job/resume.py, copied beside this file, does as well
    import resume


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--steps", type=int, default=100, help="optimiser steps in all (default: 100)")
    add("--step-time", type=float, default=0.0, metavar="S", help="least seconds of a step (default: 0)")
    add("--lr", type=float, default=0.05, help="learning rate (default: 0.05)")
    add("--save", metavar="PATH", default="last.pt", help="where the state goes (default: last.pt)")
    add("--resume", metavar="PATH", help="go on from this state if the file exists")
    add("--record", metavar="PATH", help="a line for each step")
    return parser.parse_args()


def stop_of_all_ranks(device):
    """Whether any rank has been told to stop: all must leave the loop after the same step."""
    answer = torch.tensor(float(resume.should_stop()), device=device)
    dist.all_reduce(answer, op=dist.ReduceOp.MAX)
    return bool(answer)


def save(path, step, model, optimizer):
    if dist.get_rank() == 0:
        # killed at any moment, `path` is the old state or the new one, never half of one
        state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, f"{path}.tmp")
        os.replace(f"{path}.tmp", path)
    dist.barrier()  # no rank ends the job before the state is there


def train_step(step, model, optimizer, device):
    generator = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    inputs = torch.randn(16, 8, generator=generator).to(device)
    loss = (model(inputs).squeeze(1) - inputs.sum(1).tanh()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def train(args, device):
    """Whether all the steps are done."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    first = 0
    if args.resume and os.path.exists(args.resume):
        state = torch.load(args.resume, map_location="cpu", weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    if dist.get_rank() == 0:
        print(f"start {resume.restart_count()}: from step {first}", flush=True)
    for step in range(first, args.steps):
        started = time.monotonic()
        train_step(step, model, optimizer, device)
        time.sleep(max(0.0, args.step_time - (time.monotonic() - started)))
        if args.record and dist.get_rank() == 0:
            with open(args.record, "a") as file:
                file.write(f"{step}\n")
        if stop_of_all_ranks(device) and step + 1 < args.steps:
            save(args.save, step + 1, model, optimizer)
            if dist.get_rank() == 0:
                print(f"stopped after step {step}", flush=True)
            return False
    save(args.save, args.steps, model, optimizer)
    if dist.get_rank() == 0:
        checksum = sum(p.detach().view(torch.int32).sum().item() for p in model.module.parameters())
        print(f"all {args.steps} steps done, parameter checksum {checksum}", flush=True)
    return True


def main():
    args = parse_arguments()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else "cpu"
    if device != "cpu":
        torch.cuda.set_device(device)
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    dist.init_process_group("gloo" if device == "cpu" else "nccl", **alone)
    if train(args, device):
        resume.finished()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # while Python takes itself apart, a thread of gloo's may end the process with SIGABRT


if __name__ == "__main__":
    main()

"""examples/train_ddp.py, run as its users run it: alone, under torchrun, and with ranks started by hand."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the example's tests need it")

SCRIPT = Path(__file__).parents[2] / "examples" / "train_ddp.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
RESULT = re.compile(r"^rank (\d+)/(\d+) all-reduced loss (\d+\.\d{6})$", re.MULTILINE)
OURS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "SLURM_", "PET_", "TORCHELASTIC_", "GROUP_")


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {"OMP_NUM_THREADS": "1"} | more


def start(command, **more):
    return subprocess.Popen(
        [str(word) for word in command],
        env=clean_environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(*processes):
    """Their common output; fails with all that they said when one of them failed."""
    said = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return "".join(out for out, _ in said)


def torchrun(*arguments, ranks=2):
    return [*TORCHRUN, "--standalone", f"--nproc-per-node={ranks}", SCRIPT, *arguments]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train_by_hand(*arguments, script=SCRIPT, world=2):
    """Ranks without a launcher, with the variables that srun's tasks would have."""
    common = {"WORLD_SIZE": str(world), "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(world)]
    return finish(*(start([sys.executable, script, *arguments], **common, **rank) for rank in ranks))


def check_ranks(output, world):
    """Every rank printed its line, and all of them the same loss. Returns it."""
    found = RESULT.findall(output)
    assert sorted(int(rank) for rank, _, _ in found) == list(range(world)), output
    assert {size for _, size, _ in found} == {str(world)}
    assert len({loss for _, _, loss in found}) == 1, output
    return float(found[0][2])


def load(path):
    return torch.load(path, weights_only=True)


def assert_same_bits(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


@pytest.fixture(name="example")
def _example(monkeypatch):
    """The script as a module, in a process that is no rank of anything."""
    for name in [name for name in os.environ if name.startswith(OURS)]:
        monkeypatch.delenv(name)
    spec = importlib.util.spec_from_file_location("train_ddp", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.set_num_threads(1)
    yield module
    assert not torch.distributed.is_initialized(), "the process group was left behind"


@pytest.fixture(name="run")
def _run(example, monkeypatch, tmp_path):
    """Run the script in this process; returns the checkpoint that it wrote."""

    def run(*arguments, name="model.pt"):
        path = tmp_path / name
        words = ["--device", "cpu", "--checkpoint", path, *arguments]
        monkeypatch.setattr(sys, "argv", ["train_ddp.py", *(str(word) for word in words)])
        example.main()
        return load(path)

    return run


def test_one_process():
    loss = check_ranks(finish(start([sys.executable, SCRIPT, "--epochs", 8])), 1)
    assert loss < 0.15  # it learns: the targets' variance is about 0.7


@pytest.mark.parametrize("ranks", [2, 3])
def test_torchrun_standalone(ranks):
    check_ranks(finish(start(torchrun("--accumulate", 3, "--amp", "bf16", ranks=ranks))), ranks)


def test_two_agents_as_on_two_nodes():
    endpoint = f"localhost:{free_port()}"

    def agent(is_host):
        rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", f"--rdzv-conf=is_host={is_host}"]
        size = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-id=7", "--local-addr=localhost"]
        return start([*TORCHRUN, *size, *rendezvous, SCRIPT])

    check_ranks(finish(agent(1), agent(0)), 2)


def test_ranks_started_one_by_one_as_srun_does():
    check_ranks(train_by_hand(), 2)


def test_two_ranks_that_accumulate_train_as_one_with_the_whole_batch(run, tmp_path):
    """Two ranks × 8 samples × 2 micro-steps is a batch of 32, for DDP's averages and no_sync() too."""
    path = tmp_path / "two.pt"
    words = ["--dropout", 0, "--checkpoint", path, "--batch-size", 8, "--accumulate", 2]
    check_ranks(train_by_hand(*words), 2)
    alone = run("--dropout", 0, "--batch-size", 32)
    for name, value in load(path)["model"].items():
        assert torch.allclose(value, alone["model"][name], atol=1e-5), name


# 24: the last batch is short, and so its group. 32 × 3: the last group has one batch.
@pytest.mark.parametrize(("batch", "accumulate"), [(8, 2), (24, 2), (32, 3)])
def test_accumulation_equals_the_larger_batch(run, batch, accumulate):
    words = ["--dropout", 0, "--epochs", 2]
    small = run(*words, "--batch-size", batch, "--accumulate", accumulate)
    large = run(*words, "--batch-size", batch * accumulate)
    for name, value in small["model"].items():
        assert torch.allclose(value, large["model"][name], atol=1e-5), name


def test_resuming_gives_the_bits_of_a_run_without_a_break(run, capfd):
    whole = run("--epochs", 4, name="whole.pt")
    run("--epochs", 2, name="broken.pt")
    resumed = run("--epochs", 4, "--resume", name="broken.pt")
    assert "epochs 2-3 on cpu" in capfd.readouterr().out
    assert_same_bits(whole["model"], resumed["model"])
    assert resumed["epoch"] == 3
    assert resumed["rng"][0]["python"] == whole["rng"][0]["python"]
    assert resumed["rng"][0].get("numpy") == whole["rng"][0].get("numpy")


def test_resuming_restores_the_random_numbers_of_every_rank(tmp_path):
    def train(name, *arguments):
        train_by_hand("--checkpoint", tmp_path / name, *arguments)

    train("whole.pt", "--epochs", 2)
    train("broken.pt", "--epochs", 1)
    train("broken.pt", "--epochs", 2, "--resume")
    whole, resumed = load(tmp_path / "whole.pt"), load(tmp_path / "broken.pt")
    assert_same_bits(whole["model"], resumed["model"])
    assert not torch.equal(whole["rng"][0]["torch"], whole["rng"][1]["torch"]), "the ranks draw the same"


def test_resuming_without_a_checkpoint_starts_afresh(run):
    assert_same_bits(run(name="a.pt")["model"], run("--resume", name="b.pt")["model"])


def test_same_seed_same_bits_other_seed_others(run):
    first, again, other = run("--seed", 1), run("--seed", 1), run("--seed", 2)
    assert_same_bits(first["model"], again["model"])
    assert not torch.equal(first["model"]["0.weight"], other["model"]["0.weight"])


def test_a_failed_write_leaves_the_old_checkpoint(run, monkeypatch, tmp_path):
    run("--epochs", 1)
    before = (tmp_path / "model.pt").read_bytes()

    def killed(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        run("--epochs", 2, "--resume")
    assert (tmp_path / "model.pt").read_bytes() == before
    monkeypatch.undo()
    assert load(tmp_path / "model.pt")["epoch"] == 0


def test_bf16_trains_otherwise_than_fp32(run):
    mixed, full = run("--amp", "bf16"), run()
    assert all(value.dtype == torch.float32 and value.isfinite().all() for value in mixed["model"].values())
    assert not torch.equal(mixed["model"]["0.weight"], full["model"]["0.weight"])


def test_fp16_on_the_cpu_is_refused(run):
    with pytest.raises(SystemExit, match="fp16 needs a GPU"):
        run("--amp", "fp16")


RECORDER = """
import sys
sys.path.insert(0, {folder!r})
import torch, train_ddp
seen, step, saved = [[]], train_ddp.train_step, train_ddp.save_checkpoint

def record(model, group, *rest):
    seen[-1] += [row[0].item() for inputs, _ in group for row in inputs]
    step(model, group, *rest)

def next_epoch(*rest):
    saved(*rest)
    seen.append([])

train_ddp.train_step, train_ddp.save_checkpoint = record, next_epoch
rank = int(__import__("os").environ.get("RANK", 0))
sys.argv += ["--seed", "3", "--epochs", "2", "--batch-size", "24", "--accumulate", "3", "--checkpoint", {path!r}]
main = train_ddp.main

def main_and_save():
    main()
    torch.save(seen, {path!r} + str(rank))

train_ddp.main = main_and_save
train_ddp.run()
"""


@pytest.mark.parametrize("world", [1, 2])
def test_each_epoch_sees_every_sample_once_in_an_order_of_its_own(example, world, tmp_path):
    path, driver = tmp_path / "seen", tmp_path / "driver.py"
    driver.write_text(RECORDER.format(folder=str(SCRIPT.parent), path=str(path)), encoding="utf-8")
    train_by_hand(script=driver, world=world)
    seen = [load(f"{path}{rank}") for rank in range(world)]
    everything = sorted(example.build_dataset(3).tensors[0][:, 0].tolist())
    for epoch in range(2):
        assert sorted(value for of_rank in seen for value in of_rank[epoch]) == everything
    assert seen[0][0] != seen[0][1]


def test_a_failing_rank_fails_torchrun():
    process = start(torchrun("--fail-rank", 1, "--fail-code", 3))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "FAILED" in err
    assert not RESULT.search(out)


def test_the_failing_rank_exits_with_the_code_asked_for(run):
    with pytest.raises(SystemExit) as exit_:
        run("--fail-rank", 0, "--fail-code", 7)
    assert exit_.value.code == 7


def test_ranks_that_drifted_apart_are_an_error(run, example, monkeypatch):
    monkeypatch.setattr(example, "gather", lambda value: [value, value if isinstance(value, dict) else value + 1])
    with pytest.raises(RuntimeError, match="different parameters"):
        run()


def test_a_rank_without_its_gpu_says_what_to_ask_for(example, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SystemExit, match=r"LOCAL_RANK 3 needs 4 GPUs, this process sees 1.*GPUs per node"):
        example.pick_device("auto", 3)


def test_half_an_environment_is_refused(example, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit, match="LOCAL_RANK, MASTER_ADDR, MASTER_PORT not set"):
        example.rank_from_environment()


def test_tasks_that_would_each_train_alone_are_refused(example, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    with pytest.raises(SystemExit, match="several tasks"):
        example.rank_from_environment()

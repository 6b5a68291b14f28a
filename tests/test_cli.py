"""The command as a user runs it: streams, exit codes, stdin, files, bad input of every sort."""

import os
import resource
import subprocess
import sys
import time

import pytest

GOOD = "command: train.py\ngpus_per_node: 1\ntime: 1h\n"


def slurmgpu(*arguments, cwd, stdin=b"", **variables):
    environ = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8"} | variables
    return subprocess.run(
        [sys.executable, "-m", "slurmgpu", *arguments],
        input=stdin,
        capture_output=True,
        env=environ,
        cwd=cwd,
        timeout=60,
    )


def render(content, cwd, *arguments):
    path = cwd / "exp.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return slurmgpu("render", "exp.yaml", *arguments, cwd=cwd)


def test_the_script_is_on_stdout_and_notes_are_on_stderr(tmp_path):
    ended = render(GOOD, tmp_path)
    assert ended.returncode == 0
    assert ended.stdout.startswith(b"#!/bin/bash\n# Made by slurmgpu ")
    assert f"--chdir={tmp_path}\n".encode() in ended.stdout
    assert b"--job-name=exp\n" in ended.stdout
    assert all(line.startswith(b"slurmgpu: note: ") for line in ended.stderr.splitlines())


def test_stdin_is_a_spec_too(tmp_path):
    ended = slurmgpu("render", "-", cwd=tmp_path, stdin=GOOD.encode())
    assert ended.returncode == 0
    assert b" from stdin, " in ended.stdout
    bad = slurmgpu("render", "-", cwd=tmp_path, stdin=b"nodse: 1\n")
    assert bad.stderr.startswith(b"slurmgpu: <stdin>:1:1: ")


# nine times nine times ... what a few lines of aliases stand for
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (letter, letter, b",".join([b"*%c" % (letter - 1)] * 9)) for letter in range(98, 112)
)
BAD_INPUT = {
    "empty": (b"", b"exp.yaml:1:1: is empty"),
    "only a comment": (b"# nothing\n", b"is empty"),
    "a list": (b"- a\n- b\n", b"must be a mapping"),
    "a text": (b"just text\n", b"must be a mapping"),
    "binary junk": (bytes(range(255, -1, -1)) * 8, b"exp.yaml:1:1: is not UTF-8 text"),
    "not UTF-8": (b"command: a\nname: \xff\n", b"exp.yaml:2:7: is not UTF-8 text"),
    "ten megabytes": (b"command: x\n" + b"# " + b"x" * 10_000_000, b"larger than 1 MiB"),
    "an alias bomb": (BOMB, b"aliases multiply"),
    "deep nesting": (b"a: " + b"[" * 100_000, b"exp.yaml:1:"),
    "an unknown key": (b"command: x\nnodse: 2\n", b"exp.yaml:2:1: unknown key 'nodse'; did you mean 'nodes'?"),
    "a wrong type": (b"command: x\nnodes: two\n", b"exp.yaml:2:8: `nodes` 'two' is not a whole number"),
    "rivals": (b"command: x\nmem: 1G\nmem_per_cpu: 1G\n", b"exp.yaml:3:14: `mem_per_cpu` cannot stand beside `mem`"),
    "a duplicate key": (b"command: x\ncommand: y\n", b"exp.yaml:2:1: the key 'command' is here a second time"),
    "no command": (b"nodes: 1\n", b"the key `command` is missing"),
    "uneven GPUs": (b"command: x\nnodes: 2\ngpus: 5\n", b"exp.yaml:3:7: `gpus` 5 do not divide evenly over 2 nodes"),
    "a key of a later version": (b"command: x\nmonitor: true\n", b"`monitor` is not supported in this version"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_prints_nothing_on_stdout_and_exits_2(tmp_path, name):
    content, message = BAD_INPUT[name]
    started = time.monotonic()
    ended = render(content, tmp_path)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert message in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert time.monotonic() - started < 20  # a bomb takes for ever or not long


def test_an_unknown_key_does_not_hide_what_else_is_wrong(tmp_path):
    content = "command: x\nnodse: 2\nnodes: 2\ngpus: 5\nenv: {1A: x}\noutput: 'a%q'\n"
    said = render(content, tmp_path).stderr.splitlines()
    assert [line.split(b": ")[1] for line in said] == [
        b"exp.yaml:2:1",
        b"exp.yaml:4:7",
        b"exp.yaml:5:7",
        b"exp.yaml:6:9",
    ]


def test_every_error_is_reported_at_once_in_the_order_of_the_file(tmp_path):
    ended = render(
        "nodse: 2\ncommand: a | b\ntime: 1:2:3:4\nmem: lots\npartition: ''\nenv: {1A: x}\n",
        tmp_path,
    )
    places = [line.split(b": ")[1] for line in ended.stderr.splitlines()]
    assert places == [
        b"exp.yaml:1:1",
        b"exp.yaml:2:10",
        b"exp.yaml:3:7",
        b"exp.yaml:4:6",
        b"exp.yaml:5:12",
        b"exp.yaml:6:7",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["render", "nope.yaml"], 2, b"nope.yaml: cannot be read: No such file"),
        (["render", "."], 2, b".: cannot be read: Is a directory"),
        (["render"], 2, b"Missing argument 'SPEC'"),
        (["rendr", "x"], 2, b"no command 'rendr'; did you mean 'render'?"),
        (["render", "exp.yaml", "--nope"], 2, b"No such option"),
        (["render", "exp.yaml", "--set", "time"], 2, b"--set time: must be KEY=VALUE"),
        (["render", "exp.yaml", "--set", "tme=1"], 2, b"--set tme: unknown key 'tme'; did you mean 'time'?"),
        (["render", "exp.yaml", "--slurm-version", "new"], 2, b"--slurm-version: 'new' is not a Slurm version"),
        (["render", "exp.yaml", "--profile", "nope"], 2, b"--profile: no profile 'nope'"),
        (["render", "exp.yaml", "-o", "no/such/folder/x.sh"], 2, b"cannot be written: No such file"),
        (["completion", "tcsh"], 2, b"'tcsh' is not one of"),
    ],
)  # fmt: skip
def test_bad_usage(tmp_path, arguments, code, message):
    (tmp_path / "exp.yaml").write_text(GOOD)
    ended = slurmgpu(*arguments, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (code, b"")
    assert message in ended.stderr


def test_a_full_disk_is_exit_3_and_one_line(tmp_path):
    (tmp_path / "exp.yaml").write_text(GOOD)
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "slurmgpu", "render", "exp.yaml"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
        )
    assert ended.returncode == 3
    assert ended.stderr.splitlines()[-1] == b"slurmgpu: stdout cannot be written: No space left on device"


def test_a_reader_that_leaves_is_no_error_message(tmp_path):
    (tmp_path / "exp.yaml").write_text(GOOD)
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "slurmgpu", "render", "exp.yaml"], stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path
    )
    os.close(writing)
    assert ended.returncode == 141
    assert all(line.startswith(b"slurmgpu: note: ") for line in ended.stderr.splitlines())


def test_output_file_is_whole_or_as_it_was(tmp_path):
    ended = render(GOOD, tmp_path, "-o", "job.sh")
    assert (ended.returncode, ended.stdout) == (0, b"")
    good = (tmp_path / "job.sh").read_bytes()
    assert good.startswith(b"#!/bin/bash\n")
    assert render("command: [", tmp_path, "-o", "job.sh").returncode == 2
    assert (tmp_path / "job.sh").read_bytes() == good
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".cache" and path.is_file()) == [
        "exp.yaml",
        "job.sh",
    ]


def test_an_internal_error_is_one_line_and_a_traceback_only_with_debug(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import slurmgpu.experiment.command as c\ndef broken(*a): raise RuntimeError('boom')\nc.render = broken\n"
    )
    (tmp_path / "exp.yaml").write_text(GOOD)
    ended = slurmgpu("render", "exp.yaml", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (4, b"")
    assert ended.stderr.startswith(b"slurmgpu: internal error: RuntimeError: boom")
    assert len(ended.stderr.splitlines()) == 1
    debug = slurmgpu("--debug", "render", "exp.yaml", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert b"Traceback" in debug.stderr
    assert debug.returncode != 0


def test_a_folder_whose_name_is_no_utf8_keeps_its_bytes(tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9 x"
    os.mkdir(folder)
    with open(folder + b"/exp.yaml", "w") as file:
        file.write(GOOD)
    ended = slurmgpu("render", "exp.yaml", cwd=folder, HOME=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert b'#SBATCH --chdir="' + folder + b'"\n' in ended.stdout


def test_set_wins_and_extends_merges(tmp_path):
    (tmp_path / "base.yaml").write_text("mem_per_gpu: 10G\ntime: 1h\nenv: {A: base, B: base}\naccount: lab\n")
    content = "extends: base.yaml\ncommand: train.py\ngpus_per_node: 2\nmem: 64G\nenv: {B: mine}\naccount: ~\n"
    ended = render(
        content, tmp_path, "--set", "time=24:00:00", "--set", "env.C=a=b,c", "--set", "command=[x.py, 1.10]"
    )
    out = ended.stdout.decode()
    for line in (
        "--mem=64G\n",
        "--time=1-00:00:00\n",
        "export A=base\n",
        "export B=mine\n",
        "export C=a=b,c\n",
        "x.py 1.10\n",
    ):
        assert line in out
    assert "--account" not in out
    assert b"note: `mem` replaces `mem_per_gpu` from base.yaml:1:14" in ended.stderr


def test_profile_is_found_by_name_and_defaults_lose_against_the_spec(tmp_path):
    folder = tmp_path / ".config" / "slurmgpu" / "profiles"
    folder.mkdir(parents=True)
    (folder / "h200.toml").write_text(
        'gpu_dialect = "gpus-per-node"\ndefault_partition = "gpu"\n'
        '[defaults]\naccount = "lab"\nmem = "64G"\n'
        '[partitions.gpu]\ncpus_per_node = 96\nmem_per_node = "960G"\ngpus_per_node = 8\nmax_time = "2-00:00:00"\n'
    )
    ended = render("command: x.py\ngpus_per_node: 2\nmem_per_gpu: 10G\ntime: 1h\n", tmp_path, "--profile", "h200")
    out = ended.stdout.decode()
    for line in ("--gpus-per-node=2\n", "--account=lab\n", "--mem=20G\n", "--cpus-per-task=24\n"):
        assert f"#SBATCH {line}" in out
    assert b"`mem_per_gpu` replaces `mem` from profile h200" in ended.stderr
    wrong = slurmgpu("render", "exp.yaml", "--profile", "h20", cwd=tmp_path)
    assert b"did you mean 'h200'?" in wrong.stderr


def test_version_and_help_with_an_example_for_each_command(tmp_path):
    import slurmgpu as package
    from slurmgpu.cli import COMMANDS

    assert slurmgpu("--version", cwd=tmp_path).stdout.decode() == f"slurmgpu {package.__version__}\n"
    assert (
        b"..." not in slurmgpu("--help", cwd=tmp_path).stdout.split(b"Commands:")[1]
    )  # each command's line is whole
    for name in COMMANDS:
        ended = slurmgpu(name, "--help", cwd=tmp_path)
        assert ended.returncode == 0
        assert f"slurmgpu {name} ".encode() in ended.stdout.split(b"Examples:")[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_complete(tmp_path, shell):
    ended = slurmgpu("completion", shell, cwd=tmp_path)
    assert ended.returncode == 0
    assert b"_SLURMGPU_COMPLETE" in ended.stdout
    words = {"COMP_WORDS": "slurmgpu ren", "COMP_CWORD": "1" if shell != "fish" else "ren"}
    asked = slurmgpu(cwd=tmp_path, _SLURMGPU_COMPLETE=f"{shell}_complete", **words)
    assert b"render" in asked.stdout


def test_compiled_template_is_cached_privately_or_not_at_all(tmp_path):
    render(GOOD, tmp_path)
    cache = tmp_path / ".cache" / "slurmgpu"
    assert cache.stat().st_mode & 0o777 == 0o700
    assert list(cache.iterdir())
    cache.chmod(0o777)  # others could plant code here
    for file in cache.iterdir():
        file.write_bytes(b"garbage")
    assert render(GOOD, tmp_path).returncode == 0


def test_a_missing_log_folder_is_named_with_the_cure(tmp_path):
    content = GOOD + "output: 'my logs/%j.out'\n"
    ended = render(content, tmp_path)
    assert ended.returncode == 0
    cure = f"mkdir -p '{tmp_path}/my logs'"
    assert cure in ended.stderr.decode()
    # from 24.11 on slurmstepd makes it
    assert cure not in render(content, tmp_path, "--slurm-version", "24.11").stderr.decode()
    subprocess.run(["bash", "-c", cure], check=True)
    assert cure not in render(content, tmp_path).stderr.decode()


def test_a_full_quota_costs_no_script(tmp_path):
    """No file can grow: the compiled template cannot be kept, and the script comes all the same."""
    (tmp_path / "exp.yaml").write_text(GOOD)
    ended = subprocess.run(
        [sys.executable, "-m", "slurmgpu", "render", "exp.yaml"],
        capture_output=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(b"#!/bin/bash\n")
    assert (tmp_path / ".cache" / "slurmgpu").exists()


def test_a_current_folder_that_is_gone_is_a_clear_error(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    spec = tmp_path / "exp.yaml"
    spec.write_text(GOOD)
    command = f"rmdir ../gone; exec {sys.executable} -m slurmgpu render {spec}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, cwd=gone)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"the current folder: is gone" in ended.stderr

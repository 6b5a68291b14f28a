"""The `slurmgpu` command, also as `python -m slurmgpu`."""


def main() -> None:
    """Run the command line and end the process."""
    import gc
    import os
    import sys

    # a command lives for a tenth of a second: collecting garbage while modules load takes 7 % of that, and taking
    # the loaded modules apart at the end a sixth. Commands close what they open; nothing is left to atexit.
    gc.set_threshold(100_000)
    from slurmgpu.cli import main as run

    status = run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # the reader has gone, or the disk is full
        status = status or 1
    os._exit(status)


if __name__ == "__main__":
    main()

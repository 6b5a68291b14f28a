"""`python -m slurmgpu`: the same as the `slurmgpu` command."""

from slurmgpu.cli import main

main()

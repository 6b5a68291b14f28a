"""Correct job scripts, node health and GPU accounting for a Slurm cluster."""

__version__ = "0.1.0"

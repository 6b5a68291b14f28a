"""Stands for the user's script: slurmforge wants the file to exist."""

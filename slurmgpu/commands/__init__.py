"""The commands of slurmgpu, one module each, named `command` there."""

"""What runs inside a job, in the program's own process: standard library only."""

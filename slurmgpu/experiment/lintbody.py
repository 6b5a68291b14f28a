"""The rules of `lint` about the body of a script: what its commands do to one another and to the job."""

from slurmgpu.experiment.finding import Report, Rule

RULES: tuple[Rule, ...] = ()


def check(text: str, report: Report) -> None:
    """Report each place of the script that breaks a rule."""

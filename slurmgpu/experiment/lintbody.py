"""The rules of `lint` about the body of a script: what its commands do to one another and to the job."""

import os

from slurmgpu.experiment import lintlaunch, lintshell
from slurmgpu.experiment.finding import Report, Rule
from slurmgpu.experiment.steps import Body

_CHECKS = (*lintlaunch.RULES, *lintshell.RULES)
RULES: tuple[Rule, ...] = tuple(sorted(rule for rule, _ in _CHECKS))


def check(text: str, report: Report) -> None:
    """Report each place of the script that breaks a rule. Scripts for other interpreters are not looked at."""
    first = text.partition("\n")[0].removeprefix("#!").split()
    if (
        first
        and not any(os.path.basename(word) in ("bash", "sh", "env") for word in first[:1])
        and text.startswith("#!")
    ):
        return
    if first[1:] and os.path.basename(first[0]) == "env" and "sh" not in first[-1]:
        return
    body = Body(text)
    for rule, find in _CHECKS:
        for position, message, fix in find(body):
            line, column = body.place(position)
            report(rule.code, line, column, message, fix)

"""`lint`: what is wrong with a script that somebody wrote by hand, without a cluster to ask."""

import re

from slurmgpu.experiment import lintbody, lintfiles, lintheader, lintresources, lintscript, lintvalues
from slurmgpu.experiment.finding import Finding, Rule

_HEADER = (*lintheader.RULES, *lintvalues.RULES, *lintresources.RULES, *lintfiles.RULES)
RULES: dict[str, Rule] = {rule.code: rule for rule in (*(rule for rule, _ in _HEADER), *lintbody.RULES)}
_IGNORE = re.compile(r"#\s*slurmgpu:\s*ignore=([A-Z0-9, ]+)")


def lint(text: str, folder: str) -> list[Finding]:
    """Everything that is wrong with a script that is submitted from `folder`, in the order of its lines."""
    script = lintscript.read(text, folder)
    found: list[Finding] = []

    def report(code: str, line: int, column: int, message: str, fix: str) -> None:
        found.append(Finding(line, column, code, message, fix))

    for rule, check in _HEADER:
        for line, column, message, fix in check(script):
            report(rule.code, line, column, message, fix)
    lintbody.check(text, report)
    ignored = _ignored(script.lines)
    return sorted({finding for finding in found if finding.code not in ignored.get(finding.line, ())})


def _ignored(lines: list[str]) -> dict[int, set[str]]:
    """The codes that are not to be told of a line: `# slurmgpu: ignore=CODE` in it, or in the line above."""
    ignored: dict[int, set[str]] = {}
    for number, line in enumerate(lines, 1):
        if "slurmgpu:" in line and (match := _IGNORE.search(line)):
            codes = {code.strip() for code in match[1].split(",")}
            for where in (number, number + 1):
                ignored.setdefault(where, set()).update(codes)
    return ignored

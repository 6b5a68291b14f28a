"""`slurmgpu lint`."""

import click

from slurmgpu.commands.options import of_format
from slurmgpu.commands.output import coloured, current_folder, read_input, write
from slurmgpu.errors import InputError, Place, Problem
from slurmgpu.experiment.finding import Finding
from slurmgpu.experiment.lint import RULES, lint


@click.command(short_help="Find what is subtly wrong in scripts.")
@click.argument("scripts", metavar="SCRIPT...", nargs=-1, type=click.Path(allow_dash=True))
@click.option("--rules", is_flag=True, help="List every rule, and what happens where it is broken.")
@of_format
def command(scripts: tuple[str, ...], rules: bool, form: str) -> int:
    """Find what is subtly wrong in sbatch scripts written by hand, without a cluster; exit status 1 for an error.

    Each finding has a line, a code, a reason and a fix; a note is what may be meant as it is. `# slurmgpu:
    ignore=SG131` in the line, or in the line above, silences a rule there.

    \b
    Examples:
      slurmgpu lint train.sh
      slurmgpu lint jobs/*.sh --format json
      slurmgpu lint --rules
    """
    if rules:
        write(_rules_as_json() if form == "json" else _rules(), None)
        return 0
    if not scripts:
        raise click.UsageError("name a script, or - for stdin; --rules lists what is looked for")
    folder = current_folder()
    found = {path: lint(_text(path), folder) for path in scripts}
    write(_as_json(found) if form == "json" else _table(found), None)
    return 1 if any(RULES[finding.code].is_error for findings in found.values() for finding in findings) else 0


def _text(path: str) -> str:
    content = read_input(path)
    if not content.strip():
        raise InputError([Problem(Place(path), "is empty")])
    return content.decode("utf-8", "surrogateescape")


def _level(code: str) -> str:
    return "error" if RULES[code].is_error else "note"


def _table(found: dict[str, list[Finding]]) -> str:
    """Lines as a compiler writes them, so that editors can jump to them; the fix below."""
    lines = []
    for path, findings in found.items():
        for finding in findings:
            level = _level(finding.code)
            word = coloured(level, "red" if level == "error" else "yellow")
            lines.append(f"{path}:{finding.line}:{finding.column}: {word} {finding.code}: {finding.message}")
            lines.append(f"    {finding.fix}")
    levels = [_level(finding.code) for findings in found.values() for finding in findings]
    scripts = f"{len(found)} scripts" if len(found) > 1 else "1 script"
    lines.append(f"{_number(levels.count('error'), 'error')}, {_number(levels.count('note'), 'note')} in {scripts}")
    return "\n".join(lines) + "\n"


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _as_json(found: dict[str, list[Finding]]) -> str:
    import json

    answer = [
        {
            "script": path,
            "line": finding.line,
            "column": finding.column,
            "code": finding.code,
            "level": _level(finding.code),
            "title": RULES[finding.code].title,
            "message": finding.message,
            "why": RULES[finding.code].why,
            "fix": finding.fix,
        }
        for path, findings in found.items()
        for finding in findings
    ]
    return json.dumps(answer, indent=2) + "\n"


def _rules() -> str:
    return "".join(f"{rule.code} {_level(rule.code):<5} {rule.title}: {rule.why}\n" for rule in RULES.values())


def _rules_as_json() -> str:
    import json

    rules = [
        {"code": rule.code, "level": _level(rule.code), "title": rule.title, "why": rule.why}
        for rule in RULES.values()
    ]
    return json.dumps(rules, indent=2) + "\n"

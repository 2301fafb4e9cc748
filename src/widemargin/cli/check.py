"""`widemargin check GOALS.toml`: everything that is wrong with a goals file and its table, by line and with cures."""

import argparse
import json
from typing import Any

from widemargin.cli.console import Progress, say
from widemargin.cli.findings import Findings
from widemargin.cli.goals_file import goals_of
from widemargin.cli.goals_schema import goals_schema
from widemargin.exceptions import DataError, GoalsFileError

__all__ = ["run"]

FINE, PROBLEMS = 0, 2


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Check and print; the exit code and the content for --json."""
    if options.schema:
        schema = goals_schema()
        if not options.json:
            say(json.dumps(schema, indent=1, ensure_ascii=False))
        return FINE, {"schema": schema}
    if options.goals is None:
        raise DataError("no goals file was named. Name one, or ask for --schema")
    try:
        goals = goals_of(options)
    except GoalsFileError as error:
        if not options.json:
            say(str(error))
        return PROBLEMS, {"goals_file": str(options.goals), "problems": list(error.problems), "warnings": []}
    findings, counts = Findings(goals), dict[str, int]()
    if options.data is not None:
        with Progress() as progress:
            progress.step("looking at the table")
            from widemargin.cli.examine import examine  # not needed, and slow to import, where only the file is checked

            findings, counts = examine(goals, None if options.data is True else options.data)
    code = PROBLEMS if findings.problems or (options.strict and findings.warnings) else FINE
    if not options.json:
        _show(findings, counts)
    return code, {
        "goals_file": str(options.goals),
        "problems": findings.records(findings.problems),
        "warnings": findings.records(findings.warnings),
        "rows": counts,
    }


def _show(findings: Findings, counts: dict[str, int]) -> None:
    path = findings.goals.path
    for found, word in ((findings.problems, "problem"), (findings.warnings, "warning")):
        if found:
            say(f"{path}: {len(found)} {word}{'s' * (len(found) > 1)}")
            say(*("  " + text.replace("\n", "\n  ") for text in findings.told(found)))
    if not findings.problems:
        rows = ", ".join(f"{count} {part} rows" for part, count in counts.items())
        say(f"{path}: no problems{f' ({rows})' if rows else ''}")

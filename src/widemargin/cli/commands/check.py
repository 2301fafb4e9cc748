"""`widemargin check GOALS.toml`: everything that is wrong with a goals file and its table, by line and with cures."""

import argparse
import json
from typing import Any

from widemargin.cli.checks.findings import Findings
from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file.keys import GoalsFile, goals_schema
from widemargin.cli.goals_file.reader import goals_of, look_at
from widemargin.cli.goals_file.toml_lines import Problem
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
    known: list[Problem] = []
    try:
        goals: GoalsFile | None = goals_of(options)
    except GoalsFileError as error:
        goals, known = _look_on(options)
        if goals is None or options.data is None:
            if not options.json:
                say(str(error))
            return PROBLEMS, {"goals_file": str(options.goals), "problems": list(error.problems), "warnings": []}
    assert goals is not None
    findings, counts = Findings(goals, known), dict[str, int]()
    if options.data is not None:
        with Progress() as progress:
            progress.step("looking at the table")
            from widemargin.cli.checks.examine import (
                examine,  # not needed, and slow to import, where only the file is checked
            )

            findings, counts = examine(goals, None if options.data is True else options.data, known)
    code = PROBLEMS if findings.problems or (options.strict and findings.warnings) else FINE
    if not options.json:
        _show(findings, counts)
    return code, {
        "goals_file": str(options.goals),
        "problems": findings.records(findings.problems),
        "warnings": findings.records(findings.warnings),
        "rows": counts,
    }


def _look_on(options: argparse.Namespace) -> tuple[GoalsFile | None, list[Problem]]:
    """What of a goals file with problems can be compared with its table, and these problems."""
    try:
        goals, problems, _ = look_at(
            options.goals, allow_code=options.allow_code, allow_outside=options.allow_outside or ()
        )
    except GoalsFileError:  # no TOML at all
        return None, []
    return goals, problems


def _show(findings: Findings, counts: dict[str, int]) -> None:
    path = findings.goals.path
    for found, word in ((findings.problems, "problem"), (findings.warnings, "warning")):
        if found:
            say(f"{path}: {len(found)} {word}{'s' * (len(found) > 1)}")
            say(*("  " + text.replace("\n", "\n  ") for text in findings.told(found)))
    if not findings.problems:
        rows = ", ".join(f"{count} {part} rows" for part, count in counts.items())
        say(f"{path}: no problems{f' ({rows})' if rows else ''}")

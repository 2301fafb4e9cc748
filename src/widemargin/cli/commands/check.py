"""`widemargin check GOALS.toml`: everything that is wrong with a goals file and its table, by line and with cures."""

import argparse
import json
from typing import Any

from widemargin.cli.checks.findings import Findings
from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file.keys import GoalsFile, goals_schema
from widemargin.cli.goals_file.reader import goals_of, look_at
from widemargin.cli.goals_file.toml_lines import Problem, records
from widemargin.exceptions import DataError, GoalsFileError


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Check and print; the exit code and the content for --json: 0 if there are no problems, else 2."""
    if options.schema:
        schema = goals_schema()
        say(json.dumps(schema, indent=1, ensure_ascii=False))
        return 0, {"schema": schema}
    if options.goals is None:
        taken = str(options.data or "")  # an option whose value may be left out takes the goals file that follows it
        cure = f"--data took {taken!r} for its table: write {taken} first" if taken.endswith(".toml") else "Name one"
        raise DataError(f"no goals file was named. {cure}, or ask for --schema")
    goals: GoalsFile | None = None
    of_file: list[Problem] = []
    try:
        goals = goals_of(options)
    except GoalsFileError as error:
        try:  # what of the file can be compared with its table all the same
            goals, of_file, _ = look_at(
                options.goals, allow_code=options.allow_code, allow_outside=options.allow_outside or ()
            )
        except GoalsFileError:  # no TOML at all
            goals = None
        if goals is None or options.data is None:
            say(str(error))
            return 2, {"goals_file": str(options.goals), "problems": list(error.problems), "warnings": []}
    findings, counts = Findings(goals, of_file), dict[str, int]()
    if options.data is not None:
        with Progress() as progress:
            progress.step("looking at the table")
            # Not needed, and slow to import, where only the file is checked.
            from widemargin.cli.checks.examine import examine

            findings, counts = examine(goals, None if options.data is True else options.data, of_file)
    elif findings.goals.goal.facts:  # with a table `examine` says so
        name = findings.goals.goal.facts[0].name
        findings.problem(("goal", "text"), f"{name} is about scores, which training does not bound. Ask in goal.audit")
    path, lines = findings.goals.path, findings.goals.lines
    for noted, word in ((findings.problems, "problem"), (findings.warnings, "warning")):
        if noted:
            say(f"{path}: {len(noted)} {word}{'s' * (len(noted) > 1)}")
            ordered = sorted(noted, key=lambda problem: problem.line(lines) or 0)
            say(*("  " + problem.told(lines).replace("\n", "\n  ") for problem in ordered))
    refused = bool(findings.problems or (options.strict and findings.warnings))
    if refused and not findings.problems:
        say(f"{path}: refused, as --strict takes warnings for problems")
    elif not refused:
        rows = ", ".join(f"{count} {part} rows" for part, count in counts.items())
        n = len(findings.warnings)
        but = f", {n} warning{'s' * (n > 1)} to read" if n else ""
        say(f"{path}: no problems{but}{f' ({rows})' if rows else ''}")
    return 2 if refused else 0, {
        "goals_file": str(options.goals),
        "problems": records(findings.problems, lines),
        "warnings": records(findings.warnings, lines),
        "rows": counts,
    }

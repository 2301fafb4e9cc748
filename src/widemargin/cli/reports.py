"""Reports for machines: one JSON document, and JUnit XML, which CI servers show, with a test case for each constraint.

`docs/report.schema.json` describes the document.
"""

import argparse
import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from widemargin import __version__
from widemargin._files import file_sha256, replace_file
from widemargin._text import printable
from widemargin.diagnostics import ConstraintReport, GoalReport
from widemargin.exceptions import DataError
from widemargin.goals.measuring.goal_report import what_decides

FORMAT = 1
PREDICATE = "urn:widemargin:goal-audit:1"
"""The predicate type of an in-toto statement about an audit of a goal; the documentation describes it."""


def audit_document(
    report: GoalReport, options: argparse.Namespace, *, model: str, data: str, part: str
) -> dict[str, Any]:
    """What an audit found, fit for JSON."""
    return {
        "format": FORMAT,
        "command": "audit",
        "widemargin": __version__,
        "goals_file": str(options.goals),
        "model": model,
        "data": data,
        "rows": f"{part} rows",
        "decide": report.decide,
        "passed": report.passed,
        "exit_code": report.exit_code,
        "simultaneous_confidence": report.simultaneous_confidence,
        "report": report.to_dict(),
    }


def write_json(document: dict[str, Any], path: Path | None) -> None:
    """Write a document whole or not at all, where a path is given."""
    if path is not None:
        write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", path)


def write_text(text: str, path: Path, what: str = "report") -> None:
    """Write a text whole or not at all; `what` it is, for messages.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise DataError(f"{path}: the {what} cannot be written ({error.strerror}). Check the folder") from error


def statement(
    predicate_type: str, document: Mapping[str, Any], options: argparse.Namespace, files: Sequence[Path]
) -> dict[str, Any]:
    """An in-toto statement (https://in-toto.io/Statement/v1) about an audit, unsigned.

    Parameters
    ----------
    predicate_type : str
        What kind of audit it is.
    document : mapping
        What was found.
    options : argparse.Namespace
        Those given are told in the statement; the files of `--about` are subjects, too.
    files : sequence of Path
        What was audited: tables, model, goals file.

    Raises
    ------
    DataError
        A file cannot be read.
    """
    subjects = []
    for path in dict.fromkeys([*files, *(options.about or ())]):
        try:
            digest = file_sha256(path)
        except OSError as error:
            raise DataError(f"{path}: the file cannot be read ({error.strerror}). Check the path") from error
        subjects.append({"name": path.name, "digest": {"sha256": digest}})

    def plain(value: object) -> object:
        if isinstance(value, list | tuple):
            return [plain(part) for part in value]
        return value if isinstance(value, str | int | float) else str(value)

    asked = {name: plain(value) for name, value in vars(options).items() if value not in (None, False, [])}
    predicate = {"auditor": f"widemargin {__version__}", "options": asked, "result": dict(document)}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": predicate_type,
        "predicate": predicate,
    }


class Case(NamedTuple):
    """A test case; `failure` is (kind, message, text), `skipped` a reason."""

    name: str
    failure: tuple[str, str, str] | None = None
    skipped: str | None = None


class Suite(NamedTuple):
    """Test cases of one report, and the report as text; `part` tells apart suites of one goals file."""

    name: str
    cases: Sequence[Case]
    output: str
    part: str = ""


def audit_suite(report: GoalReport, *, suite: str, part: str = "", ramp: bool = False) -> Suite:
    """A report as test cases.

    A constraint that does not count as met is a failure, a dropped one is skipped.

    Parameters
    ----------
    suite, part : str
        Name of the test suite, and what tells it apart.
    ramp : bool, default=False
        Whether the rates of the randomised classifier decide; else those of `report.decide`.
    """
    cases = []
    for item in map(ConstraintReport.as_ratio, report.constraints):
        kind, passes = ("not met", item.ramp_met) if ramp else (item.verdict, item.passes(report.decide))
        rate, slack = (item.ramp_rate, item.ramp_slack) if ramp else (item.rate, item.slack)
        if rate is None or slack is None:
            why = f"undefined: a denominator is 0 on {item.n_rows} rows"
        elif ramp:
            numbers = f"ramp rate {rate:.6g} (slack {slack:+.6g}, {item.n_rows} rows)"
            why = f"not met: {numbers}, decided by the randomised classifier"
        else:
            sign = item.sense if item.met else {">=": "<", "<=": ">"}[item.sense]
            why = f"{kind}: rate {rate:.6g} {sign} bound {item.bound:.6g} (slack {slack:+.6g}, {item.n_rows} rows)"
            if item.interval is not None:
                low, high = item.interval.lower, item.interval.upper
                ends = f"{'-inf' if low is None else f'{low:+.6g}'}, {'+inf' if high is None else f'{high:+.6g}'}"
                why += f"; {100 * item.interval.confidence:g}% of slack: [{ends}]"
            why += f"; {what_decides(report)}"
        cases.append(Case(item.label, None if passes else (kind, why, item.text)))
    cases += [Case(dropped.label, skipped=dropped.reason) for dropped in report.dropped]
    return Suite(suite, cases, str(report), part)


def junit_xml(suites: Sequence[Suite], *, command: str = "audit") -> str:
    """Test suites as a `<testsuites>` document; names and texts are escaped, control characters in them replaced.

    Parameters
    ----------
    command : str
        What they are the result of.
    """

    def numbers(cases: Sequence[Case]) -> dict[str, str]:
        failures, skipped = (sum(case[place] is not None for case in cases) for place in (1, 2))
        return {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": str(skipped)}

    every = [case for suite in suites for case in suite.cases]
    root = ET.Element("testsuites", {"name": f"widemargin {command}", **numbers(every)})
    for suite in suites:
        name = f"{suite.name}: {suite.part}" if suite.part else suite.name
        parent = ET.SubElement(root, "testsuite", {"name": printable(name), **numbers(suite.cases)})
        stem = printable(Path(suite.name).stem) or "goal"
        class_name = f"{stem}.{suite.part}" if suite.part else stem
        for item in suite.cases:
            case = ET.SubElement(parent, "testcase", {"name": printable(item.name), "classname": class_name})
            if item.failure is not None:
                kind, message, text = map(printable, item.failure)
                ET.SubElement(case, "failure", {"message": message, "type": kind}).text = text
            if item.skipped is not None:
                ET.SubElement(case, "skipped", {"message": printable(item.skipped)})
        ET.SubElement(parent, "system-out").text = "\n".join(map(printable, suite.output.split("\n")))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"

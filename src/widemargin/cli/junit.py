"""An audit as JUnit XML, which CI servers show: one test case a constraint."""

import xml.etree.ElementTree as ET
from pathlib import Path

from widemargin._text import printable
from widemargin.cli.report_files import write_text
from widemargin.diagnostics import ConstraintReport, GoalReport

__all__ = ["junit_xml", "write_junit"]


def junit_xml(report: GoalReport, *, suite: str) -> str:
    """The report as a `<testsuites>` document.

    A constraint that does not count as met (by `report.decide`) is a failure, a dropped one is skipped. Names and texts
    are escaped, control characters in them replaced.

    Parameters
    ----------
    report : GoalReport
    suite : str
        Name of the test suite.
    """
    failed = [item for item in report.constraints if not item.passes(report.decide)]
    numbers = {
        "tests": str(len(report.constraints) + len(report.dropped)),
        "failures": str(len(failed)),
        "errors": "0",
        "skipped": str(len(report.dropped)),
    }
    root = ET.Element("testsuites", {"name": "widemargin audit", **numbers})
    parent = ET.SubElement(root, "testsuite", {"name": printable(suite), **numbers})
    for item in report.constraints:
        case = ET.SubElement(parent, "testcase", {"name": printable(item.label), "classname": _class(suite)})
        if item in failed:
            message = printable(_failure(item, report))
            ET.SubElement(case, "failure", {"message": message, "type": item.verdict}).text = printable(item.text)
    for dropped in report.dropped:
        case = ET.SubElement(parent, "testcase", {"name": printable(dropped.label), "classname": _class(suite)})
        ET.SubElement(case, "skipped", {"message": printable(dropped.reason)})
    ET.SubElement(parent, "system-out").text = "\n".join(map(printable, str(report).split("\n")))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def write_junit(report: GoalReport, path: Path, *, suite: str) -> None:
    """Write the XML whole or not at all."""
    write_text(junit_xml(report, suite=suite), path)


def _class(suite: str) -> str:
    return printable(Path(suite).stem) or "goal"


def _failure(item: ConstraintReport, report: GoalReport) -> str:
    if item.slack is None:
        return f"undefined: a denominator is 0 on {item.n_rows} rows"
    sign = {">=": "<", "<=": ">"}[item.sense] if not item.met else item.sense
    text = f"rate {item.rate:.6g} {sign} bound {item.bound:.6g} (slack {item.slack:+.6g}, {item.n_rows} rows)"
    if item.interval is not None:
        low, high = (
            "-inf" if item.interval.lower is None else f"{item.interval.lower:+.6g}",
            "+inf" if item.interval.upper is None else f"{item.interval.upper:+.6g}",
        )
        text += f"; {100 * item.interval.confidence:g}% of slack: [{low}, {high}]"
    return f"{item.verdict}: {text} (decided by {report.decide})"

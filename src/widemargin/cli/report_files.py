"""Reports for machines: one JSON document, described by `docs/report.schema.json`."""

import argparse
import json
from pathlib import Path
from typing import Any

from widemargin import __version__
from widemargin.diagnostics import GoalReport
from widemargin.exceptions import DataError, ModelFileError
from widemargin.persistence.container import write_file

__all__ = ["FORMAT", "audit_document", "write_json", "write_text"]

FORMAT = 1


def audit_document(
    report: GoalReport, options: argparse.Namespace, *, model: str, data: str, rows: str
) -> dict[str, Any]:
    """What an audit found, fit for JSON."""
    return {
        "format": FORMAT,
        "command": "audit",
        "widemargin": __version__,
        "goals_file": str(options.goals),
        "model": model,
        "data": data,
        "rows": rows,
        "decide": report.decide,
        "passed": report.passed,
        "exit_code": report.exit_code,
        "simultaneous_confidence": report.simultaneous_confidence,
        "report": report.to_dict(),
    }


def write_json(document: dict[str, Any], path: Path) -> None:
    """Write a document whole or not at all."""
    write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Write a text whole or not at all.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode("utf-8", "replace"))
    except (OSError, ModelFileError) as error:
        cause = error.__cause__ if isinstance(error, ModelFileError) else error
        raise DataError(
            f"{path}: the report cannot be written ({getattr(cause, 'strerror', cause)}). Check the folder"
        ) from error

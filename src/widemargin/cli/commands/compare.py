"""`widemargin compare GOALS.toml --models A B`: two classifiers against one goal, and the rows on which they differ."""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from widemargin import __version__
from widemargin.cli.candidates import Candidate
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.keys import GoalsFile, table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.reports import FORMAT, write_json
from widemargin.cli.subjects import (
    NO_VERDICT,
    audited_rows,
    blocks_and_candidates,
    columns_needed,
    named_part,
    refuse_main_rows_only,
)
from widemargin.cli.tables.column_roles import TableRows, external_rows, require_columns
from widemargin.cli.tables.table_files import Block, TableBlocks
from widemargin.diagnostics import AuditCounts, ComparisonCounts, ComparisonReport, comparison_report
from widemargin.diagnostics.compare import needs_labels
from widemargin.exceptions import TableWarning
from widemargin.goals import Goal

__all__ = ["run"]


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Compare and print; the exit code and the content for --json."""
    goals = goals_of(options)
    deadline = Deadline(options.time_budget, NO_VERDICT)
    path = options.data or goals.data.table
    given = [str(name) for name in options.predictions or options.models]
    with Progress() as progress:
        progress.step("loading the models")
        blocks, candidates = blocks_and_candidates(given, goals, path, options)
        part = named_part(blocks, goals, options.rows)
        report = _compared(candidates, _names(given), blocks, goals, part, options, progress, deadline)
    content = {
        "format": FORMAT,
        "widemargin": __version__,
        "goals_file": str(options.goals),
        "models": [item.title for item in candidates],
        "data": table_text(path),
        "rows": f"{part} rows",
        "comparison": report.to_dict(),
    }
    if options.report_json is not None:
        write_json({"command": "compare", "exit_code": report.exit_code, **content}, options.report_json)
    if not options.json:
        for name, candidate in zip(report.names, candidates, strict=True):
            say(f"{name}: {candidate.title}")
        say("", str(report))
    return report.exit_code, content


def _names(given: list[str]) -> tuple[str, str]:
    """Short names: those of the files where they differ, else A and B."""
    first, second = (Path(name.rpartition(":")[2] if ":" in name else name).stem for name in given)
    return (first, second) if first and second and first != second else ("A", "B")


def _compared(
    candidates: list[Candidate],
    names: tuple[str, str],
    blocks: TableBlocks,
    goals: GoalsFile,
    part: str,
    options: argparse.Namespace,
    progress: Progress,
    deadline: Deadline,
) -> ComparisonReport:
    goal, positive = goals.audit_goal or goals.goal, goals.data.positive
    baselines = {column: f"baselines.{name}" for name, column in goals.baselines.items() if name in goal.baselines}
    require_columns(SimpleNamespace(column_names=blocks.names), baselines, blocks.title)
    classes = next((item.classes for item in candidates if item.classes is not None), None)
    counts = ComparisonCounts(goal, classes=classes, pos_label=positive)
    audits = [AuditCounts(goal, classes=item.classes, pos_label=positive) for item in candidates]
    columns = columns_needed(goals, goal, candidates)
    measurable = (goals.data.target in blocks.names and not _has_missing(blocks, goals, part)) or not needs_labels(goal)
    for block, rows in audited_rows(blocks, goals, part, columns, some_labels=True, deadline=deadline):
        progress.step(f"comparing: {counts.n_rows} rows")
        said = [candidate.answer(block).labels for candidate in candidates]
        _count(counts, audits if measurable else [], said, rows)
    _add_external(counts, audits if measurable else [], candidates, goals, goal)
    for text in dict.fromkeys(text for candidate in candidates for text in candidate.finish()):
        warnings.warn(text, TableWarning, stacklevel=2)
    data_name = f"{part} rows of {blocks.title}"
    reports = None
    if measurable:
        both = [audit.report(decide=options.decide, data_name=data_name) for audit in audits]
        reports = both[0], both[1]
    return comparison_report(counts, reports, names=names, power=options.power, gain=options.gain, data_name=data_name)


def _count(
    counts: ComparisonCounts,
    audits: Sequence[AuditCounts],
    said: Sequence[Any],
    rows: TableRows,
    source: str | None = None,
) -> None:
    """Count some rows for the comparison and for the audits of both."""
    more = {"sample_weight": rows.sample_weight, "populations": rows.populations, "source": source}
    counts.update(said[0], said[1], rows.y, **more)
    for audit, labels in zip(audits, said, strict=False):
        audit.update(labels, rows.y, **more)


def _add_external(
    counts: ComparisonCounts,
    audits: Sequence[AuditCounts],
    candidates: Sequence[Candidate],
    goals: GoalsFile,
    goal: Goal,
) -> None:
    """The rows of the external data sets that the goal names."""
    refuse_main_rows_only(goal, candidates)
    words = [word for candidate in candidates for word in candidate.words]
    for name, rows in external_rows(goals, goal, words=words).items():
        block = Block.whole(rows.populations, f"external.{name}")
        _count(counts, audits, [candidate.answer(block).labels for candidate in candidates], rows, name)


def _has_missing(blocks: TableBlocks, goals: GoalsFile, part: str) -> bool:
    """Whether a row asked for has no label."""
    target, split = goals.data.target, goals.data.split
    columns = [target, *([] if split is None else [split.column])]
    read = blocks.read(columns, split=split, part=part)
    return any(block.table[target].null_count for block in read)

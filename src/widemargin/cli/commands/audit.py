"""`widemargin audit GOALS.toml --model M --data FILE`: does a classifier meet the goal on these rows?"""

import argparse
import warnings
from collections.abc import Collection
from functools import partial
from typing import Any

from widemargin.cli.candidates import Candidate, TableModel
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.keys import GoalsFile, TablePath, table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.models_and_rows import (
    NO_VERDICT,
    audited_rows,
    blocks_and_candidates,
    columns_needed,
    external_blocks,
    named_part,
)  # fmt: skip
from widemargin.cli.reports import audit_document, audit_suite, write_json, write_junit
from widemargin.cli.tables.column_roles import is_it, require_columns
from widemargin.cli.tables.table_files import Block, TableBlocks
from widemargin.cli.tables.training_data import TableRows, rows_of, warn_of_training_rows
from widemargin.cli.workers import by_pieces
from widemargin.diagnostics import AuditBlock, AuditCounts, GoalReport
from widemargin.exceptions import DataError, TableWarning, WidemarginError
from widemargin.goals import Goal

__all__ = ["run"]


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure and print; the exit code and the content for --json."""
    goals = goals_of(options)
    deadline = Deadline(options.time_budget, NO_VERDICT)
    path: TablePath = options.data or goals.data.table
    with Progress() as progress:
        progress.step("loading the model")
        given = [options.predictions or options.model]
        blocks, (candidate,) = blocks_and_candidates(given, goals, path, options)
        part = named_part(blocks, goals, options.rows)
        if part == "all" and isinstance(candidate, TableModel):  # others may have been trained on anything
            warn_of_training_rows(goals, path)
        report = _measured(candidate, blocks, goals, part, options, progress, deadline)
    document = audit_document(report, options, model=candidate.title, data=table_text(path), rows=f"{part} rows")
    if options.report_json is not None:
        write_json(document, options.report_json)
    if options.junit is not None:
        write_junit([audit_suite(report, suite=str(options.goals))], options.junit)
    if not options.json:
        say(f"Model: {candidate.title}", "", str(report))
        if getattr(candidate.last, "enforce", None) == "randomized":
            say(
                '\nThe model was trained with enforce = "randomized", which holds the bounds for predict_randomized on '
                "the training\nrows. Measured and decided here are the rates of predict."
            )
    return report.exit_code, document


def _measured(
    candidate: Candidate,
    blocks: TableBlocks,
    goals: GoalsFile,
    part: str,
    options: argparse.Namespace,
    progress: Progress,
    deadline: Deadline,
) -> GoalReport:
    goal, target, what = goals.audit_goal or goals.goal, goals.data.target, f"rows of {blocks.title}"
    baselines = {column: f"baselines.{name}" for name, column in goals.baselines.items() if name in goal.baselines}
    require_columns(blocks.names, baselines, blocks.title)
    columns = columns_needed(goals, goal, [candidate])
    counts = AuditCounts(goal, classes=candidate.classes, pos_label=goals.data.positive)
    texts: list[str] = []
    try:
        pieces = by_pieces(partial(_count_piece, candidate, goals, goal, part, columns), blocks, options.workers)
        if pieces is None:
            for block, rows in audited_rows(blocks, goals, part, columns, deadline=deadline):
                progress.step(f"measuring the goal: {counts.n_rows} rows")
                counts.add(_audit_block(candidate, block, rows, goals))
        else:
            deadline.check(0, blocks.n_rows, what)
            for piece_counts, piece_texts in pieces:
                progress.step(f"measuring the goal: {counts.n_rows} rows")
                counts.merge(piece_counts)
                texts += piece_texts
                deadline.check(counts.n_rows, blocks.n_rows, what)
            if not counts.n_rows:
                next(audited_rows(blocks, goals, part, columns))  # says that there are no such rows
        for name, block, rows in external_blocks(goals, goal, [candidate]):
            counts.add(_audit_block(candidate, block, rows, goals, name))
        for text in [*texts[:1], *candidate.finish()]:
            warnings.warn(text, TableWarning, stacklevel=2)
        return counts.report(decide=options.decide, data_name=f"{part} rows of {blocks.title}")
    except WidemarginError as error:
        if target in blocks.names or "label" not in str(error):
            raise
        fact = str(error).partition(" Give y=")[0].rstrip(".")
        raise DataError(
            f"column {target!r} (data.target) is not in {blocks.title}.{is_it(target, blocks.names)} {fact}. Add that "
            "column, or ask in [goal.audit] for rates without labels only (positive_rate, negative_rate, churn)"
        ) from error


def _count_piece(
    candidate: Candidate, goals: GoalsFile, goal: Goal, part: str, columns: Collection[str] | None, piece: TableBlocks
) -> tuple[AuditCounts, list[str]]:
    """Counts of a piece of the table, made by a worker, and what the candidate has to say in the end."""
    counts = AuditCounts(goal, classes=candidate.classes, pos_label=goals.data.positive)
    for block in piece.read(columns, split=goals.data.split, part=part):
        rows = rows_of(block, goals)
        counts.add(_audit_block(candidate, block._replace(table=rows.populations), rows, goals))
    return counts, candidate.finish()


def _audit_block(
    candidate: Candidate, block: Block, rows: TableRows, goals: GoalsFile, source: str | None = None
) -> AuditBlock:
    """What a classifier says of some rows."""
    answer = candidate.answer(block)
    ramp = answer.ramp
    if ramp is not None and candidate.classes is not None and candidate.classes[0] == goals.data.positive:
        ramp = 1.0 - ramp
    return AuditBlock(
        answer.labels, rows.y, sample_weight=rows.sample_weight, populations=rows.populations, ramp=ramp, source=source
    )

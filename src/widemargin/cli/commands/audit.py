"""`widemargin audit GOALS.toml --model M --data FILE`: does a classifier meet the goal on these rows?"""

import argparse
import warnings
from collections.abc import Collection
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from widemargin.cli.candidates import Candidate, TableModel
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.keys import GoalsFile, TablePath, table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.reports import audit_document, audit_suite, write_json, write_junit
from widemargin.cli.subjects import (
    NO_VERDICT,
    audited_rows,
    blocks_and_candidates,
    columns_needed,
    named_part,
    refuse_main_rows_only,
)
from widemargin.cli.tables.column_roles import (
    TableRows,
    external_rows,
    is_it,
    require_columns,
    rows_of,
)
from widemargin.cli.tables.table_files import Block, TableBlocks
from widemargin.cli.tables.training_data import warn_of_training_rows
from widemargin.cli.workers import by_pieces, in_pieces
from widemargin.diagnostics import AuditBlock, AuditCounts, GoalReport
from widemargin.exceptions import DataError, TableWarning, WidemarginError
from widemargin.goals import Goal

__all__ = ["run"]

RANDOMIZED = (
    'The model was trained with enforce = "randomized", which holds the bounds for predict_randomized on the training\n'
    "rows. Measured and decided here are the rates of predict."
)


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
        if getattr(getattr(candidate, "last", None), "enforce", None) == "randomized":
            say(f"\n{RANDOMIZED}")
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
    goal, positive = goals.audit_goal or goals.goal, goals.data.positive
    baselines = {column: f"baselines.{name}" for name, column in goals.baselines.items() if name in goal.baselines}
    require_columns(SimpleNamespace(column_names=blocks.names), baselines, blocks.title)
    task = _Counting(candidate, goals, goal, part, columns_needed(goals, goal, [candidate]))
    try:
        if in_pieces(blocks, options.workers):
            counts, texts = _counted_in_pieces(task, blocks, options.workers, progress, deadline)
        else:
            counts, texts = AuditCounts(goal, classes=candidate.classes, pos_label=positive), []
            for block, rows in audited_rows(blocks, goals, part, task.columns, deadline=deadline):
                progress.step(f"measuring the goal: {counts.n_rows} rows")
                counts.add(_audit_block(candidate, block, rows, positive))
        _add_external(counts, candidate, goals, goal)
        for text in [*texts[:1], *candidate.finish()]:
            warnings.warn(text, TableWarning, stacklevel=2)
        return counts.report(decide=options.decide, data_name=f"{part} rows of {blocks.title}")
    except WidemarginError as error:
        if goals.data.target in blocks.names or "label" not in str(error):
            raise
        target, (fact, _, _) = goals.data.target, str(error).partition(" Give y=")
        raise DataError(
            f"column {target!r} (data.target) is not in {blocks.title}.{is_it(target, blocks.names)} "
            f"{fact.rstrip('.')}. Add that column, or ask in [goal.audit] for rates without labels only "
            "(positive_rate, negative_rate, churn)"
        ) from error


class _Counting(NamedTuple):
    """What is counted."""

    candidate: Candidate
    goals: GoalsFile
    goal: Goal
    part: str
    columns: Collection[str] | None


def _count_piece(task: _Counting, piece: TableBlocks) -> tuple[AuditCounts, list[str]]:
    """Counts of a piece of the table, made by a worker, and what the candidate has to say in the end."""
    positive = task.goals.data.positive
    counts = AuditCounts(task.goal, classes=task.candidate.classes, pos_label=positive)
    for block in piece.read(task.columns, split=task.goals.data.split, part=task.part):
        rows = rows_of(block, task.goals)
        counts.add(_audit_block(task.candidate, block._replace(table=rows.populations), rows, positive))
    return counts, task.candidate.finish()


def _counted_in_pieces(
    task: _Counting, blocks: TableBlocks, workers: str, progress: Progress, deadline: Deadline
) -> tuple[AuditCounts, list[str]]:
    """Counts of all pieces, made side by side, and what the candidate has to say in the end."""
    counts = AuditCounts(task.goal, classes=task.candidate.classes, pos_label=task.goals.data.positive)
    texts: list[str] = []
    deadline.check(0, blocks.n_rows, f"rows of {blocks.title}")
    for found, told in by_pieces(partial(_count_piece, task), blocks, workers):
        progress.step(f"measuring the goal: {counts.n_rows} rows")
        counts.merge(found)
        texts += told
        deadline.check(counts.n_rows, blocks.n_rows, f"rows of {blocks.title}")
    if not counts.n_rows:
        next(audited_rows(blocks, task.goals, task.part, task.columns))  # says that there are no such rows
    return counts, texts


def _audit_block(
    candidate: Candidate, block: Block, rows: TableRows, positive: Any, source: str | None = None
) -> AuditBlock:
    """What a classifier says of some rows."""
    answer = candidate.answer(block)
    ramp = answer.ramp
    if ramp is not None and candidate.classes is not None and candidate.classes[0] == positive:
        ramp = 1.0 - ramp
    return AuditBlock(
        answer.labels, rows.y, sample_weight=rows.sample_weight, populations=rows.populations, ramp=ramp, source=source
    )


def _add_external(counts: AuditCounts, candidate: Candidate, goals: GoalsFile, goal: Goal) -> None:
    """The rows of the external data sets that the goal names."""
    refuse_main_rows_only(goal, [candidate])
    for name, rows in external_rows(goals, goal, words=candidate.words).items():
        block = Block.whole(rows.populations, f"external.{name}")
        counts.add(_audit_block(candidate, block, rows, goals.data.positive, source=name))

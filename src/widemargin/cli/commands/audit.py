"""`widemargin audit GOALS.toml --model M --data FILE`: does a classifier meet the goal on these rows?"""

import argparse
import warnings
from functools import partial
from typing import Any

from widemargin.cli.candidates import TableModel
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.models_and_rows import NO_VERDICT, Asked, audited_rows, external_blocks, open_asked
from widemargin.cli.reports import audit_document, audit_suite, write_json, write_junit
from widemargin.cli.tables.column_roles import is_it
from widemargin.cli.tables.table_files import Block, TableBlocks
from widemargin.cli.tables.training_data import TableRows, rows_of, warn_of_training_rows
from widemargin.cli.workers import by_pieces
from widemargin.diagnostics import AuditBlock, AuditCounts, GoalReport
from widemargin.exceptions import DataError, TableWarning, WidemarginError

__all__ = ["run"]


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure and print; the exit code and the content for --json."""
    goals = goals_of(options)
    deadline = Deadline(options.time_budget, NO_VERDICT)
    with Progress() as progress:
        progress.step("loading the model")
        asked = open_asked(goals, [options.predictions or options.model], options)
        (candidate,) = asked.candidates
        if asked.part == "all" and isinstance(candidate, TableModel):  # others may have been trained on anything
            warn_of_training_rows(goals, options.data or goals.data.table)
        report = _measured(asked, options, progress, deadline)
    document = audit_document(report, options, model=candidate.title, data=asked.blocks.title, part=asked.part)
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


def _measured(asked: Asked, options: argparse.Namespace, progress: Progress, deadline: Deadline) -> GoalReport:
    blocks, target, what = asked.blocks, asked.goals.data.target, f"rows of {asked.blocks.title}"
    (candidate,) = asked.candidates
    counts, texts = _nothing_counted(asked), list[str]()
    try:
        pieces = by_pieces(partial(_count_piece, asked), blocks, options.workers)
        if pieces is None:
            for block, rows in audited_rows(asked, deadline=deadline):
                progress.step(f"measuring the goal: {counts.n_rows} rows")
                counts.add(_audit_block(asked, block, rows))
        else:
            deadline.check(0, blocks.n_rows, what)
            for piece_counts, piece_texts in pieces:
                progress.step(f"measuring the goal: {counts.n_rows} rows")
                counts.merge(piece_counts)
                texts += piece_texts
                deadline.check(counts.n_rows, blocks.n_rows, what)
            if not counts.n_rows:
                next(audited_rows(asked))  # says that there are no such rows
        for name, block, rows in external_blocks(asked):
            counts.add(_audit_block(asked, block, rows, name))
        for text in [*texts[:1], *candidate.finish()]:
            warnings.warn(text, TableWarning, stacklevel=2)
        return counts.report(decide=options.decide, data_name=asked.title)
    except WidemarginError as error:
        if target in blocks.names or "label" not in str(error):
            raise
        fact = str(error).partition(" Give y=")[0].rstrip(".")
        raise DataError(
            f"column {target!r} (data.target) is not in {blocks.title}.{is_it(target, blocks.names)} {fact}. Add that "
            "column, or ask in [goal.audit] for rates without labels only (positive_rate, negative_rate, churn)"
        ) from error


def _count_piece(asked: Asked, piece: TableBlocks) -> tuple[AuditCounts, list[str]]:
    """Counts of a piece of the table, made by a worker, and what the candidate has to say in the end."""
    counts = _nothing_counted(asked)
    for block in piece.read(asked.columns, split=asked.goals.data.split, part=asked.part):
        rows = rows_of(block, asked.goals)
        counts.add(_audit_block(asked, block._replace(table=rows.populations), rows))
    return counts, asked.candidates[0].finish()


def _nothing_counted(asked: Asked) -> AuditCounts:
    return AuditCounts(asked.goal, classes=asked.candidates[0].classes, pos_label=asked.goals.data.positive)


def _audit_block(asked: Asked, block: Block, rows: TableRows, source: str | None = None) -> AuditBlock:
    """What a classifier says of some rows."""
    (candidate,) = asked.candidates
    answer = candidate.answer(block)
    ramp = answer.ramp
    if ramp is not None and candidate.classes is not None and candidate.classes[0] == asked.goals.data.positive:
        ramp = 1.0 - ramp
    return AuditBlock(
        answer.labels, rows.y, sample_weight=rows.sample_weight, populations=rows.populations, ramp=ramp, source=source
    )

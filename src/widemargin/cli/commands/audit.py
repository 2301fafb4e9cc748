"""`widemargin audit GOALS.toml --model M --data FILE`: does a classifier meet the goal on these rows?"""

import argparse
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from widemargin._text import close_match
from widemargin.cli.candidates import TableModel
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.keys import TablePath, table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.models_and_rows import (
    NO_VERDICT,
    Request,
    audited_rows,
    classes_of,
    external_blocks,
    open_request,
    unlabelled_rows,
)
from widemargin.cli.parser import OF_STANDARDS, refuse_options
from widemargin.cli.reports import PREDICATE, audit_document, audit_suite, junit_xml, statement, write_json, write_text
from widemargin.cli.tables.table_files import Block, TableBlocks, table_files
from widemargin.cli.tables.training_data import TableRows, is_trained_on
from widemargin.cli.workers import by_pieces
from widemargin.diagnostics import AuditBlock, AuditCounts, GoalReport
from widemargin.exceptions import DataError, TableWarning, WidemarginError


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure and print; the exit code and the content for --json."""
    refuse_options(options, OF_STANDARDS, "belong to audits with --standard")
    if options.goals is None:
        raise DataError("no goals file was named. Name one, or ask for --standard and name a table")
    goals = goals_of(options)
    deadline = Deadline(options.time_budget, NO_VERDICT)
    with Progress() as progress:
        progress.step("loading the model")
        request = open_request(goals, [options.predictions or options.model], options)
        (candidate,) = request.candidates
        measured = options.data or goals.data.table
        # Other models than ours may have been trained on anything.
        if request.part == "all" and isinstance(candidate, TableModel) and is_trained_on(goals, measured):
            of_train = "; `train` has measured those that validation.fraction held out"
            held = "" if goals.validation.fraction is None else of_train
            text = (
                f"{table_text(measured)} holds the rows that the model was trained on, so its rates are better than on "
                f"new rows{held}. Measure new rows, or name a column by data.split"
            )
            warnings.warn(text, TableWarning, stacklevel=2)
        report = _measured(request, options, progress, deadline)
    document = audit_document(report, options, model=candidate.title, data=request.blocks.title, part=request.part)
    write_json(document, options.report_json)
    if options.model_card is not None:
        from widemargin.report import goal_card  # not needed, and slow to import, without a card

        write_text(goal_card(report, model_name=options.tool or candidate.title), options.model_card, "model card")
    if options.in_toto is not None:
        write_json(statement(PREDICATE, document, options, _files(options, measured)), options.in_toto)
    if options.junit is not None:
        write_text(junit_xml([audit_suite(report, suite=str(options.goals))]), options.junit)
    say(f"Model: {candidate.title}", "", str(report))
    if getattr(candidate.last, "enforce", None) == "randomized":
        say(
            '\nThe model was trained with enforce = "randomized", which holds the bounds for predict_randomized on '
            "the training\nrows. Measured and decided here are the rates of predict."
        )
    return report.exit_code, document


def _measured(request: Request, options: argparse.Namespace, progress: Progress, deadline: Deadline) -> GoalReport:
    blocks, target, what = request.blocks, request.goals.data.target, f"rows of {request.blocks.title}"
    (candidate,) = request.candidates
    counts, texts = _nothing_counted(request), list[str]()
    try:
        pieces = by_pieces(partial(_count_piece, request), blocks, options.workers)
        if pieces is None:
            for block, rows in audited_rows(request, deadline=deadline):
                progress.step(f"measuring the goal: {counts.n_rows} rows")
                counts.add(_audit_block(request, block, rows))
        else:
            deadline.check(0, blocks.n_rows, what)
            for piece_counts, piece_texts in pieces:
                progress.step(f"measuring the goal: {counts.n_rows} rows")
                counts.merge(piece_counts)
                texts += piece_texts
                deadline.check(counts.n_rows, blocks.n_rows, what)
            if not counts.n_rows:
                next(audited_rows(request))  # says that there are no such rows
        n_unlabelled = unlabelled_rows(request) if request.needed in blocks.names else 0
        left_out = [f"{n_unlabelled} rows without a value of {target!r} are left out"] if n_unlabelled else []
        for name, block, rows in external_blocks(request):
            counts.add(_audit_block(request, block, rows, name))
        for text in [*texts[:1], *candidate.finish(), *left_out]:
            warnings.warn(text, TableWarning, stacklevel=2)
        return counts.report(decide=options.decide, data_name=request.title, missing_groups=options.missing_groups)
    except WidemarginError as error:
        is_there = target in blocks.names
        if (is_there and request.is_labelled) or "label" not in str(error):
            raise
        fact = str(error).partition(" Give y=")[0].rstrip(".")
        near = "" if is_there else close_match(target, blocks.names)
        raise DataError(
            f"column {target!r} (data.target) {'holds no value' if is_there else 'is not'} in {blocks.title}.{near} "
            f"{fact}. {'Fill' if is_there else 'Add'} that column, or ask in [goal.audit] for rates without labels "
            "only (positive_rate, negative_rate, churn)"
        ) from error


def _files(options: argparse.Namespace, table: TablePath) -> list[Path]:
    """The files that a verdict rests on: table, goals file, and the model or the file of predictions."""
    model = options.model or Path(options.predictions)
    # A file of predictions may be followed by a colon and a column.
    model = model if model.exists() else Path(str(model).rpartition(":")[0])
    return [*table_files(table), options.goals, model]


def _count_piece(request: Request, piece: TableBlocks) -> tuple[AuditCounts, list[str]]:
    """Counts of a piece of the table, counted by a worker, and the candidate's notes."""
    counts = _nothing_counted(request)
    data = request.goals.data
    for block in piece.read(request.columns, split=data.split, part=request.part, needed=request.needed):
        rows = request.rows(block)
        counts.add(_audit_block(request, block._replace(table=rows.populations), rows))
    return counts, request.candidates[0].finish()


def _nothing_counted(request: Request) -> AuditCounts:
    (candidate,) = request.candidates
    return AuditCounts(
        request.goal,
        classes=classes_of(request, candidate),
        pos_label=request.goals.data.positive,
        abstain=candidate.abstain,
    )


def _audit_block(request: Request, block: Block, rows: TableRows, source: str | None = None) -> AuditBlock:
    """The answers of a classifier for some rows."""
    (candidate,) = request.candidates
    answer = candidate.answer(block)
    ramp = answer.ramp
    if ramp is not None and candidate.classes is not None and candidate.classes[0] == request.goals.data.positive:
        ramp = 1.0 - ramp
    facts = {} if source is not None else candidate.facts(request.goal, block, rows.y, request.goals.data.positive)
    return AuditBlock(
        answer.labels, rows.y, sample_weight=rows.sample_weight, populations=rows.populations, ramp=ramp, source=source,
        baselines=facts,
    )  # fmt: skip

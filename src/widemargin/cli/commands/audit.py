"""`widemargin audit GOALS.toml --model M --data FILE`: does a classifier meet the goal on these rows?"""

import argparse
import warnings
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.keys import GoalsFile, TablePath, table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.junit import audit_suite, write_junit
from widemargin.cli.models import Answer, Candidate, TableModel, load_candidate
from widemargin.cli.report_files import audit_document, write_json
from widemargin.cli.tables.column_roles import (
    Block,
    Rows,
    external_rows,
    feature_columns,
    is_it,
    require_columns,
    rows_of,
    split_rows,
    third_class,
)
from widemargin.cli.tables.predictions import PredictionsFile
from widemargin.cli.tables.table_blocks import TableBlocks
from widemargin.cli.tables.training_data import is_trained_on, warn_of_training_rows
from widemargin.cli.workers import by_pieces, in_pieces
from widemargin.diagnostics import AuditBlock, AuditCounts, GoalReport
from widemargin.exceptions import DataError, TableWarning, WidemarginError
from widemargin.goals import Goal
from widemargin.goals.binding.digest import columns_used

__all__ = [
    "NO_VERDICT",
    "audited_rows",
    "blocks_and_candidates",
    "columns_needed",
    "named_part",
    "refuse_main_rows_only",
    "run",
]

NO_VERDICT = "A verdict on these alone would mislead, so there is none. Give more time, or fewer rows, drawn at random"
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


def blocks_and_candidates(
    given: Collection[str], goals: GoalsFile, path: TablePath, options: argparse.Namespace
) -> tuple[TableBlocks, list[Candidate]]:
    """The table to be read in blocks, and the classifiers: model files, or (`options.predictions`) columns of files."""
    held = goals.validation.fraction if goals.validation.confidence is None and is_trained_on(goals, path) else None
    how: dict[str, Any] = {
        "fraction": held,
        "pieces": options.time_budget is not None,
        "separator": goals.data.separator,
    }
    if options.predictions:
        key = options.key
        blocks = TableBlocks(path, words=[*goals.data.words, *([] if key is None else [key])], **how)
        predicted = [PredictionsFile(str(name), key, blocks.n_rows) for name in given]
        if options.model_positive is None:
            _refuse_other_labels(predicted, blocks, goals)
        return blocks, _renamed(predicted, blocks, goals, options)
    blocks = TableBlocks(path, words=goals.data.words, **how)
    features = feature_columns(SimpleNamespace(column_names=blocks.names), goals)
    candidates = [load_candidate(Path(name), features=features, trust_code=options.trust_code) for name in given]
    words = dict.fromkeys([*goals.data.words, *(word for candidate in candidates for word in candidate.words)])
    if blocks.is_guessed and len(words) > len(goals.data.words):
        blocks = TableBlocks(path, words=list(words), **how)
    candidates = _renamed(candidates, blocks, goals, options)
    for item in candidates:
        if item.classes is not None and goals.data.positive not in item.classes:
            raise DataError(
                f"{item.title}: its classes are {', '.join(map(repr, item.classes[:5]))}, and data.positive is "
                f"{goals.data.positive!r}. Correct data.positive, or say by --model-positive which of them it is"
            )
    return blocks, candidates


def _renamed(
    candidates: Sequence[Candidate], blocks: TableBlocks, goals: GoalsFile, options: argparse.Namespace
) -> list[Candidate]:
    """The candidates, told by --model-positive, where it is given, what their labels mean.

    Of two that are compared, each may have a label of its own, or one may speak of the target's classes already; it is
    left as it is then.
    """
    positive = goals.data.positive
    if options.model_positive is None:
        return list(candidates)
    said = [options.model_positive] if isinstance(options.model_positive, str) else options.model_positive
    if len(said) > len(candidates):
        raise DataError(f"--model-positive stands {len(said)} times for {len(candidates)} models. Give one for each")
    if len(said) > 1:
        other = _other_class(blocks, goals)
        return [Renamed(item, label, positive, other) for item, label in zip(candidates, said, strict=True)]
    wanted = said[0]
    labels = [getattr(item, "labels", item.classes) or () for item in candidates]
    named = [wanted in map(str, own) for own in labels]
    ready = [any(named) and not is_named and positive in own for is_named, own in zip(named, labels, strict=True)]
    negative = _other_class(blocks, goals)
    pairs = zip(candidates, ready, strict=True)
    return [item if is_ready else Renamed(item, wanted, positive, negative) for item, is_ready in pairs]


def _refuse_other_labels(predicted: Sequence[PredictionsFile], blocks: TableBlocks, goals: GoalsFile) -> None:
    """Refuse files of predictions of which no label is one of the target's."""
    if goals.data.target not in blocks.names:
        return
    pair = [_other_class(blocks, goals), goals.data.positive]
    for item in predicted:
        if not any(label in pair for label in item.labels):
            raise DataError(
                f"{item.title}: its labels are {', '.join(map(repr, item.labels[:5]))}, and the target's are "
                f"{pair[0]!r} and {pair[1]!r}. Write these, or say by --model-positive which label is the positive one"
            )


class Renamed:
    """A candidate with labels of its own (0 and 1, say), told which of them is the positive one."""

    def __init__(self, inner: Candidate, wanted: str, positive: Any, negative: Any) -> None:
        self.inner, self._wanted, self._pair = inner, wanted, (negative, positive)
        self._seen: set[str] = set()
        self.title, self.features, self.words = inner.title, inner.features, inner.words
        own = inner.classes
        self.classes: list[Any] | None = None
        if own is not None:
            if len(own) != 2 or wanted not in map(str, own):
                raise DataError(f"--model-positive {wanted} is none of the classes of {inner.title}: {own}. Correct it")
            self.classes = [self._pair[int(str(label) == wanted)] for label in own]

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        found = self.inner.answer(block, everything=everything)
        texts = np.asarray(found.labels).astype(str)
        self._seen |= set(np.unique(texts).tolist())
        if len(self._seen | {self._wanted}) > 2:
            raise DataError(
                f"{self.title} gives the labels {', '.join(sorted(self._seen))}, and --model-positive is "
                f"{self._wanted}. Two classes are needed: correct --model-positive"
            )
        labels = np.array(self._pair, dtype=object)[(texts == self._wanted).astype(np.intp)]
        return found._replace(labels=labels)

    def finish(self) -> list[str]:
        """See `Candidate`."""
        return self.inner.finish()


def _other_class(blocks: TableBlocks, goals: GoalsFile) -> Any:
    """The negative class, as the target's column writes it."""
    target, positive = goals.data.target, goals.data.positive
    if target in blocks.names:
        for block in blocks.read([target]):
            for value in pc.unique(block.table[target]).to_pylist():
                if value is not None and value != positive:
                    return value
    return f"not {positive}" if isinstance(positive, str) else not positive


def named_part(blocks: TableBlocks, goals: GoalsFile, rows: str | None) -> str:
    """Which rows are asked for: all, train or test."""
    split = goals.data.split
    splittable = blocks.fraction is not None or (split is not None and split.column in blocks.names)
    wanted = rows or ("test" if splittable else "all")
    if wanted != "all" and not splittable:
        raise DataError(
            f"{blocks.title}: --rows {wanted} needs the column that data.split names"
            + (f", {split.column!r}. Add it or use --rows all" if split else "; add data.split to the goals file")
        )
    return wanted


def columns_needed(goals: GoalsFile, goal: Goal, candidates: Collection[Candidate]) -> set[str] | None:
    """Columns of the table that an audit looks at; None where that is not known."""
    if any(candidate.features is None for candidate in candidates) or goals.baseline_models or goals.baseline_functions:
        return None
    names = {goals.data.target, *goals.baselines.values()}
    names |= {name for candidate in candidates for name in candidate.features or []}
    names |= {str(name) for name in columns_used(goal).get(None, {})}
    names |= set() if goals.data.weight is None else {goals.data.weight}
    return names if goals.data.split is None else names | {goals.data.split.column}


def audited_rows(
    blocks: TableBlocks,
    goals: GoalsFile,
    part: str,
    columns: Collection[str] | None,
    *,
    some_labels: bool = False,
    deadline: Deadline | None = None,
) -> Iterator[tuple[Block, Rows]]:
    """The rows asked for, with their labels and baselines, a block at a time.

    With `some_labels` labels may be missing; they are None then.

    Raises
    ------
    DataError
        There are no such rows, or as `rows_of`.
    TimeBudgetError
        The time is up before the last row.
    """
    some, seen = False, set[Any]()
    deadline = deadline or Deadline(None, NO_VERDICT)
    deadline.check(0, blocks.n_rows, f"rows of {blocks.title}")
    for block in blocks.read(columns, split=goals.data.split, part=part):
        some = True
        rows = _partly_labelled(block, goals) if some_labels else None
        rows = rows or rows_of(block, goals)
        if rows.labels is not None:
            seen |= {label for label in rows.labels.tolist() if label is not None}
            if len(seen) > 2:
                raise third_class(block, goals.data.target, rows.labels, sorted(seen, key=str))
        yield Block(rows.table, block.rows, block.title), rows
        deadline.check(int(block.rows[-1]) + 1, blocks.n_rows, f"rows of {blocks.title}")
    if not some and goals.data.split is not None:
        whole = [block.table.select([goals.data.split.column]) for block in blocks.read([goals.data.split.column])]
        cure = "Correct the value, or choose other rows by --rows all|train|test"
        split_rows(whole[0], goals.data.split, blocks.title, wanted=[part], cure=cure)


def _partly_labelled(block: Block, goals: GoalsFile) -> Rows | None:
    """Rows in which labels are missing; None if none is."""
    target, table = goals.data.target, block.table
    if target not in table.column_names or not table[target].null_count:
        return None
    rows = rows_of(block._replace(table=table.drop([target])), goals)
    labels = np.array(table[target].to_pylist(), dtype=object)
    return Rows(rows.table.append_column(target, table[target]), labels, rows.weights)


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
        counts.add(_audit_block(task.candidate, block._replace(table=rows.table), rows, positive))
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
    candidate: Candidate, block: Block, rows: Rows, positive: Any, source: str | None = None
) -> AuditBlock:
    """What a classifier says of some rows."""
    answer = candidate.answer(block)
    ramp = answer.ramp
    if ramp is not None and candidate.classes is not None and candidate.classes[0] == positive:
        ramp = 1.0 - ramp
    return AuditBlock(
        answer.labels, rows.labels, sample_weight=rows.weights, populations=rows.table, ramp=ramp, source=source
    )


def _add_external(counts: AuditCounts, candidate: Candidate, goals: GoalsFile, goal: Goal) -> None:
    """The rows of the external data sets that the goal names."""
    refuse_main_rows_only(goal, [candidate])
    for name, rows in external_rows(goals, goal, words=candidate.words).items():
        block = Block.whole(rows.table, f"external.{name}")
        counts.add(_audit_block(candidate, block, rows, goals.data.positive, source=name))


def refuse_main_rows_only(goal: Goal, candidates: Collection[Candidate]) -> None:
    """Refuse files of predictions where the goal is measured on other rows than theirs too."""
    about_main = [item for item in candidates if isinstance(getattr(item, "inner", item), PredictionsFile)]
    if goal.sources and about_main:
        raise DataError(
            f"the goal is measured on {', '.join(map(repr, goal.sources))} too, and {about_main[0].title} are about "
            "the main rows only. Give the model, or in Python widemargin.audit with the predictions of every data set"
        )

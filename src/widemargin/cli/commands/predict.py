"""`widemargin predict [GOALS.toml] --model M --data FILE --out FILE`: labels, scores and probabilities of new rows.

Scores and probabilities of two classes are those of the positive one: that of the goals file, else of the model, else
the second of its classes.
"""

import argparse
import warnings
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from widemargin._typing import Label
from widemargin.cli.candidates import PREDICTION, Candidate
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.goals_file.rules import refuse_to_replace
from widemargin.cli.subjects import load_candidate
from widemargin.cli.tables.column_roles import feature_columns, is_it
from widemargin.cli.tables.table_files import Block, TableBlocks
from widemargin.cli.tables.table_writing import TableWriter
from widemargin.cli.workers import by_pieces, in_pieces
from widemargin.exceptions import DataError, TableWarning, TimeBudgetError

__all__ = ["run"]


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Write the predictions; the exit code and the content for --json."""
    deadline = Deadline(options.time_budget, "Give more time, or a table of fewer rows")
    if options.goals is None:
        refuse_to_replace(options)
    goals = None if options.goals is None else goals_of(options)
    options = argparse.Namespace(**vars(options) | {"out": _out_path(options, goals)})
    path = _model_path(options, goals)
    with Progress() as progress:
        progress.step("loading the model")
        separator = options.separator if goals is None else goals.data.separator
        how: dict[str, Any] = {"pieces": options.time_budget is not None, "separator": separator}
        blocks = TableBlocks(options.data, **how)
        names = SimpleNamespace(column_names=blocks.names)
        candidate = load_candidate(
            path, features=None if goals is None else feature_columns(names, goals), trust_code=options.trust_code
        )
        kept_as_text = [name for name in options.keep if name not in (candidate.features or ())]
        words = [*kept_as_text, *candidate.words, *(() if goals is None else goals.data.words)]
        if blocks.is_guessed and words:
            blocks = TableBlocks(options.data, words=words, **how)
        _check(blocks, candidate, options)
        positive = _positive(candidate, goals)
        n_rows, columns = _written(blocks, candidate, positive, options, progress, deadline)
    for text in candidate.finish():
        warnings.warn(text, TableWarning, stacklevel=2)
    if not options.json:
        say(f"Model: {candidate.title}", f"{n_rows} predictions ({', '.join(columns)}) saved as {options.out}")
        if positive is not None and "score" in columns:
            say(f"A score above 0 speaks for {positive!r}")
    return 0, {
        "model": candidate.title, "data": str(options.data), "out": str(options.out), "rows": n_rows,
        "columns": columns, "positive": positive,
    }  # fmt: skip


def _positive(candidate: Candidate, goals: GoalsFile | None) -> Any:
    """The class that scores speak for; None where it is not known, or there are more than two."""
    classes = candidate.classes
    if classes is None or len(classes) != 2:
        return None
    own = getattr(getattr(candidate, "last", None), "positive_class_", classes[1])
    wanted = own.item() if isinstance(own, np.generic) else own
    return goals.data.positive if goals is not None and goals.data.positive in classes else wanted


def _model_path(options: argparse.Namespace, goals: GoalsFile | None) -> Path:
    path: Path | None = options.model or (None if goals is None else goals.outputs.model)
    if path is None:
        raise DataError("no model is named. Give --model FILE, or a goals file with [output] model")
    return path


def _out_path(options: argparse.Namespace, goals: GoalsFile | None) -> Path:
    path: Path | None = options.out or (None if goals is None else goals.outputs.predictions)
    if path is None:
        raise DataError("no file is named for the predictions. Give --out FILE, or [output] predictions")
    return path


def _check(blocks: TableBlocks, candidate: Candidate, options: argparse.Namespace) -> None:
    """Refuse what would only be found out after the work."""
    for name in options.keep:
        if name not in blocks.names:
            raise DataError(f"{options.data}: --keep {name}: there is no such column.{is_it(name, blocks.names)}")
    TableWriter(options.out)
    taken = [name for name in options.keep if name in (PREDICTION, "score", "probability")]
    if taken:
        raise DataError(f"--keep {taken[0]}: a column of that name is written. Rename it in the table")


def _written(
    blocks: TableBlocks,
    candidate: Candidate,
    positive: Label | None,
    options: argparse.Namespace,
    progress: Progress,
    deadline: Deadline,
) -> tuple[int, list[str]]:
    """Write block after block; what is done when the time is up, or at Ctrl-C, is kept in a file of its own."""
    # Where populations decide too (thresholds of their own), every column may be needed.
    every = candidate.features is None or hasattr(getattr(candidate, "last", None), "thresholds_")
    columns = None if every else {*(candidate.features or ()), *options.keep}
    n_rows, names = 0, []
    with TableWriter(options.out) as writer:
        try:
            deadline.check(0, blocks.n_rows, f"rows of {blocks.title}")
            for table in _tables(blocks, _Asking(candidate, positive, options.keep, columns), options.workers):
                progress.step(f"predicting: {n_rows} of {blocks.n_rows} rows (Ctrl-C keeps these)")
                writer.write(table)
                n_rows, names = n_rows + table.num_rows, table.column_names
                deadline.check(n_rows, blocks.n_rows, f"rows of {blocks.title}")
        except (KeyboardInterrupt, TimeBudgetError) as stop:
            kept = writer.keep_part()
            text = (
                "Nothing was written" if kept is None else f"The predictions of the first {n_rows} rows are in {kept}"
            )
            if isinstance(stop, KeyboardInterrupt):
                raise KeyboardInterrupt(f"{text[0].lower()}{text[1:]}") from None
            told = {"done": n_rows, "total": blocks.n_rows, "kept": None if kept is None else str(kept)}
            raise TimeBudgetError(f"{stop}. {text}", **told) from None
    return n_rows, list(names)


class _Asking(NamedTuple):
    """What is asked."""

    candidate: Candidate
    positive: Label | None
    keep: list[str]
    columns: Collection[str] | None


def _answered(asking: _Asking, blocks: TableBlocks) -> Iterator[Any]:
    """The answers, a block at a time."""
    for block in blocks.read(asking.columns):
        yield _answers(asking.candidate, block, asking.positive, asking.keep)


def _answer_piece(asking: _Asking, piece: TableBlocks) -> tuple[list[Any], list[str]]:
    """The answers about a piece of the table, by a worker, and what the candidate has to say in the end."""
    return list(_answered(asking, piece)), asking.candidate.finish()


def _tables(blocks: TableBlocks, asking: _Asking, workers: str | None) -> Iterator[Any]:
    """The answers about all rows, in order; here or side by side."""
    if workers is None or not in_pieces(blocks, workers):
        yield from _answered(asking, blocks)
        return
    told: list[str] = []
    for tables, texts in by_pieces(partial(_answer_piece, asking), blocks, workers):
        told += texts
        yield from tables
    for text in told[:1]:
        warnings.warn(text, TableWarning, stacklevel=2)


def _answers(candidate: Candidate, block: Block, positive: Label | None, keep: list[str]) -> pa.Table:
    answer = candidate.answer(block, everything=True)
    turned = positive is not None and candidate.classes is not None and positive == candidate.classes[0]
    columns = {name: block.table[name] for name in keep}
    labels = answer.labels
    columns[PREDICTION] = pa.array(np.asarray(labels).tolist())
    for name, values in (("score", answer.scores), ("probability", answer.probabilities)):
        if values is None:
            continue
        values = np.asarray(values, dtype=np.float64)
        if values.ndim == 1 and turned:
            values = -values if name == "score" else 1.0 - values
        if values.ndim == 1:
            columns[name] = pa.array(values)
        elif candidate.classes is not None and values.shape[1] == len(candidate.classes):
            columns |= {f"{name} {label}": pa.array(values[:, j]) for j, label in enumerate(candidate.classes)}
    return pa.table(columns)

"""`widemargin predict [GOALS.toml] --model M --data FILE --out FILE`: labels, scores and probabilities of new rows.

Scores and probabilities of two classes are those of the positive one: that of the goals file, else of the model, else
the second of its classes.
"""

import argparse
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from widemargin._text import close_match
from widemargin._typing import Label
from widemargin.cli.candidates import PREDICTION, Candidate, score_rule
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.goals_file.rules import refuse_to_replace
from widemargin.cli.models_and_rows import load_candidate
from widemargin.cli.tables.column_roles import feature_columns
from widemargin.cli.tables.table_files import TableBlocks
from widemargin.cli.tables.table_writing import TableWriter
from widemargin.cli.workers import by_pieces
from widemargin.diagnostics.audit import own_setting
from widemargin.exceptions import DataError, TableWarning, TimeBudgetError
from widemargin.goals.binding.labels import plain_value


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Write the predictions; the exit code and the content for --json."""
    deadline = Deadline(options.time_budget, "Give more time, or a table of fewer rows")
    if options.goals is None:
        refuse_to_replace(options)
    goals = None if options.goals is None else goals_of(options)
    out = options.out or (None if goals is None else goals.outputs.predictions)
    if out is None:
        raise DataError("no file is named for the predictions. Give --out FILE, or [output] predictions")
    if options.model is None:
        raise DataError("no model is named. Give --model FILE, or a goals file with [output] model")
    with Progress() as progress:
        progress.step("loading the model")
        how: dict[str, Any] = {"separator": options.separator} if goals is None else {**goals.data.csv, "words": ()}
        how["pieces"] = options.time_budget is not None
        blocks = TableBlocks(options.data, **how)
        features = None if goals is None else feature_columns(blocks.names, goals)
        candidate = load_candidate(options.model, features=features, trust_code=options.trust_code)
        copied_as_text = [name for name in options.keep if name not in (candidate.features or ())]
        words = [*copied_as_text, *candidate.words, *(() if goals is None else goals.data.words)]
        if blocks.is_guessed and words:
            blocks = TableBlocks(options.data, **how | {"words": words})
        # Refused here, because otherwise these faults would show only after the work.
        for name in options.keep:
            if name not in blocks.names:
                raise DataError(
                    f"{options.data}: --keep {name}: there is no such column.{close_match(name, blocks.names)}"
                )
            if name in (PREDICTION, "score", "probability"):
                raise DataError(f"--keep {name}: a column of that name is written. Rename it in the table")
        # Scores speak for one class where there are two: that of the goals file, else of the model.
        positive, classes = None, candidate.classes
        if classes is not None and len(classes) == 2:
            positive = plain_value(getattr(candidate.last, "positive_class_", classes[1]))
            positive = goals.data.positive if goals is not None and goals.data.positive in classes else positive
        # Where populations decide too (thresholds of their own), every column may be needed.
        every = candidate.features is None or own_setting(candidate.last, "per_population") is not None
        wanted = None if every else {*(candidate.features or ()), *options.keep}
        question, writer = _Question(candidate, positive, options.keep, wanted), TableWriter(out)
        n_rows, columns, texts = _written(question, blocks, options.workers, writer, progress, deadline)
    for text in texts:
        warnings.warn(text, TableWarning, stacklevel=2)
    say(f"Model: {candidate.title}", f"{n_rows} predictions ({', '.join(columns)}) saved as {out}")
    if positive is not None and "score" in columns:
        say(*score_rule(candidate.last, positive))
    return 0, {
        "model": candidate.title, "data": str(options.data), "out": str(out), "rows": n_rows,
        "columns": columns, "positive": positive,
    }  # fmt: skip


class _Question(NamedTuple):
    """What is asked about rows, and of whom; it can be sent to workers.

    Attributes
    ----------
    positive : label or None
        The class that scores of two classes speak for.
    keep : list of str
        Columns to copy.
    columns : set of str or None
        Columns that are read; None: all.
    """

    candidate: Candidate
    positive: Label | None
    keep: list[str]
    columns: set[str] | None

    def answers(self, blocks: TableBlocks) -> Iterator[pa.Table]:
        """The answers, a block at a time."""
        candidate, classes = self.candidate, self.candidate.classes
        turned = self.positive is not None and classes is not None and self.positive == classes[0]
        for block in blocks.read(self.columns):
            answer = candidate.answer(block, everything=True)
            columns = {name: block.table[name] for name in self.keep}
            labels = np.asarray(answer.labels)
            # A column has one type, and what stands for no decision is no number where the classes are numbers.
            columns[PREDICTION] = pa.array((labels if candidate.abstain is None else labels.astype(str)).tolist())
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
            yield pa.table(columns)

    def of_piece(self, piece: TableBlocks) -> tuple[list[pa.Table], list[str]]:
        """The answers about a piece of the table, by a worker, and what the candidate has to say in the end."""
        return list(self.answers(piece)), self.candidate.finish()


def _written(
    question: _Question, blocks: TableBlocks, workers: str | None, writer: TableWriter, progress: Progress,
    deadline: Deadline,
) -> tuple[int, list[str], list[str]]:  # fmt: skip
    """Write block after block; what is done when the time is up, or at Ctrl-C, is kept in a file of its own."""
    n_rows, names, told, what = 0, list[str](), list[str](), f"rows of {blocks.title}"
    with writer:
        try:
            deadline.check(0, blocks.n_rows, what)
            pieces = by_pieces(question.of_piece, blocks, workers)
            for tables, texts in (([table], []) for table in question.answers(blocks)) if pieces is None else pieces:
                told += texts
                for table in tables:
                    progress.step(f"predicting: {n_rows} of {blocks.n_rows} rows (Ctrl-C keeps these)")
                    writer.write(table)
                    n_rows, names = n_rows + table.num_rows, table.column_names
                    deadline.check(n_rows, blocks.n_rows, what)
        except (KeyboardInterrupt, TimeBudgetError) as stop:
            file = writer.keep_part()
            text = "Nothing was written"
            if file is not None:
                text = f"The predictions of the first {n_rows} rows are in {file}"
            if isinstance(stop, KeyboardInterrupt):
                raise KeyboardInterrupt(f"{text[0].lower()}{text[1:]}") from None
            facts = {"done": n_rows, "total": blocks.n_rows, "kept": None if file is None else str(file)}
            raise TimeBudgetError(f"{stop}. {text}", **facts) from None
    return n_rows, list(names), [*told[:1], *question.candidate.finish()]

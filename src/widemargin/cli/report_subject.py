"""What a report is about: the rows asked for, and what a classifier of any kind says of them."""

import argparse
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from widemargin.cli.commands.audit import audited_rows, blocks_and_candidates, named_part
from widemargin.cli.goals_file.keys import GoalsFile, TablePath
from widemargin.cli.models import Answer, Candidate
from widemargin.cli.tables.column_roles import Block, Rows
from widemargin.exceptions import TableWarning

__all__ = ["Subject", "read_subject"]


@dataclass(frozen=True)
class Subject:
    """A classifier and its answers.

    Attributes
    ----------
    candidate : Candidate
    part : str
        Which rows: "all", "train" or "test".
    rows : Rows
    answer : Answer
        Of these rows.
    external : mapping of str to Rows
        The data sets beside the table that the goal is measured on.
    external_answers : mapping of str to Answer
    """

    candidate: Candidate
    part: str
    rows: Rows
    answer: Answer
    external: Mapping[str, Rows]
    external_answers: Mapping[str, Answer]

    @property
    def model(self) -> Any:
        """The classifier as `html_report` takes it: with its scores where it has some, else its predictions."""
        said: dict[str | None, Any] = {name: answer.labels for name, answer in self.external_answers.items()}
        said[None] = self.answer.labels
        scored = self.answer.scores is not None or self.answer.probabilities is not None
        if not scored or self.candidate.classes is None:
            return said
        tables = [(self.rows.table, said[None]), *((rows.table, said[name]) for name, rows in self.external.items())]
        return _Answered(self.candidate.classes, tables, self.answer)

    @property
    def name(self) -> str:
        """What the page calls it."""
        last = getattr(self.candidate, "last", None)
        if last is None:
            return f"a model known by {Path(self.candidate.title).name}"
        last = last[-1] if hasattr(last, "steps") else last
        kernel = getattr(last, "kernel", None)
        kind = "a classifier" if kernel is None else f"a classifier with the kernel {kernel!r}"
        if kernel is None and hasattr(last, "coef_"):
            kind = "a linear classifier"
        return f"{kind} ({type(last).__name__})"

    @property
    def status(self) -> str:
        """How its training ended, where that is known."""
        return str(getattr(getattr(self.candidate, "last", None), "status_", "unknown"))


class _Answered:
    """A classifier that has answered already."""

    def __init__(self, classes: list[Any], tables: list[tuple[Any, Any]], answer: Answer) -> None:
        self.classes_ = np.array(classes)
        self._said = tables
        if answer.scores is not None:
            self.decision_function = lambda X: answer.scores
        else:
            second = np.asarray(answer.probabilities)
            self.predict_proba = lambda X: np.column_stack([1.0 - second, second])

    def predict(self, X: Any) -> Any:
        """The labels of a table, one of those that the answers are about."""
        return next(labels for table, labels in self._said if table is X)


def read_subject(
    goals: GoalsFile, data: TablePath, options: argparse.Namespace, external: Mapping[str, Rows]
) -> Subject:
    """Read the rows that are asked for, and ask the classifier about them.

    Raises
    ------
    DataError, ModelFileError
        As `widemargin audit` does.
    """
    blocks, (candidate,) = blocks_and_candidates([options.predictions or options.model], goals, data, options)
    part = named_part(blocks, goals, options.rows)
    pieces, answers = [], []
    for block, rows in audited_rows(blocks, goals, part, None):
        pieces.append(rows)
        answers.append(candidate.answer(block, everything=True))
    outside = {name: candidate.answer(Block.whole(rows.table, f"external.{name}")) for name, rows in external.items()}
    for text in candidate.finish():
        warnings.warn(text, TableWarning, stacklevel=2)
    labels = [rows.labels for rows in pieces if rows.labels is not None]
    table = pa.concat_tables([rows.table for rows in pieces], promote_options="permissive")
    weights = [rows.weights for rows in pieces if rows.weights is not None]
    whole = Rows(table, np.concatenate(labels) if labels else None, np.concatenate(weights) if weights else None)
    joined = Answer(*(_joined([answer[j] for answer in answers]) for j in range(len(Answer._fields))))
    return Subject(candidate, part, whole, joined, external, outside)


def _joined(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate([np.asarray(part) for part in parts])

"""A goals file beside its table: what would stop training, and what deserves a look.

A fault hides no other: where the labels, a baseline or an external data set cannot be used, everything that does not
depend on it is looked at all the same.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin.cli.checks.column_checks import check_features, check_names
from widemargin.cli.checks.findings import Findings
from widemargin.cli.checks.goal_checks import check_goals
from widemargin.cli.goals_file.keys import GoalsFile, Label, table_text
from widemargin.cli.goals_file.toml_lines import Problem
from widemargin.cli.tables.baselines import with_baselines
from widemargin.cli.tables.column_roles import TableRows, external_set, labels_of, named_columns, parts_of, weights_of
from widemargin.cli.tables.table_files import Block, read_table
from widemargin.cli.tables.training_data import one_class
from widemargin.exceptions import DataError, WidemarginError

__all__ = ["examine"]


class _Reading(NamedTuple):
    """One way to read labels of which the goals file does not say what is positive."""

    positive: Label
    rows: dict[str, TableRows]
    external: dict[str, TableRows]


def examine(
    goals: GoalsFile, path: Path | None = None, known: Sequence[Problem] = ()
) -> tuple[Findings, dict[str, int]]:
    """Look at the table of a goals file, or at another one in its place.

    Parameters
    ----------
    goals : GoalsFile
        Also one with problems, as `look_at` gives it.
    path : Path, default=None
    known : sequence of Problem
        What is wrong in the file.

    Returns
    -------
    findings : Findings
    counts : dict of str to int
        Rows by part; empty where the table cannot be used at all.
    """
    findings, where = Findings(goals, list(known)), table_text(path or goals.data.table)
    try:
        table = read_table(path or goals.data.table, words=goals.data.words, separator=goals.data.separator)
    except DataError as error:
        findings.problem(("data", "table"), str(error))
        return findings, {}
    check_names(findings, table, named_columns(goals))
    parts, counts = _parts(findings, table, where)
    rows = {part: _rows(findings, block, part) for part, block in parts.items()}
    labels = rows["train"].y
    positive = None if labels is None else next(iter(_positives(labels, goals)), None)
    external = _external(findings, goals.data.positive if positive is None else positive)
    tables = {part: content.populations for part, content in rows.items()}
    check_features(findings, tables, {name: content.populations for name, content in external.items()}, labels)
    baselines = () if labels is None else _usable_baselines(goals, rows)
    about = [
        check_goals(findings.copy_for(reading.positive), reading.rows, reading.external, baselines)
        for reading in _readings(goals, rows, external)
    ]
    findings.add_shared(about)
    return findings, counts


def _parts(findings: Findings, table: pa.Table, where: str) -> tuple[dict[str, Block], dict[str, int]]:
    """The rows by part, and how many they are; all rows for training where the parts cannot be told."""
    goals = findings.goals
    if goals.data.split is None or goals.data.split.column in table.column_names:
        try:
            parts = parts_of(table, goals)
        except DataError as error:
            key = ("data", "split") if goals.data.split is not None else ("validation", "fraction")
            findings.problem(key, str(error))
        else:
            titled = {part: block._replace(title=where) for part, block in parts.items()}
            return titled, {part: block.table.num_rows for part, block in parts.items()}
    return {"train": Block.whole(table, where)}, {}


def _rows(findings: Findings, block: Block, part: str) -> TableRows:
    """Rows with whatever can be used of them: baselines one by one, and labels, of which two classes are made."""
    goals, table = findings.goals, block.table
    for name in goals.baseline_names:
        only = dataclasses.replace(goals, earlier={name: goals.earlier[name]})
        try:
            made = with_baselines(block.table, only, block.title)
        except WidemarginError as error:
            findings.problem(("baselines", name), str(error))
            continue
        if made is not block.table:
            table = table.append_column(name, made[name])
    try:
        weights_of(block, goals)
    except DataError as error:
        _say_once(findings, "weight", str(error))
    try:
        labels = labels_of(block, goals)
    except DataError as error:
        _say_once(findings, "positive" if "data.positive" in str(error) else "target", str(error))
        return _two_classes(table, goals)
    only_one = one_class(labels)
    if only_one is not None and part == "train":
        text = f"the target {goals.data.target!r} is {only_one!r} in all {len(table)} rows; two classes are needed"
        findings.problem(("data", "target"), text)
        return TableRows(populations=table)
    return TableRows(populations=table, y=labels)


def _say_once(findings: Findings, key: str, text: str) -> None:
    """Note a fault of a column; the same one in further rows has other numbers only."""
    if all(problem.path != ("data", key) for problem in findings.problems):
        findings.problem(("data", key), text)


def _two_classes(table: pa.Table, goals: GoalsFile) -> TableRows:
    """Rows with labels where a cure that the messages name gives two classes: rows without are dropped, classes that
    are not positive joined. Else without labels."""
    column = table[goals.data.target]
    known = np.asarray(column.is_valid())
    values = [] if pa.types.is_nested(column.type) else column.drop_null().to_pylist()
    counts = Counter(values)
    if len(counts) > 2 and goals.data.positive in counts:
        other = max((value for value in counts if value != goals.data.positive), key=counts.__getitem__)
        values = [value if value == goals.data.positive else other for value in values]
    made = np.array(values, dtype=None)
    if made.ndim != 1 or made.dtype.kind not in "biufU" or len(np.unique(made)) != 2:
        return TableRows(populations=table)
    return TableRows(populations=table.filter(pa.array(known)), y=made)


def _positives(labels: npt.NDArray[Any], goals: GoalsFile) -> list[Label]:
    """The positive class, or both where the goals file names neither."""
    classes: list[Label] = np.unique(labels).tolist()
    said = goals.data.positive
    return [said] if any(type(said) is type(value) and said == value for value in classes) else classes


def _readings(goals: GoalsFile, rows: dict[str, TableRows], external: dict[str, TableRows]) -> Iterator[_Reading]:
    """How the rows may be meant. What is wrong in all readings is wrong whatever the labels are.

    Where there are no two classes, half of the rows get one of two made-up labels, then the other one.
    """
    train = rows["train"].y
    if train is not None:
        classes = set(np.unique(train).tolist())
        fit = {part: content for part, content in rows.items() if content.y is not None
               and set(np.unique(content.y).tolist()) <= classes}  # fmt: skip
        for positive in _positives(train, goals):
            yield _Reading(positive, fit, external)
        return
    for first in (0, 1):
        halves = [
            {name: TableRows(populations=content.populations, y=(np.arange(content.n_rows) + first) % 2)
             for name, content in found.items()}
            for found in (rows, external)
        ]  # fmt: skip
        yield _Reading(1, halves[0], halves[1])


def _usable_baselines(goals: GoalsFile, rows: dict[str, TableRows]) -> Sequence[str]:
    """The baselines that all parts have."""
    return [
        name for name in goals.baseline_names if all(name in part.populations.column_names for part in rows.values())
    ]


def _external(findings: Findings, positive: Label) -> dict[str, TableRows]:
    """The external data sets that can be read."""
    goals, found = findings.goals, {}
    meant = dataclasses.replace(goals, data=dataclasses.replace(goals.data, positive=positive))
    all_read = not any(problem.path[:1] == ("goal",) for problem in findings.problems)
    for name in goals.external:
        if not any(goal is not None and name in goal.sources for goal in (goals.goal, goals.audit_goal)):
            if all_read:
                text = f"no goal measures a rate on {name!r}, so it is not read. Drop it"
                findings.warning(("external", name), text)
            continue
        try:
            found[name] = external_set(name, meant)
        except WidemarginError as error:
            findings.problem(("external", name, "table"), str(error))
    return found

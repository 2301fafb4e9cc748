"""A goals file beside its table: what would stop training, and what deserves a look.

A fault hides no other: where the labels, a baseline or an external data set cannot be used, everything that does not
depend on it is looked at all the same.
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from widemargin._text import close_match
from widemargin.cli.checks.column_checks import check_features
from widemargin.cli.checks.findings import Findings
from widemargin.cli.checks.goal_checks import check_goals
from widemargin.cli.goals_file.keys import GoalsFile, Label, table_text
from widemargin.cli.goals_file.toml_lines import Problem
from widemargin.cli.tables.column_roles import labels_of, named_columns, split_rows, weights_of
from widemargin.cli.tables.table_files import Block, read_table, rows_equal
from widemargin.cli.tables.training_data import TableRows, external_set, no_weight, one_class, with_baselines
from widemargin.estimators.thresholds.groups import find_groups, group_numbers
from widemargin.exceptions import DataError, WidemarginError
from widemargin.goals.binding.sources import refuse_class_for_no_decision


def examine(
    goals: GoalsFile, path: Path | None = None, of_file: Sequence[Problem] = ()
) -> tuple[Findings, dict[str, int]]:
    """Look at the table of a goals file, or at another one in its place.

    Parameters
    ----------
    goals : GoalsFile
        Also one with problems, as `look_at` gives it.
    path : Path, default=None
    of_file : sequence of Problem
        What is wrong in the file.

    Returns
    -------
    findings : Findings
    counts : dict of str to int
        Rows by part; empty where the table cannot be used at all.
    """
    findings, where = Findings(goals, list(of_file)), table_text(path or goals.data.table)
    try:
        table = read_table(path or goals.data.table, **goals.data.csv)
    except DataError as error:
        findings.problem(("data", "table"), str(error))
        return findings, {}
    names = table.column_names
    for column, key in named_columns(goals).items():
        if column not in names:
            near = close_match(column, names) or f" It has {', '.join(map(repr, names[:20]))}"
            findings.problem(tuple(key.split(".")), f"column {column!r} is not in the table.{near}")
    # All rows are for training where the parts cannot be told.
    parts, counts = {"train": Block.whole(table, where)}, dict[str, int]()
    split = goals.data.split
    marked = path is not None and split is not None and split.column in names and table.num_rows > 0
    if split is not None and marked and bool(rows_equal(table[split.column], split.test).all()):
        counts = {"test": table.num_rows}  # a table of held-out rows, to be audited
    elif split is None or split.column in names:
        try:
            fraction, needed = goals.validation.test_fraction, goals.data.needed
            parts = split_rows(table, split, where, fraction=fraction, needed=needed)
        except DataError as error:
            findings.problem(("validation", "fraction") if split is None else ("data", "split"), str(error))
        else:
            counts = {part: block.table.num_rows for part, block in parts.items()}
    rows = {part: _rows(findings, block, part) for part, block in parts.items()}
    labels = rows["train"].y
    # The positive class, or both where the goals file names neither.
    positive, classes = goals.data.positive, [] if labels is None else np.unique(labels).tolist()
    named = [value for value in classes if type(positive) is type(value) and positive == value]
    positives: list[Label | None] = named or classes or [positive]
    if positive is None and len(classes) > 2:
        positives = [None]
    external = _external(findings, positives[0])
    tables = {part: content.populations for part, content in rows.items()}
    check_features(findings, tables, {name: content.populations for name, content in external.items()}, labels)
    spoilt = any(problem.path[:1] in (("goal",), ("model",)) for problem in findings.problems)
    if labels is not None and goals.goal is not None and not spoilt:
        _check_abstention(findings, rows["train"], classes)
    usable = [name for name in goals.baseline_names if all(name in table.column_names for table in tables.values())]
    if labels is not None:
        # What is wrong in all readings of the rows is wrong whatever the labels are.
        fit = {part: content for part, content in rows.items() if content.y is not None
               and {*np.unique(content.y).tolist()} <= {*classes}}  # fmt: skip
        looks = [check_goals(findings.copy_for(meant), fit, external, usable) for meant in positives]
    else:
        # Where there are no two classes, alternate rows get made-up labels 0 and 1, and then the other way round. What
        # is wrong with both does not come from these labels.
        looks = []
        for first in (0, 1):
            made_up = [
                {name: TableRows(populations=content.populations, y=(np.arange(content.n_rows) + first) % 2)
                 for name, content in named.items()}
                for named in (rows, external)
            ]  # fmt: skip
            looks.append(check_goals(findings.copy_for(1), made_up[0], made_up[1], (), made_up=True))
    findings.add_shared(looks)
    return findings, counts


def _check_abstention(findings: Findings, train: TableRows, classes: list[Label]) -> None:
    """What a model that abstains would answer, and the populations whose thresholds it would choose."""
    goals, by = findings.goals, findings.goals.model.thresholds_by
    if goals.abstain is None:
        return
    try:
        refuse_class_for_no_decision(goals.abstain, classes)
    except DataError as error:
        findings.problem(("model", "abstain"), str(error))
    if by is not None and by in train.populations.column_names:
        try:
            groups = find_groups(by, None, train.populations, train.n_rows)
            group_numbers(groups, None, train.populations, train.n_rows)
        except WidemarginError as error:
            findings.problem(("model", "thresholds_by"), str(error))


def _rows(findings: Findings, block: Block, part: str) -> TableRows:
    """Rows with whatever can be used of them: baselines one by one, and labels, of which two classes are made."""
    goals, table = findings.goals, block.table
    for name in goals.baseline_names:
        only = dataclasses.replace(goals, earlier={name: goals.earlier[name]})
        try:
            with_one = with_baselines(block.table, only, block.title)
        except WidemarginError as error:
            findings.problem(("baselines", name), str(error))
            continue
        if with_one is not block.table:
            table = table.append_column(name, with_one[name])

    def say_once(key: str, text: str) -> None:  # the same fault of a column in further rows has other numbers only
        if all(problem.path != ("data", key) for problem in findings.problems):
            findings.problem(("data", key), text)

    weight = None
    try:
        weight = weights_of(block, goals)
    except DataError as error:
        say_once("weight", str(error))
    try:
        labels = labels_of(block, goals)
    except DataError as error:
        say_once("positive" if "data.positive" in str(error) else "target", str(error))
        # A cure that the messages name gives two classes: rows without a label are dropped, classes that are not
        # positive joined. Where it does not, the rows are looked at without labels.
        column, positive = table[goals.data.target], goals.data.positive
        values = [] if pa.types.is_nested(column.type) else column.drop_null().to_pylist()
        counts = Counter(values)
        if len(counts) > 2 and positive in counts:
            other = max((value for value in counts if value != positive), key=counts.__getitem__)
            values = [value if value == positive else other for value in values]
        labels = np.array(values, dtype=None)
        if labels.ndim != 1 or labels.dtype.kind not in "biufU" or len(np.unique(labels)) != 2:
            return TableRows(populations=table)
        known = column.is_valid()
        some = None if weight is None else weight[known.to_numpy()]
        return TableRows(populations=table.filter(known), y=labels, sample_weight=some)
    if weightless := no_weight(weight, goals, part):
        say_once("weight", f"{weightless}. Correct it")
        weight = None
    only_one = one_class(labels)
    if only_one is not None and part == "train":
        text = f"the target {goals.data.target!r} is {only_one!r} in all {len(table)} rows; two classes are needed"
        findings.problem(("data", "target"), text)
        return TableRows(populations=table)
    return TableRows(populations=table, y=labels, sample_weight=weight)


def _external(findings: Findings, positive: Label | None) -> dict[str, TableRows]:
    """The external data sets that can be read."""
    goals, external = findings.goals, dict[str, TableRows]()
    meant = dataclasses.replace(goals, data=dataclasses.replace(goals.data, positive=positive))
    all_read = not any(problem.path[:1] == ("goal",) for problem in findings.problems)
    for name in goals.external:
        if not any(goal is not None and name in goal.sources for goal in (goals.goal, goals.audit_goal)):
            if all_read:
                findings.warning(("external", name), f"no goal measures a rate on {name!r}, so it is not read. Drop it")
            continue
        try:
            external[name] = external_set(name, meant)
        except WidemarginError as error:
            findings.problem(("external", name, "table"), str(error))
    return external

"""A goals file beside its table: what would stop training, and what deserves a look."""

from pathlib import Path
from typing import Any

from widemargin.cli.column_checks import check_features, check_names
from widemargin.cli.findings import Findings
from widemargin.cli.goal_checks import check_goals
from widemargin.cli.goals_file import GoalsFile, table_text
from widemargin.cli.tables import Block, Rows, external_rows, named_columns, parts_of, read_table, rows_of
from widemargin.cli.training_data import one_class
from widemargin.exceptions import DataError, WidemarginError

__all__ = ["examine"]


def examine(goals: GoalsFile, path: Path | None = None) -> tuple[Findings, dict[str, int]]:
    """Look at the table of a goals file, or at another one in its place.

    Returns
    -------
    findings : Findings
    counts : dict of str to int
        Rows by part; empty where the table cannot be used at all.
    """
    findings, where = Findings(goals), table_text(path or goals.data.table)
    try:
        table = read_table(path or goals.data.table, words=goals.data.words, separator=goals.data.separator)
    except DataError as error:
        findings.problem(("data", "table"), str(error))
        return findings, {}
    check_names(findings, table, named_columns(goals))
    rows = _parts(findings, table, where)
    if "train" not in rows:
        return findings, {}
    external = _external(findings)
    labels = rows["train"].labels
    tables = {part: content.table for part, content in rows.items()}
    check_features(findings, tables, {name: content.table for name, content in external.items()}, labels)
    if labels is not None and one_class(labels) is None and len(external) == len(_used(goals)):
        check_goals(findings, rows, external)
    return findings, {part: len(content) for part, content in rows.items()}


def _parts(findings: Findings, table: Any, where: str) -> dict[str, Rows]:
    """The rows by part, as far as they can be used."""
    goals, rows = findings.goals, {}
    try:
        parts = parts_of(table, goals) if _has_split(goals, table) else {"train": Block.whole(table, where)}
    except DataError as error:
        key = ("data", "split") if goals.data.split is not None else ("validation", "fraction")
        findings.problem(key, str(error))
        parts = {"train": Block.whole(table, where)}
    for part, content in parts.items():
        try:
            rows[part] = rows_of(content._replace(title=where), goals)
        except WidemarginError as error:
            findings.problem(_key_of(goals, str(error)), str(error))
            continue
        only = one_class(rows[part].labels) if part == "train" else None
        if only is not None:
            text = f"the target {goals.data.target!r} is {only!r} in all {len(rows[part])} rows; two classes are needed"
            findings.problem(("data", "target"), text)
    return rows


def _has_split(goals: GoalsFile, table: Any) -> bool:
    return goals.data.split is None or goals.data.split.column in table.column_names


def _key_of(goals: GoalsFile, message: str) -> tuple[str, ...]:
    """The key that an error about the rows is about."""
    for name in goals.baseline_names:
        if f"baselines.{name}" in message:
            return ("baselines", name)
    if "the weight" in message:
        return ("data", "weight")
    return ("data", "positive") if "data.positive" in message else ("data", "target")


def _used(goals: GoalsFile) -> set[str]:
    return {name for goal in (goals.goal, goals.audit_goal) if goal is not None for name in goal.sources}


def _external(findings: Findings) -> dict[str, Rows]:
    """The external data sets that can be read."""
    goals, found = findings.goals, {}
    for name in goals.external:
        if name not in _used(goals):
            findings.warning(("external", name), f"no goal measures a rate on {name!r}, so it is not read. Drop it")
            continue
        only = [goal for goal in (goals.goal, goals.audit_goal) if goal is not None and name in goal.sources]
        try:
            found[name] = external_rows(goals, only[0])[name]
        except WidemarginError as error:
            findings.problem(("external", name, "table"), str(error))
    return found

"""`widemargin audit GOALS.toml --model M --data FILE`: does a saved model meet the goal on these rows?"""

import argparse
from typing import Any

from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file import GoalsFile, read_goals_file
from widemargin.cli.tables import read_table, require_columns, rows_of, split_rows
from widemargin.diagnostics import audit
from widemargin.exceptions import DataError
from widemargin.persistence import load_model
from widemargin.preprocessing import TableSchema

__all__ = ["run"]


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure and print; the exit code and the content for --json."""
    goals = read_goals_file(options.goals)
    with Progress() as progress:
        progress.step("loading the model")
        model = load_model(options.model)
        schema = _schema(model, str(options.model))
        progress.step("reading the table")
        table = read_table(options.data, words=[*goals.data.words, *(column.name for column in schema.of_kind("word"))])
        part, table = _chosen(table, goals, options)
        goal = goals.audit_goal or goals.goal
        baselines = {goals.baselines[name]: f"baselines.{name}" for name in goal.baselines}
        require_columns(table, baselines, str(options.data))
        rows = rows_of(table, goals, str(options.data))
        progress.step("measuring the goal")
        report = audit(
            model.predict(rows.table),
            goal,
            y=rows.labels,
            populations=rows.table,
            pos_label=goals.data.positive,
            decide=options.decide,
            data_name=f"{part} of {options.data}",
        )
    if not options.json:
        say(f"Model: {options.model}", "", str(report))
    content = {"model": str(options.model), "data": str(options.data), "rows": part, "report": report.to_dict()}
    return report.exit_code, content


def _schema(model: Any, where: str) -> TableSchema:
    """What the model's first step knows of the table; words are then read as text even if they are digits."""
    schema = getattr(model[0] if hasattr(model, "steps") else model, "schema_", None)
    if not isinstance(schema, TableSchema):
        raise DataError(
            f"{where}: the model takes arrays, not tables. Save a Pipeline that starts with make_preprocessor(), "
            "or audit the model in Python with widemargin.audit"
        )
    return schema


def _chosen(table: Any, goals: GoalsFile, options: argparse.Namespace) -> tuple[str, Any]:
    """The rows asked for, and what they are called."""
    split = goals.data.split
    splittable = split is not None and split.column in table.column_names
    wanted = options.rows or ("test" if splittable else "all")
    if wanted == "all":
        return "all rows", table
    if not splittable:
        raise DataError(
            f"{options.data}: --rows {wanted} needs the column that data.split names"
            + (f", {split.column!r}. Add it or use --rows all" if split else "; add data.split to the goals file")
        )
    return f"{wanted} rows", split_rows(table, split, str(options.data))[wanted]

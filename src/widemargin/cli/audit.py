"""`widemargin audit GOALS.toml --model M --data FILE`: does a saved model meet the goal on these rows?"""

import argparse
from collections.abc import Mapping
from typing import Any

from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file import GoalsFile, goals_of
from widemargin.cli.tables import (
    Rows,
    as_external,
    external_rows,
    is_it,
    read_table,
    require_columns,
    rows_of,
    split_rows,
)
from widemargin.cli.training_data import warn_of_training_rows
from widemargin.diagnostics import GoalReport, audit
from widemargin.exceptions import DataError, WidemarginError
from widemargin.persistence import load_model
from widemargin.preprocessing import TableSchema

__all__ = ["run"]

RANDOMIZED = (
    'The model was trained with enforce = "randomized", which holds the bounds for predict_randomized on the training\n'
    "rows. Measured and decided here are the rates of predict."
)


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure and print; the exit code and the content for --json."""
    goals = goals_of(options)
    with Progress() as progress:
        progress.step("loading the model")
        model = load_model(options.model)
        schema = _schema(model, str(options.model))
        progress.step("reading the table")
        words = [column.name for column in schema.of_kind("word")]
        table = read_table(options.data, words=[*goals.data.words, *words])
        part, table = _chosen(table, goals, options)
        goal = goals.audit_goal or goals.goal
        baselines = {column: f"baselines.{name}" for name, column in goals.baselines.items() if name in goal.baselines}
        require_columns(table, baselines, str(options.data))
        rows = rows_of(table, goals, str(options.data))
        external = external_rows(goals, goal, words=words)
        if part == "all rows":
            warn_of_training_rows(goals, options.data)
        progress.step("measuring the goal")
        report = _measured(model, goals, rows, external, options, f"{part} of {options.data}")
    if not options.json:
        say(f"Model: {options.model}", "", str(report))
        if getattr(model[-1], "enforce", None) == "randomized":
            say(f"\n{RANDOMIZED}")
    content = {"model": str(options.model), "data": str(options.data), "rows": part, "report": report.to_dict()}
    return report.exit_code, content


def _measured(
    model: Any, goals: GoalsFile, rows: Rows, external: Mapping[str, Rows], options: argparse.Namespace, name: str
) -> GoalReport:
    """The report; where the goal asks for labels and there are none, that is said in terms of the goals file."""
    try:
        return audit(
            model,
            goals.audit_goal or goals.goal,
            rows.table,
            rows.labels,
            populations=rows.table,
            external=as_external(external),
            pos_label=goals.data.positive,
            decide=options.decide,
            data_name=name,
        )
    except WidemarginError as error:
        if rows.labels is not None or "label" not in str(error):
            raise
        target, (fact, _, _) = goals.data.target, str(error).partition(" Give y=")
        raise DataError(
            f"column {target!r} (data.target) is not in {options.data}.{is_it(target, rows.table.column_names)} "
            f"{fact.rstrip('.')}. Add that column, or ask in [goal.audit] for rates without labels only "
            "(positive_rate, negative_rate, churn)"
        ) from error


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
    cure = "Correct the value, or choose other rows by --rows all|train|test"
    return f"{wanted} rows", split_rows(table, split, str(options.data), wanted=[wanted], cure=cure)[wanted]

"""`widemargin train GOALS.toml`: fit a model to the goal, show how it compares, save it."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from widemargin.cli.console import Progress, comparison, say
from widemargin.cli.goals_file import GoalsFile, read_goals_file
from widemargin.cli.tables import Rows, feature_columns, read_table, require_columns, rows_of, split_rows
from widemargin.diagnostics import GoalReport, audit
from widemargin.estimators.rate_constrained import RateConstrainedClassifier
from widemargin.exceptions import ModelFileError
from widemargin.goals import Goal
from widemargin.persistence import save_model
from widemargin.preprocessing import TablePreprocessor, make_preprocessor

__all__ = ["run"]

MODEL, PLAIN = "this model", "unconstrained SVM"
PART_NAMES = {"train": "training rows", "test": "test rows"}


@dataclass(frozen=True)
class _Result:
    """Everything that `train` reports: by part (train, test) and classifier name, and the model itself."""

    goals: GoalsFile
    rows: Mapping[str, Rows]
    model: Pipeline
    reports: Mapping[str, Mapping[str, GoalReport]]
    saved: Path | None

    @property
    def exit_code(self) -> int:
        """0 if the goal is met on the training rows, and the promise of [goal.audit], if any, on the test rows."""
        decisive = [self.reports["train"][MODEL]]
        if self.goals.audit_goal is not None and "test" in self.reports:
            decisive.append(self.reports["test"][MODEL])
        return 0 if all(report.passed for report in decisive) else 1


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Train, print and save; the exit code and the content for --json."""
    goals = read_goals_file(options.goals)
    with Progress() as progress:
        progress.step("reading the table")
        table = read_table(goals.data.table, words=goals.data.words)
        require_columns(table, _named_columns(goals), str(goals.data.table))
        features = feature_columns(table, goals)
        parts = split_rows(table, goals.data.split, str(goals.data.table))
        rows = {part: rows_of(content, goals, str(goals.data.table)) for part, content in parts.items()}
        result = _fit(goals, features, rows, options.model or goals.output, progress)
    if not options.json:
        _show(result, features)
    return result.exit_code, _plain(result, features)


def _named_columns(goals: GoalsFile) -> dict[str, str]:
    """Columns that the file names, each with its key."""
    data = goals.data
    named = {column: f"baselines.{name}" for name, column in goals.baselines.items()}
    named |= dict.fromkeys(data.ignore, "data.ignore") | dict.fromkeys(data.words, "data.words")
    named |= dict.fromkeys(data.protected, "data.protected") | dict.fromkeys(data.features or (), "data.features")
    if data.split is not None:
        named[data.split.column] = "data.split"
    return named | {data.target: "data.target"}


def _fit(
    goals: GoalsFile, features: list[str], rows: Mapping[str, Rows], path: Path | None, progress: Progress
) -> _Result:
    train = rows["train"]
    progress.step("preparing the features")
    words = [name for name in goals.data.words if name in features]
    step = make_preprocessor(features, words=words, numbers=goals.model.numbers, n_bins=goals.model.bins)
    X = step.fit_transform(train.table)
    progress.step("training")
    classifier = _classifier(goals, goals.goal, progress).fit(X, train.labels, populations=train.table)
    progress.step("training an SVM without constraints")
    plain = _classifier(goals, None, progress).fit(X, train.labels)
    progress.step("measuring the goal")
    reports = {part: _measured(goals, part, content, step, classifier, plain) for part, content in rows.items()}
    classifier.set_params(callbacks=None)
    model = Pipeline([("table", step), ("model", classifier)])
    if path is not None:
        progress.step("saving the model")
        _make_folder(path.parent)
        save_model(model, path, metadata=_metadata(goals, rows))
    return _Result(goals, rows, model, reports, path)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(f"{folder}: the folder cannot be made ({error.strerror}). Choose another one") from error


def _classifier(goals: GoalsFile, goal: Goal | None, progress: Progress) -> RateConstrainedClassifier:
    return RateConstrainedClassifier(
        goal,
        C=goals.model.C,
        enforce=goals.model.enforce,
        pos_label=goals.data.positive,
        time_budget=goals.model.time_budget,
        on_interrupt="return",
        callbacks=[progress.watch],
    )


def _measured(
    goals: GoalsFile, part: str, rows: Rows, step: TablePreprocessor, classifier: Any, plain: Any
) -> dict[str, GoalReport]:
    """Reports of the model, the plain SVM and the baselines: training rows by the goal, others by what is promised."""
    goal = goals.goal if part == "train" or goals.audit_goal is None else goals.audit_goal
    X = step.transform(rows.table)
    said = {MODEL: classifier.predict(X), PLAIN: plain.predict(X)}
    said |= {name: rows.table[name] for name in goals.baselines}
    # Training rows were used to fit, so an interval around their rates would claim too much.
    confidence = None if part == "train" else 0.95
    return {
        name: audit(
            labels, goal, y=rows.labels, populations=rows.table, pos_label=goals.data.positive,
            confidence=confidence, data_name=PART_NAMES[part],
        )
        for name, labels in said.items()
    }  # fmt: skip


def _metadata(goals: GoalsFile, rows: Mapping[str, Rows]) -> dict[str, Any]:
    return {
        "goals_file": goals.path.name,
        "table": goals.data.table.name,
        "rows": {part: len(content) for part, content in rows.items()},
        "target": goals.data.target,
        "positive": goals.data.positive,
        "audit_goal": None if goals.audit_goal is None else str(goals.audit_goal),
    }


def _show(result: _Result, features: list[str]) -> None:
    goals, rows = result.goals, result.rows
    say("Asked for", _indented(str(goals.goal)), "")
    if goals.audit_goal is not None:
        say("Promised for unseen rows", _indented(str(goals.audit_goal)), "")
    counts = " and ".join(f"{len(content)} {PART_NAMES[part]}" for part, content in rows.items())
    say(f"Data: {counts} of {goals.data.table}; {len(features)} feature columns ({', '.join(features)})")
    if goals.data.protected:
        say(f"Used to measure rates, not to decide: {', '.join(goals.data.protected)}")
    say("", str(result.model[-1].goal_report_), "")
    if "test" in rows:
        say(str(result.reports["test"][MODEL]), "")
    else:
        say("No rows were held out (no data.split), so nothing is known about unseen rows.", "")
    for part, reports in result.reports.items():
        say(comparison(_title(part, rows[part]), reports), "")
    say(_last_line(result))


def _title(part: str, rows: Rows) -> str:
    return f"{PART_NAMES[part].capitalize()} ({len(rows)})"


def _last_line(result: _Result) -> str:
    if result.saved is None:
        return "The model was not saved. Name a file by [output] model or --model."
    return f"Model saved as {result.saved}"


def _plain(result: _Result, features: list[str]) -> dict[str, Any]:
    classifier = result.model[-1]
    return {
        "goal": str(result.goals.goal),
        "audit_goal": None if result.goals.audit_goal is None else str(result.goals.audit_goal),
        "features": features,
        "status": classifier.status_,
        "training": classifier.goal_report_.to_dict(),
        "reports": {
            part: {name: report.to_dict() for name, report in reports.items()}
            for part, reports in result.reports.items()
        },
        "model": None if result.saved is None else str(result.saved),
    }


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())

"""`widemargin train GOALS.toml`: fit a model to the goal, show how it compares, save it."""

import argparse
import itertools
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from widemargin.cli.console import Progress, comparison, say, warnings_reworded
from widemargin.cli.goals_file import GoalsFile, read_goals_file
from widemargin.cli.tables import Rows, feature_columns, read_table, require_columns, rows_of, split_rows
from widemargin.diagnostics import GoalReport, audit
from widemargin.estimators.rate_constrained import RateConstrainedClassifier
from widemargin.exceptions import MarginConvergenceWarning, ModelFileError
from widemargin.goals import Goal
from widemargin.persistence import save_model
from widemargin.preprocessing import make_preprocessor

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
    interrupted: bool

    @property
    def randomized(self) -> bool:
        """Whether training held the bounds for the ramp rates, which then decide on the training rows."""
        return self.goals.model.enforce == "randomized"

    @property
    def verdicts(self) -> dict[str, bool]:
        """By part, whether its goal is met: on held-out rows always by the rates of `predict`."""
        found = {part: reports[MODEL].passed for part, reports in self.reports.items()}
        if self.randomized:
            found["train"] = all(item.ramp_met for item in self.model[-1].goal_report_.constraints)
        return found

    @property
    def exit_code(self) -> int:
        """130 after an interrupt; else 0 if every part meets its goal, 1 if not."""
        return 130 if self.interrupted else int(not all(self.verdicts.values()))


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
    features_of = {"train": step.fit_transform(train.table)}
    if "test" in rows:  # what is wrong there is said before the time for training is spent, and no file is left
        features_of["test"] = step.transform(rows["test"].table)
        _report(goals, "test", rows["test"], rows["test"].labels)
    X = features_of["train"]
    progress.step("training")
    started = time.perf_counter()
    with warnings_reworded(lambda warning: _reworded(warning, goals)):
        classifier = _classifier(goals, goals.goal, progress).fit(X, train.labels, populations=train.table)
    spent = time.perf_counter() - started
    classifier.set_params(callbacks=None)
    model = Pipeline([("table", step), ("model", classifier)])
    interrupted = classifier.status_ == "interrupted"
    saved = None
    if path is not None:
        saved = _free(path) if interrupted else path
        progress.step("saving the model")
        interrupted |= _saved(model, saved, _metadata(goals, rows))
    try:
        plain = None if interrupted else _plain_svm(goals, X, train.labels, spent, progress)
        progress.step("measuring the goal")
        reports = {
            part: _measured(goals, part, content, features_of[part], classifier, plain)
            for part, content in rows.items()
        }
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*([] if saved is None else [f"the trained model is saved as {saved}"])) from None
    return _Result(goals, rows, model, reports, saved, interrupted)


def _reworded(warning: Warning, goals: GoalsFile) -> str:
    """Warnings of the main fit: about which model, and in terms of the goals file."""
    text = str(warning)
    if isinstance(warning, MarginConvergenceWarning):
        return f"{MODEL}: {text}".replace("raise time_budget", "raise model.time_budget")
    return text.replace(', or keep this model with on_infeasible="warn"', ". This model is kept")


def _free(path: Path) -> Path:
    """Where an unfinished model goes: an earlier model is not replaced by it."""
    others = (path.with_name(f"{path.stem}.interrupted{number}{path.suffix}") for number in itertools.count(2))
    candidates = itertools.chain([path, path.with_name(f"{path.stem}.interrupted{path.suffix}")], others)
    return next(candidate for candidate in candidates if not candidate.exists())


def _saved(model: Pipeline, path: Path, metadata: dict[str, Any]) -> bool:
    """Save before anything else is done; True if Ctrl-C came meanwhile, which then waits until the file is there."""
    try:
        _make_folder(path.parent)
        save_model(model, path, metadata=metadata)
    except KeyboardInterrupt:
        _make_folder(path.parent)
        save_model(model, path, metadata=metadata)
        return True
    return False


def _plain_svm(
    goals: GoalsFile, X: Any, labels: Any, spent: float, progress: Progress
) -> RateConstrainedClassifier | None:
    """The SVM to compare with, in what is left of the time budget; None if nothing is left."""
    progress.step("training an SVM without constraints")
    svm = _classifier(goals, None, progress)
    svm.set_params(on_interrupt="raise")
    if goals.model.time_budget is not None:
        left = goals.model.time_budget - spent
        if left <= 0.0:
            text = f"the {PLAIN} to compare with is left out: model.time_budget is used up."
            warnings.warn(text, MarginConvergenceWarning, stacklevel=2)
            return None
        svm.set_params(time_budget=left)
    with warnings_reworded(lambda warning: f"the {PLAIN} to compare with: {warning}"):
        svm.fit(X, labels)
    return svm


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
        on_infeasible=goals.model.on_infeasible,
        on_interrupt="return",
        callbacks=[progress.watch],
        random_state=0,  # of feature maps: the same file trains the same model
        **goals.model.kernel,
    )


def _measured(
    goals: GoalsFile, part: str, rows: Rows, X: Any, classifier: Any, plain: RateConstrainedClassifier | None
) -> dict[str, GoalReport]:
    """Reports of the model, the plain SVM and the baselines."""
    said = {MODEL: classifier.predict(X)}
    if plain is not None:
        said[PLAIN] = plain.predict(X)
    said |= {name: rows.table[name] for name in goals.baselines}
    return {name: _report(goals, part, rows, labels, with_intervals=True) for name, labels in said.items()}


def _report(goals: GoalsFile, part: str, rows: Rows, said: Any, *, with_intervals: bool = False) -> GoalReport:
    """Predictions measured: on training rows by the goal, on others by what is promised."""
    goal = goals.goal if part == "train" or goals.audit_goal is None else goals.audit_goal
    # Training rows were used to fit, so an interval around their rates would claim too much.
    confidence = 0.95 if with_intervals and part != "train" else None
    return audit(
        said, goal, y=rows.labels, populations=rows.table, pos_label=goals.data.positive,
        confidence=confidence, data_name=PART_NAMES[part],
    )  # fmt: skip


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
    say(_verdict_line(result), _last_line(result))


def _title(part: str, rows: Rows) -> str:
    return f"{PART_NAMES[part].capitalize()} ({len(rows)})"


def _verdict_line(result: _Result) -> str:
    words = []
    for part, met in result.verdicts.items():
        rule = "randomized" if result.randomized and part == "train" else "predict"
        rates = {
            "randomized": 'the ramp rates (of predict_randomized), as enforce = "randomized" asks',
            "predict": "the rates of predict",
        }[rule]
        words.append(f"{'met' if met else 'NOT MET'} on the {PART_NAMES[part]}{f' by {rates}' * result.randomized}")
    return f"Goal: {'; '.join(words)}."


def _last_line(result: _Result) -> str:
    if result.interrupted and result.saved is not None:
        return f"Interrupted. The model so far is saved as {result.saved}"
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
        "met": result.verdicts,
        "training": classifier.goal_report_.to_dict(),
        "reports": {
            part: {name: report.to_dict() for name, report in reports.items()}
            for part, reports in result.reports.items()
        },
        "model": None if result.saved is None else str(result.saved),
    }


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())

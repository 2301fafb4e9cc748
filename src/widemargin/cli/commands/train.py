"""`widemargin train GOALS.toml`: fit a model to the goal, show how it compares, save it."""

import argparse
import dataclasses
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from widemargin.cli.console import Progress, comparison, say, warnings_reworded
from widemargin.cli.goals_file.keys import GoalsFile, table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.goals_file.rules import free_name
from widemargin.cli.reports import Case, Suite, audit_suite, write_junit
from widemargin.cli.tables.column_roles import TableRows, as_external
from widemargin.cli.tables.training_data import Features, TrainingData, make_features, read_data
from widemargin.diagnostics import GoalReport, audit
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.cross_validated import RateConstrainedClassifierCV
from widemargin.estimators.rate_constrained.options import gathered
from widemargin.exceptions import InfeasibleGoalError, MarginConvergenceWarning, ModelFileError
from widemargin.persistence import save_model

__all__ = ["run"]

MODEL, PLAIN = "this model", "unconstrained SVM"
PART_NAMES = {"train": "training rows", "test": "test rows"}


@dataclass(frozen=True)
class _Result:
    """Everything that `train` reports: by part (train, test) and classifier name, and the model itself."""

    goals: GoalsFile
    data: TrainingData
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
        """By part, whether its goal is met: on held-out rows always by the rates of `predict`.

        With a confidence the rows that prove the goal ("validation") stand in the place of the training rows.
        """
        found = {part: reports[MODEL].passed for part, reports in self.reports.items()}
        if self.randomized:
            found["train"] = all(item.ramp_met for item in self.model[-1].goal_report_.constraints)
        if self.goals.validation.confidence is not None:
            del found["train"]
            found = {"validation": self.model[-1].guarantee_ is not None, **found}
        return found

    @property
    def exit_code(self) -> int:
        """130 after an interrupt; else 0 if every part meets its goal, 1 if not."""
        return 130 if self.interrupted else int(not all(self.verdicts.values()))


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Train, print and save; the exit code and the content for --json."""
    goals = goals_of(options)
    if options.time_budget is not None:
        goals = dataclasses.replace(goals, model=dataclasses.replace(goals.model, time_budget=options.time_budget))
    with Progress() as progress:
        progress.step("reading the table")
        data = read_data(goals)
        try:
            result = _fit(goals, data, options.model or goals.outputs.model, progress)
        except InfeasibleGoalError as error:
            if options.junit is not None:
                failure = Case("a model that meets the goal", ("not met", str(error), str(goals.goal)))
                write_junit([Suite(str(options.goals), [failure], str(error))], options.junit, command="train")
            raise
    if options.junit is not None:
        write_junit(_suites(result), options.junit, command="train")
    if not options.json:
        _show(result)
    return result.exit_code, _plain(result)


def _fit(goals: GoalsFile, data: TrainingData, path: Path | None, progress: Progress) -> _Result:
    train = data.rows["train"]
    progress.step("preparing the features")
    step, X = make_features(goals, data)
    if "test" in data.rows:  # what is wrong there is said before the time for training is spent, and no file is left
        _try_report(goals, data)
    progress.step("training")
    started = time.perf_counter()
    with warnings_reworded(lambda warning: _reworded(warning, goals)):
        fitted = _classifier(goals, progress).fit(
            X.rows["train"], train.y, sample_weight=train.sample_weight, populations=train.populations,
            external=as_external(data.external, X.external),
        )  # fmt: skip
    spent = time.perf_counter() - started
    interrupted = fitted.status_ == "interrupted"
    classifier = fitted.best_estimator_ if isinstance(fitted, RateConstrainedClassifierCV) else fitted
    classifier.set_params(callbacks=None)
    model = Pipeline([("table", step), ("model", classifier)])
    saved = None
    if path is not None:
        # An unfinished model does not replace an earlier one.
        saved = free_name(path, "interrupted") if interrupted and path.exists() else path
        progress.step("saving the model")
        interrupted |= _saved(model, saved, _metadata(goals, data.rows))
    try:
        plain = None if interrupted else _plain_svm(goals, X.rows["train"], train, spent, progress)
        progress.step("measuring the goal")
        reports = {part: _measured(goals, part, data, X, {MODEL: classifier, PLAIN: plain}) for part in data.rows}
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*([] if saved is None else [f"the trained model is saved as {saved}"])) from None
    return _Result(goals, data, model, reports, saved, interrupted)


def _try_report(goals: GoalsFile, data: TrainingData) -> None:
    """Measure something on the test rows, to hear of what is wrong there."""
    said: dict[str | None, Any] = {None: data.rows["test"].y}
    said |= {name: [goals.data.positive] * rows.n_rows for name, rows in data.external.items()}
    _report(goals, "test", data, said)


def _reworded(warning: Warning, goals: GoalsFile) -> str:
    """Warnings of the main fit: about which model, and in terms of the goals file."""
    text = str(warning)
    if isinstance(warning, MarginConvergenceWarning):
        return f"{MODEL}: {text}".replace("raise time_budget", "raise model.time_budget")
    return text.replace(', or keep this model with on_infeasible="warn"', ". This model is kept")


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
    goals: GoalsFile, X: Any, train: TableRows, spent: float, progress: Progress
) -> RateConstrainedClassifier | None:
    """The SVM to compare with, in what is left of the time budget; None if nothing is left."""
    progress.step("training an SVM without constraints")
    svm = RateConstrainedClassifier(None, C=goals.model.C, **_options(goals, progress, on_interrupt="raise"))
    if goals.model.time_budget is not None:
        left = goals.model.time_budget - spent
        if left <= 0.0:
            text = f"the {PLAIN} to compare with is left out: model.time_budget is used up."
            warnings.warn(text, MarginConvergenceWarning, stacklevel=2)
            return None
        svm.set_params(time_budget=left)
    with warnings_reworded(lambda warning: f"the {PLAIN} to compare with: {warning}"):
        svm.fit(X, train.y, sample_weight=train.sample_weight)
    return svm


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(f"{folder}: the folder cannot be made ({error.strerror}). Choose another one") from error


def _options(goals: GoalsFile, progress: Progress, on_interrupt: str = "return") -> dict[str, Any]:
    """What all estimators of the file are given."""
    return gathered({
        "enforce": goals.model.enforce,
        "pos_label": goals.data.positive,
        "time_budget": goals.model.time_budget,
        "on_infeasible": goals.model.on_infeasible,
        "on_interrupt": on_interrupt,
        "callbacks": [progress.watch],
        "random_state": 0,  # of feature maps and of rows kept aside: the same file trains the same model
        **goals.model.kernel,
    })  # fmt: skip


def _classifier(goals: GoalsFile, progress: Progress) -> RateConstrainedClassifier | RateConstrainedClassifierCV:
    """The estimator of the file."""
    options, said = _options(goals, progress), goals.validation
    if said.folds is not None:
        return RateConstrainedClassifierCV(goals.goal, cv=said.folds, **options)
    if said.confidence is not None:
        options["confidence"] = said.confidence
        options |= {} if said.fraction is None else {"validation_fraction": said.fraction}
    return RateConstrainedClassifier(goals.goal, C=goals.model.C, **options)


def _measured(
    goals: GoalsFile, part: str, data: TrainingData, X: Features, classifiers: Mapping[str, Any]
) -> dict[str, GoalReport]:
    """Reports of the model, of the plain SVM if there is one, and of the baselines that know all rows of the goal."""
    sources = goals.goal_for(part).sources
    said: dict[str, dict[str | None, Any]] = {}
    for name, classifier in classifiers.items():
        if classifier is not None:
            said[name] = {source: classifier.predict(X.external[source]) for source in sources}
            said[name][None] = classifier.predict(X.rows[part])
    tables: dict[str | None, Any] = {source: data.external[source].populations for source in sources}
    tables[None] = data.rows[part].populations
    for name in goals.baseline_names:
        if all(name in table.column_names for table in tables.values()):
            said[name] = {source: table[name] for source, table in tables.items()}
    return {name: _report(goals, part, data, labels, with_intervals=True) for name, labels in said.items()}


def _report(
    goals: GoalsFile, part: str, data: TrainingData, said: Mapping[str | None, Any], *, with_intervals: bool = False
) -> GoalReport:
    """Predictions measured: on training rows by the goal, on others by what is promised."""
    goal, rows = goals.goal_for(part), data.rows[part]
    # Training rows were used to fit, so an interval around their rates would claim too much.
    confidence = 0.95 if with_intervals and part != "train" else None
    used = {name: data.external[name] for name in goal.sources}
    return audit(
        {name: said[name] for name in (None, *used)}, goal, y=rows.y, sample_weight=rows.sample_weight,
        populations=rows.populations, pos_label=goals.data.positive, confidence=confidence, data_name=PART_NAMES[part],
        external=as_external(used),
    )  # fmt: skip


def _suites(result: _Result) -> list[Suite]:
    """A test suite for each part that decides: the rows, or with a confidence the proof in place of training rows."""
    goals, suites = result.goals, list[Suite]()
    for part in result.verdicts:
        name, called = str(goals.path), PART_NAMES.get(part, part)
        if part == "validation":
            proof = result.model[-1].guarantee_
            text = proof or "Nothing is proved about new rows."
            failure = None if proof else ("not met", text, str(goals.goal))
            case = Case(f"proved with confidence {goals.validation.confidence:g}", failure)
            suites.append(Suite(name, [case], text, called))
        elif part == "train" and result.randomized:
            report = result.model[-1].goal_report_
            suites.append(audit_suite(report, suite=name, ramp=True)._replace(part=called))
        else:
            suites.append(audit_suite(result.reports[part][MODEL], suite=name)._replace(part=called))
    return suites


def _metadata(goals: GoalsFile, rows: Mapping[str, TableRows]) -> dict[str, Any]:
    return {
        "goals_file": goals.path.name,
        "table": Path(table_text(goals.data.table)).name,
        "rows": {part: content.n_rows for part, content in rows.items()},
        "target": goals.data.target,
        "positive": goals.data.positive,
        "weight": goals.data.weight,
        "audit_goal": None if goals.audit_goal is None else str(goals.audit_goal),
        "protected_as_features": list(goals.data.protected_as_features),
    }


def _show(result: _Result) -> None:
    goals, rows, features = result.goals, result.data.rows, result.data.features
    say("Asked for", _indented(str(goals.goal)), "")
    if goals.audit_goal is not None:
        say("Promised for unseen rows", _indented(str(goals.audit_goal)), "")
    counts = " and ".join(f"{content.n_rows} {PART_NAMES[part]}" for part, content in rows.items())
    say(f"Data: {counts} of {table_text(goals.data.table)}; {len(features)} feature columns ({', '.join(features)})")
    for name, external in result.data.external.items():
        labelled = "without labels" if external.y is None else "with labels"
        say(f"External data set {name}: {external.n_rows} rows {labelled} of {table_text(goals.external[name].table)}")
    if result.goals.data.weight is not None:
        say(f"Rows are weighted by {result.goals.data.weight}")
    if unseen := [name for name in goals.data.protected if name not in features]:
        say(f"Used to measure rates, not to decide: {', '.join(unseen)}")
    if goals.data.protected_as_features:
        say(f"Protected, and used to decide all the same, as asked: {', '.join(goals.data.protected_as_features)}")
    classifier = result.model[-1]
    if goals.validation.folds is not None:
        say(f"Chosen by {goals.validation.folds} folds: C = {classifier.C:g}, at most {classifier.max_steps} steps")
    say("", str(classifier.goal_report_), "")
    if goals.validation.confidence is not None:
        say(classifier.guarantee_ or "Nothing is proved about new rows.", "")
    if "test" in rows:
        say(str(result.reports["test"][MODEL]), "")
    else:
        proof = "" if goals.validation.confidence is None else " beyond the proof above"
        say(f"No rows were held out (no data.split), so nothing is known about unseen rows{proof}.", "")
    for part, reports in result.reports.items():
        say(comparison(f"{PART_NAMES[part].capitalize()} ({rows[part].n_rows})", reports), "")
    say(_verdict_line(result), _last_line(result))


def _verdict_line(result: _Result) -> str:
    words = []
    for part, met in result.verdicts.items():
        if part == "validation":
            with_confidence = f"for new rows with confidence {result.goals.validation.confidence:g}"
            words.append(f"{'proved' if met else 'NOT PROVED'} {with_confidence}")
            continue
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


def _plain(result: _Result) -> dict[str, Any]:
    classifier = result.model[-1]
    return {
        "goal": str(result.goals.goal),
        "audit_goal": None if result.goals.audit_goal is None else str(result.goals.audit_goal),
        "features": result.data.features,
        "protected_as_features": list(result.goals.data.protected_as_features),
        "status": classifier.status_,
        "C": classifier.C,
        "guarantee": classifier.guarantee_,
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

"""`widemargin train GOALS.toml`: fit a model to the goal, show how it compares, save it."""

import argparse
import contextlib
import dataclasses
import functools
import math
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline

from widemargin._files import free_name
from widemargin._text import column_names
from widemargin.cli.candidates import score_rule
from widemargin.cli.console import Progress, comparison, say, warnings_reworded
from widemargin.cli.goals_file.keys import table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.tables.column_roles import never_learned
from widemargin.cli.tables.training_data import PART_NAMES, TableRows, as_external, baseline_labels
from widemargin.cli.training import Prepared, prepare
from widemargin.diagnostics import GoalReport, audit
from widemargin.diagnostics.robustness import score_facts
from widemargin.estimators.rate_constrained.cross_validated import RateConstrainedClassifierCV
from widemargin.estimators.thresholds.goal_threshold import GoalThresholdClassifier
from widemargin.exceptions import GoalError, InfeasibleGoalError, MarginConvergenceWarning
from widemargin.goals.measuring.group_table import group_lines
from widemargin.persistence import save_model
from widemargin.rows import ask_model

MODEL, PLAIN = "this model", "unconstrained SVM"


class _Result(NamedTuple):
    """Everything that `train` reports: model, reports by part (train, test) and classifier, verdicts by part, cautions.

    On held-out rows always the rates of `predict` decide. With a confidence the rows that prove the goal ("validation")
    stand in the place of the training rows.
    """

    prepared: Prepared
    model: Pipeline
    reports: Mapping[str, Mapping[str, GoalReport]]
    verdicts: Mapping[str, bool]
    cautions: list[str]
    saved: Path | None
    interrupted: bool


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Train, print and save; the exit code and the content for --json."""
    goals = goals_of(options)
    if options.time_budget is not None:
        goals = dataclasses.replace(goals, model=dataclasses.replace(goals.model, time_budget=options.time_budget))
    with Progress() as progress:
        prepared = prepare(goals, progress)
        try:
            result = _fit(prepared, options.model or goals.outputs.model, progress)
        except InfeasibleGoalError as error:
            if options.junit is not None:
                from widemargin.cli.reports import Case, Suite, junit_xml, write_text  # few runs ask for it

                case = Case("a model that meets the goal", ("not met", str(error), str(goals.goal)))
                write_text(junit_xml([Suite(str(goals.path), [case], str(error))], command="train"), options.junit)
            raise
    if options.junit is not None:
        _write_junit(options.junit, result)
    _show(result)
    classifier = result.model[-1]
    code = 130 if result.interrupted else int(not all(result.verdicts.values()))
    return code, {
        "goal": str(goals.goal),
        "audit_goal": None if goals.audit_goal is None else str(goals.audit_goal),
        "features": prepared.data.features,
        "protected_as_features": list(goals.data.protected_as_features),
        "status": classifier.status_,
        "C": None if goals.model.learner == "trees" else getattr(_learner(classifier), "C", goals.model.C),
        "guarantee": classifier.guarantee_,
        "met": result.verdicts,
        "cautions": result.cautions,
        "training": classifier.goal_report_.to_dict(),
        "reports": {
            part: {name: report.to_dict() for name, report in reports.items()}
            for part, reports in result.reports.items()
        },
        "model": None if result.saved is None else str(result.saved),
    }


def _fit(prepared: Prepared, path: Path | None, progress: Progress) -> _Result:
    goals, data = prepared.goals, prepared.data
    train, confidence = data.rows["train"], goals.validation.confidence
    if "test" in data.rows:
        # The goal is measured on the test rows once before training, with their true labels as predictions, so that
        # what cannot be measured there is refused before time is spent.
        labels: dict[str | None, Any] = {None: data.rows["test"].y}
        some = np.asarray(train.y)[0] if goals.data.positive is None else goals.data.positive
        labels |= {name: [some] * rows.n_rows for name, rows in data.external.items()}
        facts = {fact.name: labels[None] for fact in goals.goal_for("test").facts}
        with _naming("test"):
            _report(prepared, "test", labels, facts=facts)
    progress.step("training")
    started = time.perf_counter()
    estimator = prepared.estimator(progress)

    def reworded(warning: Warning) -> str:
        # Several models are trained, and users of a goals file do not see the estimator's parameters.
        text = str(warning)
        if isinstance(warning, MarginConvergenceWarning):
            return f"{MODEL}: {text}".replace("raise time_budget", "raise model.time_budget")
        return text

    with warnings_reworded(reworded), _naming("train"):
        fitted = estimator.fit(
            train.X, train.y, sample_weight=train.sample_weight, populations=train.populations,
            external=as_external(data.external),
        )  # fmt: skip
    spent = time.perf_counter() - started
    classifier = fitted.best_estimator_ if isinstance(fitted, RateConstrainedClassifierCV) else fitted
    interrupted = "interrupted" in (fitted.status_, _learner(classifier).status_)
    if isinstance(classifier, GoalThresholdClassifier):
        classifier.set_params(estimator__callbacks=None)
    _learner(classifier).set_params(callbacks=None)
    model = Pipeline([("table", prepared.step), ("model", classifier)])
    if path is not None:
        # An unfinished model does not replace an earlier one.
        path = free_name(path, "interrupted") if interrupted and path.exists() else path
        progress.step("saving the model")
        save = functools.partial(_save, model, path, prepared)
        try:
            save()
        except KeyboardInterrupt:  # the training is over, so the model is saved before the interrupt counts
            save()
            interrupted = True
    try:
        plain, budget = None, goals.model.time_budget
        if not interrupted:
            left, called = None if budget is None else budget - spent, f"the {PLAIN} to compare with"
            plain = prepared.plain(progress, "training an SVM without constraints", called, left, "model.time_budget")
        progress.step("measuring the goal")
        classifiers = {MODEL: classifier, prepared.plain_name or PLAIN: plain}
        reports = {part: _measured(prepared, part, classifiers) for part in data.rows}
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*([] if path is None else [f"the trained model is saved as {path}"])) from None
    verdicts = {part: of_part[MODEL].passed for part, of_part in reports.items()}
    if goals.model.enforce == "randomized":  # training held the bounds for the ramp rates
        verdicts["train"] = all(item.ramp_met for item in classifier.goal_report_.constraints)
    elif goals.abstain is not None:  # scores of rows that a model was fitted to flatter it, or happen not to
        verdicts["train"] = classifier.goal_report_.all_met()
    if confidence is not None:
        del verdicts["train"]
        verdicts = {"validation": classifier.guarantee_ is not None, **verdicts}
    return _Result(prepared, model, reports, verdicts, _cautions(prepared, reports), path, interrupted)


@contextlib.contextmanager
def _naming(part: str) -> Iterator[None]:
    """Say on which rows a goal cannot be measured."""
    try:
        yield
    except InfeasibleGoalError:
        raise
    except GoalError as error:
        raise GoalError(f"on the {PART_NAMES[part]}: {error}") from error


def _learner(classifier: Any) -> Any:
    """The learner behind the thresholds of a model that abstains; any other model itself."""
    return classifier.estimator_ if isinstance(classifier, GoalThresholdClassifier) else classifier


def _save(model: Pipeline, path: Path, prepared: Prepared) -> None:
    goals = prepared.goals
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {
        "goals_file": goals.path.name,
        "table": Path(table_text(goals.data.table)).name,
        "table_sha256": prepared.digest,
        "validation_fraction": goals.validation.test_fraction,
        "rows": {part: content.n_rows for part, content in prepared.data.rows.items()},
        "target": goals.data.target,
        "positive": goals.data.positive,
        "weight": goals.data.weight,
        "audit_goal": None if goals.audit_goal is None else str(goals.audit_goal),
        "protected_as_features": list(goals.data.protected_as_features),
    }
    save_model(model, path, metadata=metadata)


def _measured(prepared: Prepared, part: str, classifiers: Mapping[str, Any]) -> dict[str, GoalReport]:
    """Reports of the model, of the plain SVM if there is one, and of the baselines that know all rows of the goal."""
    goals, data = prepared.goals, prepared.data
    goal = goals.goal_for(part)
    rows: dict[str | None, TableRows] = {None: data.rows[part]}
    rows |= {source: data.external[source] for source in goal.sources}
    labels: dict[str, dict[str | None, Any]] = {}
    facts: dict[str, Mapping[str, Any]] = {}
    for name, classifier in classifiers.items():
        if classifier is not None:
            labels[name] = {
                source: ask_model(classifier.predict, content.X, content.populations)
                for source, content in rows.items()
            }
            # Changes of the features are measured in the units of the table, so the model is asked about its rows.
            whole, own = Pipeline([("table", prepared.step), ("model", classifier)]), rows[None]
            facts[name] = score_facts(goal.facts, whole, own.populations, own.y, goals.data.positive)
    if not goal.facts:  # decisions of earlier models show no scores
        labels |= baseline_labels(goals, {source: content.populations for source, content in rows.items()})
    # Training rows were used to fit, so an interval around their rates would claim too much.
    confidence = None if part == "train" else 0.95
    return {name: _report(prepared, part, of_name, confidence, facts.get(name)) for name, of_name in labels.items()}


def _report(
    prepared: Prepared,
    part: str,
    labels: Mapping[str | None, Any],
    confidence: float | None = None,
    facts: Mapping[str, Any] | None = None,
) -> GoalReport:
    """Predictions, and facts about their scores, measured: on training rows by the goal, on others by the promise."""
    goals, rows = prepared.goals, prepared.data.rows[part]
    goal = goals.goal_for(part)
    used = {name: prepared.data.external[name] for name in goal.sources}
    return audit(
        {name: labels[name] for name in (None, *used)}, goal, y=rows.y, sample_weight=rows.sample_weight,
        populations=rows.populations, pos_label=goals.data.positive, classes=prepared.classes, abstain=goals.abstain,
        confidence=confidence, data_name=PART_NAMES[part], external=as_external(used), baselines=facts,
    )  # fmt: skip


def _write_junit(path: Path, result: _Result) -> None:
    """A test suite for each part that decides: the rows, or with a confidence the proof in place of training rows."""
    from widemargin.cli.reports import Case, Suite, audit_suite, junit_xml, write_text  # few runs ask for it

    goals, classifier = result.prepared.goals, result.model[-1]
    suites, name = [], str(goals.path)
    for part in result.verdicts:
        called = PART_NAMES.get(part, part)
        if part == "validation":
            text = classifier.guarantee_ or "Nothing is proved about new rows."
            failure = None if classifier.guarantee_ else ("not met", text, str(goals.goal))
            case = Case(f"proved with confidence {goals.validation.confidence:g}", failure)
            suites.append(Suite(name, [case], text, called))
        elif part == "train" and (goals.model.enforce == "randomized" or goals.abstain is not None):
            ramp = goals.model.enforce == "randomized"
            suites.append(audit_suite(classifier.goal_report_, suite=name, part=called, ramp=ramp))
        else:
            suites.append(audit_suite(result.reports[part][MODEL], suite=name, part=called))
    write_text(junit_xml(suites, command="train"), path)


def _cautions(prepared: Prepared, reports: Mapping[str, Mapping[str, GoalReport]]) -> list[str]:
    """Why the model may be worth little whatever the verdicts say, by the rows held out where there are some."""
    seen = {part: of_part[MODEL] for part, of_part in reports.items()}
    texts = [f"on the {PART_NAMES[part]}, {text}" for part, report in seen.items() for text in report.cautions]
    goals, learned = prepared.goals, np.asarray(prepared.data.rows["train"].y)
    if text := never_learned(np.setdiff1d(prepared.classes, learned).tolist(), goals.data.target):
        texts.append(text)
    train, test = (seen[part].objective if part in seen else None for part in ("train", "test"))
    if train is not None and test is not None and str(goals.goal.objective) == "error_rate()":
        # Chance alone moves an error of few rows; four standard errors and five points are more than that.
        spread = math.sqrt(max(test * (1.0 - test), 0.01) / seen["test"].n_rows)
        if test - train > max(0.05, 4.0 * spread):
            cure = "" if goals.model.learner == "trees" else "a lower model.C, "
            texts.append(
                f"the error is {train:.4f} on the training rows and {test:.4f} on {seen['test'].n_rows} held-out rows: "
                f"the model knows its rows by heart. What helps: {cure}fewer features, or more rows."
            )
    return texts


def _show(result: _Result) -> None:
    goals, data = result.prepared.goals, result.prepared.data
    rows, features = data.rows, data.features
    say("Asked for", textwrap.indent(str(goals.goal), "  "), "")
    if goals.audit_goal is not None:
        say("Promised for unseen rows", textwrap.indent(str(goals.audit_goal), "  "), "")
    counts = " and ".join(f"{content.n_rows} {PART_NAMES[part]}" for part, content in rows.items())
    of_features = "1 feature column" if len(features) == 1 else f"{len(features)} feature columns"
    say(f"Data: {counts} of {table_text(goals.data.table)}; {of_features} ({column_names(features)})")
    if data.n_unlabelled:
        say(f"Left out: {data.n_unlabelled} rows without a value of {column_names([goals.data.target])}")
    for name, external in data.external.items():
        labelled = "without labels" if external.y is None else "with labels"
        say(f"External data set {name}: {external.n_rows} rows {labelled} of {table_text(goals.external[name].table)}")
    if goals.data.weight is not None:
        say(f"Rows are weighted by {goals.data.weight}")
    if unseen := [name for name in goals.data.protected if name not in features]:
        say(f"Used to measure rates, not to decide: {column_names(unseen)}")
    if goals.data.protected_as_features:
        say(f"Protected, and used to decide all the same, as asked: {column_names(goals.data.protected_as_features)}")
    classifier, validation = result.model[-1], goals.validation
    crossed = classifier.goal_report_.data_name.endswith("(cross-validated)")
    if validation.folds is not None:
        say(f"Chosen by {validation.folds} folds: C = {classifier.C:g}, at most {classifier.max_steps} steps")
    if goals.abstain is not None:
        say(*score_rule(classifier, classifier.positive_class_))
    # Groups come before any verdict, in the words of audits also those of the training rows.
    if groups := result.reports["train"][MODEL].groups:
        say("", "Groups of the training rows", "", *group_lines(groups))
        if crossed:
            say(
                "",
                "The model was fitted to these rows, so its rates are better here, and in the comparison below, than",
                "in the cross-validated report, which is by models that have not seen the row that they decide.",
            )
    say("", str(classifier.goal_report_), "")
    if validation.confidence is not None:
        say(classifier.guarantee_ or "Nothing is proved about new rows.", "")
    if "test" in rows:
        say(str(result.reports["test"][MODEL]), "")
    else:
        proof = "" if validation.confidence is None else " beyond the proof above"
        say(f"No rows were held out (no data.split), so nothing is known about unseen rows{proof}.", "")
    for part, reports in result.reports.items():
        say(comparison(f"{PART_NAMES[part].capitalize()} ({rows[part].n_rows})", reports), "")
    verdicts = []
    for part, met in result.verdicts.items():
        if part == "validation":
            verdicts.append(
                f"{'proved' if met else 'NOT PROVED'} for new rows with confidence {validation.confidence:g}"
            )
            continue
        by = ""
        if goals.model.enforce == "randomized":
            ramp = 'the ramp rates (of predict_randomized), as enforce = "randomized" asks'
            by = f" by {ramp if part == 'train' else 'the rates of predict'}"
        elif part == "train" and goals.abstain is not None:
            by = " by scores of models that have not seen them, as the thresholds were chosen"
        elif part == "train" and crossed and not met and classifier.goal_report_.all_met():
            by = " as the final model decides them, though met by the cross-validated rates that it was trained to"
        verdicts.append(f"{'met' if met else 'NOT MET'} on the {PART_NAMES[part]}{by}")
    asks = goals.goal.constraints or goals.audit_goal is not None
    say(f"Goal: {'; '.join(verdicts)}." if asks else "Goal: no constraints, so nothing had to be met.")
    say(*(f"Caution: {text}" for text in result.cautions))
    if result.saved is None:
        say("The model was not saved. Name a file by [output] model or --model.")
    else:
        say(f"{'Interrupted. The model so far is' if result.interrupted else 'Model'} saved as {result.saved}")

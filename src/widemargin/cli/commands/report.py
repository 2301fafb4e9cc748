"""`widemargin report GOALS.toml --model M --out FILE.html`: one page about a model and its goal."""

import argparse
import datetime
import functools
import platform
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin import __version__
from widemargin.cli.candidates import Answer, Candidate
from widemargin.cli.commands.tradeoff import (
    SEED,
    Prepared,
    ended_by_hand,
    file_sha256,
    prepare,
    read_stored,
    sha256_of,
    short_values,
    sweep,
    table_name,
)
from widemargin.cli.console import Progress, say, warnings_reworded
from widemargin.cli.goals_file.keys import GoalsFile, TablePath, table_text
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.reports import audit_document, write_json, write_text
from widemargin.cli.subjects import audited_rows, blocks_and_candidates, named_part
from widemargin.cli.tables.column_roles import TableRows, as_external
from widemargin.cli.tables.table_files import Block
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.exceptions import DataError, InfeasibleGoalError, MarginConvergenceWarning, TableWarning
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.report import HtmlReport, html_report

__all__ = ["run"]

INTERRUPTED = 130
PLAIN = "the same SVM without rules"
SETTINGS = ("C", "enforce", "numbers", "bins", "time_budget", "on_infeasible", "kernel", "rare_words")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "highspy", "skops")


@dataclass(frozen=True)
class Subject:
    """A classifier and its answers.

    Attributes
    ----------
    candidate : Candidate
    part : str
        Which rows: "all", "train" or "test".
    rows : TableRows
    answer : Answer
        Of these rows.
    external : mapping of str to TableRows
        The data sets beside the table that the goal is measured on.
    external_answers : mapping of str to Answer
    """

    candidate: Candidate
    part: str
    rows: TableRows
    answer: Answer
    external: Mapping[str, TableRows]
    external_answers: Mapping[str, Answer]

    @property
    def model(self) -> Any:
        """The classifier as `html_report` takes it: with its scores where it has some, else its predictions."""
        said: dict[str | None, Any] = {name: answer.labels for name, answer in self.external_answers.items()}
        said[None] = self.answer.labels
        scored = self.answer.scores is not None or self.answer.probabilities is not None
        if not scored or self.candidate.classes is None:
            return said
        tables = [(self.rows.populations, said[None])]
        tables += [(rows.populations, said[name]) for name, rows in self.external.items()]
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


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure, train what stands beside, write the page; the exit code and the content for --json."""
    goals = goals_of(options)
    data = options.data or goals.data.table
    out = options.out or goals.outputs.report or Path("report.html")
    with Progress() as progress:
        prepared = prepare(goals, progress)
        progress.step("loading the model")
        external = {name: prepared.data.external[name] for name in (goals.audit_goal or goals.goal).sources}
        subject = read_subject(goals, data, options, external)
        known = [read_stored(file, prepared) for file in options.tradeoff]
        clock = _Clock(options.time_budget)
        plain = _plain(prepared, progress, clock)
        paths = list(known)
        if not options.no_tradeoff:
            paths += _short_paths(prepared, known, progress, clock)
        progress.step("measuring")
        page = _page(prepared, subject, plain, paths, options, data)
        write_text(page.text, out)
    report = page.goal_report
    title, rows = subject.candidate.title, f"{subject.part} rows"
    document = audit_document(report, options, model=title, data=table_text(data), rows=rows)
    if options.report_json is not None:
        write_json(document, options.report_json)
    if not options.json:
        say(str(report), "", f"Report written to {out}")
    content = document | {"command": "report", "out": str(out), "paths": [path.to_dict() for path in paths]}
    return (INTERRUPTED if clock.interrupted else report.exit_code), content


class _Clock:
    """What is left of the time, and of the user's patience, for what stands beside the model."""

    def __init__(self, budget: float | None) -> None:
        self._end = None if budget is None else time.perf_counter() + budget
        self.interrupted = False

    def interrupt(self) -> None:
        """Ctrl-C: the page is written with what is there."""
        self.interrupted = True
        warnings.warn("interrupted: the page is written with what is there.", MarginConvergenceWarning, stacklevel=2)

    def left(self, shares: int = 1) -> float | None:
        """Seconds for one of several jobs still to be done; None: as long as it takes; at most 0: none is left."""
        return None if self._end is None else (self._end - time.perf_counter()) / shares

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        left = self.left()
        return self.interrupted or (left is not None and left <= 0.0)


def _plain(prepared: Prepared, progress: Progress, clock: _Clock) -> RateConstrainedClassifier | None:
    """The SVM without rules; None where the time is up, or the user stops it."""
    progress.step("training the same SVM without rules")
    if clock.over:
        warnings.warn(f"{PLAIN} is left out: --time-budget is used up.", MarginConvergenceWarning, stacklevel=2)
        return None
    train = prepared.data.rows["train"]
    with warnings_reworded(lambda warning: f"{PLAIN}: {warning}"):
        svm = prepared.classifier(progress, None, clock.left(), on_interrupt="raise")
        try:
            svm.fit(prepared.matrices.rows["train"], train.y, sample_weight=train.sample_weight)
        except KeyboardInterrupt:
            clock.interrupt()
            return None
    return svm


def _short_paths(
    prepared: Prepared, known: Sequence[TradeoffPath], progress: Progress, clock: _Clock
) -> list[TradeoffPath]:
    """A short path for each rule that none was given for."""
    goal = prepared.goals.goal
    names = [entry.label or entry.text for entry in goal.constraints]
    missing = [name for name in names if name not in {path.name for path in known} and names.count(name) == 1]
    paths: list[TradeoffPath] = []
    for number, name in enumerate(missing):
        values = short_values(goal, name)
        if values is None:
            continue
        if clock.interrupted:
            break
        if clock.over:
            text = f"{len(missing) - number} rules have no price: --time-budget is used up."
            warnings.warn(text, MarginConvergenceWarning, stacklevel=2)
            break
        progress.step(f"price of {name} ({number + 1} of {len(missing)})")
        try:
            with warnings_reworded(functools.partial(_of_price, name)):
                budget = clock.left(len(missing) - number)
                began = time.perf_counter()
                paths.append(sweep(prepared, name, values, progress, budget=budget))
            if ended_by_hand(paths[-1], budget, time.perf_counter() - began):
                clock.interrupt()
        except KeyboardInterrupt:
            clock.interrupt()
        except InfeasibleGoalError as error:
            warnings.warn(f"no price of {name!r}: {error}", MarginConvergenceWarning, stacklevel=2)
    return paths


def _of_price(name: str, warning: Warning) -> str:
    return f"price of {name!r}: {warning}"


def _page(
    prepared: Prepared,
    subject: Subject,
    plain: RateConstrainedClassifier | None,
    paths: Sequence[TradeoffPath],
    options: argparse.Namespace,
    data: TablePath,
) -> HtmlReport:
    goals, rows = prepared.goals, subject.rows
    fresh = subject.part == "test" or _digest(data, prepared) != prepared.digest
    if not fresh and options.decide == "confident":
        raise DataError(
            f"{subject.part} rows of {table_text(data)} were trained on, and an interval around their rates would "
            "claim too much. Give other rows by --data, hold some out by data.split, or leave --decide confident"
        )
    return html_report(
        subject.model, goals.audit_goal or goals.goal, rows.populations, rows.y,
        sample_weight=rows.sample_weight, populations=rows.populations, external=as_external(subject.external),
        others=_others(prepared, subject, plain),
        pos_label=goals.data.positive, paths=paths, trained_goal=goals.goal,
        confidence=0.95 if fresh else None, decide=options.decide,
        title=options.title or f"{goals.path.stem}: does the model meet its goal?",
        model_name=subject.name, data_name=f"{subject.part} rows of {table_name(data)}",
        record=_record(prepared, subject, paths, options, data), card={**goals.card, **dict(options.card)},
    )  # fmt: skip


def _others(prepared: Prepared, subject: Subject, plain: RateConstrainedClassifier | None) -> dict[str, Any]:
    """What the SVM without rules and the earlier models say, where they know all rows that the goal is measured on."""
    others: dict[str, Any] = {}
    tables: dict[str | None, Any] = {None: subject.rows.populations}
    tables |= {name: content.populations for name, content in subject.external.items()}
    if plain is not None:
        others[PLAIN] = {name: plain.predict(prepared.step.transform(table)) for name, table in tables.items()}
    for name in prepared.goals.baseline_names:
        if all(name in table.column_names for table in tables.values()):
            others[name] = {source: table[name] for source, table in tables.items()}
    return others


def _record(
    prepared: Prepared, subject: Subject, paths: Sequence[TradeoffPath], options: argparse.Namespace, data: TablePath
) -> Mapping[str, Mapping[str, Any]]:
    """Everything that is needed to make the report again."""
    goals, model = prepared.goals, options.model
    training = {part: content.n_rows for part, content in prepared.data.rows.items()}
    settings = {name: getattr(goals.model, name) for name in SETTINGS} | {"kernel": goals.model.kernel or "linear"}
    return {
        "Files": {
            "goals file": goals.path.name,
            "goals file, sha256": file_sha256(goals.path),
            "model": Path(subject.candidate.title).name if model is None else model.name,
            "model, sha256": "not a model: predictions were given" if model is None else file_sha256(model),
            "table": table_name(goals.data.table),
            "table, sha256": prepared.digest,
            "measured on": table_name(data),
            "measured on, sha256": _digest(data, prepared),
        },
        "Rows and columns": {
            **{f"rows to {'train on' if part == 'train' else 'measure on'}, in the goals file's table": number
               for part, number in training.items()},
            "rows measured here": subject.rows.n_rows,
            "target": f"{goals.data.target}, positive: {goals.data.positive}",
            "weight": goals.data.weight or "none: every row counts the same",
            "features": subject.candidate.features or prepared.data.features,
            "protected: used for rates, never to decide": [
                name for name in goals.data.protected if name not in goals.data.protected_as_features
            ],
            "protected, and used to decide as asked": list(goals.data.protected_as_features),
            "ignored": list(goals.data.ignore),
            "earlier models": [
                *(f"{name} (column {column})" for name, column in goals.baselines.items()),
                *(f"{name} (model {path.name})" for name, path in goals.baseline_models.items()),
                *(f"{name} (function {function})" for name, function in goals.baseline_functions.items()),
            ],
            "external data sets": [
                f"{name} ({table_name(said.table)}, sha256 {sha256_of(said.table)})"
                for name, said in goals.external.items()
            ],
        },
        "Training": {
            **{name: "none" if value is None else value for name, value in settings.items()},
            "status": subject.status,
            "seed": SEED,
            "points of the paths": [f"{path.name}: {len(path)}" for path in paths],
        },
        "Software": {
            "widemargin": __version__,
            "Python": platform.python_version(),
            **{name: _version(name) for name in LIBRARIES},
            "made": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        },
    }  # fmt: skip


def _digest(data: TablePath, prepared: Prepared) -> str:
    return prepared.digest if data == prepared.goals.data.table else sha256_of(data)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


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

    def predict(self, X: object) -> npt.NDArray[Any]:
        """The labels of a table, one of those that the answers are about."""
        return next(labels for table, labels in self._said if table is X)


def read_subject(
    goals: GoalsFile, data: TablePath, options: argparse.Namespace, external: Mapping[str, TableRows]
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
    outside = {
        name: candidate.answer(Block.whole(rows.populations, f"external.{name}")) for name, rows in external.items()
    }
    for text in candidate.finish():
        warnings.warn(text, TableWarning, stacklevel=2)
    labels = [rows.y for rows in pieces if rows.y is not None]
    table = pa.concat_tables([rows.populations for rows in pieces], promote_options="permissive")
    weights = [rows.sample_weight for rows in pieces if rows.sample_weight is not None]
    whole = TableRows(
        populations=table,
        y=np.concatenate(labels) if labels else None,
        sample_weight=np.concatenate(weights) if weights else None,
    )
    joined = Answer(*(_joined([answer[j] for answer in answers]) for j in range(len(Answer._fields))))
    return Subject(candidate, part, whole, joined, external, outside)


def _joined(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate([np.asarray(part) for part in parts])

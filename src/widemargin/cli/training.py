"""The training rows of a goals file with their features, and the estimators that it describes."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from widemargin.cli.checks.column_checks import unread_texts
from widemargin.cli.console import Progress, warnings_reworded
from widemargin.cli.goals_file.keys import GoalsFile, TablePath, paths_of
from widemargin.cli.tables.table_files import sha256_of
from widemargin.cli.tables.training_data import TrainingData, read_data
from widemargin.estimators.margins.risk import RiskClassifier
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.cross_validated import RateConstrainedClassifierCV
from widemargin.estimators.rate_constrained.ramp_model import gathered
from widemargin.estimators.reduction.goal_reduction import GoalReduction
from widemargin.estimators.thresholds.goal_threshold import GoalThresholdClassifier
from widemargin.exceptions import DataError, MarginConvergenceWarning, TableWarning, warn
from widemargin.goals import Goal
from widemargin.preprocessing import TablePreprocessor, make_preprocessor


@dataclass(frozen=True)
class Prepared:
    """Rows of a goals file with their features, and the preprocessor of these, the first step of the model."""

    goals: GoalsFile
    data: TrainingData
    step: TablePreprocessor

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the main table."""
        return sha256_of(self.goals.data.table)

    @cached_property
    def reduced(self) -> bool:
        """Whether the model is no SVM but trained by `GoalReduction`: trees, or more than two classes."""
        return self.goals.model.learner == "trees" or len(np.unique(np.asarray(self.data.rows["train"].y))) > 2

    @property
    def is_svm(self) -> bool:
        """Whether the model is an SVM, whose paths go on from point to point."""
        return not self.reduced and self.goals.abstain is None

    @cached_property
    def classes(self) -> npt.NDArray[Any]:
        """Those of all parts: a rare one may be in one part alone, and be predicted in another."""
        return np.unique(np.concatenate([rows.y for rows in self.data.rows.values()]))

    @property
    def plain_name(self) -> str | None:
        """What the learner of a model that is no SVM is called where it is compared with; None of an SVM."""
        if self.goals.model.learner == "trees":
            return "plain boosted trees"
        return None if self.is_svm else "plain logistic regression"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the models of a path besides the goal."""
        model, weight = self.goals.model, self.goals.data.weight
        names = ("C", "enforce", "numbers", "bins", "rare_words")
        plain = {name: getattr(model, name) for name in names} | {"seed": 0, "kernel": dict(model.kernel)}
        plain |= {"learner": model.learner} if self.reduced else {}
        if self.goals.abstain is not None:
            plain |= {"abstain": self.goals.abstain, "thresholds_by": model.thresholds_by}
        return plain if weight is None else plain | {"weight": weight}

    def estimator(self, progress: Progress) -> Any:
        """What the file describes: trained to the goal, or logistic regression with two thresholds to it.

        Raises
        ------
        DataError
            If the file asks for what there is for SVMs, and so for two classes only, and its target has more.
        """
        goals, model = self.goals, self.goals.model
        proof: dict[str, Any] = {}
        if goals.validation.confidence is not None:
            proof = {"confidence": goals.validation.confidence}
            proof |= {} if goals.validation.fraction is None else {"validation_fraction": goals.validation.fraction}
        if goals.abstain is not None:
            # The scores of an SVM say nothing beyond its margin, so they cannot tell which decisions are surest. Those
            # of logistic regression are log odds: their scale is the same in every fold, so thresholds carry over.
            return GoalThresholdClassifier(
                self._learner(progress), goals.goal, abstain=goals.abstain,
                per_population=model.thresholds_by, pos_label=goals.data.positive, on_infeasible=model.on_infeasible,
                random_state=0, **proof,
            )  # fmt: skip
        if self.reduced:
            for key, is_asked in {
                "model.kernel": model.kernel_name != "linear", "model.enforce": model.enforce != "deterministic",
                "validation.folds": goals.validation.folds is not None,
            }.items():  # fmt: skip
                if is_asked:
                    raise DataError(f"{key} is for two classes, and the target {goals.data.target!r} has more. Drop it")
            return GoalReduction(
                self._learner(progress), goals.goal, pos_label=goals.data.positive, time_budget=model.time_budget,
                on_infeasible=model.on_infeasible, callbacks=[progress.watch], random_state=0,
                solver_options={"on_interrupt": "return"}, **proof,
            )  # fmt: skip
        if goals.validation.folds is not None:
            return RateConstrainedClassifierCV(goals.goal, cv=goals.validation.folds, **self._options(progress))
        return self.svm(progress, goals.goal, **proof)

    def svm(self, progress: Progress, goal: Goal | None, **others: Any) -> RateConstrainedClassifier:
        """The SVM that the file describes, for a goal and with other options in place of the file's."""
        return RateConstrainedClassifier(goal, C=self.goals.model.C, **self._options(progress, **others))

    def plain(self, progress: Progress, step: str, called: str, seconds: float | None, limit: str) -> Any:
        """The SVM, or the learner of another model, trained without rules; None where no time is left for an SVM.

        In messages an SVM is `called` so, and `limit` is what sets its time.
        """
        train = self.data.rows["train"]
        if self.plain_name is not None:
            return self._learner(progress).fit(train.X, train.y, sample_weight=train.sample_weight)
        progress.step(step)
        if seconds is not None and seconds <= 0.0:
            warn(f"{called} is left out: {limit} is used up.", MarginConvergenceWarning)
            return None
        positive = self.goals.data.positive
        if positive is None:  # without a goal it does not matter which
            positive = np.unique(np.asarray(train.y))[-1]
        with warnings_reworded(f"{called}: {{}}".format):
            svm = self.svm(progress, None, on_interrupt="raise", time_budget=seconds, pos_label=positive)
            return svm.fit(train.X, train.y, sample_weight=train.sample_weight)

    def _learner(self, progress: Progress) -> Any:
        """Of a model that is no SVM."""
        model = self.goals.model
        if model.learner == "trees":
            return HistGradientBoostingClassifier(random_state=0)
        if self.goals.abstain is None:
            return LogisticRegression(C=model.C, max_iter=1000)
        kernel = model.kernel
        options: dict[str, object] = {"on_interrupt": "return"}
        options |= {name: kernel.pop(name) for name in ("degree", "coef0", "cache_size") if name in kernel}
        return RiskClassifier(
            C=model.C, time_budget=model.time_budget, callbacks=[progress.watch], random_state=0,
            solver_options=options, **kernel,
        )  # fmt: skip

    def _options(self, progress: Progress, **others: Any) -> Mapping[str, Any]:
        """What SVMs are given besides their goal; `others` come first."""
        model = self.goals.model
        return gathered({
            "enforce": model.enforce, "pos_label": self.goals.data.positive, "time_budget": model.time_budget,
            "on_infeasible": model.on_infeasible, "on_interrupt": "return", "callbacks": [progress.watch],
            "random_state": 0,  # of feature maps and of held-out rows: the same file trains the same model
            **model.kernel, **others,
        })  # fmt: skip


def prepare(goals: GoalsFile, progress: Progress) -> Prepared:
    """Read the tables of a goals file, and make features of their rows: by what is learned from the training rows.

    Raises
    ------
    DataError
        A table does not fit the goals file; a feature column cannot be read, or does not fit the training rows
        elsewhere.
    """
    progress.step("reading the table")
    data = read_data(goals)
    progress.step("preparing the features")
    model = goals.model
    words, dates = ([name for name in names if name in data.features] for names in (goals.data.words, goals.data.dates))
    step = make_preprocessor(
        data.features, words=words, dates=dates, date_parts=goals.data.date_parts, numbers=model.numbers,
        n_bins=model.bins, rare_words=model.rare_words, word_codes=model.learner == "trees",
        sparse_output=model.learner != "trees",
    )  # fmt: skip
    train = data.rows["train"]
    for name in data.features:
        if text := unread_texts(name, train.populations[name], goals):
            warn(text, TableWarning)
    rows = {"train": train.replaced(X=step.fit_transform(train.populations))}
    rows |= {part: content.replaced(X=step.transform(content.populations)) for part, content in data.rows.items()
             if part != "train"}  # fmt: skip
    external = {}
    for name, content in data.external.items():
        try:
            with warnings_reworded(functools.partial("external.{}: {}".format, name)):
                external[name] = content.replaced(X=step.transform(content.populations))
        except DataError as error:
            raise DataError(f"external.{name}: {error}") from error
    return Prepared(goals, replace(data, rows=rows, external=external), step)


def table_name(table: TablePath) -> str:
    """Names of its files, without their place."""
    return ", ".join(part.name for part in paths_of(table))

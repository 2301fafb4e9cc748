"""What `train` fits by `GoalReduction`: boosted trees, and logistic regression where the target has several classes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.exceptions import DataError
from widemargin.solvers.base import Progress


def is_reduced(goals: GoalsFile, y: Any) -> bool:
    """Whether a goals file asks for such a model of rows with these labels."""
    return goals.model.learner == "trees" or len(np.unique(np.asarray(y))) > 2


def plain_learner(goals: GoalsFile) -> Any:
    """The learner that the goal is trained with; without it, what to compare with."""
    if goals.model.learner == "trees":
        return HistGradientBoostingClassifier(random_state=0)
    return LogisticRegression(C=goals.model.C, max_iter=1000)


def plain_name(goals: GoalsFile) -> str:
    """What the learner is called where it is compared with."""
    return "plain boosted trees" if goals.model.learner == "trees" else "plain logistic regression"


def reduction_options(goals: GoalsFile, callbacks: Sequence[Callable[[Progress], object]]) -> dict[str, Any]:
    """Parameters of `GoalReduction` by the goals file, besides the goal and its proof.

    Raises
    ------
    DataError
        If the file asks for what there is for SVMs, and so for two classes only.
    """
    model = goals.model
    for key, is_asked in {
        "model.kernel": model.kernel_name != "linear", "model.enforce": model.enforce != "deterministic",
        "validation.folds": goals.validation.folds is not None,
    }.items():  # fmt: skip
        if is_asked:
            raise DataError(f"{key} is for two classes, and the target {goals.data.target!r} has more. Drop it")
    return {
        "estimator": plain_learner(goals), "pos_label": goals.data.positive, "time_budget": model.time_budget,
        "on_infeasible": model.on_infeasible, "callbacks": callbacks, "random_state": 0,
        "solver_options": {"on_interrupt": "return"},
    }  # fmt: skip

"""What `train` fits where the target has several classes: logistic regression under the goal, by `GoalReduction`."""

from collections.abc import Callable, Sequence
from typing import Any

from sklearn.linear_model import LogisticRegression

from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.exceptions import DataError
from widemargin.solvers.base import Progress

PLAIN_OF_SEVERAL = "plain logistic regression"


def plain_learner(goals: GoalsFile) -> LogisticRegression:
    """The learner that the goal is trained with; without it, what to compare with."""
    return LogisticRegression(C=goals.model.C, max_iter=1000)


def reduction_options(goals: GoalsFile, callbacks: Sequence[Callable[[Progress], object]]) -> dict[str, Any]:
    """Parameters of `GoalReduction` by the goals file, besides the goal and its proof.

    Raises
    ------
    DataError
        If the file asks for what there is for two classes only.
    """
    model = goals.model
    for key, is_asked in {
        "model.kernel": model.kernel_name != "linear", "model.enforce": model.enforce != "deterministic",
        "validation.folds": goals.validation.folds is not None,
    }.items():  # fmt: skip
        if is_asked:
            raise DataError(f"{key} is for two classes, and the target {goals.data.target!r} has more. Drop it")
    return {
        "estimator": plain_learner(goals), "time_budget": model.time_budget, "on_infeasible": model.on_infeasible,
        "callbacks": callbacks, "random_state": 0, "solver_options": {"on_interrupt": "return"},
    }  # fmt: skip

"""Cooper's constrained optimisation (PyTorch) on the recall + churn task, written by hand over the rows.

Gradients go through a sigmoid, multipliers through the 0/1 rates (proxy constraints). The best feasible iterate is
kept; where there is none, the one of least violation. Which step sizes do best differs from point to point, so they are
tuned at each on the training rows.
"""

import itertools
from typing import Any

import cooper
import numpy as np
import numpy.typing as npt
import torch

from widemargin_papers.reproductions.recall_task import RecallTask

__all__ = ["LinearRule", "fit_recall_churn", "tune"]

Floats = npt.NDArray[np.float64]

STEPS = 800
PRIMAL_RATES, DUAL_RATES = (0.03, 0.1), (0.01, 0.05, 0.2)


class LinearRule:
    """A linear classifier, read as shares of positive predictions."""

    def __init__(self, w: Floats, b: float) -> None:
        self._w, self._b = w, b

    def share(self, X: Any) -> Floats:
        """1 where a row is called positive, else 0."""
        return (X @ self._w + self._b > 0).astype(float)


class _RecallChurn(cooper.ConstrainedMinimizationProblem):
    """errors(D1) + FP(D2) by row, with the shortfall of recall and the excess of churn, in rates."""

    def __init__(self, task: RecallTask, X: Floats, least_recall: float, most_churn: float) -> None:
        super().__init__()
        self.X = torch.from_numpy(X.astype(np.float32))
        n12 = task.y.shape[0]
        positive, second = task.y > 0, np.arange(n12) >= task.n1
        cost = np.zeros(X.shape[0])
        cost[:n12] = np.where(positive, np.where(second, 0.0, -1.0), 1.0) / n12
        slope = np.zeros((X.shape[0], 2))
        slope[:n12, 0] = np.where(second & positive, -1.0, 0.0) / (second & positive).sum()
        said = task.deployed3 > 0
        slope[n12:, 1] = np.where(said, -1.0, 1.0) / said.shape[0]
        self.cost = torch.from_numpy(cost.astype(np.float32))
        self.slope = torch.from_numpy(slope.astype(np.float32))
        self.constant = torch.tensor([least_recall, float(said.mean()) - most_churn], dtype=torch.float32)
        self.limits = cooper.Constraint(
            constraint_type=cooper.ConstraintType.INEQUALITY,
            formulation_type=cooper.formulations.Lagrangian,
            multiplier=cooper.multipliers.DenseMultiplier(num_constraints=2),
        )

    def compute_cmp_state(self, model: torch.nn.Linear) -> Any:
        """Loss and violations at the model, smooth for its gradients and 0/1 for the multipliers."""
        z = model(self.X)[:, 0]
        soft, hard = torch.sigmoid(z), (z > 0).float()
        violation = soft @ self.slope + self.constant
        strict = hard @ self.slope + self.constant
        state = cooper.ConstraintState(violation=violation, strict_violation=strict)
        misc = {"objective": float((hard @ self.cost).detach()), "excess": strict.detach().numpy().copy()}
        return cooper.CMPState(loss=soft @ self.cost, observed_constraints={self.limits: state}, misc=misc)


def tune(task: RecallTask, X: Floats, least_recall: float, most_churn: float) -> dict[str, float]:
    """The step sizes whose model violates least on the training rows, and of those the one of lowest objective."""

    def merit(rates: dict[str, float]) -> tuple[float, float]:
        model = fit_recall_churn(task, X, least_recall, most_churn, **rates)
        objective, recall, churn = task.measure(model.share(task.X), model.share(task.X3))
        return max(least_recall - recall, 0.0) + max(churn - most_churn, 0.0), objective

    grid = itertools.product(PRIMAL_RATES, DUAL_RATES)
    return min(({"primal_rate": primal, "dual_rate": dual} for primal, dual in grid), key=merit)


def fit_recall_churn(
    task: RecallTask,
    X: Floats,
    least_recall: float,
    most_churn: float,
    *,
    primal_rate: float = PRIMAL_RATES[0],
    dual_rate: float = DUAL_RATES[1],
) -> LinearRule:
    """Train for `STEPS` full-batch steps of Adam, multipliers by gradient ascent.

    Parameters
    ----------
    X : ndarray of shape (n1 + n2 + n3, d)
        Rows of D1, D2 and D3 in this order, dense.
    primal_rate, dual_rate : float
        Step sizes.
    """
    torch.manual_seed(0)
    problem = _RecallChurn(task, X, least_recall, most_churn)
    model = torch.nn.Linear(X.shape[1], 1)
    optimizer = cooper.optim.SimultaneousOptimizer(
        cmp=problem,
        primal_optimizers=torch.optim.Adam(model.parameters(), lr=primal_rate),
        dual_optimizers=torch.optim.SGD(problem.dual_parameters(), lr=dual_rate, maximize=True),
    )
    best = (np.inf, np.inf)
    kept = (np.zeros(X.shape[1]), 0.0)
    for _ in range(STEPS):
        before = _parameters(model)  # the state below is of these
        found = optimizer.roll(compute_cmp_state_kwargs={"model": model}).cmp_state.misc
        merit = (float(np.maximum(found["excess"], 0.0).sum()), found["objective"])
        if merit < best:
            best, kept = merit, before
    return LinearRule(*kept)


def _parameters(model: torch.nn.Linear) -> tuple[Floats, float]:
    w = model.weight.detach().numpy()[0].astype(np.float64)
    return w.copy(), float(model.bias.detach()[0])

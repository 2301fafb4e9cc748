"""People of two groups, fits under a ratio of their rates, and what such a fit reaches."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.data.sources import OUTCOMES, encoded
from benchmarks.task import Context, Row, quietly
from widemargin import RateConstrainedClassifier
from widemargin.datasets import Adult
from widemargin.estimators.rate_constrained.options import gathered
from widemargin.goals import Goal, Population, col, error_rate, positive_rate

__all__ = [
    "TEST_ERROR_SE",
    "People",
    "along",
    "compared",
    "fairlearn_cases",
    "fit",
    "of_a9a",
    "of_table",
    "ratio_goal",
    "reached",
]

TEST_ERROR_SE = 0.0028
"""Standard error of a test error of a9a."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class People:
    """Rows with labels of -1 and +1, and who is in the first of two groups."""

    X: Any
    y: npt.NDArray[np.float64]
    X_test: Any
    y_test: npt.NDArray[np.float64]
    first: Bools
    first_test: Bools
    name: str

    @property
    def table(self) -> pa.Table:
        """The groups of the training rows."""
        return pa.table({"group": np.where(self.first, "a", "b")})

    def some(self, n: int) -> "People":
        """A fixed draw of n training rows; the test rows stay."""
        rows = np.sort(np.random.default_rng(0).permutation(self.X.shape[0])[:n])
        return People(
            self.X[rows], self.y[rows], self.X_test, self.y_test, self.first[rows], self.first_test, self.name
        )


def of_a9a(data: Adult, column: int | None = None) -> People:
    """Women and men; or those without and with a column."""
    first, test = (data.women, data.women_test) if column is None else (~data.has(column), ~data.has_test(column))
    return People(data.X, data.y, data.X_test, data.y_test, first, test, data.name)


def of_table(table: pa.Table, name: str, first: Bools) -> People:
    """Two thirds of a table of people for training; the group of fewer positive labels comes first."""
    X, labels = encoded(table, OUTCOMES[name])
    y = np.where(labels > 0, 1.0, -1.0)
    first = first if labels[first].mean() < labels[~first].mean() else ~first
    order, n = np.random.default_rng(0).permutation(len(y)), 2 * len(y) // 3
    train, test = order[:n], order[n:]
    return People(X[train], y[train], X[test], y[test], first[train], first[test], name)


def ratio_goal(kappa: float) -> Goal:
    """The first group is called positive at least kappa times as often as the second."""
    a, b = (Population(name, where=col("group") == name) for name in "ab")
    return Goal(error_rate(), (positive_rate(a) >= kappa * positive_rate(b)).named("parity"))


def fit(data: People, kappa: float, **parameters: Any) -> RateConstrainedClassifier:
    """Fit the estimator; a goal that is not met shows in the tables."""
    made = RateConstrainedClassifier(ratio_goal(kappa), on_infeasible="warn", **gathered(parameters))
    with quietly():
        return made.fit(data.X, data.y, populations=data.table)


def reached(data: People, model: Any) -> Row:
    """Test ratio of the second group's positive rate over the first's, and errors; expected ones of a mixture."""
    share = model.share if hasattr(model, "share") else lambda X: (model.decision_function(X) > 0).astype(float)
    train, test = share(data.X), share(data.X_test)
    return {
        "train_ratio": _ratio(train, data.first),
        "train_error": float(np.where(data.y > 0, 1 - train, train).mean()),
        "test_ratio": _ratio(test, data.first_test),
        "test_error": float(np.where(data.y_test > 0, 1 - test, test).mean()),
    }


def fairlearn_cases(ctx: Context, data: People, kappa: float) -> dict[str, Callable[[], Any]]:
    """fairlearn's reduction under the same ratio, to be timed; none where it is not installed."""
    peers = ctx.peer("benchmarks.tasks._fairlearn")
    if peers is None:
        return {}
    dense, labels = data.X.toarray(), (data.y > 0).astype(int)
    return {f"fairlearn|{kappa}": partial(peers.fit_parity, dense, labels, ~data.first, kappa)}


def compared(
    ctx: Context, data: People, cases: Mapping[str, Callable[[], Any]], repeats: int | None = None, *,
    warm_up: bool | None = None,
) -> Iterator[tuple[Row, Any]]:  # fmt: skip
    """Times of each case, named `what|value`, and what it reached in its last run; with the model."""
    for name, timing in ctx.clock(cases, repeats, warm_up=warm_up).items():
        what, _, value = name.partition("|")
        row = {"what": what, "value": float(value)} | timing.to_dict() | reached(data, timing.result)
        yield row, timing.result


def _ratio(share: npt.NDArray[np.float64], first: Bools) -> float:
    return float(share[~first].mean() / share[first].mean()) if share[first].any() else math.inf


def along(points: Sequence[tuple[float, float]], ratio: float) -> float:
    """Error of a frontier at a ratio: linear between its points, the end pieces going on beyond."""
    x, y = np.array(points).T
    j = int(np.clip(np.searchsorted(x, ratio) - 1, 0, len(x) - 2))
    return float(y[j] + (ratio - x[j]) * (y[j + 1] - y[j]) / (x[j + 1] - x[j])) if math.isfinite(ratio) else math.nan

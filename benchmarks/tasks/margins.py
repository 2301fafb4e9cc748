"""Margin pursuit: how fast beside scikit-learn."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn._loss import HalfBinomialLoss
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.linear_model._linear_loss import LinearModelLoss

import widemargin as wm
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, ratios
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import CatoniLoss
from widemargin.problems.margin_pursuit import MarginPursuitProblem
from widemargin.solvers.smooth import lbfgs

Floats = npt.NDArray[np.float64]
PURSUIT, LOGISTIC = "margin pursuit", "LogisticRegression"

TOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Of either library; the loosest fit that comes within `NEAR` of the optimum counts."""

NEAR = 1e-6
EVALUATIONS, PASSES = 50, 20
PEER_LOSSES = ("hinge", "modified_huber", "log_loss")


def _a9a(ctx: Context) -> tuple[Any, Floats]:
    data = ctx.load("a9a")
    return data.X.astype(np.float64), np.where(data.y > 0, 1.0, -1.0)


def _problem(X: Any, y: Floats) -> MarginPursuitProblem:
    """The problem of C = 1 at scale 1."""
    n = len(y)
    return MarginPursuitProblem(RowBlocks([(X, None)]), y, np.full(n, 1.0 / n), float(n), 1.0 / n, CatoniLoss(), True)


def _logistic_value(model: Any, X: Any, y: Floats) -> float:
    """`1/2 |w|^2 + sum log(1 + exp(-m))`."""
    margins = y * model.decision_function(X)
    return float(0.5 * np.sum(model.coef_**2) - np.sum(np.log(np.maximum(expit(margins), 1e-300))))


def gradients(ctx: Context) -> dict[str, float]:
    """Processor milliseconds of a value with its gradient, ours and LogisticRegression's, at the same weights."""
    (X, y), peer = _a9a(ctx), LinearModelLoss(base_loss=HalfBinomialLoss(), fit_intercept=True)
    ours, labels = _problem(X, y), (y > 0).astype(np.float64)
    weights = 0.1 * np.random.default_rng(0).standard_normal(X.shape[1] + 1)
    calls: dict[str, Callable[[], Any]] = {
        PURSUIT: lambda: ours.value_gradient(weights),
        LOGISTIC: lambda: peer.loss_gradient(weights, X, labels, l2_reg_strength=1.0 / len(y)),
    }
    timings = ctx.clock({name: lambda call=call: [call() for _ in range(EVALUATIONS)] for name, call in calls.items()})
    return {name: 1e3 * timing.processor_median / EVALUATIONS for name, timing in timings.items()}


def fits(ctx: Context) -> dict[str, Row]:
    """Whole fits of margin pursuit and logistic regression, each to its own optimum."""
    X, y = _a9a(ctx)
    least = lbfgs.solve(_problem(X, y), tol=1e-13).value
    exact = _logistic_value(LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y), X, y)
    makes: dict[str, Callable[[float], Any]] = {
        PURSUIT: lambda tol: wm.MarginPursuitClassifier(scale=1.0, tol=tol).fit(X, y),
        LOGISTIC: lambda tol: LogisticRegression(tol=tol, max_iter=5000).fit(X, y),
    }
    above: dict[str, Callable[[Any], float]] = {
        PURSUIT: lambda model: float(model.objective_[0]) / least - 1.0,
        LOGISTIC: lambda model: _logistic_value(model, X, y) / exact - 1.0,
    }
    found: dict[str, Row] = {}
    for name, make in makes.items():  # the loosest tolerance that comes within `NEAR` of the least value
        for tol in TOLS:
            found[name] = {"tol": tol, "excess": above[name](Timing.of(partial(make, tol)).result)}
            if found[name]["excess"] <= NEAR:
                break
    timings = ctx.clock({name: partial(makes[name], row["tol"]) for name, row in found.items()})
    return {name: row | {"ms": 1e3 * timings[name].processor_median} for name, row in found.items()}


def stochastic(ctx: Context) -> dict[str, float]:
    """Gradients a second: what `PASSES` more passes take, from fits of 1 and of 1 + PASSES passes."""
    X, y = _a9a(ctx)
    makes: dict[str, Callable[[int], Any]] = {
        name: partial(wm.MarginPursuitClassifier, scale=1.0, solver="sgd", random_state=0, solver_options=options)
        for name, options in {PURSUIT: {}, f"{PURSUIT}, averaged": {"average": True}}.items()
    } | {
        f"SGDClassifier, {loss}": partial(SGDClassifier, loss=loss, alpha=1.0 / len(y), tol=None, random_state=0)
        for loss in PEER_LOSSES
    }
    cases = {
        (name, k): lambda make=make, k=k: make(max_iter=k).fit(X, y)
        for name, make in makes.items() for k in (1, 1 + PASSES)
    }  # fmt: skip
    timings, rates = ctx.clock(cases), {}
    for name in makes:
        longer, shorter = (timings[name, k].processor_median for k in (1 + PASSES, 1))
        rates[name] = PASSES * len(y) / max(longer - shorter, 1e-9)
    return rates


def _named(part: str) -> Callable[[Content], Iterable[Row]]:
    """Rows of a mapping of names to rows, or to numbers."""
    return lambda content: [
        {"name": name} | (row if isinstance(row, dict) else {"value": row})
        for name, row in (content.get(part) or {}).items()
    ]


def _speed_targets(content: Content) -> Iterable[Limit]:
    yield from ratios("gradient, a9a", content["gradients_ms"], PURSUIT, {LOGISTIC: 1.0})
    seconds = {name: row["ms"] for name, row in content["to_the_optimum"].items()}
    yield from ratios("fit to 1e-6, a9a", seconds, PURSUIT, {LOGISTIC: 1.0})
    each = {name: 1 / rate for name, rate in content["stochastic_per_s"].items()}
    yield from ratios("stochastic gradient, a9a", each, PURSUIT, {"SGDClassifier, hinge": 1.0})


TASKS = {
    "margin_speed": Task(
        "Margin pursuit beside scikit-learn on a9a, C = 1, scale 1: a value with its gradient over all rows, whole "
        "fits to "
        "within 1e-6 of their own optimum, stochastic gradients a second with everything that a pass brings along.",
        {"gradients_ms": gradients, "to_the_optimum": fits, "stochastic_per_s": stochastic},
        {
            "gradients": Table("Value and gradient of all rows (processor ms)", _named("gradients_ms"),
                "method: {name} | ms: {value:.3f}"),
            "fits": Table(
                f"Whole fits to within {NEAR:g} of their own optimum (processor ms)", _named("to_the_optimum"),
                "estimator: {name} | tol: {tol:g} | excess: {excess:.1e} | ms: {ms:.1f}",
            ),
            "stochastic": Table(
                "Stochastic gradients a second (whole passes, bias and looks included)", _named("stochastic_per_s"),
                "method: {name} | a second: {value:.3g}",
            ),
        },
        _speed_targets, subject="margins", half="tuning",
    ),
}  # fmt: skip

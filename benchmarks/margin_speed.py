"""Margin pursuit against scikit-learn on a9a: gradients, time to the optimum, stochastic gradients a second.

One thread; ratios are of median processor seconds of the same run. Run as `python -m benchmarks.margin_speed`; see
README.md here.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn._loss import HalfBinomialLoss
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.linear_model._linear_loss import LinearModelLoss

from benchmarks.common import (
    MissingDataError,
    Timing,
    interleave,
    load_adult,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    verdict,
    write,
)
from widemargin import MarginPursuitClassifier
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import CatoniLoss
from widemargin.problems.margin_pursuit import MarginPursuitProblem
from widemargin.solvers.smooth import lbfgs

TOLS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
"""Of either library; the fastest fit that comes within `TARGET` counts."""

TARGET = 1e-6
EVALUATIONS = 50
PASSES = 20
PEER_LOSSES = ("hinge", "modified_huber", "log_loss")

Floats = npt.NDArray[np.float64]


def gradients(X: Any, y: Floats, repeats: int) -> dict[str, Timing]:
    """`EVALUATIONS` values with gradients, ours and those of LogisticRegression, at the same weights."""
    ours = problem(X, y)
    peer = LinearModelLoss(base_loss=HalfBinomialLoss(), fit_intercept=True)
    weights = 0.1 * np.random.default_rng(0).standard_normal(X.shape[1] + 1)
    labels = (y > 0).astype(np.float64)

    def logistic() -> None:
        for _ in range(EVALUATIONS):
            peer.loss_gradient(weights, X, labels, l2_reg_strength=1.0 / len(y))

    def pursuit() -> None:
        for _ in range(EVALUATIONS):
            ours.value_gradient(weights)

    return interleave({"margin pursuit": pursuit, "LogisticRegression": logistic}, repeats)


def problem(X: Any, y: Floats) -> MarginPursuitProblem:
    """The problem of C = 1 at scale 1."""
    n = len(y)
    return MarginPursuitProblem(RowBlocks([(X, None)]), y, np.full(n, 1.0 / n), float(n), 1.0 / n, CatoniLoss(), True)


def logistic_value(model: LogisticRegression, X: Any, y: Floats) -> float:
    """`1/2 |w|^2 + sum log(1 + exp(-m))`."""
    margins = y * model.decision_function(X)
    return float(0.5 * np.sum(model.coef_**2) - np.sum(np.log(np.maximum(expit(margins), 1e-300))))


def to_the_optimum(X: Any, y: Floats, repeats: int) -> dict[str, tuple[float, Timing, float]]:
    """The largest tolerance of each whole fit that comes within `TARGET` of its own optimum, its time and excess."""
    makes: dict[str, Callable[[float], Any]] = {
        "margin pursuit": lambda tol: MarginPursuitClassifier(scale=1.0, tol=tol).fit(X, y),
        "LogisticRegression": lambda tol: LogisticRegression(tol=tol, max_iter=5000).fit(X, y),
    }
    values: dict[str, Callable[[Any], float]] = {
        "margin pursuit": lambda model: float(model.objective_[0]),
        "LogisticRegression": lambda model: logistic_value(model, X, y),
    }
    exact = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y)
    least = {
        "margin pursuit": lbfgs.solve(problem(X, y), tol=1e-13).value,
        "LogisticRegression": logistic_value(exact, X, y),
    }
    chosen: dict[str, tuple[float, float]] = {}
    for name, make in makes.items():
        for tol in TOLS:
            excess = values[name](make(tol)) / least[name] - 1.0
            chosen[name] = (tol, excess)
            if excess <= TARGET:
                break
    timings = interleave({name: partial(makes[name], tol) for name, (tol, _) in chosen.items()}, repeats)
    return {name: (chosen[name][0], timings[name], chosen[name][1]) for name in makes}


def stochastic(X: Any, y: Floats, repeats: int) -> dict[str, float]:
    """Gradients a second: what `PASSES` more passes take, from fits of 1 and of 1 + PASSES passes."""
    shared = {"alpha": 1.0 / len(y), "tol": None, "random_state": 0}
    makes: dict[str, Callable[[int], Any]] = {
        "margin pursuit": lambda k: MarginPursuitClassifier(scale=1.0, solver="sgd", max_iter=k, random_state=0),
        "margin pursuit, averaged": lambda k: MarginPursuitClassifier(
            scale=1.0, solver="sgd", max_iter=k, random_state=0, solver_options={"average": True}
        ),
    }
    for loss in PEER_LOSSES:
        makes[f"SGDClassifier, {loss}"] = lambda k, loss=loss: SGDClassifier(loss=loss, max_iter=k, **shared)
    cases = {
        (name, passes): lambda make=make, passes=passes: make(passes).fit(X, y)
        for name, make in makes.items()
        for passes in (1, 1 + PASSES)
    }
    timings = interleave({f"{name}|{passes}": run for (name, passes), run in cases.items()}, repeats)
    rates = {}
    for name in makes:
        longer, shorter = (timings[f"{name}|{passes}"].processor_median for passes in (1 + PASSES, 1))
        rates[name] = PASSES * len(y) / max(longer - shorter, 1e-9)
    return rates


def certified(X: Any, y: Floats) -> dict[str, float]:
    """Objective at tol 1e-8 above the one at 1e-14, and the gap that was proved."""
    found, best = (lbfgs.solve(problem(X, y), tol=tol) for tol in (1e-8, 1e-14))
    return {"excess": found.value / best.value - 1.0, "gap": found.gap, "iterations": found.n_iter}


def tables(results: dict[str, Any]) -> list[str]:
    """Three tables, with a verdict each."""
    full, fits, rates = results["gradients_ms"], results["to_the_optimum"], results["stochastic_per_s"]
    ours, peer = "margin pursuit", "LogisticRegression"
    first = show(
        "Value and gradient of all rows (median processor ms)",
        [ours, peer, "ratio", "at most the peer's"],
        [
            [
                f"{full[ours]:.3f}",
                f"{full[peer]:.3f}",
                f"{full[ours] / full[peer]:.2f}",
                verdict(full[ours] <= full[peer]),
            ]
        ],
    )
    second = show(
        f"Whole fits to within {TARGET:g} of their own optimum (median processor ms)",
        ["estimator", "tol", "excess", "ms", "ratio", "at most the peer's"],
        [
            [
                name, f"{row['tol']:g}", f"{row['excess']:.1e}", f"{row['ms']:.1f}",
                f"{row['ms'] / fits[peer]['ms']:.2f}", verdict(row["ms"] <= fits[peer]["ms"]),
            ]
            for name, row in fits.items()
        ],
    )  # fmt: skip
    third = show(
        "Stochastic gradients a second (whole passes, bias and looks included)",
        ["method", "millions", *(f"/ {loss}" for loss in PEER_LOSSES)],
        [
            [
                name, f"{rate / 1e6:.2f}",
                *(f"{rate / max(rates[f'SGDClassifier, {loss}'], 1e-300):.2f}" for loss in PEER_LOSSES),
            ]
            for name, rate in rates.items()
        ],
    )  # fmt: skip
    proof = results["certified"]
    fourth = show(
        "L-BFGS at tol 1e-8, scale 1",
        ["objective above the best (relative)", "gap proved", "iterations", "within 1e-8"],
        [[f"{proof['excess']:.1e}", f"{proof['gap']:.1e}", proof["iterations"], verdict(proof["gap"] <= 1e-8)]],
    )
    return [first, second, third, fourth]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    options = parser(__doc__ or "").parse_args(arguments)
    about = machine()
    try:
        adult = load_adult(options)
    except MissingDataError as error:
        return skipped(error)
    X, y = adult.X.astype(np.float64), np.where(adult.y > 0, 1.0, -1.0)
    repeats = 1 if options.quick else options.repeats
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        full = gradients(X, y, repeats)
        fits = to_the_optimum(X, y, repeats)
        results = {
            "machine": about,
            "data": adult.name,
            "gradients_ms": {name: 1e3 * timing.processor_median / EVALUATIONS for name, timing in full.items()},
            "to_the_optimum": {
                name: {"tol": tol, "excess": excess, "ms": 1e3 * timing.processor_median}
                for name, (tol, timing, excess) in fits.items()
            },
            "stochastic_per_s": stochastic(X, y, repeats),
            "certified": certified(X, y),
        }
    write(options, "margin_speed", results, tables(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())

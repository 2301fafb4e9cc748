"""The online Perceptron on kernel rows (Rosenblatt 1958; paper, section 4.5): rows on the wrong side are added.

    for every row i, in random order:
        if y_i f(x_i) <= 0:  w = w + y_i phi(x_i)

One pass has the guarantees of an online method after a conversion to batch: the average of the iterates, or one of them
drawn uniformly (Cesa-Bianchi, Conconi and Gentile 2001). More passes may overfit: nothing keeps |w| small.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm import stochastic as kernel_sgd
from widemargin.solvers.kernel_svm import stochastic_loops as loops
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult
from widemargin.solvers.kernel_svm.row_visits import AHEAD

__all__ = ["ITERATES", "solve"]

ITERATES = ("last", "average", "drawn")
"""What is returned: the last iterate, the average, or one drawn uniformly from all of them."""


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int = 1,
    iterate: str = "average",
    ahead: int = AHEAD,
    seed: int = 0,
) -> KernelResult:
    """Run the Perceptron.

    Parameters
    ----------
    problem : KernelProblem
        Without a bias. A row is added as often as its `upper` is above the mean: its weight.
    tol : float or None, default=1e-3
        Unused but for None, the hold-out rule: the Perceptron minimises nothing, and ends with a pass without mistakes.
    start : ndarray of shape (n,), optional
        `coef` of the first iterate.
    budget : Budget, optional
    max_iter : int, default=1
        Most passes.
    iterate : {"last", "average", "drawn"}, default="average"
    ahead : int, default=8
        Kernel rows fetched together (`solvers.row_visits`); 1 fetches none in vain.
    seed : int, default=0

    Returns
    -------
    KernelResult
        `n_iter` counts the rows visited. `primal` and `dual` are those of the SVM at the result, which the Perceptron
        does not approach. A negative squared norm is reported as `indefinite`.

    Raises
    ------
    CapabilityError
        If the problem has a bias; if `tol` is None and no row is held out.
    """
    kernel_sgd.refuse_bias(problem, "the Perceptron")
    iterates, rng = kernel_sgd.Iterates(problem, start, checked=False), np.random.default_rng(seed)
    counts = problem.upper > 0.0
    size = problem.upper / max(float(problem.upper[counts].mean()) if counts.any() else 1.0, 1e-300)
    kept = _Drawn(iterates, np.random.default_rng((seed, 1)))

    def advance(draws: Ints, first: int, last: int, place: Ints, buffer: npt.NDArray[np.floating]) -> int:
        last = min(last, first + kept.due - iterates.steps) if iterate == "drawn" else last
        done = loops.perceptron(
            draws, first, last, place, buffer, problem.y, size, iterate == "average", *iterates.arrays
        )
        if iterate == "drawn" and iterates.steps == kept.due:
            kept.keep()
        return done

    method = kernel_sgd.Method(
        "perceptron",
        epoch=lambda: kernel_sgd.passes(problem, rng),
        moves=lambda rows: problem.y[rows] * iterates.scores_of(rows) <= 0.0,
        advance=advance,
        read={"last": iterates.last, "average": iterates.average, "drawn": lambda: kept.point}[iterate],
        judge=lambda point: kernel_sgd.judge_svm(problem, point),
        descends=False,
    )
    result = kernel_sgd.run(
        problem, iterates, method, tol=tol, budget=budget or Budget(), max_iter=max_iter, ahead=ahead
    )
    return replace(result, indefinite=iterates.indefinite)


class _Drawn:
    """One iterate drawn uniformly from those so far, whenever the run ends (a reservoir of one)."""

    def __init__(self, iterates: kernel_sgd.Iterates, rng: np.random.Generator) -> None:
        self._iterates, self._rng = iterates, rng
        self.due = 1
        self.point = iterates.last()

    def keep(self) -> None:
        """Take the iterate of this step, t; step m > t is the next one taken with probability `t/(m - 1) - t/m`."""
        self.point = self._iterates.last()
        self.due = int(self.due / max(self._rng.random(), 1e-9)) + 1

"""The online Perceptron on kernel rows (Rosenblatt 1958; paper, section 4.5): rows on the wrong side are added.

    for every row i, in random order:
        if y_i f(x_i) <= 0:  w = w + y_i phi(x_i)

One pass has the guarantees of an online method after a conversion to batch: the average of the iterates, or one of them
drawn uniformly (Cesa-Bianchi, Conconi and Gentile 2001). More passes may overfit: nothing keeps |w| small.
"""

from dataclasses import replace

import numpy as np

from widemargin._numba import kernel
from widemargin._typing import Floats, Ints, Reals
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm import stochastic
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult
from widemargin.solvers.kernel_svm.stochastic import AHEAD, Now, add_row

__all__ = ["ITERATES", "perceptron", "solve"]

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
    max_iter : int, default=1
        Most passes.
    iterate : {"last", "average", "drawn"}, default="average"
    ahead : int, default=8
        Kernel rows fetched together (`stochastic.visit`); 1 fetches none in vain.

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
    problem.refuse_bias("the Perceptron")
    iterates, rng = stochastic.Iterates(problem, start, checked=False), np.random.default_rng(seed)
    counts = problem.upper > 0.0
    # A row of twice the mean weight is added as if it stood there twice.
    size = problem.upper / max(float(problem.upper[counts].mean()) if counts.any() else 1.0, 1e-300)
    reservoir = _Drawn(iterates, np.random.default_rng((seed, 1)))

    def advance(draws: Ints, first: int, last: int, place: Ints, buffer: Reals) -> int:
        # The compiled steps stop where the reservoir wants to look at the iterate.
        last = min(last, first + reservoir.due - iterates.steps) if iterate == "drawn" else last
        done = perceptron(draws, first, last, place, buffer, problem.y, size, iterate == "average", *iterates.arrays)
        if iterate == "drawn" and iterates.steps == reservoir.due:
            reservoir.keep()
        return done

    method = stochastic.Method(
        "perceptron",
        epoch=lambda: stochastic.passes(problem, rng),
        moves=lambda rows: problem.y[rows] * iterates.scores_of(rows) <= 0.0,
        advance=advance,
        read={"last": iterates.last, "average": iterates.average, "drawn": lambda: reservoir.point}[iterate],
        judge=lambda point: stochastic.judge_svm(problem, point),
        descends=False,
    )
    result = stochastic.run(
        problem, iterates, method, tol=tol, budget=budget or Budget(), max_iter=max_iter, ahead=ahead
    )
    return replace(result, indefinite=iterates.indefinite)


class _Drawn:
    """One iterate drawn uniformly from those so far, whenever the run ends (a reservoir of one)."""

    def __init__(self, iterates: stochastic.Iterates, rng: np.random.Generator) -> None:
        self._iterates, self._rng = iterates, rng
        self.due = 1
        self.point = iterates.last()

    def keep(self) -> None:
        """Take the iterate of this step, t; step m > t is the next one taken with probability `t/(m - 1) - t/m`."""
        self.point = self._iterates.last()
        # The step of the next draw is drawn at once, by its law, so that no step in between needs a random number.
        self.due = int(self.due / max(self._rng.random(), 1e-9)) + 1


@kernel
def perceptron(
    draws: Ints, first: int, last: int, place: Ints, buffer: Reals, y: Floats, size: Floats, averaged: bool, v: Floats,
    V: Floats, u: Floats, U: Floats, now: Floats,
) -> int:  # fmt: skip
    """The Perceptron: a row on the wrong side, or on the boundary, is added: `w <- w + size_i y_i phi(x_i)`.

    Averages have equal weights. Returns the draw that it stopped before.
    """
    for k in range(first, last):
        i = draws[k]
        mistaken = y[i] * V[i] <= 0.0
        # Its kernel row is not at hand: the caller fetches it and goes on from here.
        if mistaken and place[i] < 0:
            return k
        now[Now.STEPS] += 1.0
        if mistaken:
            add_row(buffer[place[i]], i, size[i] * y[i], v, V, u, U, now[Now.TOTAL])
        # The sums of the average are kept lazily: only the total weight grows with every step, correct or not.
        if averaged:
            now[Now.TOTAL] += 1.0
            now[Now.WEIGHT] += 1.0
    return last

"""Stochastic gradient steps on the mean hinge loss in a norm ball (Zhang 2004), beside Pegasos the paper's baseline.

    minimise sum_i p_i max(0, 1 - y_i f(x_i)) subject to |w| <= radius,       p proportional to C

    for t = 1, 2, ...:
        draw i with probability p_i
        w = w + [y_i f(x_i) < 1] eta_0/sqrt(t) y_i phi(x_i),     eta_0 = radius / sqrt(max K(x, x))
        project w onto the ball
    return the average of the iterates

Primal and dual are `sum_i C_i max(0, 1 - y_i f(x_i))` in the ball and `s (sum_i a_i - radius |sum_i a_i y_i phi(x_i)|)`
for the largest s with `s a_i <= C_i`, a bound for every `a >= 0`.
"""

import numpy as np

from widemargin.exceptions import KernelError
from widemargin.extending import Floats, Ints, Reals, kernel
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm import stochastic
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult
from widemargin.solvers.kernel_svm.stochastic import AHEAD, Now, add_row
from widemargin_papers.solvers.kernel_pegasos import drawn, fold, project


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    radius: float | None = None,
    max_iter: int = 10,
    average: bool = True,
    ahead: int = AHEAD,
    seed: int = 0,
) -> KernelResult:
    """Minimise the hinge loss in a norm ball, without a bias.

    Parameters
    ----------
    problem : KernelProblem
        Without a bias. Rows are drawn in proportion to `upper`.
    tol : float or None, default=1e-3
        Relative duality gap of the problem in the ball, a loose bound. None: the hold-out rule.
    start : ndarray of shape (n,), optional
        `coef` of the first iterate; it is scaled into the ball.
    budget : Budget, optional
    radius : float, optional
        Largest norm of w. Raising it fits the rows more closely; by default `sqrt(sum_i C_i)`, which the solution of
        the SVM with these C does not exceed.
    max_iter : int, default=10
        Most epochs, each of as many draws as there are rows.
    average : bool, default=True
        Whether the iterates' average is returned, else the last one.
    ahead : int, default=8
        Kernel rows fetched together (`stochastic.visit`); 1 fetches none in vain.
    seed : int, default=0

    Returns
    -------
    KernelResult
        `n_iter` counts the draws; `violation` is not known.

    Raises
    ------
    CapabilityError
        If the problem has a bias; if `tol` is None and no row is held out.
    KernelError
        If a squared norm comes out negative, or the radius is not positive.
    """
    problem.refuse_bias("SGD in a norm ball")
    limit = float(problem.upper.sum()) ** 0.5 if radius is None else radius
    if not (limit >= 0.0 and np.isfinite(limit)):
        raise KernelError(f"radius={radius!r} must be a finite number >= 0.")
    iterates, rng = stochastic.Iterates(problem, start), np.random.default_rng(seed)
    project(limit, iterates.arrays[4])
    diagonal, y = problem.rows.diagonal(), problem.y
    rate = limit / max(float(diagonal.max(initial=0.0)), 1e-300) ** 0.5

    def advance(draws: Ints, first: int, last: int, place: Ints, buffer: Reals) -> int:
        return norm_ball(draws, first, last, place, buffer, y, diagonal, rate, limit, average, *iterates.arrays)

    def judge(point: stochastic.Point) -> dict[str, float]:
        total, most = stochastic.in_box(problem, point)
        slope = total - limit * point.square**0.5
        dual = most * slope if slope > 0.0 and np.isfinite(most) else 0.0
        return {"primal": stochastic.hinge(problem, point.scores), "dual": dual}

    method = stochastic.Method(
        "sgd in a norm ball",
        epoch=lambda: drawn(problem, rng),
        moves=lambda rows: y[rows] * iterates.scores_of(rows) < 1.0,
        advance=advance,
        read=iterates.average if average else iterates.last,
        judge=judge,
    )
    return stochastic.run(problem, iterates, method, tol=tol, budget=budget or Budget(), max_iter=max_iter, ahead=ahead)


@kernel
def norm_ball(
    draws: Ints, first: int, last: int, place: Ints, buffer: Reals, y: Floats, diagonal: Floats, rate: float,
    radius: float, averaged: bool, v: Floats, V: Floats, u: Floats, U: Floats, now: Floats,
) -> int:  # fmt: skip
    """Gradient steps on the hinge loss of one row: `w <- w + rate/sqrt(t) y_i phi(x_i) [y_i f(x_i) < 1]`, projected.

    Averages have equal weights. Returns the draw that it stopped before.
    """
    for k in range(first, last):
        i = draws[k]
        score = now[Now.SCALE] * V[i]
        violated = y[i] * score < 1.0
        if violated and place[i] < 0:
            return k
        now[Now.STEPS] += 1.0
        if violated:
            delta = y[i] * rate / np.sqrt(now[Now.STEPS])
            now[Now.SQUARE] += delta * (2.0 * score + delta * diagonal[i])
            add_row(buffer[place[i]], i, delta / now[Now.SCALE], v, V, u, U, now[Now.TOTAL])
            project(radius, now)
            fold(v, V, u, U, now)
        if averaged:
            now[Now.TOTAL] += now[Now.SCALE]
            now[Now.WEIGHT] += 1.0
    return last

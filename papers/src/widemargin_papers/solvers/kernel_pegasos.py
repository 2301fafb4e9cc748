"""Pegasos on kernel rows (Shalev-Shwartz, Singer, Srebro and Cotter 2011): stochastic subgradient steps on the SVM.

lam = 1 / sum_i C_i:        P(w) / sum_i C_i = lam/2 |w|^2 + sum_i p_i max(0, 1 - y_i f(x_i)),       p = lam C

for t = 1, 2, ...:
    draw i with probability p_i
    w = (1 - 1/t) w + [y_i f(x_i) < 1] y_i phi(x_i) / (lam t)
    project w onto the ball of radius 1/sqrt(lam), in which the optimum lies                 (optional)
"""

import numpy as np

from widemargin.extending import Floats, Ints, Reals, kernel
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm import stochastic
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult
from widemargin.solvers.kernel_svm.stochastic import AHEAD, Now, add_row


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int | None = None,
    project: bool = False,
    average: bool = True,
    ahead: int = AHEAD,
    seed: int = 0,
) -> KernelResult:
    """Approach the optimum of a kernel SVM without a bias.

    Parameters
    ----------
    problem : KernelProblem
        Without a bias. Rows are drawn in proportion to `upper`.
    tol : float or None, default=1e-3
        Relative duality gap, from the best multiple of the coefficients that is feasible in the dual: a loose bound,
        so the limit usually ends the run. None: the hold-out rule.
    start : ndarray of shape (n,), optional
        `coef` of the first iterate; the steps are then counted from n.
    budget : Budget, optional
    max_iter : int, optional
        Most epochs, each of as many draws as there are rows; by default 10, and 100 where the hold-out rule ends the
        run.
    project : bool, default=False
        Whether to project; it makes the first steps less wild.
    average : bool, default=True
        Whether the iterates' average with weights t is returned, a smoother answer than the last iterate.
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
        If a squared norm comes out negative.
    """
    problem.refuse_bias("Pegasos")
    iterates, rng = stochastic.Iterates(problem, start), np.random.default_rng(seed)
    if start is not None:
        # Counted from a whole pass: the first long steps would throw a start away.
        iterates.arrays[4][Now.STEPS] = problem.n_rows
    # The regulariser in Pegasos' units, where the losses are a mean.
    lam = 1.0 / max(float(problem.upper.sum()), 1e-300)
    # The optimum lies in this ball (Theorem 1 of the paper).
    radius = lam**-0.5 if project else np.inf
    diagonal, y = problem.rows.diagonal(), problem.y

    def advance(draws: Ints, first: int, last: int, place: Ints, buffer: Reals) -> int:
        return pegasos(draws, first, last, place, buffer, y, diagonal, lam, radius, average, *iterates.arrays)

    if max_iter is None:
        max_iter = 10 if tol is not None else 100
    method = stochastic.Method(
        "pegasos",
        epoch=lambda: drawn(problem, rng),
        moves=lambda rows: y[rows] * iterates.scores_of(rows) < 1.0,
        advance=advance,
        read=iterates.average if average else iterates.last,
        judge=lambda point: stochastic.judge_svm(problem, point),
        # The first steps are as long as 1 / (lam t), and their mean forgets slowly: rows held out judge after 3 epochs.
        least=3 * problem.n_rows,
    )
    return stochastic.run(problem, iterates, method, tol=tol, budget=budget or Budget(), max_iter=max_iter, ahead=ahead)


@kernel
def pegasos(
    draws: Ints, first: int, last: int, place: Ints, buffer: Reals, y: Floats, diagonal: Floats, lam: float,
    radius: float, averaged: bool, v: Floats, V: Floats, u: Floats, U: Floats, now: Floats,
) -> int:  # fmt: skip
    """Pegasos on the rows `draws[first:last]`: `w <- (1 - 1/t) w + 1/(lam t) y_i phi(x_i) [y_i f(x_i) < 1]`, projected.

    Averages have the weights t. Returns the draw that it stopped before.
    """
    for k in range(first, last):
        i = draws[k]
        score = now[Now.SCALE] * V[i]
        violated = y[i] * score < 1.0
        # Its kernel row is not at hand: the caller fetches it and goes on from here.
        if violated and place[i] < 0:
            return k
        now[Now.STEPS] += 1.0
        t = now[Now.STEPS]
        # The regulariser shrinks w before the row is added; |w|^2 and the row's score shrink with it.
        if t > 1.0:  # at the first step w is 0
            now[Now.SCALE] *= 1.0 - 1.0 / t
            now[Now.SQUARE] *= (1.0 - 1.0 / t) ** 2
            score *= 1.0 - 1.0 / t
        # |w + delta phi|^2 from the score, without another pass over the rows.
        if violated:
            delta = y[i] / (lam * t)
            now[Now.SQUARE] += delta * (2.0 * score + delta * diagonal[i])
            add_row(buffer[place[i]], i, delta / now[Now.SCALE], v, V, u, U, now[Now.TOTAL])
        project(radius, now)
        fold(v, V, u, U, now)
        # Weights t, so that the long first steps are soon forgotten.
        if averaged:
            now[Now.TOTAL] += t * now[Now.SCALE]
            now[Now.WEIGHT] += t
    return last


@kernel
def project(radius: float, now: Floats) -> None:
    """Scale w into the ball of this radius."""
    if now[Now.SQUARE] > radius * radius:
        # The projection is one number: w = scale v, and v stays.
        now[Now.SCALE] *= radius / np.sqrt(now[Now.SQUARE])
        now[Now.SQUARE] = radius * radius


@kernel
def fold(v: Floats, V: Floats, u: Floats, U: Floats, now: Floats) -> None:
    """Make scale 1 and total 0 again where scale has become small: else v grows, and `total v - u` loses its digits."""
    # At a tenth one digit of sixteen is lost, and the pass over all rows comes seldom enough.
    scale, total = now[Now.SCALE], now[Now.TOTAL]
    if scale >= 0.1:
        return
    for j in range(v.shape[0]):
        u[j] -= total * v[j]
        U[j] -= total * V[j]
        v[j] *= scale
        V[j] *= scale
    now[Now.SCALE] = 1.0
    now[Now.TOTAL] = 0.0


def drawn(problem: KernelProblem, rng: np.random.Generator) -> Ints:
    """As many rows as are not held out, drawn with replacement in proportion to `upper`."""
    rows = np.flatnonzero(problem.upper > 0.0)
    weight = problem.upper[rows]
    # Equal weights need no table of probabilities.
    if rows.shape[0] == 0 or weight.min() == weight.max():
        return rows[rng.integers(max(rows.shape[0], 1), size=rows.shape[0])]
    return rng.choice(rows, rows.shape[0], p=weight / weight.sum())

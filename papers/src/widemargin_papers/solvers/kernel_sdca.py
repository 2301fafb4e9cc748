"""Stochastic dual coordinate ascent on kernel rows (Hsieh et al. 2008; paper, section 4.4), without a bias.

    repeat: for every row i, in random order:
        coef_i = the value in its bounds that maximises the dual while the others stay

The scores of all rows are kept, so a visit costs nothing unless its coefficient moves; then it costs a kernel row.
`sdca.KernelAscent` is the faster one, for two weights a row and small regularisers; this is the plain algorithm.
"""

import numpy as np

from widemargin.exceptions import KernelError
from widemargin.extending import Bools, Floats, Ints, Reals, kernel
from widemargin.linalg.gram import squared_norm
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.certificate import KernelRecorder
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, responses
from widemargin.solvers.kernel_svm.stochastic import AHEAD, passes, visit


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    max_iter: int = 1000,
    ahead: int = AHEAD,
    seed: int = 0,
) -> KernelResult:
    """Solve the dual of a kernel SVM without a bias by coordinate ascent.

    Parameters
    ----------
    problem : KernelProblem
    tol : float or None, default=1e-3
        Largest violation of the optimality conditions, LIBSVM's measure; None: the hold-out rule.
    start : ndarray of shape (n,), optional
        `coef` to begin from; it is clipped into its bounds.
    budget : Budget, optional
    max_iter : int, default=1000
        Most passes.
    ahead : int, default=8
        Kernel rows fetched together (`stochastic.visit`); 1 fetches none in vain.
    seed : int, default=0

    Returns
    -------
    KernelResult
        `n_iter` counts the rows visited. Where the budget or `max_iter` ends the run this is the best model that was
        looked at, by its primal value.

    Raises
    ------
    CapabilityError
        If the problem has a bias; if `tol` is None and no row is held out.
    KernelError
        If K(x, x) or a squared norm comes out negative.
    """
    problem.refuse_bias("dual coordinate ascent")
    budget = budget or Budget()
    diagonal = problem.rows.diagonal()
    if diagonal.min(initial=0.0) < 0.0:
        raise KernelError(f"the kernel is not positive semi-definite: K(x, x) = {diagonal.min():.3g} for some x.")
    lower, upper = problem.bounds
    coef = problem.feasible(start)
    scores = responses(problem.rows, coef)
    largest = float(diagonal.max(initial=0.0))
    limit = 1e-3 if tol is None else tol  # at LIBSVM's tolerance the hold-out rule has nothing left to choose from
    # Looks cost a pass over the scores, so the recorder spaces them by the work done.
    recorder, rng = KernelRecorder(problem, "sdca", budget, tol), np.random.default_rng(seed)
    visits, converged = 0, False

    def moves(rows: Ints) -> Bools:
        # The dual along a coefficient is a parabola: its slope says whether it wants to move.
        slope = problem.y[rows] - scores[rows]
        rises: Bools = (slope > 0.0) & (coef[rows] < upper[rows])
        return rises | ((slope < 0.0) & (coef[rows] > lower[rows]))

    def advance(draws: Ints, first: int, last: int, place: Ints, buffer: Reals) -> int:
        return coordinate_ascent(draws, first, last, place, buffer, problem.y, diagonal, lower, upper, coef, scores)

    def look(visits: int) -> bool:
        # A norm that comes out negative shows a kernel that is not positive semi-definite.
        squared_norm(coef, scores, largest, problem.rows.dtype)  # raises where it is negative
        at = problem.values(coef, scores, 0.0)
        return recorder.watch(visits, coef, scores, 0.0, at._asdict()) or at.violation <= limit

    try:
        for _ in range(max_iter):
            before = visits
            for done in visit(problem.rows, passes(problem, rng), moves, advance, ahead):
                visits = before + done
                converged = recorder.due(visits) and look(visits)
                if converged or budget.exhausted:
                    break
            converged = converged or look(visits)
            if converged or budget.exhausted:
                break
    except KeyboardInterrupt:
        budget.interrupted = True
    return recorder.finish(coef, scores, visits, ended=converged)


@kernel
def coordinate_ascent(
    draws: Ints, first: int, last: int, place: Ints, buffer: Reals, y: Floats, diagonal: Floats, lower: Floats,
    upper: Floats, coef: Floats, scores: Floats,
) -> int:  # fmt: skip
    """Dual coordinate ascent: each row's coefficient moves to its best value. Returns the draw it stopped before."""
    for k in range(first, last):
        i = draws[k]
        slope = y[i] - scores[i]
        if diagonal[i] > 0.0:
            new = max(lower[i], min(upper[i], coef[i] + slope / diagonal[i]))
        else:  # the dual is linear in this coefficient
            new = upper[i] if slope > 0.0 else lower[i]
        delta = new - coef[i]
        if delta == 0.0:  # most rows, near the optimum: they cost no row of K
            continue
        if place[i] < 0:
            return k
        coef[i] = new
        row = buffer[place[i]]
        for j in range(scores.shape[0]):
            scores[j] += delta * row[j]
    return last

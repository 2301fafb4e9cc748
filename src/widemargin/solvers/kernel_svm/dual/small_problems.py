"""Small problems of pairs of classes, solved one after the other by compiled code alone.

The steps of a problem of a hundred rows take 30 microseconds, and what surrounds them in Python ten times as long; ten
classes make 45 such problems. So the whole run of a problem, from its kernel values to its certificate, is one loop.
"""

import math
from dataclasses import dataclass

import numpy as np

from widemargin._numba import array_kernel
from widemargin._threads import in_threads
from widemargin._typing import Floats, Ints
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual.pair_steps import Variables, solve_pairs
from widemargin.solvers.kernel_svm.problem import KernelResult, best_bias, loss_and_sides, significantly_negative

__all__ = ["SmallProblemOptions", "solve"]


@dataclass(frozen=True)
class SmallProblemOptions:
    """Which problems are small, and how they are solved.

    Attributes
    ----------
    rows, all_rows : int, default=256, 2048
        Most rows of a problem and of all classes together, whose kernel matrix is computed whole. With more rows the
        steps take longer than what surrounds them.
    steps : int, default=100
        Most steps a row; a problem that needs more is left to the working-set dual, which leaves out rows that are done
        with.
    near : float, default=0.9
        Multiple of the tolerance at which the steps end, so that rounding does not leave it just missed.
    """

    rows: int = 256
    all_rows: int = 2048
    steps: int = 100
    near: float = 0.9


def solve(
    K: Floats, counts: Ints, pairs: Ints, upper: Floats, tol: float, budget: Budget, as_libsvm: bool = False,
    options: SmallProblemOptions = SmallProblemOptions(),
) -> list[KernelResult | None]:  # fmt: skip
    """Solve the dual of the SVM, with a bias, of several pairs of classes.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel values of rows that lie in the order of their classes.
    counts : ndarray of int, shape (k,)
        Rows of each class.
    pairs : ndarray of int, shape (m, 2)
        The positive and the negative class of each problem, whose rows are those of the first and then of the second.
    upper : ndarray of shape (n,)
        Upper bounds of the dual variables; 0 for a row that is held out, whose score comes with the solution.
    tol : float
        Largest violation of the optimality conditions.
    budget : Budget
        Its clock; no time is looked at.
    as_libsvm : bool, default=False
        Whether the steps are those of LIBSVM to the last, on a kernel that need not be positive semi-definite: where
        it has several stationary points, they end at the one of SVC. `n_iter` counts them.

    Returns
    -------
    list of KernelResult or None
        None where the steps did not suffice, or met negative curvature that they were not asked to go on with.
    """
    ends, sizes = np.concatenate(([0], np.cumsum(counts))), counts[pairs].sum(axis=1)
    places = np.concatenate(([0], np.cumsum(sizes)))
    coef, scores = np.zeros(places[-1]), np.empty(places[-1])
    facts = np.empty((pairs.shape[0], 6))
    floor = tol if as_libsvm else options.near * tol

    def some(first: int, last: int) -> None:
        solve_some(K, ends, pairs, places, upper, as_libsvm, floor, options.steps, first, last, coef, scores, facts)

    in_threads(pairs.shape[0], max(1, (1 << 21) // int(sizes.max() ** 2)), some)
    evaluations, seconds = K.shape[0] * (K.shape[0] + 1) // 2, budget.elapsed
    largest = float(np.abs(K.diagonal()).max())
    results: list[KernelResult | None] = []
    for number, (intercept, primal, dual, violation, flattest, taken) in enumerate(facts.tolist()):
        indefinite, steps = significantly_negative(flattest, largest), int(taken) if as_libsvm else 1
        if violation > tol or not math.isfinite(primal) or (indefinite and not as_libsvm):
            results.append(None)
            continue
        mine = slice(places[number], places[number + 1])
        looked = {"seconds": seconds, "evaluations": float(evaluations), "iteration": float(steps)}
        looked |= {"primal": primal, "dual": dual, "violation": violation}
        results.append(
            KernelResult(
                coef[mine], intercept, primal, dual, violation, Status.CONVERGED, steps, evaluations, seconds,
                (looked,), indefinite, scores[mine],
            )
        )  # fmt: skip
    return results


@array_kernel
def solve_some(
    K: Floats, ends: Ints, pairs: Ints, places: Ints, upper: Floats, as_libsvm: bool, floor: float, steps: int,
    first: int, last: int, coef: Floats, scores: Floats, facts: Floats,
) -> None:  # fmt: skip
    """`solve` of the problems in range(first, last): fill their parts of `coef` and `scores`, and their `facts`.

    These are intercept, primal value, dual value, violation, the smallest curvature met, and the number of steps.
    """
    for number in range(first, last):
        a, b = ends[pairs[number, 0]], ends[pairs[number, 1]]
        middle, q = ends[pairs[number, 0] + 1] - a, places[number + 1] - places[number]
        # Values of a problem lie together, so that its steps run over memory that the processor holds. Loops are
        # written out, because what numba makes of whole arrays takes seconds to compile.
        block, (diagonal, y, bound, low, high, gradient) = np.empty((q, q)), np.empty((6, q))
        for i in range(q):
            row = a + i if i < middle else b + i - middle
            for j in range(middle):
                block[i, j] = K[row, a + j]
            for j in range(middle, q):
                block[i, j] = K[row, b + j - middle]
            diagonal[i], bound[i] = K[row, row], upper[row]
            y[i] = gradient[i] = 1.0 if i < middle else -1.0
            low[i], high[i] = min(y[i] * bound[i], 0.0), max(y[i] * bound[i], 0.0)
        mine, at = coef[places[number] : places[number + 1]], scores[places[number] : places[number + 1]]
        taken, flattest, _, _, _ = solve_pairs(
            np.empty((0, 0)), 0.0, block, np.arange(q), q, Variables(diagonal, gradient, mine, low, high),
            np.empty((5, q)), as_libsvm, 0.0, floor, steps * q,
        )  # fmt: skip
        for i in range(q):
            at[i] = y[i] - gradient[i]
        intercept = best_bias(y, bound, at)
        loss, _, highest, lowest = loss_and_sides(y, bound, mine, at, intercept)
        square, linear = 0.0, 0.0
        for i in range(q):
            square += mine[i] * at[i]
            linear += mine[i] * y[i]
        facts[number, 0], facts[number, 4] = intercept, flattest
        facts[number, 1], facts[number, 2] = 0.5 * square + loss, linear - 0.5 * square
        facts[number, 3], facts[number, 5] = max(0.0, highest - lowest), taken

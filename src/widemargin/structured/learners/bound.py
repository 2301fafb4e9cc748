"""Proved upper bounds of the objective where the oracle's own answers prove nothing: by its relaxation.

A local search only ever finds labels, so what it sees is a lower bound of every example's structured hinge. An oracle
may offer a relaxation, `relaxed()`: more labels than there are, over which the search is exact (for pairs of labels
roof duality, `structured.oracles.roof_duality`). Its optimum is never below that of the labels themselves.
"""

import math

from widemargin._threads import in_threads
from widemargin._typing import Floats
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.learners.state import norm2
from widemargin.structured.model import Weights
from widemargin.structured.search.edge import edge

__all__ = ["hinge_bound", "proved_primal"]

_LEAST = 64  # examples that are worth a thread


def hinge_bound(problem: StructuredProblem, i: int, u: Floats, theta: Floats) -> float:
    """Upper bound of the structured hinge of example i over all labels; infinite where its oracle has no relaxation.

    Parameters
    ----------
    problem : StructuredProblem
    i : int
    u : ndarray of shape (rows, S)
        Potentials.
    theta : ndarray of shape (P,)
    """
    relax = getattr(problem.oracle(i, u, theta), "relaxed", None)
    if relax is None:
        return math.inf
    relaxation = relax()
    if problem.slack:
        return float(edge(relaxation).upper)
    answer = relaxation.free(1.0)
    return max(0.0, float(answer.h + answer.g) - 1.0)


def proved_primal(problem: StructuredProblem, weights: Weights) -> float:
    """`1/2 |w|^2 + C sum_i H_i(w)` from above, whatever the labels that a search finds.

    Returns
    -------
    float
        Infinite where the oracle offers no relaxation.
    """

    def part(first: int, last: int) -> float:
        total = 0.0
        for i in range(first, last):
            total += hinge_bound(problem, i, problem.potentials(i, weights.W), weights.theta)
            if math.isinf(total):
                break
        return total

    return 0.5 * norm2(weights) + problem.C * float(sum(in_threads(problem.n, _LEAST, part)))

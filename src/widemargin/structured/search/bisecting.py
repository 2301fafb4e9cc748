"""Bisecting search (Choi, Meshi and Srebro 2016, Algorithm 1), for comparison: `hull` finds the same labels sooner."""

import math

from widemargin.structured.oracle import FREE, Answer, Found, Oracle, declare, require
from widemargin.structured.search.best_label import MOST_QUERIES, BestLabel

__all__ = ["bisecting"]


@declare(exact=False)
def bisecting(
    oracle: Oracle,
    *,
    best: Answer | None = None,
    hint: float | None = None,
    eps: float = 1e-9,
    ratio: float = 1.0,
    max_queries: int = MOST_QUERIES,
) -> Found:
    """Halve the range of lam, with the ranges of h and g from Lemma 3; heuristic (Theorem 1).

    It stops when a range is empty, when both ends of the range of lam gave the same label (appendix D.1), when the
    bound of Lemma 5 is met (appendix D.2), or when the range of lam is a point. The first upper end is found by
    doubling: the printed midpoint of an unbounded range is infinite.

    Parameters
    ----------
    oracle : Oracle
        With "free".
    best : Answer, default=None
        A label known already.
    hint : float, default=None
        First lam; None: 1 / largest g.
    eps, ratio, max_queries
        As in `hull`.

    Raises
    ------
    CapabilityError
        If the oracle has no free questions.
    """
    require(oracle, (FREE,), "bisecting")
    record = BestLabel(best)
    if oracle.largest_loss <= 0.0:
        record.upper = 0.0
        return record.found(eps)
    h_low, h_high, g_low, g_high = 0.0, math.inf, 0.0, math.inf
    low, high = 0.0, math.inf
    at_low: Answer | None = None
    at_high: Answer | None = None
    lam = hint or 1.0 / oracle.largest_loss
    while record.queries < max_queries:
        answer = oracle.free(lam)
        record.line(lam, answer)
        h_low, h_high = max(h_low, min(answer.h, lam * answer.g)), min(h_high, max(answer.h, lam * answer.g))
        g_low, g_high = max(g_low, min(answer.g, answer.h / lam)), min(g_high, max(answer.g, answer.h / lam))
        if answer.g <= answer.h / lam:
            low, at_low = lam, answer
            if lam * oracle.smallest_loss > answer.h:
                break  # only labels without loss remain
        else:
            high, at_high = lam, answer
        if h_low > h_high * (1.0 + eps) or g_low > g_high * (1.0 + eps):
            break
        if at_low is not None and at_high is not None and at_low[1:] == at_high[1:]:
            break
        if record.best >= ratio * record.upper or high <= low * (1.0 + eps):
            break
        lam = 2.0 * lam if high == math.inf else 0.5 * (low + high)
    return record.found(eps)

"""Binary search on the convex bound of Lemma 1 (Choi, Meshi and Srebro 2016, section 4.1), for comparison."""

import math

from widemargin.structured.oracle import FREE, Answer, Found, Oracle, declare, require
from widemargin.structured.search.best_label import MOST_QUERIES, BestLabel, least_loss

__all__ = ["binary"]


@declare(exact=False)
def binary(
    oracle: Oracle,
    *,
    best: Answer | None = None,
    hint: float | None = None,
    eps: float = 1e-9,
    ratio: float = 1.0,
    max_queries: int = MOST_QUERIES,
) -> Found:
    """Minimise `F(l) = 1/4 max (h/l + l g)^2` over l, and keep the best label on the way; heuristic (Theorem 1).

    In `lam = l^2` the bound is `K(lam)^2 / (4 lam)` and falls where the answer has `h > lam g`. Its minimum lies
    between `1 / (2 largest g)` (below, `K >= 1` forces h > lam g) and `largest h / smallest g`; the range is halved in
    log lam.

    Parameters
    ----------
    oracle : Oracle
        With "free".
    best : Answer, default=None
        A label known already.
    hint : float, default=None
        First lam, if it lies in the range.
    eps : float, default=1e-9
        Relative width at which the range of lam counts as a point.
    ratio, max_queries
        As in `hull`.

    Raises
    ------
    CapabilityError
        If the oracle has no free questions.
    """
    require(oracle, (FREE,), "binary")
    record = BestLabel(best)
    top = oracle.free(0.0)
    record.queries += 1
    record.meet(top)
    if top.h <= 0.0 or oracle.largest_loss <= 0.0:
        record.upper = 0.0
        return record.found(eps)
    low, high = 0.5 / oracle.largest_loss, max(top.h / least_loss(oracle), 0.5 / oracle.largest_loss)
    at_low: Answer | None = None
    at_high: Answer | None = None
    lam = hint if hint is not None and low < hint < high else math.sqrt(low * high)
    while record.queries < max_queries:
        answer = oracle.free(lam)
        record.line(lam, answer)
        if answer.h >= lam * answer.g:
            low, at_low = lam, answer
        else:
            high, at_high = lam, answer
        same = at_low is not None and at_high is not None and at_low[1:] == at_high[1:]
        if same or record.best >= ratio * record.upper or high <= low * (1.0 + eps):
            break
        lam = math.sqrt(low * high)
    return record.found(eps)

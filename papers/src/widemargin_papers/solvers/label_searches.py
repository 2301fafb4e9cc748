"""Searches for the most violating label that `hull` and the exact searches are compared with.

Binary and bisecting search (Choi, Meshi and Srebro 2016, section 4.1 and Algorithm 1), and the search of Sarawagi and
Gupta (2008) for a violated constraint, which belongs to the n-slack cutting plane. `StructuralSVM(search="bisecting")`,
`"binary"` and `"sarawagi-gupta"` find them here.
"""

import math

from widemargin.structured.oracle import FREE, Answer, Found, Oracle, Search, declare, require
from widemargin.structured.search.best_label import MOST_QUERIES, BestLabel

_LEAST_SLACK = 1e-6
"""Below that lam would run off to 0."""


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
    low, high = 0.5 / oracle.largest_loss, max(top.h / _least_loss(oracle), 0.5 / oracle.largest_loss)
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


@declare(exact=False, needs_slack=True)
def sarawagi_gupta(
    oracle: Oracle,
    *,
    best: Answer | None = None,
    hint: float | None = None,
    eps: float = 1e-6,
    ratio: float = 1.0,
    max_queries: int = 60,
    slack: float = 0.0,
) -> Found:
    """Golden section over lam for the smallest `F(lam) = K(lam) - 2 sqrt(slack lam)`; heuristic (Theorem 1).

    It looks for the constraint `h - slack / g <= 0` that is violated most, so it needs the slack of the example and
    belongs to the n-slack cutting plane. F is convex, and its minimum lies in
    `[slack / largest g^2, slack / smallest g^2]`; the section is taken in log lam.

    Parameters
    ----------
    oracle : Oracle
        With "free".
    best : Answer, default=None
        A label known already.
    hint : float, default=None
        Not used: the method starts from its range.
    eps : float, default=1e-6
        Relative width at which the range of lam counts as a point; at least 1e-6.
    ratio : float, default=1.0
        Not used: the method knows no bound of the optimum.
    max_queries : int, default=60
        At most 60.
    slack : float, default=0.0
        xi of the example.

    Returns
    -------
    Found
        The label with the largest `h - slack / g` of those met; violated if `h g > slack`.

    Raises
    ------
    CapabilityError
        If the oracle has no free questions.
    """
    require(oracle, (FREE,), "sarawagi-gupta")
    record = BestLabel()
    # F is flat at its minimum: a finer range, or more questions, finds no other label.
    eps, max_queries = max(eps, 1e-6), min(max_queries, 60)
    largest, smallest = oracle.largest_loss, _least_loss(oracle)
    if largest <= 0.0:
        record.upper = 0.0
        return record.found(eps)
    slack, golden = max(slack, _LEAST_SLACK), 0.5 * (math.sqrt(5.0) - 1.0)
    met: list[Answer] = [] if best is None else [best]

    def bound(log_lam: float) -> float:
        lam = math.exp(log_lam)
        answer = oracle.free(lam)
        met.append(answer)
        return record.line(lam, answer) - 2.0 * math.sqrt(slack * lam)

    low, high = math.log(slack / (largest * largest)), math.log(slack / (smallest * smallest))
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = bound(left), bound(right)
    while high - low > eps and record.queries < max_queries:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = bound(right)

    kept = BestLabel()
    useful = [answer for answer in met if answer.h > 0.0 and answer.g > 0.0]
    if useful:
        kept.meet(max(useful, key=lambda answer: answer.h - slack / answer.g))
    kept.queries, kept.upper = record.queries, max(record.upper, record.best)
    return kept.found(eps)


SEARCHES: dict[str, Search] = {"bisecting": bisecting, "binary": binary, "sarawagi-gupta": sarawagi_gupta}
"""By the names that estimators take."""


def _least_loss(oracle: Oracle) -> float:
    """The smallest positive loss that a range of lam has to cover; relaxed labels have no least one."""
    # Fractional labels have losses as small as one likes. Those below a millionth of the largest are worth next to
    # nothing, and leaving them out keeps the range of lam finite.
    return max(oracle.smallest_loss, 1e-6 * oracle.largest_loss)

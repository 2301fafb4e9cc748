"""The search of Sarawagi and Gupta (2008) for a violated constraint, for comparison and the n-slack cutting plane."""

import math

from widemargin.structured.oracle import FREE, Answer, Found, Oracle, declare, require
from widemargin.structured.search.best_label import BestLabel, least_loss

__all__ = ["sarawagi_gupta"]

_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_FINEST, _MOST = 1e-6, 60
_LEAST = 1e-6  # slack below which lam would run off to 0


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
    eps, max_queries = max(eps, _FINEST), min(max_queries, _MOST)
    largest, smallest = oracle.largest_loss, least_loss(oracle)
    if largest <= 0.0:
        record.upper = 0.0
        return record.found(eps)
    slack = max(slack, _LEAST)
    met: list[Answer] = [] if best is None else [best]

    def bound(log_lam: float) -> float:
        lam = math.exp(log_lam)
        answer = oracle.free(lam)
        met.append(answer)
        return record.line(lam, answer) - 2.0 * math.sqrt(slack * lam)

    low, high = math.log(slack / (largest * largest)), math.log(slack / (smallest * smallest))
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = bound(left), bound(right)
    while high - low > eps and record.queries < max_queries:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = bound(right)

    kept = BestLabel()
    useful = [answer for answer in met if answer.h > 0.0 and answer.g > 0.0]
    if useful:
        kept.meet(max(useful, key=lambda answer: answer.h - slack / answer.g))
    kept.queries, kept.upper = record.queries, max(record.upper, record.best)
    return kept.found(eps)

"""Exact searches through the levels of an integer loss (spec 5.7; for chains Bauer, Müller and Kloft 2014)."""

import math

import numpy as np

from widemargin.structured.oracle import FREE, LEVEL, LEVELS, Answer, Found, Oracle, declare, require
from widemargin.structured.search.best_label import MOST_QUERIES, BestLabel
from widemargin.structured.search.hull import climb

__all__ = ["all_losses", "direct", "loss_by_loss"]


@declare(exact=True)
def direct(oracle: Oracle, *, eps: float = 1e-9, **unused: object) -> Found:
    """Ask the oracle itself for the largest `h g`."""
    require(oracle, ("direct",), "direct")
    record = BestLabel()
    record.meet(oracle.direct())
    record.queries, record.upper = 1, record.best
    return record.found(eps)


@declare(exact=True)
def all_losses(oracle: Oracle, *, eps: float = 1e-9, **unused: object) -> Found:
    """All levels at once: the largest `c H[c]`, then the label of that level."""
    require(oracle, (LEVELS, LEVEL), "levels")
    record = BestLabel()
    H = oracle.levels()
    record.queries, record.upper = 1, 0.0
    losses = np.arange(H.shape[0])
    reached = np.flatnonzero((losses > 0) & (H > 0.0))  # leaves out -inf too
    if reached.shape[0]:
        c = int(reached[np.argmax(H[reached] * losses[reached])])
        answer = oracle.level(c)
        record.queries, record.upper = 2, float(c * H[c])
        if answer is not None:
            record.meet(answer)
    return record.found(eps)


@declare(exact=True)
def loss_by_loss(
    oracle: Oracle,
    *,
    best: Answer | None = None,
    hint: float | None = None,
    eps: float = 1e-9,
    ratio: float = 1.0,
    max_queries: int = MOST_QUERIES,
) -> Found:
    """Hull search, then single levels from the most promising one down until none can win.

    Every line `h + lam g <= K` of the hull search bounds every level: `H(c) <= K - lam c`.

    Parameters
    ----------
    oracle : Oracle
        With "free" and "level"; its losses are integers.
    best, hint, eps, ratio, max_queries
        As in `hull`.

    Raises
    ------
    CapabilityError
        If the oracle cannot answer for one level.
    """
    require(oracle, (FREE, LEVEL), "level")
    rounding = 1e-15  # relative error of h + lam g
    record, lines = BestLabel(best), list[tuple[float, float, Answer]]()
    climb(oracle, record, hint=hint, eps=eps, ratio=ratio, max_queries=max_queries, lines=lines)
    losses = np.arange(1, round(oracle.largest_loss) + 1, dtype=float)
    bound, open_levels = np.full(losses.shape[0], math.inf), np.ones(losses.shape[0], dtype=bool)
    # Every line of the hull search bounds every loss, by its height there.
    for lam, K, _ in lines:
        np.minimum(bound, K * (1.0 + rounding) - lam * losses, out=bound)
    for _, K, answer in lines:
        if answer.g >= 1.0 and eps * answer.h >= rounding * K:
            c = round(answer.g) - 1  # the best label of its level, as h is not lost in the rounding of h + lam g
            bound[c], open_levels[c] = answer.h, False

    while open_levels.any():
        # The loss with the largest possible product is asked for next; when that is not above the best label, all are
        # settled.
        promise = np.where(open_levels, losses * bound, -math.inf)
        c = int(promise.argmax())
        if promise[c] <= record.best * (1.0 + eps) or record.queries >= max_queries:
            break
        best_of_loss = oracle.level(c + 1)
        record.queries += 1
        open_levels[c] = False
        bound[c] = -math.inf if best_of_loss is None else best_of_loss.h
        if best_of_loss is not None:
            record.meet(best_of_loss)
    record.upper = min(record.upper, max(0.0, float((losses * bound).max(initial=0.0))))
    return record.found(eps)

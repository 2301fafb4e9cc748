"""Hull search and edge search, from free questions alone, and exact searches through the levels of an integer loss.

Hull and edge search find the vertices of the upper right hull around the best point.

Each answer of `free(lam)` is a vertex. Two vertices on either side of the diagonal `h = lam g` give the next lam, the
slope of the line through them; when the oracle finds nothing above that line it is the edge of the hull that carries
the optimum over the hull. It visits the vertices that bisecting and golden section search for, in far fewer questions.
Exact over the hull only: labels inside it may be better (Theorem 1).

The points of a relaxation (fractional labels) fill a polygon, so the optimum over them lies on an edge of it: the edge
search finds that edge, and mixes its ends. It is exact.

Of integer losses every level may be asked for its best label, all at once or from the most promising one down until
none can win (for chains: Bauer, Müller and Kloft 2014).
"""

import math
from typing import NamedTuple

import numpy as np

from widemargin.exceptions import OracleError
from widemargin.structured.oracle import CONVEX, FREE, LEVEL, LEVELS, Answer, Found, Oracle, declare, require
from widemargin.structured.search.best_label import MOST_QUERIES, BestLabel


@declare(exact=False)
def hull(
    oracle: Oracle,
    *,
    best: Answer | None = None,
    hint: float | None = None,
    eps: float = 1e-9,
    ratio: float = 1.0,
    max_queries: int = MOST_QUERIES,
) -> Found:
    """The best label on the hull; exact only where the bound `min K^2 / (4 lam)` says so.

    Parameters
    ----------
    oracle : Oracle
        With "free".
    best : Answer, default=None
        A label known already.
    hint : float, default=None
        First lam; None: 1 / largest g.
    eps : float, default=1e-9
        Relative difference that counts as none.
    ratio : float, default=1.0
        Stop when the best label has this share of the upper bound.

    Raises
    ------
    CapabilityError
        If the oracle has no free questions.
    """
    require(oracle, (FREE,), "hull")
    record = BestLabel(best)
    climb(oracle, record, hint=hint, eps=eps, ratio=ratio, max_queries=max_queries)
    return record.found(eps)


def climb(
    oracle: Oracle,
    record: BestLabel,
    *,
    hint: float | None,
    eps: float,
    ratio: float,
    max_queries: int,
    lines: list[tuple[float, float, Answer]] | None = None,
    fractional: bool = False,
) -> tuple[Answer | None, Answer | None]:
    """Find the edge; `record` gets labels and bound, `lines` every (lam, K, answer).

    `fractional` labels mix whole ones, so their loss may be less than the oracle's `smallest_loss`.

    Returns
    -------
    A, B : Answer or None
        Ends of the hull's edge that carries the optimum: `A.h >= B.h`, `A.g <= B.g`; None where a side has no label.
    """
    A: Answer | None = None
    B: Answer | None = None
    same = 1e-12  # relative difference that is rounding
    largest, smallest = oracle.largest_loss, oracle.smallest_loss
    if largest <= 0.0:
        record.upper = 0.0
        return None, None
    lam = hint or 1.0 / largest
    while record.queries < max_queries:
        answer = oracle.free(lam)
        K = record.line(lam, answer)
        if lines is not None:
            lines.append((lam, K, answer))
        if record.best >= ratio * record.upper:
            break
        if A is not None and B is not None and (A.h + lam * A.g) * (1.0 + same) >= K:
            break  # nothing above the line: A and B are neighbours
        # The best point of the line is at h = lam g: the answer lies on one side of it, and the optimum over the hull
        # is between the last answers of the two sides.
        if answer.h >= lam * answer.g:
            A = answer
        else:
            B = answer
        # Steps by a factor of 4 find the other side in a few questions, wherever it is.
        if A is None:
            lam /= 4.0
            if record.upper <= same * largest * largest:
                break  # not even h = 1: no label is near winning
        elif B is None:
            if fractional and record.upper <= same * answer.h * largest:
                break
            if not fractional and lam * smallest > answer.h:
                record.upper = record.best  # every label with a loss has h < 0
                break
            lam *= 4.0
        else:
            if B.g - A.g <= eps * B.g or A.h - B.h <= 0.0:
                break  # one vertex
            lam = (A.h - B.h) / (B.g - A.g)
    return A, B


class Mixture(NamedTuple):
    """The fractional label `(1 - share) first + share second`; joint features and loss are linear in it."""

    first: object
    second: object
    share: float


@declare(exact=True)
def edge(
    oracle: Oracle,
    *,
    best: Answer | None = None,
    hint: float | None = None,
    eps: float = 1e-9,
    ratio: float = 1.0,
    max_queries: int = MOST_QUERIES,
) -> Found:
    """The maximiser of `h g` over a relaxation; its label may be a `Mixture`.

    Parameters
    ----------
    oracle : Oracle
        With "free" and "convex".
    best, hint, eps, ratio, max_queries
        As in `hull`.

    Raises
    ------
    CapabilityError
        If the labels of the oracle are not those of a relaxation.
    """
    require(oracle, (FREE, CONVEX), "edge")
    record = BestLabel(best)
    A, B = climb(oracle, record, hint=hint, eps=eps, ratio=ratio, max_queries=max_queries, fractional=True)
    if A is not None and B is not None:
        record.meet(best_between(A, B))
    return record.found(max(eps, 1e-9))


def best_between(A: Answer, B: Answer) -> Answer:
    """The best point of the segment from A to B."""
    dh, dg = B.h - A.h, B.g - A.g
    if dh >= 0.0 or dg <= 0.0:
        return B if B.h * B.g > A.h * A.g else A
    # h g along the segment is a parabola in the share; its top, kept within the segment.
    share = min(max(-(A.h * dg + A.g * dh) / (2.0 * dh * dg), 0.0), 1.0)
    if share in (0.0, 1.0):
        return B if share else A
    return Answer(Mixture(A.y, B.y, share), A.h + share * dh, A.g + share * dg)


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
    """All levels at once: the largest `c H[c]`, then the label of that level.

    Raises
    ------
    OracleError
        If a level is no number, or the label of a level is not as good as all levels say.
    """
    require(oracle, (LEVELS, LEVEL), "levels")
    record = BestLabel()
    H = np.asarray(oracle.levels(), dtype=np.float64)
    if np.isnan(H).any() or np.isposinf(H).any():
        raise OracleError(f"the oracle's levels are {H}; give the largest h of every loss, or -inf.")
    record.queries, record.upper = 1, 0.0
    losses = np.arange(H.shape[0])
    reached = np.flatnonzero((losses > 0) & (H > 0.0))  # leaves out -inf too
    if reached.shape[0]:
        c = int(reached[np.argmax(H[reached] * losses[reached])])
        answer = oracle.level(c)
        record.queries, record.upper = 2, float(c * H[c])
        if answer is not None:
            record.meet(answer)
        if not abs(record.best - record.upper) <= 1e-6 * (1.0 + record.upper):
            raise OracleError(
                f"the oracle's levels say that the best label of loss {c} has h = {H[c]:.9g}, but level({c}) is "
                f"{answer}."
            )
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

"""Exact search over a relaxation: the best point of the hull edge (spec 5.6).

The points of a relaxation (fractional labels) fill a polygon, so the optimum lies on an edge of it, and hull search
finds that edge. The label is a mixture of the two ends.
"""

from typing import Any, NamedTuple

from widemargin.structured.oracle import FREE, Answer, Found, Oracle, declare, require
from widemargin.structured.search.best_label import MOST_QUERIES, BestLabel
from widemargin.structured.search.hull import climb

__all__ = ["Mixture", "edge"]


class Mixture(NamedTuple):
    """The fractional label `(1 - share) first + share second`; joint features and loss are linear in it."""

    first: Any
    second: Any
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
    require(oracle, (FREE, "convex"), "edge")
    record = BestLabel(best)
    A, B = climb(oracle, record, hint=hint, eps=eps, ratio=ratio, max_queries=max_queries, fractional=True)
    if A is not None and B is not None:
        record.meet(_between(A, B))
    return record.found(max(eps, 1e-9))


def _between(A: Answer, B: Answer) -> Answer:
    """The best point of the segment from A to B."""
    dh, dg = B.h - A.h, B.g - A.g
    if dh >= 0.0 or dg <= 0.0:
        return B if B.h * B.g > A.h * A.g else A
    share = min(max(-(A.h * dg + A.g * dh) / (2.0 * dh * dg), 0.0), 1.0)
    if share in (0.0, 1.0):
        return B if share else A
    return Answer(Mixture(A.y, B.y, share), A.h + share * dh, A.g + share * dg)

"""Angular search: exact, by cones of the plane (Choi, Meshi and Srebro 2016, section 4.5 and Algorithm 2, corrected).

A cone `beta <= g / h <= alpha` keeps an upper bound U of the values inside. The cone of the largest U is asked for its
label with the largest `h + lam g = K`. Every label of the cone lies below that line, so those better than the best one
so far lie between the two points where the line crosses the hyperbola `h g = best`: the cone shrinks to their slopes,
splits at the line's best point (slope 1/lam), and both halves inherit `K^2 / (4 lam)` as bound.

Unlike the printed algorithm: an answer on its own hyperbola closes its cone, not the search; cones are closed sets, and
it is the factor `1 + eps` that keeps a label from coming back; cones without hope are dropped; the root is bounded.
"""

import heapq
import math

from widemargin.structured.oracle import CONE, FREE, Answer, Found, Oracle, declare, require
from widemargin.structured.search.best_label import MOST_QUERIES, BestLabel


@declare(exact=True)
def angular(
    oracle: Oracle,
    *,
    best: Answer | None = None,
    hint: float | None = None,
    eps: float = 1e-9,
    ratio: float = 1.0,
    max_queries: int = MOST_QUERIES,
) -> Found:
    """The label with the largest `h g`, exact up to the factor `1 + eps`.

    Parameters
    ----------
    oracle : Oracle
        With "free" and "cone".
    best : Answer, default=None
        A label known already (from a cache): everything below its value is left out.
    hint : float, default=None
        First lam; None: largest h / largest g.
    eps : float, default=1e-9
        Must exceed the relative error of the oracle's cone: 1e-6 for linear programmes.
    ratio : float, default=1.0
        Stop when the best label has this share of the upper bound; the paper uses 0.999.

    Returns
    -------
    Found
        `upper` bounds the value of every label, also of those in cones not looked into.

    Raises
    ------
    CapabilityError
        If the oracle has no cones.
    """
    require(oracle, (FREE, CONE), "angular")
    record = BestLabel(best)
    top = oracle.free(0.0)
    record.queries += 1
    record.meet(top)
    H, largest = top.h, oracle.largest_loss
    if H <= 0.0 or largest <= 0.0:
        record.upper = 0.0
        return record.found(eps)
    # Values below this count as zero: fractional labels have no smallest loss, and the root cone needs an end.
    nothing = 1e-9 * H * largest
    floor = max(nothing, record.best)  # labels outside the root cone are worth at most this
    alpha, beta = largest * largest / floor, max(oracle.smallest_loss / H, floor / (H * H))
    heap = [(-H * largest, alpha, beta)] if beta <= alpha else []
    lam = min(max(hint or H / largest, 1.0 / alpha), 1.0 / beta)

    while heap:
        U = -heap[0][0]
        hopeless = max(record.best * (1.0 + eps), nothing) >= U
        if hopeless or record.best >= ratio * U or record.queries >= max_queries:
            break
        _, alpha, beta = heapq.heappop(heap)
        # After the first question lam is the geometric mean of the slopes: the line then bounds both ends of the cone
        # alike.
        if record.queries > 1:
            lam = 1.0 / math.sqrt(alpha * beta)
        answer = oracle.cone(lam, alpha, beta)
        record.queries += 1
        if answer is None:
            continue
        record.meet(answer)
        K = answer.h + lam * answer.g
        U = min(U, K * K / (4.0 * lam))
        # The line h + lam g = K meets the hyperbola h g = t where h solves h^2 - K h + lam t = 0; without one the
        # whole cone is below t, the best value so far.
        t = record.best * (1.0 + eps)
        D = K * K - 4.0 * lam * t
        if K <= 0.0 or D <= 0.0:
            continue
        root = math.sqrt(D)
        h1, h2 = 0.5 * (K + root), 2.0 * lam * t / (K + root)
        low = max(beta, (K - h1) / (lam * h1))
        high = min(alpha, h1 / (lam * h2) if h2 > 0.0 else math.inf)
        # What is left is cut at the line's best point, of slope 1 / lam.
        middle = 1.0 / lam
        if high >= max(middle, low):
            heapq.heappush(heap, (-U, high, max(middle, low)))
        if min(middle, high) >= low:
            heapq.heappush(heap, (-U, min(middle, high), low))

    open_bound = -heap[0][0] if heap else 0.0
    # Closed cones may hide labels up to best (1 + eps).
    record.upper = max(open_bound, record.best * (1.0 + eps), floor)
    settled = open_bound <= max(record.best * (1.0 + eps), nothing)
    return record.found(eps, exact=settled)

"""Roof duality (QPBO): the local-polytope relaxation of a pairwise 0/1 problem as one cut on twice the labels.

Maximise `F(z) = v . z + sum_lm T_lm z_l z_m`, T of any sign (Boros and Hammer 2002; Kolmogorov and Rother 2007). Node l
stands for z_l = 1 on the source's side, node k + l for its complement. Written symmetrically,

    T > 0:   T z z' =  T/2 (z + z') - T/2 |z - z'|                     arcs l - m and l' - m',   T/4 each way
    T < 0:   T z z' =  T/2 (z + z') + |T|/2 - |T|/2 |z - (1 - z')|     arcs l - m' and l' - m, |T|/4 each way
"""

from typing import Any

from widemargin._numba import kernel
from widemargin.structured.oracles.max_flow import add_arc

__all__ = ["build", "flip_coordinates", "read", "shift", "unflip"]


@kernel
def flip_coordinates(u: Any, theta: Any, truth: Any, pairs: Any, v: Any, t: Any) -> None:
    """Fill v and t with `f(y) - f(truth) = v . z + sum_e t_e z_p z_q`, `z = y xor truth`."""
    k = truth.shape[0]
    for q in range(k):
        v[q] = u[0, q]
    for e in range(theta.shape[0]):
        p, q = pairs[e, 0], pairs[e, 1]
        v[p] += theta[e] * truth[q]
        v[q] += theta[e] * truth[p]
        t[e] = theta[e] if truth[p] == truth[q] else -theta[e]
    for q in range(k):
        if truth[q]:
            v[q] = -v[q]


@kernel
def _add_unary(q: int, gain: float, cap: Any) -> float:
    """Add `gain z_q` to what is maximised, on a residual graph or a new one; returns the change of the constant."""
    e = 8 * q
    if gain > 0.0:
        cap[e] += gain / 2.0  # source -> q
        cap[e + 6] += gain / 2.0  # q' -> sink
        return -gain
    cap[e + 2] -= gain / 2.0  # q -> sink
    cap[e + 4] -= gain / 2.0  # source -> q'
    return 0.0


@kernel
def build(v: Any, t: Any, pairs: Any, benefit: Any, first: Any, after: Any, head: Any, cap: Any) -> float:
    """The graph of the pairs; arcs of the terminals come first (8 a label: see `_add_unary`). Returns the constant.

    Parameters
    ----------
    v : array of shape (k,)
    t : array of shape (P,)
    pairs : int array of shape (P, 2)
    benefit : array of shape (k,)
        Scratch.
    first : int array of shape (2 k + 2,)
    after, head, cap : arrays of shape (8 k + 4 P,)
        Filled.
    """
    k = v.shape[0]
    source, sink = 2 * k, 2 * k + 1
    for node in range(2 * k + 2):
        first[node] = -1
    e = 0
    for q in range(k):
        e = add_arc(e, source, q, 0.0, 0.0, first, after, head, cap)
        e = add_arc(e, q, sink, 0.0, 0.0, first, after, head, cap)
        e = add_arc(e, source, k + q, 0.0, 0.0, first, after, head, cap)
        e = add_arc(e, k + q, sink, 0.0, 0.0, first, after, head, cap)
    constant = 0.0
    for q in range(k):
        benefit[q] = v[q]
    for i in range(t.shape[0]):
        p, q = pairs[i, 0], pairs[i, 1]
        quarter = abs(t[i]) / 4.0
        benefit[p] += t[i] / 2.0
        benefit[q] += t[i] / 2.0
        if t[i] > 0.0:
            e = add_arc(e, p, q, quarter, quarter, first, after, head, cap)
            e = add_arc(e, k + p, k + q, quarter, quarter, first, after, head, cap)
        else:
            constant -= 2.0 * quarter
            e = add_arc(e, p, k + q, quarter, quarter, first, after, head, cap)
            e = add_arc(e, k + p, q, quarter, quarter, first, after, head, cap)
    for q in range(k):
        constant += _add_unary(q, benefit[q], cap)
    return constant


@kernel
def read(v: Any, t: Any, pairs: Any, depth: Any, mu: Any, pair_mu: Any) -> float:
    """The half-integral maximiser from the least cut; returns F of it.

    Parameters
    ----------
    v, t, pairs
        As in `build`.
    depth : int array of shape (2 k + 2,)
        From `max_flow.augment`.
    mu : array of shape (k,), pair_mu : array of shape (P,)
        Filled.
    """
    k = v.shape[0]
    value = 0.0
    for q in range(k):
        one, zero = depth[q] >= 0, depth[k + q] >= 0
        mu[q] = 0.5 if one == zero else (1.0 if one else 0.0)
        value += v[q] * mu[q]
    for i in range(t.shape[0]):
        a, b = mu[pairs[i, 0]], mu[pairs[i, 1]]
        pair_mu[i] = min(a, b) if t[i] > 0.0 else max(0.0, a + b - 1.0)
        value += t[i] * pair_mu[i]
    return value


@kernel
def shift(change: float, weight: Any, cap: Any) -> float:
    """Add `change` times the loss to what is maximised, on the residual graph; returns the change of the constant."""
    constant = 0.0
    for q in range(weight.shape[0]):
        constant += _add_unary(q, change * weight[q], cap)
    return constant


@kernel
def unflip(mu: Any, pair_mu: Any, truth: Any, pairs: Any) -> None:
    """Turn means in flip coordinates into means of the labels and of their products, in place."""
    for e in range(pair_mu.shape[0]):
        p, q = pairs[e, 0], pairs[e, 1]
        if truth[p] and truth[q]:
            pair_mu[e] = 1.0 - mu[p] - mu[q] + pair_mu[e]
        elif truth[p]:
            pair_mu[e] = mu[q] - pair_mu[e]
        elif truth[q]:
            pair_mu[e] = mu[p] - pair_mu[e]
    for q in range(truth.shape[0]):
        if truth[q]:
            mu[q] = 1.0 - mu[q]

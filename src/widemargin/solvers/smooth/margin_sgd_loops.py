"""Compiled stochastic gradient steps on `lam/2 |w|^2 + mean phi(y_i (<x_i, w> + b))` in a ball, b fixed (spec 4).

    draw i;    w <- (1 - 1/t) w - phi'(m_i) y_i x_i / (lam t);    w <- w min(1, radius / |w|)

The iterate is `w = scale v`, so that shrinking it is one multiplication, and the weighted sum over all steps is
`sum_t t w_t = total v - u` with `total = sum_t t scale_t`: a change of v by delta x_i adds `total delta x_i` to u. What
row i adds is summed up as one number, `pulls_i`, and its features are looked at when the sum is asked for:
`u + sum_i pulls_i x_i` takes the place of u.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel
from widemargin.losses.margin import psi

__all__ = ["SCALE", "SMALL", "SQUARE", "STEPS", "TOTAL", "WEIGHT", "csr_pass", "dense_pass", "fold"]

SCALE, TOTAL, WEIGHT, SQUARE, STEPS = 0, 1, 2, 3, 4
"""Places in `now`: scale, total, the sum of the t, |w|^2, and the number of steps t."""

SMALL = 1e-9
"""Below that a scale is folded into v."""


@kernel
def advance(kind: int, level: float, s: float, lam: float, radius: float, b: float, y: float, score: float,
            norm2: float, t: float, scale: float, square: float) -> tuple[float, float, float]:  # fmt: skip
    """Step t: shrink, and say what to add to v along x_i, with the new scale and |w|^2; `score = <w, x_i>` before."""
    longest, shrink = s / (lam * t), 1.0 - 1.0 / t  # these divisions need not wait for the score
    scale = scale * shrink if t > 1.0 else 1.0  # at the first step w is 0
    inverse = 1.0 / scale
    step = y * longest * psi(kind, (level - y * (score + b)) * (1.0 / s))
    square = max(0.0, shrink * (shrink * square + 2.0 * step * score) + step * step * norm2)
    delta = step * inverse
    if square > radius * radius:
        scale *= radius / np.sqrt(square)
        square = radius * radius
    return delta, scale, square


@kernel
def fold(v: Any, u: Any, scale: float, total: float) -> tuple[float, float]:
    """Make scale 1 and total 0 again, before scale has become so small that digits would be lost."""
    for k in range(v.shape[0]):
        u[k] -= total * v[k]
        v[k] *= scale
    return 1.0, 0.0


@kernel
def csr_pass(
    draws: Any, data: Any, indices: Any, indptr: Any, y: Any, norms2: Any, kind: int, level: float, s: float,
    lam: float, radius: float, b: float, averaged: bool, pulls: Any, v: Any, u: Any, now: Any,
) -> None:  # fmt: skip
    """Steps on the CSR rows `draws`."""
    scale, total, weight, square, t = now[SCALE], now[TOTAL], now[WEIGHT], now[SQUARE], now[STEPS]
    for i in draws:
        first, last = indptr[i], indptr[i + 1]
        even = odd = 0.0  # two sums side by side: an addition waits for the one before
        for k in range(first + 1, last, 2):
            even += data[k - 1] * v[indices[k - 1]]
            odd += data[k] * v[indices[k]]
        if (last - first) % 2 == 1:
            even += data[last - 1] * v[indices[last - 1]]
        t += 1.0
        score = scale * (even + odd)
        delta, scale, square = advance(kind, level, s, lam, radius, b, y[i], score, norms2[i], t, scale, square)
        if averaged:
            pulls[i] += total * delta
            total += t * scale
            weight += t
        for k in range(first, last):
            v[indices[k]] += delta * data[k]
        if scale < SMALL:
            scale, total = fold(v, u, scale, total)
    now[SCALE], now[TOTAL], now[WEIGHT], now[SQUARE], now[STEPS] = scale, total, weight, square, t


@kernel
def dense_pass(
    draws: Any, X: Any, y: Any, norms2: Any, kind: int, level: float, s: float, lam: float, radius: float, b: float,
    averaged: bool, pulls: Any, v: Any, u: Any, now: Any,
) -> None:  # fmt: skip
    """Steps on the dense rows `draws`."""
    d = X.shape[1]
    scale, total, weight, square, t = now[SCALE], now[TOTAL], now[WEIGHT], now[SQUARE], now[STEPS]
    for i in draws:
        s0 = s1 = s2 = s3 = 0.0
        k = 0
        while k + 3 < d:
            s0 += X[i, k] * v[k]
            s1 += X[i, k + 1] * v[k + 1]
            s2 += X[i, k + 2] * v[k + 2]
            s3 += X[i, k + 3] * v[k + 3]
            k += 4
        while k < d:
            s0 += X[i, k] * v[k]
            k += 1
        t += 1.0
        score = scale * ((s0 + s1) + (s2 + s3))
        delta, scale, square = advance(kind, level, s, lam, radius, b, y[i], score, norms2[i], t, scale, square)
        if averaged:
            pulls[i] += total * delta
            total += t * scale
            weight += t
        for k in range(d):
            v[k] += delta * X[i, k]
        if scale < SMALL:
            scale, total = fold(v, u, scale, total)
    now[SCALE], now[TOTAL], now[WEIGHT], now[SQUARE], now[STEPS] = scale, total, weight, square, t

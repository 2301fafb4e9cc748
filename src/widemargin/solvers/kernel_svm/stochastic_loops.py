"""Compiled steps of the stochastic kernel methods: every step looks at one row, and changes w where its margin asks.

The iterate is `w = scale sum_i v_i phi(x_i)` with the scores `scale V`, `V = K v`: shrinking w is one multiplication.
Its weighted sum over the steps is kept the same way: `sum_t c_t w_t = total v - u`, where `total = sum_t c_t scale_t`
and a change of v by delta adds `total delta` to u. `U = K u`.

A step that needs a row of K which is not at hand (`place[i] < 0`) ends the call before it.
"""

from typing import Any

import numpy as np

from widemargin._numba import kernel

__all__ = ["SCALE", "SQUARE", "STEPS", "TOTAL", "WEIGHT", "coordinate_ascent", "norm_ball", "pegasos", "perceptron"]

SCALE, TOTAL, WEIGHT, SQUARE, STEPS = 0, 1, 2, 3, 4
"""Places in `now`: scale, total, the sum of the c_t, |w|^2, and the number of steps t."""

_SMALL = 0.1


@kernel
def add_row(row: Any, i: int, delta: float, v: Any, V: Any, u: Any, U: Any, total: float) -> None:
    """Add `delta phi(x_i)` to `sum v phi` and keep V, u and U in step; `row` is row i of K."""
    v[i] += delta
    if total == 0.0:
        for j in range(V.shape[0]):
            V[j] += delta * row[j]
        return
    u[i] += total * delta
    for j in range(V.shape[0]):
        change = delta * row[j]
        V[j] += change
        U[j] += total * change


@kernel
def project(radius: float, now: Any) -> None:
    """Scale w into the ball of this radius."""
    if now[SQUARE] > radius * radius:
        now[SCALE] *= radius / np.sqrt(now[SQUARE])
        now[SQUARE] = radius * radius


@kernel
def fold(v: Any, V: Any, u: Any, U: Any, now: Any) -> None:
    """Make scale 1 and total 0 again where scale has become small: else v grows, and `total v - u` loses its digits."""
    scale, total = now[SCALE], now[TOTAL]
    if scale >= _SMALL:
        return
    for j in range(v.shape[0]):
        u[j] -= total * v[j]
        U[j] -= total * V[j]
        v[j] *= scale
        V[j] *= scale
    now[SCALE] = 1.0
    now[TOTAL] = 0.0


@kernel
def pegasos(
    draws: Any, first: int, last: int, place: Any, buffer: Any, y: Any, diagonal: Any, lam: float, radius: float,
    averaged: bool, v: Any, V: Any, u: Any, U: Any, now: Any,
) -> int:  # fmt: skip
    """Pegasos on the rows `draws[first:last]`: `w <- (1 - 1/t) w + 1/(lam t) y_i phi(x_i) [y_i f(x_i) < 1]`, projected.

    Averages have the weights t. Returns the draw that it stopped before.
    """
    for k in range(first, last):
        i = draws[k]
        score = now[SCALE] * V[i]
        violated = y[i] * score < 1.0
        if violated and place[i] < 0:
            return k
        now[STEPS] += 1.0
        t = now[STEPS]
        if t > 1.0:  # at the first step w is 0
            now[SCALE] *= 1.0 - 1.0 / t
            now[SQUARE] *= (1.0 - 1.0 / t) ** 2
            score *= 1.0 - 1.0 / t
        if violated:
            delta = y[i] / (lam * t)
            now[SQUARE] += delta * (2.0 * score + delta * diagonal[i])
            add_row(buffer[place[i]], i, delta / now[SCALE], v, V, u, U, now[TOTAL])
        project(radius, now)
        fold(v, V, u, U, now)
        if averaged:
            now[TOTAL] += t * now[SCALE]
            now[WEIGHT] += t
    return last


@kernel
def norm_ball(
    draws: Any, first: int, last: int, place: Any, buffer: Any, y: Any, diagonal: Any, rate: float, radius: float,
    averaged: bool, v: Any, V: Any, u: Any, U: Any, now: Any,
) -> int:  # fmt: skip
    """Gradient steps on the hinge loss of one row: `w <- w + rate/sqrt(t) y_i phi(x_i) [y_i f(x_i) < 1]`, projected.

    Averages have equal weights. Returns the draw that it stopped before.
    """
    for k in range(first, last):
        i = draws[k]
        score = now[SCALE] * V[i]
        violated = y[i] * score < 1.0
        if violated and place[i] < 0:
            return k
        now[STEPS] += 1.0
        if violated:
            delta = y[i] * rate / np.sqrt(now[STEPS])
            now[SQUARE] += delta * (2.0 * score + delta * diagonal[i])
            add_row(buffer[place[i]], i, delta / now[SCALE], v, V, u, U, now[TOTAL])
            project(radius, now)
            fold(v, V, u, U, now)
        if averaged:
            now[TOTAL] += now[SCALE]
            now[WEIGHT] += 1.0
    return last


@kernel
def perceptron(
    draws: Any, first: int, last: int, place: Any, buffer: Any, y: Any, size: Any, averaged: bool, v: Any, V: Any,
    u: Any, U: Any, now: Any,
) -> int:  # fmt: skip
    """The Perceptron: a row on the wrong side, or on the boundary, is added: `w <- w + size_i y_i phi(x_i)`.

    Averages have equal weights. Returns the draw that it stopped before.
    """
    for k in range(first, last):
        i = draws[k]
        mistaken = y[i] * V[i] <= 0.0
        if mistaken and place[i] < 0:
            return k
        now[STEPS] += 1.0
        if mistaken:
            add_row(buffer[place[i]], i, size[i] * y[i], v, V, u, U, now[TOTAL])
        if averaged:
            now[TOTAL] += 1.0
            now[WEIGHT] += 1.0
    return last


@kernel
def best_coordinate(i: int, y: Any, diagonal: Any, lower: Any, upper: Any, coef: Any, scores: Any) -> Any:
    """The value of coefficient i that maximises the dual while the others stay."""
    slope = y[i] - scores[i]
    if diagonal[i] > 0.0:
        return max(lower[i], min(upper[i], coef[i] + slope / diagonal[i]))
    return upper[i] if slope > 0.0 else lower[i]


@kernel
def coordinate_ascent(
    draws: Any, first: int, last: int, place: Any, buffer: Any, y: Any, diagonal: Any, lower: Any, upper: Any,
    coef: Any, scores: Any,
) -> int:  # fmt: skip
    """Dual coordinate ascent: each row's coefficient moves to its best value. Returns the draw it stopped before."""
    for k in range(first, last):
        i = draws[k]
        new = best_coordinate(i, y, diagonal, lower, upper, coef, scores)
        delta = new - coef[i]
        if delta == 0.0:
            continue
        if place[i] < 0:
            return k
        coef[i] = new
        row = buffer[place[i]]
        for j in range(scores.shape[0]):
            scores[j] += delta * row[j]
    return last

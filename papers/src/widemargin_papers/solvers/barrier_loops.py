"""Compiled row passes of the interior point: one entry for each hinge, none for a pair of row and constraint.

Hinge h belongs to row `row[h]` and takes its coefficient from `slot[h]`: the row's cell c for the positive side
`max(0, 1/2 + z)`, k + c for the negative side `max(0, 1/2 - z)`. With t = 1/2 + z or 1/2 - z, a hinge has the primal
pair s >= 0 (its value) and p = s - t >= 0, and the dual pair u (of p) and r (of s), u + r = the coefficient, for a unit
of weight. All passes use `q = 1 / (u s + r p)`, with which the elimination of the hinges needs no other division:

    D = u r q,    f = u s q,    1/H = p s q,
    ds/s = (u dt + p (g - dC)) q,    dp/p = (s (g - dC) - r dt) q,    du/u = tau1 - dp/p,    dr/r = tau2 - ds/s,

where `u p tau1` and `r s tau2` are the right-hand sides of the two complementarity equations, g = u tau1 + r tau2, and
dC is the change of the coefficient with the multipliers of the constraints.
"""

import math
from typing import NamedTuple

from widemargin.extending import Bools, Flags, Floats, Integers, Singles, kernel
from widemargin.losses.ramp import KEEP_MINUS, KEEP_PLUS

__all__ = [
    "centre", "condense", "corrector", "dual_direction", "fill_border", "furthest", "list_hinges", "move",
    "predictor", "shares", "side_sums", "slot_sums",
]  # fmt: skip


class Hinges(NamedTuple):
    """The hinges that count, in the order of their rows.

    Attributes
    ----------
    row, slot : ndarray of int32
    s, p, u, r : ndarray
        The two pairs of each.
    x, y : ndarray
        Relative changes dp/p and ds/s of the affine direction (`predictor`), then tau1 and tau2 of the corrected one
        (`corrector`).
    """

    row: Integers
    slot: Integers
    s: Floats
    p: Floats
    u: Floats
    r: Floats
    x: Floats
    y: Floats


@kernel
def list_hinges(cell: Integers, weight: Floats, keep: Flags, live: Bools, row: Integers, slot: Integers) -> int:
    """Fill `row` and `slot`, by row, with the kept hinges of live slots; return how many there are."""
    k = live.shape[0] // 2
    count = 0
    for i in range(cell.shape[0]):
        if weight[i] > 0.0:
            # A hinge without a coefficient, now or with any multipliers, would have no pair of its own.
            if keep[i] & KEEP_PLUS and live[cell[i]]:
                row[count] = i
                slot[count] = cell[i]
                count += 1
            if keep[i] & KEEP_MINUS and live[k + cell[i]]:
                row[count] = i
                slot[count] = k + cell[i]
                count += 1
    return count


@kernel
def slot_sums(hinges: Hinges, weight: Floats, sums: Floats) -> None:
    """Add the weight times the value s of each hinge to its slot of `sums`."""
    for h in range(hinges.row.shape[0]):
        sums[hinges.slot[h]] += weight[hinges.row[h]] * hinges.s[h]


@kernel
def centre(hinges: Hinges, z: Floats, coefficient: Floats, mu: float) -> None:
    """Set s, p, u, r to the centred point of scores z: `u p = r s = mu` and `u + r` = the coefficient."""
    row, slot, s, p, u, r, _, _ = hinges
    k = coefficient.shape[0] // 2
    for h in range(row.shape[0]):
        zi = z[row[h]]
        t = 0.5 + zi if slot[h] < k else 0.5 - zi
        size = abs(t)
        # s and p solve `s - p = t` and `mu/p + mu/s = the coefficient`: the smaller of the two is `near`, written
        # without a difference of large numbers, and the other one is longer by |t|.
        distance = mu / coefficient[slot[h]]
        near = distance + 2.0 * distance * distance / (math.sqrt(4.0 * distance * distance + t * t) + size)
        s[h] = near + max(t, 0.0)
        p[h] = near + max(-t, 0.0)
        u[h] = mu / p[h]
        r[h] = mu / s[h]


@kernel
def condense(hinges: Hinges, weight: Floats, diagonal: Floats, value: Floats, inverse: Floats, pull: Floats) -> None:
    """Set `diagonal` by row to w D; add by slot w s to `value`, w / H to `inverse` and -w (u + r) / H to `pull`."""
    row, slot, s, p, u, r, _, _ = hinges
    diagonal[:] = 0.0
    for h in range(row.shape[0]):
        # The two pairs of a hinge are eliminated by hand: what is left acts on its row (D) and on its slot (1/H).
        w = weight[row[h]]
        q = w / (u[h] * s[h] + r[h] * p[h])
        diagonal[row[h]] += u[h] * r[h] * q
        value[slot[h]] += w * s[h]
        inverse[slot[h]] += p[h] * s[h] * q
        pull[slot[h]] -= (u[h] + r[h]) * p[h] * s[h] * q


@kernel
def fill_border(
    hinges: Hinges, low: int, high: int, first: int, weight: Floats, indptr: Integers, column: Integers, value: Floats,
    out: Floats, totals: Floats,
) -> None:  # fmt: skip
    """Set `out` for rows first, first + 1, .. (hinges low to high): affine right-hand side, w D, each constraint.

    The sums of the columns are added to `totals`.
    """
    row, slot, s, p, u, r, _, _ = hinges
    k = indptr.shape[0] - 1
    out[:] = 0.0
    for h in range(low, high):
        i = row[h] - first
        q = weight[row[h]] / (u[h] * s[h] + r[h] * p[h])
        curvature = u[h] * r[h] * q
        out[i, 1] += curvature
        totals[1] += curvature
        f = u[h] * s[h] * q
        # The affine direction has tau1 = tau2 = -1, so the force of `corrector` is `f (u + r)` here. The constraints
        # see a hinge through the entries of its cell, of which only those of its own side count: the sign says which.
        c = slot[h]
        if c < k:
            out[i, 0] += f * (u[h] + r[h])
            totals[0] += f * (u[h] + r[h])
            for e in range(indptr[c], indptr[c + 1]):
                if value[e] > 0.0:
                    out[i, 2 + column[e]] += f * value[e]
                    totals[2 + column[e]] += f * value[e]
        else:
            out[i, 0] -= f * (u[h] + r[h])
            totals[0] -= f * (u[h] + r[h])
            for e in range(indptr[c - k], indptr[c - k + 1]):
                if value[e] < 0.0:
                    out[i, 2 + column[e]] += f * value[e]
                    totals[2 + column[e]] += f * value[e]


@kernel
def predictor(hinges: Hinges, weight: Floats, dz: Floats, dc: Floats, sums: Floats) -> None:
    """Set x = dp/p and y = ds/s of the affine direction, and `sums` to what its step lengths and its mu need.

    `sums` becomes: the largest -x or -y; the largest 1 + x or 1 + y; the sums of `w u p`, `w u p x` and `w u p x^2`,
    each with its twin `w r s`, `w r s y`, `w r s y^2`.
    """
    row, slot, s, p, u, r, x, y = hinges
    k = dc.shape[0] // 2
    primal, dual, zeroth, first, second = 0.0, 0.0, 0.0, 0.0, 0.0
    for h in range(row.shape[0]):
        # The affine direction aims at products of zero: tau1 = tau2 = -1 in the head of this file.
        dt = dz[row[h]] if slot[h] < k else -dz[row[h]]
        q = 1.0 / (u[h] * s[h] + r[h] * p[h])
        g = -(u[h] + r[h]) - dc[slot[h]]
        xh = (s[h] * g - r[h] * dt) * q
        yh = (p[h] * g + u[h] * dt) * q
        x[h] = xh
        y[h] = yh
        # Relative changes: p and s shrink by -x and -y, u and r by 1 + x and 1 + y, because du/u = -1 - x. A step of
        # one over the largest of them brings the first variable to zero.
        primal = max(primal, -xh, -yh)
        dual = max(dual, 1.0 + xh, 1.0 + yh)
        # After steps of lengths a (primal) and d (dual) the product u p is `u p (1 + a x) (1 - d (1 + x))`, and r s
        # the same with y. Summed over the hinges these are the coefficients, which `centring` puts together.
        up, rs = weight[row[h]] * u[h] * p[h], weight[row[h]] * r[h] * s[h]
        zeroth += up + rs
        first += up * xh + rs * yh
        second += up * xh * xh + rs * yh * yh
    sums[0] = primal
    sums[1] = dual
    sums[2] = zeroth
    sums[3] = first
    sums[4] = second


@kernel
def corrector(hinges: Hinges, weight: Floats, target: float, cap: float, right: Floats, pull: Floats) -> None:
    """Turn x, y of the affine direction into tau1, tau2 of the corrected one; set `right` by row, add `pull` by slot.

    The second-order term of a pair, `-dp du / (p u) = x (1 + x)`, counts at most `cap`.
    """
    row, slot, s, p, u, r, x, y = hinges
    k = pull.shape[0] // 2
    right[:] = 0.0
    for h in range(row.shape[0]):
        w = weight[row[h]]
        us = u[h] * s[h]
        q = w / (us + r[h] * p[h])
        # Aim at the centre, and take back the product of the affine changes; large ones would overshoot.
        tau1 = -1.0 + target / (u[h] * p[h]) + min(cap, x[h] * (1.0 + x[h]))
        tau2 = -1.0 + target / (r[h] * s[h]) + min(cap, y[h] * (1.0 + y[h]))
        x[h] = tau1
        y[h] = tau2
        g = u[h] * tau1 + r[h] * tau2
        pull[slot[h]] += g * p[h] * s[h] * q
        # What u would become if neither the score nor the coefficient moved, `u + du = u (1 + tau1) - u s q g`: the
        # pull of the hinge on its row. How it changes with the score is already in the matrix of the system, as D.
        force = w * u[h] * (1.0 + tau1) - us * q * g
        right[row[h]] += force if slot[h] < k else -force


@kernel
def furthest(hinges: Hinges, dz: Floats, dc: Floats, sums: Floats) -> None:
    """Set `sums[0]` and `sums[1]` to the largest relative decrease of (s, p) and of (u, r) along the direction."""
    row, slot, s, p, u, r, tau1, tau2 = hinges
    k = dc.shape[0] // 2
    primal, dual = 0.0, 0.0
    for h in range(row.shape[0]):
        dt = dz[row[h]] if slot[h] < k else -dz[row[h]]
        q = 1.0 / (u[h] * s[h] + r[h] * p[h])
        g = u[h] * tau1[h] + r[h] * tau2[h] - dc[slot[h]]
        # dp/p and ds/s by the formulas in the head of this file; those of u and r are tau1 - dp/p and tau2 - ds/s.
        dp = (s[h] * g - r[h] * dt) * q
        ds = (p[h] * g + u[h] * dt) * q
        primal = max(primal, -dp, -ds)
        dual = max(dual, dp - tau1[h], ds - tau2[h])
    sums[0] = primal
    sums[1] = dual


@kernel
def move(hinges: Hinges, weight: Floats, dz: Floats, dc: Floats, primal_step: float, dual_step: float) -> float:
    """Move s, p, u, r along the direction; return the sum of `w (u p + r s)` afterwards."""
    row, slot, s, p, u, r, tau1, tau2 = hinges
    k = dc.shape[0] // 2
    total = 0.0
    for h in range(row.shape[0]):
        dt = dz[row[h]] if slot[h] < k else -dz[row[h]]
        q = 1.0 / (u[h] * s[h] + r[h] * p[h])
        g = u[h] * tau1[h] + r[h] * tau2[h] - dc[slot[h]]
        dp = (s[h] * g - r[h] * dt) * q
        ds = (p[h] * g + u[h] * dt) * q
        # A variable is multiplied by one plus a share of its relative change, which the step lengths keep above -1: it
        # stays positive however small it is, where a difference of two numbers might round to zero.
        p[h] *= 1.0 + primal_step * dp
        s[h] *= 1.0 + primal_step * ds
        u[h] *= 1.0 + dual_step * (tau1[h] - dp)
        r[h] *= 1.0 + dual_step * (tau2[h] - ds)
        total += weight[row[h]] * (u[h] * p[h] + r[h] * s[h])
    return total


@kernel
def side_sums(hinges: Hinges, k: int, weight: Floats, sums: Floats) -> None:
    """Set `sums[0]` and `sums[1]` to the sum of w u over the positive and over the negative hinges."""
    row, slot, u = hinges.row, hinges.slot, hinges.u
    plus, minus = 0.0, 0.0
    for h in range(row.shape[0]):
        if slot[h] < k:
            plus += weight[row[h]] * u[h]
        else:
            minus += weight[row[h]] * u[h]
    sums[0] = plus
    sums[1] = minus


@kernel
def dual_direction(hinges: Hinges, k: int, weight: Floats, plus: float, minus: float, xi: Floats) -> None:
    """Set `xi` by row to the weight times (`plus` u of the positive hinge - `minus` u of the negative one)."""
    row, slot, u = hinges.row, hinges.slot, hinges.u
    xi[:] = 0.0
    for h in range(row.shape[0]):
        if slot[h] < k:
            xi[row[h]] += weight[row[h]] * plus * u[h]
        else:
            xi[row[h]] -= weight[row[h]] * minus * u[h]


@kernel
def shares(hinges: Hinges, k: int, up: Singles, um: Singles) -> None:
    """Set `up` and `um` by row to the share u / (u + r) of the coefficient; rows without the hinge keep their value."""
    row, slot, u, r = hinges.row, hinges.slot, hinges.u, hinges.r
    for h in range(row.shape[0]):
        share = u[h] / (u[h] + r[h])
        if slot[h] < k:
            up[row[h]] = share
        else:
            um[row[h]] = share

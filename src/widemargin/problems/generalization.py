"""How far constraints can fail on new rows: the bound of Appendix C of Goh et al. 2016 (spec 1, section 6).

Let D_1 ... D_k be data sets of n_i rows, each an independent draw from its own distribution, and let objective and
constraints be `sum_i alpha_ij r_p(D_i) + beta_ij r_n(D_i)` (j = 0 is the objective). With X an upper bound of the norm
of every example and [0, V] a box for the multipliers, both fixed before the data were seen,

    S = sum_i (alpha_i0 + beta_i0 + V sum_j (alpha_ij + beta_ij)),
    E = 1 + (4 X^2 / lam) S + sqrt(8 ln(4 k / delta)),

and with probability 1 - delta, for every solution of the convex steps at once, constraint j of the *randomised*
classifier fails on new rows by at most `E sum_i (alpha_ij + beta_ij) / sqrt(n_i)`.
"""

import math
from typing import NamedTuple

import numpy as np

from widemargin.goals.binding import BoundGoal
from widemargin.goals.linear import Linear, Rate
from widemargin.linalg.cells import Floats

__all__ = ["Datasets", "capacity", "datasets_of", "violation_bound"]


class Datasets(NamedTuple):
    """The k data sets behind a goal.

    Attributes
    ----------
    size : ndarray of shape (k,)
        Rows n_i.
    objective : ndarray of shape (k,)
        `alpha_i0 + beta_i0`.
    constraints : ndarray of shape (k, m)
        `alpha_ij + beta_ij`.
    """

    size: Floats
    objective: Floats
    constraints: Floats


def capacity(data: Datasets, *, radius: float, lam: float, box: float, delta: float) -> float:
    """The factor E.

    Parameters
    ----------
    data : Datasets
        With the coefficients of the problem that has the regulariser `lam / 2 |w|^2`.
    radius : float
        X, largest norm of an example.
    lam : float
    box : float
        V, largest multiplier.
    delta : float
        Probability with which the bound may fail.
    """
    S = float(data.objective.sum() + box * data.constraints.sum())
    return 1.0 + 4.0 * radius**2 / lam * S + math.sqrt(8.0 * math.log(4.0 * len(data.size) / delta))


def violation_bound(data: Datasets, factor: float) -> Floats:
    """`E sum_i (alpha_ij + beta_ij) / sqrt(n_i)` of each constraint, shape (m,); 1 and more says nothing of a rate."""
    return np.asarray(factor * (1.0 / np.sqrt(data.size)) @ data.constraints)


def datasets_of(bound: BoundGoal) -> Datasets:
    """The data sets of a bound goal, scaled as `RateConstrainedProblem` is.

    A rate is split by what it counts: the rows whose positive prediction counts are one data set, those whose negative
    prediction counts another (the error rate has the negatives and the positives, churn the baseline's two classes).
    Equal sets of rows are one data set, wherever they are named. The coefficients of the objective sum to one and a
    constraint is in rates (for a ratio: that of its cleared form).
    """
    coef = bound.coefficients
    scale = float(np.maximum(coef.alpha0, coef.beta0) @ bound.cell_weight) or 1.0
    forms = [(bound.goal.objective, scale)]
    forms += [(item.cleared.form, unit) for item, unit in zip(bound.constraints, bound.scale, strict=True)]
    signed: dict[bytes, Floats] = {}
    size: dict[bytes, float] = {}
    for j, (form, unit) in enumerate(forms):
        for cells, share in _parts(form, bound):
            key = cells.tobytes()
            size[key] = float(bound.cell_weight[cells].sum())
            signed.setdefault(key, np.zeros(len(forms)))[j] += share / unit
    kept = [key for key in signed if size[key] > 0.0]
    table = np.abs([signed[key] for key in kept]).reshape(len(kept), len(forms))
    return Datasets(np.array([size[key] for key in kept]), table[:, 0], table[:, 1:])


def _parts(form: Linear, bound: BoundGoal) -> list[tuple[np.ndarray, float]]:
    """Cells of each data set of a form without ratios, and its coefficient on `r_p`; `c r_n` counts as `-c r_p`."""
    rates, weight = bound.table, bound.cell_weight
    found = []
    for coefficient, atom in form.terms:
        if not isinstance(atom, Rate):
            raise TypeError(f"{atom} is a ratio; clear it first.")
        row = rates.place[atom]
        over = 1.0 if rates.is_count[row] else float(rates.total[row])
        for matrix, sign in ((rates.alpha, 1.0), (rates.beta, -1.0)):
            cells = np.sort(matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]).astype(np.int64)
            if len(cells):
                found.append((cells, sign * coefficient * float(weight[cells].sum()) / over))
    return found

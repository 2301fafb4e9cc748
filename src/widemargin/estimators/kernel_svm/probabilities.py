"""Class probabilities of a `KernelSVC`: every binary problem calibrated on rows held out, then put together.

One against one the pairs' probabilities are coupled (T.-F. Wu, C.-J. Lin, R. Weng, "Probability Estimates for
Multi-class Classification by Pairwise Coupling", JMLR 2004, second method, which LIBSVM uses too); one against the rest
they are scaled to sum 1. Sigmoids of few rows are careful (Platt's targets), and coupling many careful ones makes them
much too careful: with 22 rows of each digit their mean log loss is 0.34, at an accuracy of 98%. So with more than two
classes all rows held out fit one more number, a power of the probabilities: 0.06.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from widemargin._typing import Floats, Ints
from widemargin.estimators._calibration import calibrated, fit_calibrator
from widemargin.estimators.kernel_svm.pairs_fit import Split
from widemargin.exceptions import DataError

__all__ = ["coupled", "fit_calibrators", "probabilities", "sharpened", "sharpness"]

_LEAST = 1e-7
"""Least probability of a class against another one, as in LIBSVM."""


def fit_calibrators(method: str, parts: Sequence[Split], scores: Floats, codes: Ints, weight: Floats) -> list[Any]:
    """The calibrator of every binary problem.

    Parameters
    ----------
    method : {"sigmoid", "isotonic"}
    parts : sequence of Split
    scores : ndarray of shape (n, n_problems)
        Of rows that training did not see.
    codes : ndarray of int, shape (n,)
        Their classes.
    weight : ndarray of shape (n,)

    Raises
    ------
    DataError
        If a class has none of these rows.
    """
    absent = sorted({c for part in parts for c in part if c is not None} - set(codes.tolist()))
    if absent:
        raise DataError(f"calibration held out no row of class number {absent[0]}; it needs at least 5 rows of each.")
    made = []
    for number, part in enumerate(parts):
        rows = slice(None) if part.negative is None else (codes == part.positive) | (codes == part.negative)
        made.append(fit_calibrator(method, scores[rows, number], codes[rows] == part.positive, weight[rows]))
    return made


def probabilities(calibrators: Sequence[Any], parts: Sequence[Split], scores: Floats) -> Floats:
    """Probabilities of all classes, shape (p, k), from the scores of all problems, shape (p, n_problems)."""
    found = np.column_stack([calibrated(model, scores[:, number])[:, 1] for number, model in enumerate(calibrators)])
    if len(parts) == 1:
        return np.column_stack([1.0 - found[:, 0], found[:, 0]])
    if parts[0].negative is not None:
        return coupled(found, parts)
    total = found.sum(axis=1, keepdims=True)
    return np.where(total > 0.0, found / np.where(total > 0.0, total, 1.0), 1.0 / found.shape[1])


_TINY = 1e-12  # least probability that is raised to a power
_POWERS = (-3.0, 5.0)  # of e


def sharpened(table: Floats, power: float) -> Floats:
    """Probabilities of classes raised to a power and scaled to sum 1, shape (p, k)."""
    logarithm = power * np.log(np.maximum(table, _TINY))
    found = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def sharpness(table: Floats, codes: Ints, weight: Floats) -> float:
    """The power that makes the log loss of rows held out least.

    Of W rows (by weight) each counts `W / (W + 1)` for its own class and the rest evenly for all, as though there were
    one row more, of every class at once: rows that are all classified correctly do not make probabilities of 1.

    Parameters
    ----------
    table : ndarray of shape (n, k)
        Probabilities of rows that training did not see.
    codes : ndarray of int, shape (n,)
        Their classes.
    weight : ndarray of shape (n,)
    """
    (n, k), total = table.shape, float(weight.sum())
    target = np.full((n, k), 1.0 / (k * (total + 1.0)))
    target[np.arange(n), codes] += total / (total + 1.0)
    target *= weight[:, None]

    def loss(u: float) -> float:
        return -float(np.sum(target * np.log(np.maximum(sharpened(table, float(np.exp(u))), 1e-300))))

    return float(np.exp(minimize_scalar(loss, bounds=_POWERS, method="bounded").x))


def coupled(pairs: Floats, parts: Sequence[Split]) -> Floats:
    """Class probabilities p that agree best with those of the pairs.

    Minimises `sum_ij (r_ji p_i - r_ij p_j)^2` subject to `sum p = 1` (Wu, Lin and Weng, equation 21), r_ij being the
    probability of class i among rows of i or j: p is `Q^-1 e`, scaled, with `Q_ii = sum_j r_ji^2`, `Q_ij = -r_ji r_ij`.

    Parameters
    ----------
    pairs : ndarray of shape (p, k (k - 1) / 2)
        Probabilities of the first class of each pair.
    parts : sequence of Split

    Returns
    -------
    ndarray of shape (p, k)
    """
    k = 1 + max(part.negative or 0 for part in parts)
    r = np.zeros((pairs.shape[0], k, k))
    for number, part in enumerate(parts):
        first = np.clip(pairs[:, number], _LEAST, 1.0 - _LEAST)
        r[:, part.positive, part.negative] = first
        r[:, part.negative, part.positive] = 1.0 - first
    turned = r.transpose(0, 2, 1)
    Q = -turned * r
    diagonal = np.arange(k)
    Q[:, diagonal, diagonal] = (turned**2).sum(axis=2) + 1e-12  # never singular
    found = np.maximum(np.linalg.solve(Q, np.ones((pairs.shape[0], k, 1)))[..., 0], 0.0)
    return np.asarray(found / found.sum(axis=1, keepdims=True))

"""Coefficients of several binary problems in the layout of `sklearn.svm.SVC`, and the scores that they give.

Support vectors are ordered by class. One against one, the coefficients of the support vectors of class i against class
j stand in row j - 1 of `dual_coef_` where i < j, and in row j where i > j: every support vector is in k - 1 problems.
The problem of i < j has the score `f_ij > 0` for class i. One against the rest, row c belongs to class c.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import _ovr_decision_function

from widemargin._typing import Floats, Ints
from widemargin.estimators.kernel_svm.pairs_fit import Solved

__all__ = ["Expansion", "dense", "expand", "linear_weights", "one_vs_rest", "pair_scores", "votes"]


@dataclass(frozen=True)
class Expansion:
    """The fitted model.

    Attributes
    ----------
    support : ndarray of int64, shape (s,)
        Training rows, ordered by class, then by number.
    n_support : ndarray of int32, shape (k,)
    dual_coef : ndarray of shape (k - 1, s), or (k, s) one against the rest
    intercept : ndarray of shape (n_problems,)
    """

    support: Ints
    n_support: Any
    dual_coef: Floats
    intercept: Floats


def expand(solved: Sequence[Solved], codes: Ints, n_classes: int) -> Expansion:
    """Put the solutions of all problems together."""
    used = np.zeros(codes.shape[0], dtype=bool)
    for item in solved:
        used[item.support] = True
    support = np.flatnonzero(used)
    support = support[np.argsort(codes[support], kind="stable")]
    place = np.empty(codes.shape[0], dtype=np.int64)
    place[support] = np.arange(support.shape[0])
    pairs = len(solved) > 1 and solved[0].split.negative is not None
    dual_coef = np.zeros((n_classes - 1 if pairs else len(solved), support.shape[0]))
    for number, item in enumerate(solved):
        chosen = np.flatnonzero(item.result.coef)
        rows, coef = item.index[chosen], item.result.coef[chosen]
        if not pairs:
            dual_coef[number, place[rows]] = coef
            continue
        i, j = item.split.positive, int(item.split.negative or 0)  # i < j, so j is not 0
        dual_coef[np.where(codes[rows] == i, j - 1, i), place[rows]] = coef
    n_support = np.bincount(codes[support], minlength=n_classes).astype(np.int32)
    return Expansion(support, n_support, dual_coef, np.array([item.result.intercept for item in solved]))


def dense(dual_coef: Any) -> Floats:
    """`dual_coef_` as an array; fits on CSR rows keep it as a CSR matrix."""
    return np.asarray(dual_coef.toarray() if sp.issparse(dual_coef) else dual_coef)


def pair_scores(parts: Sequence[Floats], intercept: Floats) -> Floats:
    """Scores of all pairs of classes, shape (p, k (k - 1) / 2).

    Parameters
    ----------
    parts : sequence of k ndarrays of shape (p, k - 1)
        For each class the kernel values with its support vectors times their part of `dual_coef_`, transposed.
    intercept : ndarray of shape (k (k - 1) / 2,)
    """
    k = len(parts)
    pairs = [parts[i][:, j - 1] + parts[j][:, i] for i in range(k) for j in range(i + 1, k)]
    return np.column_stack(pairs) + intercept


def one_vs_rest(scores: Floats, n_classes: int) -> Floats:
    """Votes of the pairs, made continuous by their scores as scikit-learn does, shape (p, k)."""
    return np.asarray(_ovr_decision_function(scores < 0, -scores, n_classes))


def votes(scores: Floats, n_classes: int) -> Ints:
    """The class that most pairs vote for, the first of those, shape (p,)."""
    count = np.zeros((scores.shape[0], n_classes), dtype=np.int64)
    column = 0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            first = scores[:, column] > 0.0
            count[:, i] += first
            count[:, j] += ~first
            column += 1
    return np.asarray(np.argmax(count, axis=1))


def linear_weights(dual_coef: Floats, vectors: Any, n_support: Any) -> Any:
    """Weights of the columns for a linear kernel, shape (n_problems, d)."""
    rows, (k1, _) = n_support.shape[0], dual_coef.shape
    if k1 != rows - 1 or rows == 2:
        return np.asarray(dual_coef @ vectors)
    cuts = np.concatenate(([0], np.cumsum(n_support)))
    parts = [dual_coef[:, cuts[c] : cuts[c + 1]] @ vectors[cuts[c] : cuts[c + 1]] for c in range(rows)]
    return np.array([parts[i][j - 1] + parts[j][i] for i in range(rows) for j in range(i + 1, rows)])

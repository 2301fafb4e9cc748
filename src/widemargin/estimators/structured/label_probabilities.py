"""Calibrated probabilities of labels: least squares in the features of a kernel, then a sigmoid for every label.

Margins of structural SVMs say which label set is best, and little about labels that are never in it: in hierarchies of
many rare nodes that is most of them. Least squares tell those apart, too, and one factorisation serves all labels, all
regularisers, and the scores that each row would have had without itself (Cawley and Talbot 2004). So the sigmoids of
Platt (1999) are fitted on scores of rows that training did not see, and none is held out.

    min_B  sum_i w_i |y_i - p - B' (k_i - m)|^2 + lambda tr(B' K B),

k_i the values of the Gaussian kernel at the landmarks, K the matrix of these, p and m weighted means. Width and
regulariser are chosen with some landmarks; up to 10,000 rows, all rows are landmarks then.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import expit
from sklearn.metrics.pairwise import rbf_kernel

from widemargin._typing import Bools, Floats, Ints, Matrix
from widemargin.exceptions import DataError
from widemargin.kernels.functions import resolve_kernel


@dataclass(frozen=True)
class _Chosen:
    """How probabilities are fitted; chosen on training rows held out, of ImCLEF07A, Enron_corr, Diatoms, cellcycle_FUN.

    Attributes
    ----------
    fewest : int
        Rows below which nothing can be calibrated.
    exact : int
        Rows up to which all of them are landmarks. Beside 3000 landmarks, likely paths of ImCLEF07A (8000 rows) gain
        .009 and .017 in Jaccard (two draws), nodes .008 in AU(PRC). A factorisation takes 9 s there; at most 800 MB.
    landmarks, numbers : int
        Most landmarks of more rows: 3000, or as many as this many kernel values allow for (320 MB), but 500 at least.
    for_width : int
        Landmarks for the choice of the width.
    widths : tuple of float
        Times gamma="scale".
    strengths : tuple of float
        lambda, largest first, as squared errors of left-out rows fall and then rise; half decades.
    pull : float
        How much the slopes of the sigmoids are pulled towards their common slope, in rows of variance 1: a label of few
        rows has no slope of its own. From .3 to .01 the log loss of all three hierarchies looked at falls.
    steps : int
        Most Newton steps of the sigmoids; about ten are needed.
    block : int
        Numbers that are looked at in one go: 32 MB.
    """

    fewest: int = 10
    exact: int = 10_000
    landmarks: int = 3000
    numbers: int = 40_000_000
    for_width: int = 1000
    widths: tuple[float, ...] = (1.0, 0.5, 2.0)
    strengths: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
    pull: float = 0.01
    steps: int = 50
    block: int = 4_000_000


class LabelProbabilities:
    """`sigmoid(sum_j K(x, l_j) coef_j + intercept)` for every label.

    Parameters
    ----------
    landmarks : ndarray or csr_matrix of shape (m, d)
    gamma : float
    coef : ndarray of shape (m, k)
    intercept : ndarray of shape (k,)
    """

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "landmarks": "float m *", "gamma": "scalar", "coef": "float m S", "intercept": "float S",
    }  # fmt: skip

    def __init__(self, landmarks: Matrix, gamma: float, coef: Floats, intercept: Floats) -> None:
        self.landmarks, self.gamma, self.coef, self.intercept = landmarks, gamma, coef, intercept

    def __call__(self, X: Matrix) -> Floats:
        """Probabilities of checked rows, shape (n, k)."""
        found = np.empty((X.shape[0], self.coef.shape[1]))
        # So many rows at a time that kernel values stay small.
        for part in _parts(X.shape[0], self.landmarks.shape[0]):
            found[part] = expit(rbf_kernel(X[part], self.landmarks, gamma=self.gamma) @ self.coef + self.intercept)
        return found


def likely_sets(probabilities: Floats, order: Ints, among: Ints | None = None) -> Ints:
    """Label sets of largest expected Jaccard index, where it is `E both / E either` and labels are independent.

    The best set of a size has the labels of largest probability; of the sizes, the one of largest

        sum_(v in S) p_v / (|S| + sum_(v not in S) p_v),

    or the empty set, whose Jaccard index is 1 where nothing is there: with probability `prod_v (1 - p_v)`. (Sorting by
    probability and looking at all sizes: Dembczynski et al. 2011, for the F-measure.)

    Parameters
    ----------
    probabilities : ndarray of shape (n, k)
    order : ndarray of shape (k,)
        Labels that come first where probabilities are equal.
    among : ndarray of shape (m, k), default=None
        The label sets to choose from; None: all.

    Returns
    -------
    ndarray of shape (n, k)
    """
    n, k = probabilities.shape
    sets = np.zeros((n, k), dtype=np.int64)
    for part in _parts(n, k):
        p = probabilities[part]
        if among is not None:
            inside = p @ among.T
            expected = inside / (among.sum(axis=1) + p.sum(axis=1, keepdims=True) - inside)
            sets[part] = among[expected.argmax(axis=1)]
            continue
        ranked = order[np.argsort(-p[:, order], axis=1, kind="stable")]
        inside = np.cumsum(np.take_along_axis(p, ranked, axis=1), axis=1)
        expected = inside / (np.arange(1, k + 1) + inside[:, -1:] - inside)
        size = np.where(expected.max(axis=1) < np.prod(1.0 - p, axis=1), 0, expected.argmax(axis=1) + 1)
        np.put_along_axis(sets[part], ranked, (np.arange(k) < size[:, None]).astype(np.int64), axis=1)
    return sets


def fit_probabilities(
    X: Matrix, Y: Ints, missing: Bools | None, weight: Floats, rng: np.random.RandomState, how: _Chosen = _Chosen()
) -> tuple[LabelProbabilities, Floats]:
    """Width and regulariser of least squared error on left-out rows, and the sigmoids of their scores.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n, d)
    Y : ndarray of shape (n, k)
        0 or 1.
    missing : ndarray of bool of shape (n, k), or None
        Labels that nobody has looked at: as likely as in the other rows, and not in the sigmoids.
    weight : ndarray of shape (n,)
        Weights of the rows, `>= 0`.
    rng : RandomState
        Of the landmarks.

    Returns
    -------
    LabelProbabilities
    ndarray of shape (number of rows of positive weight, k)
        What each of these rows has from the others, but for the sigmoids.

    Raises
    ------
    DataError
        If there are too few rows.
    """
    rows = np.flatnonzero(weight > 0.0)
    n = rows.shape[0]
    if n < how.fewest:
        raise DataError(f"calibration='sigmoid' needs {how.fewest} rows of positive weight; there are {n}.")
    # Rows without weight are as good as absent.
    X, Y, weight = X[rows], Y[rows], weight[rows]
    known = np.ones(Y.shape, dtype=bool) if missing is None else ~missing[rows]
    most = min(n, how.landmarks, max(500, how.numbers // n))
    drawn = rng.permutation(n)[:most]
    scale = resolve_kernel("rbf", X, gamma="scale").gamma
    few = [_Ridge.of(X, Y, known, weight, drawn[: how.for_width], scale * width) for width in how.widths]
    chosen = [ridge.strength(how) for ridge in few]
    best = int(np.argmin([error for _, error in chosen]))
    ridge, lam = few[best], chosen[best][0]
    if n <= how.exact:
        landmarks = X
        coef, intercept, scores = _of_all_rows(X, ridge.target, weight, ridge.gamma, lam, how)
        intercept, scores = intercept + ridge.share, scores + ridge.share
    else:
        if most > how.for_width:
            ridge = _Ridge.of(X, Y, known, weight, drawn, ridge.gamma)
            lam = ridge.strength(how)[0]
        (coef, intercept), scores = ridge.fitted(lam), ridge.left_out(lam)
        landmarks = X[np.sort(drawn[: ridge.basis.shape[0]])]
    slope, shift = np.empty(Y.shape[1]), np.empty(Y.shape[1])
    parts, seen = _parts(Y.shape[1], n), known * weight[:, None]
    often = np.argsort(-(seen * Y).sum(axis=0), kind="stable")[parts[0]]
    common = float(_sigmoids(scores[:, often], Y[:, often], seen[:, often], None, how)[0][0])
    for part in parts:
        slope[part], shift[part] = _sigmoids(scores[:, part], Y[:, part], seen[:, part], common, how)
    probabilities = LabelProbabilities(landmarks, ridge.gamma, coef * slope, intercept * slope + shift)
    return probabilities, expit(scores * slope + shift)


class _Ridge(NamedTuple):
    """Least squares of all labels in directions in which kernel values and regulariser are diagonal.

    Attributes
    ----------
    basis : ndarray of shape (m, r)
        The directions, as combinations of landmarks (in increasing order of their rows).
    mean : ndarray of shape (m,)
        Of the kernel values.
    spread : ndarray of shape (r,)
        Sums of squares along the directions.
    rows : ndarray of shape (n, r)
        The training rows.
    share : ndarray of shape (k,)
        p.
    target : ndarray of shape (n, k)
        y - p.
    weight : ndarray of shape (n,)
    """

    gamma: float
    basis: Floats
    mean: Floats
    spread: Floats
    rows: Floats
    share: Floats
    target: Floats
    weight: Floats

    @classmethod
    def of(cls, X: Matrix, Y: Ints, known: Bools, weight: Floats, drawn: Ints, gamma: float) -> "_Ridge":
        landmarks = X[np.sort(drawn)]
        values = rbf_kernel(X, landmarks, gamma=gamma)
        total = weight.sum()
        mean = weight @ values / total
        values -= mean
        # Rows that are there twice make the matrix singular: a hundred millionth more keeps its factor, in double
        # precision.
        between = rbf_kernel(landmarks.astype(np.float64), gamma=gamma)
        between[np.diag_indices_from(between)] += 1e-8 * landmarks.shape[0]
        spread, basis = linalg.eigh((values * weight[:, None]).T @ values, between)
        seen = known * weight[:, None]
        share = (seen * Y).sum(axis=0) / np.maximum(seen.sum(axis=0), np.finfo(np.float64).tiny)
        target = np.where(known, Y - share, 0.0)
        return cls(gamma, basis, mean, np.maximum(spread, 0.0), values @ basis, share, target, weight)

    def left_out(self, lam: float) -> Floats:
        """Score that each row has from the others, of a row of some weight from one less of its kind."""
        along = (self.rows * self.weight[:, None]).T @ self.target / (self.spread + lam)[:, None]
        # What a row pulls its own score by: of the centre, and along every direction.
        own = 1.0 / self.weight.sum() + (self.rows**2 / (self.spread + lam)).sum(axis=1)
        missed = (self.target - self.rows @ along) / (1.0 - np.minimum(own, 1.0 - 1e-9))[:, None]
        return np.asarray(self.share + self.target - missed)

    def strength(self, how: _Chosen) -> tuple[float, float]:
        """The regulariser of least squared error on left-out rows, and that error."""
        best = (how.strengths[0], np.inf)
        for lam in how.strengths:
            missed = self.share + self.target - self.left_out(lam)
            error = float(self.weight @ (missed**2).sum(axis=1))
            if error > best[1]:
                break
            best = (lam, error)
        return best

    def fitted(self, lam: float) -> tuple[Floats, Floats]:
        """Coefficients of the kernel values, and constants."""
        along = (self.rows * self.weight[:, None]).T @ self.target / (self.spread + lam)[:, None]
        coef = self.basis @ along
        return coef, self.share - self.mean @ coef


def _of_all_rows(
    X: Matrix, target: Floats, weight: Floats, gamma: float, lam: float, how: _Chosen
) -> tuple[Floats, Floats, Floats]:
    """Coefficients, constants and left-out scores with all rows as landmarks, at the best regulariser from lam down.

    With A = K + lambda diag(1/w) and a constant that no regulariser touches, the coefficients are `C y`, where

        C = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1),

    and lambda C_ii / w_i is what row i's own label leaves of itself (Cawley and Talbot 2004).
    """
    best: tuple[float, tuple[Floats, Floats, Floats]] | None = None
    for strength in (one for one in how.strengths if one <= lam):
        # Rows that are there twice make K singular: a hundred millionth more keeps its factor.
        values, more = rbf_kernel(X.astype(np.float64), gamma=gamma), strength / weight + 1e-8
        values[np.diag_indices_from(values)] += more
        # All in the place of the kernel values, as there is no room for a second matrix. Of the inverse only the
        # diagonal is needed: the squares of the inverse factor, which is had in half the time.
        factor, _ = linalg.lapack.dpotrf(values.T, overwrite_a=True)
        solved, _ = linalg.lapack.dpotrs(factor, np.column_stack([np.ones(X.shape[0]), target]))
        inverse, _ = linalg.lapack.dtrtri(factor, overwrite_c=True)
        diagonal = np.einsum("ij,ij->i", inverse, inverse)
        ones, total = solved[:, 0], solved[:, 0].sum()
        constant = solved[:, 1:].sum(axis=0) / total
        coef = solved[:, 1:] - ones[:, None] * constant
        # Of a row of some weight one less of its kind is left out, as if it were there so many times.
        own = (1.0 - more * (diagonal - ones**2 / total)) / weight
        scores = target - coef * (more / (1.0 - np.minimum(own, 1.0 - 1e-9)))[:, None]
        error = float(weight @ ((target - scores) ** 2).sum(axis=1))
        if best is not None and error > best[0]:
            break
        best = error, (coef, constant, scores)
    assert best is not None
    return best[1]


def _sigmoids(scores: Floats, Y: Ints, weight: Floats, common: float | None, how: _Chosen) -> tuple[Floats, Floats]:
    """Slope and shift of the sigmoid of every label, by Newton's method; one slope for all where `common` is None.

    Where it is a number, slopes are pulled towards it. That is more than caution: where features say nothing, the score
    of a row without itself is the lower the more often its label is there, and a slope of its own would be negative.

    Parameters
    ----------
    scores, Y : ndarray of shape (n, k)
    weight : ndarray of shape (n, k)
        0 where nobody has looked.
    """
    positive, total = (weight * Y).sum(axis=0), weight.sum(axis=0)
    # Platt's targets in the place of 1 and 0 keep shifts finite where a label is never or always there.
    target = np.where(Y == 1, (positive + 1.0) / (positive + 2.0), 1.0 / (total - positive + 2.0))
    share = (positive + 1.0) / (total + 2.0)
    slope = np.full(Y.shape[1], 4.0 if common is None else common)
    shift = np.log(share / (1.0 - share)) - slope * (weight * scores).sum(axis=0) / np.maximum(total, 1.0)
    pull = 0.0 if common is None else how.pull
    for _ in range(how.steps):
        found = expit(slope * scores + shift)
        bend, rest = weight * found * (1.0 - found), weight * (target - found)
        g_shift, g_slope = rest.sum(axis=0), (rest * scores).sum(axis=0) - pull * (slope - (common or 0.0))
        h_shift, h_both = bend.sum(axis=0) + 1e-9, (bend * scores).sum(axis=0)
        h_slope = (bend * scores**2).sum(axis=0) + pull + 1e-9
        # The shift is eliminated: what is left is the slope's own share of the gradient and of the curvature.
        ahead, curved = g_slope - h_both * g_shift / h_shift, h_slope - h_both**2 / h_shift
        if common is None:
            ahead, curved = np.full_like(ahead, ahead.sum()), np.full_like(curved, curved.sum())
        # Steps of a logarithm of odds of 5 and more would leave the range in which the quadratic means anything.
        step = np.clip(ahead / curved, -5.0, 5.0)
        slope = slope + step
        move = np.clip((g_shift - h_both * step) / h_shift, -5.0, 5.0)
        shift = shift + move
        if max(np.abs(step).max(), np.abs(move).max()) < 1e-4:
            break
    return slope, shift


def _parts(n: int, width: int, block: int = _Chosen.block) -> list[slice]:
    """Slices of n lines of some width, each of about `block` numbers."""
    size = max(1, block // max(1, width))
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]

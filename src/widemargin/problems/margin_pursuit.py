"""Margin pursuit on the rows of a linear model (Holland 2019), with its certificate.

    P(w, b) = lam/2 |w|^2 + sum_i p_i phi(y_i (<x_i, w> + b)),      sum_i p_i = 1,       lam = 1/(n C)

phi depends on the distance of the score from the target `y_i gamma` alone, so at given w the best b is the Catoni
location of `y_i gamma - <x_i, w>`: the root of `sum_i p_i psi((b - (y_i gamma - <x_i, w>)) / s)`.

Certificate. The slopes `alpha_i = -p_i y_i phi'(m_i)` at (w, b) with the best b are feasible in the dual problem, whose
`w(alpha) = sum_i alpha_i x_i / lam`. The losses meet their conjugates, and what remains of the gap is
`lam/2 |w - w(alpha)|^2 = |grad_w P|^2 / (2 lam)`. So P(w, b) exceeds the least value by no more than that.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.location import catoni_scale, location_root
from widemargin.losses.margin import MarginLoss

__all__ = ["Certified", "MarginPursuitProblem", "data_driven_scale", "lemma_6_scale"]


class Certified(NamedTuple):
    """A point with its best bias: value, and by how much it can exceed the least one (NaN where lam is 0)."""

    point: Floats
    value: float
    gap: float


@dataclass(frozen=True)
class MarginPursuitProblem:
    """The problem of one class against the other. Points are `w`, followed by `b` where there is a bias.

    Parameters
    ----------
    rows : RowBlocks
        n rows of d features.
    y : ndarray of shape (n,)
        +1 and -1.
    share : ndarray of shape (n,)
        Weights p_i >= 0 of sum 1.
    n : float
        Sum of the weights before they were made shares.
    lam : float
        >= 0.
    shared : dict, optional
        Cache of values that depend neither on y, lam nor the scale, for all problems made from this one.
    """

    rows: RowBlocks
    y: Floats
    share: Floats
    n: float
    lam: float
    loss: MarginLoss
    fit_intercept: bool
    shared: dict[str, Floats | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def n_unknowns(self) -> int:
        """Length of a point."""
        return self.rows.n_features + int(self.fit_intercept)

    @property
    def n_rows(self) -> int:
        """n: single gradients that a full one costs."""
        return self.rows.n_rows

    def at_scale(self, scale: float) -> "MarginPursuitProblem":
        """The same problem at another scale."""
        return replace(self, loss=self.loss.at_scale(scale))

    def rescaled(self, scale: float) -> "MarginPursuitProblem":
        """The same problem with the loss `rho` in place of `scale^2 rho`, in units of the latter: `scale^2 lam`.

        It is what the paper's one rescaling does (Section 4, Figure 5): a larger scale makes the losses smaller beside
        the regulariser, and so the stochastic steps shorter.
        """
        return replace(self, loss=self.loss.at_scale(scale), lam=self.lam * scale**2)

    def of_class(self, y: Floats) -> "MarginPursuitProblem":
        """The same problem for other targets."""
        return replace(self, y=y)

    def split(self, point: Floats) -> tuple[Floats, float]:
        """w and b of a point."""
        return (point[:-1], float(point[-1])) if self.fit_intercept else (point, 0.0)

    def scores(self, point: Floats) -> Floats:
        """`X w + b`, shape (n,)."""
        w, b = self.split(point)
        scores = self.rows.dot(w)
        if self.fit_intercept:
            scores += b
        return scores

    def margins(self, point: Floats) -> Floats:
        """`y_i (<x_i, w> + b)`, shape (n,)."""
        return self.y * self.scores(point)

    def value_gradient(self, point: Floats) -> tuple[float, Floats]:
        """P and its gradient."""
        m = self.scores(point)
        m *= self.y
        # One pass gives the value and puts the slopes in the place of the margins: n numbers are written once instead
        # of three times.
        value = self.loss.total(m, self.share, m)
        m *= self.y  # now the slopes along the scores
        w, _ = self.split(point)
        gradient = np.empty(self.n_unknowns)
        gradient[: w.shape[0]] = self.rows.tdot(m)
        gradient[: w.shape[0]] += self.lam * w
        if self.fit_intercept:
            gradient[-1] = m.sum()
        return value + 0.5 * self.lam * float(w @ w), gradient

    def with_best_bias(self, point: Floats) -> Floats:
        """The same w with the bias that is best for it; the old one is where the search begins."""
        if not self.fit_intercept:
            return point
        w, b = self.split(point)
        # phi sees only the distance of the score from `y gamma`, so the best b is a robust location of what w leaves of
        # that distance (module docstring), and its root is found to the last digit.
        targets = self.loss.margin_level * self.y - self.rows.dot(w)
        return np.append(w, location_root(targets, self.share, self.loss.scale, self.loss.kind, b))

    def certify(self, point: Floats) -> Certified:
        """The point with its best bias, its value and gap."""
        best = self.with_best_bias(point)
        value, gradient = self.value_gradient(best)
        w_gradient, _ = self.split(gradient)
        # At the best b the slopes balance, so they are feasible in the dual problem, and the gradient by w is all that
        # separates w from `w(alpha)`.
        gap = float(w_gradient @ w_gradient) / (2.0 * self.lam) if self.lam > 0.0 else np.nan
        return Certified(best, value, gap)

    def column_scales(self) -> Floats:
        """Root of the second derivatives of P along the axes where phi'' is 1: units in which solvers are quick."""
        squares, _ = self.rows.diagonal(self.share)
        scales = np.sqrt(squares + self.lam)
        # A column of zeros has no unit of its own.
        scales[scales == 0.0] = 1.0
        return np.append(scales, 1.0) if self.fit_intercept else scales

    def curvature(self, most: int = 100) -> Floats | None:
        """Second derivative of P where all phi'' are 1 (a bound), lower triangle in Fortran order.

        None where it costs as much as `most` gradients, or would be large.
        """
        d = self.rows.n_features
        # Whitened rows usually save L-BFGS more than the hundred gradients that this may cost. 4,000 squared are an
        # eighth of a gigabyte.
        affordable = d <= min(10 * most, 4000) and self.rows.n_stored <= 4 * most * self.n_rows
        if "curvature" not in self.shared and affordable:
            # Without the regulariser, so that it serves every lam.
            gram, sums = self.rows.moments(self.share)
            mean_squares = np.zeros((self.n_unknowns, self.n_unknowns), order="F")
            mean_squares[:d, :d] = gram
            if self.fit_intercept:
                mean_squares[d, :d] = sums
                mean_squares[d, d] = 1.0
            self.shared["curvature"] = mean_squares
        shared = self.shared.get("curvature")
        if shared is None:
            return None
        curvature = shared.copy(order="F")
        curvature[np.arange(d), np.arange(d)] += self.lam
        return curvature

    def smoothness(self) -> float:
        """Largest curvature of P, from 30 steps of the power method; phi'' is at most 1."""
        direction = np.random.default_rng(0).standard_normal(self.n_unknowns)
        largest = 0.0
        # The power method errs to the low side, and too low a bound would make the steps too long: the 5% at the end
        # stand for what 30 steps leave.
        for _ in range(30):
            direction /= max(float(np.linalg.norm(direction)), 1e-300)
            products = self.share * self.scores(direction)
            image = self.rows.tdot(products)
            direction = np.append(image, products.sum()) if self.fit_intercept else image
            largest = float(np.linalg.norm(direction))
        return 1.05 * largest + self.lam

    def radius(self) -> float:
        """Of a ball around 0 that holds the best w: `lam/2 |w|^2 <= P(0, b) <= phi(0)`."""
        return float(np.sqrt(2.0 * float(self.loss.value(0.0)) / self.lam))


def data_driven_scale(margins: Floats, share: Floats, factor: float) -> float:
    """`s^2 = factor` times the 75th percentile of the squared margins, the paper's robust stand-in for their variance.

    Raises
    ------
    DataError
        If that percentile is 0.
    """
    squares = margins**2
    order = np.argsort(squares, kind="stable")
    place = np.searchsorted(np.cumsum(share[order]), 0.75 * (1.0 - 1e-12) * share.sum())
    found = float(squares[order[min(int(place), order.shape[0] - 1)]])
    if not found > 0.0:
        raise DataError(
            "at least 75% of the margins are 0 and set no scale; give one by MarginPursuitClassifier(scale=...)."
        )
    return float(np.sqrt(factor * found))


def lemma_6_scale(margins: Floats, share: Floats, n: float, delta: float) -> float:
    """The scale of Lemma 6 for the mean of these margins, whose weights have the sum n.

    Raises
    ------
    DataError
        If all margins are equal.
    """
    mean = float(share @ margins)
    variance = float(share @ (margins - mean) ** 2)
    # Equal margins may differ from their mean by its rounding, which is no spread.
    if not variance > np.finfo(np.float64).eps * float(share @ margins**2):
        raise DataError("all margins are equal: they set no scale; see MarginPursuitClassifier(scale=...).")
    return float(catoni_scale(variance, n, delta))

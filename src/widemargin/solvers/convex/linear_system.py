"""The linear system of a Newton step over (w, b): factored, or solved by conjugate gradients where d is large.

    H = [X, -1]' diag(curvature) [X, -1] + lam diag(1, ..., 1, 0) + tau sum_j G_j G_j'

Both ways work in `(w, b - <centre, w>)`: the unregularised bias absorbs the mean of the features, so the rows may be
centred. The problem and its solution stay those of the caller; a column of mean 1e6 and spread 1 is then an ordinary
column to them. The size of a column does not matter either: a Cholesky factor does not care, and the conjugate
gradients are preconditioned by the diagonal.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.blas import dsymv, dsyrk

from widemargin._typing import Floats, Singles
from widemargin.linalg import cholesky, conjugate_gradients
from widemargin.linalg.matrix_blocks import RowBlocks

__all__ = [
    "BandGram", "BandMoments", "BandProducts", "BandRows", "Curvature", "FactoredSystem", "IterativeSystem", "Moments",
    "SystemOptions",
]  # fmt: skip


@dataclass(frozen=True)
class SystemOptions:
    """How exactly Newton systems are computed and solved. The steps may be rough: the certificate is always exact.

    Attributes
    ----------
    single_rows : float
        Rows of the band, in units of d, from which products are in float32: the rounding of so many rows averages out.
    rounding : float
        The regulariser beside the largest diagonal entry from which products may always be in float32: their error is
        then below a hundredth of it.
    single_factor : int
        Features from which a factor in float32 pays.
    coarse : float
        Share of the gradient: a step of a float32 factor that leaves more of it is no use.
    residual : float
        Share of the gradient, in the preconditioner's norm, at which conjugate gradients stop; 0.1 takes a third more
        Newton steps.
    most_products : int
        Of conjugate gradients for one step.
    corrected : float
        Multiplications for each row from which the sums over a band are corrected by what has changed since the last
        ones, which takes some ten passes over the rows. Fits of rows of 1,000 and 2,000 columns that had no part in the
        choice take 1.3 to 1.4 times as long without; at 300 columns there was nothing to gain.
    unchanged : float
        Share of a row's curvature below which a change does not count: multipliers move a little in every step. With
        .01 as many steps were taken as with none, with .1 a fiftieth more.
    cell_sums : int
        Numbers that the sums by cell may always take; with more they must stay below the size of the scores.
    """

    single_rows: float = 2.0
    rounding: float = 1e-5
    single_factor: int = 400
    coarse: float = 0.1
    residual: float = 0.03
    most_products: int = 300
    corrected: float = 20_000.0
    unchanged: float = 0.01
    cell_sums: int = 100_000


class Curvature(NamedTuple):
    """The parts of the Hessian besides the rows of the band.

    Attributes
    ----------
    border : ndarray of shape (a, d)
        Gradients G_j of the active constraints in w.
    border_totals : ndarray of shape (a,)
        Minus their derivatives in b.
    floor : float
        Curvature in b that counts as rounding.
    centre : ndarray of shape (d,) or None
        Mean of the rows; None without an intercept.
    """

    lam: float
    border: Floats
    border_totals: Floats
    tau: float
    floor: float
    centre: Floats | None


class Moments(NamedTuple):
    """Sums over the rows of the band, each times its curvature; those of several blocks of rows add up.

    Attributes
    ----------
    gram : ndarray of shape (d, d)
        Lower triangle in Fortran order, of the rows minus the centre where there is one.
    sums : ndarray of shape (d,)
        Of the same rows.
    total : float
        Of the curvatures alone.
    """

    gram: Floats
    sums: Floats
    total: float


class BandMoments(Protocol):
    """The rows of the band as a factored system needs them: by their sums."""

    def moments(self, lam: float, *, exact: bool = False) -> Moments:
        """The sums, all in double precision with `exact`, or where that matters beside the regulariser `lam`."""


class BandProducts(Protocol):
    """The same for an iterated system, which needs products with the rows where the curvature D is not zero."""

    def diagonal(self) -> tuple[Floats, Floats, float]:
        """Diagonal of `X' D X`, `X' D 1` and `1' D 1`."""

    def product(self, x: Floats, shift: float) -> tuple[Floats, float]:
        """`X' t` and `1' t` with `t = D (X x - shift)`."""


class _Centred:
    """Gradients and steps in the coordinates `(w, b - <centre, w>)`, and back; nothing to do without an intercept."""

    def __init__(self, curvature: Curvature, options: SystemOptions) -> None:
        self.curvature, self.centre, self.options = curvature, curvature.centre, options
        border, totals = curvature.border, curvature.border_totals
        if self.centre is not None:
            border = np.column_stack([border - totals[:, None] * self.centre, -totals])
        self.border = border

    def enter(self, gradient: Floats) -> Floats:
        """The same derivative in centred coordinates."""
        if self.centre is None:
            return gradient
        # With b' = b - <centre, w> a change of w at fixed b' moves b by <centre, dw>, and the derivative by b comes
        # along.
        moved = gradient.copy()
        moved[:-1] += gradient[-1] * self.centre
        return moved

    def leave(self, step: Floats) -> Floats:
        """A step in centred coordinates as a step of (w, b)."""
        if self.centre is None:
            return step
        moved = step.copy()
        moved[-1] += self.centre @ step[:-1]
        return moved


class _Summed(NamedTuple):
    """Sums over the rows of these curvatures, and whether they were taken in float32."""

    curvature: Singles
    gram: Floats
    sums: Floats
    single: bool


class BandGram:
    """`X' diag(curvature) X` and `X' curvature`."""

    def __init__(self, rows: RowBlocks, options: SystemOptions, *, centred: bool) -> None:
        self.rows, self.options, self.centred = rows, options, centred
        self._largest = np.inf  # the largest diagonal entry of the last matrix, for each unit of curvature
        self._last: _Summed | None = None

    def moments(self, curvature: Singles, lam: float, *, exact: bool = False) -> Moments:
        """The sums over the rows of these curvatures.

        Dense rows are multiplied in float32, unless `exact`, where the rounding is far below the regulariser `lam` or
        the band is wide.
        """
        # Float32 has seven digits. They are enough where the rounding of many rows averages out, and where the
        # regulariser is larger than what is lost.
        rows, options, d = self.rows, self.options, self.rows.n_features
        total, size = float(curvature.sum(dtype=np.float64)), int(np.count_nonzero(curvature))
        wide = size > options.single_rows * d
        single = not exact and bool(wide or lam > options.rounding * self._largest * total)
        # Sums that are kept take no more memory than the rows do.
        kept = not exact and d**2 <= rows.n_stored and size * d**2 > options.corrected * rows.n_rows
        last = self._last if kept and self._last is not None and single >= self._last.single else None
        factor, change = (0.0, curvature) if last is None else self._change(last.curvature, curvature, size)
        onto, self._last = None, None  # the last sums are changed in place, and none are kept if that is interrupted
        if last is not None and factor > 0.0:
            onto = last.gram, last.sums
            if factor != 1.0:
                cholesky.over_lower_triangle(partial(np.multiply, factor), last.gram, last.gram)
                last.sums[:] *= factor
            curvature = np.where(change == 0.0, np.float32(factor) * last.curvature, curvature)
        gram, sums = rows.moments(change, centred=self.centred, single=single, onto=onto)
        self._last = _Summed(curvature.copy(), gram, sums, single) if kept else None
        self._largest = float(gram.diagonal().max()) / total if total > 0.0 else np.inf
        return Moments(gram, sums, total)

    def _change(self, last: Singles, curvature: Singles, size: int) -> tuple[float, Singles]:
        """A factor on all curvatures, and what rows have beside it; factor 0 where most of the band has changed.

        From step to step few rows enter the band or leave it, and a new width of the hinges is one factor for all.
        """
        both = np.flatnonzero((last > 0.0) & (curvature > 0.0))
        factor = float(np.median(curvature[both] / last[both])) if both.shape[0] else 0.0
        change = curvature - np.float32(factor) * last
        change[np.abs(change) <= self.options.unchanged * curvature] = 0.0
        return (factor, change) if 2 * np.count_nonzero(change) < size else (0.0, curvature)


class BandRows:
    """The rows of the band themselves, for systems that are iterated.

    Parameters
    ----------
    curvature : ndarray of float32, shape (n,)
    """

    def __init__(self, rows: RowBlocks, curvature: Singles) -> None:
        band = np.flatnonzero(curvature)
        self._rows, self._scale = rows.take(band), curvature[band].astype(np.float64)

    def diagonal(self) -> tuple[Floats, Floats, float]:
        """See `BandProducts`."""
        return *self._rows.diagonal(self._scale), float(self._scale.sum())

    def product(self, x: Floats, shift: float) -> tuple[Floats, float]:
        """See `BandProducts`."""
        # Two products with the rows of the band stand in for the matrix, which is never formed.
        t = self._rows.dot(x)
        t -= shift
        t *= self._scale
        return self._rows.tdot(t), float(t.sum())


class FactoredSystem(_Centred):
    """Assembled and factored by Cholesky."""

    def __init__(self, curvature: Curvature, band: BandMoments, options: SystemOptions = SystemOptions()) -> None:
        super().__init__(curvature, options)
        # Numbers beyond the range of float32 become infinite; the factor then fails, and double precision is tried.
        with np.errstate(over="ignore", invalid="ignore"):
            moments = band.moments(curvature.lam)
        self._full = self._matrix(moments)
        try:
            self._lower = cholesky.factor(self._full, single=moments.sums.shape[0] >= self.options.single_factor)
        except np.linalg.LinAlgError:
            self._full = self._matrix(band.moments(curvature.lam, exact=True))
            self._lower = cholesky.factor(self._full)

    def _matrix(self, moments: Moments) -> Floats:
        """The Hessian's lower triangle in Fortran order."""
        d = moments.sums.shape[0]
        size = d if self.centre is None else d + 1
        matrix = np.empty((size, size), order="F")
        # The rows are centred, so the column of the bias holds sums that are nearly zero: features and bias hardly mix.
        cholesky.over_lower_triangle(np.copyto, matrix[:d, :d], moments.gram)
        if self.centre is not None:
            matrix[d, :d] = -moments.sums
            matrix[d, d] = moments.total + self.curvature.floor
        diagonal = matrix.reshape(-1, order="F")[:: size + 1]  # in place
        diagonal[:d] += self.curvature.lam
        if self.border.shape[0]:
            # Each active constraint adds the outer product of its gradient: a wall of slope tau.
            dsyrk(self.curvature.tau, self.border.T, beta=1.0, c=matrix, lower=1, overwrite_c=1)
        # Raised by more than its rounding, so that dependent columns do not fail; relative to each entry, because the
        # unit of a column is arbitrary.
        diagonal *= 1.0 + 1e-12
        return matrix

    def solve(self, gradient: Floats) -> Floats:
        """`H^-1 gradient`; a factor in float32 is followed by one correction, or replaced where that is too coarse."""
        right = self.enter(gradient)
        step = cholesky.solve(self._lower, right)
        if self._lower.dtype == np.float32:
            # Iterative refinement: the residual is computed in double precision and solved for with the same factor,
            # which brings back most of the digits that float32 has lost. The residual is compared with the gradient
            # after both are divided by the diagonal, because features come in different units.
            rest = right - dsymv(1.0, self._full, step, lower=1)
            scale = 1.0 / np.diagonal(self._full)
            if not rest @ (scale * rest) <= self.options.coarse**2 * (right @ (scale * right)):
                self._lower = cholesky.factor(self._full)
                return self.leave(cholesky.solve(self._lower, right))
            step += cholesky.solve(self._lower, rest)
        return self.leave(step)

    def estimate(self, gradient: Floats) -> float:
        """`gradient' H^-1 gradient`, without the correction."""
        return float(gradient @ self.leave(cholesky.solve(self._lower, self.enter(gradient))))


class IterativeSystem(_Centred):
    """Conjugate gradients on the rows of the band, which are all that a product with H has to touch."""

    def __init__(self, curvature: Curvature, band: BandProducts, options: SystemOptions = SystemOptions()) -> None:
        super().__init__(curvature, options)
        self._band = band
        # `sum_i D_i (x_ik - c_k)^2 = (X' D X)_kk - 2 c_k (X' D 1)_k + c_k^2 (1' D 1)`: the rows themselves are never
        # centred, because sparse rows would become dense. Rounding may leave a square below zero.
        diagonal, sums, total = band.diagonal()
        if self.centre is not None:
            centre = self.centre
            diagonal = np.maximum(diagonal - (2.0 * sums - total * centre) * centre, 0.0)
            diagonal = np.append(diagonal + curvature.lam, total + curvature.floor)
        else:
            diagonal = diagonal + curvature.lam
        self._diagonal = diagonal
        self._scaled = self.border / diagonal
        # What `precondition` has to invert: as many rows as there are active constraints.
        small = self.border @ self._scaled.T
        small[np.diag_indices_from(small)] += 1.0 / curvature.tau
        self._small = cholesky.factor(np.asfortranarray(small)) if small.size else None

    def product(self, v: Floats) -> Floats:
        """`H v` in centred coordinates."""
        centre, lam = self.centre, self.curvature.lam
        if centre is None:
            out, _ = self._band.product(v, 0.0)
            out += lam * v
        else:
            d = centre.shape[0]
            # A product with the centred rows, without centring them: the centre is taken off the scores and the sums.
            out, total = self._band.product(v[:d], float(centre @ v[:d] + v[d]))
            out -= total * centre
            out = np.append(out, self.curvature.floor * v[d] - total)
            out[:d] += lam * v[:d]
        if self.border.shape[0]:
            out += self.curvature.tau * (self.border.T @ (self.border @ v))
        return out

    def precondition(self, residual: Floats) -> Floats:
        """Solution of the system whose `X' diag(curvature) X` is its diagonal, the constraints' part included exactly.

        With a large tau that part is what makes the system hard; it has as few dimensions as constraints are active.
        """
        # By Woodbury: `(diag + tau B' B)^-1 = diag^-1 - diag^-1 B' (1/tau + B diag^-1 B')^-1 B diag^-1`, with the
        # factor of the small matrix from the constructor.
        z = residual / self._diagonal
        if self._small is not None:
            z -= self._scaled.T @ cholesky.solve(self._small, self._scaled @ residual)
        return z

    def solve(self, gradient: Floats) -> Floats:
        """`H^-1 gradient` until the preconditioned residual is small enough for a Newton step."""
        x, _ = conjugate_gradients.solve(
            self.product, self.precondition, self.enter(gradient), share=self.options.residual,
            most=self.options.most_products,
        )  # fmt: skip
        return self.leave(x)

    def estimate(self, gradient: Floats) -> float:
        """`gradient' P^-1 gradient` with the preconditioner P."""
        g = self.enter(gradient)
        return float(g @ self.precondition(g))

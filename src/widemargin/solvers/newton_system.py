"""The linear system of a Newton step over (w, b): factored, or solved by conjugate gradients where d is large.

    H = [X, -1]' diag(curvature) [X, -1] + lam diag(1, ..., 1, 0) + tau sum_j G_j G_j'

Both ways work in `(w, b - <centre, w>)`: the unregularised bias absorbs the mean of the features, so the rows may be
centred. The problem and its solution stay those of the caller; a column of mean 1e6 and spread 1 is then an ordinary
column to them. The size of a column does not matter either: a Cholesky factor does not care, and the conjugate
gradients are preconditioned by the diagonal.
"""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dsymv, dsyrk

from widemargin.linalg import cholesky
from widemargin.linalg.cells import Floats
from widemargin.linalg.rows import RowBlocks
from widemargin.solvers._loops import pmm_newton as loops

__all__ = ["BandGram", "Curvature", "FactoredSystem", "IterativeSystem", "NewtonSystem"]

Singles = npt.NDArray[np.float32]

_RIDGE = 1e-12  # relative, to every pivot
_CHANGE = 1e-2  # of a curvature that makes a row worth counting anew
_AFRESH = 0.7  # share of the band that has changed at which the matrix is better made afresh
_SINGLE = 2  # rows of the band, in units of d, from which products are in float32
_ROUNDING = 1e-5  # lam beside the diagonal at which they may always be: their error is below a hundredth of it
_LARGE = 400  # features from which a factor in float32 pays
_COARSE = 0.1  # of the gradient: a step of a float32 factor that leaves more is no use
_RESIDUAL = 0.03  # of the gradient, in the preconditioner's norm, at which they stop; 0.1 takes a third more steps
_MAX_PRODUCTS = 300


class Curvature(NamedTuple):
    """What the Hessian is made of.

    Attributes
    ----------
    by_row : ndarray of float32, shape (n,)
        Second derivatives, >= 0; zero outside the band.
    lam : float
    border : ndarray of shape (a, d)
        Gradients G_j of the active constraints in w.
    border_totals : ndarray of shape (a,)
        Minus their derivatives in b.
    tau : float
    floor : float
        Curvature in b that counts as rounding.
    """

    by_row: Singles
    lam: float
    border: Floats
    border_totals: Floats
    tau: float
    floor: float


class NewtonSystem(Protocol):
    """What a Newton method asks of a system."""

    def solve(self, gradient: Floats) -> Floats:
        """`H^-1 gradient`, shape (d,) or (d + 1,) with an intercept."""
        ...

    def estimate(self, gradient: Floats) -> float:
        """Order of magnitude of `gradient' H^-1 gradient`."""
        ...


class _Centred:
    """Gradients and steps in the coordinates `(w, b - <centre, w>)`, and back; nothing to do without an intercept."""

    def __init__(self, rows: RowBlocks, curvature: Curvature, fit_intercept: bool) -> None:
        self.rows, self.curvature, self.fit_intercept = rows, curvature, fit_intercept
        border, totals = curvature.border, curvature.border_totals
        if fit_intercept:
            border = np.column_stack([border - totals[:, None] * rows.centre, -totals])
        self.border = border

    def enter(self, gradient: Floats) -> Floats:
        """The same derivative in centred coordinates."""
        if not self.fit_intercept:
            return gradient
        return np.append(gradient[:-1] + gradient[-1] * self.rows.centre, gradient[-1])

    def leave(self, step: Floats) -> Floats:
        """A step in centred coordinates as a step of (w, b)."""
        if not self.fit_intercept:
            return step
        return np.append(step[:-1], step[-1] + float(self.rows.centre @ step[:-1]))


class BandGram:
    """`X' diag(curvature) X` and `X' curvature`, kept up to date.

    From one Newton step to the next few rows enter or leave the band, and to a next width the curvatures of the others
    only change by one factor: just the rows that differ by more than a hundredth are added to the matrix, or taken off.

    Parameters
    ----------
    rows : RowBlocks
    centred : bool
    """

    def __init__(self, rows: RowBlocks, centred: bool) -> None:
        self.rows, self.centred = rows, centred
        d = rows.n_features
        self.gram, self.sums, self.total = np.zeros((d, d), order="F"), np.zeros(d), 0.0
        self._known = np.zeros(rows.n_rows, dtype=np.float32)
        self._count = 0
        self.single = False

    def rescale(self, factor: float) -> None:
        """Multiply all curvatures by a factor."""
        self._known *= factor
        self.gram *= factor
        self.sums *= factor

    def update(self, curvature: Singles, lam: float, change: Floats, *, exact: bool = False) -> None:
        """Bring `gram` (lower triangle, Fortran order) and `sums` to these curvatures; `change` is work space.

        Dense rows are multiplied in float32, unless `exact`, where the rounding is far below the regulariser `lam` or
        the band is wide.
        """
        count = int(np.count_nonzero(curvature))
        wide = count > _SINGLE * self.rows.n_features
        harmless = self._count > 0 and lam > _ROUNDING * float(self.gram.diagonal().max())
        single = not exact and (wide or harmless)
        moved = loops.moved(curvature, self._known, _CHANGE, change)
        if exact or moved > _AFRESH * count or (self.single and not single):
            self._known[:] = curvature
            self.gram, self.sums = self.rows.moments(curvature, centred=self.centred, single=single)
            self.single = single
        else:
            gram, sums = self.rows.moments(change, centred=self.centred, single=single)
            self.gram += gram
            self.sums += sums
        self._count = count
        self.total = float(self._known.sum(dtype=np.float64))


class FactoredSystem(_Centred):
    """Assembled and factored by Cholesky.

    Parameters
    ----------
    band : BandGram
        The Gram matrix of the curvatures.
    """

    def __init__(
        self, rows: RowBlocks, curvature: Curvature, fit_intercept: bool, band: BandGram, work: Floats
    ) -> None:
        super().__init__(rows, curvature, fit_intercept)
        with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond float32
            band.update(curvature.by_row, curvature.lam, work)
        self._full = self._matrix(band)
        try:
            self._lower = cholesky.factor(self._full, single=band.single and rows.n_features >= _LARGE)
        except np.linalg.LinAlgError:
            band.update(curvature.by_row, curvature.lam, work, exact=True)
            self._full = self._matrix(band)
            self._lower = cholesky.factor(self._full)

    def _matrix(self, band: BandGram) -> Floats:
        """The Hessian's lower triangle in Fortran order."""
        d = self.rows.n_features
        size = d + 1 if self.fit_intercept else d
        matrix = np.zeros((size, size), order="F")
        matrix[:d, :d] = band.gram
        if self.fit_intercept:
            matrix[d, :d] = -band.sums
            matrix[d, d] = band.total + self.curvature.floor
        diagonal = np.arange(size)
        matrix[diagonal[:d], diagonal[:d]] += self.curvature.lam
        if self.border.shape[0]:
            matrix = dsyrk(self.curvature.tau, self.border.T, beta=1.0, c=matrix, lower=1, overwrite_c=1)
        matrix[diagonal, diagonal] *= 1.0 + _RIDGE
        return matrix

    def solve(self, gradient: Floats) -> Floats:
        """`H^-1 gradient`; a factor in float32 is followed by one correction, or replaced where that is too coarse."""
        right = self.enter(gradient)
        step = cholesky.solve(self._lower, right)
        if self._lower.dtype == np.float32:
            rest = right - dsymv(1.0, self._full, step, lower=1)
            scale = 1.0 / np.diagonal(self._full)
            if not rest @ (scale * rest) <= _COARSE**2 * (right @ (scale * right)):
                self._lower = cholesky.factor(self._full)
                return self.leave(cholesky.solve(self._lower, right))
            step += cholesky.solve(self._lower, rest)
        return self.leave(step)

    def estimate(self, gradient: Floats) -> float:
        """`gradient' H^-1 gradient`, without the correction."""
        return float(gradient @ self.leave(cholesky.solve(self._lower, self.enter(gradient))))


class IterativeSystem(_Centred):
    """Conjugate gradients on the rows of the band, which are all that a product with H has to touch."""

    def __init__(self, rows: RowBlocks, curvature: Curvature, fit_intercept: bool) -> None:
        super().__init__(rows, curvature, fit_intercept)
        band = np.flatnonzero(curvature.by_row)
        self._band, self._scale = rows.take(band), curvature.by_row[band].astype(np.float64)
        diagonal, sums = self._band.diagonal(self._scale)
        total = float(self._scale.sum())
        if fit_intercept:
            centre = rows.centre
            diagonal = np.maximum(diagonal - (2.0 * sums - total * centre) * centre, 0.0)
            diagonal = np.append(diagonal + curvature.lam, total + curvature.floor)
        else:
            diagonal = diagonal + curvature.lam
        self._diagonal = diagonal
        self._scaled = self.border / diagonal
        small = self.border @ self._scaled.T
        small[np.diag_indices_from(small)] += 1.0 / curvature.tau
        self._small = cholesky.factor(np.asfortranarray(small)) if small.size else None

    def product(self, v: Floats) -> Floats:
        """`H v` in centred coordinates."""
        d, lam = self.rows.n_features, self.curvature.lam
        t = self._band.dot(v[:d])
        if self.fit_intercept:
            t -= float(self.rows.centre @ v[:d]) + v[d]
        t *= self._scale
        out = self._band.tdot(t)
        if self.fit_intercept:
            total = float(t.sum())
            out -= total * self.rows.centre
            out = np.append(out, self.curvature.floor * v[d] - total)
        out[:d] += lam * v[:d]
        if self.border.shape[0]:
            out += self.curvature.tau * (self.border.T @ (self.border @ v))
        return out

    def precondition(self, residual: Floats) -> Floats:
        """Solution of the system whose `X' diag(curvature) X` is its diagonal, the constraints' part included exactly.

        With a large tau that part is what makes the system hard; it has as few dimensions as constraints are active.
        """
        z = residual / self._diagonal
        if self._small is not None:
            z -= self._scaled.T @ cholesky.solve(self._small, self._scaled @ residual)
        return z

    def solve(self, gradient: Floats) -> Floats:
        """`H^-1 gradient` until the preconditioned residual is small enough for a Newton step."""
        residual = self.enter(gradient)
        x = np.zeros_like(residual)
        z = self.precondition(residual)
        p, rz = z, float(residual @ z)
        goal = _RESIDUAL**2 * rz
        for _ in range(_MAX_PRODUCTS):
            if rz <= goal:
                break
            Hp = self.product(p)
            step = rz / float(p @ Hp)
            x += step * p
            residual = residual - step * Hp
            z = self.precondition(residual)
            before, rz = rz, float(residual @ z)
            p = z + (rz / before) * p
        return self.leave(x)

    def estimate(self, gradient: Floats) -> float:
        """`gradient' P^-1 gradient` with the preconditioner P."""
        g = self.enter(gradient)
        return float(g @ self.precondition(g))

"""Newton steps of the proximal method of multipliers on kernel rows: exact, on the whole kernel matrix.

The outer loop is that of `proximal`. The inner problem is minimised over `w = sum_i c_i phi(x_i)` and b, and its
Newton system `H (dw, db) = -gradient`, `H = lam + X' D X + tau X' G' G X`, is never built in the n coefficients. With
the second-order slopes `p = D dz + tau G' G dz` its first line says

    dw = -X' (s + lam c + p) / lam,

so only p is unknown, and p is zero outside the band where the curvature D is not, apart from the few columns of G (one
for each constraint whose multiplier is inside its range). What is factored is a matrix of the size of the band,

    [ lam / D + K_BB    K_B G'            ] [ q    ]
    [ G K_B             lam / tau + G K G'] [ zeta ],        p = q on the band, + G' zeta,

and a step costs products with the rows of K whose slopes have changed, and a third of the cube of the band, which
shrinks as the solution comes near.

The model that is returned is the one of the dual point, `c = -xi / lam`: rows whose hinges are flat have the
coefficient 0, exactly.
"""

from dataclasses import replace

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError, KernelError
from widemargin.linalg import cholesky
from widemargin.linalg.cells import fill_columns
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import CertifiedRecorder, ConstrainedHinge, ConvexState
from widemargin.solvers.convex.proximal import Line, NewtonOptions, ProximalRun, balance
from widemargin.solvers.convex.smoothed_hinges import NewtonRows, Width

__all__ = ["KernelRun"]


class KernelRun(ProximalRun):
    """The iterate on kernel rows: coefficients c, bias b, scores, and first derivatives by row with their products.

    Parameters
    ----------
    sub, rho, start, width, options
        As in `ProximalRun`; the rows are a `GramRows` whose matrix is in memory.

    Attributes
    ----------
    w : ndarray of shape (n,)
        The coefficients c.
    rise, fall : ndarrays of shape (n,)
        Slopes of the positive and of the negative sides, with their coefficients.
    slope : ndarray of shape (n,)
        Derivative of the smoothed Lagrangian with respect to each score, `s = rise - fall`.
    G : ndarray of shape (n, a)
        Slopes of the constraints whose multiplier is inside its range, G' of the module's head.
    K_slope, K_fall, KG : ndarrays
        K times these.
    """

    # Where the kernel is degenerate a search to the minimum was measured to stall at kinks: 300 steps in place of 25 to
    # a gap of 1e-7 with a polynomial kernel. Elsewhere it saves no steps.
    exact_search = False
    hinges: NewtonRows

    def __init__(
        self, sub: ConstrainedHinge, rho: float, start: ConvexState | None, width: float, options: NewtonOptions
    ) -> None:
        super().__init__(sub, rho, start, width, options)
        self.rows, n = sub.rows, sub.rows.n_rows
        self.K = self.rows.matrix
        if self.K is None:
            raise CapabilityError(
                f"solver 'newton' needs the whole kernel matrix of {n} rows in memory; use 'cutting-plane'."
            )
        up, um = np.zeros((2, n)) if start is None else np.array([start.up, start.um], dtype=np.float64)
        # The rows of K are features like others: products with slopes are sums of rows by cell, and as most slopes stay
        # from step to step, a few rows of K are read in place of all. These sums may grow to a quarter of K.
        system = replace(options.system, cell_sums=n * n // 4)
        scores, products = self.rows.dot(self.w) - self.b, RowBlocks([(self.K, None)])
        self.hinges = NewtonRows(sub, scores, up, um, system, iterative=True, rows=products)
        self._decrement = np.inf

    @property
    def z(self) -> Floats:
        """Scores."""
        return self.hinges.z

    def begin(self, gap: float) -> None:
        """See `ProximalRun`."""
        self._decrement = np.inf
        self._differentiate(0.0, afresh=gap < self.options.fine_gap)

    def _differentiate(self, step: float, *, afresh: bool = False) -> None:
        """Go a step along the direction; first derivatives there with their products, and the second ones by row."""
        sub, vh, cell = self.sub, self.here.vh, self.sub.cell
        active = np.flatnonzero((vh > 0.0) & (vh < self.rho))
        sums = self.hinges.slopes(step, vh, active, Width(self.delta, 0.0, first=False, afresh=afresh))[:, :-1]
        self.K_slope, self.K_fall, self.KG = sums[0] - sums[1], sums[1], sums[2:].T
        (A, B), plus, minus = sub.coef.per_cell(vh), self.hinges.plus, self.hinges.minus
        # One column a constraint inside its range: the rows' slopes times its coefficients.
        self.G = np.empty((cell.shape[0], active.shape[0]))
        fill_columns(*sub.coef.entries, sub.coef.places(active, sub.n_constraints), cell, plus, minus, self.G)
        self.rise, self.fall = plus * A[cell], minus * B[cell]
        self.slope = self.rise - self.fall

    def remaining(self) -> tuple[float, float]:
        """See `ProximalRun`; the decrement is that of the step just made, and the next one is shorter."""
        gradient, products = self._gradient()
        return self._decrement, max(float(gradient @ products), 0.0) / (2.0 * self.sub.lam)

    def _gradient(self) -> tuple[Floats, Floats]:
        """Coefficients of the gradient in w, and K times them."""
        lam = self.sub.lam
        return self.slope + lam * self.w, self.K_slope + lam * (self.z + self.b)

    def newton(self) -> Line:
        """See `ProximalRun`."""
        lam, (gradient, products) = self.sub.lam, self._gradient()
        # The system of the module's head for the unknowns (q, zeta).
        band, G, KG = np.flatnonzero(self.hinges.curvature), self.G, self.KG
        inner, size = band.shape[0], band.shape[0] + G.shape[1]
        matrix = np.empty((size, size), order="F")
        matrix[:inner, :inner] = self.K[np.ix_(band, band)].T  # K is symmetric: the transpose is in Fortran order.
        matrix[inner:, :inner] = KG[band].T
        matrix[inner:, inner:] = G.T @ KG
        diagonal = np.arange(size)
        # lam / D on the band, lam / tau on the constraints.
        matrix[diagonal[:inner], diagonal[:inner]] += lam / self.hinges.curvature[band]
        matrix[diagonal[inner:], diagonal[inner:]] += lam / self.tau
        # Two right-hand sides: the step for a fixed bias, and what a unit of bias adds to it.
        right = np.empty((size, 2), order="F")
        right[:inner, 0], right[inner:, 0] = -products[band], -(G.T @ products)
        right[:inner, 1], right[inner:, 1] = 1.0, G.sum(axis=0)
        try:
            # Of the size of the band, not of the rows: this is where kernel Newton saves.
            solved = cholesky.solve(cholesky.factor(matrix), right) if size else right
        except np.linalg.LinAlgError as error:
            raise KernelError(
                "the kernel is not positive semi-definite on the rows near the margin (no Cholesky factor). "
                "Use another kernel (rbf, laplacian, linear), or other parameters."
            ) from error
        q, db = solved[:, 0], 0.0
        if self.sub.fit_intercept:
            # The second line of the Newton system says that the slopes after the step sum to zero, because the bias
            # has no regulariser. The solution is linear in the change of the bias, so this is one equation for it.
            # Where the band is empty nothing bends along the bias, and 1e-12 keeps the quotient finite.
            wanted = float(self.slope.sum()) + float(right[:, 1] @ q)
            share = wanted / (float(right[:, 1] @ solved[:, 1]) + 1e-12)
            q, db = q - share * solved[:, 1], share / lam
        # p is known on the band and through the few columns of G; the rest of the direction follows from it.
        inside = np.zeros(G.shape[0])
        inside[band] = q[:inner]
        dc = -(gradient + inside + G @ q[inner:]) / lam
        change = -(products + self.hinges.rows.tdot(inside) + KG @ q[inner:]) / lam
        self._direction, self.hinges.dz = (dc, db), change - db
        initial = float(gradient @ change) - float(self.slope.sum()) * db
        self._decrement = -0.5 * initial
        return Line(initial, lam * float((self.z + self.b) @ dc), lam * float(dc @ change))

    def go(self, step: float) -> None:
        """See `ProximalRun`."""
        dc, db = self._direction
        self.w = self.w + step * dc
        self.b += step * db
        self._differentiate(step)

    def certify(self, recorder: CertifiedRecorder) -> None:
        """See `ProximalRun`; the primal point is the one that the dual point stands for."""
        sub, lam, vh = self.sub, self.sub.lam, self.here.vh
        rise, fall = float(self.rise.sum()), float(self.fall.sum())
        up, down = balance(rise, fall) if sub.fit_intercept else (1.0, 1.0)
        # The representer theorem: the dual point is a model, w = -X' xi / lam, whose scores are at hand.
        xi = up * self.rise - down * self.fall
        scores = -(up * self.K_slope + (up - down) * self.K_fall) / lam
        square = self.rows.square(-xi / lam, scores)
        dual = 0.5 * (up * rise + down * fall) - 0.5 * lam * square - float(vh @ sub.gamma) + sub.constant
        recorder.add_dual(dual, vh)
        loss, excess = sub.values(scores - self.b)
        recorder.add_point(-xi / lam, self.b, loss + 0.5 * lam * square, excess)

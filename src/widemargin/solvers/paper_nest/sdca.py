"""Stochastic dual coordinate ascent for an SVM with two weights a row (spec 1, section 4b; paper, appendix F.1).

    min_w  P(w) = sum_i plus_i max(0, 1/2 + z_i) + minus_i max(0, 1/2 - z_i) + lam/2 |w|^2,      z = X w - b, b fixed
    max_xi D(xi) = sum_i (plus_i + minus_i)/2 - |xi_i - plus_i + minus_i|/2 - |X' xi|^2 / (2 lam) - b sum xi

over `-minus <= xi <= plus`, with `w = -X' xi / lam`. The coordinate step is exact, the order of the rows is random.

Plain ascent crawls where lam is small beside the rows: a step of the dual is of size `lam / |x|^2`, so a variable needs
many visits to cross its box. Each pass here therefore runs on the proximal problem `P(w) + kappa/2 |w - y|^2` of
well-conditioned regulariser `lam + kappa`, and y follows its solution (the outer loop of Shalev-Shwartz and Zhang,
"Accelerated proximal stochastic dual coordinate ascent", 2014, without the extrapolation, which gained nothing here). A
start from zero runs down a ladder of larger regularisers first. On a9a at lam = 1/n a relative gap of 1e-3 takes 80
short epochs; plain ascent is at 2e-3 after 600. P and D above, at the true lam, are what is certified.

Steps are as short as the longest column is long, so a column that outweighs all lighter ones together gets a proximal
term of its own, as many times as strong. Its weight is then hardly regularised, and as for a bias the bound asks that
the products with its dual variables cancel: the larger side of them is scaled down before each check.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Floats
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, Shares
from widemargin.solvers.paper_nest import sdca_loops as loops

__all__ = ["Ascent", "AscentResult", "DualValue", "KernelAscent", "PrimalPoint", "ascent_for"]

_CHUNK = 16  # neighbours visited together: single rows cost four times as much, in cache misses
_LONGEST_REST = 31
_SWEEPS = 5  # of the heavy columns, where there are several
_PROXIMAL = 2.0  # proximal regulariser in units of the mean of |x|^2 (plus + minus): a step crosses half a box
_LADDER = (30.0, 10.0, 3.0)  # regularisers of a cold start, same unit
_STAGE = 5  # epochs between two moves of the proximal centre, and on each rung of the ladder
_HEAVY = 10.0  # times the squares of all lighter columns: less was measured to be no hindrance
_CHECK_VISITS = 2.0  # a check costs about as much as n visits
_CHECK_EPOCHS = 50


class PrimalPoint(NamedTuple):
    """A weight vector w, its products `s = X w`, and `square = |w|^2`."""

    w: Floats
    s: Floats
    square: float


class DualValue(NamedTuple):
    """Dual value of the current xi, the sum of xi (minus its slope in b), and `g = X' xi` (coefficients of it)."""

    value: float
    total: float
    g: Floats


class AscentResult(NamedTuple):
    """Certificate for fixed side weights and fixed b: `dual.value <= min P <= primal`, the latter at `point`.

    `epochs` counts passes, those that skip resting rows too.
    """

    point: PrimalPoint
    primal: float
    dual: DualValue
    epochs: int

    @property
    def gap(self) -> float:
        """`primal - dual.value`."""
        return self.primal - self.dual.value


class Ascent:
    """Solver for one set of rows; side weights and b may change from call to call, and xi stays warm.

    Parameters
    ----------
    rows : RowBlocks
    lam : float
        Regulariser, beside a sum (not a mean) over the rows.
    seed : int, default=0
        Seed of the order of the rows.
    max_epochs : int, default=50000
        Most passes, all calls together.

    Attributes
    ----------
    xi, plus, minus : ndarray of shape (n,)
    point : PrimalPoint
        Best primal point of the last call.
    n_epochs : int
        Passes over the rows so far.
    """

    rows: Any

    def __init__(self, rows: RowBlocks | GramRows, lam: float, *, seed: int = 0, max_epochs: int = 50_000) -> None:
        n = rows.n_rows
        self.rows, self.lam = rows, lam
        self.plus, self.minus, self.xi = np.zeros(n), np.zeros(n), np.zeros(n)
        self.point = PrimalPoint(np.zeros(rows.n_features), np.zeros(n), 0.0)
        self.n_epochs, self.max_epochs = 0, max_epochs
        self._rng = np.random.default_rng(seed)
        self._ratio, self._heavy = _heavy_columns(rows)
        light = (self._ratio == 1.0).astype(np.float64)
        self._norms2 = self.rows.norms2(light) if self._heavy else rows.norms2()  # of the ordinary columns
        self._rest, self._delay = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
        self._move_to(np.zeros(rows.n_features))
        self._centre = self._w
        self._metric = 0.0, self._ratio, self._norms2
        self._cold = True

    def set_sides(self, plus: Floats, minus: Floats) -> None:
        """Change the side weights (the arrays are kept); xi is clipped into its new box.

        Clipping leaves most of `X' xi`, and so most of the dual value, as it was. Keeping every variable's share of its
        box instead was measured to cost 30-70 % more epochs on a9a.
        """
        self.plus, self.minus = plus, minus
        np.clip(self.xi, -minus, plus, out=self.xi)

    def warm_start(self, w: Floats, up: Shares, um: Shares) -> None:
        """Begin at `xi = plus up - minus um` and the primal point w; call it after `set_sides`."""
        loops.xi_from_shares(up, um, self.plus, self.minus, self.xi)
        self.point = self.at(w)
        self._cold = False

    def at(self, w: Floats) -> PrimalPoint:
        """The point w with its products; one pass over the rows."""
        s = self.rows.dot(w)
        return PrimalPoint(w.copy(), s, self.rows.square(w, s))

    def primal(self, point: PrimalPoint, b: float) -> float:
        """P at a point."""
        return loops.hinge_sum(point.s, b, self.plus, self.minus) + 0.5 * self.lam * point.square

    def dual(self, b: float) -> DualValue:
        """D at xi; one pass over the rows."""
        g = self.rows.tdot(self.xi)
        value, total = loops.dual_sums(self.xi, self.plus, self.minus)
        return DualValue(value - self.rows.square(g) / (2.0 * self.lam) - b * total, total, g)

    def epoch(self, b: float, regulariser: float) -> int:
        """One pass in random order on the problem of that regulariser; returns the number of rows looked at."""
        visits = 0
        scale, q = self._scaled(regulariser)
        for block in self.rows.blocks:
            at, n = block.place, block.row_of.shape[0]
            size = max(1, min(_CHUNK, n // 256))
            chunks = self._rng.permutation(-(-n // size))
            shared: tuple[Any, ...] = (
                chunks, size, self._rest[at], self._delay[at], _LONGEST_REST,
                self.plus[at], self.minus[at], q[at], self.xi[at], self._w, b, scale,
            )  # fmt: skip
            if sp.issparse(block.X):
                visits += loops.epoch_csr(*block.csr, *shared)
            else:
                visits += loops.epoch_dense(block.X, block.row_of, *shared)
        self.n_epochs += 1
        return visits

    def _scaled(self, regulariser: float) -> tuple[Floats, Floats]:
        """One over the regulariser of each column, and the squared norms of the rows in that metric."""
        if self._metric[0] != regulariser:
            scale = 1.0 / (regulariser * self._ratio)
            q = self._norms2 / regulariser
            for k, column in self._heavy:
                q += scale[k] * column**2
            self._metric = regulariser, scale, q
        return self._metric[1:]

    def solve(self, b: float, eps: float, *, budget: Budget | None = None) -> AscentResult:
        """Ascend until `primal - dual <= eps`.

        Parameters
        ----------
        b : float
        eps : float
            Absolute gap.
        budget : Budget, optional

        Returns
        -------
        AscentResult
            Its gap is above `eps` only where `max_epochs` or the budget ended the run.
        """
        first = self.n_epochs
        primal, dual = self.primal(self.point, b), self.dual(b)
        proximal = self.lam
        if primal - dual.value > eps:
            self._rest[:], self._delay[:] = 0, 0
            unit = float(self._norms2 @ (self.plus + self.minus)) / max(self._norms2.shape[0], 1)
            proximal = max(self.lam, _PROXIMAL * unit)
            if self._cold:
                self._descend_ladder(b, unit, proximal)
                primal = self._offer(self._w, b, primal)
                self._balance()
                dual = self.dual(b)
                self._cold = False
            self._centre = self.point.w
        while primal - dual.value > eps and self.n_epochs < self.max_epochs:
            metric = proximal * self._ratio
            self._move_to(((metric - self.lam) * self._centre - dual.g) / metric)  # afresh: increments drift
            primal = self._offer(self._run(b, proximal), b, primal)
            self._balance()
            dual = self.dual(b)
            if budget is not None and budget.exhausted:
                break
        return AscentResult(self.point, primal, dual, self.n_epochs - first)

    def _move_to(self, w: Floats) -> None:
        """Set the iterate w, the minimiser of the proximal problem's Lagrangian at xi."""
        self._w = w

    def _run(self, b: float, proximal: float) -> Floats:
        """Epochs until a check is due; the mean of the iterates, a better primal point than the last of them."""
        pull = 1.0 - self.lam / (proximal * self._ratio)
        pulling = bool(np.any(pull > 0.0))
        mean, visits, epochs = np.zeros_like(self._w), 0, 0
        while visits < _CHECK_VISITS * self.xi.shape[0] and epochs < _CHECK_EPOCHS:
            visits += self.epoch(b, proximal)
            mean += self._w
            epochs += 1
            if pulling and self.n_epochs % _STAGE == 0:
                centre = self._w.copy()
                self._move_to(centre + pull * (centre - self._centre))
                self._centre = centre
        return mean / epochs

    def _balance(self) -> None:
        """Make the products of xi with the heavy columns what the best point asks of them: `X' xi = -lam w`."""
        for _ in range(_SWEEPS if len(self._heavy) > 1 else 1):
            for k, column in self._heavy:
                loops.balance_column(self.xi, column, -self.lam * float(self.point.w[k]))

    def _descend_ladder(self, b: float, unit: float, proximal: float) -> None:
        """A few epochs at each of the regularisers from large to `proximal`, from xi = 0."""
        for rung in _LADDER:
            if rung * unit > proximal:
                self._move_to(-self.rows.tdot(self.xi) / (rung * unit * self._ratio))
                for _ in range(_STAGE):
                    self.epoch(b, rung * unit)
                self._rest[:], self._delay[:] = 0, 0

    def _offer(self, w: Floats, b: float, primal: float) -> float:
        """Make w the best point if it is better than one of value `primal`; the best value."""
        point = self.at(w)
        value = self.primal(point, b)
        if value < primal:
            self.point = point
            return value
        return primal


class KernelAscent(Ascent):
    """Ascent for kernel rows (F.3 of the paper): w is a combination of the rows, and a visit reads its score.

    A change of one variable changes the scores of all rows by a row of the kernel matrix, which is why only the rows
    that would move are fetched. The certificate is the same: `|w|^2 = c' K c`.
    """

    rows: GramRows

    def epoch(self, b: float, regulariser: float) -> int:
        """One pass in random order on the problem of that regulariser; returns the number of rows looked at."""
        order = self._rng.permutation(self.rows.n_rows)
        scale, visits = 1.0 / regulariser, 0
        for low in range(0, order.shape[0], self.rows.batch):
            state = (self.plus, self.minus, self._norms2, self.xi)
            picked = order[low : low + self.rows.batch].copy()
            resting = (self._rest, self._delay, _LONGEST_REST)
            looked, moving = loops.pick_moving(picked, *resting, *state, self._s, b, scale)
            visits += looked
            if moving:
                buffer, slot = self.rows.some(picked[:moving])
                loops.ascend_kernel(buffer, slot, picked[:moving], *state, self._w, self._s, b, scale)
        self.n_epochs += 1
        return visits

    def _move_to(self, w: Floats) -> None:
        self._w = w
        self._s = self.rows.dot(w)


def _heavy_columns(rows: RowBlocks | GramRows) -> tuple[Floats, list[tuple[int, Floats]]]:
    """Strength of each column's proximal term beside an ordinary one's, shape (d,), and the columns where it is not 1.

    Those come with their entries, shape (n,). Coefficients of kernel rows are not columns: one strength for all, 1.
    """
    if isinstance(rows, GramRows):
        return np.ones(1), []
    squares, _ = rows.diagonal(np.ones(rows.n_rows))
    order = np.argsort(squares)
    lighter = np.concatenate([[0.0], np.cumsum(squares[order])])
    first = order.shape[0]
    while first > 0 and squares[order[first - 1]] > _HEAVY * lighter[first - 1] > 0.0:
        first -= 1
    ratio, heavy = np.ones(rows.n_features), []
    for k in order[first:].tolist():
        ratio[k] = squares[k] / lighter[first]
        one = np.zeros(rows.n_features)
        one[k] = 1.0
        heavy.append((k, rows.dot(one)))
    return ratio, heavy


def ascent_for(rows: RowBlocks | GramRows, lam: float, *, seed: int = 0, max_epochs: int = 50_000) -> Ascent:
    """The ascent that fits the rows: on features, or on a kernel matrix."""
    kind = KernelAscent if isinstance(rows, GramRows) else Ascent
    return kind(rows, lam, seed=seed, max_epochs=max_epochs)

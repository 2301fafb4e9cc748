"""Stochastic dual coordinate ascent for an SVM with two weights a row (the paper's appendix F.1).

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

A row whose variable stays where it is rests: it is looked at again after 1, 3, 7, ... epochs (shrinking without a
threshold to choose; nothing is ever dropped for good).

On kernel rows (appendix F.3) w is a combination of the rows, and a visit reads the score of its row: `KernelAscent`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from widemargin._numba import kernel
from widemargin._typing import Flags, Floats, Integers, Reals
from widemargin.linalg.gram import GramRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, Shares
from widemargin.solvers.paper_nest import weighted_hinges as hinges

__all__ = [
    "Ascent", "AscentOptions", "AscentResult", "DualRows", "DualValue", "KernelAscent", "PrimalPoint",
    "ascend_kernel", "ascent_for", "coordinate_step", "epoch_csr", "epoch_dense", "pick_moving",
]  # fmt: skip


@dataclass(frozen=True)
class AscentOptions:
    """What coordinate ascent trades.

    Attributes
    ----------
    chunk : int
        Neighbouring rows visited together. Larger reads memory in longer runs and makes the order less random: single
        rows cost four times as much, in cache misses.
    longest_rest : int
        Most epochs that a resting row is left out. Larger saves visits and notices later that a row should move.
    sweeps : int
        Passes over the heavy columns in a balance, where there are several: each disturbs the others a little.
    proximal : float
        Proximal regulariser in units of the mean of `|x|^2 (plus + minus)`: at that size a step crosses half a box.
        Larger steps further in the dual and moves the proximal centre more slowly.
    ladder : tuple of float
        Regularisers of a cold start, same unit. Without them the first epochs move w to where only strong losses count.
    stage : int
        Epochs between two moves of the proximal centre, and on each rung of the ladder. Fewer leave each proximal
        problem too far from solved, more solve it better than the next move can use.
    heavy : float
        How many times the squares of all lighter columns make a column heavy; less was measured to be no hindrance.
    check_visits : float
        Visits between two checks, in units of n: a check costs about as much as n visits.
    check_epochs : int
        Epochs between two checks at most, where nearly all rows rest.
    """

    chunk: int = 16
    longest_rest: int = 31
    sweeps: int = 5
    proximal: float = 2.0
    ladder: tuple[float, ...] = (30.0, 10.0, 3.0)
    stage: int = 5
    heavy: float = 10.0
    check_visits: float = 2.0
    check_epochs: int = 50


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

    def __init__(
        self,
        rows: RowBlocks | GramRows,
        lam: float,
        *,
        seed: int = 0,
        max_epochs: int = 50_000,
        options: AscentOptions | None = None,
    ) -> None:
        n = rows.n_rows
        self.options = options or AscentOptions()
        self.rows, self.lam = rows, lam
        self.plus, self.minus, self.xi = np.zeros(n), np.zeros(n), np.zeros(n)
        self.point = PrimalPoint(np.zeros(rows.n_features), np.zeros(n), 0.0)
        self.n_epochs, self.max_epochs = 0, max_epochs
        self._rng = np.random.default_rng(seed)
        self._ratio, self._heavy = self._heavy_columns()
        # Heavy columns have a metric of their own, so the norms of the rest do not change with it.
        light = (self._ratio == 1.0).astype(np.float64)
        self._norms2 = self.rows.norms2(light) if self._heavy else rows.norms2()
        self._rest, self._delay = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
        self._move_to(np.zeros(rows.n_features))
        self._centre = self._w
        self._metric = 0.0, self._ratio, self._norms2
        self._cold = True

    def _heavy_columns(self) -> tuple[Floats, list[tuple[int, Floats]]]:
        """Strength of each column's proximal term beside an ordinary one's, shape (d,), and the columns where it is not
        1, with their entries, shape (n,)."""
        # From the heaviest column down, as long as each outweighs all lighter ones together.
        squares, _ = self.rows.diagonal(np.ones(self.rows.n_rows))
        order = np.argsort(squares)
        lighter = np.concatenate([[0.0], np.cumsum(squares[order])])
        first = order.shape[0]
        while first > 0 and squares[order[first - 1]] > self.options.heavy * lighter[first - 1] > 0.0:
            first -= 1
        ratio, heavy = np.ones(self.rows.n_features), []
        for k in order[first:].tolist():
            ratio[k] = squares[k] / lighter[first]
            one = np.zeros(self.rows.n_features)
            one[k] = 1.0
            heavy.append((k, self.rows.dot(one)))
        return ratio, heavy

    def set_sides(self, plus: Floats, minus: Floats) -> None:
        """Change the side weights (the arrays are kept); xi is clipped into its new box.

        Clipping leaves most of `X' xi`, and so most of the dual value, as it was. Keeping every variable's share of its
        box instead was measured to cost 30-70 % more epochs on a9a.
        """
        self.plus, self.minus = plus, minus
        np.clip(self.xi, -minus, plus, out=self.xi)

    def warm_start(self, w: Floats, up: Shares, um: Shares) -> None:
        """Begin at `xi = plus up - minus um` and the primal point w; call it after `set_sides`."""
        hinges.xi_from_shares(up, um, self.plus, self.minus, self.xi)
        self.point = self.at(w)
        self._cold = False

    def at(self, w: Floats) -> PrimalPoint:
        """The point w with its products; one pass over the rows."""
        s = self.rows.dot(w)
        return PrimalPoint(w.copy(), s, self.rows.square(w, s))

    def primal(self, point: PrimalPoint, b: float) -> float:
        """P at a point."""
        return hinges.hinge_sum(point.s, b, self.plus, self.minus) + 0.5 * self.lam * point.square

    def dual(self, b: float) -> DualValue:
        """D at xi; one pass over the rows."""
        # w is changed step by step and drifts by rounding; the dual value is of xi alone, so its products are summed
        # afresh.
        g = self.rows.tdot(self.xi)
        value, total = hinges.dual_sums(self.xi, self.plus, self.minus)
        return DualValue(value - self.rows.square(g) / (2.0 * self.lam) - b * total, total, g)

    def epoch(self, b: float, regulariser: float) -> int:
        """One pass in random order on the problem of that regulariser; returns the number of rows looked at."""
        visits = 0
        # One over the regulariser of each column, and the squared norms of the rows in that metric. They change on the
        # ladder and with the side weights only: not worth a pass over the rows each epoch.
        if self._metric[0] != regulariser:
            scale = 1.0 / (regulariser * self._ratio)
            q = self._norms2 / regulariser
            for k, column in self._heavy:
                q += scale[k] * column**2
            self._metric = regulariser, scale, q
        _, scale, q = self._metric
        for block in self.rows.blocks:
            at, n = block.place, block.row_of.shape[0]
            # Few rows are visited one by one, so that there are enough chunks to shuffle.
            size = max(1, min(self.options.chunk, n // 256))
            chunks = self._rng.permutation(-(-n // size))
            dual = DualRows(self.plus[at], self.minus[at], q[at], self.xi[at], self._rest[at], self._delay[at])
            shared: tuple[Any, ...] = (block.row_of, chunks, size, dual, self.options.longest_rest, self._w, b, scale)
            if sp.issparse(block.X):
                visits += epoch_csr(*block.csr, *shared)
            else:
                visits += epoch_dense(block.X, *shared)
        self.n_epochs += 1
        return visits

    def solve(self, b: float, eps: float, *, budget: Budget | None = None) -> AscentResult:
        """Ascend until `primal - dual <= eps`.

        Parameters
        ----------
        eps : float
            Absolute gap.

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
            # In this unit a step of the dual crosses about the box of a row of mean size.
            unit = float(self._norms2 @ (self.plus + self.minus)) / max(self._norms2.shape[0], 1)
            proximal = max(self.lam, self.options.proximal * unit)
            # From xi = 0 all first steps point the same way, and large regularisers keep their sum from carrying w far
            # beyond the solution.
            if self._cold:
                for rung in self.options.ladder:
                    if rung * unit > proximal:
                        self._move_to(-self.rows.tdot(self.xi) / (rung * unit * self._ratio))
                        for _ in range(self.options.stage):
                            self.epoch(b, rung * unit)
                        self._rest[:], self._delay[:] = 0, 0
                primal = self._offer(self._w, b, primal)
                self._balance()
                dual = self.dual(b)
                self._cold = False
            self._centre = self.point.w
        while primal - dual.value > eps and self.n_epochs < self.max_epochs:
            metric = proximal * self._ratio
            self._move_to(((metric - self.lam) * self._centre - dual.g) / metric)  # afresh: increments drift
            # The certificate is of the true problem at the regulariser lam, whatever the proximal problem has led to.
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
        # The iterate follows from the dual variables and the centre, `w = (kappa centre - X' xi) / (lam + kappa)`, so a
        # move of the centre moves w by the share `kappa / (lam + kappa)` of it.
        pull = 1.0 - self.lam / (proximal * self._ratio)
        pulling = bool(np.any(pull > 0.0))
        mean, visits, epochs = np.zeros_like(self._w), 0, 0
        while visits < self.options.check_visits * self.xi.shape[0] and epochs < self.options.check_epochs:
            visits += self.epoch(b, proximal)
            mean += self._w
            epochs += 1
            if pulling and self.n_epochs % self.options.stage == 0:
                centre = self._w.copy()
                self._move_to(centre + pull * (centre - self._centre))
                self._centre = centre
        return mean / epochs

    def _balance(self) -> None:
        """Make the products of xi with the heavy columns what the best point asks of them: `X' xi = -lam w`."""
        for _ in range(self.options.sweeps if len(self._heavy) > 1 else 1):
            for k, column in self._heavy:
                hinges.balance_column(self.xi, column, -self.lam * float(self.point.w[k]))

    def _offer(self, w: Floats, b: float, primal: float) -> float:
        """Make w the best point if it is better than one of value `primal`; the best value."""
        point = self.at(w)
        value = self.primal(point, b)
        # The iterates of coordinate ascent get worse now and then, and a certificate needs the best of them only.
        if value < primal:
            self.point = point
            return value
        return primal


class DualRows(NamedTuple):
    """The dual variables of the rows that a pass visits, each array of shape (n,).

    Attributes
    ----------
    plus, minus : ndarray
        The box of each variable, `-minus <= xi <= plus`.
    q : ndarray
        `|x|^2` over the regulariser.
    xi : ndarray
    rest : ndarray of uint8
        How many more visits a row is passed over.
    delay : ndarray of uint8
        How many visits it was passed over last.
    """

    plus: Floats
    minus: Floats
    q: Floats
    xi: Floats
    rest: Flags
    delay: Flags


@kernel
def coordinate_step(z: float, xi: float, plus: float, minus: float, q: float) -> float:
    """Exact maximiser of the dual in one variable; z is the score with `xi` in place, `q = |x|^2 / lam`."""
    kink = plus - minus
    if q <= 0.0:  # an all-zero row: its score does not move, and the dual is linear on both sides of the kink
        if z > 0.5:
            return plus
        if z < -0.5:
            return -minus
        return kink
    # The dual is a parabola with a kink: its maximum is that of one branch, or the kink where neither reaches over.
    right = xi + (z - 0.5) / q
    if right > kink:
        return min(right, plus)
    left = xi + (z + 0.5) / q
    if left < kink:
        return max(left, -minus)
    return kink


@kernel
def epoch_csr(
    data: Reals, indices: Integers, indptr: Integers, row_of: Integers, chunks: Integers, size: int, dual: DualRows,
    longest: int, w: Floats, b: float, scale: Floats,
) -> int:  # fmt: skip
    """Change the variables and w by one epoch over a CSR block; return the number of rows looked at.

    Rows are visited in chunks of `size` neighbours (memory is read in runs) in the order `chunks`. `scale` is one over
    the regulariser of each column, so that w loses `scale * change * x`, and `q[i]` is `sum_k scale_k x_ik^2`.
    """
    plus, minus, q, xi, rest, delay = dual
    visits = 0
    for t in range(chunks.shape[0]):
        start = chunks[t] * size
        for i in range(start, min(start + size, xi.shape[0])):
            if rest[i] > 0:
                rest[i] -= 1
                continue
            visits += 1
            r = row_of[i]
            low, high = indptr[r], indptr[r + 1]
            # w follows every step, so this is the score with all variables as they are now.
            z = -b
            for k in range(low, high):
                z += data[k] * w[indices[k]]
            new = coordinate_step(z, xi[i], plus[i], minus[i], q[i])
            change = new - xi[i]
            if change == 0.0:
                # A variable at an end of its box seldom leaves it again, so the row rests twice as long after each
                # visit in vain. Nothing is lost: the gap is always computed from all rows.
                delay[i] = min(longest, 2 * delay[i] + 1)
                rest[i] = delay[i]
                continue
            delay[i] = 0
            xi[i] = new
            # w = -X' xi in the metric of the columns, so it moves with every dual variable.
            for k in range(low, high):
                w[indices[k]] -= change * scale[indices[k]] * data[k]
    return visits


@kernel
def epoch_dense(
    X: Reals, row_of: Integers, chunks: Integers, size: int, dual: DualRows, longest: int, w: Floats, b: float,
    scale: Floats,
) -> int:  # fmt: skip
    """Change the variables and w by one epoch over a dense block; the twin of `epoch_csr`."""
    plus, minus, q, xi, rest, delay = dual
    visits = 0
    d = w.shape[0]
    for t in range(chunks.shape[0]):
        start = chunks[t] * size
        for i in range(start, min(start + size, xi.shape[0])):
            if rest[i] > 0:
                rest[i] -= 1
                continue
            visits += 1
            r = row_of[i]
            even, odd = -b, 0.0  # two sums hide the latency of the additions
            for k in range(0, d - 1, 2):
                even += X[r, k] * w[k]
                odd += X[r, k + 1] * w[k + 1]
            if d % 2 == 1:
                even += X[r, d - 1] * w[d - 1]
            new = coordinate_step(even + odd, xi[i], plus[i], minus[i], q[i])
            change = new - xi[i]
            if change == 0.0:
                delay[i] = min(longest, 2 * delay[i] + 1)
                rest[i] = delay[i]
                continue
            delay[i] = 0
            xi[i] = new
            for k in range(d):
                w[k] -= change * scale[k] * X[r, k]
    return visits


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
        dual = DualRows(self.plus, self.minus, scale * self._norms2, self.xi, self._rest, self._delay)
        # Fetching a kernel row costs as much as many steps. So the rows that would move are found first, from their
        # scores alone, and only these are fetched, a batch at a time.
        for low in range(0, order.shape[0], self.rows.batch):
            picked = order[low : low + self.rows.batch].copy()
            looked, moving = pick_moving(picked, dual, self.options.longest_rest, self._s, b)
            visits += looked
            if moving:
                buffer, slot = self.rows.some(picked[:moving])
                ascend_kernel(buffer, slot, picked[:moving], dual, self._w, self._s, b, scale)
        self.n_epochs += 1
        return visits

    def _heavy_columns(self) -> tuple[Floats, list[tuple[int, Floats]]]:
        """Coefficients of kernel rows are not columns: one strength for all, 1."""
        return np.ones(1), []

    def _move_to(self, w: Floats) -> None:
        self._w = w
        self._s = self.rows.dot(w)


def ascent_for(rows: RowBlocks | GramRows, lam: float, *, seed: int = 0, max_epochs: int = 50_000) -> Ascent:
    """The ascent that fits the rows: on features, or on a kernel matrix."""
    kind = KernelAscent if isinstance(rows, GramRows) else Ascent
    return kind(rows, lam, seed=seed, max_epochs=max_epochs)


@kernel
def pick_moving(rows: Integers, dual: DualRows, longest: int, s: Floats, b: float) -> tuple[int, int]:
    """Move to the front of `rows` those that would move at the present scores `s - b`, and let the others rest.

    Returns the number of rows looked at and the number of those that would move.
    """
    plus, minus, q, xi, rest, delay = dual
    visits = 0
    moving = 0
    for k in range(rows.shape[0]):
        i = rows[k]
        if rest[i] > 0:
            rest[i] -= 1
            continue
        visits += 1
        if coordinate_step(s[i] - b, xi[i], plus[i], minus[i], q[i]) == xi[i]:
            # A variable that its bound holds seldom leaves it, so every visit in vain doubles the pause until the next.
            delay[i] = min(longest, 2 * delay[i] + 1)
            rest[i] = delay[i]
            continue
        delay[i] = 0
        # The front of the array collects the rows that move; the order among them stays random.
        rows[k] = rows[moving]
        rows[moving] = i
        moving += 1
    return visits, moving


@kernel
def ascend_kernel(
    K: Reals, slot: Integers, rows: Integers, dual: DualRows, c: Floats, s: Floats, b: float, scale: float
) -> None:
    """Change `xi`, the coefficients c and the scores `s = K c` by one step for each of `rows`.

    Row `rows[k]` of the kernel matrix is `K[slot[k]]`.
    """
    plus, minus, q, xi, _, _ = dual
    for k in range(rows.shape[0]):
        i = rows[k]
        # The steps before have moved the scores since the row was picked: its step is found anew, and may be none.
        new = coordinate_step(s[i] - b, xi[i], plus[i], minus[i], q[i])
        change = new - xi[i]
        if change == 0.0:
            continue
        xi[i] = new
        # In the coefficients and the scores a step of the dual counts by one over the regulariser.
        change *= scale
        c[i] -= change
        row = K[slot[k]]
        for j in range(s.shape[0]):
            s[j] -= change * row[j]

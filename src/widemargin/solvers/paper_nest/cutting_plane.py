"""The paper's own solver: cutting plane over the multipliers, around a weighted SVM (Algorithm 2).

The dual function `F(v) = min_{w,b} Psi(w, b, v)` is concave, and `Psi(w_s, b_s, .)` is affine in v for a fixed point.
So every primal point is a cut: `F(v) <= f_s + c_s . v` with objective f_s and excesses c_s. The maximum of the cuts
over a box, an LP in m + 1 variables, is the upper bound U; SDCA (and the bias search) give lower bounds. Where to look
next is the business of a chooser (`multiplier_search.py`).

Two things are added to Algorithm 2. The LP's own multipliers weigh the points into one, `w = sum_s theta_s w_s`
(Dantzig and Wolfe): by convexity its objective is at most U and its excesses at most those of the LP, so it is the
primal solution, and as a cut it is lower than the cuts it is made of. And the box starts small and grows where the
multipliers press against it, up to `rho`, the weight of the exact penalty, or up to a limit beyond which the problem is
called infeasible.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget, CertifiedRecorder, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.highs import CutModel
from widemargin.solvers.paper_nest import weighted_hinges as hinges
from widemargin.solvers.paper_nest.bias_search import BiasChooser, BiasSearch, minimisation
from widemargin.solvers.paper_nest.multiplier_search import Chooser, CutRegion, LevelMethod, NextMultipliers
from widemargin.solvers.paper_nest.sdca import Ascent, ascent_for

__all__ = ["CutModel", "NestOptions", "solve"]


@dataclass(frozen=True)
class NestOptions:
    """What the nest trades.

    Attributes
    ----------
    first_box : float
        Where the box of a multiplier ends at first. Small keeps the first cuts' maxima from jumping to multipliers that
        are far too large; multipliers are of size 1 where a constraint weighs as much as the objective.
    growth : float
        By how much a side grows where the multipliers press against it. Larger reaches large multipliers in fewer
        SVMs, and lets the cuts jump farther beyond small ones.
    pressing : float
        Share of a side from which on an SVM says that the side is too short. Larger waits for a look nearer the end.
    first_eps : float
        Relative accuracy of the first SVM, where there are constraints: its cut is far from the solution anyway.
    least_eps : float
        An SVM is never asked for more than this share of `tol`. Smaller costs epochs; at 1 or above the gap could not
        close, for the other part of it is left to the cuts.
    limit : float
        Where the weight of the exact penalty is infinite, the multiplier beyond which the problem is called infeasible.
        Smaller gives up sooner, and wrongly where a constraint is in much larger units than the objective.
    """

    first_box: float = 1.0
    growth: float = 4.0
    pressing: float = 0.5
    first_eps: float = 1e-2
    least_eps: float = 0.25
    limit: float = 1e4


def solve(
    sub: ConstrainedHinge,
    *,
    tol: float = 1e-3,
    start: ConvexState | None = None,
    rho: float = np.inf,
    max_iter: int = 200,
    max_epochs: int = 50_000,
    seed: int = 0,
    budget: Budget | None = None,
    chooser: Chooser | None = None,
    bias_chooser: BiasChooser = minimisation,
    options: NestOptions | None = None,
) -> ConvexResult:
    """Solve the convex subproblem by Algorithm 2.

    Parameters
    ----------
    tol : float, default=1e-3
        Relative duality gap to reach. On a9a 1e-6 was measured to take three to five times the time of 1e-4.
    start : ConvexState, optional
        Warm start: the state of an earlier result on the same rows.
    rho : float, default=inf
        Upper end of the multipliers, the weight of the exact penalty.
    max_iter : int, default=200
        Most SVMs solved.
    max_epochs : int, default=50000
        Most passes over the rows, those that skip resting rows too. Badly scaled columns need many.
    seed : int, default=0
        Seed of the order of the rows.
    budget : Budget, optional
        Told after every SVM; looked at within them too.
    chooser : callable, optional
        Where to look next, and how accurately: a `Chooser`; None is the level method. Over 13 convex steps on a9a with
        one to ten constraints, to a gap of 1e-4, it took 575 epochs (geometric mean), the paper's choosers 830. With
        ten constraints it solved 16 SVMs, maximisation 46, centres of mass 26; with one, centres of mass are as quick.
    bias_chooser : callable
        A `BiasChooser`.

    Returns
    -------
    ConvexResult
        `primal` charges violations at `min(rho, 2 max(v, 0.1))`; `n_iter` counts SVMs; `history` has one entry each.
        Status INFEASIBLE: the lower bound still grew at the limit (multiplied by `limit`, the violation that is left).
    """
    options, choose = options or NestOptions(), chooser or LevelMethod()
    recorder = CertifiedRecorder(rho, budget or Budget(), tol, "cutting plane")
    ascent = ascent_for(sub.rows, sub.lam, seed=seed, max_epochs=max_epochs)
    nest = _Nest.begin(sub, ascent, start, recorder, options, bias_chooser)
    # Without constraints the first SVM is the whole problem.
    eps = (options.first_eps if sub.n_constraints else 0.5 * tol) * abs(nest.value[0])
    v = nest.peak
    for iteration in range(1, max_iter + 1):
        hopeless = nest.look(v, eps)
        region = nest.region()
        nest.offer()
        violation, epochs = float(recorder.best.excess.max(initial=0.0)), ascent.n_epochs
        closed = recorder.look(iteration, violation=violation, upper=float(region.upper), epochs=float(epochs))
        if closed or hopeless or recorder.budget.exhausted or epochs >= max_epochs:
            break
        # Where the cuts still rise at the limit of a multiplier, solving an SVM at their maximum tells whether the dual
        # function rises, too: then the constraints cannot be met.
        at_the_limit = ((region.peak >= options.limit) & (region.peak < rho)).any()
        peak = NextMultipliers(region.peak, 0.5 * (region.upper - region.lower))
        v, eps = peak if at_the_limit else choose(region)
        eps = max(eps, options.least_eps * tol * abs(recorder.primal))
    status = Status.INFEASIBLE if hopeless and not closed else None
    return replace(recorder.result(iteration, nest.state(), status=status), n_epochs=epochs)


@dataclass
class _Nest:
    """The state of Algorithm 2: the ascent, the cuts with their points, and the best point and lower bound."""

    sub: ConstrainedHinge
    recorder: CertifiedRecorder
    options: NestOptions
    ascent: Ascent
    search: BiasSearch | None
    cuts: CutModel
    best_xi: Floats
    peak: Floats
    w: list[Floats] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    excess: list[Floats] = field(default_factory=list)

    @classmethod
    def begin(
        cls, sub: ConstrainedHinge, ascent: Ascent, start: ConvexState | None, recorder: CertifiedRecorder,
        options: NestOptions, bias_chooser: BiasChooser,
    ) -> "_Nest":  # fmt: skip
        """Start at w = 0 and v = 0, or warm; the starting point is the first cut."""
        # Multipliers of an earlier problem may lie above the price that is asked now.
        v = np.zeros(sub.n_constraints) if start is None else np.minimum(start.v, recorder.rho)
        ascent.set_sides(*_set_sides(sub, v, ascent.plus, ascent.minus))
        if start is not None:
            ascent.warm_start(start.w, start.up, start.um)
        b = start.b if start is not None and sub.fit_intercept else 0.0
        search = BiasSearch(ascent, bias_chooser, b=b) if sub.fit_intercept else None
        # Room for a warm start to grow to twice its multipliers before the box has to.
        top = np.minimum(recorder.rho, np.maximum(options.first_box, 2.0 * v))
        nest = cls(sub, recorder, options, ascent, search, CutModel(top), ascent.xi.copy(), v)
        nest.add(ascent.point.w, ascent.point.s, b)
        return nest

    def add(self, w: Floats, s: Floats, b: float) -> None:
        """Add the point (w, b), whose products are s, and its cut."""
        # The dual function is a minimum over points, and the Lagrangian at any one point is `value + v . excess`, a
        # plane in v. So every point gives a plane that lies above the dual function everywhere.
        loss, excess = self.sub.values(s - b)
        self.w.append(w)
        self.b.append(b)
        self.value.append(loss + 0.5 * self.sub.lam * self.sub.rows.square(w, s))
        self.excess.append(excess)
        self.cuts.add(self.value[-1], excess)

    def look(self, v: Floats, eps: float) -> bool:
        """Solve the SVM at v to accuracy eps, keep its point and bound, widen the box; True where that is hopeless."""
        sub, ascent, recorder = self.sub, self.ascent, self.recorder
        ascent.set_sides(*_set_sides(sub, v, ascent.plus, ascent.minus))
        if self.search is None:
            flat = ascent.solve(0.0, eps, budget=recorder.budget)
            point, b, dual = flat.point, 0.0, flat.dual.value
        else:
            result = self.search.solve(eps, budget=recorder.budget)
            point, b, dual = result.point, result.b, result.dual
        # The SVM charges the constraints at v; what they may use up, v . gamma, is free.
        lower = dual + sub.constant - float(v @ sub.gamma)
        if lower > recorder.dual:
            self.best_xi = ascent.xi.copy()
        recorder.add_dual(lower, v)
        self.add(point.w, point.s, b)
        # A side of the box is too short where the cuts' maximum and this SVM both lie near its end, and the constraint
        # is still violated: its multiplier wants to grow.
        hopeless = False
        pressing = (self.peak >= 0.999 * self.cuts.top) & (self.excess[-1] > 0.0) & (v < recorder.rho)
        pressing &= v >= self.options.pressing * self.cuts.top
        for j in np.flatnonzero(pressing).tolist():
            if self.cuts.top[j] < self.options.limit:
                # Grown by a factor, because a box as wide as the largest multiplier may become would send the first
                # cuts to its corners, where SVMs say nothing.
                self.cuts.widen(j, min(recorder.rho, self.options.limit, self.options.growth * self.cuts.top[j]))
            else:  # F grows here, certainly where the SVM is solved well enough to say so
                hopeless |= lower > 0.5 * (self.value[-1] + float(v @ self.excess[-1]))
        return hopeless

    def region(self) -> CutRegion:
        """Where the maximum may lie, after adding the mean of the points by the weights of the LP."""
        upper, self.peak, theta = self.cuts.maximise()
        if np.count_nonzero(theta > 1e-9) > 1:  # the mean of one point is that point
            w, b = theta @ np.asarray(self.w), float(theta @ np.asarray(self.b))
            # By convexity its objective is at most the mean of theirs, and its excesses at most those of the LP.
            self.add(w, self.sub.rows.dot(w), b)
            upper, self.peak, _ = self.cuts.maximise()
        cuts = np.asarray(self.value), np.asarray(self.excess)
        top = self.cuts.top.copy()
        return CutRegion(*cuts, top, self.recorder.dual, upper, self.peak, self.recorder.multipliers)

    def offer(self) -> None:
        """Offer the best of all points under the present penalty, which may be another one than before."""
        charged = np.asarray(self.value) + np.maximum(np.asarray(self.excess), 0.0) @ self.recorder.penalty
        best = int(np.argmin(charged))
        self.recorder.add_point(self.w[best], self.b[best], self.value[best], self.excess[best])

    def state(self) -> ConvexState:
        """Warm start: the best point, and the dual point of the best lower bound as shares."""
        point, v = self.recorder.best, self.recorder.multipliers
        plus, minus = self.ascent.plus, self.ascent.minus  # the ascent is over
        # The shares belong to the side weights of the best multipliers, not to those of the last SVM.
        _set_sides(self.sub, v, plus, minus)
        up, um = np.empty(plus.shape[0], np.float32), np.empty(plus.shape[0], np.float32)
        hinges.shares(self.best_xi, plus, minus, up, um)
        return ConvexState(point.w, point.b, up, um, v)


def _set_sides(sub: ConstrainedHinge, v: Floats, plus: Floats, minus: Floats) -> tuple[Floats, Floats]:
    """Set `plus` and `minus` to the weights of the two hinges of each row at multipliers v; return them."""
    hinges.side_weights(sub.weight, sub.cell, sub.keep, *sub.coef.per_cell(v), plus, minus)
    return plus, minus

"""A bundle method over rows in blocks: no d x d sums, one call of the blocks an iteration.

A look at a point (w, b) gives the loss and the m constraints, all sums of hinges, with a subgradient each: a *cut*, a
linear function that lies below the loss or the constraint everywhere. The largest of the cuts (and zero) is a model of
each of the 1 + m functions h. With the penalty rho the problem of the models, the *master*,

    min_{w,b}  lam/2 |w|^2 + h_0 + rho sum_j max(0, h_j - gamma_j),

has as many dual variables theta >= 0 as there are cuts; those of the loss sum to one, those of constraint j to its
multiplier, at most rho. Its optimum is a lower bound (Teo, Vishwanathan, Smola and Le 2010). The next look is not at
its solution, which jumps about while cuts are few, but at the point nearest to the best one found where the models have
come a part of the way down to the bound: the level method of Lemarechal, Nemirovskii and Nesterov (1995). With the
multiplier mu of the level that point minimises the master plus `mu/2 |w - best|^2`, a programme over the same cuts.

Measured on text rows (20,000 of 1000 to 30,000 features, 4 constraints, lambda = 10 / n): 9 to 10 looks to a gap of
1e-2, 16 to 17 to 1e-3, 29 to 32 to 1e-4. At 1000 features looks at the minimiser of the master took 26 and 46 to the
first two, a line search to it (OCAS, Franc and Sonnenburg 2009) 13 and 21, with more calls. Cuts of each cell and side
of the hinges apart save no looks.
"""

from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.base import Block
from widemargin.distributed.blocked_rows import block_scores
from widemargin.solvers.base import Budget, ConvexResult, ConvexState, Status
from widemargin.solvers.convex.certificate import Bracket
from widemargin.solvers.convex.level_master import Cuts, Master
from widemargin.solvers.convex.newton_blocks import BlockedHinge, Opening, Variant, block_problem, open_hinges
from widemargin.solvers.convex.newton_rows import HingeRows, NewtonRows, Width

__all__ = ["solve"]

_LEVELS = 0.2, 0.6  # of the way from the bound to the best value, where the model is to be at the next point
_TRIALS = 6  # values of mu for a level
_FACTOR = 4.0
_FURTHEST = 1e6  # of mu, in units of lambda
_ACCURATE = 0.01  # of the tolerance: gap of a master
_TINY = 1e-6  # objectives are about one
_EXACT = Width(1e-30, 0.0, False, True)  # slopes of the hinges themselves, not smoothed


def solve(
    sub: BlockedHinge,
    *,
    tol: float = 1e-4,
    start: ConvexState | None = None,
    rho: float = 1.0,
    max_iter: int = 1000,
    budget: Budget | None = None,
) -> ConvexResult:
    """Solve the convex subproblem, with a penalty `rho` on every constraint.

    Parameters
    ----------
    sub : BlockedHinge
    tol : float, default=1e-4
        Relative duality gap to reach.
    start : ConvexState, optional
        Only its (w, b) is used; by default the first look is at the point where the majorisation is tight.
    rho : float, default=1.0
        Upper end of the multipliers, the weight of the exact penalty; finite.
    max_iter : int, default=1000
        Most looks.
    budget : Budget, optional
        Told after every look.

    Returns
    -------
    ConvexResult
        `n_iter` counts looks: one call of the blocks each, for two products with the rows (`rows.n_passes` counts
        both). `history` has one entry each. Infeasible constraints show by their multipliers: they end at `rho`.

    Raises
    ------
    ValueError
        If rho is infinite, or zero.
    numpy.linalg.LinAlgError
        If products of gradients overflow.
    """
    if not 0.0 < rho < np.inf:
        raise ValueError(f"rho is {rho}; the bundle method needs a finite penalty above zero")
    budget = budget or Budget()
    began = budget.elapsed
    sub.rows.blocks.advance(open_hinges, Opening(sub.at, None), restart=True)
    sub.rows.n_passes += 1
    search, best = _Search(sub, rho), Bracket(rho)
    w, b = (sub.at.w, sub.at.b) if start is None else (start.w, start.b)
    history: list[dict[str, float]] = []
    status = Status.MAX_ITER
    while True:
        loss, excess = search.look(w, b)
        objective = loss + 0.5 * sub.lam * float(w @ w)
        accuracy = _ACCURATE * tol * max(min(best.primal, objective), _TINY)
        bound, v = search.master.bound(accuracy)
        best.add_dual(bound + sub.constant, v)
        best.add_point(w, b, objective, excess)
        seconds = budget.elapsed - began
        history.append({"primal": best.primal, "dual": best.dual, "cuts": float(len(search.cuts)), "seconds": seconds})
        budget.tell("bundle", len(history), best.primal, best.gap, float(best.excess.max(initial=0.0)))
        if best.gap <= tol:
            status = Status.CONVERGED
        elif budget.exhausted:
            status = Status.TIME_LIMIT
        if status is not Status.MAX_ITER or len(history) >= max_iter:
            break
        w, b = search.next_point(best, accuracy)
    nothing = np.zeros(0, np.float32)
    return ConvexResult(
        w=best.w,
        b=best.b,
        multipliers=best.v,
        primal=best.primal,
        dual=best.dual,
        gap=best.gap,
        violation=best.excess,
        status=status,
        n_iter=len(history),
        n_epochs=0,
        seconds=budget.elapsed - began,
        state=ConvexState(best.w, best.b, nothing, nothing, best.v),
        history=tuple(history),
    )


class _Look(NamedTuple):
    """At which model a block is to look, and by which problem."""

    variant: Variant
    w: Floats
    b: float


class _Search:
    """The looks so far: the cuts and where to look next.

    Points are (w, b) with the bias of centred rows, `b - centre . w`: gradients at the mean keep the digits of the
    spread where columns have large means.
    """

    def __init__(self, sub: BlockedHinge, rho: float) -> None:
        self.sub, self.mu = sub, sub.lam
        self.centre = sub.rows.centre if sub.fit_intercept else np.zeros(sub.rows.n_features)
        self.cuts = Cuts(sub.rows.n_features)
        self.master = Master(self.cuts, sub.gamma, sub.lam, rho, with_bias=sub.fit_intercept)

    def look(self, w: Floats, b: float) -> tuple[float, Floats]:
        """Loss and excess of the constraints at a point, whose cuts are added."""
        sub = self.sub
        value, sums = sub.rows.blocks.sum(_cuts, _Look(sub.variant, w, b))
        sub.rows.n_passes += 2
        total = sums[:, -1]
        self.cuts.add(w, b - float(self.centre @ w), value, sums[:, :-1] - np.outer(total, self.centre), -total)
        return float(value[0]) + sub.constant, value[1:] - sub.gamma

    def next_point(self, best: Bracket, tol: float) -> tuple[Floats, float]:
        """The point nearest to the best one where the models are as low as the level asks, about."""
        least, most = 0.0, np.inf
        room = best.primal - best.dual
        for _ in range(_TRIALS):
            w, b = self.master.near(best.w, self.mu, tol)
            value, *bounded = self.cuts.models(w, b, 1 + self.sub.gamma.shape[0])
            charged = best.penalty @ np.maximum(np.asarray(bounded) - self.sub.gamma, 0.0)
            level = (value + self.sub.constant + 0.5 * self.sub.lam * float(w @ w) + charged - best.dual) / room
            if level > _LEVELS[1]:
                most = self.mu
            elif level < _LEVELS[0]:
                least = self.mu
            else:
                break
            self.mu = float(np.clip(_between(least, most), self.sub.lam / _FURTHEST, self.sub.lam * _FURTHEST))
        return w, b + float(self.centre @ w)


def _between(least: float, most: float) -> float:
    """A weight between two, or beyond the one that is known."""
    if least == 0.0:
        return most / _FACTOR
    return least * _FACTOR if most == np.inf else float(np.sqrt(least * most))


# what runs where a block is


def _cuts(block: Block, message: _Look) -> tuple[Floats, Floats]:
    """Values of loss and constraints, shape (1 + m,), and derivatives by w and by -b, shape (1 + m, d + 1)."""
    sub: HingeRows = block_problem(block, message.variant).hinges(block.state.keep)
    z, m = block_scores(block, message.w, message.b), sub.n_constraints
    nothing = np.zeros(z.shape[0], np.float32)
    rows = NewtonRows(sub, z, nothing, nothing, iterative=True)
    rise, fall, *others = rows.slopes(0.0, np.zeros(m), np.arange(m), _EXACT)
    loss, constraints = sub.values(z)
    return np.append(loss, constraints), np.stack([rise - fall, *others])

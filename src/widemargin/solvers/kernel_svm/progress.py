"""How a kernel solver is watched: looks on a schedule of evaluations, the history, the rule, the best iterate."""

from collections.abc import Mapping

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.hold_out import HoldOut
from widemargin.solvers.kernel_svm.problem import KernelProblem

__all__ = ["RATIO", "ROUGH", "Best", "Watch"]

RATIO = 1.1
"""Kernel evaluations between two looks, as a factor."""

ROUGH = 1.0
"""Violation above which the error on rows held out says nothing yet: margins are still off by more than themselves.

That is the distance between two sides; without a bias there is one, and half of it. `w = 0` is above either.
"""

_EARLY_ROWS, _EARLY_SHARE = 64, 10
"""The hold-out rule counts work from below zero: so many kernel rows, or one for so many of all rows.

It ends a run whose work has doubled in vain, and two steps are twice as many as one.
"""

_FROM_CACHE = 0.1
"""A step counts as so much of a kernel row, besides the rows that are computed: once all are cached work goes on."""


class Best:
    """The iterate of the least primal value that was looked at: what a run returns that ends before it has converged.

    The last one may be far worse where C is large: the dual rises with every step, the primal does not fall with it.

    Attributes
    ----------
    primal : float
        The least; infinite before the first look.
    dual : float
        The largest dual value, a lower bound of the optimum as every one of them.
    """

    def __init__(self) -> None:
        self.primal, self.dual = np.inf, -np.inf
        self._coef: Floats = np.empty(0)
        self._scores: Floats = np.empty(0)

    def offer(self, facts: Mapping[str, float], coef: Floats, scores: Floats) -> None:
        """Remember an iterate, by copies, if its `primal` is known and the least; and its `dual`, if that is known."""
        self.dual = max(self.dual, facts.get("dual", -np.inf))
        if facts.get("primal", np.inf) < self.primal:
            self.primal, self._coef, self._scores = facts["primal"], coef.copy(), scores.copy()

    def restore(self, primal: float, coef: Floats, scores: Floats) -> bool:
        """Overwrite an iterate of this primal value by the best one, where that is better."""
        if not self.primal < primal:
            return False
        coef[:], scores[:] = self._coef, self._scores
        return True


class Watch:
    """Looks at the iterates of a run.

    Parameters
    ----------
    problem : KernelProblem
    stage : str
        Name of the solver for callbacks.
    budget : Budget
    tol : float or None
        None: the rule of `solvers.hold_out` ends the run.

    Attributes
    ----------
    history : list of dict
        `iteration`, `seconds`, `evaluations` (since the counter of the rows began), what the solver knows, and
        `held_out_error` where rows are held out.
    rule : HoldOut or None
        With the iterate of the least error.
    best : Best
        The iterate of the least primal value.

    Raises
    ------
    CapabilityError
        If `tol` is None and no row is held out.
    """

    def __init__(self, problem: KernelProblem, stage: str, budget: Budget, tol: float | None) -> None:
        self.rule = HoldOut(problem) if tol is None else None
        self.history: list[dict[str, float]] = []
        self.best = Best()
        self._problem, self._stage, self._budget = problem, stage, budget
        self._first, self._next, self._later = problem.rows.evaluations, 0.0, 0.0
        self._head_start = problem.n_rows * max(_EARLY_ROWS, problem.n_rows // _EARLY_SHARE)
        self._rough = ROUGH if problem.fit_intercept else 0.5 * ROUGH
        self._errors = HoldOut(problem) if (problem.upper == 0.0).any() else None

    @property
    def work(self) -> int:
        """Kernel evaluations of this run so far."""
        return self._problem.rows.evaluations - self._first

    def due(self, iteration: int) -> bool:
        """Whether the schedule asks for a look: by the work or, where the cache saves all of it, by the iterations."""
        return self.work >= self._next or iteration >= self._later

    def look(
        self, iteration: int, coef: Floats, scores: Floats, intercept: float, facts: dict[str, float], *,
        judge: bool = True,
    ) -> bool:  # fmt: skip
        """Write down what is known, tell the callbacks; True if the hold-out rule ends the run.

        Parameters
        ----------
        iteration : int
        coef, scores : ndarray of shape (n,)
            `scores = K coef`.
        intercept : float
        facts : dict
            `primal`, `dual`, `violation`, as far as they are known. The hold-out rule does not judge an iterate of a
            violation above `ROUGH`.
        judge : bool, default=True
            Whether the hold-out rule may judge this iterate: False where the solver knows that it is too rough.
        """
        self._next = RATIO * self.work
        self._later = RATIO * iteration + self._problem.n_rows
        entry = {
            "iteration": float(iteration),
            "seconds": self._budget.elapsed,
            "evaluations": float(self._problem.rows.evaluations),
            **facts,
        }
        if self._errors is not None:
            entry["held_out_error"] = self._errors.error(scores, intercept)
        self.history.append(entry)
        self.best.offer(facts, coef, scores)
        primal, dual = facts.get("primal", np.nan), facts.get("dual", np.nan)
        gap = (primal - dual) / max(abs(primal), 1e-300)
        self._budget.tell(self._stage, iteration, dual, gap, facts.get("violation", np.nan))
        if self.rule is None or not judge or facts.get("violation", 0.0) > self._rough:
            return False
        steps = _FROM_CACHE * self._problem.n_rows * iteration
        return self.rule.look(self._head_start + self.work + steps, coef, scores, intercept)

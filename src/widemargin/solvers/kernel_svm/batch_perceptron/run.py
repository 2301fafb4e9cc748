"""The loop that every form of the stochastic batch perceptron runs: level, draw, step, and now and then a look."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.batch_perceptron.direction import Direction, Sampler
from widemargin.solvers.kernel_svm.batch_perceptron.water_level import Level
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult
from widemargin.solvers.kernel_svm.stopping import HoldOut, HoldOutOptions
from widemargin.solvers.recorder import Recorder

__all__ = ["Form", "Judged", "SBPResult", "relative_weight", "run"]


@dataclass(frozen=True)
class SBPResult(KernelResult):
    """A `KernelResult` with what the batch perceptron knows besides.

    `primal` and `dual` are those of the form that was solved: of the C form the SVM objective and a lower bound; of the
    slack-constrained form `-margin` and minus an upper bound of the margin.

    Attributes
    ----------
    nu : float
        Mean slack in units of the normalised direction: given, or in the C form mean hinge loss divided by |w|.
    margin : float
        gamma of the direction of norm at most 1.
    covered : float
        Rows covered (in each class where there is a bias), weights relative to the largest.
    held_out_error : float
        Of this model, where the hold-out rule ended the run; else NaN.
    """

    nu: float = math.nan
    margin: float = math.nan
    covered: float = math.nan
    held_out_error: float = math.nan


class Judged(NamedTuple):
    """A direction as a classifier of margin 1, with the value of its form's objective (to be minimised)."""

    coef: Floats
    scores: Floats
    intercept: float
    primal: float
    margin: float
    nu: float
    covered: float


class Form(Protocol):
    """What tells the two forms apart."""

    def level(self, direction: Direction) -> Level:
        """Level of the responses of `direction.scores`."""
        ...

    def judge(self, coef: Floats, scores: Floats) -> Judged:
        """A direction, of any norm, as a classifier."""
        ...

    def bound(self, mass: Floats, norm: float) -> float:
        """Bound of the objective from a law of rows whose mixture `sum_i mass_i y_i phi(x_i)` has this norm."""
        ...


def relative_weight(problem: KernelProblem) -> Floats:
    """Weights of rows relative to the largest, shape (n,); 0 for rows held out."""
    return problem.upper / max(float(problem.upper.max(initial=0.0)), 1e-300)


def run(
    problem: KernelProblem, form: Form, direction: Direction, sampler: Sampler, *, tol: float | None, budget: Budget,
    max_iter: int, cache: bool, least: int,
) -> SBPResult:  # fmt: skip
    """Move a direction until the stopping rule of `tol` holds, or the budget ends.

    Parameters
    ----------
    problem : KernelProblem
    form : Form
    direction : Direction
    sampler : Sampler
    tol : float or None
        Largest relative gap; None stops by the rows held out.
    budget : Budget
    max_iter : int
        Largest number of steps.
    cache : bool
        Whether the rows of a step go through the cache.
    least : int
        Steps before the first look at the rows held out.
    """
    rule = HoldOut(problem, least=least) if tol is None else None
    look = _Looks(problem, form, direction, sampler, budget, cache)
    converged = False
    try:
        while direction.steps < max_iter and not (converged or budget.exhausted):
            rows, mass = sampler.draw(direction.scores, form.level(direction))
            sampler.keep(direction.advance(rows, mass, cache=cache))
            if direction.steps >= look.next:
                at = look()
                if rule is None:
                    converged = tol is not None and look.gap_of(at) <= tol
                elif rule.due(direction.steps):
                    converged = rule.look(direction.steps, at.coef, at.scores, at.intercept)
    except KeyboardInterrupt:
        budget.interrupted = True
    held_out_error = math.nan
    if rule is not None and rule.best is not None:
        at, held_out_error = form.judge(rule.best.coef, rule.best.scores), rule.best.error
    else:
        at = form.judge(direction.mean_coef, direction.mean_scores)
    look.certify(final=True)
    converged = converged or (tol is not None and look.gap_of(at) <= tol)
    return SBPResult(
        at.coef, at.intercept, at.primal, look.dual, math.nan, look.status(converged=converged), direction.steps,
        problem.rows.evaluations, budget.elapsed, tuple(look.history), False, at.nu, at.margin, at.covered,
        held_out_error,
    )  # fmt: skip


class _Looks(Recorder[Judged]):
    """Judges the average on a geometric schedule of steps, and keeps the best bound.

    The average is the better the later it is, so no best point is remembered.
    """

    def __init__(
        self, problem: KernelProblem, form: Form, direction: Direction, sampler: Sampler, budget: Budget, cache: bool
    ) -> None:
        super().__init__("batch perceptron", budget, 0.0, lambda point: point)
        self._problem, self._form, self._direction, self._sampler = problem, form, direction, sampler
        self._cache, self.next, self._next_law = cache, 1, 1.0
        self._errors = HoldOut(problem) if (problem.upper == 0.0).any() else None

    def __call__(self) -> Judged:
        direction = self._direction
        self.next = max(direction.steps + 1, math.ceil(HoldOutOptions.ratio * direction.steps))
        at = self._form.judge(direction.mean_coef, direction.mean_scores)
        self.certify()
        self.history.append(
            {
                "seconds": self.budget.elapsed,
                "evaluations": float(self._problem.rows.evaluations),
                "steps": float(direction.steps),
                "primal": at.primal,
                "dual": self.dual,
                "covered": at.covered,
            }
        )
        if self._errors is not None:
            self.history[-1]["held_out_error"] = self._errors.error(at.scores, at.intercept)
        self.budget.tell("batch perceptron", direction.steps, at.primal, self.gap_of(at), math.nan)
        return at

    def gap_of(self, at: Judged) -> float:
        """Relative gap of a judged direction."""
        return (at.primal - self.dual) / max(abs(at.primal), 1e-300)

    def certify(self, final: bool = False) -> None:
        """Raise the bound by the law of the average's own coefficients, and by the average law on cached rows."""
        direction = self._direction
        self._use_average()
        if direction.steps > 0 and direction.flat:
            self._raise(self._sampler.mass, 0.0)
        elif final or direction.steps >= self._next_law:
            self._next_law = 2.0 * direction.steps  # each use of the average law costs a pass over cached rows
            rows = self._sampler.pool
            if self._cache and not rows.shape[0]:  # without a pool all rows that were ever drawn, if they fit the cache
                drawn = np.flatnonzero(direction.coef)
                rows = drawn if drawn.shape[0] <= self._problem.rows.capacity else rows
            law = self._sampler.law_on(rows)
            if law is not None:
                self._raise(law, self._squared_norm(law))

    def _use_average(self) -> None:
        """Bound by the law of the average's coefficients. Draws of single rows leave the classes w+ and w- out of
        balance; scaled by a and b,

            |a w+ + b w-|^2 = a^2 <w+, w> + b^2 <w-, w> - (a - b)^2 <w+, w->,     <w+, w-> >= <w+, w> - |w+|^2

        where |w+| is at most its mass times the largest norm of a row.
        """
        direction = self._direction
        mass, part = np.abs(direction.mean_coef), direction.mean_coef * direction.mean_scores
        if not self._problem.fit_intercept:
            if mass.sum() > 0.0:
                self._raise(mass / mass.sum(), float(part.sum() / mass.sum() ** 2))
            return
        positive = self._problem.y > 0.0
        first, second = float(mass[positive].sum()), float(mass[~positive].sum())
        if first > 0.0 and second > 0.0:
            a, b = 0.5 / first, 0.5 / second
            up, down = float(part[positive].sum()), float(part[~positive].sum())
            between = max(up - first**2 * direction.largest, down - second**2 * direction.largest)
            self._raise(np.where(positive, a, b) * mass, a * a * up + b * b * down - (a - b) ** 2 * between)

    def _squared_norm(self, law: Floats) -> float:
        """Squared norm of the mixture of a law on cached rows."""
        rows: Ints = np.flatnonzero(law)
        coef = self._problem.y[rows] * law[rows]
        buffer, slot = self._problem.rows.cached(rows)
        square = 0.0
        for low in range(0, rows.shape[0], 256):  # a copy of all these rows at once would need as much memory again
            part = slice(low, low + 256)
            square += float(coef[part] @ (buffer[np.ix_(slot[part], rows)] @ coef))
        return square

    def _raise(self, mass: Floats, square: float) -> None:
        self.bound(self._form.bound(mass, math.sqrt(max(square, 0.0))))

"""The loop that every form of the stochastic batch perceptron runs: level, draw, step, and now and then a look."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget, Recorder, relative_gap
from widemargin.solvers.kernel_svm.batch_perceptron.direction import BatchOptions, Direction, Sampler
from widemargin.solvers.kernel_svm.batch_perceptron.water_level import Level, WaterLevel
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult
from widemargin.solvers.kernel_svm.stopping import HoldOut, HoldOutOptions

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

    water: WaterLevel

    def level(self, direction: Direction) -> Level:
        """Level of the responses of `direction.scores`."""

    def judge(self, coef: Floats, scores: Floats) -> Judged:
        """A direction, of any norm, as a classifier."""

    def bound(self, mass: Floats, norm: float) -> float:
        """Bound of the objective from a law of rows whose mixture `sum_i mass_i y_i phi(x_i)` has this norm."""


def relative_weight(problem: KernelProblem) -> Floats:
    """Weights of rows relative to the largest, shape (n,); 0 for rows held out."""
    return problem.upper / max(float(problem.upper.max(initial=0.0)), 1e-300)


def run(
    problem: KernelProblem, form: Form, options: BatchOptions, *, tol: float | None, start: Floats | None = None,
    budget: Budget | None, max_iter: int, seed: int, cache: bool = True,
) -> SBPResult:  # fmt: skip
    """Move a direction until the stopping rule of `tol` holds, or the budget ends.

    Parameters
    ----------
    tol : float or None
        Largest relative gap; None stops by the rows held out.
    start : ndarray of shape (n,), optional
        Coefficients of a direction to begin from.
    max_iter : int
        Largest number of steps.
    cache : bool, default=True
        Whether the rows of a step go through the cache.
    """
    budget, direction = budget or Budget(), Direction(problem, options, start)
    sampler = Sampler(problem, form.water, options, np.random.default_rng(seed))
    rule = HoldOut(problem, least=options.least_steps) if tol is None else None
    errors = HoldOut(problem) if rule is None and (problem.upper == 0.0).any() else rule
    # The average is the better the later it is, so no best point is remembered.
    recorder = Recorder[Judged]("batch perceptron", budget, 0.0)
    next_look, next_law, converged = 1, 1.0, False
    chosen: Judged | None = None

    def certify(*, average_law: bool) -> None:
        for mass, square in _laws(problem, direction, sampler, cache=cache, average_law=average_law):
            recorder.bound(form.bound(mass, math.sqrt(max(square, 0.0))))

    try:
        while direction.steps < max_iter and not (converged or budget.exhausted):
            rows, mass = sampler.draw(direction.scores, form.level(direction))
            sampler.keep(direction.advance(rows, mass, cache=cache))
            steps = direction.steps
            # Looks become rarer as a run grows, so that they stay a fixed share of it.
            if steps < next_look:
                continue
            next_look = max(steps + 1, math.ceil(HoldOutOptions.ratio * steps))
            at = form.judge(direction.mean_coef, direction.mean_scores)
            certify(average_law=steps >= next_law)
            # Each use of the average law costs a pass over cached rows.
            next_law = 2.0 * steps if steps >= next_law else next_law
            recorder.history.append({
                "seconds": budget.elapsed, "evaluations": float(problem.rows.evaluations), "steps": float(steps),
                "primal": at.primal, "dual": recorder.dual, "covered": at.covered,
            })  # fmt: skip
            if errors is not None:
                recorder.history[-1]["held_out_error"] = errors.error(at.scores, at.intercept)
            gap = relative_gap(at.primal, recorder.dual)
            budget.tell("batch perceptron", steps, at.primal, gap, math.nan)
            if rule is None:
                converged = tol is not None and gap <= tol
            elif rule.due(steps):
                converged = rule.look(steps, at.coef, at.scores, at.intercept)
                if rule.best is not None and rule.best.work == steps:
                    chosen = at
    except KeyboardInterrupt:
        budget.interrupted = True
    held_out_error = math.nan
    # Rows held out judged one model best, which need not be the last average. It stays as it was judged: its margin is
    # 1 now, and the length that its direction had before is lost.
    if chosen is not None and rule is not None and rule.best is not None:
        at, held_out_error = chosen, rule.best.error
    else:
        at = form.judge(direction.mean_coef, direction.mean_scores)
    # The last bound takes both laws: most looks leave out the average law, as it costs a pass over cached rows.
    certify(average_law=True)
    converged = converged or (tol is not None and relative_gap(at.primal, recorder.dual) <= tol)
    return SBPResult(
        at.coef, at.intercept, at.primal, recorder.dual, math.nan, budget.status(converged=converged),
        direction.steps, problem.rows.evaluations, budget.elapsed, tuple(recorder.history), nu=at.nu,
        margin=at.margin, covered=at.covered, held_out_error=held_out_error,
    )  # fmt: skip


def _laws(
    problem: KernelProblem, direction: Direction, sampler: Sampler, *, cache: bool, average_law: bool
) -> Iterator[tuple[Floats, float]]:
    """Laws of rows, with the squared norms of their mixtures: each bounds the objective.

    The first is the law of the average's coefficients. Draws of single rows leave the classes w+ and w- out of balance;
    scaled by a and b,

        |a w+ + b w-|^2 = a^2 <w+, w> + b^2 <w-, w> - (a - b)^2 <w+, w->,     <w+, w-> >= <w+, w> - |w+|^2

    where |w+| is at most its mass times the largest norm of a row. The second is the average law of the draws, on
    cached rows.
    """
    mass, part = np.abs(direction.mean_coef), direction.mean_coef * direction.mean_scores
    if not problem.fit_intercept:
        if mass.sum() > 0.0:
            yield mass / mass.sum(), float(part.sum() / mass.sum() ** 2)
    else:
        positive = problem.y > 0.0
        first, second = float(mass[positive].sum()), float(mass[~positive].sum())
        if first > 0.0 and second > 0.0:
            # Scaled so that either class has half of the mass, as the bias asks of a law.
            a, b = 0.5 / first, 0.5 / second
            up, down = float(part[positive].sum()), float(part[~positive].sum())
            between = max(up - first**2 * direction.largest, down - second**2 * direction.largest)
            yield np.where(positive, a, b) * mass, a * a * up + b * b * down - (a - b) ** 2 * between
    if direction.steps > 0 and direction.largest == 0.0:  # every direction is 0
        yield sampler.mass, 0.0
    elif average_law:
        rows = sampler.pool
        if cache and not rows.shape[0]:  # without a pool all rows that were ever drawn, if they fit the cache
            drawn = np.flatnonzero(direction.coef)
            rows = drawn if drawn.shape[0] <= problem.rows.capacity else rows
        law = sampler.law_on(rows)
        if law is None:
            return
        rows = np.flatnonzero(law)
        # The mixture of this law is no iterate, so its norm has to be computed from the kernel rows.
        coef = problem.y[rows] * law[rows]
        buffer, slot = problem.rows.cached(rows)
        square = 0.0
        for low in range(0, rows.shape[0], 256):  # a copy of all these rows at once would need as much memory again
            chunk = slice(low, low + 256)
            square += float(coef[chunk] @ (buffer[np.ix_(slot[chunk], rows)] @ coef))
        yield law, square

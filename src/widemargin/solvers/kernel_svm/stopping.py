"""When a kernel solver stops, and what it returns: looks on a schedule, the rule of rows held out, the best iterate.

Rows whose `upper` is 0 have no loss, so no solver moves their coefficients; their scores come with every kernel row.
The hold-out rule looks at their error on a geometric schedule of work, remembers the best iterate, and ends the run
when the work has grown by a factor without an improvement that is larger than the noise of so many rows. A primal
solver without a tight gap has no better criterion (Cotter, Shalev-Shwartz and Srebro 2012: "terminate when a holdout
error stabilizes").
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._typing import Bools, Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.solvers.base import Budget, Recorder
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, significantly_negative

__all__ = ["HoldOut", "HoldOutOptions", "Iterate", "KernelRecorder", "Schedule", "choose_rows", "could_gain"]


@dataclass(frozen=True)
class HoldOutOptions:
    """When the rule of rows held out looks and ends a run; chosen on rows of a9a and MNIST.

    Attributes
    ----------
    ratio : float, default=1.15
        Work between two looks, as a factor. Smaller finds a better iterate, and each look costs a pass over the rows
        held out.
    patience : float, default=2
        The run ends when the work has grown by this factor since the last improvement that was more than noise. Larger
        costs time and misses fewer late improvements.
    noise : float, default=1
        Standard errors of the difference between two iterates that count as noise. Larger ends runs sooner.
    worth : float, default=0.001
        A gain in error that is worth more work (`could_gain`): what most users would not notice is below it.
    plausible : float, default=2
        Standard errors up to which a gain is plausible (`could_gain`), the usual two.
    judged : int, default=50
        Rows of a rare class that judge it (`choose_rows`): their error has a standard error of 7 points at most.
    without_rows : float, default=0.1
        The `tol` of estimators where no row can be held out: every class has only one, or a rare one too few to judge
        it. The error is that of a smaller one nearly always.
    """

    ratio: float = 1.15
    patience: float = 2.0
    noise: float = 1.0
    worth: float = 0.001
    plausible: float = 2.0
    judged: int = 50
    without_rows: float = 0.1


class Iterate(NamedTuple):
    """A remembered iterate."""

    coef: Floats
    scores: Floats
    intercept: float
    error: float
    work: float


class HoldOut:
    """The stopping rule of `tol=None`.

    Parameters
    ----------
    problem : KernelProblem
        Rows with `upper == 0` are those held out.
    least : float, default=0
        Work before the first look: what makes the first iterates of the solver more than chance.
    options : HoldOutOptions, optional

    Attributes
    ----------
    best : Iterate or None
        The iterate of least loss so far, the latest of equals: half of it is the error, half the mean of the errors of
        the classes, so that a model which gives up a rare class is not the best.

    Raises
    ------
    CapabilityError
        If no row is held out.

    Notes
    -----
    In a solver's loop, with any measure of work that starts near 0 and grows (usually evaluations)::

        rule = HoldOut(problem) if tol is None else None
        ...
        if rule is not None and rule.due(work) and rule.look(work, coef, scores, intercept):
            break
        ...
        coef, scores, intercept = rule.best[:3]
    """

    def __init__(
        self, problem: KernelProblem, *, least: float = 0.0, options: HoldOutOptions = HoldOutOptions()
    ) -> None:
        self.rows: Ints = np.flatnonzero(problem.upper == 0.0)
        if self.rows.shape[0] == 0:
            raise CapabilityError(
                "tol=None stops on rows held out, and there are 0; hold some out (upper = 0) or give a tol."
            )
        self.best: Iterate | None = None
        self._y, self._options, self._next = problem.y[self.rows], options, least
        self._weights = _weights(self._y)
        self._reference: Bools | None = None  # rows missed at the last improvement beyond noise
        self._since, self._least = 0.0, math.inf

    def due(self, work: float) -> bool:
        """Whether the schedule asks for a look."""
        return work >= self._next

    def error(self, scores: Floats, intercept: float) -> float:
        """Share of the rows held out that are on the wrong side, or on the boundary."""
        return float(self.missed(scores, intercept).mean())

    def missed(self, scores: Floats, intercept: float) -> Bools:
        """Which of the rows held out are on the wrong side, or on the boundary."""
        return self._y * (scores[self.rows] + intercept) <= 0.0

    def look(self, work: float, coef: Floats, scores: Floats, intercept: float) -> bool:
        """Judge an iterate; True if the run should end.

        Parameters
        ----------
        work : float
            Spent so far, in the unit of all other calls.
        coef, scores : ndarray of shape (n,)
            Copied where they are remembered.
        intercept : float
        """
        # The next look is a factor of work away, so that looks stay a fixed share of the run.
        self._next = self._options.ratio * work
        missed = self.missed(scores, intercept)
        loss = float(self._weights @ missed)
        # Of equal losses the latest counts: it has converged further.
        if self.best is None or loss <= self._least:
            self._least = loss
            self.best = Iterate(coef.copy(), scores.copy(), intercept, float(missed.mean()), work)
        # McNemar's test: only the rows that the two iterates judge differently tell them apart.
        better = self._reference is None
        if self._reference is not None:
            gain, noise = _gain(missed, self._reference, self._weights)
            better = gain > self._options.noise * noise
        if better:
            self._reference, self._since = missed, work
            return False
        return work >= self._options.patience * self._since


def _weights(y: Floats) -> Floats:
    """The share of each row in the loss: half of it is the error, half the mean of the errors of the classes."""
    _, place, counts = np.unique(y, return_inverse=True, return_counts=True)
    weights: Floats = 0.5 / y.shape[0] + 0.5 / (counts.shape[0] * counts[place])
    return weights


def _gain(missed: Bools, reference: Bools, weights: Floats) -> tuple[float, float]:
    """By how much the loss is below that of the reference, and the standard error of that."""
    change = weights * (reference.astype(float) - missed)
    return float(change.sum()), float(np.linalg.norm(change))


def could_gain(missed: Bools, reference: Bools, y: Floats) -> bool:
    """Whether the step from `reference` may have gained more than is `worth` work, so another such step could pay."""
    gain, noise = _gain(missed, reference, _weights(y))
    return gain + HoldOutOptions.plausible * noise > HoldOutOptions.worth


def choose_rows(y: npt.NDArray[np.generic], share: float, rng: np.random.Generator, *, judged: int = 0) -> Ints:
    """Rows to hold out: the same share of every class, drawn at random, ascending.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels of any kind.
    share : float
        In (0, 1). Every class keeps at least one row; one of at least two rows holds out at least one.
    rng : numpy.random.Generator
    judged : int, default=0
        Rows that tell of a class. Where one of less than a fifth of the largest one's rows would hold out fewer, no row
        is held out: the error of the others would say nothing of it.

    Returns
    -------
    ndarray of int64
    """
    chosen = []
    counts = np.unique(y, return_counts=True)[1]
    if 5 * counts.min() < counts.max() and share * counts.min() < judged:
        return np.empty(0, dtype=np.int64)
    for label in np.unique(y):
        # By class, so that rare classes are judged too; and no class loses its last row.
        rows = np.flatnonzero(y == label)
        count = min(max(1, round(share * rows.shape[0])), rows.shape[0] - 1)
        chosen.append(rng.permutation(rows)[:count])
    return np.sort(np.concatenate(chosen))


@dataclass(frozen=True)
class Schedule:
    """When a run is looked at.

    Attributes
    ----------
    ratio : float, default=1.1
        Kernel evaluations between two looks, as a factor. A look costs a pass over the scores, so a tenth more rows of
        the kernel matrix outweigh it.
    rough : float, default=1
        Violation above which the error on rows held out says nothing yet: margins are still off by more than
        themselves. That is the distance between two sides; without a bias there is one, and half of it. `w = 0` is
        above either.
    head_start_rows, head_start_share : int, default=64, 10
        The hold-out rule counts work from below zero: so many kernel rows, or one for so many of all rows. It ends a
        run whose work has doubled in vain, and two steps are twice as many as one.
    cached_step : float, default=0.1
        A step counts as so much of a kernel row, besides the rows that are computed: work goes on once all are cached.
    """

    ratio: float = 1.1
    rough: float = 1.0
    head_start_rows: int = 64
    head_start_share: int = 10
    cached_step: float = 0.1


class KernelRecorder(Recorder[tuple[Floats, Floats]]):
    """The recorder of a kernel solver: it looks as the work grows, applies the hold-out rule, and makes the result.

    Its points are pairs of `coef` and `scores = K coef`. The best point is what a run returns that ends before it has
    converged: the last one may be far worse where C is large, as the dual rises with every step and the primal does not
    fall with it.

    Parameters
    ----------
    problem : KernelProblem
    stage : str
        Name of the solver for callbacks.
    budget : Budget
    tol : float or None
        None: the rule of rows held out ends the run.
    schedule : Schedule, optional

    Attributes
    ----------
    history : list of dict
        `iteration`, `seconds`, `evaluations` (since the counter of the rows began), what the solver knows, and
        `held_out_error` where rows are held out.
    rule : HoldOut or None
        With the iterate of the least error.

    Raises
    ------
    CapabilityError
        If `tol` is None and no row is held out.
    """

    def __init__(
        self, problem: KernelProblem, stage: str, budget: Budget, tol: float | None, schedule: Schedule = Schedule()
    ) -> None:
        super().__init__(stage, budget, 0.0 if tol is None else tol, lambda point: (point[0].copy(), point[1].copy()))
        held_out = HoldOut(problem) if tol is None or (problem.upper == 0.0).any() else None
        self.rule, self._errors = held_out if tol is None else None, held_out
        self._problem, self._stage, self._schedule = problem, stage, schedule
        # Several problems may count on the same rows, so the work is a difference.
        self._first, self._next, self._later = problem.rows.evaluations, 0.0, 0.0
        n = problem.n_rows
        self._head_start = n * max(schedule.head_start_rows, n // schedule.head_start_share)
        # Without a bias the violation has one side, so half as much is as rough.
        self._rough = schedule.rough if problem.fit_intercept else 0.5 * schedule.rough

    @property
    def work(self) -> int:
        """Kernel evaluations of this run so far."""
        return self._problem.rows.evaluations - self._first

    def due(self, iteration: int) -> bool:
        """Whether the schedule asks for a look: by the work or, where the cache saves all of it, by the iterations."""
        return self.work >= self._next or iteration >= self._later

    def watch(
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
            violation above `Schedule.rough`.
        judge : bool, default=True
            Whether the hold-out rule may judge this iterate: False where the solver knows that it is too rough.
        """
        # Once all kernel rows are cached the work stands still, and the iterations decide.
        self._next = self._schedule.ratio * self.work
        self._later = self._schedule.ratio * iteration + self._problem.n_rows
        self.note(coef, scores, {"iteration": float(iteration)} | facts)
        if self._errors is not None:
            self.history[-1]["held_out_error"] = self._errors.error(scores, intercept)
        primal, dual = facts.get("primal", np.nan), facts.get("dual", np.nan)
        # Solvers that leave rows out know no primal value: their gap is NaN.
        gap = (primal - dual) / max(abs(primal), 1e-300)
        self.budget.tell(self._stage, iteration, dual, gap, facts.get("violation", np.nan))
        if self.rule is None or not judge or facts.get("violation", 0.0) > self._rough:
            return False
        # Steps on cached rows are work too, or a run that needs no new rows would never end.
        steps = self._schedule.cached_step * self._problem.n_rows * iteration
        return self.rule.look(self._head_start + self.work + steps, coef, scores, intercept)

    def note(self, coef: Floats, scores: Floats, facts: dict[str, float]) -> None:
        """Write an entry of the history, and remember the iterate if its `primal` is known and the least."""
        spent = {"seconds": self.budget.elapsed, "evaluations": float(self._problem.rows.evaluations)}
        self.history.append(spent | facts)
        self.offer(facts.get("primal", math.nan), (coef, scores))  # NaN is never the least
        self.bound(facts.get("dual", -math.inf))

    def restore(self, primal: float, coef: Floats, scores: Floats) -> bool:
        """Overwrite an iterate of this primal value by the best one, where that is better."""
        if self.point is None or not self.primal < primal:
            return False
        coef[:], scores[:] = self.point
        return True

    def conclude(self, coef: Floats, scores: Floats, rounds: int, *, ended: bool) -> KernelResult:
        """The result of a run; without a tolerance it has converged where it `ended` by itself.

        The rule of rows held out knows the best model if it has judged one. `coef` and `scores` become those of the
        result.
        """
        # Where the rule of rows held out decides, it alone says whether the run has converged.
        limit = self.tol if self.rule is None else np.inf if ended else -1.0
        if self.rule is not None and self.rule.best is not None:
            coef[:], scores[:] = self.rule.best.coef, self.rule.best.scores
            self.point, self.primal, self.dual = None, np.inf, -np.inf
        return self.finish(coef, scores, limit, rounds)

    def finish(self, coef: Floats, scores: Floats, tol: float, rounds: int) -> KernelResult:
        """The result, with the best intercept and the certificate.

        Where the violation is above `tol` the best model that was looked at takes the place of a worse last one, in
        `coef` and `scores` too; its primal value is bounded by the largest dual value.
        """
        problem = self._problem
        intercept = problem.optimal_bias(scores)
        at = problem.values(coef, scores, intercept)
        # The violation is measured at the end, whatever the solver thought of its last step.
        dual, converged = at.dual, at.violation <= tol
        if not converged:
            if self.restore(at.primal, coef, scores):
                intercept = problem.optimal_bias(scores)
                at = problem.values(coef, scores, intercept)
            dual = max(dual, self.dual)
        # Steps along pairs need not meet what makes a kernel indefinite; the norm of the solution may.
        square, size = float(coef @ scores), float(np.abs(coef).sum()) ** 2
        indefinite = square < 0.0 and significantly_negative(
            square, size * float(np.abs(problem.rows.diagonal()).max())
        )
        return KernelResult(
            coef, intercept, at.primal, dual, at.violation, self.budget.status(converged=converged), rounds,
            problem.rows.evaluations, self.budget.elapsed, tuple(self.history), indefinite, scores,
        )  # fmt: skip

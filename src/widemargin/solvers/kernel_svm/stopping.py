"""When a kernel solver stops: the rule of rows held out, which looks on a schedule and keeps the best iterate.

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
from widemargin.solvers.kernel_svm.problem import KernelProblem


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

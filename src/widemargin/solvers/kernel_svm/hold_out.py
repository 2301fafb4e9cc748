"""When to stop without a certificate: the error on rows that were held out, one rule for every kernel solver.

Rows whose `upper` is 0 have no loss, so no solver moves their coefficients; their scores come with every kernel row.
The rule looks at their error on a geometric schedule of work, remembers the best iterate, and ends the run when the
work has grown by a factor without an improvement that is larger than the noise of so many rows. A primal solver without
a tight gap has no better criterion (Cotter, Shalev-Shwartz and Srebro 2012: "terminate when a holdout error
stabilizes").
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.solvers.kernel_svm.problem import KernelProblem

__all__ = ["PATIENCE", "RATIO", "WITHOUT_ROWS", "HoldOut", "Iterate", "choose_rows", "could_gain"]

RATIO = 1.15
"""Work between two looks, as a factor."""

PATIENCE = 2.0
"""The run ends when the work has grown by this factor since the last improvement that was more than noise."""

NOISE = 1.0
"""Standard errors of the difference between two iterates that count as noise."""

WITHOUT_ROWS = 0.1
"""The `tol` of estimators where no row can be held out, because every class has only one."""

WORTH, PLAUSIBLE = 0.001, 2.0
"""A gain in error that is worth more work, and the standard errors up to which it is plausible (`could_gain`)."""


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
    patience, ratio : float
        See `PATIENCE` and `RATIO`; raising the first costs time and misses fewer late improvements.

    Attributes
    ----------
    best : Iterate or None
        The iterate of least error so far, the latest of equals.

    Raises
    ------
    CapabilityError
        If no row is held out.

    Notes
    -----
    In a solver's loop, with any measure of work that starts near 0 and grows (usually evaluations)::

        watch = HoldOut(problem) if tol is None else None
        ...
        if watch is not None and watch.due(work) and watch.look(work, coef, scores, intercept):
            break
        ...
        coef, scores, intercept = watch.best[:3]
    """

    def __init__(
        self, problem: KernelProblem, *, least: float = 0.0, patience: float = PATIENCE, ratio: float = RATIO
    ) -> None:
        self.rows: Ints = np.flatnonzero(problem.upper == 0.0)
        if self.rows.shape[0] == 0:
            raise CapabilityError(
                "tol=None stops on rows held out, and there are 0; hold some out (upper = 0) or give a tol."
            )
        self.best: Iterate | None = None
        self._y = problem.y[self.rows]
        self._patience, self._ratio = patience, ratio
        self._next = least
        self._reference: npt.NDArray[np.bool_] | None = None  # rows missed at the last improvement beyond noise
        self._since = 0.0

    def due(self, work: float) -> bool:
        """Whether the schedule asks for a look."""
        return work >= self._next

    def error(self, scores: Floats, intercept: float) -> float:
        """Share of the rows held out that are on the wrong side, or on the boundary."""
        return float(self.missed(scores, intercept).mean())

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
        self._next = self._ratio * work
        missed = self.missed(scores, intercept)
        error = float(missed.mean())
        if self.best is None or error <= self.best.error:
            self.best = Iterate(coef.copy(), scores.copy(), intercept, error, work)
        if self._reference is None or _better(missed, self._reference):
            self._reference, self._since = missed, work
            return False
        return work >= self._patience * self._since

    def missed(self, scores: Floats, intercept: float) -> npt.NDArray[np.bool_]:
        """Which of the rows held out are on the wrong side, or on the boundary."""
        return self._y * (scores[self.rows] + intercept) <= 0.0


def _better(missed: npt.NDArray[np.bool_], reference: npt.NDArray[np.bool_]) -> bool:
    """Whether fewer rows are missed by more than the noise of the rows that the two judge differently (McNemar)."""
    gained, lost = int((reference & ~missed).sum()), int((missed & ~reference).sum())
    return bool(gained - lost > NOISE * math.sqrt(gained + lost))


def could_gain(missed: npt.NDArray[np.bool_], reference: npt.NDArray[np.bool_]) -> bool:
    """Whether the step from `reference` may have gained more than `WORTH`, so that another such step could pay."""
    gained, lost = int((reference & ~missed).sum()), int((missed & ~reference).sum())
    return bool(gained - lost + PLAUSIBLE * math.sqrt(gained + lost) > WORTH * missed.shape[0])


def choose_rows(y: npt.NDArray[Any], share: float, rng: np.random.Generator) -> Ints:
    """Rows to hold out: the same share of every class, drawn at random, ascending.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels of any kind.
    share : float
        In (0, 1). Every class keeps at least one row; one of at least two rows holds out at least one.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int64
    """
    chosen = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        count = min(max(1, round(share * rows.shape[0])), rows.shape[0] - 1)
        chosen.append(rng.permutation(rows)[:count])
    return np.sort(np.concatenate(chosen))

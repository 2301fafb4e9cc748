"""What solvers share: the problem they ask for, the result they give, and the one recorder of every run.

A `Budget` says when a run has to end, a `Recorder` keeps what it has reached: its history, its best point, its best
lower bound.

A `CertifiedRecorder` says what a convex solver may claim: the best point and the best lower bound seen, by the
inequalities of `docs/theory/dataset-constraints.md` ("The certificate"). They hold only where the primal value P and
the dual value D are compared by the *same* penalties p. So p is chosen from the best multipliers v (`exact_penalty`),
and the kept point is measured anew each time: a primal value taken under earlier, smaller penalties can lie far below
the optimum. Where v_j = rho the violation is bounded by nothing: the penalty was too small, or the constraints cannot
be met.
"""

import enum
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from widemargin._typing import Cells, Flags, Floats, Singles
from widemargin.distributed.blocks import BlockedPoint, Variant
from widemargin.linalg.cells import CellCoefficients

__all__ = [
    "Budget", "Callback", "CertifiedRecorder", "ConstrainedHinge", "ConvexPoint", "ConvexResult", "ConvexState",
    "Progress", "Recorder", "Shares", "Status", "exact_penalty", "relative_gap",
]  # fmt: skip

Shares = Singles

Point = TypeVar("Point")


class Status(enum.StrEnum):
    """Why a solver stopped."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    TIME_LIMIT = "time_limit"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    INFEASIBLE = "infeasible"


class Progress(NamedTuple):
    """What a callback is told between two iterations."""

    stage: str
    iteration: int
    objective: float
    gap: float
    violation: float
    seconds: float


Callback = Callable[[Progress], Any]


@dataclass
class Budget:
    """Wall-clock allowance of a run, and the callbacks that watch it.

    A callback that returns True asks the solver to stop with its best point. The outer loops turn a KeyboardInterrupt
    into `interrupted`, end with what they have, and leave it to the estimator to raise it again.
    """

    seconds: float | None = None
    callbacks: tuple[Callback, ...] = ()
    started: float = field(default_factory=time.perf_counter)
    stopped: bool = False
    interrupted: bool = False

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def left(self) -> float | None:
        """Seconds left; None without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - self.elapsed)

    @property
    def exhausted(self) -> bool:
        """Whether the run should end now."""
        # The clock is read last, because reading it is the only part that takes time.
        return self.stopped or self.interrupted or (self.seconds is not None and self.elapsed >= self.seconds)

    @contextmanager
    def part(self, remaining: int) -> Iterator["Budget"]:
        """What one of the parts that remain may take: an equal share of the time left. To stop it stops the whole."""
        # What a part leaves unused is shared among those that follow it.
        seconds = None if self.seconds is None else max(0.0, self.seconds - self.elapsed) / remaining
        share = replace(self, seconds=seconds, started=time.perf_counter())
        yield share
        # The end of a part's own time is not the end of the whole, so its clock stays behind.
        self.stopped, self.interrupted = share.stopped, share.interrupted

    def status(self, *, converged: bool) -> Status:
        """Why a run ends that has converged, or has not."""
        # Ctrl-C comes first: its result must be marked even where the gap has closed meanwhile.
        if self.interrupted:
            return Status.INTERRUPTED
        if converged:
            return Status.CONVERGED
        if self.stopped:
            return Status.STOPPED
        return Status.TIME_LIMIT if self.exhausted else Status.MAX_ITER

    def tell(self, stage: str, iteration: int, objective: float, gap: float, violation: float) -> None:
        """Call every callback."""
        for callback in self.callbacks:
            # Only True stops: callbacks that return something by accident, such as None or a number, do not.
            if callback(Progress(stage, iteration, objective, gap, violation, self.elapsed)) is True:
                self.stopped = True


def relative_gap(primal: float, dual: float, *, floor: float = 1e-300) -> float:
    """`(primal - dual) / |primal|`; 1 where the objective is infinite, so that nothing is known of it.

    `floor` is the least size of an objective that is worth a relative accuracy.
    """
    # 1 and not infinity, so that histories can be drawn and written as JSON from the first look on.
    return 1.0 if math.isinf(primal) else (primal - dual) / max(abs(primal), floor)


class Recorder(Generic[Point]):
    """The best point and the best lower bound of a run, and its history.

    A solver hands over every point whose objective it has computed (`offer`) and every lower bound that it has proved
    (`bound`), and calls `look` where the gap is worth looking at. The best point is stored because the last one may be
    far worse.

    Parameters
    ----------
    stage : str or None
        Name of the solver for callbacks; None where the callbacks are told by whoever calls the solver.
    budget : Budget
    tol : float
        Relative gap at which the run has converged.
    copy : callable, optional
        Copies a point, where the solver goes on changing its own.

    Attributes
    ----------
    point : Point or None
        The point of the least objective.
    primal : float
        Its objective; infinite before the first offer.
    dual : float
        The largest lower bound.
    history : list of dict
        An entry per look: `iteration`, `seconds`, `primal`, `dual` and what the solver adds.
    """

    def __init__(
        self, stage: str | None, budget: Budget, tol: float, copy: Callable[[Point], Point] | None = None
    ) -> None:
        self.stage, self.budget, self.tol = stage, budget, tol
        self.point: Point | None = None
        # Nothing is known at first, and the first offer or lower bound is better than that.
        self.primal, self.dual = float("inf"), float("-inf")
        self.history: list[dict[str, float]] = []
        self._copy, self._began = copy, budget.elapsed

    def offer(self, primal: float, point: Point) -> bool:
        """Store a copy of a point if its objective is the lowest so far; returns whether it is."""
        # `not <=` in place of `>` refuses a NaN, too. Of two equal points the later one has converged further.
        if not primal <= self.primal:
            return False
        self.primal, self.point = primal, point if self._copy is None else self._copy(point)
        return True

    def bound(self, dual: float) -> None:
        """Take in a lower bound of the optimum."""
        # Every lower bound holds for the same optimum, so the best one does, whichever step has proved it.
        self.dual = max(self.dual, dual)

    @property
    def gap(self) -> float:
        """`(primal - dual) / |primal|`."""
        return relative_gap(self.primal, self.dual)

    @property
    def seconds(self) -> float:
        """Since the recorder was made."""
        return self.budget.elapsed - self._began

    def look(self, iteration: int, *, violation: float = 0.0, **facts: float) -> bool:
        """Write an entry and tell the callbacks; True where the gap is closed."""
        entry = {
            "iteration": float(iteration),
            "seconds": self.budget.elapsed,
            "primal": self.primal,
            "dual": self.dual,
        }
        # A fact of the solver replaces an entry of the same name: one convex step of a longer run counts its own
        # seconds.
        self.history.append(entry | facts)
        # A solver inside of a longer search leaves the telling to the search, which knows what its objective means.
        if self.stage is not None:
            self.budget.tell(self.stage, iteration, self.primal, self.gap, violation)
        # A gap that is not a number closes nothing, since every comparison with it is false.
        return self.gap <= self.tol


class ConstrainedHinge(Protocol):
    """The convex problem that the solvers of this package solve (`docs/theory/dataset-constraints.md`).

    `rows` are a `RowBlocks`; or a `GramRows` (kernels) for `cutting_plane` and `newton`, and w is then a vector of
    coefficients; or `BlockedRows` for `newton` and `level_method`, and what is as long as the rows is then empty.

    Minimise `sum_i s_i [A0 k+ max(0, 1/2 + z_i) + B0 k- max(0, 1/2 - z_i)] + constant + lam/2 |w|^2`, `z = X w - b`,
    subject to `sum_i s_i [a_j k+ max(0, 1/2 + z_i) + b_j k- max(0, 1/2 - z_i)] <= gamma_j`.
    """

    @property
    def rows(self) -> Any: ...
    @property
    def weight(self) -> Floats: ...
    @property
    def cell(self) -> Cells: ...
    @property
    def coef(self) -> CellCoefficients: ...
    @property
    def keep(self) -> Flags: ...
    @property
    def gamma(self) -> Floats: ...
    @property
    def constant(self) -> float: ...
    @property
    def lam(self) -> float: ...
    @property
    def fit_intercept(self) -> bool: ...
    @property
    def n_constraints(self) -> int: ...
    @property
    def variant(self) -> Variant:
        """What leads from the problem of a block to its share of this one."""

    @property
    def at(self) -> BlockedPoint | None:
        """Where the majorisation is tight, for rows in blocks."""

    def scores(self, w: Floats, b: float) -> Floats:
        """`X w - b`."""

    def values(self, z: Floats) -> tuple[float, Floats]:
        """Loss without the regulariser and excess of each constraint."""


def exact_penalty(multipliers: Floats, rho: float) -> Floats:
    """Weights, shape (m,), of the violations in a primal value that is compared with a dual bound at `multipliers`.

    Each is at least the multiplier, so the dual value at these multipliers bounds the penalised problem from below, and
    at most `rho`. Near the solution it exceeds the optimal multiplier: the penalised and the hard problem then have the
    same optimum.
    """
    # A penalty is exact once it exceeds the optimal multiplier, and twice the present one leaves room for that to rise.
    # A multiplier that is still zero counts as a tenth, for else its constraint could be violated free of charge.
    return np.minimum(rho, 2.0 * np.maximum(multipliers, 0.1))


class ConvexState(NamedTuple):
    """Warm start: primal point, dual variables of the hinges (share of the coefficient, in [0, 1]), multipliers.

    The shares are kept in single precision: a start need not be exact, and there are two for every row.
    """

    w: Floats
    b: float
    up: Shares
    um: Shares
    v: Floats


@dataclass(frozen=True)
class ConvexResult:
    """Solution of a convex subproblem with its certificate.

    Attributes
    ----------
    w : ndarray of shape (d,)
    b : float
    multipliers : ndarray of shape (m,)
    primal : float
        Objective at (w, b) plus what is violated times `exact_penalty` at `multipliers`.
    dual : float
        A lower bound of the optimum.
    gap : float
        `(primal - dual) / |primal|`.
    violation : ndarray of shape (m,)
        Excess of each constraint at (w, b), negative where there is slack.
    status : Status
    n_iter : int
        Newton steps, interior-point iterations or cuts.
    n_epochs : int
        Passes over the rows by coordinate ascent (0 for the others).
    seconds : float
    state : ConvexState
    history : tuple of dict
    """

    w: Floats
    b: float
    multipliers: Floats
    primal: float
    dual: float
    gap: float
    violation: Floats
    status: Status
    n_iter: int
    n_epochs: int
    seconds: float
    state: ConvexState
    history: tuple[dict[str, float], ...] = ()


class ConvexPoint(NamedTuple):
    """A point (w, b), its objective without any penalty, and the excess of each constraint there, shape (m,)."""

    w: Floats
    b: float
    objective: float
    excess: Floats


class CertifiedRecorder(Recorder[ConvexPoint]):
    """The best point and the best lower bound of a convex step, compared by one penalty.

    Parameters
    ----------
    rho : float
        Upper end of the multipliers.
    budget : Budget
    tol : float
    stage : str, optional
        As in `Recorder`.

    Attributes
    ----------
    multipliers : ndarray of shape (m,)
        Those behind the lower bound.
    """

    def __init__(self, rho: float, budget: Budget, tol: float, stage: str | None = None) -> None:
        super().__init__(stage, budget, tol)
        self.rho, self.multipliers = rho, np.zeros(0)

    @property
    def penalty(self) -> Floats:
        """The penalty weights p by which points are measured."""
        return exact_penalty(self.multipliers, self.rho)

    @property
    def gap(self) -> float:
        """Relative gap."""
        # The coefficients of an objective sum to about one, and below 1e-6 of that an objective is zero for all that a
        # user can measure. Relative to its own size the gap of such a problem would never close.
        return relative_gap(self.primal, self.dual, floor=1e-6)

    @property
    def best(self) -> ConvexPoint:
        """The point that is best so far; there must be one."""
        assert self.point is not None
        return self.point

    def _measured(self, point: ConvexPoint) -> float:
        """`P_p` of a point."""
        return point.objective + float(self.penalty @ np.maximum(point.excess, 0.0))

    def add_dual(self, dual: float, multipliers: Floats) -> None:
        """Store a lower bound if it is the best so far, and measure the best point anew by the penalty it leads to."""
        # A first bound that is not a number is stored, too, because points are measured by the multipliers behind it.
        if dual > self.dual or not np.isfinite(self.dual):
            self.dual, self.multipliers = dual, multipliers
            if self.point is not None:
                self.primal = self._measured(self.point)

    def add_point(self, w: Floats, b: float, objective: float, excess: Floats) -> None:
        """Store a point if it is the best under the present penalty; to be called after `add_dual`."""
        point = ConvexPoint(w, b, objective, excess)
        # Points are compared by the penalty in force, never by one they were found under.
        self.offer(self._measured(point), point)

    def correct(self, objective: float, excess: Floats) -> None:
        """Replace the values of the best point by more exact ones."""
        self.point = self.best._replace(objective=objective, excess=excess)
        self.primal = self._measured(self.point)

    def look(self, iteration: int, *, violation: float = 0.0, **facts: float) -> bool:
        """As `Recorder.look`; the seconds are those of this step."""
        return super().look(iteration, violation=violation, **{"seconds": self.seconds, **facts})

    def result(self, n_iter: int, state: ConvexState, *, status: Status | None = None) -> ConvexResult:
        """The best point with its certificate; by default the status says whether the gap is closed."""
        # The best point, not the last one: steps may get worse.
        w, b, _, excess = self.best
        return ConvexResult(
            w=w, b=b, multipliers=self.multipliers, primal=self.primal, dual=self.dual, gap=self.gap,
            violation=excess, status=status or self.budget.status(converged=self.gap <= self.tol), n_iter=n_iter,
            n_epochs=0, seconds=self.seconds, state=state, history=tuple(self.history),
        )  # fmt: skip

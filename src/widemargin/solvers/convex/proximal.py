"""The proximal method of multipliers with Newton steps: what is the same for linear rows, rows in blocks and kernels.

Outer loop (proximal point in the dual variables): each hinge `max(0, t) = max_{0<=U<=1} U t` gets a proximal term
`-delta/2 (U - u)^2`, each constraint `max_{0<=v<=rho} v c` a term `-(v - v_old)^2 / (2 tau)`. What is left to minimise
over (w, b) is convex, once differentiable and piecewise quadratic: Newton with a line search to the minimum. Its
Hessian touches only the rows inside a band of width delta around the margin and next to it, so a step gets cheaper as
the solution comes near.

`U` and `v` at the end of an inner solve are a dual point; with them the bound of `docs/theory/dataset-constraints.md`
certifies the result (see `solvers.base`). The penalty weight `rho` makes every problem feasible and is exact once it
exceeds the multipliers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.solvers.base import Budget, CertifiedRecorder, ConstrainedHinge, ConvexState
from widemargin.solvers.convex.block_passes import BlockPasses
from widemargin.solvers.convex.linear_system import SystemOptions
from widemargin.solvers.convex.smoothed_hinges import NewtonRows

__all__ = ["DEFAULTS", "Line", "NewtonOptions", "ProximalRun", "Value", "balance"]


@dataclass(frozen=True)
class NewtonOptions:
    """How the proximal method of multipliers walks to its solution. None of these changes what is certified.

    Attributes
    ----------
    shrink : float
        Factor of the width after each outer iteration; 0.5 costs a tenth more Newton steps, 0.35 a third more.
    cold_width, warm_width, wide_width : float
        First width from nothing, from a warm start, and in both cases with many features. A wide band steers well from
        afar and holds more rows.
    broad : int
        Features from which there are many: a step costs so much that steps are what counts.
    least_width, last_width : float
        Where the width stops; and where it stops once the gap stops shrinking.
    most_tau, last_tau : float
        The same for the weight tau of the constraints.
    most_outer, most_inner, most_evaluations : int
        Outer iterations, Newton steps of each, and evaluations of one line search.
    slope_left : float
        Share of the first slope at which a line search ends; an Armijo step takes a third more Newton steps.
    armijo : float
        Share of the predicted decrease that a step must bring.
    ahead : float
        Share of the last step: rows that near to the band count in the curvature, as they enter during a step.
    fine_gap : float
        Gap below which rounding counts: sums are made afresh.
    iterate_from, iterate_blocks_from, iterate_thin_from : int
        Features from which factors of d x d matrices cost more than conjugate gradients: dense fits took half the time
        with factors at 2,000 and 2,800. The same where rows are in blocks, of which each sends such a matrix; and where
        rows are thin: at 700 conjugate gradients take two to five times less time, at 500 a quarter less to a half
        more.
    thin : float
        Share of the numbers that are stored below which rows are thin.
    system : SystemOptions
        How the linear systems are solved.
    """

    shrink: float = 0.7
    cold_width: float = 1.0
    warm_width: float = 0.1
    wide_width: float = 0.3
    broad: int = 200
    least_width: float = 1e-3
    last_width: float = 1e-8
    most_tau: float = 1e4
    last_tau: float = 1e8
    most_outer: int = 60
    most_inner: int = 50
    most_evaluations: int = 30
    slope_left: float = 0.1
    armijo: float = 1e-4
    ahead: float = 0.3
    fine_gap: float = 1e-5
    iterate_from: int = 3000
    iterate_blocks_from: int = 1500
    iterate_thin_from: int = 600
    thin: float = 0.15
    system: SystemOptions = field(default_factory=SystemOptions)


DEFAULTS = NewtonOptions()


class Value(NamedTuple):
    """Smoothed Lagrangian (without the regulariser) at some scores, and what comes with it.

    Attributes
    ----------
    value, slope : float
        Value, and derivative along the line.
    vh : ndarray of shape (m,)
        Multipliers.
    """

    value: float
    slope: float
    vh: Floats


class Line(NamedTuple):
    """What a line search has to know of a Newton direction.

    Attributes
    ----------
    initial : float
        Derivative of the smoothed Lagrangian along it, negative.
    linear, square : float
        The regulariser adds `linear + step square` to the derivative at a step.
    """

    initial: float
    linear: float
    square: float


class ProximalRun(ABC):
    """The iterate: multipliers, widths, and the value at the point; what belongs to the rows is left to subclasses.

    Parameters
    ----------
    rho : float
        Upper end of the multipliers.
    width : float
        First width.

    Attributes
    ----------
    hinges : NewtonRows or BlockPasses
        What is as long as the rows: scores, shares, and their changes along the direction.
    exact_search : bool
        Whether a line search goes on to the minimum, or ends with the first step that decreases enough, by halving.
    """

    here: Value
    hinges: NewtonRows | BlockPasses
    exact_search = True

    def __init__(
        self, sub: ConstrainedHinge, rho: float, start: ConvexState | None, width: float, options: NewtonOptions
    ) -> None:
        m = sub.n_constraints
        self.sub, self.rho, self.options = sub, rho, options
        # Weights of the features; of kernel rows, their coefficients.
        self.w = np.zeros(sub.rows.n_features) if start is None else start.w.copy()
        self.b = 0.0 if start is None else start.b
        self.v = np.zeros(m) if start is None else np.minimum(start.v, rho)
        self.delta, self.tau = width, 10.0 if m <= 1 else 30.0
        self.lag, self.steps = np.inf, 0

    # What the kind of rows decides.

    @abstractmethod
    def begin(self, gap: float) -> None:
        """Take the first derivatives of an outer iteration; so far the gap is this."""

    @abstractmethod
    def remaining(self) -> tuple[float, float]:
        """Half the squared Newton decrement, about, and what the gradient costs the dual value."""

    @abstractmethod
    def newton(self) -> Line:
        """Find the Newton direction."""

    @abstractmethod
    def go(self, step: float) -> None:
        """Go a step along the direction, and take the derivatives there."""

    @abstractmethod
    def certify(self, recorder: CertifiedRecorder) -> None:
        """Offer the dual value at (U, vh), and an exact primal value."""

    # What is the same for all.

    def evaluate(self, step: float) -> Value:
        """Smoothed Lagrangian without the regulariser, a step along the direction from here."""
        values, slopes = self.hinges.smooth(step, self.delta)
        excess = values[1:] - self.sub.gamma
        # The maximum over the multipliers in closed form: the old ones moved along the excess, within their range.
        vh = np.minimum(np.maximum(self.v + self.tau * excess, 0.0), self.rho)
        change = vh - self.v
        value = values[0] + vh @ excess - change @ change / (2.0 * self.tau)
        return Value(float(value), float(slopes[0] + vh @ slopes[1:]), vh)

    def minimise(self, gap: float, max_iter: int, budget: Budget) -> None:
        """Newton steps on the smoothed Lagrangian until its gradient harms neither the primal nor the dual value."""
        # What is left undone here adds to the gap of the whole: half the squared decrement to the primal value, and
        # `|gradient|^2 / (2 lam)` to the dual one. So both need only be small beside the gap that is still open, which
        # says nothing (and may be infinite) before the first certificate.
        decrement_tol = 1e-2 * min(gap, 1e-4)
        harm_tol = 0.1 * (gap if gap < 1.0 else 0.01)
        self.here = self.evaluate(0.0)
        self.begin(gap)
        for _ in range(self.options.most_inner):
            decrement, harm = self.remaining()
            if decrement <= 1e-17 or (decrement <= decrement_tol and harm <= harm_tol):
                return
            if self.steps >= max_iter or budget.exhausted:
                return
            decrease = self.search(self.newton())
            if decrease is None:  # No step decreases the value: the end of the numbers.
                return
            step, self.here = decrease
            self.steps += 1
            self.go(step)

    def search(self, line: Line) -> tuple[float, Value] | None:
        """The step at which the slope along the direction is next to zero, and the value there.

        Along a line the slope rises, in straight pieces: false position with the weights of the Illinois rule, because
        a constraint is a wall before which secants creep.
        """
        initial, linear, square = line
        options = self.options
        noise = 1e-13 * max(abs(self.here.value), 1.0)  # relative accuracy of a sum over all rows
        low, high, below, above = 0.0, np.inf, initial, 0.0
        best: tuple[float, Value] | None = None
        step, side = 1.0, 0
        for attempt in range(options.most_evaluations):
            there = self.evaluate(step)
            change = there.value - self.here.value + step * linear + 0.5 * step * step * square
            slope = there.slope + linear + step * square
            # Where values drown in rounding the slope decides (Hager and Zhang's approximate rule).
            flat = change <= noise and slope <= -(1.0 - 2.0 * options.armijo) * initial
            if change <= options.armijo * step * initial or flat:
                best = step, there
                if not self.exact_search or abs(slope) <= -options.slope_left * initial:
                    break
            if not self.exact_search:
                # Halving, which begins no farther out than the kinks of the hinges reach.
                step *= 0.5 * min(1.0, self._far()) if attempt == 0 else 0.5
                continue
            # The minimum lies between a step of negative and one of positive slope. The Illinois rule halves the weight
            # of an end that stays twice in a row, so that the other end comes nearer, too.
            if slope < 0.0:
                low, below = step, slope
                above *= 0.5 if side < 0 else 1.0
                side = -1
            else:
                high, above = step, slope
                below *= 0.5 if side > 0 else 1.0
                side = 1
            if high == np.inf:
                # Only steps of negative slope so far: the minimum lies beyond.
                step *= 2.0
            elif attempt == 0 and (far := self._far()) < 0.5:
                step = far
            else:
                # Between the two ends, and not within a twentieth of either: a secant may creep along a wall.
                width = high - low
                guess = low - below * width / (above - below)
                step = min(max(guess, low + 0.05 * width), high - 0.05 * width)
        return best

    def _far(self) -> float:
        """A step at which the fastest row is past all of its kinks: the curvature at the start says nothing there."""
        # The kinks lie at scores of about 1/2 and -1/2, scores are at most `spread` now, and the fastest one changes by
        # `reach` a unit of step.
        reach, spread = self.hinges.extent()
        return 4.0 * (spread + 1.0) / reach if reach > 0.0 else 1.0

    def advance(self, *, slow: bool) -> None:
        """One proximal step: the slopes become the new centre, the width shrinks, tau grows where constraints lag."""
        options = self.options
        # How far the constraints still are from their multipliers' optimality.
        lag = float(np.abs(self.here.vh - self.v).max(initial=0.0)) / self.tau
        # Multipliers that still move much need a stiffer wall.
        if lag > 0.3 * self.lag:
            self.tau = min(5.0 * self.tau, max(options.last_tau if slow else options.most_tau, self.tau))
        self.lag = lag
        self.hinges.adopt(self.delta)
        self.v = self.here.vh
        # A gap that stops shrinking is held up by the smoothing, so the width may go on falling.
        least = options.last_width if slow else options.least_width
        self.delta = max(options.shrink * self.delta, min(least, self.delta))


def balance(rise: float, fall: float) -> tuple[float, float]:
    """Factors of the two sides of a dual point that make their sums the same: an unregularised bias asks for it."""
    tiny = float(np.finfo(np.float64).tiny)
    return min(1.0, fall / max(rise, tiny)), min(1.0, rise / max(fall, tiny))

"""The steps from a goal tied to rows to the best model found.

    TiedRows -> RateConstrainedProblem -> search (ladder of regularisers, tightening, polish) -> Trained

Rows in memory and rows in blocks take the same steps; moves along lines gather of many blocks the rows that may change
sides.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from widemargin._threads import in_threads
from widemargin._typing import Floats, Index, Matrix
from widemargin.distributed.blocks import BlockedPoint, BlockedRows
from widemargin.estimators.feature_space import ColumnSpace, GramSpace
from widemargin.exceptions import DataError
from widemargin.goals.binding.bind import TiedGoal
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem, nearest_rows
from widemargin.rows import Rows, take
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.convex.checkpoints import Remembered
from widemargin.solvers.convex.convex_step import ConvexStep, KernelStep
from widemargin.solvers.convex.subsample_start import DEFAULTS as SAMPLE
from widemargin.solvers.convex.subsample_start import heaviest, is_uneven
from widemargin.solvers.ramp.conflicts import Diagnosis, diagnose
from widemargin.solvers.ramp.line_moves import OPTIONS as MOVES
from widemargin.solvers.ramp.line_moves import Columns, best_share, improve
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampResult
from widemargin.solvers.ramp.pool import Candidate, Measures, Moves, Pool
from widemargin.solvers.ramp.search import search
from widemargin.solvers.ramp.tightening import enforce
from widemargin.solvers.thresholds.threshold_sweep import best_threshold, best_threshold_of_blocks

Solution = tuple[Floats, float]
"""A model (w, b), `f(x) = <w, x> - b`."""

OF_ANOTHER_GOAL = "the model was trained to another goal, and is better for this one, too"
"""What is said of a point of a path that has the model of another one."""


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Rows with checked labels and weights, and their checked features beside what was given as X.

    Populations and baselines may be looked up in the X that was given, a data frame say.
    """

    rows: Rows
    X: Matrix

    @property
    def labels(self) -> np.ndarray:
        """Checked labels, shape (n,)."""
        return np.asarray(self.rows.y)

    @property
    def weight(self) -> Floats | None:
        """Checked weights, shape (n,); None: all ones."""
        return None if self.rows.sample_weight is None else np.asarray(self.rows.sample_weight)

    @property
    def whole_weight(self) -> float:
        """Sum of the weights, by which C is measured."""
        return float(self.X.shape[0] if self.weight is None else self.weight.sum())

    def take(self, index: Index) -> "CheckedRows":
        """Some of the rows."""
        return CheckedRows(self.rows.take(index), take(self.X, index))


class TiedRows(NamedTuple):
    """A goal tied to rows, and the features of each of its sources."""

    tied: TiedGoal
    matrices: Sequence[Matrix]


@dataclass(frozen=True)
class Plan:
    """What training has to know beside the rows.

    Attributes
    ----------
    lam : float
        Weight of the regulariser, `2 / (n C)`.
    enforce : {"deterministic", "randomized"}
        Whose rates have to meet the bounds on the training rows.
    solver : str
        Name of the convex solver.
    """

    lam: float
    fit_intercept: bool
    enforce: str
    solver: str
    steps: MajorizeOptions


@dataclass(frozen=True)
class Trained:
    """What training found.

    Attributes
    ----------
    best : Candidate
        The best model.
    pool : Pool
        All models that were visited, and what the search took.
    solvers : tuple of str
        The convex solvers that were used.
    diagnosis : Diagnosis or None
        Why the bounds are missed, where they are and the budget was left for finding out.
    """

    best: Candidate
    pool: Pool
    problem: RateConstrainedProblem
    status: Status
    solvers: tuple[str, ...]
    diagnosis: Diagnosis | None = None

    @property
    def solution(self) -> RampResult:
        """The ramp solution behind the model."""
        return self.best.solution

    @property
    def met(self) -> bool:
        """Whether the enforced rates meet every bound on the training rows."""
        return self.best.violation <= 0.0

    def choosing_among(self, models: Iterable[Solution]) -> "Trained":
        """The same with the best of its own model and of others, trained to other goals on the same rows."""
        self.pool.take_in(models, OF_ANOTHER_GOAL)
        best = self.pool.best
        return replace(self, best=best) if best.beats(self.best) else self


def posed(rows: TiedRows, space: ColumnSpace, plan: Plan) -> tuple[RateConstrainedProblem, ConvexStep]:
    """The problem of a tied goal in the space that the model is linear in, and its convex solver."""
    flat = build_problem(rows.tied, space.features(rows.matrices), plan.lam, fit_intercept=plan.fit_intercept)
    return with_solver(flat, space, plan.solver)


def with_solver(
    problem: RateConstrainedProblem, space: ColumnSpace, solver: str
) -> tuple[RateConstrainedProblem, ConvexStep]:
    """The problem to solve in a space, and its convex solver."""
    assert isinstance(problem.rows, RowBlocks)
    if not isinstance(space, GramSpace):
        return replace(problem, rows=problem.rows.as_they_lie()), ConvexStep(solver, problem.n_features)
    rows = space.gram(problem.rows, solver)
    return replace(problem, rows=rows), KernelStep(solver, rows)


def train(
    problem: RateConstrainedProblem, convex: ConvexStep | Remembered, plan: Plan, budget: Budget, *,
    start: Solution | None = None, others: Iterable[Solution] = (), explain: bool = True,
) -> Trained:  # fmt: skip
    """Train on a problem with its convex solver.

    Parameters
    ----------
    start : (w, b), optional
        First point of the search; it stays a candidate.
    others : iterable of (w, b)
        Models of earlier fits, which are candidates, too.
    explain : bool, default=True
        Whether to find out why the bounds are missed, where they are.
    """
    measures, hard = make_measures(problem, plan.enforce)
    give_back = measures is hard
    pool = search(problem, convex, measures, plan.steps, hard=hard, start=start, budget=budget)
    if start is not None:  # the model that the search started from stays a candidate
        pool.take_in([start], "the model is the one that the search started from")
    pool.take_in(others, OF_ANOTHER_GOAL)
    diagnosis = None
    try:
        pool.restart(budget)
        if not give_back and pool.best.violation > 0.0 and not budget.exhausted:
            pool.take_in(_steps(problem, convex, hard, plan, budget), "the model is one by 0/1 rates with large scores")
        if explain and pool.best.violation > 0.0 and not budget.exhausted:
            diagnosis = diagnose(problem, convex, type(measures), pool, budget=budget)
            if pool.best.violation <= 0.0:  # one of its searches met everything: start from there
                met, diagnosis = (pool.best.w, pool.best.b), None
                enforce(problem, convex, pool, plan.steps, give_back=give_back, start=met, budget=budget)
                pool.restart(budget)
    except KeyboardInterrupt:  # outside the descents, which keep what they have themselves
        budget.interrupted = True
    return Trained(pool.best, pool, problem, result_status(pool.best, budget), tuple(convex.used), diagnosis)


def _steps(
    problem: RateConstrainedProblem, convex: ConvexSolver, hard: Measures, plan: Plan, budget: Budget
) -> list[Solution]:
    """The best model by 0/1 rates, with larger and larger scores: randomised classifiers that hardly draw.

    A strong regulariser keeps scores small and ramp rates near a half; with large scores they are 0/1 rates.
    """
    pool = search(problem, convex, hard, plan.steps, hard=hard, budget=budget)
    pool.restart(budget)
    return [(factor * pool.best.w, factor * pool.best.b) for factor in 4.0 ** np.arange(1, 13)]


@contextmanager
def refuse_overflow(matrices: Sequence[Matrix]) -> Iterator[None]:
    """Turn the failure of a factorisation into advice.

    Raises
    ------
    DataError
        If features are too large for double precision.
    """
    try:
        yield
    except np.linalg.LinAlgError as error:
        largest = max(float(abs(part).max()) for part in matrices)
        raise DataError(f"the solver cannot handle features as large as {largest:.3g}: scale them.") from error


def make_measures(problem: RateConstrainedProblem, enforce: str) -> tuple[Measures, Measures]:
    """The rates that are enforced, and the 0/1 rates; the same object where these are enforced."""
    hard = Deterministic(problem)
    return (hard if enforce == "deterministic" else Randomized(problem)), hard


class _Rates:
    """Rates of one kind of a problem's models. Subclasses say in `values` which, and make candidates of solutions."""

    moves: Moves | None = None

    def __init__(self, problem: RateConstrainedProblem) -> None:
        self._problem = problem

    @abstractmethod
    def values(self, w: Floats, b: float) -> tuple[float, Floats]:
        """Objective of a model, in the problem's scale, and its excess of each constraint, shape (m,)."""

    def ramp_objective(self, w: Floats, b: float) -> float:
        """What is minimised over w, with the regulariser."""
        return self._problem.ramp_values(w, self._problem.scores(w, b))[0]


class Deterministic(_Rates):
    """0/1 rates, with the exact best threshold where there is an intercept to move, and exact moves by them.

    Over rows in blocks the moves look at the rows nearest to the boundary, and what comes of them is judged by all.
    """

    def __init__(self, problem: RateConstrainedProblem) -> None:
        super().__init__(problem)
        self.moves = self

    @cached_property
    def _at_hand(self) -> tuple[RateConstrainedProblem, Columns] | None:
        """The problem with all rows in memory, and its features, for moves to look at; kernel rows have none."""
        problem = self._problem
        if isinstance(problem.rows, BlockedRows) and problem.rows.n_stored <= SAMPLE.most_numbers:
            problem = nearest_rows(problem, np.zeros(problem.n_features), 0.0, SAMPLE.most_numbers)
        rows = problem.rows
        return (problem, Columns(rows, problem.fit_intercept)) if isinstance(rows, RowBlocks) else None

    def values(self, w: Floats, b: float) -> tuple[float, Floats]:
        """Objective and excesses of a model, by these rates."""
        return self._problem.values(self._problem.hard_mass(self._problem.scores(w, b)))

    def judge(self, solution: RampResult) -> Candidate:
        """The solution at its best threshold."""
        problem, shift = self._problem, 0.0
        z = problem.scores(solution.w, solution.b)
        objective, excess = problem.values(problem.hard_mass(z))
        after = excess
        if problem.fit_intercept:
            if isinstance(z, BlockedPoint):
                assert isinstance(problem.rows, BlockedRows)
                at = best_threshold_of_blocks(problem.rows, z, problem.coef, problem.gamma, problem.cell_weight)
            else:
                at = best_threshold(z, problem.weight, problem.cell, problem.coef, problem.gamma, problem.cell_weight)
            shift = at.threshold
        if shift != 0.0:
            shifted = z._replace(b=z.b + shift) if isinstance(z, BlockedPoint) else z - shift
            objective, after = problem.values(problem.hard_mass(shifted))
        return Candidate(solution.w, solution.b + shift, objective, after, excess, shift != 0.0, solution)

    def between(self, one: Candidate, other: Candidate) -> Candidate:
        """The best classifier on the segment, at its own best threshold."""
        problem = self._at_hand[0] if self._at_hand else self._problem
        if isinstance(problem.rows, BlockedRows):
            return one
        share = best_share(problem, problem.scores(one.w, one.b), problem.scores(other.w, other.b))
        if share == 0.0:
            return one
        w, b = one.w + share * (other.w - one.w), one.b + share * (other.b - one.b)
        best = self.judge(replace(one.solution, w=w, b=b, certified=False))
        return replace(best, how=f"the model lies between two solutions, {share:.3g} of the way")

    def polish(self, candidates: Sequence[Candidate], budget: Budget) -> list[Candidate]:
        """The candidates after exact moves along lines, side by side in the threads in force."""
        at_hand = self._at_hand
        if at_hand is not None:
            parts = in_threads(
                len(candidates), 1, pieces=1,
                part=lambda first, last: [
                    self._moved(one, at_hand, budget, walk=False) for one in candidates[first:last]
                ],
            )  # fmt: skip
            moved = [other for some in parts for other in some]
        elif isinstance(self._problem.rows, BlockedRows) and candidates:
            # The rows near the boundary are gathered for each, so the best one alone is moved.
            best = candidates[0]
            near = nearest_rows(self._problem, best.w, best.b, SAMPLE.most_numbers)
            moved = [self._moved_by_some(best, near, budget, walk=False)]
        else:
            moved = []
        return [other for one, other in zip(candidates, moved, strict=False) if other.beats(one)]

    def restarted(self, candidate: Candidate, budget: Budget) -> list[Candidate]:
        """What exact moves make of a candidate and of random models around it, where that is better."""
        if self._at_hand is None or not self._at_hand[1].small:
            return []
        other = candidate
        for seed in range(1 + MOVES.more_walks):
            other = self._moved(other, self._at_hand, budget, walk=True, seed=seed)
            if other.violation == 0.0:
                break
        if is_uneven(self._at_hand[0].weight):
            # Many lines among the few rows that decide, from whose end all rows are looked at once more, while it pays.
            heavy, again = heaviest(self._at_hand[0]), other
            while again is other and not budget.exhausted:
                led = self._moved_by_some(other, heavy, budget, walk=True)
                again = self._moved(led, self._at_hand, budget, walk=False)
                if again.beats(other):
                    other = again
        return [other] if other.beats(candidate) else []

    def _moved(
        self, candidate: Candidate, at_hand: tuple[RateConstrainedProblem, Columns], budget: Budget, *, walk: bool,
        seed: int = 0,
    ) -> Candidate:  # fmt: skip
        moved = improve(*at_hand, candidate.w, candidate.b, walk=walk, budget=budget, seed=seed)
        how, values = "the model was moved afterwards by the 0/1 rates", (moved.objective, moved.excess)
        return candidate.moved_to(moved.w, moved.b, values, how)

    def _moved_by_some(
        self, candidate: Candidate, some: RateConstrainedProblem, budget: Budget, *, walk: bool
    ) -> Candidate:
        """After moves that look at some rows, with the best threshold over all rows."""
        assert isinstance(some.rows, RowBlocks)
        moved = self._moved(candidate, (some, Columns(some.rows, some.fit_intercept)), budget, walk=walk)
        judged = self.judge(replace(candidate.solution, w=moved.w, b=moved.b))
        return candidate.moved_to(judged.w, judged.b, (judged.objective, judged.excess), moved.how)


class Randomized(_Rates):
    """Ramp rates, the expected ones of the randomised classifier; the objective holds the regulariser.

    Parameters
    ----------
    problem : RateConstrainedProblem
    """

    def values(self, w: Floats, b: float) -> tuple[float, Floats]:
        """Objective and excesses of a model, by these rates."""
        return self._problem.ramp_values(w, self._problem.scores(w, b))

    def judge(self, solution: RampResult) -> Candidate:
        """The solution as it is; not by `solution.excess`, which is measured by the tightened bounds."""
        objective, excess = self.values(solution.w, solution.b)
        return Candidate(solution.w, solution.b, objective, excess, excess, False, solution)


def result_status(best: Candidate, budget: Budget) -> Status:
    """How training ended."""
    if budget.interrupted:
        return Status.INTERRUPTED
    if budget.stopped:
        return Status.STOPPED
    if budget.exhausted:
        return Status.TIME_LIMIT
    if best.violation > 0.0:
        return Status.INFEASIBLE
    return Status.CONVERGED if best.solution.status == Status.INFEASIBLE else best.solution.status

"""One run of `tradeoff_path`: goals trained one after the other, and measured; points of an earlier run as models."""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from widemargin._typing import Floats, Matrix
from widemargin.estimators.feature_space import ColumnSpace, GramSpace
from widemargin.estimators.path_points import Decided, PathPoints, Point, Swept
from widemargin.estimators.rate_constrained import training as steps
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.exceptions import DataError, GoalError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import Source, TiedGoal, baselines_used, bind
from widemargin.goals.measuring.tradeoff_path import MeasureLog, TradeoffPath
from widemargin.losses.ramp import ramp
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem
from widemargin.rows import Rows, stacked
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.ramp.pool import Pool
from widemargin.solvers.ramp.search import refine, search
from widemargin.solvers.ramp.tightening import enforce


@dataclass
class _Measured:
    """Rows that the models are measured on: what goals are tied to, and the features of each source."""

    sources: tuple[Source, ...]
    matrices: list[Matrix]
    tied: TiedGoal | None = None

    def bind(self, goal: Goal) -> TiedGoal:
        """Tie a goal to these rows."""
        try:
            self.tied = bind(goal, self.sources, warn_trivial=False, like=self.tied)
        except GoalError as error:
            raise GoalError(f"on the validation rows: {error}") from error
        return self.tied

    def decided(self, model: RateConstrainedClassifier, tied: TiedGoal) -> Decided:
        """What a model says of these rows."""
        scores = [model._direction() * model._scores(X) for X in self.matrices]
        return Decided(tied, [z > 0.0 for z in scores], [ramp(z) for z in scores])


class Piece(NamedTuple):
    """Points of a path that were trained one from the other, and what was measured of them."""

    points: list[Point]
    labels: tuple[str, ...]
    floors: tuple[bool, ...]
    training: MeasureLog | None
    held: MeasureLog | None


class Neighbour(NamedTuple):
    """What a point starts from: a solution, its penalty, whether it met its goal, that goal's constraints and value."""

    w: Floats
    b: float
    rho: float
    met: bool
    n_constraints: int
    objective: float = np.inf


LEAP = 1.05
"""How much the objective may rise from one point of a path to the next before a search from nothing is tried, too."""


class GoalSeries:
    """Trains goals on the same rows, in order: what does not change is done once, and each starts warm.

    The rows are tied to the goal, checked and merged once; from goal to goal only coefficients by cell and bounds are
    made anew. A point starts from the last one's model, hinge variables and multipliers.

    Parameters
    ----------
    sources : sequence of Source
        What the goals are tied to.
    matrices : sequence of matrices
        Features of each source.
    space : ColumnSpace
        What the models are linear in. Of an exact kernel the matrix is computed anew for each goal.
    plan : Plan
        Of a start from nothing, which the first goal gets, and as a second opinion every goal that ends unlike its
        neighbour, met after one that was not, or not met after one that was.
    most : int, default=4
        Most steps of majorisation from a neighbour's solution, the last one included. Two were measured to be enough
        between close neighbours; more follow a goal that lies farther off, and cost as much each.
    stall : float, default=0.01
        Relative decrease of the merit below which only the last step is taken. It is twenty times that of a start from
        nothing, because a neighbour's solution is good already; smaller takes more steps for nothing that shows.
    """

    def __init__(
        self, sources: Sequence[Source], matrices: Sequence[Matrix], space: ColumnSpace, plan: steps.Plan,
        budget: Budget, *, most: int = 4, stall: float = 1e-2,
    ) -> None:  # fmt: skip
        self.sources, self.space, self.plan, self.budget = sources, space, plan, budget
        self.features = space.features(matrices)
        self.warm = replace(plan.steps, steps=most - 1, tol=plan.steps.loose_tol, stall=stall)
        self._tied: TiedGoal | None = None
        self._flat: RateConstrainedProblem | None = None
        self._last: Neighbour | None = None
        self._given: Neighbour | None = None
        self._state: ConvexState | None = None
        self.models: list[steps.Solution] = []

    def bind(self, goal: Goal) -> TiedGoal:
        """Tie a goal to the rows, with the cells of the goal before where they suffice."""
        return bind(goal, self.sources, warn_trivial=self._tied is None, like=self._tied)

    def go_on(self, tied: TiedGoal, before: Neighbour | None) -> None:
        """Take over from an earlier run that ended with this goal; its solution is where the next one starts."""
        self._tied, self._given = tied, before
        if before is not None:
            self.models.append((before.w, before.b))

    def train(self, tied: TiedGoal) -> steps.Trained:
        """Train on a tied goal, warm where there is a goal before."""
        flat = None
        if self._flat is not None and self._tied is not None and self._tied.space is tied.space:
            flat = self._flat.retied(self._tied, tied)
        if flat is None:  # other cells, so other rows: hinge variables belong to rows
            self._last = None
            flat = build_problem(tied, self.features, self.plan.lam, fit_intercept=self.plan.fit_intercept)
        self._flat = flat
        problem, solver = steps.with_solver(flat, self.space, self.plan.solver)
        measures, hard = steps.make_measures(problem, self.plan.enforce)
        give_back, resumed = measures is hard, self._given is not None
        before, self._given = self._given or self._last, None
        state = self._state

        def convex(sub: ConstrainedHinge, **asked: Any) -> ConvexResult:
            """Solve a convex step, and keep its hinge variables: the next goal's problem starts from the last ones."""
            result = solver(sub, **asked)
            self._state = result.state
            return result

        found: Pool | None = None
        if before is not None and before.n_constraints == problem.n_asked:
            # The tightening starts anew: the last goal's was measured to stay for good where the sweep of the bias
            # hides it. The penalty does not: a neighbour will need it too.
            if state is not None and state.v.shape[0] != problem.n_constraints:  # the plain SVM was trained last
                state = state._replace(v=np.zeros(problem.n_constraints))
            warm = replace(self.warm, rhos=tuple(rho for rho in self.warm.rhos if rho >= before.rho))
            found = enforce(
                problem, convex, Pool(measures), warm, give_back=give_back, start=(before.w, before.b), state=state,
                budget=self.budget,
            )  # fmt: skip
            refine(problem, convex, found, warm, self.budget)
        # A resumed start knows neither penalty nor hinge variables. Where the objective leaps, the path may have been
        # led to a place that gets worse and worse: both get a second opinion.
        alike = before is not None and found is not None and before.met == (found.best.violation <= 0.0)
        leapt = before is not None and found is not None and found.best.objective > LEAP * before.objective
        if found is None or ((resumed or leapt or not alike) and not self.budget.exhausted):
            cold = search(problem, convex, measures, self.plan.steps, hard=hard, budget=self.budget)
            found = cold if found is None or cold.best.beats(found.best) else found
        # The restarts begin near the best model for this goal that any point so far has found.
        found.take_in(self.models, steps.OF_ANOTHER_GOAL)
        found.restart(self.budget)
        best = found.best
        trained = steps.Trained(best, found, problem, steps.result_status(best, self.budget), tuple(solver.used))
        last = trained.solution
        self._last = Neighbour(last.w, last.b, last.rho, trained.met, problem.n_asked, best.objective)
        self._tied = tied
        if not isinstance(self.space, GramSpace):  # models of an exact kernel are weights of the rows of one goal
            self.models.append((trained.best.w, trained.best.b))
        return trained


class Sweep(PathPoints):
    """Trains and measures the points of a path.

    Parameters
    ----------
    training : Rows
        With the external data sets, which are part of the training data also where held-out rates are measured.
    """

    def __init__(self, classifier: RateConstrainedClassifier, training: Rows, held: Rows | None, swept: Swept) -> None:
        self.model = model = clone(classifier)
        model.calibrator_ = None
        super().__init__(classifier.goal, swept, model._budget())
        uses: dict[str | None, dict[str, None]] = {}  # every source and baseline that some goal uses, in order
        for goal in swept.goals:
            for source, names in baselines_used(goal).items():
                uses.setdefault(source, {}).update(dict.fromkeys(names))
        self.own, rows = self._checked(training, training.external, uses)
        matrices = self.own.matrices
        space = model._space(rows.X, rows.weight, n_sources=len(matrices))
        self.series = GoalSeries(self.own.sources, matrices, space, model._plan(rows.whole_weight), self.budget)
        self.unseen = None if held is None else self._checked(held, training.external, uses, is_held=True)[0]

    def _checked(
        self,
        given: Rows,
        external: Mapping[str, Rows],
        uses: Mapping[str | None, Collection[str]],
        *,
        is_held: bool = False,
    ) -> tuple[_Measured, steps.CheckedRows]:
        """Rows that were given, ready to be measured on."""
        assert given.X is not None and given.y is not None
        if given.sample_weight is not None and not np.any(np.asarray(given.sample_weight)):
            part = "held out" if is_held else "trained on"
            raise DataError(f"all {given.n_rows} rows {part} have weight zero: leave these out, or split otherwise.")
        rows = self.model._checked(
            given.X, given.y, given.sample_weight, given.populations, external, reset=not is_held
        )
        sources, matrices = self.model._sources(uses, rows)
        return _Measured(sources, matrices), rows

    def go_on_from(self, path: TradeoffPath) -> None:
        """Take the points of a path that ended early as trained: measure their models again, and start from the last.

        Raises
        ------
        DataError
            Its points are not the first of this path, or its models do not give its numbers on these rows.
        """
        if len(path) > len(self.levels) or not np.array_equal(path.values, self.levels[: len(path)]):
            raise DataError(f"the {len(path)} values of the earlier path are not the first of these; train all points.")
        if cut_short(path):
            return
        for number, goal in enumerate(self.goals[: len(path)]):
            tied = self.series.bind(goal)
            if self.unseen is not None:
                self.unseen.bind(goal)
            model = restored(self.model, path, number, self.series.space, self.own.matrices)
            model.goal = model.goal_ = goal
            point = Point(model, bool(path.met[number]), float(path.seconds[number]), np.nan, np.nan)
            self._keep(goal, tied, point)
            before = None  # of an exact kernel: its weights belong to merged rows of one run
            if "dual_coef_" not in vars(model):
                sign = model._direction()
                w, b = sign * model.coef_[0], -sign * float(model.intercept_[0])
                before = Neighbour(w, b, 0.0, point.met, tied.n_constraints)
            self.series.go_on(tied, before)
        assert self.training is not None
        measured, told = self.training.finish().objective, path.training.objective
        if not np.allclose(measured, told, rtol=0.0, atol=1e-9, equal_nan=True):
            raise DataError(
                f"the models of the earlier path have the objectives {measured.tolist()} on these rows, and it says "
                f"{told.tolist()}: the rows are others, or the numbers were changed. Train all points."
            )

    def train(self) -> "Piece":
        """Train point after point, until the goals or the time end; then each gets the best of all their models."""
        done: list[tuple[TiedGoal, steps.Trained, float]] = []
        begun = len(self.points)
        try:
            for goal in self.goals[begun:]:
                began, tied = self.budget.elapsed, self.series.bind(goal)
                self.agrees(tied.n_constraints)
                if self.unseen is not None:  # what is wrong there is said before the time for training is spent
                    self.unseen.bind(goal)
                with steps.refuse_overflow(self.own.matrices):
                    trained = self.series.train(tied)
                if self.budget.exhausted and begun + len(done):
                    break  # cut short; its neighbours are done
                done.append((tied, trained, self.budget.elapsed - began))
                best, gap = trained.best, trained.solution.subproblem.gap
                self.budget.tell("path", begun + len(done), best.objective, gap, best.violation)
                if self.budget.exhausted:
                    break
        finally:  # an interrupt loses nothing that was trained
            for goal, (tied, own, seconds) in zip(self.goals[begun:], done, strict=False):
                # Each point gets the best for its goal of all models, so that a looser goal is never worse off.
                trained, model = own.choosing_among(self.series.models), copy.copy(self.model)
                model.goal = model.goal_ = goal
                model._adopt(self.series.space, trained, steps.TiedRows(tied, self.own.matrices))
                if self.unseen is not None:
                    self.unseen.bind(goal)
                best, met = trained.best, trained.met if model.enforce == "randomized" else model._meets()
                self._keep(goal, tied, Point(model, met, seconds, best.objective, best.violation))
        return Piece(self.points, self.labels, self.floors, self.training, self.held)

    def run(self, pieces: "Iterable[Piece] | None" = None) -> TradeoffPath:
        """Train all points, or take over those of pieces trained elsewhere, until the user's patience ends."""
        try:
            if pieces is None:
                self.train()
            else:
                for piece in pieces:
                    self._take(piece)
                    if self.budget.exhausted:
                        break
        except KeyboardInterrupt:
            self.budget.interrupted = True
        return self.path(randomized=self.model.enforce == "randomized")

    def _keep(self, goal: Goal, tied: TiedGoal, point: Point) -> None:
        """Measure the model of a point and add it to the path."""
        held = None
        if self.unseen is not None and self.unseen.tied is not None:
            held = self.unseen.decided(point.model, self.unseen.tied)
        self.keep(goal, point, self.own.decided(point.model, tied), held)

    def _take(self, piece: "Piece") -> None:
        """The points of a piece; the callbacks are told of them."""
        self.agrees(len(piece.labels))
        self.labels, self.floors = piece.labels, piece.floors
        self.training, self.held = joined(self.training, piece.training), joined(self.held, piece.held)
        for point in piece.points:
            watched = {name: getattr(self.model, name) for name in ("callbacks", "solver_options", "time_budget")}
            point.model.set_params(**watched)
            self.points.append(point)
            self.budget.tell("path", len(self.points), point.objective, point.model.subproblem_gap_, point.violation)


def joined(first: MeasureLog | None, then: MeasureLog | None) -> MeasureLog | None:
    """The models of both logs."""
    if first is not None and then is not None:
        first.join(then)
    return first or then


def cut_short(path: TradeoffPath) -> bool:
    """Whether not even its first point was trained to the end."""
    return path.status[0] in (Status.TIME_LIMIT, Status.STOPPED, Status.INTERRUPTED)


def model_numbers(model: RateConstrainedClassifier) -> dict[str, Any]:
    """What a model of a path is made of, fit for JSON: coefficients, or of a kernel the weights of training rows."""
    numbers: dict[str, Any] = {"intercept": float(model.intercept_[0])}
    if "dual_coef_" in vars(model):
        return numbers | {"support": model.support_.tolist(), "dual_coef": model.dual_coef_[0].tolist()}
    return numbers | {"coef": model.coef_[0].tolist()}


def model_from_numbers(numbers: Mapping[str, Any]) -> SimpleNamespace:
    """What `restored` needs of a model, from what `model_numbers` gave (also after JSON).

    Raises
    ------
    DataError
        The numbers are none, or do not fit together.
    """
    try:
        names = ("coef",) if "coef" in numbers else ("dual_coef", "support")
        arrays = {name: np.array(numbers[name], dtype=np.float64) for name in names}
        arrays["intercept"] = np.array([numbers["intercept"]], dtype=np.float64)
        if any(array.ndim != 1 or not np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("a vector of finite numbers is needed")
        model = SimpleNamespace(intercept_=arrays["intercept"])
        if "coef" in numbers:
            model.coef_ = arrays["coef"][None, :]
            return model
        model.dual_coef_, model.support_ = arrays["dual_coef"][None, :], arrays["support"].astype(np.intp)
        if model.support_.shape != arrays["dual_coef"].shape or (model.support_ != arrays["support"]).any():
            raise ValueError("support and dual_coef differ")
        return model
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"the stored models are damaged ({str(error)[:200]}). Train all points again.") from None


def restored(
    template: RateConstrainedClassifier, path: TradeoffPath, number: int, space: ColumnSpace, matrices: Sequence[Matrix]
) -> RateConstrainedClassifier:
    """The model of a point: itself, or made of its numbers.

    Parameters
    ----------
    template : RateConstrainedClassifier
        With what all models of the path have in common.
    path : TradeoffPath
        With a model, or its numbers (`model_from_numbers`), for each point.
    space : ColumnSpace
        With its features made.
    matrices : sequence of matrices
        Training features of each source, of which kernel models take their support vectors.

    Raises
    ------
    DataError
        The path has no models, or they are of another space.
    """
    stored = path.model(number)
    if isinstance(stored, RateConstrainedClassifier):
        return stored
    model, is_kernel = copy.copy(template), isinstance(space, GramSpace)
    if is_kernel != hasattr(stored, "dual_coef_"):
        raise DataError("the earlier path has models of another kind (linear, kernel). Train all points again.")
    if isinstance(space, GramSpace):
        rows = stacked(matrices)
        if stored.support_.size and not 0 <= stored.support_.min() <= stored.support_.max() < rows.shape[0]:
            raise DataError("the earlier path has models of rows that are not there. Train all points again.")
        model.support_, model.support_vectors_ = stored.support_, rows[stored.support_]
        model.dual_coef_, model.intercept_, model.gamma_ = stored.dual_coef_, stored.intercept_, space.kernel.gamma
    else:
        space.adopt(model, stored.coef_)
        model.intercept_ = stored.intercept_
    model.subproblem_gap_, model.certified_point_ = float(path.gap[number]), bool(path.certified[number])
    model.multipliers_, model.status_ = path.multipliers[number], path.status[number]
    model.n_iter_ = int(path.n_iter[number])
    return model

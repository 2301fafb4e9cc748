"""One class against the rest: margin pursuit at a scale that is given, or found from a first fit."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from widemargin._typing import Floats
from widemargin.problems.margin_pursuit import MarginPursuitProblem, data_driven_scale, lemma_6_scale
from widemargin.solvers import gradient_descent
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth import lbfgs, margin_sgd
from widemargin.solvers.smooth.smooth_problem import SmoothResult

__all__ = ["MAX_ITER", "Pursuit", "Start", "pursue"]

MAX_ITER = {"lbfgs": 1000, "gd": 10_000, "sgd": 20}
"""Most iterations, or passes of the stochastic form, by default."""

Solve = Callable[..., SmoothResult]


class Start(NamedTuple):
    """Where a warm start goes on: a point, the scale, and the stochastic steps taken."""

    point: Floats
    scale: float
    steps: int


class Pursuit(NamedTuple):
    """The solution, its scale, and what all stages cost."""

    result: SmoothResult
    scale: float
    n_iter: int
    n_gradients: int
    steps: int
    history: tuple[dict[str, float], ...]


def pursue(model: Any, problem: MarginPursuitProblem, start: Start | None, budget: Budget, seed: int) -> Pursuit:
    """Train at `model.scale`.

    A number is the scale. "auto" and "catoni" train at the margin level first, then take the scale from the margins and
    train again from there. "rescale-once" goes on with the scale that the margins of the first iterations set, and with
    the loss `rho` in place of `scale^2 rho`.
    """
    limit = MAX_ITER[model.solver] if model.max_iter is None else int(model.max_iter)
    run = _Run(model, budget, start, seed)
    if not isinstance(model.scale, str):
        return run.stage(problem.at_scale(float(model.scale)), limit).pursuit()
    level = problem.loss.margin_level
    if model.scale == "rescale-once":
        return _rescale_once(run, problem.at_scale(level), start, limit)
    run.stage(problem.at_scale(level), limit)
    if budget.exhausted:
        return run.pursuit()
    margins = problem.margins(run.point)
    if model.scale == "catoni":
        scale = lemma_6_scale(margins, problem.share, problem.n, float(model.delta))
    else:
        scale = data_driven_scale(margins, problem.share, float(model.scale_factor))
    return run.stage(problem.at_scale(scale), limit).pursuit()


def _rescale_once(run: "_Run", problem: MarginPursuitProblem, start: Start | None, limit: int) -> Pursuit:
    """The paper's data-driven update, after iterations of this fit and of those that a warm start goes on from."""
    model = run.model
    if start is not None and start.scale != problem.loss.margin_level:
        return run.stage(problem.rescaled(start.scale), limit).pursuit()
    wait = int(model.rescale_after)
    if start is not None:
        wait = max(0, wait - start.steps // problem.n_rows) if model.solver == "sgd" else 0
    if wait > 0:
        run.stage(problem, min(limit, wait))
    left = limit - run.n_iter
    if run.budget.exhausted or left < 1:
        return run.pursuit()
    scale = data_driven_scale(problem.margins(run.point), problem.share, float(model.scale_factor))
    return run.stage(problem.rescaled(scale), left).pursuit()


class _Run:
    """Stages of one fit, each from where the last one ended."""

    def __init__(self, model: Any, budget: Budget, start: Start | None, seed: int) -> None:
        self.model, self.budget, self._seed = model, budget, seed
        self._point = None if start is None else start.point
        self._steps = 0 if start is None else start.steps
        self._scale = 0.0
        self.results: list[SmoothResult] = []
        self._history: list[dict[str, float]] = []

    @property
    def n_iter(self) -> int:
        """Iterations or passes of all stages."""
        return sum(result.n_iter for result in self.results)

    @property
    def point(self) -> Floats:
        """Where the last stage, or the fit before, has ended."""
        assert self._point is not None
        return self._point

    def stage(self, problem: MarginPursuitProblem, limit: int) -> "_Run":
        """Solve from the last point; returns the run."""
        model = self.model
        solve: Solve = lbfgs.solve
        if model.solver == "gd":
            solve = partial(gradient_descent.solve, step=model.step_size)
        elif model.solver == "sgd":
            solve = partial(margin_sgd.solve, average=bool(model.average), seed=self._seed, steps=self._steps)
        result = solve(problem, tol=float(model.tol), start=self._point, budget=self.budget, max_iter=limit)
        if model.solver == "sgd":
            self._steps += result.n_iter * problem.n_rows
        spent = {"iteration": self.n_iter, "gradients": sum(item.n_gradients for item in self.results)}
        self._history += [
            entry | {name: entry[name] + before for name, before in spent.items()} | {"scale": problem.loss.scale}
            for entry in result.history
        ]
        self.results.append(result)
        self._point, self._scale = result.point, problem.loss.scale
        return self

    def pursuit(self) -> Pursuit:
        """The last stage's solution and the cost of all."""
        return Pursuit(
            self.results[-1], self._scale, self.n_iter, sum(item.n_gradients for item in self.results), self._steps,
            tuple(self._history),
        )  # fmt: skip

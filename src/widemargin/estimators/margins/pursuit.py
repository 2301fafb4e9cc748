"""One class against the rest: margin pursuit at a scale that is given, or found from a first fit."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from widemargin._papers import papers_module
from widemargin._typing import Floats
from widemargin.estimators.margins.options import PursuitOptions
from widemargin.problems.margin_pursuit import MarginPursuitProblem, data_driven_scale, lemma_6_scale
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth import lbfgs, margin_sgd
from widemargin.solvers.smooth.smooth_problem import SmoothResult, SmoothSolver

__all__ = ["MAX_ITER", "Pursuit", "Recipe", "Start", "pursue"]

MAX_ITER = {"lbfgs": 1000, "gd": 10_000, "sgd": 20}
"""Most iterations, or passes of the stochastic form, by default; a solver of the user's takes those of the first."""


@dataclass(frozen=True)
class Recipe:
    """What the estimator's parameters say about one fit.

    Attributes
    ----------
    scale : float or {"auto", "catoni", "rescale-once"}
    solver : {"lbfgs", "gd", "sgd"} or SmoothSolver
    tol : float
    max_iter : int or None
    options : PursuitOptions
    seed : int
        Of the rows drawn by "sgd".
    """

    scale: float | str
    solver: str | SmoothSolver
    tol: float
    max_iter: int | None
    options: PursuitOptions
    seed: int

    @property
    def limit(self) -> int:
        """Most iterations at each scale."""
        if self.max_iter is not None:
            return int(self.max_iter)
        return MAX_ITER[self.solver if isinstance(self.solver, str) else "lbfgs"]

    def solve(self, steps: int) -> SmoothSolver:
        """The solver, with its options; "sgd" goes on from so many steps.

        Raises
        ------
        CapabilityError
            If it is "gd" and widemargin-papers is not there.
        """
        if not isinstance(self.solver, str):
            return self.solver
        if self.solver == "lbfgs":
            return lbfgs.solve
        if self.solver == "gd":
            descent = papers_module("solvers.gradient_descent", "solver='gd'")
            return partial(descent.solve, step=self.options.step_size)
        average = bool(self.options.average)
        return partial(margin_sgd.solve, average=average, seed=self.seed, steps=steps)


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


def pursue(recipe: Recipe, problem: MarginPursuitProblem, start: Start | None, budget: Budget) -> Pursuit:
    """Train at the scale of the recipe.

    A number is the scale. "auto" and "catoni" train at the margin level first, then take the scale from the margins and
    train again from there. "rescale-once" goes on with the scale that the margins of the first iterations set, and with
    the loss `rho` in place of `scale^2 rho`.
    """
    run = _Stages(recipe, budget, start)
    if not isinstance(recipe.scale, str):
        run.stage(problem.at_scale(float(recipe.scale)), recipe.limit)
        return run.pursuit()
    problem = problem.at_scale(problem.loss.margin_level)
    if recipe.scale == "rescale-once":
        _rescale_once(run, problem, start)
        return run.pursuit()
    run.stage(problem, recipe.limit)
    if not budget.exhausted:
        margins = problem.margins(run.point)
        if recipe.scale == "catoni":
            scale = lemma_6_scale(margins, problem.share, problem.n, float(recipe.options.delta))
        else:
            scale = data_driven_scale(margins, problem.share, float(recipe.options.scale_factor))
        run.stage(problem.at_scale(scale), recipe.limit)
    return run.pursuit()


def _rescale_once(run: "_Stages", problem: MarginPursuitProblem, start: Start | None) -> None:
    """The paper's data-driven update, after iterations of this fit and of those that a warm start goes on from."""
    recipe, wait = run.recipe, int(run.recipe.options.rescale_after)
    if start is not None:
        if start.scale != problem.loss.margin_level:  # it was rescaled before, and is so only once
            run.stage(problem.rescaled(start.scale), recipe.limit)
            return
        wait = max(0, wait - start.steps // problem.n_rows) if recipe.solver == "sgd" else 0
    if wait > 0:
        run.stage(problem, min(recipe.limit, wait))
    left = recipe.limit - run.n_iter
    if run.budget.exhausted or left < 1:
        return
    scale = data_driven_scale(problem.margins(run.point), problem.share, float(recipe.options.scale_factor))
    run.stage(problem.rescaled(scale), left)


class _Stages:
    """Stages of one fit, each from where the last one ended."""

    def __init__(self, recipe: Recipe, budget: Budget, start: Start | None) -> None:
        self.recipe, self.budget = recipe, budget
        self._point = None if start is None else start.point
        self._steps = 0 if start is None else start.steps
        self._scale = 0.0
        self._results: list[SmoothResult] = []
        self._history: list[dict[str, float]] = []

    @property
    def n_iter(self) -> int:
        """Iterations or passes of all stages."""
        return sum(result.n_iter for result in self._results)

    @property
    def point(self) -> Floats:
        """Where the last stage, or the fit before, has ended."""
        assert self._point is not None
        return self._point

    def stage(self, problem: MarginPursuitProblem, limit: int) -> None:
        """Solve from the last point."""
        solve = self.recipe.solve(self._steps)
        result = solve(problem, tol=float(self.recipe.tol), start=self._point, budget=self.budget, max_iter=limit)
        if self.recipe.solver == "sgd":
            self._steps += result.n_iter * problem.n_rows
        # Each stage counts from zero; the history of the fit goes on counting.
        spent = {"iteration": self.n_iter, "gradients": sum(item.n_gradients for item in self._results)}
        self._history += [
            entry | {name: entry[name] + before for name, before in spent.items()} | {"scale": problem.loss.scale}
            for entry in result.history
        ]
        self._results.append(result)
        self._point, self._scale = result.point, problem.loss.scale

    def pursuit(self) -> Pursuit:
        """The last stage's solution and the cost of all."""
        n_gradients = sum(item.n_gradients for item in self._results)
        return Pursuit(self._results[-1], self._scale, self.n_iter, n_gradients, self._steps, tuple(self._history))

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
    limit : int
        Most iterations at each scale.
    options : PursuitOptions
    seed : int
        Of the rows drawn by "sgd".
    """

    scale: float | str
    solver: str | SmoothSolver
    tol: float
    limit: int
    options: PursuitOptions
    seed: int

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
        return partial(margin_sgd.solve, average=bool(self.options.average), seed=self.seed, steps=steps)


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
    point, steps = (None, 0) if start is None else (start.point, start.steps)
    results: list[SmoothResult] = []
    history: list[dict[str, float]] = []

    def stage(at: MarginPursuitProblem, limit: int) -> None:
        """Solve from where the last stage, or the fit before, has ended."""
        nonlocal point, steps
        # Every stage counts its iterations from zero, and the history of the fit counts all of them.
        spent = {"iteration": sum(run.n_iter for run in results), "gradients": sum(run.n_gradients for run in results)}
        solve = recipe.solve(steps)
        result = solve(at, tol=float(recipe.tol), start=point, budget=budget, max_iter=limit)
        if recipe.solver == "sgd":
            steps += result.n_iter * at.n_rows
        for entry in result.history:
            counted = {name: entry[name] + before for name, before in spent.items()}
            history.append(entry | counted | {"scale": at.loss.scale})
        results.append(result)
        point = result.point

    def scale_of(at: MarginPursuitProblem) -> float:
        """The scale that the margins of the last stage set."""
        assert point is not None
        margins, options = at.margins(point), recipe.options
        if recipe.scale == "catoni":
            return lemma_6_scale(margins, at.share, at.n, float(options.delta))
        return data_driven_scale(margins, at.share, float(options.scale_factor))

    if not isinstance(recipe.scale, str):
        problem = problem.at_scale(float(recipe.scale))
        stage(problem, recipe.limit)
    elif recipe.scale == "rescale-once":
        # The paper rescales once, after a preset number of passes; those of earlier fits count where a warm start goes
        # on from them.
        problem = problem.at_scale(problem.loss.margin_level)
        wait, left = int(recipe.options.rescale_after), recipe.limit
        if start is not None:
            wait = max(0, wait - start.steps // problem.n_rows) if recipe.solver == "sgd" else 0
        # A scale other than the first one says that the fit before has rescaled already.
        if start is not None and start.scale != problem.loss.margin_level:
            problem = problem.rescaled(start.scale)
            stage(problem, recipe.limit)
        else:
            if wait > 0:
                stage(problem, min(recipe.limit, wait))
                left -= results[0].n_iter
            if not budget.exhausted and left >= 1:
                problem = problem.rescaled(scale_of(problem))
                stage(problem, left)
    else:
        problem = problem.at_scale(problem.loss.margin_level)
        stage(problem, recipe.limit)
        if not budget.exhausted:
            problem = problem.at_scale(scale_of(problem))
            stage(problem, recipe.limit)
    n_iter, n_gradients = sum(run.n_iter for run in results), sum(run.n_gradients for run in results)
    return Pursuit(results[-1], problem.loss.scale, n_iter, n_gradients, steps, tuple(history))

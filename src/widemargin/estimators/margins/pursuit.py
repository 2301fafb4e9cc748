"""One class against the rest: margin pursuit at a scale that is given, or found from a first fit; its options."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from widemargin._papers import papers_module
from widemargin._typing import Floats
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import SolverOptions
from widemargin.problems.margin_pursuit import MarginPursuitProblem, data_driven_scale, lemma_6_scale
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth import lbfgs, margin_sgd
from widemargin.solvers.smooth.smooth_problem import SmoothResult, SmoothSolver

MAX_ITER = {"lbfgs": 1000, "gd": 10_000, "sgd": 20}
"""Most iterations, or passes of the stochastic form, by default; a solver of the user's takes those of the first."""


@dataclass(frozen=True, repr=False)
class PursuitOptions(SolverOptions):
    """How `MarginPursuitClassifier` trains, where the defaults do not suit.

    Given as `solver_options=PursuitOptions(average=True)`, or as a dict, `solver_options={"average": True}`.

    Parameters
    ----------
    scale_factor : float, default=1.0
        Of the scales "auto" and "rescale-once": the squared scale over the 75th percentile of the squared margins.
        Larger lets distant rows pull harder. At 1 a quarter of the rows pull with a force near its bound.
    rescale_after : int, default=5
        Iterations (passes of "sgd") before "rescale-once". With fewer, the margins are still those of the start; with
        more, a regulariser that is too weak lets the weights wander for longer. A warm start counts the passes of
        earlier fits; with the other solvers it is rescaled at once.
    delta : float, default=0.05
        Of the scale "catoni": one minus the confidence of its bound. Smaller makes the scale smaller. The default is
        the usual level of a test.
    average : bool, default=False
        With "sgd", whether the mean of all steps of this fit is kept, weighted by their number, in place of the last.
        The mean is smoother and slower to forget the first steps.
    step_size : float, default=None
        Step of "gd". None: one over the largest curvature; twice that would diverge.
    degree : float, default=3
        Of the kernel "poly". The default is scikit-learn's.
    coef0 : float, default=0.0
        Of the kernels "poly" and "sigmoid". The default is scikit-learn's.
    cache_size : float, default=1000
        Largest kernel matrix in megabytes, which exact kernels need whole: 11,000 rows fit in the default.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally, which suits notebooks, and
        "raise" stops a script.

    Examples
    --------
    >>> from widemargin import MarginPursuitClassifier, PursuitOptions
    >>> model = MarginPursuitClassifier(solver="sgd", solver_options=PursuitOptions(average=True))
    >>> model.solver_options
    PursuitOptions(average=True)
    """

    scale_factor: kinds.Positive = 1.0
    rescale_after: kinds.Count = 5
    delta: kinds.Share = 0.05
    average: bool = False
    step_size: kinds.Positive | None = None
    degree: kinds.NotNegative = 3
    coef0: kinds.AnyNumber = 0.0
    cache_size: kinds.Positive = 1000
    on_interrupt: kinds.OnInterrupt = "raise"


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

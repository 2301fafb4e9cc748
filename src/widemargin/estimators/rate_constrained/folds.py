"""Settings (C, steps) trained and measured on one fold of a cross-validation.

Goals are tied and rows merged once a fold; a setting with more steps goes on from the one with fewer; and the first
convex step of each C, the dearest one, starts from the solution of the last C's first step (a fifth fewer Newton steps
on a9a). Majorisation itself starts anew for every C, so what is measured is what
`RateConstrainedClassifier(C=C, max_steps=steps)`, fitted from nothing to the fold's rows, would be.
"""

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.fitting import make_measures, refuse_overflow, step_plan, with_solver
from widemargin.estimators.rate_constrained.path import Watched
from widemargin.goals.binding.bind import TiedGoal
from widemargin.goals.measuring.standard_errors import covariance, objective_influence, slack_variances
from widemargin.losses.ramp import ramp
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem
from widemargin.solvers.base import Budget, ConvexState
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampResult, minimise_ramp
from widemargin.solvers.ramp.second_start import enforce_from_two_starts
from widemargin.solvers.ramp.tightening import Candidate

__all__ = ["FoldMeasure", "Setting", "fold_measures"]


class Setting(NamedTuple):
    """What validation chooses."""

    C: float
    steps: int


class FoldMeasure(NamedTuple):
    """A setting on one fold.

    Attributes
    ----------
    objective : float
        On the held-out rows, in the rates that are enforced.
    objective_variance : float
        Over the draw of the held-out rows.
    slack : ndarray of shape (m,)
    slack_variance : ndarray of shape (n_sources, m)
    met : bool
        Whether the goal was met on the fold's training rows.
    seconds : float
    """

    objective: float
    objective_variance: float
    slack: Floats
    slack_variance: Floats
    met: bool
    seconds: float


def fold_measures(
    tied: TiedGoal,
    matrices: Sequence[Any],
    held: TiedGoal,
    held_matrices: Sequence[Any],
    settings: Sequence[Setting],
    plain: RateConstrainedClassifier,
    budget: Budget,
) -> Iterator[FoldMeasure]:
    """Train and measure every setting in turn; ends early where the budget does.

    Parameters
    ----------
    tied, held : TiedGoal
        The goal on the fold's training rows and on its held-out rows.
    matrices, held_matrices : sequence of matrices
        Features of each source.
    settings : sequence of Setting
        Ordered by C, then by steps.
    plain : RateConstrainedClassifier
        Its parameters but C and `max_steps` are those of all settings.
    budget : Budget
    """
    n, weight = tied.n_rows[0], tied.row_weight[0]
    total = float(n if weight is None else weight.sum())
    options = plain._options
    space = plain._space(matrices[0], weight, n_sources=len(matrices))
    flat = build_problem(tied, space.features(matrices), 1.0, fit_intercept=options.fit_intercept)
    problem, convex = with_solver(flat, space, options.solver)
    model = copy.copy(plain)
    before: _Done | None = None
    for setting in settings:
        began = time.perf_counter()
        here = problem.with_lam(2.0 / (total * setting.C))
        with refuse_overflow(matrices):
            before, best = _train(here, convex, setting, before, plain, budget)
        if budget.exhausted:
            return
        model._adopt_point(space, best.w, best.b)
        yield _measured(model, best.violation <= 0.0, held, held_matrices, began)


class _Done(NamedTuple):
    """The setting trained last: its plan, its ramp solution, and the solution of its C's first convex step."""

    setting: Setting
    slopes: tuple[float, ...]
    solution: RampResult
    first: ConvexState | None

    def goes_on_to(self, setting: Setting, plan: MajorizeOptions) -> bool:
        """Whether its steps are the first ones of another setting's; not so once it needed a larger penalty."""
        return self.setting.C == setting.C and self.slopes == plan.slopes and self.solution.rho == plan.rhos[0]


def _train(
    problem: RateConstrainedProblem,
    convex: ConvexSolver,
    setting: Setting,
    before: _Done | None,
    plain: RateConstrainedClassifier,
    budget: Budget,
) -> tuple[_Done, Candidate]:
    """The ramp solution of a setting, and the model that enforcement makes of it."""
    step_tol = plain._options.step_tol
    plan = step_plan(setting.C, setting.steps, step_tol, step_tol)
    watched = Watched(convex)
    start: tuple[Floats, float] | None
    state: ConvexState | None
    if before is not None and before.goes_on_to(setting, plan):
        prior = before.solution
        run = replace(plan, steps=setting.steps - before.setting.steps - 1, slopes=())
        start, state = (prior.w, prior.b), prior.subproblem.state
        watched.first = before.first
    else:
        run, start = plan, None
        state = None if before is None else before.first
    measures, hard = make_measures(problem, plain.enforce)
    solution = minimise_ramp(problem, watched, run, start=start, state=state, budget=budget)
    search = enforce_from_two_starts(
        problem, watched, measures, plan, hard=hard, give_back=measures is hard, budget=budget, known=solution
    )
    return _Done(setting, plan.slopes, solution, watched.first), search.best


def _measured(
    model: RateConstrainedClassifier, met: bool, held: TiedGoal, matrices: Sequence[Any], began: float
) -> FoldMeasure:
    """A model on held-out rows."""
    scores = model._positive_scores(matrices)
    said = [(z > 0.0).astype(np.float64) if model.enforce == "deterministic" else ramp(z) for z in scores]
    measured = held.measure(held.positive_mass(said))
    variance = float(covariance([objective_influence(held, said)])[0, 0])
    return FoldMeasure(
        measured.objective, variance, measured.slack, slack_variances(held, said), met, time.perf_counter() - began
    )

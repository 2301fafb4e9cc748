"""Random ramp problems (spec 1, section 2) with a known feasible point."""

from dataclasses import replace
from typing import Any

import numpy as np
from testing.problems import random_subproblem

from widemargin.problems.rate_constrained import RateConstrainedProblem

__all__ = ["random_ramp_problem", "scores_of_rows"]


def random_ramp_problem(
    seed: int,
    n: int = 80,
    d: int = 3,
    m: int = 2,
    *,
    lam: float = 0.02,
    slack: float = 0.02,
    feasible: bool = True,
    **options: Any,
) -> tuple[RateConstrainedProblem, np.ndarray, float]:
    """A ramp problem of n weighted rows and m constraints over populations that overlap, and a point (w, b).

    With `feasible` the point meets every constraint with `slack` to spare, in ramp rates. Otherwise no point does: for
    m = 1 the bound is negative, for m >= 2 the first two constraints contradict each other.
    """
    sub = random_subproblem(seed, n, d, m, lam=lam, feasible=feasible, **options)
    problem = RateConstrainedProblem(
        rows=sub.rows,
        weight=sub.weight,
        cell=sub.cell,
        coef=sub.coef,
        gamma=sub.gamma,
        lam=lam,
        fit_intercept=sub.fit_intercept,
        cell_weight=np.bincount(sub.cell, sub.weight, sub.coef.n_cells),
        objective_scale=1.0,
        constraint_scale=np.ones(m),
    )
    rng = np.random.default_rng(seed)
    w, b = rng.standard_normal(d), 0.3 * rng.standard_normal() if sub.fit_intercept else 0.0
    if feasible:
        _, excess = problem.ramp_values(w, problem.scores(w, b))
        problem = replace(problem, gamma=problem.gamma + excess + slack)
    return problem, w, b


def scores_of_rows(problem: RateConstrainedProblem, w: np.ndarray, b: float) -> np.ndarray:
    """`<w, x> - b` of every row, from the stored matrices and not by the problem's own products."""
    parts = []
    for block in problem.rows.blocks:
        X = block.X.toarray() if hasattr(block.X, "toarray") else block.X
        parts.append(X[block.row_of].astype(np.float64) @ w - b)
    return np.concatenate(parts)

"""The claims that follow from a bracket, on points and multipliers that no solver chose."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.exact import solve_exact
from testing.problems import random_subproblem

from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.base import Budget, CertifiedRecorder, relative_gap

PROBLEMS = [random_subproblem(seed, 20, 2, 2) for seed in range(3)]
EXACT = [solve_exact(sub) for sub in PROBLEMS]


def dual_function(sub: Any, v: np.ndarray) -> float:
    """F(v), the minimum of the Lagrangian over (w, b), by the reference solver."""
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
    start = np.zeros(sub.coef.n_cells + 1, dtype=np.int64)
    coef = CellCoefficients(*sub.coef.per_cell(v), start, none, nothing)
    return float(solve_exact(replace(sub, coef=coef, gamma=np.zeros(0))).objective - v @ sub.gamma)


def test_relative_gap_has_a_floor() -> None:
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(-2.0, -3.0) == 0.5
    assert relative_gap(1e-12, 0.0, floor=1e-6) == pytest.approx(1e-6)
    assert relative_gap(0.0, 0.0) == 0.0


@settings(max_examples=30)
@given(which=st.integers(0, 2), seed=st.integers(0, 10_000), rho=st.sampled_from([0.7, 5.0, np.inf]))
def test_what_a_bracket_claims_is_true(which: int, seed: int, rho: float) -> None:
    """Multipliers and points at random: what a point may cost and violate stays inside what the gap allows."""
    sub, exact = PROBLEMS[which], EXACT[which]
    rng = np.random.default_rng(seed)
    best = CertifiedRecorder(rho, Budget(), 0.0)
    for _ in range(4):
        v = np.minimum(exact.v * rng.uniform(0.0, 2.0, 2), rho)
        best.add_dual(dual_function(sub, v) - 0.1 * rng.random(), v)
        w, b = exact.w + 0.3 * rng.standard_normal(2), exact.b + 0.3 * rng.standard_normal()
        loss, excess = sub.values(sub.scores(w, b))
        best.add_point(w, b, loss + 0.5 * sub.lam * w @ w, excess)
    gap = best.primal - best.dual
    assert np.all(best.penalty <= rho)
    assert np.all(best.penalty >= np.minimum(best.multipliers, rho))
    assert best.dual <= exact.objective + 1e-8
    assert best.best.objective <= exact.objective + gap + 1e-8
    room = best.penalty - best.multipliers
    inside = room > 0
    assert np.all(best.best.excess[inside] * room[inside] <= gap + 1e-8)


def test_a_cheap_infeasible_point_does_not_survive_a_larger_multiplier() -> None:
    """The penalty of an early, small multiplier made it look optimal; under the later one it must lose."""
    best = CertifiedRecorder(np.inf, Budget(), 0.0)
    best.add_dual(0.0, np.array([0.01]))
    best.add_point(np.array([1.0]), 0.0, 0.1, np.array([0.1]))
    assert best.primal == pytest.approx(0.1 + 0.2 * 0.1)
    best.add_dual(0.3, np.array([2.0]))
    assert best.primal == pytest.approx(0.1 + 4.0 * 0.1)
    assert best.gap > 0.0
    best.add_point(np.array([2.0]), 0.0, 0.35, np.array([-0.2]))
    assert (best.best.w[0], best.primal) == (2.0, 0.35)


def test_worse_points_and_bounds_are_ignored() -> None:
    best = CertifiedRecorder(1.0, Budget(), 0.0)
    assert best.primal == np.inf
    for dual, objective in ((0.2, 0.5), (0.1, 0.6)):
        best.add_dual(dual, np.array([dual]))
        best.add_point(np.array([objective]), 0.0, objective, np.array([0.0]))
    assert (best.dual, best.multipliers[0], best.best.w[0]) == (0.2, 0.2, 0.5)

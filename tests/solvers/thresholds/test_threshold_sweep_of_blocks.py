"""The threshold over blocks, and by sums between edges in memory, is the one of a sweep over all rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.blocked import blocked
from testing.ramp_problems import random_ramp_problem

from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.ramp.majorization import RampProblem
from widemargin.solvers.thresholds.threshold_sweep import (
    SweepOptions,
    SweptThreshold,
    best_threshold,
    best_threshold_of_blocks,
)


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(0, 3),
    bins=st.sampled_from([4, 16, 2048]),
    fetched=st.sampled_from([0, 10, 1000]),
    coarse=st.booleans(),
    feasible=st.booleans(),
    block_rows=st.sampled_from([7, 40, 500]),
)
def test_as_good_as_the_sweep(
    seed: int, m: int, bins: int, fetched: int, coarse: bool, feasible: bool, block_rows: int
) -> None:
    """With ties (`coarse`), bounds that nothing meets, few bins, and few rows that may be fetched."""
    problem, w, b = random_ramp_problem(
        seed, 90, 2, m, slack=-0.01 if m and feasible else 0.02, feasible=feasible or not m
    )
    if coarse:
        w = np.zeros(2)
    over, z = blocked(problem, block_rows), problem.scores(w, b)
    goal = problem.coef, problem.gamma, problem.cell_weight
    expected = best_threshold(z, problem.weight, problem.cell, *goal)
    options = SweepOptions(bins=bins, fetched=fetched, sorted_rows=0)
    for found in (
        best_threshold_of_blocks(over.rows, over.scores(w, b), *goal, options),
        best_threshold(z, problem.weight, problem.cell, *goal, options),
    ):
        _as_good(found, expected, problem, z)


def _as_good(found: SweptThreshold, expected: SweptThreshold, problem: RampProblem, z: np.ndarray) -> None:
    assert found.violation == pytest.approx(expected.violation, abs=1e-9)
    assert found.objective <= expected.objective + 1e-9  # lower where violations differ by nothing but rounding
    if not expected.violation:
        assert found.objective == pytest.approx(expected.objective, abs=1e-9)
    assert found.n_positive == np.count_nonzero(z > found.threshold)
    objective, excess = problem.values(problem.hard_mass(z - found.threshold))
    assert found.objective == pytest.approx(objective, abs=1e-9)
    assert found.violation == pytest.approx(float(excess[excess > 1e-10].sum()), abs=1e-9)


def test_a_threshold_that_is_best_already_stays() -> None:
    problem, w, b = random_ramp_problem(0, 90, 2, 0)
    over = blocked(problem, 30)
    first = best_threshold_of_blocks(over.rows, over.scores(w, b), problem.coef, problem.gamma, problem.cell_weight)
    moved = over.scores(w, b + first.threshold)
    again = best_threshold_of_blocks(over.rows, moved, problem.coef, problem.gamma, problem.cell_weight)
    assert again.threshold == 0.0


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e17])
def test_between_the_scores_of_many_rows(scale: float) -> None:
    """The threshold lies in the middle between two scores, whatever their size, as that of a sweep does."""
    rng = np.random.default_rng(0)
    z, cell = scale * rng.standard_normal(150_000).round(4), np.zeros(150_000, dtype=np.int32)
    cell[rng.random(150_000) < 1.0 / (1.0 + np.exp(2.0 - z / scale))] = 1
    coef = CellCoefficients(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.zeros(3, int), np.zeros(0, int), np.zeros(0))
    given = z, np.ones(150_000), cell, coef, np.zeros(0), np.bincount(cell).astype(float)
    found, expected = best_threshold(*given), best_threshold(*given, SweepOptions(sorted_rows=10**6))
    assert found == expected

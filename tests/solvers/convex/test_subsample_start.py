"""A start on a sample of the rows: what is drawn, that totals stay, and that the end has the same guarantees."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.ramp_problems import random_ramp_problem

from widemargin.solvers.base import Budget, Progress, Status
from widemargin.solvers.convex import newton, subsample_start
from widemargin.solvers.convex.subsample_start import draw, heaviest, is_uneven, sampled, spread_state
from widemargin.solvers.ramp.majorization import MajorizeOptions, minimise_ramp


def tune(monkeypatch: pytest.MonkeyPatch, **options: int) -> None:
    """Sample with other options."""
    monkeypatch.setattr(subsample_start, "DEFAULTS", replace(subsample_start.DEFAULTS, **options))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are drawn of small problems too."""
    tune(monkeypatch, rows=300)
    tune(monkeypatch, least=20)


@given(seed=st.integers(0, 1000), k=st.integers(1, 400))
def test_every_cell_is_drawn_from(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    cell = np.minimum(rng.geometric(0.05, 5000) - 1, k - 1).astype(np.int32)
    positions = draw(cell, k, 0.1, np.random.default_rng(seed))
    assert np.all(np.diff(positions) > 0)
    count, drawn = np.bincount(cell, minlength=k), np.bincount(cell[positions], minlength=k)
    assert np.all((drawn > 0) == (count > 0))
    least = min(200, max(1, 5000 // (4 * k)))
    assert np.all(drawn[count <= least] == count[count <= least])
    expected = np.maximum(0.1 * count, np.minimum(least, count))
    assert np.all(np.abs(drawn - expected) <= 6.0 * np.sqrt(expected) + 1.0)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("sparse", [False, True])
def test_a_sample_keeps_the_totals_of_every_cell(sparse: bool) -> None:
    problem, _, _ = random_ramp_problem(0, 1000, 3, 2, sparse=sparse)
    few = sampled(problem)
    assert few.rows.n_rows < 400
    k = problem.coef.n_cells
    np.testing.assert_allclose(np.bincount(few.cell, few.weight, k), problem.cell_weight, rtol=1e-12)
    for at in (problem.gamma, problem.cell_weight):
        assert any(at is other for other in (few.gamma, few.cell_weight))
    again = sampled(problem)
    np.testing.assert_array_equal(again.weight, few.weight)
    assert all(one.X is other.X for one, other in zip(few.rows.blocks, problem.rows.blocks, strict=True))


@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_the_heaviest_rows_of_every_cell_stand_for_all(spread: float) -> None:
    problem, _, _ = random_ramp_problem(0, 1000, 3, 2)
    weight, k = np.exp(spread * np.random.default_rng(1).standard_normal(1000)), problem.coef.n_cells
    problem = replace(problem, weight=weight)
    assert is_uneven(weight) == (spread > 0.0)
    few, cell = heaviest(problem), problem.cell
    assert few.rows.n_rows < (500 if spread else 1000)
    np.testing.assert_allclose(np.bincount(few.cell, few.weight, k), np.bincount(cell, weight, k), rtol=1e-12)
    for c in np.unique(cell):
        heaviest_first = np.sort(weight[cell == c])[::-1]
        n = np.count_nonzero(few.cell == c)
        assert heaviest_first[: n - 1].sum() < 0.95 * heaviest_first.sum() <= heaviest_first[:n].sum() + 1e-9


def test_small_problems_are_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _, _ = random_ramp_problem(0, 1000, 3, 2)
    assert sampled(problem) is None
    assert sampled(object()) is None
    tune(monkeypatch, numbers=2000)
    assert sampled(problem) is not None
    tune(monkeypatch, per_feature=200)  # so many rows a feature that it is most of them
    assert sampled(problem) is None


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(6))
def test_the_end_has_the_guarantees_of_a_run_on_all_rows(seed: int) -> None:
    problem, _, _ = random_ramp_problem(seed, 1000, 4, 2, lam=0.01)
    result = minimise_ramp(problem, newton.solve)
    assert result.status is Status.CONVERGED
    assert result.subproblem.gap <= 1e-4
    objective, excess = problem.ramp_values(result.w, problem.scores(result.w, result.b))
    assert (result.objective, list(result.excess)) == (objective, list(excess))
    assert excess.max() <= 1e-3
    assert result.subproblem.state.up.shape == (problem.rows.n_rows,)
    rows = [entry["rows"] for entry in result.history]
    assert rows == sorted(rows)
    assert rows[0] < problem.rows.n_rows == rows[-1]
    assert result.n_steps == len(rows)
    again = minimise_ramp(problem, newton.solve)
    np.testing.assert_array_equal(again.w, result.w)


@pytest.mark.usefixtures("small")
def test_the_end_is_about_as_low_as_without_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[list[float]] = [[], []]
    for seed in range(6):
        problem, _, _ = random_ramp_problem(seed, 1000, 4, 2, lam=0.01)
        ends[0].append(minimise_ramp(problem, newton.solve).objective)
    tune(monkeypatch, rows=10_000)
    for seed in range(6):
        problem, _, _ = random_ramp_problem(seed, 1000, 4, 2, lam=0.01)
        ends[1].append(minimise_ramp(problem, newton.solve).objective)
    assert np.mean(ends[0]) <= np.mean(ends[1]) + 0.005


@pytest.mark.usefixtures("small")
def test_without_loose_steps_the_convex_problem_is_that_of_the_start() -> None:
    """The plain SVM, the hinge bound tight at zero: only its solver starts on a sample."""
    problem, _, _ = random_ramp_problem(1, 1000, 4, 0)
    zero = np.zeros(4), 0.0
    result = minimise_ramp(problem, newton.solve, MajorizeOptions(steps=0, tol=1e-7), start=zero)
    direct = newton.solve(problem.majorise(problem.scores(*zero)), tol=1e-7)
    assert result.subproblem.primal == pytest.approx(direct.primal, rel=3e-7)


@pytest.mark.usefixtures("small")
def test_infeasible_on_all_rows_is_said_so() -> None:
    problem, _, _ = random_ramp_problem(2, 1000, 3, 2, feasible=False)
    result = minimise_ramp(problem, newton.solve)
    assert result.status is Status.INFEASIBLE
    assert result.rho == 100.0


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("when", ["sample", "majorise"])
def test_an_interrupt_keeps_what_there_is(when: str) -> None:
    problem, _, _ = random_ramp_problem(0, 1000, 3, 2)
    seen: list[str] = []

    def interrupt(progress: Progress) -> Any:
        seen.append(progress.stage)
        if progress.stage == when:
            raise KeyboardInterrupt

    result = minimise_ramp(problem, newton.solve, budget=Budget(None, (interrupt,)))
    assert result.status is Status.INTERRUPTED
    assert np.isfinite(result.objective)
    assert result.w.shape == (3,)
    assert seen[0] == "sample"


def test_a_spread_state_has_the_slopes_of_rows_far_from_their_kinks() -> None:
    z = np.array([-2.0, -0.5, 0.0, 0.5, 2.0])
    state = spread_state(np.ones(1), 0.5, np.ones(2), z)
    np.testing.assert_allclose(state.up, [0.0, 0.5, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(state.um, [1.0, 1.0, 1.0, 0.5, 0.0])

"""PMM-Newton against a generic exact solver, its certificate, and awkward cases."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from testing.exact import InfeasibleSubproblemError, objective_of, solve_exact, stacked_rows
from testing.problems import a9a_like, majorise, random_subproblem

from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, ConvexResult, ConvexState, Status
from widemargin.solvers.convex import linear_system as newton_system
from widemargin.solvers.convex import smoothed_hinges as loops
from widemargin.solvers.convex.linear_system import SystemOptions
from widemargin.solvers.convex.newton import LinearRun, solve
from widemargin.solvers.convex.proximal import Line, NewtonOptions, Value

INF = np.inf


def check_certificate(sub: Any, result: ConvexResult, rho: float) -> None:
    """Every number of the result follows from (w, b), the multipliers and the dual function."""
    loss, excess = sub.values(sub.scores(result.w, result.b))
    objective = loss + 0.5 * sub.lam * result.w @ result.w
    np.testing.assert_allclose(result.violation, excess, rtol=0, atol=1e-10)
    penalty = np.minimum(rho, 2.0 * np.maximum(result.multipliers, 0.1))
    assert result.primal == pytest.approx(objective + penalty @ np.maximum(excess, 0.0), abs=1e-10)
    assert np.all((result.multipliers >= 0.0) & (result.multipliers <= rho))
    assert result.gap == pytest.approx((result.primal - result.dual) / max(abs(result.primal), 1e-6))
    assert result.gap >= -1e-12
    if not sub.fit_intercept:
        assert result.b == 0.0


def with_data(sub: Any, change: Any) -> Any:
    """The same problem with every matrix changed."""
    return replace(sub, rows=RowBlocks([(np.ascontiguousarray(change(b.X.copy())), b.row_of) for b in sub.rows.blocks]))


# against the exact optimum


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    n=st.sampled_from([8, 30, 90]),
    d=st.sampled_from([1, 4, 12, 40]),
    m=st.integers(0, 4),
    sparse=st.booleans(),
    fit_intercept=st.booleans(),
    log_lam=st.floats(-6.0, 2.0),
    rho=st.sampled_from([30.0, INF]),
    n_cells=st.sampled_from([2, 6, 12]),
)
@example(3, 8, 4, 1, False, False, -2.0, 100.0, 2)
@example(21, 30, 4, 0, True, True, 1.93, 100.0, 2)  # needs a width below the usual smallest one
@example(80, 90, 40, 3, False, True, -1.5, 100.0, 12)
def test_bracket_holds_the_exact_optimum(
    seed: int, n: int, d: int, m: int, sparse: bool, fit_intercept: bool, log_lam: float, rho: float, n_cells: int
) -> None:
    sub = random_subproblem(
        seed, n, d, m, sparse=sparse, fit_intercept=fit_intercept, lam=10.0**log_lam, n_cells=n_cells
    )
    exact = solve_exact(sub)
    assert np.all(exact.v < 0.9 * rho)
    result = solve(sub, tol=1e-8, rho=rho)
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-8
    check_certificate(sub, result, rho)
    scale = max(abs(exact.objective), 1e-3)
    assert result.dual <= exact.objective + 1e-8 * scale
    assert result.primal >= exact.objective - 1e-7 * scale
    assert np.all(result.violation <= 1e-6)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_a_loose_result_costs_and_violates_no_more_than_its_gap_allows(tol: float) -> None:
    """solvers/certificate: objective <= optimum + gap, violation <= gap / (penalty - multiplier)."""
    for seed in range(10):
        sub = random_subproblem(seed, 40, 6, 2, lam=1e-3)
        exact = solve_exact(sub)
        result = solve(sub, tol=tol, rho=30.0)
        assert result.status is Status.CONVERGED
        check_certificate(sub, result, 30.0)
        gap = result.primal - result.dual
        assert result.dual <= exact.objective + 1e-9
        assert objective_of(sub, result.w, result.b) <= exact.objective + gap + 1e-9
        assert np.all(result.violation <= gap / np.maximum(result.multipliers, 0.2 - result.multipliers) + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_multipliers_agree(seed: int) -> None:
    sub = random_subproblem(seed, 120, 5, 3, lam=0.01)
    exact = solve_exact(sub)
    result = solve(sub, tol=1e-9, rho=30.0)
    assert exact.v.max() > 0.05  # something binds
    np.testing.assert_allclose(result.multipliers, exact.v, rtol=0, atol=2e-3)
    np.testing.assert_allclose(result.w, exact.w, rtol=0, atol=2e-3)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kappa", [0.5, 1.0])
def test_one_hot_task_and_its_next_majorisation_step(fit_intercept: bool, kappa: float) -> None:
    first = a9a_like(0, kappa=kappa, lam=10.0 / 600, fit_intercept=fit_intercept)
    result = solve(first, tol=1e-8)
    assert result.primal == pytest.approx(solve_exact(first).objective, rel=1e-6)
    second = majorise(first, first.scores(result.w, result.b))
    warm = solve(second, tol=1e-8, start=result.state)
    assert warm.primal == pytest.approx(solve_exact(second).objective, rel=1e-6)
    assert 0.0 <= warm.gap <= 1e-8


def test_dense_and_sparse_walk_the_same_path() -> None:
    for dtype in (np.float64, np.float32):
        results = []
        for sparse, index in ((False, np.int32), (True, np.int32), (True, np.int64)):
            sub = random_subproblem(5, 80, 6, 2, sparse=sparse, dtype=dtype, index_dtype=index)
            results.append(solve(sub, tol=1e-8))
        for other in results[1:]:
            np.testing.assert_allclose(other.w, results[0].w, rtol=0, atol=1e-8)
            assert other.primal == pytest.approx(results[0].primal, abs=1e-11)
            assert other.n_iter == results[0].n_iter


def test_weights_equal_repetition() -> None:
    sub = random_subproblem(2, 40, 4, 2)
    counts = np.random.default_rng(0).integers(1, 4, 40)
    rows = np.repeat(np.arange(40), counts)
    X = stacked_rows(sub)
    weighted = replace(sub, rows=RowBlocks([(X, None)]), weight=counts.astype(float) / 60)
    repeated = replace(
        sub, rows=RowBlocks([(X[rows], None)]), weight=np.full(rows.shape, 1 / 60), cell=sub.cell[rows],
        keep=sub.keep[rows],
    )  # fmt: skip
    one, other = solve(weighted, tol=1e-8), solve(repeated, tol=1e-8)
    assert one.primal == pytest.approx(other.primal, abs=1e-9)
    np.testing.assert_allclose(one.w, other.w, rtol=0, atol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_by_cell_and_by_column_agree(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cells are many the constraints' gradients are made a chunk of rows at a time."""
    sub = random_subproblem(4, 60, 12, 3, sparse=sparse, n_cells=12)
    by_cells = solve(sub, tol=1e-8)
    no_sums = NewtonOptions(system=SystemOptions(cell_sums=0))
    monkeypatch.setattr("widemargin.linalg.matrix_blocks._CHUNK", 7)
    assert not LinearRun(sub, 1.0, None, 1.0, no_sums).hinges.by_cells
    by_columns = solve(sub, tol=1e-8, options=no_sums)
    assert by_columns.n_iter == by_cells.n_iter
    np.testing.assert_allclose(by_columns.w, by_cells.w, rtol=0, atol=1e-9)


# penalties


def test_a_penalty_below_the_multipliers_solves_the_elastic_problem() -> None:
    for seed in range(8):
        sub = random_subproblem(seed, 60, 4, 2)
        exact = solve_exact(sub)
        rho = 0.4 * float(exact.v.max())
        result = solve(sub, tol=1e-8, rho=rho)
        check_certificate(sub, result, rho)
        assert result.status is Status.CONVERGED
        assert result.multipliers.max() == pytest.approx(rho)
        assert result.violation.max() > 1e-6
        assert result.primal < exact.objective
        loss = objective_of(sub, exact.w, exact.b)  # feasible, so its penalised value is its objective
        assert result.primal <= loss + 1e-9


@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("rho", [1.0, 10.0, 100.0])
def test_an_infeasible_problem_ends_with_multipliers_at_the_penalty(m: int, rho: float) -> None:
    sub = random_subproblem(1, 60, 4, m, feasible=False)
    with pytest.raises(InfeasibleSubproblemError):
        solve_exact(sub)
    result = solve(sub, tol=1e-6, rho=rho)
    assert result.status is Status.CONVERGED
    check_certificate(sub, result, rho)
    assert result.multipliers.max() == pytest.approx(rho)
    assert result.violation.max() > 0.01


def test_without_a_penalty_an_infeasible_problem_does_not_converge() -> None:
    result = solve(random_subproblem(1, 60, 4, 2, feasible=False), rho=INF)
    assert result.status is Status.MAX_ITER
    assert result.multipliers.max() > 1e3


# warm starts, limits, repeatability


def test_the_state_of_a_result_warm_starts() -> None:
    sub = a9a_like(1, lam=10.0 / 600, fit_intercept=True)
    cold = solve(sub, tol=1e-6)
    again = solve(sub, tol=1e-6, start=cold.state)
    assert again.status is Status.CONVERGED
    assert again.n_iter < 0.5 * cold.n_iter
    # a tighter bound, as on the path of trade-offs
    moved = replace(sub, gamma=sub.gamma - 0.01)
    assert solve(moved, tol=1e-6, start=cold.state).n_iter < 0.8 * solve(moved, tol=1e-6).n_iter


def test_a_start_beyond_the_penalty_is_pulled_back() -> None:
    sub = random_subproblem(1, 60, 4, 2, feasible=False)
    far = solve(sub, tol=1e-6, rho=100.0)
    assert far.multipliers.max() == pytest.approx(100.0)
    near = solve(sub, tol=1e-6, rho=1.0, start=far.state)
    assert near.status is Status.CONVERGED
    check_certificate(sub, near, 1.0)
    assert near.primal == pytest.approx(solve(sub, tol=1e-6, rho=1.0).primal, rel=2e-6)


def test_the_start_is_not_changed() -> None:
    sub = random_subproblem(0)
    state = solve(sub, tol=1e-2).state
    kept = ConvexState(*(np.copy(part) for part in state))
    solve(sub, tol=1e-8, start=state)
    for before, after in zip(kept, state, strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_state_is_a_dual_point() -> None:
    sub = random_subproblem(3, 60, 4, 2)
    state = solve(sub, tol=1e-8).state
    for side, bit in ((state.up, 1), (state.um, 2)):
        assert np.all((side >= 0.0) & (side <= 1.0))
        assert np.all(side[(sub.keep & bit) == 0] == 0.0)


def test_same_input_same_bits() -> None:
    sub = random_subproblem(7, 200, 10, 3, sparse=True)
    one, other = solve(sub, tol=1e-6), solve(sub, tol=1e-6)
    np.testing.assert_array_equal(one.w, other.w)
    assert (one.b, one.primal, one.dual, one.n_iter) == (other.b, other.primal, other.dual, other.n_iter)


@pytest.mark.parametrize("max_iter", [0, 1, 5])
def test_the_number_of_steps_is_bounded(max_iter: int) -> None:
    sub = a9a_like(0)
    result = solve(sub, tol=1e-8, max_iter=max_iter)
    assert result.status is Status.MAX_ITER
    assert result.n_iter == max_iter
    check_certificate(sub, result, 1.0)
    assert result.dual <= solve_exact(sub).objective


def test_a_spent_budget_ends_the_run_with_a_valid_bracket() -> None:
    sub = a9a_like(0)
    budget = Budget(seconds=0.0)
    result = solve(sub, tol=1e-8, budget=budget)
    assert result.status is Status.TIME_LIMIT
    assert result.n_iter == 0
    check_certificate(sub, result, 1.0)
    stopped = Budget()
    stopped.stopped = True
    assert solve(sub, tol=1e-8, budget=stopped).n_iter == 0


def test_history_brackets_ever_closer() -> None:
    result = solve(a9a_like(0), tol=1e-6)
    duals = [entry["dual"] for entry in result.history]
    steps = [entry["newton"] for entry in result.history]
    assert duals == sorted(duals)
    assert steps == sorted(steps)
    assert steps[-1] == result.n_iter
    assert result.history[-1]["primal"] == result.primal
    assert all(entry["primal"] >= entry["dual"] for entry in result.history)
    assert result.seconds >= result.history[-1]["seconds"] > 0.0


# awkward problems


def assert_solved(sub: Any, tol: float = 1e-6, rho: float = 100.0) -> ConvexResult:
    result = solve(sub, tol=tol, rho=rho)
    assert result.status is Status.CONVERGED
    check_certificate(sub, result, rho)
    exact = solve_exact(sub).objective
    assert result.primal == pytest.approx(exact, rel=2 * tol, abs=1e-7)
    return result


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("m", [0, 1, 3])
class TestAwkward:
    def sub(self, m: int, fit_intercept: bool, **options: Any) -> Any:
        return random_subproblem(11 + m, m=m, fit_intercept=fit_intercept, **options)

    def test_more_features_than_rows(self, m: int, fit_intercept: bool) -> None:
        assert_solved(self.sub(m, fit_intercept, n=20, d=60))

    def test_repeated_features(self, m: int, fit_intercept: bool) -> None:
        assert_solved(with_data(self.sub(m, fit_intercept), lambda X: np.hstack([X, X, X])))

    @pytest.mark.parametrize("lam", [1e-8, 1e-4, 1e4])
    def test_lambda_far_from_one(self, m: int, fit_intercept: bool, lam: float) -> None:
        assert_solved(self.sub(m, fit_intercept, lam=lam))

    def test_columns_of_very_different_size(self, m: int, fit_intercept: bool) -> None:
        assert_solved(with_data(self.sub(m, fit_intercept), lambda X: X * np.array([1e-3, 1.0, 30.0, 1e3])))

    def test_features_far_from_zero(self, m: int, fit_intercept: bool) -> None:
        assert_solved(with_data(self.sub(m, True), lambda X: X + 20.0))

    def test_one_row_of_huge_features(self, m: int, fit_intercept: bool) -> None:
        assert_solved(with_data(self.sub(m, fit_intercept), lambda X: np.vstack([1e4 * X[:1], X[1:]])))

    def test_one_row_of_nearly_all_weight(self, m: int, fit_intercept: bool) -> None:
        sub = self.sub(m, fit_intercept)
        weight = np.where(np.arange(60) == 0, 1.0, 1e-6)
        sub = replace(sub, weight=weight * sub.weight.sum() / weight.sum(), gamma=sub.gamma + 2.0)
        assert_solved(sub)

    @pytest.mark.parametrize("bits", [1, 2])
    def test_one_side_only(self, m: int, fit_intercept: bool, bits: int) -> None:
        """With an intercept the loss can be driven to zero by b alone."""
        sub = self.sub(m, fit_intercept)
        sub = replace(sub, keep=np.full(60, bits, dtype=np.uint8), gamma=sub.gamma + 0.5)
        assert_solved(sub)

    def test_no_hinge_left(self, m: int, fit_intercept: bool) -> None:
        sub = self.sub(m, fit_intercept)
        result = solve(replace(sub, keep=np.zeros(60, dtype=np.uint8), gamma=np.full(m, 0.1)))
        assert result.status is Status.CONVERGED
        assert result.primal == sub.constant == result.dual
        assert not np.any(result.w)

    def test_all_features_zero(self, m: int, fit_intercept: bool) -> None:
        sub = with_data(self.sub(m, True), lambda X: 0.0 * X)
        result = solve(sub, tol=1e-6, rho=100.0)
        assert result.status is Status.CONVERGED
        check_certificate(sub, result, 100.0)
        assert not np.any(result.w)
        grid = [penalised(sub, np.zeros(4), b) for b in np.linspace(-1.0, 1.0, 2001)]
        assert result.primal <= min(grid) + 1e-9 or m > 0
        assert result.dual <= min(grid) + 1e-9

    def test_empty_objective(self, m: int, fit_intercept: bool) -> None:
        """Nothing to minimise but the norm: the smallest w that meets the constraints."""
        sub = self.sub(m, fit_intercept)
        nothing = np.zeros(sub.coef.n_cells)
        sub = replace(sub, constant=0.0, coef=sub.coef._replace(alpha0=nothing, beta0=nothing))
        result = assert_solved(sub)
        if m == 0:
            assert result.primal == 0.0


def penalised(sub: Any, w: np.ndarray, b: float) -> float:
    loss, excess = sub.values(sub.scores(w, b))
    return float(loss + 0.5 * sub.lam * w @ w + 100.0 * np.maximum(excess, 0.0).sum())


def test_repeated_constraint() -> None:
    """Two equal constraints share one multiplier in any way."""
    sub = random_subproblem(3, 60, 4, 1)
    coef = sub.coef
    twice = CellCoefficients(
        coef.alpha0, coef.beta0, 2 * coef.indptr, np.tile([0, 1], coef.column.shape[0]),
        np.repeat(coef.value, 2),
    )  # fmt: skip
    result = solve(replace(sub, coef=twice, gamma=np.repeat(sub.gamma, 2)), tol=1e-8, rho=30.0)
    exact = solve_exact(sub)
    assert result.primal == pytest.approx(exact.objective, rel=1e-7)
    assert result.multipliers.sum() == pytest.approx(exact.v[0], abs=1e-2)


# columns of any size


def _scaled(sub: Any, change: Any, sparse: bool) -> Any:
    """The problem with other columns: `change(X)`."""
    X = change(stacked_rows(sub).toarray())
    return replace(sub, rows=RowBlocks([(sp.csr_matrix(X) if sparse else np.ascontiguousarray(X), None)]))


def _huge(X: np.ndarray, size: float, mean: float) -> np.ndarray:
    X = X.copy()
    X[:, 1] = size * X[:, 1] + mean
    return X


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("iterative", [False, True])
@pytest.mark.parametrize(("size", "mean"), [(1.0, 5e4), (5e4, 5e4), (1e6, 0.0), (1.0, 1e6), (1e6, 1e6)])
def test_one_huge_column_breaks_nothing(sparse: bool, iterative: bool, size: float, mean: float) -> None:
    """The intercept absorbs the mean, so the reference may be solved without it; the size stays, it is the user's."""
    first = random_subproblem(3, 200, 5, 2, lam=0.05)
    exact = solve_exact(_scaled(first, lambda X: _huge(X, size, 0.0), False))
    sub = _scaled(first, lambda X: _huge(X, size, mean), sparse)
    result = solve(sub, tol=1e-6, rho=100.0, iterative=iterative)
    assert result.status is Status.CONVERGED
    if mean < 1e6:  # beyond, the scores themselves have ten digits
        check_certificate(sub, result, 100.0)
    assert result.primal == pytest.approx(exact.objective, rel=3e-6)


@pytest.mark.parametrize("iterative", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_columns_of_very_different_size(iterative: bool, fit_intercept: bool) -> None:
    """Columns scaled by exp(N(0, 4)), one of them of size and mean 5e4 where the intercept can take the mean."""
    first = random_subproblem(5, 200, 6, 2, lam=0.05, fit_intercept=fit_intercept)
    scale = np.exp(2.0 * np.random.default_rng(0).standard_normal(6))
    mean = 5e4 if fit_intercept else 0.0
    exact = solve_exact(_scaled(first, lambda X: _huge(X * scale, 5e4, 0.0), False))
    sub = _scaled(first, lambda X: _huge(X * scale, 5e4, mean), False)
    result = solve(sub, tol=1e-6, rho=100.0, iterative=iterative)
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(exact.objective, rel=3e-6)


# how systems are solved


@given(seed=st.integers(0, 100), sparse=st.booleans(), fit_intercept=st.booleans(), m=st.integers(0, 4))
@settings(max_examples=15)
def test_conjugate_gradients_end_where_the_factor_does(seed: int, sparse: bool, fit_intercept: bool, m: int) -> None:
    sub = random_subproblem(seed, 80, 7, m, sparse=sparse, fit_intercept=fit_intercept)
    factored = solve(sub, tol=1e-7, rho=30.0, iterative=False)
    iterated = solve(sub, tol=1e-7, rho=30.0, iterative=True)
    assert iterated.status is factored.status is Status.CONVERGED
    assert iterated.primal == pytest.approx(factored.primal, rel=3e-7, abs=1e-9)
    exact = solve_exact(sub)
    assert iterated.primal == pytest.approx(exact.objective, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("most", [300, 3000])
def test_more_features_than_rows_by_factors_and_by_conjugate_gradients(most: int) -> None:
    sub, options = random_subproblem(1, 100, 400, 2, sparse=True, lam=0.05), NewtonOptions(iterate_from=most)
    assert LinearRun(sub, 1.0, None, 1.0, options).iterative is (most < 400)
    result = solve(sub, tol=1e-6, options=options)
    check_certificate(sub, result, 1.0)
    assert result.primal == pytest.approx(solve_exact(sub).objective, rel=2e-6)


@pytest.mark.parametrize(("stored", "iterative"), [(0.1, True), (0.2, False)])
def test_systems_of_thin_rows_are_iterated_from_600_features(stored: float, iterative: bool) -> None:
    sub = random_subproblem(1, 50, 4, 1)
    rows = [sp.random(block.X.shape[0], 601, stored, format="csr", random_state=0) for block in sub.rows.blocks]
    thin = replace(sub, rows=RowBlocks([(X, block.row_of) for X, block in zip(rows, sub.rows.blocks, strict=True)]))
    assert LinearRun(thin, 1.0, None, 1.0, NewtonOptions()).iterative is iterative


def test_matrices_in_float32_lead_to_the_same_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Gram matrix only steers the steps: gradient and certificate stay in double precision."""
    sub = random_subproblem(2, 300, 20, 2)
    used: list[bool] = []
    moments = RowBlocks.moments

    def watched(self: RowBlocks, scale: Any, *, single: bool = False, **more: Any) -> Any:
        used.append(single)
        return moments(self, scale, single=single, **more)

    monkeypatch.setattr(RowBlocks, "moments", watched)
    mixed = solve(sub, tol=1e-8)
    assert any(used)
    used.clear()
    system = SystemOptions(single_rows=np.inf, rounding=np.inf)
    double = solve(sub, tol=1e-8, options=NewtonOptions(system=system))
    assert not any(used)
    assert mixed.primal == pytest.approx(double.primal, rel=2e-8)
    assert mixed.dual == pytest.approx(solve_exact(sub).objective, rel=2e-8)


def test_factors_in_float32_lead_to_the_same_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many features: a factor in float32 steers, the point is certified by the rows themselves."""
    sub = random_subproblem(5, 400, 30, 2)
    exact = solve(sub, tol=1e-7)
    options = NewtonOptions(broad=10, system=SystemOptions(single_factor=10))
    short = replace(sub, rows=RowBlocks([(block.X[block.row_of], None) for block in sub.rows.blocks]))
    factors: list[Any] = []
    factor = newton_system.cholesky.factor
    monkeypatch.setattr(
        newton_system.cholesky, "factor", lambda *a, **k: factors.append(factor(*a, **k)) or factors[-1]
    )
    single = solve(short, tol=1e-7, options=options)
    assert {found.dtype for found in factors} >= {np.dtype(np.float32)}
    assert single.gap <= 1e-7
    assert single.primal == pytest.approx(exact.primal, rel=2e-7)
    loss, _ = sub.values(sub.scores(single.w, single.b))
    assert single.primal >= loss + 0.5 * sub.lam * float(single.w @ single.w) - 1e-12


@pytest.mark.parametrize("wall", [1.0, 1e4])
def test_a_line_search_ends_next_to_the_minimum(wall: float) -> None:
    """Slopes that rise in pieces, with a wall: found within a tenth of the first slope in a few evaluations."""
    sub = random_subproblem(6, 60, 3, 1)
    run = LinearRun(sub, 1.0, None, 1.0, NewtonOptions())
    run.here = Value(0.0, 0.0, np.zeros(1))
    calls: list[float] = []

    def evaluate(step: float) -> Any:
        calls.append(step)
        past = max(step - 0.01, 0.0)
        return Value(-step + 0.5 * wall * past**2, -1.0 + wall * past, np.zeros(1))

    run.evaluate = evaluate  # type: ignore[method-assign]
    found = run.search(Line(-1.0, 0.0, 0.0))
    assert found is not None
    assert abs(found[1].slope) <= 0.1
    assert len(calls) <= 15


# compiled passes


@pytest.mark.parametrize("delta", [1.0, 0.1])
def test_compiled_passes_equal_their_python_source(delta: float) -> None:
    rng = np.random.default_rng(0)
    n, k = 40, 3
    z, dz, weight = rng.uniform(-1, 1, n), rng.standard_normal(n), rng.random(n)
    cell, keep = rng.integers(0, k, n).astype(np.int32), (np.arange(n) % 4).astype(np.uint8)
    up, um, A, B = rng.random(n), rng.random(n), rng.random(k), rng.random(k)
    common = (weight, cell, keep, up, um)
    found = []
    compiled_passes = {name: getattr(loops, name) for name in ("smooth_sums", "slopes_of_rows", "move_dual")}
    assert set(loops.__all__) == {"NewtonRows", "Width"} | compiled_passes.keys()
    start = rng.random((2, n))
    for passes in (
        SimpleNamespace(**compiled_passes),
        SimpleNamespace(**{name: compiled_pass.py_func for name, compiled_pass in compiled_passes.items()}),
    ):
        sums, ahead, curvature = np.zeros((k, 4)), np.full(n, np.nan), np.full(n, np.nan)
        passes.smooth_sums(z, dz, *common, 0.3, delta, sums)
        for band, second in (((0.4, True), ahead), ((0.0, False), curvature)):
            masses, sides, change, there = np.zeros((k, 4)), start.copy(), np.array([dz, dz]), z.copy()
            step = (there, change[0], *common, *sides, change[1], second, 0.3, delta)
            passes.slopes_of_rows(*step, *band, A, B, masses)
        np.testing.assert_allclose(there, z + 0.3 * dz, rtol=1e-15)
        assert np.all(ahead >= curvature)
        assert np.any(ahead > curvature)
        for side in (0, 1):
            np.testing.assert_allclose(masses[:, side], np.bincount(cell, sides[side], k), rtol=1e-13)
        point = np.array([up, um])
        passes.move_dual(z, keep, point[0], point[1], delta)
        np.testing.assert_allclose(sides, start + change[:2], rtol=0, atol=1e-15)
        found.append((sums, masses, curvature, ahead, change, sides, point))
    for compiled, plain in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-13, atol=1e-15)


@given(seed=st.integers(0, 1000), delta=st.sampled_from([1.0, 0.2, 1e-3]))
def test_smoothed_hinge_is_its_proximal_definition(seed: int, delta: float) -> None:
    """`f(t) = max_U in [0, 1] of U t - delta/2 (U - u)^2`, slope and curvature by differences."""
    rng = np.random.default_rng(seed)
    z, u, other = rng.uniform(-1, 1, 3)[:, None], rng.random((3, 1)), rng.random((3, 1))
    one, cell, keep = np.ones(1), np.zeros(1, dtype=np.int32), np.full(1, 3, dtype=np.uint8)

    def sums(which: int, step: float) -> np.ndarray:
        out = np.zeros((1, 4))
        loops.smooth_sums(z[which], one, one, cell, keep, u[which], other[which], step, delta, out)
        return out[0]

    U, best = np.linspace(0.0, 1.0, 2001), np.empty((3, 2))
    for which in range(3):
        found = sums(which, 0.0)
        for side, t, centre in ((0, 0.5 + z[which], u[which]), (1, 0.5 - z[which], other[which])):
            values = U * t - 0.5 * delta * (U - centre) ** 2
            assert found[side] == pytest.approx(values.max(), abs=delta * 1e-6 + 1e-12)
            best[which, side] = U[values.argmax()]
        h = 1e-7
        numeric = (sums(which, h)[:2] - sums(which, -h)[:2]) / (2 * h)
        np.testing.assert_allclose(found[2:4], numeric, rtol=0, atol=h / delta + 1e-6)
        A, B = np.array([0.7]), np.array([1.3])
        rows, masses = np.zeros((5, 1)), np.zeros((1, 4))
        moved, shares = (z[which].copy(), rows[3], one, cell, keep), (u[which], other[which])
        loops.slopes_of_rows(*moved, *shares, rows[0], rows[1], rows[4], rows[2], 0.0, delta, 0.0, False, A, B, masses)
        np.testing.assert_allclose(rows[:2, 0], best[which], rtol=0, atol=1e-3)
        inside = (rows[:2, 0] > 0.0) & (rows[:2, 0] < 1.0)
        assert rows[2, 0] == pytest.approx((0.7 * inside[0] + 1.3 * inside[1]) / delta)

"""The interior point against a generic solver, its certificate, and hard cases."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from testing.exact import InfeasibleSubproblemError, objective_of, solve_exact
from testing.problems import a9a_like, majorise, random_subproblem

from widemargin.linalg.cells import CellCoefficients
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, ConvexResult, ConvexState, Status, exact_penalty, relative_gap
from widemargin_papers.solvers import barrier_loops as loops
from widemargin_papers.solvers.interior_point import solve

INF = np.inf


def assert_solved(sub: Any, result: ConvexResult, tol: float) -> None:
    """Converged, and every number of the result is what the problem says at (w, b)."""
    assert result.status is Status.CONVERGED
    assert result.gap <= tol
    excess = sub.values(sub.scores(result.w, result.b))[1]
    assert np.allclose(result.violation, excess, atol=1e-12)
    assert result.primal >= objective_of(sub, result.w, result.b) - 1e-12
    assert result.gap == pytest.approx(relative_gap(result.primal, result.dual, floor=1e-6))
    if not sub.fit_intercept:
        assert result.b == 0.0


def dual_value(sub: Any, state: ConvexState, v: np.ndarray) -> float:
    """Spec 1, section 4b, row by row, at the dual point of a state (balanced by the smaller side)."""
    A, B = sub.coef.per_cell(v)
    plus = np.where(sub.keep & 1, state.up, 0.0) * sub.weight * A[sub.cell]
    minus = np.where(sub.keep & 2, state.um, 0.0) * sub.weight * B[sub.cell]
    if sub.fit_intercept:
        common = min(plus.sum(), minus.sum())
        plus, minus = plus * common / plus.sum(), minus * common / minus.sum()
    g = sub.rows.tdot(plus - minus)
    return float(0.5 * (plus.sum() + minus.sum()) - g @ g / (2 * sub.lam) - v @ sub.gamma + sub.constant)


def with_rows(sub: Any, X: Any) -> Any:
    """The same problem on other data."""
    return replace(sub, rows=RowBlocks([(X, None)]))


def without_constraints(sub: Any, alpha0: np.ndarray, beta0: np.ndarray) -> Any:
    """The problem with another objective and no constraint."""
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
    coef = CellCoefficients(alpha0, beta0, np.zeros(alpha0.shape[0] + 1, dtype=np.int64), none, nothing)
    return replace(sub, coef=coef, gamma=nothing)


def dense_rows(sub: Any) -> np.ndarray:
    return np.vstack([b.X[b.row_of].toarray() if sp.issparse(b.X) else b.X[b.row_of] for b in sub.rows.blocks])


# --- against the exact solution -------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 10_000),
    m=st.integers(0, 4),
    sparse=st.booleans(),
    fit_intercept=st.booleans(),
    lam=st.sampled_from([1e-4, 1e-2, 1.0]),
)
def test_objective_and_multipliers_are_the_exact_ones(
    seed: int, m: int, sparse: bool, fit_intercept: bool, lam: float
) -> None:
    sub = random_subproblem(seed, m=m, sparse=sparse, fit_intercept=fit_intercept, lam=lam)
    exact = solve_exact(sub)
    result = solve(sub, tol=1e-9)
    assert_solved(sub, result, 1e-9)
    assert objective_of(sub, result.w, result.b) == pytest.approx(exact.objective, rel=1e-6)
    assert result.dual <= exact.objective * (1 + 1e-8)
    assert np.all(result.violation <= 1e-7)
    # the dual function is flat where multipliers are not unique, and only there may they differ
    assert np.allclose(result.multipliers, exact.v, atol=1e-4) or flat_between(sub, result, exact.v)


def flat_between(sub: Any, result: ConvexResult, v: np.ndarray) -> bool:
    """Whether the dual function has its maximum at v as well: then its multipliers are not unique."""
    A, B = sub.coef.per_cell(v)
    fixed = replace(without_constraints(sub, A, B), constant=sub.constant - float(v @ sub.gamma))
    return abs(solve_exact(fixed).objective - result.dual) <= 1e-7 * abs(result.dual)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_hot_task_and_its_next_majorisation_step(fit_intercept: bool) -> None:
    sub = a9a_like(0, fit_intercept=fit_intercept)
    for _ in range(3):
        result = solve(sub, tol=1e-8)
        assert_solved(sub, result, 1e-8)
        assert result.primal == pytest.approx(solve_exact(sub).objective, rel=1e-6)
        sub = majorise(a9a_like(0, fit_intercept=fit_intercept), sub.scores(result.w, result.b))


def test_penalty_above_the_multipliers_is_exact() -> None:
    for seed in range(5):
        sub = random_subproblem(seed, m=3)
        hard = solve(sub, tol=1e-9)
        elastic = solve(sub, tol=1e-9, rho=1.5 * float(hard.multipliers.max()) + 0.1)
        assert elastic.primal == pytest.approx(hard.primal, rel=1e-7)
        assert np.allclose(elastic.multipliers, hard.multipliers, atol=1e-4)


def test_penalty_below_the_multipliers_leaves_a_violation() -> None:
    sub = random_subproblem(2, m=1)
    hard = solve(sub, tol=1e-8)
    rho = 0.5 * float(hard.multipliers[0])
    result = solve(sub, tol=1e-8, rho=rho)
    assert result.status is Status.CONVERGED
    assert result.multipliers[0] == pytest.approx(rho, rel=1e-4)
    assert result.violation[0] > 1e-4
    assert objective_of(sub, result.w, result.b) + rho * result.violation[0] == pytest.approx(result.primal)
    assert result.primal < hard.primal


# --- infeasible problems --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 3])
def test_infeasible_problem_is_recognised(m: int) -> None:
    for seed in range(8):
        sub = random_subproblem(seed, m=m, feasible=False)
        with pytest.raises(InfeasibleSubproblemError):
            solve_exact(sub)
        result = solve(sub, tol=1e-6)
        assert result.status is Status.INFEASIBLE
        assert result.violation.max() > 1e-3
        assert result.multipliers.max() > 1e3
        assert result.dual > 1e3


@pytest.mark.parametrize("rho", [1.0, 10.0, 100.0, 1e4])
def test_elastic_infeasible_problem_ends_at_the_penalty(rho: float) -> None:
    for seed in range(8):
        sub = random_subproblem(seed, m=2, feasible=False)
        result = solve(sub, tol=1e-7, rho=rho)
        assert result.status is Status.CONVERGED
        worst = int(np.argmax(result.violation))
        assert result.violation[worst] > 1e-3
        assert result.multipliers[worst] == pytest.approx(rho, rel=1e-3)


def test_feasible_by_a_hair_is_not_called_infeasible() -> None:
    sub = random_subproblem(7, m=1, lam=1e-3)
    least = solve(replace(sub, gamma=np.array([-1.0])), tol=1e-7, rho=1e3).violation[0] - 1.0
    assert solve(replace(sub, gamma=np.array([least + 1e-4])), tol=1e-6).status is Status.CONVERGED
    assert solve(replace(sub, gamma=np.array([least - 1e-3])), tol=1e-6).status is Status.INFEASIBLE


# --- the certificate ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.2, INF])
def test_every_bound_on_the_way_is_valid(rho: float) -> None:
    sub = random_subproblem(11, m=3, sparse=True)
    exact = solve_exact(sub).objective
    result = solve(sub, tol=1e-8, rho=rho)
    duals = np.array([entry["dual"] for entry in result.history])
    primals = np.array([entry["primal"] for entry in result.history])
    assert len(result.history) == result.n_iter + 1
    assert np.all(duals <= exact + 1e-9)
    assert np.all(np.diff(duals) >= 0)
    assert np.all(primals >= duals)
    assert result.history[-1]["mu"] < 1e-6 * result.history[0]["mu"]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_state_is_the_dual_point(fit_intercept: bool) -> None:
    sub = random_subproblem(4, m=2, fit_intercept=fit_intercept)
    result = solve(sub, tol=1e-8)
    assert dual_value(sub, result.state, result.state.v) == pytest.approx(result.dual, rel=1e-6)
    assert np.all((result.state.up >= 0) & (result.state.up <= 1) & (result.state.um >= 0) & (result.state.um <= 1))
    assert np.all(result.state.up[(sub.keep & 1) == 0] == 0)


def test_primal_value_is_penalised_at_the_multipliers() -> None:
    sub = random_subproblem(3, m=2)
    for max_iter in range(6):
        result = solve(sub, tol=1e-9, max_iter=max_iter)
        penalty = exact_penalty(result.multipliers, INF) @ np.maximum(result.violation, 0.0)
        assert result.primal == pytest.approx(objective_of(sub, result.w, result.b) + penalty)
        assert result.primal >= result.dual


def test_rounding_ends_the_run_with_a_tiny_gap() -> None:
    sub = random_subproblem(5, m=3)
    result = solve(sub, tol=-1.0)
    assert result.status is Status.MAX_ITER
    assert result.n_iter < 100
    assert abs(result.gap) < 1e-12


# --- equivalences ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_dense_and_sparse_agree(index_dtype: Any) -> None:
    dense = solve(random_subproblem(8, m=2), tol=1e-9)
    sparse = solve(random_subproblem(8, m=2, sparse=True, index_dtype=index_dtype), tol=1e-9)
    assert sparse.n_iter == dense.n_iter
    assert np.allclose(sparse.w, dense.w, atol=1e-7)
    assert np.allclose(sparse.multipliers, dense.multipliers, atol=1e-7)


@pytest.mark.parametrize("sparse", [True, False])
def test_single_precision_data(sparse: bool) -> None:
    single = random_subproblem(8, m=2, sparse=sparse, dtype=np.float32)
    result = solve(single, tol=1e-5)
    assert_solved(single, result, 1e-5)
    assert result.primal == pytest.approx(solve_exact(single).objective, rel=2e-5)


def test_weights_are_repetition() -> None:
    sub = random_subproblem(9, m=2)
    times = np.random.default_rng(0).integers(0, 4, sub.weight.shape[0])
    X = dense_rows(sub)
    weighted = replace(with_rows(sub, X), weight=times.astype(np.float64))
    twice = np.repeat(np.arange(times.shape[0]), times)
    ones = np.ones(twice.shape[0])
    repeated = replace(with_rows(sub, X[twice]), weight=ones, cell=sub.cell[twice], keep=sub.keep[twice])
    a, b = solve(weighted, tol=1e-9, rho=1.0), solve(repeated, tol=1e-9, rho=1.0)
    assert a.n_iter == b.n_iter
    assert np.allclose(a.w, b.w, atol=1e-8)
    assert np.allclose(a.multipliers, b.multipliers, atol=1e-8)


def test_scale_of_the_weights_does_not_matter() -> None:
    sub = random_subproblem(9, m=2)
    coef, factor = sub.coef, 1e5
    scaled = coef._replace(alpha0=coef.alpha0 / factor, beta0=coef.beta0 / factor, value=coef.value / factor)
    a = solve(sub, tol=1e-9)
    b = solve(replace(sub, weight=factor * sub.weight, coef=scaled), tol=1e-9)
    assert a.n_iter == b.n_iter
    assert np.allclose(a.w, b.w, atol=1e-8)


def test_many_cells_and_constraints() -> None:
    sub = random_subproblem(10, n=80, m=8, n_cells=60)
    assert_solved(sub, solve(sub, tol=1e-9), 1e-9)


# --- warm starts and limits -----------------------------------------------------------------------------------------


def test_warm_start_saves_iterations() -> None:
    first = a9a_like(1, n=1500, fit_intercept=True)
    result = solve(first, tol=1e-4)
    second = majorise(first, first.scores(result.w, result.b))
    cold, warm = solve(second, tol=1e-4), solve(second, tol=1e-4, start=result.state)
    assert_solved(second, warm, 1e-4)
    assert warm.n_iter <= cold.n_iter
    nearby = replace(first, gamma=0.98 * first.gamma)
    assert solve(nearby, tol=1e-4, start=result.state).n_iter < solve(nearby, tol=1e-4).n_iter


def test_warm_start_far_away_still_converges() -> None:
    sub = random_subproblem(12, m=2)
    n = sub.weight.shape[0]
    start = ConvexState(np.full(4, 50.0), -30.0, np.zeros(n), np.ones(n), np.array([0.0, 1e9]))
    for rho in (1.0, INF):
        cold = solve(sub, tol=1e-8, rho=rho)
        warm = solve(sub, tol=1e-8, rho=rho, start=start)
        assert warm.primal == pytest.approx(cold.primal, rel=1e-7)


def test_start_is_not_changed() -> None:
    sub = random_subproblem(12, m=2)
    start = solve(sub, tol=1e-2).state
    copies = [np.copy(part) for part in start]
    solve(sub, tol=1e-8, start=start)
    assert all(np.array_equal(part, copy) for part, copy in zip(start, copies, strict=True))


def test_limits() -> None:
    sub = random_subproblem(13, m=2)
    limited = solve(sub, tol=1e-9, max_iter=3)
    assert (limited.status, limited.n_iter) == (Status.MAX_ITER, 3)
    late = solve(sub, tol=1e-9, budget=Budget(seconds=0.0))
    assert (late.status, late.n_iter) == (Status.TIME_LIMIT, 0)
    assert np.isfinite([late.primal, late.dual]).all()
    stopped = solve(sub, tol=1e-9, budget=Budget(stopped=True))
    assert stopped.status is Status.INTERRUPTED


# --- hard cases -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam_n", [1e-4, 1e-3, 1e-1, 1e2, 1e4])
def test_range_of_lambda(lam_n: float) -> None:
    sub = a9a_like(2, lam=lam_n / 600, fit_intercept=True)
    result = solve(sub, tol=1e-7)
    assert_solved(sub, result, 1e-7)
    assert result.n_iter <= 30


def test_wide_data() -> None:
    for lam in (1e-2, 1e-6):
        sub = random_subproblem(2, n=20, d=50, m=2, lam=lam)
        result = solve(sub, tol=1e-8)
        assert_solved(sub, result, 1e-8)
        assert result.primal == pytest.approx(solve_exact(sub).objective, rel=1e-6)


def test_columns_of_very_different_size() -> None:
    sub = a9a_like(3, fit_intercept=True)
    X = sub.rows.blocks[0].X
    scaled = X @ sp.diags_array(np.exp(np.random.default_rng(0).normal(0.0, 4.0, X.shape[1])))
    result = solve(with_rows(sub, sp.csr_matrix(scaled)), tol=1e-6)
    assert result.status is Status.CONVERGED
    far = X.toarray()
    far[:, 0] = np.random.default_rng(1).normal(5e4, 1e4, X.shape[0])
    assert solve(with_rows(sub, far), tol=1e-6).status is Status.CONVERGED


def test_features_of_deficient_rank() -> None:
    sub = random_subproblem(14, m=2, lam=1e-6)
    X = dense_rows(sub)
    X = np.hstack([X, X, np.ones((X.shape[0], 1)), np.zeros((X.shape[0], 2))])
    result = solve(with_rows(sub, X), tol=1e-7)
    assert_solved(with_rows(sub, X), result, 1e-7)
    assert np.all(result.w[-2:] == 0.0)
    assert np.allclose(result.w[:4], result.w[4:8], rtol=1e-4, atol=1e-6)


def test_features_all_zero() -> None:
    sub = random_subproblem(14, m=2)
    flat = with_rows(sub, np.zeros((sub.weight.shape[0], 3)))
    for fit_intercept in (True, False):
        result = solve(replace(flat, fit_intercept=fit_intercept), tol=1e-7, rho=1.0)
        assert result.status is Status.CONVERGED
        assert np.all(result.w == 0.0)


@pytest.mark.parametrize("rho", [1.0, INF])
@pytest.mark.parametrize("constant", [0.0, 0.3])
def test_empty_objective(rho: float, constant: float) -> None:
    sub = random_subproblem(1, m=2)
    nothing = np.zeros(sub.coef.n_cells)
    sub = replace(sub, coef=CellCoefficients(nothing, nothing, *sub.coef[2:]), constant=constant)
    result = solve(sub, tol=1e-4, rho=rho)
    assert result.status is Status.CONVERGED
    assert result.primal == pytest.approx(constant, abs=1e-7)
    assert result.violation.max() <= 1e-9


def test_nothing_to_do() -> None:
    sub = random_subproblem(1, m=0)
    nothing = np.zeros(sub.coef.n_cells)
    sub = replace(sub, coef=CellCoefficients(nothing, nothing, *sub.coef[2:]))
    result = solve(sub, tol=1e-8)
    assert (result.status, result.primal, result.dual) == (Status.CONVERGED, sub.constant, sub.constant)
    assert np.all(result.w == 0.0)


def test_every_side_constant() -> None:
    sub = random_subproblem(1, m=2)
    none = np.zeros_like(sub.keep)
    met = solve(replace(sub, keep=none, gamma=np.array([0.1, 0.0])), tol=1e-7)
    assert met.status is Status.CONVERGED
    assert met.primal == pytest.approx(sub.constant)
    missed = replace(sub, keep=none, gamma=np.array([0.1, -0.2]))
    assert solve(missed).status is Status.INFEASIBLE
    elastic = solve(missed, tol=1e-7, rho=2.0)
    assert elastic.primal == pytest.approx(sub.constant + 0.4)
    assert elastic.multipliers == pytest.approx([0.0, 2.0], abs=1e-4)


def test_repeated_constraint() -> None:
    sub = random_subproblem(15, m=1)
    single = solve(sub, tol=1e-9)
    coef = sub.coef
    doubled = CellCoefficients(
        coef.alpha0,
        coef.beta0,
        2 * coef.indptr,
        np.stack([coef.column, coef.column + 1], axis=1).ravel(),
        np.repeat(coef.value, 2),
    )
    result = solve(replace(sub, coef=doubled, gamma=np.repeat(sub.gamma, 2)), tol=1e-9)
    assert result.primal == pytest.approx(single.primal, rel=1e-8)
    assert result.multipliers.sum() == pytest.approx(single.multipliers[0], abs=1e-5)


# --- the compiled passes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", loops.__all__)
def test_compiled_pass_is_the_python_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole run with one pass as plain Python gives the same numbers."""
    sub = random_subproblem(16, n=40, m=2, sparse=True)
    compiled = solve(sub, tol=1e-8, rho=1.0)
    calls = []

    def plain(*arguments: Any) -> Any:
        calls.append(name)
        return getattr(original, "py_func", original)(*arguments)

    original = getattr(loops, name)
    monkeypatch.setattr(loops, name, plain)
    slow = solve(sub, tol=1e-8, rho=1.0)
    assert calls
    assert slow.n_iter == compiled.n_iter
    assert np.allclose(slow.w, compiled.w, atol=1e-10)
    assert np.allclose(slow.state.up, compiled.state.up, atol=1e-8)
    assert slow.dual == pytest.approx(compiled.dual, rel=1e-12)


def test_first_point_is_centred() -> None:
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.normal(0.0, 3.0, 20), [1e4, -1e4, 0.5, -0.5]])
    n = z.shape[0]
    row, slot = np.repeat(np.arange(n), 2).astype(np.int32), np.tile([0, 1], n).astype(np.int32)
    coefficient = np.array([2.0, 1e-3])
    s, p, u, r = (np.empty(2 * n) for _ in range(4))
    loops.centre(loops.Hinges(row, slot, s, p, u, r, np.empty(0), np.empty(0)), z, coefficient, 1e-3)
    t = 0.5 + np.where(slot == 0, z[row], -z[row])
    assert np.allclose(s - p, t, rtol=1e-12)
    assert np.all((s > 0) & (p > 0))
    assert np.allclose(u * p, 1e-3)
    assert np.allclose(r * s, 1e-3)
    assert np.allclose(u + r, coefficient[slot], rtol=1e-9)

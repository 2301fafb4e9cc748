"""Coordinate ascent: the exact step, the certificate, and what must not change it (format, weights, resting rows)."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from testing.exact import solve_exact
from testing.problems import random_subproblem

from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget
from widemargin.solvers.paper_nest import sdca
from widemargin.solvers.paper_nest import weighted_hinges as hinges
from widemargin.solvers.paper_nest.sdca import Ascent

positive = st.floats(0.0, 3.0)


def unconstrained(sub):
    """The same rows and objective with b = 0 and no constraint."""
    coef = sub.coef
    return replace(sub, coef=coef.without_constraints(), gamma=np.zeros(0), fit_intercept=False, constant=0.0)


def sides(sub, v=None):
    """Side weights of the rows."""
    A, B = sub.coef.per_cell(np.zeros(sub.n_constraints) if v is None else np.asarray(v))
    plus, minus = np.empty(sub.rows.n_rows), np.empty(sub.rows.n_rows)
    hinges.side_weights(sub.weight, sub.cell, sub.keep, A, B, plus, minus)
    return plus, minus


def ascent_for(sub, v=None, **options):
    ascent = Ascent(sub.rows, sub.lam, **options)
    ascent.set_sides(*sides(sub, v))
    return ascent


@given(
    share=st.floats(0, 1), z=st.floats(-3, 3), plus=positive, minus=positive, q=st.sampled_from([0.0, 0.01, 0.3, 5.0])
)
def test_step_is_the_maximiser_in_one_variable(share, z, plus, minus, q):
    xi = -minus + share * (plus + minus)

    def dual(x):
        return -np.abs(x - plus + minus) / 2 + z * (x - xi) - q / 2 * (x - xi) ** 2

    new = sdca.coordinate_step(z, xi, plus, minus, q)
    assert -minus <= new <= plus
    grid = np.append(np.linspace(-minus, plus, 501), np.clip(plus - minus, -minus, plus))
    assert dual(new) >= dual(grid).max() - 1e-12


@given(share=st.floats(0, 1), z=st.floats(-3, 3), plus=positive, minus=positive)
def test_step_stays_only_at_a_subgradient(share, z, plus, minus):
    """Where the step stays put, xi is in the subdifferential of the loss at z."""
    xi = -minus + share * (plus + minus)
    if sdca.coordinate_step(z, xi, plus, minus, 1.0) == xi:
        slopes = [plus * (z > -0.5) - minus * (z < 0.5), plus * (z >= -0.5) - minus * (z <= 0.5)]
        slopes += [plus * (z >= -0.5) - minus * (z < 0.5), plus * (z > -0.5) - minus * (z <= 0.5)]
        assert min(slopes) - 1e-12 <= xi <= max(slopes) + 1e-12


@given(seed=st.integers(0, 10_000), zeros=st.sampled_from(["none", "plus", "minus", "both"]))
def test_shares_are_the_pair_of_largest_dual_value(seed, zeros):
    rng = np.random.default_rng(seed)
    plus, minus = rng.random(8), rng.random(8)
    plus[:4] *= zeros not in ("plus", "both")
    minus[:4] *= zeros not in ("minus", "both")
    xi = -minus + rng.choice([0.0, 1.0, rng.random()], 8) * (plus + minus)
    up, um, back = np.empty(8), np.empty(8), np.empty(8)
    hinges.shares(xi, plus, minus, up, um)
    assert ((up >= 0) & (up <= 1 + 1e-12) & (um >= 0) & (um <= 1 + 1e-12)).all()
    hinges.xi_from_shares(up, um, plus, minus, back)
    np.testing.assert_allclose(back, xi, atol=1e-12)
    value, total = hinges.dual_sums(xi, plus, minus)
    assert value == pytest.approx((plus @ up + minus @ um) / 2)
    assert total == pytest.approx(xi.sum())


@given(seed=st.integers(0, 10_000))
def test_balance_scales_the_larger_side_down(seed):
    xi = np.random.default_rng(seed).standard_normal(9)
    before = xi.copy()
    hinges.balance(xi)
    assert abs(xi.sum()) < 1e-12
    ratio = xi / before
    assert (ratio <= 1.0).all() and (ratio >= 0.0).all()
    assert 1.0 in (ratio[before > 0].max(initial=1.0), ratio[before < 0].max(initial=1.0))


def test_balance_leaves_one_sided_variables_at_zero():
    xi = np.array([0.5, 0.0, 1.0])
    hinges.balance(xi)
    np.testing.assert_array_equal(xi, 0.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_compiled_epochs_equal_the_plain_python(sparse):
    sub = random_subproblem(3, 40, 5, 2, sparse=sparse)
    block = sub.rows.blocks[1]
    n, results = block.row_of.shape[0], []
    for choose in (lambda f: f, lambda f: f.py_func):
        rng = np.random.default_rng(1)
        rest, delay = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
        plus, minus, xi, w = rng.random(n), rng.random(n), np.zeros(n), np.zeros(5)
        scale, visits = rng.random(5), []
        q = sub.rows.norms2(scale)[block.place]
        for _ in range(6):
            dual = sdca.DualRows(plus, minus, q, xi, rest, delay)
            shared = (rng.permutation(-(-n // 4)), 4, dual, 3, w, 0.1, scale)
            if sparse:
                visits.append(choose(sdca.epoch_csr)(*block.csr, block.row_of, *shared))
            else:
                visits.append(choose(sdca.epoch_dense)(block.X, block.row_of, *shared))
        results.append((visits, rest, delay, xi, w))
    for compiled, plain in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-14)
    assert results[0][0][0] == n > min(results[0][0])  # some rows rested


def test_compiled_sums_equal_the_plain_python():
    rng = np.random.default_rng(2)
    s, plus, minus = rng.standard_normal(20), rng.random(20), rng.random(20)
    xi = np.clip(rng.standard_normal(20), -minus, plus)
    for kernel, arguments in (
        (hinges.dual_sums, (xi, plus, minus)),
        (hinges.hinge_sum, (s, 0.3, plus, minus)),
    ):
        np.testing.assert_allclose(kernel(*arguments), kernel.py_func(*arguments), rtol=1e-13)
    for kernel, arguments in (
        (hinges.shares, (xi, plus, minus)),
        (hinges.xi_from_shares, (rng.random(20), rng.random(20), plus, minus)),
        (hinges.side_weights, (plus, np.arange(20) % 3, np.arange(20) % 4, s[:3], s[3:6])),
    ):
        count = {hinges.xi_from_shares: 1}.get(kernel, 2)
        outs = [[np.zeros(20) for _ in range(count)] for _ in range(2)]
        kernel(*arguments, *outs[0])
        kernel.py_func(*arguments, *outs[1])
        np.testing.assert_allclose(outs[0], outs[1], rtol=1e-13)


@pytest.mark.parametrize("sparse", [False, True])
def test_plain_epochs_never_lower_the_dual(sparse):
    sub = random_subproblem(5, 80, 6, 1, sparse=sparse, lam=0.01)
    ascent = ascent_for(sub, [0.3])
    values = []
    for _ in range(30):
        ascent.epoch(0.2, sub.lam)
        values.append(ascent.dual(0.2).value)
    assert (np.diff(values) >= -1e-13).all()
    assert values[-1] > values[0]
    plus, minus = sides(sub, [0.3])
    assert (ascent.xi <= plus).all() and (ascent.xi >= -minus).all()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sparse", [False, True])
def test_reaches_the_optimum_of_the_reference(seed, sparse):
    sub = unconstrained(random_subproblem(seed, 80, 5, 0, sparse=sparse, lam=10.0 ** -(seed + 1)))
    exact = solve_exact(sub)
    result = ascent_for(sub).solve(0.0, 1e-6)
    assert result.gap <= 1e-6
    assert result.dual.value - 1e-9 <= exact.objective <= result.primal + 1e-9
    np.testing.assert_allclose(result.point.w, exact.w, atol=np.sqrt(2e-6 / sub.lam))  # strong convexity


@pytest.mark.parametrize("lam", [1e-7, 1e-3, 1.0, 100.0])
@pytest.mark.parametrize("b", [-0.7, 0.4])
def test_certifies_for_every_regulariser(lam, b):
    """The proximal steps make small regularisers no harder than large ones."""
    sub = random_subproblem(7, 300, 8, 2, lam=lam)
    ascent = ascent_for(sub, [0.2, 0.4])
    result = ascent.solve(b, 1e-4)
    assert result.gap <= 1e-4
    assert result.epochs < 1000
    assert result.primal == pytest.approx(ascent.primal(ascent.at(result.point.w), b), rel=1e-12)
    assert result.dual.total == pytest.approx(ascent.xi.sum(), abs=1e-12)
    np.testing.assert_allclose(result.dual.g, sub.rows.tdot(ascent.xi), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_dense_and_csr_walk_the_same_path(dtype, index_dtype):
    results = []
    for sparse in (False, True):
        sub = random_subproblem(11, 60, 5, 1, sparse=sparse, dtype=dtype, index_dtype=index_dtype)
        results.append(ascent_for(sub, [0.5]).solve(0.1, 1e-5))
    assert results[0].epochs == results[1].epochs
    assert results[0].primal == pytest.approx(results[1].primal, rel=1e-10)
    np.testing.assert_allclose(results[0].point.w, results[1].point.w, atol=1e-8)


def test_weights_equal_repetition():
    sub = unconstrained(random_subproblem(2, 50, 4, 0))
    times = np.random.default_rng(0).integers(1, 4, 50)
    weighted = replace(sub, weight=times.astype(float))
    X = np.vstack([block.X[block.row_of] for block in sub.rows.blocks])
    repeated = replace(
        sub,
        rows=RowBlocks([(np.repeat(X, times, axis=0), None)]),
        weight=np.ones(times.sum()),
        cell=np.repeat(sub.cell, times),
        keep=np.repeat(sub.keep, times),
    )
    first, second = (ascent_for(each).solve(0.0, 1e-7) for each in (weighted, repeated))
    assert first.primal == pytest.approx(second.primal, abs=2e-7)
    np.testing.assert_allclose(first.point.w, second.point.w, atol=np.sqrt(8e-7 / sub.lam))


def test_warm_start_needs_fewer_epochs():
    sub = random_subproblem(4, 2000, 20, 1, lam=1e-3)
    ascent = ascent_for(sub, [0.3])
    ascent.solve(0.0, 1e-5)
    ascent.set_sides(*sides(sub, [0.3003]))
    warm = ascent.solve(0.0, 1e-4)
    cold = ascent_for(sub, [0.3003]).solve(0.0, 1e-4)
    assert warm.gap <= 1e-4
    assert warm.epochs < cold.epochs / 2
    assert ascent.n_epochs > warm.epochs


def test_warm_start_from_shares_is_the_same_dual_point():
    sub = random_subproblem(4, 200, 6, 1)
    first = ascent_for(sub, [0.3])
    result = first.solve(0.2, 1e-6)
    up, um = np.empty(200), np.empty(200)
    hinges.shares(first.xi, first.plus, first.minus, up, um)
    second = ascent_for(sub, [0.3])
    second.warm_start(result.point.w, up, um)
    again = second.solve(0.2, 2e-6)
    assert again.epochs == 0
    assert again.dual.value == pytest.approx(result.dual.value, abs=1e-12)
    assert again.primal == pytest.approx(result.primal, abs=1e-12)


def test_same_seed_gives_the_same_bits():
    sub = random_subproblem(6, 100, 5, 1, sparse=True)
    first, second, other = (ascent_for(sub, [0.2], seed=seed).solve(0.0, 1e-6) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.point.w, second.point.w)
    assert first.dual.value == second.dual.value
    assert not np.array_equal(first.point.w, other.point.w)
    assert first.primal == pytest.approx(other.primal, abs=1e-6)


def test_rows_rest_and_the_certificate_still_covers_all_of_them():
    sub = random_subproblem(8, 5000, 10, 0, lam=1e-2, sparse=True)
    ascent = ascent_for(sub)
    visits = [ascent.epoch(0.0, sub.lam) for _ in range(60)]
    assert visits[0] == 5000
    assert np.mean(visits[-20:]) < 0.5 * 5000
    result = ascent.solve(0.0, 1e-6)
    assert result.gap <= 1e-6
    z = sub.rows.dot(result.point.w)
    plus, minus = sides(sub)
    primal = plus @ np.maximum(0, 0.5 + z) + minus @ np.maximum(0, 0.5 - z) + sub.lam / 2 * result.point.square
    assert result.primal == pytest.approx(primal, rel=1e-12)


def test_stops_early_with_valid_bounds():
    sub = unconstrained(random_subproblem(9, 200, 5, 0, lam=1e-3))
    exact = solve_exact(sub).objective
    for result in (
        ascent_for(sub).solve(0.0, 1e-9, budget=Budget(seconds=0.0)),
        ascent_for(sub, max_epochs=20).solve(0.0, 1e-12),
    ):
        assert result.dual.value <= exact <= result.primal
        assert result.gap > 1e-9
        assert result.epochs <= 70


def test_all_zero_rows_take_their_best_value_at_once():
    """With no features the scores are -b whatever w is."""
    rows = RowBlocks([(sp.csr_matrix((6, 3)), None)])
    ascent = Ascent(rows, 0.1)
    plus, minus = np.full(6, 0.3), np.full(6, 0.2)
    ascent.set_sides(plus, minus)
    for b in (-2.0, 0.1, 2.0):
        result = ascent.solve(b, 1e-12)
        expected = 6 * (0.3 * max(0, 0.5 - b) + 0.2 * max(0, 0.5 + b))
        assert result.primal == pytest.approx(expected)
        assert result.dual.value == pytest.approx(expected)


# columns of very different size


def with_columns(sub, factors):
    """The same problem on dense rows of which some columns are multiplied."""
    X = np.vstack([block.X[block.row_of] for block in sub.rows.blocks])
    for j, factor in factors.items():
        X[:, j] *= factor
    return replace(sub, rows=RowBlocks([(X, None)]))


@pytest.mark.parametrize("factors", [{}, {2: 1e2}, {2: 1e6}, {1: 1e3, 4: 1e6}], ids=str)
def test_a_column_of_any_size_is_solved_as_quickly(factors):
    sub = unconstrained(with_columns(random_subproblem(3, 300, 6, 1, lam=1e-2), factors))
    ascent = ascent_for(sub, max_epochs=1000)
    found = ascent.solve(0.0, 1e-4)
    assert found.gap <= 1e-4
    exact = solve_exact(sub).objective
    assert found.dual.value - 1e-7 <= exact <= found.primal + 1e-7
    assert {k for k, _ in ascent._heavy} == set(factors)


def test_rows_like_any_other_are_not_scaled():
    sub = random_subproblem(3, 60, 6, 1, sparse=True)
    assert ascent_for(sub)._heavy == []


@given(seed=st.integers(0, 10_000), target=st.floats(-2.0, 2.0))
def test_balancing_a_column_meets_the_target_inside_the_box(seed, target):
    rng = np.random.default_rng(seed)
    x, plus, minus = rng.standard_normal(12), rng.random(12), rng.random(12)
    xi = np.clip(rng.standard_normal(12), -minus, plus)
    before, plain = xi.copy(), xi.copy()
    hinges.balance_column(xi, x, target)
    hinges.balance_column.py_func(plain, x, target)
    np.testing.assert_allclose(xi, plain, rtol=1e-13, atol=1e-16)
    assert np.all(xi * before >= 0.0)
    assert np.all(np.abs(xi) <= np.abs(before))
    terms = x * before
    low, high = terms[terms < 0].sum(), terms[terms > 0].sum()
    assert x @ xi == pytest.approx(min(max(target, low), high), abs=1e-12)  # a side can be scaled down to nothing

"""CellCoefficients: every view of the same numbers agrees with dense tables."""

from typing import Any

import numpy as np
import pytest
from testing.cells import of_pairs

from widemargin.linalg import cells as loops
from widemargin.linalg.cells import CellCoefficients

SHAPES = [(1, 0), (1, 1), (5, 3), (7, 1), (30, 12)]


def sample(seed: int, k: int, m: int, index: Any = np.int64) -> tuple[CellCoefficients, np.ndarray, np.ndarray]:
    """Random coefficients and their dense tables; some cells have none, some pairs have two, some constraints none."""
    rng = np.random.default_rng(seed)
    used = rng.random((k, m)) < 0.4
    used[k // 2] = False
    alpha, beta = rng.random((k, m)) * used, rng.random((k, m)) * used
    alpha[rng.random((k, m)) < 0.4] = 0.0
    indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(index)
    column = np.nonzero(used)[1].astype(index)
    return of_pairs(rng.random(k), rng.random(k), indptr, column, alpha[used], beta[used]), alpha, beta


@pytest.mark.parametrize(("k", "m"), SHAPES)
def test_views_agree_with_dense_tables(k: int, m: int) -> None:
    coef, alpha, beta = sample(k + m, k, m)
    rng = np.random.default_rng(0)
    v, positive, negative = rng.random(m), rng.random(k), rng.random(k)
    assert coef.n_cells == k
    A, B = coef.per_cell(v)
    np.testing.assert_allclose(A, coef.alpha0 + alpha @ v, rtol=1e-14)
    np.testing.assert_allclose(B, coef.beta0 + beta @ v, rtol=1e-14)
    np.testing.assert_allclose(coef.change(v), np.concatenate([alpha @ v, beta @ v]), rtol=1e-14)
    objective, constraints = coef.totals(positive, negative, m)
    assert constraints.shape == (m,)
    assert objective == pytest.approx(coef.alpha0 @ positive + coef.beta0 @ negative, rel=1e-14)
    np.testing.assert_allclose(constraints, alpha.T @ positive + beta.T @ negative, rtol=1e-13)
    squares = alpha.T @ (alpha * positive[:, None]) + beta.T @ (beta * negative[:, None])
    np.testing.assert_allclose(coef.squares(positive, negative, m), squares, rtol=1e-13)


@pytest.mark.parametrize(("k", "m"), SHAPES)
def test_products_of_some_constraints(k: int, m: int) -> None:
    coef, alpha, beta = sample(k, k, m)
    rng = np.random.default_rng(1)
    above, below = rng.random((k, 4)), rng.random((k, 4))
    some = np.flatnonzero(rng.random(m) < 0.6)
    expected = alpha[:, some].T @ above - beta[:, some].T @ below
    np.testing.assert_allclose(coef.products(above, below, some, m), expected, rtol=0, atol=1e-13)
    cell = rng.integers(0, k, 9).astype(np.int32)
    plus, minus, columns = rng.random(9), rng.random(9), np.full((9, len(some)), np.nan)
    loops.fill_columns(*coef.entries, coef.places(some, m), cell, plus, minus, columns)
    by_row = alpha[cell][:, some] * plus[:, None] - beta[cell][:, some] * minus[:, None]
    np.testing.assert_allclose(columns, by_row, rtol=0, atol=1e-15)


def test_one_number_holds_the_side_that_is_not_zero() -> None:
    coef, alpha, beta = sample(3, 6, 4)
    assert len(coef.value) == np.count_nonzero(alpha) + np.count_nonzero(beta)
    assert ((coef.alpha > 0) != (coef.beta > 0)).all()
    np.testing.assert_array_equal(coef.alpha - coef.beta, coef.value)


def test_the_objective_alone() -> None:
    coef, _, _ = sample(3, 6, 4)
    free = coef.without_constraints()
    np.testing.assert_array_equal(free.per_cell(np.zeros(0)), [coef.alpha0, coef.beta0])
    objective, none = free.totals(np.ones(6), np.ones(6), 0)
    assert objective == pytest.approx((coef.alpha0 + coef.beta0).sum())
    assert none.shape == (0,)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_compiled_loops_equal_their_python_source(index: Any) -> None:
    coef, _, _ = sample(2, 8, 5, index)
    coef = coef._replace(indptr=coef.indptr.astype(index))
    rng = np.random.default_rng(2)
    v, one, other = rng.random(5), rng.random(8), rng.random(8)
    wide, place = rng.random((2, 8, 3)), np.array([1, -1, 0, -1, 2])
    cell = rng.integers(0, 8, 6).astype(np.int32)
    cases = [
        (loops.add_weighted, (v,), [(8,), (8,)]),
        (loops.add_totals, (one, other), [(5,)]),
        (loops.add_squares, (one, other), [(5, 5)]),
        (loops.add_products, (place, wide[0], wide[1]), [(3, 3)]),
        (loops.fill_columns, (place, cell, one[:6], other[:6]), [(6, 3)]),
    ]
    for loop, given, shapes in cases:
        results = []
        for version in (loop, loop.py_func):
            outs = [np.zeros(shape) for shape in shapes]
            version(*coef.entries, *given, *outs)
            results.append(np.concatenate([out.ravel() for out in outs]))
        assert results[0].any()
        np.testing.assert_allclose(results[0], results[1], rtol=1e-14)


@pytest.mark.parametrize("kept", [(), (0,), (1, 3), (0, 1, 2, 3)])
def test_some_constraints_of_all(kept: tuple[int, ...]) -> None:
    coef, alpha, beta = sample(3, 9, 4)
    part = coef.columns(np.array(kept, dtype=np.int64))
    both = [part.change(np.eye(len(kept))[j]) for j in range(len(kept))]
    for place, j in enumerate(kept):
        np.testing.assert_array_equal(both[place], np.concatenate([alpha[:, j], beta[:, j]]))
        for column, table in zip(coef.of_column(j), (alpha, beta), strict=True):
            np.testing.assert_array_equal(column, table[:, j])
    np.testing.assert_array_equal(part.alpha0, coef.alpha0)
    assert (part.indptr.dtype, part.column.dtype) == (coef.indptr.dtype, coef.column.dtype)
    assert part.value.shape[0] == np.count_nonzero(alpha[:, list(kept)]) + np.count_nonzero(beta[:, list(kept)])

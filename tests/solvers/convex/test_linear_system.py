"""Newton systems against dense algebra: factored or iterated, centred, and updated a few rows at a time."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin._typing import Floats
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.convex.linear_system import (
    BandGram,
    BandRows,
    Curvature,
    FactoredSystem,
    IterativeSystem,
    Moments,
    SystemOptions,
)


class Band:
    """Rows with their curvatures, as systems ask for them."""

    def __init__(self, rows: RowBlocks, by_row: Any, centred: bool) -> None:
        self.by_row, self.gram, self.iterated = (
            by_row,
            BandGram(rows, SystemOptions(), centred=centred),
            BandRows(rows, by_row),
        )

    def moments(self, lam: float, *, exact: bool = False) -> Moments:
        return self.gram.moments(self.by_row, lam, exact=exact)


def problem(seed: int, fit_intercept: bool, sparse: bool, active: int = 2) -> tuple[Band, Curvature, Floats, Floats]:
    """The band, what else makes the system, the Hessian as a dense matrix, and a gradient."""
    rng = np.random.default_rng(seed)
    n, d = 40, 6
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7) + (0.0 if sparse else 3.0)
    by_row = (rng.random(n) * (rng.random(n) < 0.6)).astype(np.float32)
    border, totals = rng.standard_normal((active, d)), rng.standard_normal(active)
    rows = RowBlocks([(sp.csr_matrix(X) if sparse else X, None)])
    curvature = Curvature(0.1, border, totals, 5.0, 0.0, rows.centre if fit_intercept else None)
    Z, G, ridge = X, border, np.full(d, 0.1)
    if fit_intercept:
        Z, G, ridge = np.column_stack([X, -np.ones(n)]), np.column_stack([border, -totals]), np.append(ridge, 0.0)
    H = (Z.T * by_row) @ Z + np.diag(ridge) + 5.0 * G.T @ G
    return Band(rows, by_row, fit_intercept), curvature, H, rng.standard_normal(H.shape[0])


@given(seed=st.integers(0, 200), fit_intercept=st.booleans(), sparse=st.booleans(), active=st.integers(0, 3))
def test_both_ways_solve_the_system(seed: int, fit_intercept: bool, sparse: bool, active: int) -> None:
    band, curvature, H, gradient = problem(seed, fit_intercept, sparse, active)
    expected = np.linalg.solve(H, gradient)
    factored = FactoredSystem(curvature, band)
    np.testing.assert_allclose(factored.solve(gradient), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert factored.estimate(gradient) == pytest.approx(gradient @ expected, rel=1e-4)
    iterated = IterativeSystem(curvature, band.iterated, SystemOptions(residual=1e-9))
    np.testing.assert_allclose(iterated.solve(gradient), expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
    assert iterated.estimate(gradient) > 0.0


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_rough_solution_is_still_a_descent_direction_close_to_the_exact_one(fit_intercept: bool) -> None:
    band, curvature, H, gradient = problem(0, fit_intercept, False)
    system = IterativeSystem(curvature, band.iterated)
    step = system.solve(gradient)
    expected = np.linalg.solve(H, gradient)
    off = step - expected
    assert off @ H @ off <= 0.1 * (expected @ H @ expected)
    assert gradient @ step > 0.0


@given(seed=st.integers(0, 100), sparse=st.booleans(), exact=st.booleans())
def test_sums_over_the_band_are_those_of_its_rows(seed: int, sparse: bool, exact: bool) -> None:
    """In single precision too, whatever matrix was made before."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 5))
    band = BandGram(RowBlocks([(sp.csr_matrix(X) if sparse else X, None)]), SystemOptions(), centred=True)
    C = X - X.mean(axis=0)
    for _ in range(3):
        curvature = (rng.random(60) * (rng.random(60) < 0.5)).astype(np.float32)
        found = band.moments(curvature, 1e-3, exact=exact)
        scale = np.abs(C.T * curvature) @ np.abs(C)
        tol = 1e-12 if exact else 1e-5
        assert np.all(np.abs(np.tril(found.gram - (C.T * curvature) @ C)) <= tol * scale + 1e-6)
        assert np.all(np.abs(found.sums - C.T @ curvature) <= tol * np.abs(C.T) @ curvature + 1e-6)
        assert found.total == pytest.approx(curvature.sum(), rel=1e-6)


@given(seed=st.integers(0, 100), sparse=st.booleans())
def test_sums_over_a_band_that_changes_little_are_corrected(seed: int, sparse: bool) -> None:
    """By the rows that entered it or left it; those whose curvature moves by less than a hundredth wait."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 5))
    rows, multiplied = RowBlocks([(sp.csr_matrix(X) if sparse else X, None)]), list[int]()
    band = BandGram(rows, SystemOptions(corrected=0.0), centred=True)
    plain = rows.moments

    def moments(change: Any, **options: bool) -> tuple[Floats, Floats]:
        multiplied.append(np.count_nonzero(change))
        return plain(change, **options)

    rows.moments = moments  # type: ignore[method-assign]
    C = X - X.mean(axis=0)
    curvature = np.where(rng.random(300) < 0.5, rng.uniform(0.5, 2.0, 300), 0.0)
    for step in range(12):
        if step % 4 == 2:
            curvature = curvature / 0.7  # a new width
        turned = rng.choice(300, 4, replace=False)
        curvature[turned] = np.where(curvature[turned] > 0.0, 0.0, 1.0)
        curvature = curvature * rng.uniform(0.999, 1.001, 300)
        found = band.moments(curvature.astype(np.float32), 1e-3)
        scale = np.abs(C.T * curvature) @ np.abs(C)
        assert np.all(np.abs(np.tril(found.gram - (C.T * curvature) @ C)) <= 0.02 * scale)
        assert np.all(np.abs(found.sums - C.T @ curvature) <= 0.02 * np.abs(C.T) @ curvature)
        assert found.total == pytest.approx(curvature.sum(), rel=1e-6)
    assert np.median(multiplied[1:]) <= 10
    # a band of other rows is summed anew, and so is what has to be exact
    other = np.where(curvature > 0.0, 0.0, 1.0).astype(np.float32)
    for exact in (False, True):
        found = band.moments(other, 1e-3, exact=exact)
        assert multiplied[-1] == np.count_nonzero(other)
        np.testing.assert_allclose(np.tril(found.gram), np.tril((C.T * other) @ C), atol=1e-8 if exact else 1e-3)


@pytest.mark.parametrize("coarse", [False, True])
def test_a_factor_in_float32_is_corrected_or_replaced(coarse: bool) -> None:
    options = SystemOptions(single_factor=1, coarse=0.0 if coarse else 0.1)
    band, curvature, H, gradient = problem(1, True, False)
    system = FactoredSystem(curvature, band, options)
    assert system._lower.dtype == np.float32
    expected = np.linalg.solve(H, gradient)
    np.testing.assert_allclose(system.solve(gradient), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert system._lower.dtype == (np.float64 if coarse else np.float32)


def test_numbers_too_large_for_float32_are_multiplied_in_double_precision() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) * np.array([1.0, 1e25, 1.0])
    curvature = Curvature(0.1, np.zeros((0, 3)), np.zeros(0), 1.0, 0.0, None)
    with np.errstate(over="ignore"):
        system = FactoredSystem(curvature, Band(RowBlocks([(X, None)]), np.ones(50, dtype=np.float32), False))
    H = X.T @ X + 0.1 * np.eye(3)
    gradient = np.array([1.0, 1e25, -1.0])
    scale = np.sqrt(np.diag(H))
    expected = np.linalg.solve(H / np.outer(scale, scale), gradient / scale) / scale
    np.testing.assert_allclose(system.solve(gradient), expected, rtol=1e-8)


def test_a_large_penalty_on_active_constraints_does_not_slow_the_iteration_down() -> None:
    """The preconditioner takes their part of the matrix exactly, whatever its size."""
    band, curvature, H, gradient = problem(3, True, False)
    products = []
    for tau in (1.0, 1e8):
        system = IterativeSystem(curvature._replace(tau=tau), band.iterated)
        count = 0
        product = system.product

        def counted(v: Floats, product: Any = product) -> Floats:
            nonlocal count
            count += 1
            return product(v)

        system.product = counted  # type: ignore[method-assign]
        step = system.solve(gradient)
        products.append(count)
        G = np.column_stack([curvature.border, -curvature.border_totals])
        exact = np.linalg.solve(H + (tau - 5.0) * G.T @ G, gradient)
        assert np.linalg.norm(step - exact) <= 0.2 * np.linalg.norm(exact)
    assert products[1] <= products[0] + 1

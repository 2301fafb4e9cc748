"""Small quadratic programmes against clarabel and their optimality conditions."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin.solvers.convex.level_method import minimise


def instance(seed: int, n: int, rank: int) -> tuple[np.ndarray, ...]:
    """A programme with a simplex and an equality of both signs that the uniform point meets."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((n, rank))
    slope = rng.standard_normal(n)
    slope -= slope.mean()
    return B @ B.T, rng.standard_normal(n), np.stack([np.ones(n), slope]), np.array([2.0, 0.0])


@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), rank=st.integers(1, 8))
def test_optimality(seed: int, n: int, rank: int) -> None:
    H, c, A, b = instance(seed, n, rank)
    x, y = minimise(H, c, A, b, np.full(n, 2.0 / n), 1e-8)
    slope = H @ x - c - A.T @ y
    assert x.min() > 0.0
    np.testing.assert_allclose(A @ x, b, rtol=0, atol=1e-7)
    assert slope.min() >= -1e-6
    assert slope @ x <= 1e-6


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_value_of_another_solver_from_a_start_that_meets_nothing(scale: float) -> None:
    H, c, A, b = instance(3, 25, 5)
    x, _ = minimise(scale * H, c, A, b, np.ones(25), 1e-9)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(2), clarabel.NonnegativeConeT(25)]
    rows, right = sp.csc_matrix(np.vstack([A, -np.eye(25)])), np.append(b, np.zeros(25))
    solver = clarabel.DefaultSolver(sp.csc_matrix(np.triu(scale * H)), -c, rows, right, cones, settings)
    assert 0.5 * scale * x @ H @ x - c @ x == pytest.approx(solver.solve().obj_val, rel=1e-6)


def test_equal_unknowns_and_an_empty_equality_do_no_harm() -> None:
    H, c, A, b = np.ones((6, 6)), np.ones(6), np.zeros((2, 6)), np.array([1.0, 0.0])
    A[0] = 1.0
    x, _ = minimise(H, c, A, b, np.full(6, 1.0 / 6.0), 1e-9)
    assert x.sum() == pytest.approx(1.0)

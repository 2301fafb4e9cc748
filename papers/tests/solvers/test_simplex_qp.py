"""The small quadratic programme against its optimality conditions and clarabel."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin_papers.solvers.structured_cutting_planes import ascend, maximise


def instance(seed, n, rank):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, rank))
    return B @ B.T, rng.normal(size=n)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 12), rank=st.integers(1, 12))
def test_optimality(seed, n, rank):
    G, c = instance(seed, n, rank)
    x = maximise(G, c, np.eye(n)[0] * 2.0, 1e-6)
    slope = c - G @ x
    assert x.sum() == pytest.approx(2.0)
    assert x.min() >= 0.0
    assert slope.max() - slope[x > 0.0].min() <= 1e-6 + 1e-9


def test_the_value_of_an_interior_point_method():
    G, c = instance(3, 20, 6)
    x = maximise(G, c, np.eye(20)[0], 1e-9)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    A = sp.csc_matrix(np.vstack([np.ones(20), -np.eye(20)]))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(20)]
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(G)), -c, A, np.concatenate([[1.0], np.zeros(20)]), cones, settings
    )
    assert c @ x - 0.5 * x @ G @ x == pytest.approx(-solver.solve().obj_val, rel=1e-6)


def test_compiled_is_python():
    G, c = instance(1, 8, 3)
    results = []
    for run in (ascend, ascend.py_func):
        x = np.eye(8)[0].copy()
        moves = run(G, c - G @ x, x, 1e-6, 1000)
        results.append((moves, x))
    assert results[0][0] == results[1][0]
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12, atol=1e-14)

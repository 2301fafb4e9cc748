"""The paper's nest on kernel rows (F.3): coordinate ascent, bias search and cutting plane in coefficients."""

from dataclasses import replace

import numpy as np
import pytest
from testing.exact import solve_exact
from testing.kernel_problems import kernel_pair
from testing.problems import random_subproblem

from widemargin.exceptions import KernelError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows
from widemargin.linalg.gram import GramRows
from widemargin.solvers.base import Status
from widemargin.solvers.paper_nest import cutting_plane, sdca
from widemargin.solvers.paper_nest import weighted_hinges as hinges
from widemargin.solvers.paper_nest.bias_search import BiasSearch
from widemargin.solvers.paper_nest.sdca import Ascent, DualRows, KernelAscent, ascent_for

RBF = Kernel("rbf", 0.5)


def cached(pair, n_rows, dtype=np.float64):
    """The same problem with a cache of so many rows."""
    size = n_rows * pair.X.shape[0] * np.dtype(dtype).itemsize / MEGABYTE
    return replace(pair.sub, rows=GramRows(KernelRows(RBF, pair.X, cache_size=size, dtype=dtype)))


@pytest.mark.parametrize("m", [0, 1, 2, 4])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_reaches_the_optimum_of_the_reference(m, fit_intercept):
    pair = kernel_pair(RBF, 20 + m, m=m, fit_intercept=fit_intercept)
    exact = solve_exact(pair.twin)
    result = cutting_plane.solve(pair.sub, tol=1e-5)
    assert result.status is Status.CONVERGED
    assert result.dual - 1e-9 <= exact.objective <= result.primal + 1e-9
    assert result.primal == pytest.approx(exact.objective, rel=2e-5)
    assert result.violation.max(initial=0.0) <= 1e-6


@pytest.mark.parametrize("capacity", [1, 7, 60])
def test_a_cache_of_any_size_gives_the_same_certificate(capacity):
    pair = kernel_pair(RBF, 21, m=1)
    exact = solve_exact(pair.twin)
    result = cutting_plane.solve(cached(pair, capacity), tol=1e-3)
    assert result.status is Status.CONVERGED
    assert result.dual - 1e-9 <= exact.objective <= result.primal + 1e-9


def test_float32_rows():
    pair = kernel_pair(RBF, 21, m=1)
    result = cutting_plane.solve(cached(pair, 60, np.float32), tol=1e-3)
    assert result.primal == pytest.approx(solve_exact(pair.twin).objective, rel=2e-3)


def test_linear_kernel_equals_linear_ascent():
    flat = random_subproblem(3, 60, 4, 0, fit_intercept=False)
    pair = kernel_pair(Kernel("linear"), 3, 60, 4, 0, fit_intercept=False)
    rng = np.random.default_rng(0)
    plus, minus = rng.random(60), rng.random(60)
    ascents = ascent_for(flat.rows, 5.0), ascent_for(pair.sub.rows, 5.0)
    assert [type(ascent) for ascent in ascents] == [Ascent, KernelAscent]
    values = []
    for ascent in ascents:
        ascent.set_sides(plus, minus)
        found = ascent.solve(0.1, 1e-6)
        assert 0.0 <= found.gap <= 1e-6
        values.append((found.primal, found.point.s))
    assert values[0][0] == pytest.approx(values[1][0], abs=2e-6)
    np.testing.assert_allclose(values[0][1], values[1][1], atol=1e-2)


def test_bias_search_on_kernel_rows():
    pair = kernel_pair(RBF, 9, m=0)
    exact = solve_exact(replace(pair.twin, constant=0.0))
    ascent = ascent_for(pair.sub.rows, pair.sub.lam)
    A, B = pair.sub.coef.per_cell(np.zeros(0))
    plus, minus = np.empty(60), np.empty(60)
    hinges.side_weights(pair.sub.weight, pair.sub.cell, pair.sub.keep, A, B, plus, minus)
    ascent.set_sides(plus, minus)
    found = BiasSearch(ascent).solve(1e-5)
    assert found.dual - 1e-9 <= exact.objective <= found.primal + 1e-9
    assert found.primal - found.dual <= 1e-5
    assert abs(ascent.xi.sum()) < 1e-9


def test_same_seed_same_bits():
    pair = kernel_pair(RBF, 8, 100, m=1)
    first, second = (cutting_plane.solve(pair.sub, tol=1e-3, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)


def test_indefinite_kernels_are_refused():
    pair = kernel_pair(RBF, 8, 60, m=0)
    indefinite = np.full((60, 60), -0.5)
    np.fill_diagonal(indefinite, 1.0)
    with pytest.raises(KernelError, match="not positive semi-definite: a squared norm came out as -"):
        cutting_plane.solve(replace(pair.sub, rows=GramRows(indefinite)))


def test_compiled_loops_equal_the_plain_python():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    K, n = X @ X.T, 30
    plus, minus = rng.random(n), rng.random(n)
    results = []
    for choose in (lambda f: f, lambda f: f.py_func):
        rest, delay = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
        xi, c, s = np.zeros(n), np.zeros(n), np.zeros(n)
        order, told = np.random.default_rng(1), []
        for _ in range(5):
            rows = order.permutation(n)
            dual = DualRows(plus, minus, 2.0 * np.diagonal(K), xi, rest, delay)
            told.append(choose(sdca.pick_moving)(rows, dual, 7, s, 0.1))
            moving = rows[: told[-1][1]]
            choose(sdca.ascend_kernel)(K, moving, moving, dual, c, s, 0.1, 2.0)
        np.testing.assert_allclose(s, K @ c, atol=1e-12)
        np.testing.assert_allclose(c, -2.0 * xi, atol=1e-12)
        results.append((told, rest, delay, xi))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)
    assert 0 < results[0][0][-1][1] < results[0][0][0][1]

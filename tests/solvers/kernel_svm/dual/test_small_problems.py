"""Small problems of pairs of classes in one compiled loop, against the exact optimum and the working-set dual."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.kernel_svms import RBF, data, exact, problem

from widemargin.kernels.rows import KernelRows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.kernel_svm.dual import small_problems
from widemargin.solvers.kernel_svm.dual.small_problems import SmallProblemOptions, solve
from widemargin.solvers.kernel_svm.problem import WholeMatrix


def three_classes(seed, n=90, C=1.0):
    """Kernel values of rows in the order of three classes, rows a class, and upper bounds."""
    X, _ = data(seed, n)
    counts = np.array([n // 3, n // 2, n - n // 3 - n // 2])
    upper = C * np.random.default_rng(seed).uniform(0.5, 2.0, n)
    return KernelRows(RBF, X).full(), counts, upper


def part(K, counts, upper, pair):
    """The problem of two of the classes, for another solver."""
    members = np.split(np.arange(K.shape[0]), np.cumsum(counts)[:-1])
    rows = np.concatenate([members[c] for c in pair])
    y = np.repeat([1.0, -1.0], counts[list(pair)])
    whole = problem(np.zeros((rows.shape[0], 1)), y, upper[rows])
    return type(whole)(WholeMatrix(K[np.ix_(rows, rows)].copy()), y, upper[rows])


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), C=st.sampled_from([0.1, 1.0, 30.0]))
def test_the_exact_optimum_of_every_pair(seed, C):
    K, counts, upper = three_classes(seed, C=C)
    pairs = np.array([(0, 1), (0, 2), (2, 1)])
    for pair, result in zip(pairs, solve(K, counts, pairs, upper, 1e-7, Budget()), strict=True):
        reference = part(K, counts, upper, tuple(pair))
        best = exact(reference)
        assert result.status is Status.CONVERGED and result.violation <= 1e-7
        assert result.dual == pytest.approx(best, rel=1e-6) and result.primal == pytest.approx(best, rel=1e-6)
        # The certificate is that of these coefficients.
        scores = reference.rows.block(slice(None)) @ result.coef
        np.testing.assert_allclose(result.scores, scores, atol=1e-9 * max(1.0, C * 90))
        at = reference.values(result.coef, scores, result.intercept)
        np.testing.assert_allclose(
            (result.primal, result.dual, result.violation), at, rtol=1e-9, atol=1e-9 * max(1.0, C * 90)
        )
        assert abs(result.coef.sum()) < 1e-9 * C * 90


def test_what_it_cannot_solve_is_left():
    K, counts, upper = three_classes(3)
    pairs = np.array([(0, 1), (1, 2)])
    assert solve(K, counts, pairs, upper, 1e-7, Budget(), options=SmallProblemOptions(steps=1)) == [None, None]
    crooked = K - 2.0 * np.eye(90)  # negative curvature along every pair
    assert solve(crooked, counts, pairs, upper, 1e-3, Budget()) == [None, None]
    K[0, 1] = K[1, 0] = np.nan
    assert solve(K, counts, pairs, upper, 1e-3, Budget())[0] is None


def test_the_compiled_loop_is_the_python_function():
    K, counts, upper = three_classes(5, 30)
    ends, pairs, places = np.array([0, 10, 25, 30]), np.array([(0, 1), (2, 0)]), np.array([0, 25, 40])
    assert ends[-1] == counts.sum()
    found = []
    for run in (small_problems.solve_some, small_problems.solve_some.py_func):
        coef, scores, facts = np.zeros(40), np.zeros(40), np.zeros((2, 6))
        run(K, ends, pairs, places, upper, False, 1e-9, 100, 0, 2, coef, scores, facts)
        found.append((coef, scores, facts[:, :3]))
    for compiled, plain in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, atol=1e-6)

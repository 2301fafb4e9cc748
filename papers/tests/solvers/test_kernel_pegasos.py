"""Pegasos against the algorithm on dense vectors, and against the optimum."""

import numpy as np
import pytest
from testing.kernel_svms import data, exact, problem

from widemargin.exceptions import KernelError
from widemargin.kernels.functions import Kernel
from widemargin_papers.solvers import kernel_pegasos


def plain(K, y, draws, lam, radius):
    """The iterates of Pegasos, as coefficients, with nothing kept lazily."""
    coef, found = np.zeros(y.shape[0]), []
    for t, i in enumerate(draws, start=1):
        violated = y[i] * (K[i] @ coef) < 1.0
        coef *= 1.0 - 1.0 / t
        coef[i] += y[i] / (lam * t) if violated else 0.0
        coef *= min(1.0, radius / max(np.sqrt(coef @ K @ coef), 1e-300))
        found.append(coef.copy())
    return np.array(found)


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_the_iterates_are_those_of_the_plain_algorithm(project, average):
    X, y = data(0, 60)
    p = problem(X, y, np.random.default_rng(2).uniform(0.5, 5.0, 60), fit_intercept=False)
    rng = np.random.default_rng(7)
    draws = np.concatenate([kernel_pegasos.drawn(p, rng) for _ in range(3)])
    lam = 1.0 / p.upper.sum()
    found = plain(p.rows.full(), y, draws, lam, lam**-0.5 if project else np.inf)
    t = np.arange(1, 181)
    expected = t @ found / t.sum() if average else found[-1]
    result = kernel_pegasos.solve(p, max_iter=3, project=project, average=average, seed=7)
    primal = result.history[-1]["primal"]  # of the last look; the result is the best one
    K = p.rows.full()
    square = expected @ K @ expected
    assert primal == pytest.approx(0.5 * square + p.upper @ np.maximum(0, 1 - y * (K @ expected)), rel=1e-9)
    if result.primal == primal:
        np.testing.assert_allclose(result.coef, expected, atol=1e-10)
    assert result.primal <= primal


@pytest.mark.parametrize("C", [0.1, 2.0])
def test_it_approaches_the_optimum(C):
    X, y = data(1, 150)
    p = problem(X, y, C, fit_intercept=False)
    best = exact(p)
    few, many = (kernel_pegasos.solve(p, max_iter=passes).primal for passes in (5, 300))
    assert best * (1 - 1e-9) <= many < best * 1.005
    assert many < few
    assert kernel_pegasos.solve(p, max_iter=20).dual <= best


def test_a_loose_tolerance_ends_it_with_a_proof():
    X, y = data(2, 100)
    result = kernel_pegasos.solve(problem(X, y, 0.01, fit_intercept=False), tol=0.2, max_iter=1000)
    assert result.status == "converged"
    assert result.gap <= 0.2
    assert result.n_iter < 100_000


def test_a_negative_squared_norm_is_named():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    p = problem(K, np.array([1.0, -1.0]), kernel=Kernel("precomputed"), fit_intercept=False)
    with pytest.raises(KernelError, match="squared norm came out as -"):
        kernel_pegasos.solve(p)

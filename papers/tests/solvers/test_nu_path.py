"""C to nu and back, and the path, against the dual's solutions."""

import numpy as np
import pytest

from svm_rows import kernel_problem, noisy_products
from widemargin.exceptions import DataError
from widemargin.kernels.functions import Kernel
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.batch_perceptron.direction import BatchOptions
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin_papers.solvers.nu_path import c_from_nu, nu_from_c, nu_path

BOTH = pytest.mark.parametrize("fit_intercept", [False, True])


def solution(p):
    """|w| and mean hinge loss of the dual's solution."""
    found = working_set.solve(p, tol=1e-7)
    scores = p.rows.block(slice(None)) @ found.coef
    hinge = np.maximum(0.0, 1.0 - p.y * (scores + found.intercept))
    return np.sqrt(found.coef @ scores), p.upper @ hinge / p.upper.sum()


@BOTH
def test_nu_falls_with_C_and_comes_back(fit_intercept):
    X, y = noisy_products(0, 100)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 100)
    weight /= weight.max()
    nus = []
    for C in (0.1, 1.0, 10.0, 100.0):
        p = kernel_problem(X, y, C * weight, fit_intercept=fit_intercept)
        nus.append(nu_from_c(p))
        norm, hinge = solution(p)
        assert nus[-1] == pytest.approx(hinge / norm, rel=1e-3)
        again = c_from_nu(kernel_problem(X, y, weight, fit_intercept=fit_intercept), nus[-1])
        assert again == pytest.approx(C, rel=2e-3)
    assert (np.diff(nus) < 0).all()


def test_a_nu_that_no_C_has():
    X, y = noisy_products(1, 40)
    for nu in (0.0, -1.0, np.inf):
        with pytest.raises(DataError, match="must be a finite number > 0"):
            c_from_nu(kernel_problem(X, y), nu)
    torn = kernel_problem(np.repeat(np.arange(4.0)[:, None], 2, axis=0), np.tile([1.0, -1.0, 1.0], 3)[:8])
    with pytest.raises(DataError, match="cannot be separated so far"):
        c_from_nu(torn, 1e-6)
    with pytest.raises(DataError, match="w = 0 is optimal at C=1"):
        nu_from_c(kernel_problem(X, np.ones(40)))


@BOTH
def test_the_path_is_the_front(fit_intercept):
    X, y = noisy_products(2, 120)
    Cs = (0.3, 2.0, 10.0)
    ends = [solution(kernel_problem(X, y, C, fit_intercept=fit_intercept)) for C in Cs]
    p = kernel_problem(X, y, fit_intercept=fit_intercept)
    points = list(nu_path(p, [hinge / norm for norm, hinge in ends][::-1], tol=0.02))
    assert [point.nu for point in points] == sorted((hinge / norm for norm, hinge in ends), reverse=True)
    for point, (norm, hinge) in zip(points, ends, strict=True):
        assert point.result.gap <= 0.02
        assert point.result.margin <= 1.0 / norm * (1 + 1e-6) <= -point.result.dual * (1 + 2e-6)
        assert point.norm == pytest.approx(norm, rel=0.06)
        assert point.mean_hinge == pytest.approx(hinge, rel=0.06)
    assert points[-1].result.evaluations < 120 * 130  # rows are kept along the path


def test_a_warm_start_saves_steps():
    X, y = noisy_products(3, 400)
    p = kernel_problem(X, y, cache_size=10.0)
    nus = [0.05, 0.045]
    warm = list(nu_path(p, nus, tol=0.05, options=BatchOptions(batch=32)))[1].result.n_iter
    cold = next(nu_path(kernel_problem(X, y), nus[1:], tol=0.05, options=BatchOptions(batch=32))).result.n_iter
    assert warm < cold


def test_no_margin_and_the_end_of_the_budget():
    torn = kernel_problem(np.repeat(np.arange(4.0)[:, None], 2, axis=0), np.tile([1.0, -1.0], 4))
    last = list(nu_path(torn, [0.1, 0.0], max_iter=20))[-1]
    assert last.norm == np.inf and last.result.margin <= 0.0
    X, y = noisy_products(4, 60)
    assert len(list(nu_path(kernel_problem(X, y), [0.1, 0.05], budget=Budget(seconds=0.0)))) == 1


def test_C_is_the_least_of_an_interval_with_one_solution():
    """With two columns w often stays where three margins are 1, while C and the dual coefficients grow."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=60) > 0, 1.0, -1.0)
    linear = Kernel("linear")
    nus = [nu_from_c(kernel_problem(X, y, C, kernel=linear)) for C in (6.0, 10.0, 16.0)]
    np.testing.assert_allclose(nus, nus[0], rtol=1e-4)
    found = [c_from_nu(kernel_problem(X, y, kernel=linear), nu) for nu in nus]
    assert found == pytest.approx([found[0]] * 3, rel=1e-3)
    assert found[0] < 6.0
    assert nu_from_c(kernel_problem(X, y, found[0], kernel=linear)) == pytest.approx(nus[0], rel=3e-4)
    assert nu_from_c(kernel_problem(X, y, 0.98 * found[0], kernel=linear)) > 1.002 * nus[0]


@pytest.mark.parametrize("n", [20, 21, 60])
def test_a_nu_below_the_limit_is_told_soon(n):
    """Two columns cannot separate the rows, and from some C on w stays: the last C tried is not 1e12."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    with pytest.raises(DataError, match=r"nu=1e-09 is smaller than that of every C up to \de\+0[2-6], which has 0\.\d"):
        c_from_nu(kernel_problem(X, y, kernel=Kernel("linear")), 1e-9)

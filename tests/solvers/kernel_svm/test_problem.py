"""The certificate that kernel SVM solvers share, against LIBSVM and brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

from widemargin.kernels.functions import resolve_kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.base import Status
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, excess_sums, gradient_sides


def problem(seed, n=80, C=1.0, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0.3, 1.0, -1.0)
    return X, KernelProblem(KernelRows(resolve_kernel("rbf", X), X), y, np.full(n, C), **options)


def hinge(p, scores, b):
    return float(p.upper @ np.maximum(0.0, 1.0 - p.y * (scores + b)))


@pytest.mark.parametrize("C", [0.1, 1.0, 50.0])
def test_the_optimum_of_libsvm_has_no_gap(C):
    X, p = problem(0, C=C)
    peer = SVC(C=C, tol=1e-7).fit(X, p.y)
    coef = np.zeros(p.n_rows)
    coef[peer.support_] = peer.dual_coef_[0]
    scores = p.rows.block(slice(None)) @ coef
    b = p.optimal_bias(scores)
    found = p.values(coef, scores, b)
    assert b == pytest.approx(peer.intercept_[0], abs=1e-5)
    assert found.primal - found.dual == pytest.approx(0.0, abs=1e-5 * found.primal)
    assert found.violation < 1e-4
    result = KernelResult(coef, b, found.primal, found.dual, found.violation, Status.CONVERGED, 0, 0, 0.0)
    assert abs(result.gap) < 1e-5


@given(st.integers(0, 10_000))
def test_a_feasible_dual_point_bounds_every_primal_point(seed):
    _, p = problem(1, 30)
    rng = np.random.default_rng(seed)
    K = p.rows.block(slice(None))
    a = rng.uniform(0, 1, 30)
    positive = p.y > 0
    a[positive] *= min(1.0, a[~positive].sum() / a[positive].sum())
    a[~positive] *= a[positive].sum() / a[~positive].sum()
    coef = p.y * a
    dual = p.values(coef, K @ coef, 0.0).dual
    other = rng.normal(size=30) * rng.uniform(0, 2)
    assert dual <= p.values(other, K @ other, rng.normal()).primal + 1e-9


@given(st.integers(0, 10_000), st.booleans())
def test_the_bias_is_the_best_of_all_kinks(seed, ties):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    scores = rng.integers(-2, 3, n).astype(float) if ties else rng.normal(size=n)
    upper = rng.integers(1, 4, n).astype(float)
    p = KernelProblem(problem(2)[1].rows, y, upper)
    b = p.optimal_bias(scores)
    assert hinge(p, scores, b) <= min(hinge(p, scores, kink) for kink in y - scores) + 1e-9
    assert KernelProblem(p.rows, y, upper, fit_intercept=False).optimal_bias(scores) == 0.0


def test_the_middle_of_a_flat_stretch_is_taken():
    p = KernelProblem(problem(2)[1].rows, np.array([1.0, -1.0]), np.ones(2))
    assert p.optimal_bias(np.array([3.0, -3.0])) == 0.0


def test_without_a_bias_every_gradient_counts():
    _, p = problem(3, 20, fit_intercept=False)
    found = p.values(np.zeros(20), np.zeros(20), 0.0)
    assert found.violation == pytest.approx(1.0)
    assert found.primal == pytest.approx(20.0) and found.dual == 0.0


@given(st.integers(0, 10_000), st.booleans())
def test_rows_held_out_change_nothing(seed, fit_intercept):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 12))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    upper = rng.integers(0, 3, n).astype(float)
    scores, coef = rng.integers(-2, 3, n).astype(float), y * upper * rng.integers(0, 2, n)
    rows = problem(2)[1].rows
    whole = KernelProblem(rows, y, upper, fit_intercept)
    kept = upper > 0
    if not kept.any():
        assert whole.optimal_bias(scores) == 0.0
        return
    part = KernelProblem(rows, y[kept], upper[kept], fit_intercept)
    b = whole.optimal_bias(scores)
    assert b == part.optimal_bias(scores[kept])
    assert whole.values(coef, scores, b) == pytest.approx(part.values(coef[kept], scores[kept], b))


def test_compiled_looks_are_their_python():
    rng = np.random.default_rng(0)
    y, scores = np.sign(rng.normal(size=50)), rng.normal(size=50)
    coef = y * rng.integers(0, 3, 50) / 2.0
    bounds = (np.minimum(y, 0.0), np.maximum(y, 0.0))
    looks = []
    for plain in (False, True):
        sides, sums = (look.py_func if plain else look for look in (gradient_sides, excess_sums))
        up, down, cells = np.empty(50), np.empty(50), np.empty(4)
        ends = sides(y, scores, coef, *bounds, up, down)
        sums(y, scores, coef, *bounds, 0.1, 16, cells)
        assert ends == (up.max(), down.min())
        looks.append((up, down, cells))
        allowed = [(coef < bounds[1]), (coef > bounds[0])]
        ahead = y - scores - 0.1
        excess = np.where(ahead > 0.0, ahead * allowed[0], -ahead * allowed[1])
        np.testing.assert_allclose(cells, np.add.reduceat(excess, [0, 16, 32, 48]))
        np.testing.assert_array_equal(np.isfinite(up), allowed[0])
        np.testing.assert_array_equal(np.isfinite(down), allowed[1])
    for one, other in zip(*looks, strict=True):
        np.testing.assert_array_equal(one, other)

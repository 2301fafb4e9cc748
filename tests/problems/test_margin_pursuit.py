"""The problem of margin pursuit: exact gradient, best bias, a certificate that is never too small, scales from data."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize_scalar
from testing.margin_problems import exact, problem, task

from widemargin.exceptions import DataError
from widemargin.losses.margin import CatoniLoss, LogCoshLoss
from widemargin.problems.margin_pursuit import data_driven_scale, lemma_6_scale

LOSSES = (CatoniLoss(1.0, 0.7), LogCoshLoss(0.5, 0.3))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_gradient_is_that_of_finite_differences(loss, sparse, fit_intercept):
    X, y = task(sparse=sparse)
    made = problem(X, y, loss=loss, fit_intercept=fit_intercept, weight=np.arange(120) % 3)
    point = np.random.default_rng(1).normal(size=made.n_unknowns)
    error = check_grad(lambda v: made.value_gradient(v)[0], lambda v: made.value_gradient(v)[1], point, epsilon=1e-6)
    assert error < 1e-5
    dense = (
        problem(X.toarray(), y, loss=loss, fit_intercept=fit_intercept, weight=np.arange(120) % 3) if sparse else made
    )
    np.testing.assert_allclose(made.value_gradient(point)[1], dense.value_gradient(point)[1], rtol=1e-10)


def test_the_bias_is_the_best_one():
    X, y = task()
    made = problem(X, y)
    point = np.random.default_rng(2).normal(size=7)
    best = made.with_best_bias(point)
    np.testing.assert_array_equal(best[:-1], point[:-1])
    found = minimize_scalar(lambda b: made.value_gradient(np.append(point[:-1], b))[0], options={"xtol": 1e-12})
    assert best[-1] == pytest.approx(found.x, abs=1e-6)
    assert abs(made.value_gradient(best)[1][-1]) < 1e-12
    plain = replace(made, fit_intercept=False)
    assert plain.with_best_bias(point[:-1]) is not None and plain.n_unknowns == 6


@given(seed=st.integers(0, 30), size=st.floats(0.0, 2.0), lam=st.floats(1e-3, 1.0))
def test_the_gap_covers_the_distance_to_the_optimum(seed, size, lam):
    X, y = task(n=60, seed=seed)
    made = problem(X, y, lam=lam, loss=LOSSES[seed % 2])
    _, least = exact(made)
    point = size * np.random.default_rng(seed).normal(size=7)
    found = made.certify(point)
    assert found.value <= made.value_gradient(point)[0] + 1e-12
    assert -1e-10 <= found.value - least <= found.gap + 1e-10


def test_without_a_regulariser_nothing_is_certified():
    X, y = task()
    assert np.isnan(problem(X, y, lam=0.0).certify(np.zeros(7)).gap)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_curvature_bounds_the_second_derivative(sparse, fit_intercept):
    X, y = task(sparse=sparse)
    made = problem(X, y, fit_intercept=fit_intercept)
    lower = np.tril(made.curvature())
    bound = lower + np.tril(lower, -1).T
    Z = np.asarray(X.toarray() if sparse else X)
    Z = np.column_stack([Z, np.ones(120)]) if fit_intercept else Z
    expected = Z.T @ Z / 120
    expected[range(6), range(6)] += 0.01
    np.testing.assert_allclose(bound, expected, rtol=1e-10)
    np.testing.assert_allclose(made.column_scales() ** 2, np.diag(expected), rtol=1e-10)
    assert np.linalg.eigvalsh(bound)[-1] <= made.smoothness() <= 1.2 * np.linalg.eigvalsh(bound)[-1]


def test_the_curvature_is_computed_once_for_all_classes_and_scales(monkeypatch):
    X, y = task()
    made = problem(X, y)
    first = made.curvature()
    monkeypatch.setattr(type(made.rows), "moments", None)
    np.testing.assert_array_equal(made.at_scale(3.0).of_class(-y).curvature(), first)
    wider = made.rescaled(3.0).curvature()
    np.testing.assert_allclose(np.diag(wider - first), [8.0 * made.lam] * 6 + [0.0], atol=1e-15)


def test_rescaling_is_the_loss_without_its_factor():
    """`lam/2 |w|^2 + mean rho((level - m) / s)`, times s^2."""
    X, y = task()
    made, point = problem(X, y, loss=CatoniLoss(1.0, 1.0)), np.random.default_rng(3).normal(size=7)
    found, gradient = made.rescaled(5.0).value_gradient(point)
    margins = y * (X @ point[:-1] + point[-1])
    plain = CatoniLoss(1.0 / 5.0, 1.0).value(margins / 5.0)
    assert found == pytest.approx(25.0 * (0.005 * point[:-1] @ point[:-1] + plain.mean()))
    assert check_grad(lambda v: made.rescaled(5.0).value_gradient(v)[0], lambda v: gradient, point) < 1e-4
    assert (made.of_class(-y).y == -y).all() and made.at_scale(3.0).loss.scale == 3.0


def test_wide_rows_have_no_matrix_of_curvatures():
    X = np.random.default_rng(0).normal(size=(5, 1001))
    assert problem(X, np.array([1.0, -1, 1, -1, 1])).curvature() is None


def test_the_optimum_lies_in_the_ball():
    for seed in range(5):
        X, y = task(seed=seed)
        made = problem(X, y, lam=0.05)
        assert np.linalg.norm(made.split(exact(made)[0])[0]) <= made.radius()


def test_scales_from_data():
    margins = np.arange(1.0, 101.0)
    share = np.full(100, 0.01)
    assert data_driven_scale(margins, share, 1.0) == pytest.approx(75.0)
    assert data_driven_scale(-margins, share, 4.0) == pytest.approx(150.0)
    heavy = np.where(margins <= 50, 1.0, 0.0) / 50
    assert data_driven_scale(margins, heavy, 1.0) == 38.0  # 37.5 of the 50 rows that count
    expected = np.sqrt(100 * margins.var() / (2 * np.log(2 / 0.1)))
    assert lemma_6_scale(margins, share, 100.0, 0.1) == pytest.approx(expected)
    with pytest.raises(DataError, match="75% of the margins are 0"):
        data_driven_scale(np.zeros(100), share, 1.0)
    with pytest.raises(DataError, match="all margins are equal"):
        lemma_6_scale(np.ones(100), share, 100.0, 0.1)

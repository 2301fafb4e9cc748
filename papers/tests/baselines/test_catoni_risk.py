"""Catoni's risk: its gradient, its limits, and what it leaves out."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from testing.linear_baselines import classes, signs, spoiled

import widemargin as wm
from widemargin.exceptions import MarginConvergenceWarning
from widemargin.losses import catoni_location
from widemargin.solvers.base import Budget
from widemargin_papers.baselines import CatoniRiskClassifier
from widemargin_papers.baselines.linear_classifier import Task
from widemargin_papers.baselines.robust_start import clipped_rows, clipped_start, weights_of


def task(X, y, weight=None):
    return Task(X, signs(y), np.ones(len(y)) if weight is None else weight, 0, Budget())


def objective(X, y, scale, lam, w):
    losses = np.logaddexp(0.0, -signs(y) * (X @ w[:-1] + w[-1]))
    return catoni_location(losses, scale).value + 0.5 * lam * w[:-1] @ w[:-1]


def test_it_is_a_risk_of_the_library_from_a_robust_start():
    X, y = spoiled(*classes(), 0.1, 5.0)
    clf = CatoniRiskClassifier(scale=1.0, tol=1e-9).fit(X, y)
    model = wm.RiskClassifier("mean", warm_start=True, tol=1e-9).fit(clipped_rows(X, np.ones(len(y))), y)
    model.set_params(risk="catoni", level=1.0).fit(X, y)
    np.testing.assert_allclose(clf.coef_, model.coef_, atol=1e-8)
    assert clf.risk_ == pytest.approx(float(model.objective_[0]) - 0.5 / 300 * float(np.sum(model.coef_**2)))


def test_at_a_large_scale_it_is_the_logistic_regression():
    X, y = classes()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    peer = LogisticRegression(C=0.3, tol=1e-10, max_iter=1000).fit(X, y, sample_weight=weight)
    clf = CatoniRiskClassifier(0.3, scale=1e4, tol=1e-8).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(clf.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(clf.intercept_, peer.intercept_, atol=1e-4)
    assert clf.left_out_ == 0.0


def test_the_solution_is_a_local_minimum():
    X, y = spoiled(*classes(), 0.1, 5.0)
    clf = CatoniRiskClassifier(scale=1.0, tol=1e-8).fit(X, y)
    w = np.append(clf.coef_[0], clf.intercept_)
    value = objective(X, y, 1.0, 1.0 / 300, w)
    for step in 0.01 * np.random.default_rng(0).normal(size=(50, 7)):
        assert objective(X, y, 1.0, 1.0 / 300, w + step) >= value - 1e-8


@pytest.mark.parametrize("factor", [3.0, 20.0])
def test_outliers_with_wrong_labels_are_left_out(factor):
    X, y = classes(600, flip=0.0)
    bad_X, bad_y = spoiled(X[:400], y[:400], 0.15, factor)
    clean = LogisticRegression().fit(X[:400], y[:400]).score(X[400:], y[400:])
    peer = LogisticRegression().fit(bad_X, bad_y).score(X[400:], y[400:])
    for scale in ("auto", 1.0):
        clf = CatoniRiskClassifier(scale=scale).fit(bad_X, bad_y)
        assert clf.score(X[400:], y[400:]) > clean - 0.03
        assert clf.score(X[400:], y[400:]) > peer + 0.05
    assert 0.1 < clf.left_out_ < 0.3


def test_auto_keeps_the_start_where_nothing_is_gained():
    X, y = classes(flip=0.0, n=150)
    y = (X[:, 0] + 0.01 > 0.0).astype(int)
    clf = CatoniRiskClassifier(100.0).fit(X, y)
    assert clf.scale_ == np.inf
    start = weights_of(clipped_start(task(X, y), 100.0, True, 1e-5, 200))
    np.testing.assert_array_equal(clf.coef_[0], start[:-1])


def test_clipped_rows_have_at_most_the_median_norm():
    X = np.random.default_rng(0).normal(size=(31, 3))
    norms = np.linalg.norm(X, axis=1)
    clipped = clipped_rows(X, np.ones(31))
    np.testing.assert_allclose(np.linalg.norm(clipped, axis=1), np.minimum(norms, np.median(norms)))
    np.testing.assert_allclose(clipped / np.linalg.norm(clipped, axis=1)[:, None], X / norms[:, None])
    np.testing.assert_allclose(clipped_rows(sp.csr_matrix(X), np.ones(31)).toarray(), clipped)
    heavy = np.where(norms == norms.max(), 1000.0, 1.0)
    np.testing.assert_array_equal(clipped_rows(X, heavy), X)
    assert not clipped_rows(np.zeros((3, 2)), np.ones(3)).any()


def test_columns_of_very_different_size():
    """The start, a convex problem, is solved to its optimum, and the fit says how it ended."""
    X, y = load_breast_cancer(return_X_y=True)  # columns from .004 to 2500
    lam = 1.0 / len(y)
    start = clipped_start(task(X, y), 1.0, True, 1e-5, 200)
    clipped = clipped_rows(X, np.ones(len(y)))

    def value(w):
        return float(np.logaddexp(0.0, -signs(y) * (clipped @ w[:-1] + w[-1])).mean() + 0.5 * lam * w[:-1] @ w[:-1])

    peer = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(clipped, y)
    assert start.status_ == "converged"
    assert value(weights_of(start)) == pytest.approx(value(np.append(peer.coef_[0], peer.intercept_)), rel=1e-5)
    assert CatoniRiskClassifier().fit(X, y).status_ == "converged"
    X, y = classes(200)
    plain = CatoniRiskClassifier(scale=1.0).fit(X, y)
    X[:, 1] *= 1e5
    found = CatoniRiskClassifier(scale=4.0).fit(X, y)
    assert found.status_ == "converged" and found.score(X, y) > plain.score(X, y) - 0.05


def test_a_search_that_gives_up_is_not_called_converged():
    X, y = classes(100)
    with pytest.warns(MarginConvergenceWarning, match="raise max_iter or tol"):
        assert CatoniRiskClassifier(scale=1.0, tol=1e-12, max_iter=2).fit(X, y).status_ == "max_iter"


def test_wide_rows_take_units_in_place_of_a_matrix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1001))
    y = (X[:, 0] > 0).astype(int)
    clf = CatoniRiskClassifier(scale=1e4, tol=1e-7).fit(X, y)
    peer = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(clf.decision_function(X), peer.decision_function(X), atol=1e-2)

"""Margin distribution optimisation: global where it says so, the best direction in the plane, and its measure."""

import numpy as np
import pytest
from scipy.optimize import minimize
from testing.linear_baselines import classes, signs

from widemargin_papers.baselines import MarginDistributionClassifier, projection_profile


def loss(w, X, y, alpha, beta, radius):
    score = X @ w[:-1] + w[-1]
    return np.mean(np.exp(-np.where(y == 1, alpha, beta) * signs(y) * score / radius))


def radius(X):
    return np.sqrt((X * X).sum(axis=1).max() + 1.0)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (5.0, 2.0)])
def test_certified_solutions_are_the_best_of_the_ball(alpha, beta):
    X, y = classes(flip=0.0)
    clf = MarginDistributionClassifier(alpha, beta, tol=1e-9).fit(X, y)
    R = radius(X)
    w = np.append(clf.coef_[0], clf.intercept_) * R
    assert np.linalg.norm(w) == pytest.approx(1.0)
    assert clf.uncertified_ == 0.0
    assert clf.objective_ == pytest.approx(loss(w, X, y, alpha, beta, R), rel=1e-9)
    inside = {"type": "ineq", "fun": lambda w: 1.0 - w @ w}
    best = minimize(loss, np.zeros(7), (X, y, alpha, beta, R), method="SLSQP", constraints=[inside], tol=1e-12)
    assert clf.objective_ == pytest.approx(best.fun, rel=1e-6)


def test_the_best_direction_of_the_plane_is_found_where_nothing_is_proved():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(rng.random(200) < 0.3, rng.integers(0, 2, 200), X[:, 0] > 0).astype(int)
    clf = MarginDistributionClassifier(10.0, fit_intercept=False, random_state=0).fit(X, y)
    R = np.sqrt((X * X).sum(axis=1).max())
    angle = np.linspace(0.0, 2.0 * np.pi, 100_001)
    best = min(
        loss(np.array([np.cos(a), np.sin(a), 0.0]), X, y, 10.0, 10.0, R) for a in angle[:: 1 + angle.size // 4000]
    )
    assert clf.uncertified_ == 1.0
    assert clf.objective_ <= best * (1 + 1e-6)


def test_a_class_that_pulls_harder_is_predicted_more():
    X, y = classes()
    shares = [MarginDistributionClassifier(alpha, 5.0).fit(X, y).predict(X).mean() for alpha in (2.0, 5.0, 12.0)]
    assert shares[0] < shares[1] < shares[2]


def test_the_measure_is_its_formula_and_a_probability():
    nu, k = np.array([0.0, 0.3, -0.8, 1.0]), 200
    terms = [min(3 * np.exp(-(v**2) * k / (8 * (2 + abs(v)) ** 2)), 2 / (k * v**2) if v else np.inf, 1.0) for v in nu]
    assert projection_profile(nu, k) == pytest.approx(np.mean(terms), rel=1e-12)
    values = [projection_profile(nu[1:], k) for k in (1, 10, 100, 1000)]
    assert values == sorted(values, reverse=True)
    assert values[0] <= 1.0

"""The Perceptron against scikit-learn's on a linear kernel, its mistake bound, and its three answers."""

import numpy as np
import pytest
from sklearn.linear_model import Perceptron
from testing.kernel_svms import data, problem

from widemargin.kernels.functions import Kernel
from widemargin.solvers.base import Status
from widemargin.solvers.kernel_svm import perceptron
from widemargin.solvers.kernel_svm import stochastic as kernel_sgd

LINEAR = Kernel("linear")


def plain(K, y, order, size):
    """All iterates, as coefficients."""
    coef, found = np.zeros(y.shape[0]), []
    for i in order:
        coef[i] += size[i] * y[i] * (y[i] * (K[i] @ coef) <= 0.0)
        found.append(coef.copy())
    return np.array(found)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_three_answers_are_those_of_the_plain_algorithm(weighted):
    X, y = data(0, 80)
    C = np.random.default_rng(1).uniform(0.5, 2.0, 80) if weighted else np.full(80, 0.7)
    p = problem(X, y, C, fit_intercept=False)
    rng = np.random.default_rng(5)
    order = np.concatenate([kernel_sgd.passes(p, rng) for _ in range(2)])
    found = plain(p.rows.full(), y, order, C / C.mean())
    answers = {kind: perceptron.solve(p, max_iter=2, iterate=kind, seed=5).coef for kind in perceptron.ITERATES}
    np.testing.assert_allclose(answers["last"], found[-1], atol=1e-9)
    np.testing.assert_allclose(answers["average"], found.mean(axis=0), atol=1e-9)
    assert np.abs(found - answers["drawn"]).max(axis=1).min() < 1e-9


def test_every_iterate_is_drawn_equally_often():
    X, y = data(1, 12)
    p = problem(X, y, fit_intercept=False)
    iterates = kernel_sgd.Iterates(p)
    counts = np.zeros(12)
    for seed in range(6000):
        kept = perceptron._Drawn(iterates, np.random.default_rng(seed))
        last = 0
        while kept.due <= 12:
            last = kept.due
            kept.keep()
        counts[last - 1] += 1
    assert np.abs(counts / 500 - 1.0).max() < 4 * 500**-0.5


def test_scikit_learns_perceptron_without_a_bias(monkeypatch):
    X, y = data(2, 100)
    peer = Perceptron(fit_intercept=False, shuffle=False, max_iter=1, tol=None).fit(X, y)
    monkeypatch.setattr(kernel_sgd, "passes", lambda problem, rng: np.arange(100))
    ours = perceptron.solve(problem(X, y, kernel=LINEAR, fit_intercept=False), iterate="last")
    np.testing.assert_allclose(X.T @ ours.coef, peer.coef_[0], atol=1e-10)


def test_separable_rows_end_with_a_pass_without_mistakes_within_novikoffs_bound():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 5))
    direction = np.ones(5) / 5**0.5
    X = X[np.abs(X @ direction) > 0.3]
    y = np.sign(X @ direction)
    result = perceptron.solve(problem(X, y, kernel=LINEAR, fit_intercept=False), max_iter=100, iterate="last")
    assert result.status is Status.CONVERGED
    assert (y * (X @ (X.T @ result.coef)) > 0.0).all()
    margin = np.abs(X @ direction).min()
    assert np.abs(result.coef).sum() <= (np.linalg.norm(X, axis=1).max() / margin) ** 2
    assert result.n_iter % X.shape[0] == 0


def test_more_passes_fit_the_training_rows_and_may_hurt_the_others():
    X, y = data(4, 400)
    C = np.where(np.arange(400) < 200, 1.0, 0.0)
    p = problem(X, y, C, Kernel("rbf", 3.0), fit_intercept=False)
    one, many = (perceptron.solve(p, max_iter=m, iterate="average") for m in (1, 100))
    K = p.rows.full()
    train, test = slice(0, 200), slice(200, 400)
    errors = [[(y * (K @ found.coef) <= 0)[part].mean() for part in (train, test)] for found in (one, many)]
    assert errors[1][0] < errors[0][0]
    assert errors[1][1] > errors[0][1] - 0.02


def test_an_indefinite_kernel_is_reported():
    X, y = data(5, 60)
    sigmoid = Kernel("sigmoid", 1.0, 3, -1.0)
    assert perceptron.solve(problem(X, y, kernel=sigmoid, fit_intercept=False), iterate="last", max_iter=5).indefinite
    assert not perceptron.solve(problem(X, y, fit_intercept=False)).indefinite

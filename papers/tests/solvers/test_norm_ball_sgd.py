"""SGD in a norm ball: the SVM's solution is the best of its norm, and nothing may be better."""

import numpy as np
import pytest
from testing.kernel_svms import data, problem

from widemargin.exceptions import KernelError
from widemargin.solvers.kernel_svm import smo
from widemargin.solvers.kernel_svm.problem import responses
from widemargin_papers.solvers import norm_ball_sgd


@pytest.mark.parametrize("C", [0.1, 5.0])
def test_it_approaches_the_best_hinge_loss_of_that_norm(C):
    X, y = data(0, 150)
    p = problem(X, y, C, fit_intercept=False)
    svm = smo.solve(p, tol=1e-7)
    scores = responses(p.rows, svm.coef)
    radius, best = float(svm.coef @ scores) ** 0.5, float(C * np.maximum(0.0, 1.0 - y * scores).sum())
    few, many = (norm_ball_sgd.solve(p, radius=radius, max_iter=passes) for passes in (3, 300))
    assert best * (1 - 1e-6) <= many.primal < best * 1.05
    assert many.primal < few.primal
    assert few.dual <= best
    assert many.dual <= best
    assert many.coef @ responses(p.rows, many.coef) <= radius**2 * (1 + 1e-9)


def test_the_last_iterate_is_the_plain_algorithms():
    X, y = data(1, 50)
    p = problem(X, y, fit_intercept=False)
    K, coef = p.rows.full(), np.zeros(50)
    for t, i in enumerate(np.random.default_rng(3).integers(50, size=50), start=1):
        coef[i] += y[i] * 1.5 / np.sqrt(t) * (y[i] * (K[i] @ coef) < 1.0)
        coef *= min(1.0, 1.5 / np.sqrt(coef @ K @ coef))
    result = norm_ball_sgd.solve(p, radius=1.5, max_iter=1, average=False, seed=3)
    assert result.history[-1]["primal"] == pytest.approx(np.maximum(0.0, 1.0 - y * (K @ coef)).sum(), rel=1e-9)


def test_the_solution_of_the_svm_is_within_the_default_radius():
    X, y = data(2, 100)
    p = problem(X, y, 3.0, fit_intercept=False)
    svm = smo.solve(p)
    assert svm.coef @ responses(p.rows, svm.coef) <= p.upper.sum()


@pytest.mark.parametrize("radius", [-1.0, np.nan, np.inf])
def test_a_radius_must_be_a_number(radius):
    with pytest.raises(KernelError, match="radius"):
        norm_ball_sgd.solve(problem(*data(3, 30), fit_intercept=False), radius=radius)
    zero = norm_ball_sgd.solve(problem(*data(3, 30), fit_intercept=False), radius=0.0)
    assert zero.primal == 30.0

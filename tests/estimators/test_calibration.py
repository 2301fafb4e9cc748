"""Calibrated probabilities against direct maximisation of the likelihood."""

import numpy as np
import pytest
from scipy.optimize import minimize

from widemargin.estimators._calibration import calibrated, fit_calibrator


def platt(scores, second, weight):
    """Slope and offset of largest likelihood of Platt's targets."""
    up, down = weight[second].sum(), weight[~second].sum()
    target = np.where(second, (up + 1) / (up + 2), 1 / (down + 2))

    def loss(at):
        margin = at[0] * scores + at[1]
        return float(weight @ (np.logaddexp(0.0, margin) - target * margin))

    return minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-8}).x


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("separated", [False, True])
def test_the_sigmoid_maximises_the_likelihood_of_smoothed_targets(weighted, separated):
    rng = np.random.default_rng(0)
    second = rng.random(60) < 0.3
    scores = np.where(second, 1.0, -1.0) * (rng.uniform(0.1, 2.0, 60) if separated else 0.4) + 0.0
    scores += 0.0 if separated else rng.normal(size=60)
    weight = rng.uniform(0.5, 3.0, 60) if weighted else None
    slope, offset = platt(scores, second, np.ones(60) if weight is None else weight)
    model = fit_calibrator("sigmoid", scores, second, weight)
    assert model.coef_[0, 0] == pytest.approx(slope, rel=1e-3)
    assert model.intercept_[0] == pytest.approx(offset, rel=1e-3, abs=1e-3)
    new = np.linspace(-3, 3, 7)
    found = calibrated(model, new)
    np.testing.assert_allclose(found[:, 1], 1 / (1 + np.exp(-slope * new - offset)), atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_a_weight_of_two_is_a_row_twice_and_the_scale_of_scores_is_free():
    rng = np.random.default_rng(1)
    scores, second = rng.normal(size=40), rng.random(40) < 0.5
    twice = fit_calibrator("sigmoid", np.tile(scores, 2), np.tile(second, 2), None)
    weighted = fit_calibrator("sigmoid", scores, second, np.full(40, 2.0))
    assert weighted.coef_[0, 0] == pytest.approx(twice.coef_[0, 0], rel=1e-6)
    large = fit_calibrator("sigmoid", 1e6 * scores, second, np.full(40, 2.0))
    assert 1e6 * large.coef_[0, 0] == pytest.approx(weighted.coef_[0, 0], rel=1e-6)


def test_few_rows_that_are_separated_prove_little():
    scores, second = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([False, False, True, True])
    found = calibrated(fit_calibrator("sigmoid", scores, second, None), scores)[:, 1]
    assert (found > 0.1).all() and (found < 0.9).all()
    assert (np.diff(found) > 0).all()
    steps = calibrated(fit_calibrator("isotonic", scores, second, None), scores)[:, 1]
    np.testing.assert_array_equal(steps, [0, 0, 1, 1])

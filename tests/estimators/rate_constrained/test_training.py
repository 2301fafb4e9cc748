"""Which steps a fit takes: slope continuation for a weak regulariser only."""

import numpy as np
import pytest

from widemargin import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.training import step_plan


def test_a_weak_regulariser_is_reached_over_two_stronger_ones():
    plan = step_plan(2.0, 5, 1e-4, 1e-3)
    assert plan.slopes == pytest.approx((30.0, 5.0))  # lambda = 1 / n is asked: 30 / n and 5 / n come first
    assert plan.steps == 1
    assert step_plan(10.0, 8, 1e-4, 1e-3).slopes == pytest.approx((150.0, 25.0))
    assert step_plan(10.0, 8, 1e-4, 1e-3).steps == 4
    for C, steps in ((0.2, 5), (0.99, 8), (2.0, 4)):
        assert step_plan(C, steps, 1e-4, 1e-3).slopes == ()
        assert step_plan(C, steps, 1e-4, 1e-3).steps == steps - 1


def test_the_estimator_follows_the_plan():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = (X[:, 0] + rng.normal(size=400) > 0.5).astype(int)
    clf = RateConstrainedClassifier("subject to recall() >= 0.7", C=2.0).fit(X, y)
    lams = np.array([step["lam"] for step in clf.history_]) * 400
    assert lams[0] == pytest.approx(30.0)
    assert lams[-1] == pytest.approx(1.0)
    weak = RateConstrainedClassifier("subject to recall() >= 0.7", C=0.5).fit(X, y)
    assert {step["lam"] for step in weak.history_} == {2.0 / (400 * 0.5)}

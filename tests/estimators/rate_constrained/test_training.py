"""Which steps a fit takes: a ladder of regularisers down to the one asked for."""

import numpy as np
import pytest

from widemargin import RateConstrainedClassifier


@pytest.mark.parametrize("C", [0.5, 2.0])
def test_the_regulariser_is_reached_over_stronger_ones(C: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = (X[:, 0] + rng.normal(size=400) > 0.5).astype(int)
    clf = RateConstrainedClassifier("subject to recall() >= 0.7", C=C).fit(X, y)
    factors = np.array([step["lam"] for step in clf.history_]) * 400 * C / 2.0
    np.testing.assert_allclose(np.unique(np.round(factors, 9))[::-1], [30, 5, 1])
    assert factors[0] == pytest.approx(30.0)
    assert factors[-1] == pytest.approx(1.0)


def test_one_step_is_the_convex_problem_of_the_start_and_has_no_ladder() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = (X[:, 0] + rng.normal(size=400) > 0.5).astype(int)
    clf = RateConstrainedClassifier("subject to recall() >= 0.7", C=0.5, max_steps=1).fit(X, y)
    assert [step["lam"] for step in clf.history_] == pytest.approx([2.0 / (400 * 0.5)] * len(clf.history_))

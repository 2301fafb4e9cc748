"""Models of earlier fits are candidates: a looser goal on the same rows is never worse off."""

import numpy as np
import pytest

from widemargin import RateConstrainedClassifier
from widemargin.exceptions import CapabilityError
from widemargin.persistence import load_model, save_model

GOAL = "minimize error_rate()\nsubject to recall() >= {}\nsubject to false_positive_rate() <= {}"


def rows(seed, n=150):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return X, (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=n) > 0.5).astype(int)


@pytest.mark.parametrize("seed", range(3))
def test_looser_goals_are_never_worse_than_stricter_ones_before(seed):
    X, y = rows(seed)
    clf = RateConstrainedClassifier(warm_start=True, random_state=0, on_infeasible="warn")
    errors = []
    for recall in (0.8, 0.75, 0.7, 0.65, 0.6):
        report = clf.set_params(goal=GOAL.format(recall, 0.9)).fit(X, y).goal_report_
        assert report.passed
        assert report.objective == pytest.approx(np.mean(clf.predict(X) != y))
        errors.append(report.objective)
    assert errors == sorted(errors, reverse=True)
    assert clf.visited_.shape[1] == X.shape[1] + 1


def test_a_model_that_was_visited_is_taken_where_it_is_the_best():
    X, y = rows(3)
    clf = RateConstrainedClassifier(GOAL.format(0.7, 0.9), warm_start=True).fit(X, y)
    best = np.append(np.zeros(8), 0.0)
    best[:8], best[8] = clf.coef_[0], -clf.intercept_[0]
    cold = RateConstrainedClassifier(GOAL.format(0.7, 0.9), warm_start=True, max_steps=1)
    cold.visited_ = best[None, :]
    assert cold.fit(X, y).goal_report_.objective <= clf.goal_report_.objective


def test_it_is_forgotten_without_it_and_with_other_columns(tmp_path):
    X, y = rows(0)
    clf = RateConstrainedClassifier(GOAL.format(0.6, 0.9), warm_start=True).fit(X, y)
    save_model(clf, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").visited_, clf.visited_)
    clf.fit(X[:, :7], y)
    assert clf.visited_.shape[1] == 8
    assert not hasattr(clf.set_params(warm_start=False).fit(X, y), "visited_")


@pytest.mark.parametrize(
    ("parameters", "text"), [({"kernel": "rbf"}, "leave out kernel"), ({"confidence": 0.9}, "use warm_start=False")]
)
def test_what_it_does_not_go_with_is_refused(parameters, text):
    X, y = rows(0)
    with pytest.raises(CapabilityError, match=text):
        RateConstrainedClassifier(GOAL.format(0.6, 0.9), warm_start=True, **parameters).fit(X, y)

"""`GoalReduction` for goals of several classes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from widemargin import GoalReduction, GoalThresholdClassifier, audit
from widemargin.estimators.reduction.cost_sensitive import CostLearner, common_class_scores
from widemargin.exceptions import DataError, DoubtfulModelWarning, InfeasibleGoalError
from widemargin.goals import External
from widemargin.persistence import load_model, save_model

NAMES = np.array(["bird", "cat", "dog"])


@pytest.fixture(scope="module")
def animals():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    side = np.where(rng.random(1500) < 0.4 - 0.3 * (X[:, 2] > 0), "left", "right")
    score = np.column_stack([X[:, 0] * X[:, 1], X[:, 1], -X[:, 2] + 0.5 * (side == "left")])
    y = NAMES[np.argmax(1.5 * score + rng.gumbel(size=(1500, 3)), axis=1)]
    return X[:1000], y[:1000], pd.DataFrame({"side": side[:1000]}), X[1000:], y[1000:]


def test_costs_of_classes_are_what_the_learner_minimises():
    """On rows of few kinds a full tree gives each kind its cheapest class."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 6, 300)
    cost = rng.random((6, 3))[kind] + 0.3 * rng.random((300, 3))
    learner = CostLearner(DecisionTreeClassifier(random_state=0), NAMES, 1.0)
    fitted = learner.fit(kind[:, None].astype(float), cost, np.ones(300))
    total = np.array([cost[kind == k].sum(axis=0) for k in range(6)])
    np.testing.assert_array_equal(fitted.predict(np.arange(6.0)[:, None]), NAMES[total.argmin(axis=1)])


def test_a_class_that_nobody_was_shown_is_not_chosen():
    X = np.arange(6.0)[:, None]
    two = LogisticRegression().fit(X, NAMES[[0, 0, 0, 2, 2, 2]])
    scores = common_class_scores(two, X, NAMES)
    np.testing.assert_array_equal(NAMES[scores.argmax(axis=1)], two.predict(X))
    assert common_class_scores(None, X, NAMES).tolist() == np.zeros((6, 3)).tolist()


def test_xgboost_learns_where_a_class_is_never_the_cheaper_one():
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(300, 2))
    cost = np.column_stack([np.full(300, 2.0), X[:, 0] > 0.0, X[:, 0] <= 0.0])
    fitted = CostLearner(xgboost.XGBClassifier(n_estimators=10), np.arange(3), 1.0).fit(X, cost, np.ones(300))
    np.testing.assert_array_equal(common_class_scores(fitted, X, np.arange(3)).argmax(axis=1), 2 - (X[:, 0] <= 0.0))


def test_trees_are_trained_to_floors_and_confusions(animals):
    X, y, _, X_new, y_new = animals
    goal = """
    minimize error_rate()
    subject to floor: recall(of="bird") >= 0.7
    subject to no mix: confusion("cat", "dog") <= 0.12
    """.replace("no mix", '"no mix"')
    tree = DecisionTreeClassifier(max_depth=6, min_samples_leaf=10, random_state=0)
    clf = GoalReduction(tree, goal, random_state=0).fit(X, y)
    assert clf.goal_report_.passed
    assert clf.offsets_.shape == (3,)
    assert 0.0 <= clf.lagrangian_gap_ < 0.1
    new = audit(clf, goal, X_new, y_new)
    assert new["floor"].rate > 0.6
    moved = GoalThresholdClassifier(tree, goal, cv=3, random_state=0).fit(X, y)
    assert clf.goal_report_.objective <= moved.goal_report_.objective + 0.01
    np.testing.assert_array_equal(clf.predict(X_new), NAMES[clf.decision_function(X_new).argmax(axis=1)])


def test_parity_of_a_class_without_knowing_the_group(animals):
    X, y, sides, *_ = animals
    goal = 'minimize error_rate(); subject to demographic_parity(side, difference=0.03, of="dog")'
    plain = audit(GaussianNB().fit(X, y), goal, X, y, populations=sides)
    clf = GoalReduction(GaussianNB(), goal, max_models=4, random_state=0).fit(X, y, populations=sides)
    assert not plain.passed
    assert clf.goal_report_.passed
    assert audit(clf, goal, X, y, populations=sides).constraints[0].slack > -0.03
    by_side = GoalReduction(GaussianNB(), goal, per_population="side", random_state=0, max_models=2)
    by_side.fit(X, y, populations=sides)
    assert by_side.offsets_.shape == (2, 3)
    assert by_side.goal_report_.passed


def test_boosting_with_external_rows_and_weights(animals):
    X, y, _, X_new, _ = animals
    goal = 'traffic = external(); minimize error_rate(); subject to prediction_rate(traffic, of="cat") <= 0.2'
    clf = GoalReduction(HistGradientBoostingClassifier(max_iter=10, random_state=0), goal, max_models=2, random_state=0)
    clf.fit(X, y, sample_weight=np.where(y == "dog", 2.0, 1.0), external={"traffic": External(X_new)})
    assert clf.goal_report_.passed
    assert (clf.predict(X_new) == "cat").mean() < 0.25


def test_refusals_and_proofs(animals):
    X, y, _, X_new, y_new = animals
    goal = "subject to recall(of='cat') >= 0.98; subject to recall(of='dog') >= 0.98"
    with pytest.raises(InfeasibleGoalError, match="no model found meets the goal"):
        GoalReduction(GaussianNB(), goal, max_models=2, random_state=0).fit(X, y)
    with pytest.raises(DataError, match="randomize=True is for two"):
        GoalReduction(GaussianNB(), "minimize error_rate()", randomize=True).fit(X, y)
    goal = "subject to floor: recall(of='cat') >= 0.5"
    clf = GoalReduction(GaussianNB(), goal, confidence=0.9, max_models=2, random_state=0).fit(X, y)
    assert "With probability >= 0.9" in clf.guarantee_
    assert clf.prove(X_new, y_new, confidence=0.9)["floor"].rate >= 0.5


def test_a_saved_model_decides_the_same(animals, tmp_path):
    X, y, *_ = animals
    goal = "subject to floor: recall(of='cat') >= 0.8"
    clf = GoalReduction(LogisticRegression(), goal, max_models=2, random_state=0).fit(X, y)
    save_model(clf, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
    np.testing.assert_allclose(again.offsets_, clf.offsets_)


def test_a_model_that_decides_alike_for_all_rows_is_named():
    """The folds' models have scores of their own, between which offsets tell folds apart and nothing else."""
    y = np.random.default_rng(0).choice(3, 600, p=[0.5, 0.3, 0.2])
    goal = "minimize error_rate()\nsubject to recall(of=2) >= 0.4"
    clf = GoalReduction(DecisionTreeClassifier(), goal, random_state=0)
    with pytest.warns(DoubtfulModelWarning, match="the model is constant"):
        clf.fit(np.ones((600, 1)), y)
    assert clf.goal_report_.objective == pytest.approx(np.mean(y != 2))

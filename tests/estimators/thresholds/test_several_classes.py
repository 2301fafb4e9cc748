"""`GoalThresholdClassifier` with an offset for each of several classes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from widemargin import GoalReduction, GoalThresholdClassifier, audit
from widemargin.exceptions import DataError, InfeasibleGoalError
from widemargin.goals import External
from widemargin.persistence import load_model, save_model

GOAL = """
minimize error_rate()
subject to floor: recall(of="versicolor") >= 0.95
subject to precision(of="virginica") >= 0.8
"""


@pytest.fixture(scope="module")
def iris():
    data = load_iris()
    rng = np.random.default_rng(0)
    X = pd.DataFrame(data.data[:, :2], columns=["length", "width"])
    return X, data.target_names[data.target], pd.DataFrame({"side": rng.choice(["left", "right"], 150)})


def test_the_goal_is_met_on_the_rows_that_the_offsets_were_chosen_on(iris):
    X, y, _ = iris
    clf = GoalThresholdClassifier(LogisticRegression(), GOAL, cv=5, random_state=0).fit(X, y)
    assert clf.goal_report_.passed
    assert clf.optimality_gap_ == pytest.approx(0.0)
    assert clf.threshold_ is None
    assert clf.offsets_.shape == (3,)
    assert clf.positive_class_ is None
    scores = clf.estimator_.decision_function(X) + clf.offsets_
    np.testing.assert_array_equal(clf.predict(X), clf.classes_[scores.argmax(axis=1)])
    np.testing.assert_allclose(clf.decision_function(X), scores)
    assert clf.score(X, y) == pytest.approx((clf.predict(X) == y).mean())
    assert audit(clf, GOAL, X, y)["floor"].rate > 0.9


def test_a_fitted_model_is_moved_as_far_as_needed(iris):
    X, y, _ = iris
    model = GaussianNB().fit(X, y)
    plain = audit(model, GOAL, X, y)
    clf = GoalThresholdClassifier(FrozenEstimator(model), GOAL, cv="prefit").fit(X, y)
    moved = audit(clf, GOAL, X, y)
    assert not plain["floor"].met
    assert moved.passed
    assert [item.rate for item in moved.constraints] == [item.rate for item in clf.goal_report_.constraints]
    # offsets are factors of probabilities
    shares = model.predict_proba(X) * np.exp(clf.offsets_)
    np.testing.assert_array_equal(clf.predict(X), model.classes_[shares.argmax(axis=1)])
    free = GoalThresholdClassifier(FrozenEstimator(model), "minimize error_rate()", cv="prefit").fit(X, y)
    assert free.goal_report_.objective <= plain.objective


def test_offsets_by_population_make_multi_class_fairness(iris):
    X, y, sides = iris
    goal = 'minimize error_rate(); subject to demographic_parity(side, difference=0.02, of="virginica")'
    clf = GoalThresholdClassifier(LogisticRegression(), goal, cv=5, per_population="side", random_state=0)
    clf.fit(X, y, populations=sides)
    assert clf.offsets_.shape == (2, 3)
    assert clf.goal_report_.passed
    assert 0.0 <= clf.optimality_gap_ < 0.05
    one = clf.predict(X, populations=sides)
    assert set(one) <= set(y)
    free = GoalThresholdClassifier(LogisticRegression(), goal, cv=5, random_state=0).fit(X, y, populations=sides)
    assert clf.goal_report_.objective <= free.goal_report_.objective + clf.optimality_gap_


def test_external_data_weights_and_baselines(iris):
    X, y, _ = iris
    rng = np.random.default_rng(1)
    weight = rng.integers(1, 3, 150).astype(float)
    goal = """
    traffic = external()
    minimize error_rate()
    subject to prediction_rate(traffic, of="setosa") <= 0.3
    subject to drift: churn("old", on=traffic) <= 0.4
    """
    old = GaussianNB().fit(X, y)
    options = {"external": {"traffic": External(X[:120])}, "sample_weight": weight}
    clf = GoalThresholdClassifier(old, goal, cv="prefit", baselines={"old": LogisticRegression().fit(X, y)})
    clf.fit(X, y, **options)
    report = audit(clf, goal, X, y, baselines=clf.baselines, **options)
    assert report.passed
    assert report["#1"].rate == pytest.approx((clf.predict(X[:120]) == "setosa").mean())
    assert report.objective == clf.goal_report_.objective
    twice = np.repeat(np.arange(150), weight.astype(int))
    again = GoalThresholdClassifier(old, goal, cv="prefit", baselines=clf.baselines)
    again.fit(X.iloc[twice], y[twice], external=options["external"])
    assert again.goal_report_.objective == pytest.approx(clf.goal_report_.objective)


def test_what_cannot_be_met_is_refused(iris):
    X, y, _ = iris
    goal = "subject to recall(of='versicolor') >= 0.99; subject to recall(of='virginica') >= 0.99"
    clf = GoalThresholdClassifier(GaussianNB(), goal, cv=5, random_state=0)
    with pytest.raises(
        InfeasibleGoalError,
        match=r"no offsets of these scores meets the goal.*all miss its constraints by .* which is proved",
    ):
        clf.fit(X, y)
    with pytest.warns(UserWarning, match="misses"):
        clf.set_params(on_infeasible="warn").fit(X, y)
    assert clf.status_ == "infeasible"


def test_a_confidence_is_proved_or_refused():
    X, y = load_digits(return_X_y=True)
    X, y = X[y >= 7], y[y >= 7]
    goal = "minimize error_rate(); subject to recall(of=8) >= 0.75; subject to confusion(9, 8) <= 0.3"
    clf = GoalThresholdClassifier(GaussianNB(), goal, confidence=0.9, validation_fraction=0.5, random_state=0)
    clf.fit(X > 7, y)
    assert "With probability >= 0.9" in clf.guarantee_
    assert clf.goal_report_.passed
    proof = clf.prove(X > 7, y, confidence=0.9)  # rows it has seen: only that it runs for several classes
    assert proof.classes == (7, 8, 9)


def test_what_is_for_two_classes_says_so(iris):
    X, y, _ = iris
    for parameter, value in {"randomize": True, "abstain": "?", "pos_label": "setosa"}.items():
        with pytest.raises(DataError, match=rf"{parameter}=.* is for two"):
            GoalThresholdClassifier(GaussianNB(), GOAL, **{parameter: value}).fit(X, y)
    with pytest.raises(DataError, match=r"Only binary classification is supported.*the goal does not say which class"):
        GoalThresholdClassifier(GaussianNB(), "subject to recall() >= 0.5").fit(X, y)
    # Of three classes there are as many pairs as classes, so the shape of the scores does not tell.
    for X, y in (load_digits(return_X_y=True), load_iris(return_X_y=True)):
        for model in (SVC(decision_function_shape="ovo"), make_pipeline(SVC(decision_function_shape="ovo"))):
            with pytest.raises(DataError, match=r'of pairs of classes, .*decision_function_shape="ovr"'):
                GoalThresholdClassifier(model.fit(X, y), "minimize error_rate()", cv="prefit").fit(X, y)


def test_a_saved_model_decides_the_same(iris, tmp_path):
    X, y, sides = iris
    goal = 'subject to demographic_parity(side, difference=0.1, of="virginica")'
    clf = GoalThresholdClassifier(LogisticRegression(), goal, cv=3, per_population="side", random_state=0)
    clf.fit(X, y, populations=sides)
    save_model(clf, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X, populations=sides), clf.predict(X, populations=sides))
    assert again.goal_report_ == clf.goal_report_


def test_forests_whose_probabilities_are_few(iris):
    X, y = load_wine(return_X_y=True)
    goal = "subject to recall(of=1) >= 0.97"
    clf = GoalThresholdClassifier(RandomForestClassifier(10, max_depth=2, random_state=0), goal, cv=3, random_state=0)
    clf.fit(X[:, :3], y)
    assert clf.goal_report_.passed
    assert clf.optimality_gap_ == pytest.approx(0.0)
    assert iris is not None


@pytest.mark.parametrize("rare", [1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"cv": None}, {"confidence": 0.9, "validation_fraction": 0.4}])
@pytest.mark.parametrize("kind", [GoalThresholdClassifier, GoalReduction])
def test_a_class_rarer_than_folds_stops_nothing(kind, options, rare):
    # Of several classes the models of some folds, or the final one, may not know each: it scores as impossible there.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=300), [-0.5, 0.7])]
    y[:rare], X[:rare, 2] = "z", X[:rare, 2] + 6.0
    goal = 'minimize error_rate()\nsubject to recall(of="b") >= 0.5'
    if kind is GoalReduction and "cv" in options:
        options = {"cv": 5}
    model = kind(GaussianNB(var_smoothing=1e-3), goal, random_state=0, **options).fit(X, y)
    assert list(model.classes_) == ["a", "b", "c", "z"]
    said = model.predict(X)
    assert np.mean(said[y == "b"] == "b") >= 0.45
    assert np.mean(said == y) > 0.65


def test_rows_of_a_class_that_the_model_never_saw(iris):
    X, y = np.asarray(iris[0]), iris[1]
    model, X, strange = GaussianNB().fit(X, y), np.vstack([X, X[:2]]), np.append(y, ["unseen"] * 2)
    with pytest.raises(DataError, match=r"y has 2 values .*'unseen'. Leave these rows out, or give predictions"):
        audit(model, "minimize error_rate()", X, strange)
    assert audit(model.predict(X), "minimize error_rate()", y=strange).objective == np.mean(model.predict(X) != strange)

"""Scores of searches: feasibility first, then the objective; populations by data frames and by metadata routing."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import (
    External,
    GoalThresholdClassifier,
    RateConstrainedClassifier,
    RateConstrainedClassifierCV,
    audit,
    goal_scorer,
)
from widemargin.exceptions import DataError, GoalError
from widemargin.goals import Goal, Population, churn, col, error_rate, errors, precision, recall

WOMEN = Population("women", where=col("sex") == "F")
GOAL = Goal(error_rate(), [(recall(WOMEN) >= 0.6).named("floor")])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 600
    X = rng.normal(size=(n, 3))
    sex = rng.choice(["F", "M"], n)
    y = (X[:, 0] - 0.5 * (sex == "F") + rng.normal(size=n) > 0.3).astype(int)
    return X, y, pd.DataFrame({"sex": sex})


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Says:
    """A classifier that says what it is told."""

    classes_ = np.array([0, 1])

    def __init__(self, said):
        self.said = said

    def predict(self, X):
        return self.said


def test_a_model_that_meets_the_goal_scores_minus_its_objective(data):
    X, y, table = data
    model = LogisticRegression().fit(X, y)
    report = audit(model, Goal(error_rate(), recall(WOMEN) >= 0.2), X, y, populations=table)
    assert report.passed
    score = goal_scorer(Goal(error_rate(), recall(WOMEN) >= 0.2))(model, X, y, populations=table)
    assert score == pytest.approx(-report.objective)


def test_every_miss_is_below_every_hit_and_near_misses_above_far_ones():
    y = np.array([1, 1, 1, 1, 0, 0, 0, 0])
    scorer = goal_scorer("subject to recall() >= 0.75")
    all_wrong = scorer(Says(1 - np.array([0, 0, 0, 1, 0, 0, 0, 0])), np.zeros((8, 1)), y)  # 3 of 4 found, 5 wrong
    three, two, none = (scorer(Says((np.arange(8) < k).astype(int)), np.zeros((8, 1)), y) for k in (3, 2, 0))
    assert three == pytest.approx(-1 / 8)
    assert two == pytest.approx(-1.0 - 0.25) and none == pytest.approx(-1.0 - 0.75)
    assert none < two < -1.0 < all_wrong < three


def test_counts_are_bounded_by_what_the_rows_allow():
    y = np.array([1, 1, 0, 0])
    scorer = goal_scorer(Goal(errors(), recall() >= 1.0))
    assert scorer(Says(np.array([1, 1, 1, 0])), np.zeros((4, 1)), y) == -1.0
    assert scorer(Says(np.array([1, 0, 0, 0])), np.zeros((4, 1)), y) == -4.5


def test_an_undefined_ratio_is_a_miss():
    y = np.array([1, 1, 0, 0])
    assert goal_scorer(Goal(error_rate(), precision() >= 0.1))(Says(np.zeros(4, int)), np.zeros((4, 1)), y) == -2.0


def test_tolerance_is_in_standard_errors():
    y = np.ones(100, int)
    y[50:] = 0
    said = (np.arange(100) < 29).astype(int)  # 29 of 50 found; sd = sqrt(0.58 * 0.42 / 50) = 0.0698
    X = np.zeros((100, 1))
    for tolerance, met in ((0.0, False), (0.25, False), (0.32, True), (1.0, True)):
        score = goal_scorer("subject to recall() >= 0.6", tolerance=tolerance)(Says(said), X, y)
        assert (score > -1.0) == met, tolerance
    assert goal_scorer("subject to recall() >= 0.55", tolerance=-1.0)(Says(said), X, y) < -1.0
    with pytest.raises(DataError, match="tolerance is nan"):
        goal_scorer("subject to recall() >= 0.6", tolerance=float("nan"))(Says(said), X, y)


def test_weights_positive_class_external_rows_and_baselines(data):
    X, y, _ = data
    model = LogisticRegression().fit(X, y)
    weight = np.arange(len(y)) % 3
    goal = Goal(error_rate(), [churn("old", on=Population.external("more")) <= 0.5, churn("old") <= 0.5])
    external = {"more": External(X[:50])}
    options = {"external": external, "baselines": {"old": LogisticRegression().fit(X[:100], y[:100])}}
    score = goal_scorer(goal, **options)(model, X, y, sample_weight=weight)
    assert score == pytest.approx(-np.average(model.predict(X) != y, weights=weight))
    negative = goal_scorer("minimize 1 - recall()", pos_label=0)(model, X, y)
    assert negative == pytest.approx((model.predict(X)[y == 0] == 0).mean() - 1.0)
    own = RateConstrainedClassifier(pos_label=0).fit(X, y)
    piped = make_pipeline(StandardScaler(), own)
    piped.fit(X, y)
    assert goal_scorer("minimize 1 - recall()")(piped, X, y) == pytest.approx(
        (piped.predict(X)[y == 0] == 0).mean() - 1
    )


def test_bounds_and_C_are_searched_with_the_columns_of_a_data_frame(data):
    X, y, table = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(woman=(table["sex"] == "F").astype(float))
    promised = Goal.parse("subject to floor: recall(population(woman == 1)) >= 0.6")
    levels = [promised.with_level(level, "floor") for level in (0.6, 0.65, 0.7)]
    grid = {"goal": levels, "C": [0.02, 0.2]}
    search = GridSearchCV(RateConstrainedClassifier(), grid, scoring=goal_scorer(promised), cv=2, error_score="raise")
    search.fit(frame, y)
    scores = search.cv_results_["mean_test_score"]
    assert search.best_index_ == scores.argmax() and len(scores) == 6
    held = goal_scorer(promised)
    assert search.score(frame, y) == held(search.best_estimator_, frame, y)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_populations_come_by_metadata_routing(data, routing, kind):
    X, y, table = data
    populations = {"pandas": table, "polars": pl.DataFrame(dict(table)), "pyarrow": pa.table(dict(table))}[kind]
    model = RateConstrainedClassifier(GOAL, on_infeasible="warn").set_fit_request(populations=True)
    scorer = goal_scorer(GOAL).set_score_request(populations=True)
    grid = {"goal": [GOAL, GOAL.with_level(0.7, "floor")], "C": [0.2]}
    search = GridSearchCV(model, grid, scoring=scorer, cv=2, error_score="raise").fit(X, y, populations=populations)
    folds = [search.cv_results_[f"split{k}_test_score"] for k in range(2)]
    assert np.isfinite(folds).all()
    scores = cross_val_score(
        model, X, y, scoring=scorer, cv=2, params={"populations": populations}, error_score="raise"
    )
    np.testing.assert_allclose(scores, [fold[0] for fold in folds])
    assert clone(scorer).get_metadata_routing().score.requests == {"populations": True, "sample_weight": None}


def test_pipelines_route_to_their_last_step_and_to_the_scorer(data, routing):
    X, y, table = data
    classifier = RateConstrainedClassifier(GOAL).set_fit_request(populations=True, sample_weight=False)
    model = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), classifier)
    scorer = goal_scorer(GOAL, tolerance=1.0).set_score_request(populations=True, sample_weight="importance")
    weight = np.ones(len(y))
    found = cross_validate(
        model, X, y, scoring={"goal": scorer, "error": "accuracy"}, cv=3, error_score="raise",
        params={"populations": table, "importance": weight},
    )  # fmt: skip
    assert np.isfinite(found["test_goal"]).all()
    accuracy = found["test_error"]
    met = found["test_goal"] > -1.0
    np.testing.assert_allclose(-found["test_goal"][met], 1.0 - accuracy[met])


def test_every_estimator_with_extra_arguments_takes_them_by_routing(data, routing):
    X, y, table = data
    weight = np.linspace(0.5, 1.5, len(y))
    for made in (
        RateConstrainedClassifier(GOAL),
        RateConstrainedClassifierCV(GOAL, Cs=[0.2], max_steps=[5], cv=2, random_state=0),
        GoalThresholdClassifier(LogisticRegression(), GOAL, random_state=0),
    ):
        direct = clone(made).fit(X, y, populations=table, sample_weight=weight)
        asked = clone(made).set_fit_request(populations=True, sample_weight=True)
        unchanged = StandardScaler(with_mean=False, with_std=False).set_fit_request(sample_weight=False)
        routed = make_pipeline(unchanged, asked)
        routed.fit(X, y, populations=table, sample_weight=weight)
        np.testing.assert_array_equal(routed.predict(X), direct.predict(X))
        with pytest.raises(ValueError, match="not explicitly set as requested"):
            make_pipeline(StandardScaler(), clone(made)).fit(X, y, populations=table)


def test_thresholds_by_group_are_predicted_with_their_table(data, routing):
    X, y, table = data
    model = GoalThresholdClassifier(LogisticRegression(), GOAL, per_population="sex", random_state=0)
    model.set_fit_request(populations=True).set_predict_request(populations=True)
    scorer = goal_scorer(GOAL).set_score_request(populations=True)
    scores = cross_val_score(model, X, y, scoring=scorer, cv=2, params={"populations": table}, error_score="raise")
    assert np.isfinite(scores).all()


def test_what_is_missing_is_named(data):
    X, y, _ = data
    model = LogisticRegression().fit(X, y)
    with pytest.raises((GoalError, DataError), match="women"):
        goal_scorer(GOAL)(model, X, y)
    with pytest.raises(DataError, match="external"):
        goal_scorer(Goal(error_rate(), recall(Population.external("more")) >= 0.5))(model, X, y)

"""Thresholds of groups that are unknown at prediction, mixed by predicted probabilities."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import widemargin as wm
from widemargin.diagnostics import certified_radii
from widemargin.estimators.thresholds.predicted_groups import best_mixed_thresholds
from widemargin.exceptions import CapabilityError, DataError, InfeasibleGoalError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import bind
from widemargin.goals.binding.sources import make_sources
from widemargin.persistence import load_model, save_model, to_onnx
from widemargin.rows import Rows

PARITY = """
women = population(sex == "F")
men = population(sex == "M")
minimize error_rate()
subject to positive_rate(women) >= 0.9 * positive_rate(men)
"""


def people(n, seed=0, *, told=1.0):
    """Rows with two features, the second of which tells the sex the better the larger `told` is."""
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.4
    X = np.column_stack([rng.normal(size=n) - 1.0 * woman, told * woman + 0.5 * rng.normal(size=n)])
    y = (X[:, 0] + 0.7 * rng.normal(size=n) > 0.0).astype(int)
    return X, y, pd.DataFrame({"sex": np.where(woman, "F", "M")})


def blind(goal=PARITY, **parameters):
    given = {"cv": 3, "random_state": 0, "per_population": "sex", "group_estimator": LogisticRegression()} | parameters
    return wm.GoalThresholdClassifier(LogisticRegression(), goal, **given)


@pytest.mark.parametrize("cv", [None, 3, "prefit"])
def test_a_row_gets_the_mean_threshold_of_its_probable_groups_and_no_table(cv):
    X, y, table = people(1500)
    model = blind(cv=cv)
    if cv == "prefit":
        model.set_params(estimator=LogisticRegression().fit(X, y))
    model.fit(X, y, populations=table)
    assert model.goal_report_.passed
    new = people(200, seed=1)[0]
    mixed = model.group_estimator_.predict_proba(new) @ model.threshold_
    np.testing.assert_allclose(model.decision_function(new), model.estimator_.predict_proba(new)[:, 1] - mixed)
    np.testing.assert_array_equal(model.predict(new), model.decision_function(new) > 0.0)


def test_blind_rules_cost_more_than_known_groups_and_less_than_one_threshold():
    X, y, table = people(4000, told=1.0)
    model = blind().fit(X, y, populations=table)
    one = wm.GoalThresholdClassifier(LogisticRegression(), PARITY, cv=3, random_state=0).fit(X, y, populations=table)
    reached = model.goal_report_.objective
    assert model.known_groups_objective_ < reached < one.goal_report_.objective - 0.02
    assert f"{model.known_groups_objective_:.4g}" in model.goal_report_.certificate
    new_X, new_y, new_table = people(4000, seed=5, told=1.0)
    report = wm.audit(model, PARITY, new_X, new_y, populations=new_table)
    assert report["#1"].slack > -0.03


def test_groups_that_the_features_tell_are_as_good_as_known_ones():
    X, y, table = people(1200)
    X[:, 1] = table["sex"] == "F"
    model = blind(group_estimator=DecisionTreeClassifier()).fit(X, y, populations=table)
    assert model.goal_report_.objective <= model.known_groups_objective_ + 1e-12


def test_the_positive_class_may_be_the_first():
    X, y, table = people(1500)
    names = np.where(y == 1, "a yes", "no")  # classes_[0] is the positive one
    one = blind(pos_label="a yes").fit(X, names, populations=table)
    other = blind().fit(X, y, populations=table)
    new = people(500, seed=3)[0]
    assert one.goal_report_.passed
    assert np.mean((one.predict(new) == "a yes") == (other.predict(new) == 1)) > 0.97


def test_groups_may_be_unknown_for_some_rows_of_fit():
    X, y, table = people(2000)
    table.loc[::3, "sex"] = None
    model = blind().fit(X, y, populations=table)
    assert model.goal_report_.passed
    assert np.isnan(model.known_groups_objective_)  # no threshold of their own for unknown rows
    full = blind().fit(X, y, populations=people(2000)[2])
    np.testing.assert_allclose(model.threshold_, full.threshold_, atol=0.25)


def test_a_saved_model_decides_as_before(tmp_path):
    X, y, table = people(800)
    model = blind().fit(X, y, populations=table)
    save_model(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(X), model.predict(X))
    with pytest.raises(DataError, match="moves with the predicted population"):
        certified_radii(model, X)
    pytest.importorskip("onnx")
    with pytest.raises(CapabilityError, match="thresholds of several populations"):
        to_onnx(model, X)


def test_fresh_rows_prove_it():
    X, y, table = people(6000)
    new_X, new_y, new_table = people(6000, seed=9)
    loose = blind(PARITY.replace("0.9", "0.2")).fit(X, y, populations=table)
    assert "With probability >= 0.95" in loose.prove(new_X, new_y, new_table).certificate
    with pytest.raises(InfeasibleGoalError):
        blind().fit(X, y, populations=table).prove(new_X[:200], new_y[:200], new_table[:200])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"confidence": 0.9}, CapabilityError, "group_estimator goes without confidence"),
        ({"randomize": True}, CapabilityError, "group_estimator goes without randomize"),
        ({"abstain": "unsure"}, CapabilityError, "group_estimator goes without abstain"),
        ({"per_population": None}, DataError, "per_population, which is None"),
        ({"goal": PARITY + "subject to recall() >= 0.999\nsubject to precision() >= 0.999"}, InfeasibleGoalError,
         "no thresholds mixed by predicted populations meets the goal"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(change, error, text):
    X, y, table = people(600)
    cv = None if "confidence" in change else 3
    with pytest.raises(error, match=text):
        blind(**{"cv": cv} | change).fit(X, y, populations=table)


def test_several_classes_are_refused():
    X, y, table = people(300)
    with pytest.raises(DataError, match="group_estimator is for two"):
        blind("subject to recall(of=2) >= 0.1").fit(X, y + (X[:, 1] > 1.0), populations=table)


def test_rare_groups_are_named():
    X, y, table = people(300)
    table.loc[:2, "sex"] = "other"
    with pytest.raises(DataError, match="of the 3 there are, 1 have fewer rows"):
        blind().fit(X, y, populations=table)


@pytest.mark.parametrize("seed", range(6))
def test_the_search_ends_at_the_best_thresholds_of_few_rows_or_near(seed):
    """Beside every rule there is: a line through two rows of the plane (probability, score)."""
    rng = np.random.default_rng(seed)
    n = 30
    table = pd.DataFrame({"sex": np.where(rng.random(n) < 0.5, "F", "M")})
    share = np.clip(0.5 + 0.3 * (table["sex"] == "F") - 0.15 + 0.2 * rng.normal(size=n), 0.02, 0.98).to_numpy()
    score = rng.random(n)
    y = (score + 0.25 * rng.normal(size=n) > 0.5).astype(int)
    sources = make_sources({}, Rows(score[:, None], y, None, table), classes=(0, 1))
    tied = bind(Goal.parse(PARITY), sources, warn_trivial=False)
    shares = np.column_stack([share, 1.0 - share])

    def judged(positive):
        measured = tied.measure(tied.positive_mass([positive]))
        return bool(np.all(measured.met)), measured.objective

    best = np.inf
    for i, j in itertools.combinations(range(n), 2):
        if share[i] == share[j]:
            continue
        slope = (score[i] - score[j]) / (share[i] - share[j])
        line = score[i] + slope * (share - share[i])
        for up_i, up_j in itertools.product((False, True), repeat=2):
            positive = score > line
            positive[i], positive[j] = up_i, up_j
            met, objective = judged(positive)
            best = min(best, objective) if met else best
    mixed = best_mixed_thresholds(tied, [score], [shares], [np.zeros(2)])
    met, objective = judged(score > shares @ mixed.medians)
    assert met == mixed.met == np.isfinite(best)
    assert best - 1e-12 <= objective <= best + 1.5 / n  # a local search: one row more at most

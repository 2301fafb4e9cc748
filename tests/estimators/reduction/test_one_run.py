"""Boosted trees whose prices change while they grow."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from widemargin import GoalReduction, audit
from widemargin.estimators.reduction.one_run import BoostingLearner, continued_fitter
from widemargin.exceptions import CapabilityError, DataError

PARITY = "minimize error_rate()\nsubject to demographic_parity(group, difference=0.05)"


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.4, "F", "M")
    X = rng.normal(size=(n, 4)).round(1)  # fewer values than bins: scikit-learn looks for weighted quantiles for long
    X[:, 0] -= 0.7 * (group == "F")
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n) > 0.3).astype(int)
    return X, y, pd.DataFrame({"group": group})


def trees(rounds=20):
    return HistGradientBoostingClassifier(max_iter=rounds, max_leaf_nodes=8, random_state=0)


BOOSTERS = [
    trees(),
    GradientBoostingClassifier(n_estimators=20, random_state=0),
    make_pipeline(StandardScaler(), trees()),
    make_pipeline(trees()),
]


@pytest.mark.parametrize("booster", BOOSTERS, ids=lambda booster: type(booster).__name__)
def test_a_run_meets_the_goal_and_its_final_model_is_the_mean_of_the_folds(booster):
    X, y, table = draw(700)
    clf = GoalReduction(booster, PARITY, one_run=True, random_state=0).fit(X, y, populations=table)
    assert clf.goal_report_.passed
    assert clf.n_models_ == 10
    best = clf.estimator_.models[-1]
    assert len(best.models) == 3
    mean = np.mean([model.decision_function(X) for model in best.models], axis=0)
    np.testing.assert_allclose(best.decision_function(X), mean)


def test_it_is_as_good_as_a_model_for_each_price():
    X, y, table = draw(3000)
    new = draw(8000, seed=1)
    errors = {}
    for one_run in (False, True):
        clf = GoalReduction(trees(30), PARITY, one_run=one_run, random_state=0).fit(X, y, populations=table)
        report = audit(clf, PARITY, *new[:2], populations=new[2], confidence=None)
        assert min(item.slack for item in report.constraints) > -0.06
        errors[one_run] = report.objective
    assert errors[True] < errors[False] + 0.02


@pytest.mark.parametrize("grown", [trees(40), GradientBoostingClassifier(n_estimators=40, random_state=0)])
def test_trees_that_go_on_at_the_same_costs_are_those_of_one_fit(grown):
    X, y, _ = draw(500)
    cost, mass = np.where(y == 1, -1.0, 1.0), np.ones(500)
    booster = None
    for _ in range(4):
        before = booster
        booster = BoostingLearner(grown, np.array([0, 1]), 1.0, rounds=10, before=before).fit(X, cost, mass)
        assert booster is not before  # the earlier one may turn out to be the best
    whole = type(grown)(**grown.get_params()).fit(X, y)
    np.testing.assert_allclose(booster.decision_function(X), whole.decision_function(X), atol=1e-9)


def test_lotteries_and_thresholds_by_group():
    X, y, table = draw(600)
    lottery = GoalReduction(trees(), PARITY, one_run=True, randomize=True, random_state=0).fit(X, y, populations=table)
    assert lottery.goal_report_.certificate
    by_group = GoalReduction(trees(), PARITY, one_run=True, per_population="group", random_state=0)
    by_group.fit(X, y, populations=table)
    assert by_group.threshold_.shape == (2,)
    assert by_group.goal_report_.passed


def test_without_constraints_it_is_boosting():
    X, y, _ = draw(400)
    clf = GoalReduction(trees(), one_run=True, random_state=0).fit(X, y)
    assert np.mean(clf.predict(X) == y) > 0.8


def test_a_threshold_is_carried_to_the_mean_of_the_boosters_as_a_share_of_rows():
    """The mean of boosters is less sure of anything than each of them: above their threshold are half as many rows."""
    rates = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(5000, 4)).round(1)
        y = (X[:, 0] + 5.0 * rng.normal(size=5000) > 0.0).astype(int)
        clf = GoalReduction(trees(), "minimize 1 - recall()\nsubject to positive_rate() <= 0.1", one_run=True)
        rates.append(clf.set_params(random_state=0).fit(X[:600], y[:600]).predict(X[600:]).mean())
    assert np.mean(rates) == pytest.approx(0.1, abs=0.03)


def grown_by(name, **options):
    library = pytest.importorskip(name)
    options = {"n_estimators": 20, "n_jobs": 1, "random_state": 0} | options
    return library.LGBMClassifier(verbose=-1, **options) if name == "lightgbm" else library.XGBClassifier(**options)


OTHERS = pytest.mark.parametrize("name", ["lightgbm", "xgboost"])


@OTHERS
def test_other_libraries_go_on_too(name):
    X, y, table = draw(600)
    for booster in (grown_by(name), make_pipeline(make_pipeline(StandardScaler(), MinMaxScaler()), grown_by(name))):
        clf = GoalReduction(booster, PARITY, one_run=True, random_state=0).fit(X, y, populations=table)
        assert clf.goal_report_.passed
        assert np.mean(clf.predict(X) == y) > 0.75
        assert clf.estimator_.n_features_in_ == 4
        again = pickle.loads(pickle.dumps(clf))
        np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))


def test_the_number_for_missing_values_is_kept():
    X, y, table = draw(500)
    X[::7, 1] = np.nan
    told = grown_by("xgboost", missing=-999.0)
    clf = [
        GoalReduction(booster, PARITY, one_run=True, random_state=0).fit(rows, y, populations=table)
        for booster, rows in ((grown_by("xgboost"), X), (told, np.nan_to_num(X, nan=-999.0)))
    ]
    np.testing.assert_array_equal(clf[1].predict(np.nan_to_num(X, nan=-999.0)), clf[0].predict(X))


@pytest.mark.parametrize("method", [None, "hist", "approx", "exact"])
def test_xgboost_grows_by_each_of_its_tree_methods(method):
    X, y, table = draw(500)
    clf = GoalReduction(grown_by("xgboost", tree_method=method), PARITY, random_state=0).fit(X, y, populations=table)
    assert clf.n_models_ == 10
    assert np.mean(clf.predict(X) == y) > 0.75


def test_xgboost_takes_the_columns_for_categories_that_it_was_told():
    rng = np.random.default_rng(0)
    code = rng.integers(40, size=1000)
    y = (rng.normal(size=40)[code] > 0).astype(int)  # a few splits tell the classes where codes have no order
    told = grown_by(
        "xgboost", n_estimators=3, max_depth=2, feature_types=["c"], enable_categorical=True, max_cat_to_onehot=1
    )
    clf = GoalReduction(told, "minimize error_rate()", one_run=True, random_state=0).fit(code[:, None], y)
    assert np.mean(clf.predict(code[:, None]) == y) > 0.95


@OTHERS
def test_columns_keep_their_names_and_their_order(name):
    X, y, table = draw(500)
    frame = pd.DataFrame(X, columns=list("abcd"))
    clf = GoalReduction(grown_by(name), PARITY, one_run=True, random_state=0).fit(frame, y, populations=table)
    assert clf.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="should match"):
        clf.predict(frame[list("dcba")])
    assert len(clf.predict(frame)) == 500
    unnamed = GoalReduction(grown_by(name), PARITY, one_run=True, random_state=0).fit(X, y, populations=table)
    assert not hasattr(unnamed, "feature_names_in_")


def test_the_number_of_trees_is_read_under_all_its_names():
    X, y, table = draw(300)
    for names in ({"num_iterations": 7}, {"n_estimators": 7}):
        clf = GoalReduction(grown_by("lightgbm", **names), PARITY, one_run=True, on_infeasible="warn", random_state=0)
        assert clf.fit(X, y, populations=table).n_models_ == 7
    with pytest.raises(DataError, match="n_estimators=-1 of LGBMClassifier is no number of trees"):
        GoalReduction(grown_by("lightgbm", n_estimators=-1), PARITY).fit(X, y, populations=table)
    with pytest.raises(CapabilityError, match="boosting='dart' changes these"):
        GoalReduction(grown_by("lightgbm", boosting="dart"), PARITY, one_run=True).fit(X, y, populations=table)


@OTHERS
def test_what_a_booster_was_stays_when_it_grows(name):
    X, y, _ = draw(500)
    cost, mass = [np.where(y == 1, -1.0, 1.0)], [np.ones(500)]
    fold = [np.arange(500) % 2]
    learner = BoostingLearner(grown_by(name, n_estimators=40), np.array([0, 1]), 1.0, rounds=10)
    fitter = continued_fitter(learner, [X], mass, fold, 2, None)
    scores = [fitter.scores([sign * part for part in cost])[0] for sign in (1.0, 1.0, 1.0, -1.0)]
    for stage, held in enumerate(scores):
        for number, booster in enumerate(fitter.boosters[stage]):
            mine = fold[0] == number
            np.testing.assert_allclose(booster.decision_function(X[mine]), held[mine], atol=1e-5)
    whole = grown_by(name, n_estimators=30).fit(X[fold[0] == 1], y[fold[0] == 1])
    likely = 1.0 / (1.0 + np.exp(-scores[2][fold[0] == 0]))
    # The libraries' own logistic loss begins at the same share, and rounds its derivatives.
    assert np.abs(likely - whole.predict_proba(X[fold[0] == 0])[:, 1]).mean() < 0.02
    assert np.corrcoef(scores[3], scores[2])[0, 1] < 0.99  # costs of the other sign were learned


@OTHERS
def test_it_is_chosen_where_it_gains_and_nothing_speaks_against_it(name):
    X, y, table = draw(300)
    about = {"goal": PARITY, "random_state": 0, "max_models": 2, "on_infeasible": "warn"}
    assert GoalReduction(grown_by(name), **about).fit(X, y, populations=table).n_models_ == 10
    weighing = {"is_unbalance": True} if name == "lightgbm" else {"scale_pos_weight": 2.0}
    forest = pytest.importorskip("xgboost").XGBRFClassifier(n_estimators=5, n_jobs=1)
    for booster in (trees(5), grown_by(name, **weighing), forest):
        assert GoalReduction(booster, **about).fit(X, y, populations=table).n_models_ <= 2
    several = GoalReduction(grown_by(name), "subject to recall(of=2) >= 0.1", max_models=2, random_state=0)
    assert several.fit(X, np.arange(300) % 3).n_models_ <= 2


@OTHERS
def test_what_would_change_costs_or_earlier_trees_is_refused(name):
    X, y, table = draw(300)
    kind, weighing = {
        "lightgbm": ({"boosting_type": "dart"}, {"class_weight": "balanced"}),
        "xgboost": ({"booster": "dart"}, {"scale_pos_weight": 2.0}),
    }[name]
    with pytest.raises(CapabilityError, match="changes these"):
        GoalReduction(grown_by(name, **kind), PARITY, one_run=True).fit(X, y, populations=table)
    with pytest.raises(CapabilityError, match="the goal says what each error costs"):
        GoalReduction(grown_by(name, **weighing), PARITY, one_run=True).fit(X, y, populations=table)
    if name == "lightgbm":
        with pytest.raises(DataError, match="can split none of the 4 columns of 200 rows: min_child_samples=500"):
            GoalReduction(grown_by(name, min_child_samples=500), PARITY, one_run=True).fit(X, y, populations=table)


def test_what_cannot_go_on_is_refused():
    X, y, table = draw(300)
    with pytest.raises(CapabilityError, match="got RandomForestClassifier"):
        GoalReduction(RandomForestClassifier(10), PARITY, one_run=True).fit(X, y, populations=table)
    several = "subject to recall(of=2) >= 0.1"
    with pytest.raises(CapabilityError, match="one_run=True is for two classes, and there are 3"):
        GoalReduction(trees(), several, one_run=True).fit(X, np.arange(300) % 3)

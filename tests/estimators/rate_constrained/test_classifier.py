"""RateConstrainedClassifier: the contract of scikit-learn, goals met on the training rows, and clear refusals."""

import copy
import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from testing.contract import parametrize_with_fitting_checks
from testing.sklearn_versions import routes_to_scores

from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.ramp_model import gathered
from widemargin.exceptions import (
    CapabilityError,
    DataError,
    GoalError,
    GoalParseError,
    GoalWarning,
    InfeasibleGoalError,
    MarginConvergenceWarning,
)
from widemargin.goals import Goal, Population, churn, col, error_rate, positive_rate, precision, recall
from widemargin.rows import External
from widemargin.solvers.convex import convex_step as choice

WOMEN = Population("women", where=col("sex") == "F")
MEN = Population("men", where=col("sex") == "M")
PARITY = Goal(error_rate(), [(positive_rate(WOMEN) >= 0.8 * positive_rate(MEN)).named("parity"), recall() >= 0.5])


def make_data(n=1200, d=6, seed=0):
    """Two groups with different base rates; integer-valued features, so that rows repeat."""
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.4
    X = np.round(2 * rng.normal(size=(n, d))) / 2
    X[:, 0] -= 0.8 * woman
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) > 0.4).astype(int)
    deployed = (X[:, 0] + 0.1 * rng.normal(size=n) > 0.6).astype(int)
    return X, y, {"sex": np.where(woman, "F", "M"), "deployed": deployed}


@parametrize_with_fitting_checks(
    [RateConstrainedClassifier()], [RateConstrainedClassifier("subject to recall() >= 0.3")]
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def fair(data):
    """A model of all rows; for tests that only look at it."""
    X, y, columns = data
    return RateConstrainedClassifier(PARITY).fit(X, y, populations=pd.DataFrame(columns))


@pytest.mark.parametrize("solver", choice.SOLVERS)
@pytest.mark.parametrize("enforce", ["deterministic", "randomized"])
def test_goal_is_met_on_training_rows(data, enforce, solver):
    X, y, columns = data
    clf = RateConstrainedClassifier(PARITY, enforce=enforce, solver_options={"solver": solver, "tol": 0.001})
    clf.fit(X, y, populations=pd.DataFrame(columns))
    women = columns["sex"] == "F"
    if enforce == "deterministic":
        positive = (clf.predict(X) == 1).astype(float)
    else:
        positive = clf.randomized_proba(X)[:, 1]
    assert positive[women].mean() >= 0.8 * positive[~women].mean() - 1e-9
    assert positive[y == 1].mean() >= 0.5 - 1e-9
    assert clf.subproblem_gap_ <= 1e-3
    assert clf.status_ == "converged"


def test_report_equals_what_predict_gives(data, fair):
    X, y, columns = data
    said = fair.predict(X) == 1
    women = columns["sex"] == "F"
    parity, floor = fair.goal_report_.constraints
    assert parity.label == "parity"
    assert parity.rate == pytest.approx(said[women].mean(), abs=1e-12)
    assert parity.bound == pytest.approx(0.8 * said[~women].mean(), abs=1e-12)
    assert floor.rate == pytest.approx(said[y == 1].mean(), abs=1e-12)
    assert fair.goal_report_.objective == pytest.approx((said != y).mean(), abs=1e-12)
    assert str(fair.goal_report_).startswith("Goal report. Positive class: 1")


def test_tighter_bound_costs_error(data, fair):
    X, y, columns = data
    free = RateConstrainedClassifier().fit(X, y)
    women = columns["sex"] == "F"
    said = free.predict(X)
    assert said[women].mean() < 0.8 * said[~women].mean()  # the constraint does something
    assert fair.goal_report_.objective > free.goal_report_.objective
    assert fair.multipliers_[0] > 0


def test_multiplier_is_the_price_of_the_bound(data):
    X, y, columns = data
    table = pd.DataFrame(columns)

    def optimum(share):
        goal = Goal(error_rate(), positive_rate() >= share)
        clf = RateConstrainedClassifier(goal, enforce="randomized", solver_options={"tol": 1e-07}, max_steps=25, C=0.01)
        clf.fit(X, y, populations=table)
        value = clf.goal_report_.ramp_objective + 0.5 * (2 / (len(y) * 0.01)) * float(clf.coef_[0] @ clf.coef_[0])
        return value, clf.multipliers_[0]

    (low, _), (_, price), (high, _) = optimum(0.59), optimum(0.60), optimum(0.61)
    assert price == pytest.approx((high - low) / 0.02, rel=0.05)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "array"])
def test_every_table_gives_the_same_model(data, fair, kind):
    X, y, columns = data
    goal = PARITY
    if kind == "array":
        goal = Goal.parse(str(PARITY).replace('sex == "F"', "col(0) == 1").replace('sex == "M"', "col(0) == 0"))
        table = np.column_stack([columns["sex"] == "F"]).astype(float)
    else:
        table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns)
    clf = RateConstrainedClassifier(goal).fit(X, y, populations=table)
    np.testing.assert_array_equal(clf.coef_, fair.coef_)


def test_columns_of_x_serve_as_populations(data):
    X, y, _ = data
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    goal = "upper = population(f1 > 0)\nsubject to positive_rate(upper) <= 0.5"
    clf = RateConstrainedClassifier(goal).fit(frame, y)
    assert clf.predict(frame)[X[:, 1] > 0].mean() <= 0.5
    assert list(clf.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_equals_dense(data, index):
    X, y, columns = data
    S = sp.csr_matrix(X)
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    table = pd.DataFrame(columns)
    dense = RateConstrainedClassifier(PARITY, solver_options={"tol": 1e-08}).fit(X, y, populations=table)
    sparse = RateConstrainedClassifier(PARITY, solver_options={"tol": 1e-08}).fit(S, y, populations=table)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(sparse.predict(S), dense.predict(X))


def test_float32_is_used_as_it_is(data, fair):
    X, y, columns = data
    table = pd.DataFrame(columns)
    single = X.astype(np.float32)
    narrow = RateConstrainedClassifier(PARITY).fit(single, y, populations=table)
    # The same numbers in double precision; those of X differ in their eighth digit, which may end the search elsewhere.
    same = RateConstrainedClassifier(PARITY).fit(single.astype(float), y, populations=table)
    np.testing.assert_array_equal(narrow.predict(single), same.predict(single))
    assert abs(narrow.goal_report_.objective - fair.goal_report_.objective) < 0.01
    assert narrow.goal_report_.all_met() and fair.goal_report_.all_met()


def test_weights_equal_repetition(data):
    X, y, columns = data
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    many = np.repeat(np.arange(len(y)), weight)
    table = pd.DataFrame(columns)
    weighted = RateConstrainedClassifier(PARITY).fit(X, y, sample_weight=weight, populations=table)
    repeated = RateConstrainedClassifier(PARITY).fit(X[many], y[many], populations=table.iloc[many])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)
    assert weighted.goal_report_.objective == pytest.approx(repeated.goal_report_.objective, abs=1e-12)


def test_same_input_same_bits(data, fair):
    X, y, columns = data
    again = RateConstrainedClassifier(PARITY).fit(X, y, populations=pd.DataFrame(columns))
    np.testing.assert_array_equal(again.coef_, fair.coef_)
    np.testing.assert_array_equal(again.intercept_, fair.intercept_)


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_another_order_or_as_others_that_are_equal_give_the_same_model(seed):
    """The exact moves of small tables depend on the last digits of sums, so these must not depend on the order.

    Sums of weights that are whole numbers, or halves, have no digits that are rounded.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 5)).round(1) * (rng.random((300, 5)) < 0.5)
    y, weight = X @ rng.standard_normal(5) + rng.standard_normal(300) > 0.5, rng.integers(1, 4, 300)
    table, goal = pd.DataFrame({"g": rng.choice(["a", "b"], 300)}), "minimize error_rate() subject to recall() >= 0.8"
    goal += "\nsubject to demographic_parity(g, difference=0.05)"
    at, other = np.arange(300), np.concatenate([rng.permutation(300), rng.permutation(300)])
    models = [
        RateConstrainedClassifier(goal, C=1.0 / repeated, on_infeasible="warn").fit(
            X[rows], y[rows], sample_weight=scale * weight[rows], populations=table.iloc[rows]
        )
        for rows, repeated, scale in ((at, 1, 1.0), (other[:300], 1, 1.0), (other, 1, 0.5), (at, 2, 2.0))
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-9)
        np.testing.assert_allclose(model.intercept_, models[0].intercept_, rtol=1e-9)


def test_input_is_left_alone(data):
    X, y, columns = data
    X, y, table = X.copy(), y.copy(), pd.DataFrame(columns)
    before = copy.deepcopy((X, y, table))
    clf = RateConstrainedClassifier(PARITY)
    params = clf.get_params()
    clf.fit(X, y, populations=table)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    pd.testing.assert_frame_equal(table, before[2])
    assert clf.get_params() == params
    assert clone(clf).get_params() == params


def test_pickle_keeps_the_model(data, fair):
    again = pickle.loads(pickle.dumps(fair))
    np.testing.assert_array_equal(again.predict(data[0]), fair.predict(data[0]))
    assert again.goal == fair.goal


# --- labels ---------------------------------------------------------------------------------------------------------


def test_pos_label_turns_the_rates_not_the_scores(data):
    X, y, _ = data
    goal = Goal(error_rate(), recall() >= 0.9)
    names = np.where(y == 1, "bad", "ok")  # sorted: "bad" comes first
    clf = RateConstrainedClassifier(goal, pos_label="bad").fit(X, names)
    assert clf.positive_class_ == "bad"
    assert list(clf.classes_) == ["bad", "ok"]
    assert np.mean(clf.predict(X)[names == "bad"] == "bad") >= 0.9
    np.testing.assert_array_equal(clf.decision_function(X) > 0, clf.predict(X) == "ok")
    numeric = RateConstrainedClassifier(goal).fit(X, y)
    np.testing.assert_allclose(clf.coef_, -numeric.coef_)


def test_strings_without_order_warn_once(data):
    X, y, _ = data
    with pytest.warns(GoalWarning, match="'spam' is taken as the positive class") as caught:
        RateConstrainedClassifier().fit(X, np.where(y == 1, "spam", "ham"))
    assert len(caught) == 1


def test_more_than_two_classes_are_refused(data):
    X, y, _ = data
    message = r"Only binary classification is supported. The type of the target is multiclass.*GoalReduction"
    with pytest.raises(DataError, match=message):
        RateConstrainedClassifier().fit(X, y + (X[:, 2] > 1))


# --- baselines and external data ------------------------------------------------------------------------------------


def test_baseline_as_column_model_and_external(data):
    X, y, columns = data
    table = pd.DataFrame(columns)
    model = LogisticRegression().fit(X[:100], y[:100])
    by_column = Goal(error_rate(), churn("deployed") <= 0.1)
    clf = RateConstrainedClassifier(by_column, baselines={"deployed": model}).fit(X, y, populations=table)
    assert np.mean(clf.predict(X) != columns["deployed"]) <= 0.1  # the column comes before the model
    clf = RateConstrainedClassifier(by_column, baselines={"deployed": model}).fit(X, y)
    assert np.mean(clf.predict(X) != model.predict(X)) <= 0.1

    Xt, _, other = make_data(500, seed=9)
    goal = Goal(error_rate(), churn("deployed", on=Population.external("traffic")) <= 0.15)
    traffic = External(Xt, deployed=other["deployed"])
    clf = RateConstrainedClassifier(goal).fit(X, y, external={"traffic": traffic})
    assert np.mean(clf.predict(Xt) != other["deployed"]) <= 0.15
    assert dict(clf.goal_report_.external_rows) == {"traffic": 500}


def test_example_set_must_be_right(data):
    X, y, _ = data
    wrong = np.flatnonzero(RateConstrainedClassifier().fit(X, y).predict(X) != y)[:2]
    goal = Goal.parse('vip = external()\nsubject to "vip": error_rate(vip) <= 0')
    clf = RateConstrainedClassifier(goal, C=5.0).fit(X, y, external={"vip": External(X[wrong], y[wrong])})
    np.testing.assert_array_equal(clf.predict(X[wrong]), y[wrong])


@pytest.mark.parametrize(
    ("goal", "arguments", "error", "message"),
    [
        (PARITY, {}, (DataError, GoalError), "sex"),
        ("subject to positive_rate(population(sex == 'X')) >= 0.1", {}, GoalError, "X"),
        ("subject to churn('gone') <= 0.1", {}, DataError, "gone"),
        ("t = external()\nsubject to positive_rate(t) >= 0.1", {}, DataError, "'t'"),
        ("subject to recall() >", {}, GoalParseError, "line 1"),
        ("subject to true_positives() >= 10000", {}, GoalError, "10000"),
    ],
)
def test_bad_goals_are_named(data, goal, arguments, error, message):
    X, y, columns = data
    if "sex ==" in str(goal) and not isinstance(goal, Goal):
        arguments = {"populations": pd.DataFrame(columns)}
    with pytest.raises(error, match=message):
        RateConstrainedClassifier(goal).fit(X, y, **arguments)


def test_populations_of_wrong_length(data):
    X, y, columns = data
    with pytest.raises(DataError, match=r"1100.*1200|1200.*1100"):
        RateConstrainedClassifier(PARITY).fit(X, y, populations=pd.DataFrame(columns).iloc[:1100])
    with pytest.raises(DataError, match="dict"):
        RateConstrainedClassifier(PARITY).fit(X, y, populations=columns)


def test_features_beyond_double_precision_are_refused(data):
    X, y, _ = data
    with pytest.raises(DataError, match=r"as large as \d\.\d+e\+20\d: scale them"):
        RateConstrainedClassifier().fit(X * 1e200, y)


def test_one_entry_whose_square_is_hardly_finite_lets_no_numpy_warning_out(data):
    X, y, _ = data
    X = X[:300].copy()
    X[5, 1] = 1e150
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", MarginConvergenceWarning)
        RateConstrainedClassifier(Goal(error_rate(), [recall() >= 0.6])).fit(X, y[:300])


# --- infeasible goals, interruption, time ---------------------------------------------------------------------------

IMPOSSIBLE = Goal(
    error_rate(), [(recall() >= 0.95).named("floor"), (positive_rate() <= 0.2).named("cap"), precision() >= 0.1]
)


def test_infeasible_goal_is_refused_with_numbers(data):
    X, y, _ = data
    with pytest.raises(InfeasibleGoalError, match=r"short by 0\.\d+.*In conflict: 'floor', 'cap'"):
        RateConstrainedClassifier(IMPOSSIBLE).fit(X, y)


def test_infeasible_goal_can_warn_and_keep_the_nearest(data):
    X, y, _ = data
    clf = RateConstrainedClassifier(IMPOSSIBLE, on_infeasible="warn")
    with pytest.warns(GoalWarning, match=r"no model that meets the goal.*Loosen one of them.*\. This model is kept\."):
        clf.fit(X, y)
    assert clf.status_ == "infeasible"
    assert not clf.goal_report_.all_met()
    missed = sum(max(0.0, -item.slack) for item in clf.goal_report_.constraints)
    # no classifier does better than this many positives allow: recall <= cap / base rate
    assert missed <= 1.2 * max(0.95 - 0.2 / y.mean(), 0.0)


def _interrupt(progress):
    if progress.iteration >= 2:
        raise KeyboardInterrupt


def test_interrupt_keeps_the_best_model(data):
    X, y, columns = data
    table = pd.DataFrame(columns)
    clf = RateConstrainedClassifier(PARITY, callbacks=[_interrupt])
    with pytest.warns(MarginConvergenceWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        clf.fit(X, y, populations=table)
    assert clf.status_ == "interrupted"
    assert clf.predict(X).shape == y.shape
    clf = RateConstrainedClassifier(PARITY, callbacks=[_interrupt], solver_options={"on_interrupt": "return"})
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        clf.fit(X, y, populations=table)
    assert clf.goal_report_.status == "interrupted"


def test_time_budget_and_stopping_callback(data):
    X, y, columns = data
    table = pd.DataFrame(columns)
    cases = [
        ({"time_budget": 1e-6}, "time_limit", "raise time_budget"),
        ({"callbacks": [lambda progress: True]}, "stopped", "by a callback"),
    ]
    for options, status, message in cases:
        clf = RateConstrainedClassifier(PARITY, **gathered(options))
        with pytest.warns(MarginConvergenceWarning, match=message):
            clf.fit(X, y, populations=table)
        assert clf.status_ == status
        assert np.isfinite(clf.coef_).all()


def test_interrupt_in_the_first_step_still_leaves_a_model(data, monkeypatch):
    X, y, columns = data

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setitem(choice._SOLVE, "newton", interrupted)
    clf = RateConstrainedClassifier(PARITY, solver_options={"on_interrupt": "return"})
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        clf.fit(X, y, populations=pd.DataFrame(columns))
    assert clf.status_ == "interrupted"
    assert clf.subproblem_gap_ == np.inf
    assert not clf.certified_point_
    assert set(clf.predict(X)) <= {0, 1}


@pytest.mark.parametrize(
    ("place", "confidence"),
    [
        ("training.improve", None),
        ("proof.safest_first", 0.9),
        ("proof.fixed_sequence", 0.9),
    ],
)
def test_an_interrupt_between_and_after_the_descents_leaves_a_model(data, monkeypatch, place, confidence):
    X, y, columns = data

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"widemargin.estimators.rate_constrained.{place}", interrupted)
    options = {"on_interrupt": "return"}
    clf = RateConstrainedClassifier(PARITY, confidence=confidence, random_state=0, solver_options=options)
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        clf.fit(X, y, populations=pd.DataFrame(columns))
    assert clf.status_ == "interrupted" and clf.guarantee_ is None
    assert clf.score(X, y) > 0.6


# --- starts and solvers ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:a classifier that predicts nothing positive")
@pytest.mark.parametrize("floor", [0.7, 0.8, 0.9])
def test_precision_floor_is_not_answered_by_saying_no(floor):
    """All-negative satisfies the cleared form of precision; a plain SVM with its threshold moved is not better."""
    rng = np.random.default_rng(0)
    n = 4000
    X = rng.normal(size=(n, 8))
    X[:, 0] = np.exp(X[:, 0])
    y = (0.4 * X[:, 0] + X[:, 1] + 2 * rng.normal(size=n) > 2.2).astype(int)
    clf = RateConstrainedClassifier(Goal(error_rate(), precision() >= floor)).fit(X, y)
    plain = RateConstrainedClassifier(max_steps=1).fit(X, y)
    score = plain.decision_function(X)
    order = np.argsort(-score)
    right, wrong = np.cumsum(y[order]), np.cumsum(1 - y[order])
    allowed = right >= floor * (right + wrong)
    shifted = ((wrong + y.sum() - right) / n)[allowed].min()
    assert clf.goal_report_.objective <= shifted + 1e-9
    assert clf.predict(X).sum() >= 10


@pytest.mark.parametrize(("n", "d"), [(300, 4000), (900, 1600)])
def test_wide_data_are_solved_in_their_span_or_as_they_are(n, d):
    rng = np.random.default_rng(0)
    X = sp.random(n, d, density=0.01, random_state=0, format="csr")
    y = (X @ rng.normal(size=d) > 0).astype(int)
    clf = RateConstrainedClassifier("subject to recall() >= 0.9").fit(X, y)
    assert clf.solver_ == "newton"
    assert clf.goal_report_.all_met()
    assert clf.subproblem_gap_ <= 1e-4
    with pytest.raises(CapabilityError, match=r"20000 x 20000 .*use 'auto'"):
        RateConstrainedClassifier(solver_options={"solver": "interior-point"}).fit(
            sp.eye_array(40, 20000, format="csr"), np.arange(40) % 2
        )


def test_broken_external_data_are_named(data):
    X, y, columns = data
    goal = Goal(error_rate(), churn("deployed", on=Population.external("traffic")) <= 0.2)
    for broken in (X[:, :3], np.where(X > 2, np.nan, X)):
        with pytest.raises(DataError, match="external 'traffic'"):
            external = {"traffic": External(broken, deployed=columns["deployed"])}
            RateConstrainedClassifier(goal).fit(X, y, external=external)


def test_callbacks_see_progress(data):
    X, y, columns = data
    seen = []
    RateConstrainedClassifier(PARITY, callbacks=[seen.append]).fit(X, y, populations=pd.DataFrame(columns))
    assert [p.iteration for p in seen if p.stage == "majorise"][:3] == [1, 2, 3]
    assert all(b.seconds >= a.seconds for a, b in itertools.pairwise(seen))


# --- probabilities --------------------------------------------------------------------------------------------------


def test_randomised_prediction(data):
    X, y, _ = data
    clf = RateConstrainedClassifier(C=0.02, random_state=3).fit(X, y)
    proba = clf.randomized_proba(X)
    np.testing.assert_allclose(proba[:, 1], np.clip(clf.decision_function(X) + 0.5, 0, 1))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.predict_randomized(X), clf.predict_randomized(X))
    draws = np.mean([clf.predict_randomized(X, random_state=seed) for seed in range(200)], axis=0)
    assert np.abs(draws - proba[:, 1]).max() < 0.2
    assert abs(draws.mean() - proba[:, 1].mean()) < 0.005


def test_predict_proba_exists_only_with_calibration(data):
    X, y, columns = data
    clf = RateConstrainedClassifier().fit(X, y)
    assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        clf.predict_proba  # noqa: B018
    assert "calibration=" in str(caught.value.__cause__)
    for method in ("sigmoid", "isotonic"):
        clf = RateConstrainedClassifier(PARITY, calibration=method, random_state=0)
        clf.fit(X, y, populations=pa.table(columns), sample_weight=np.ones(len(y)))
        proba = clf.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        assert abs(proba[:, 1].mean() - y.mean()) < 0.05
        assert clf.goal_report_.n_rows == pytest.approx(0.8 * len(y), abs=2)


# --- inside scikit-learn --------------------------------------------------------------------------------------------


@routes_to_scores
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_grid_search_slices_populations(data, kind):
    X, y, columns = data
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = RateConstrainedClassifier(PARITY, max_steps=2).set_fit_request(populations=True, sample_weight=True)
        clf.set_score_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), clf)
        search = GridSearchCV(pipe, {"rateconstrainedclassifier__C": [0.02, 0.2]}, cv=2, error_score="raise")
        search.fit(X, y, populations=table, sample_weight=np.ones(len(y)))
        result = cross_validate(
            pipe, X, y, params={"populations": table}, cv=3, return_estimator=True, error_score="raise"
        )
    assert search.best_estimator_.predict(X).shape == y.shape
    for fitted in result["estimator"]:
        assert fitted[-1].goal_report_.n_rows == 800
        assert fitted[-1].goal_report_.all_met()


def test_external_is_not_sliced(data):
    X, y, _ = data
    Xt, _, other = make_data(1200, seed=9)  # as many rows as X: cross-validation must still leave it alone
    goal = Goal(error_rate(), churn("deployed", on=Population.external("traffic")) <= 0.2)
    external = {"traffic": External(Xt, deployed=other["deployed"])}
    with sklearn.config_context(enable_metadata_routing=True):
        clf = RateConstrainedClassifier(goal).set_fit_request(external=True)
        result = cross_validate(
            clf, X, y, params={"external": external}, cv=3, return_estimator=True, error_score="raise"
        )
    for fitted in result["estimator"]:
        assert dict(fitted.goal_report_.external_rows) == {"traffic": 1200}


def test_n_jobs_is_bounded_and_restored(data):
    import numba

    X, y, _ = data
    before = numba.get_num_threads()
    RateConstrainedClassifier(n_jobs=1).fit(X, y)
    assert numba.get_num_threads() == before


def test_no_warning_on_a_plain_fit(data):
    X, y, _ = data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RateConstrainedClassifier().fit(X, y)

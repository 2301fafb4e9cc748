"""GoalThresholdClassifier: the exact threshold against all thresholds, scikit-learn's contract, clear refusals."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_validate, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from testing.contract import parametrize_with_fitting_checks
from testing.sklearn_versions import routes_to_scores

from widemargin import GoalReduction, audit, load_model, save_model
from widemargin.estimators.thresholds.goal_threshold import GoalThresholdClassifier
from widemargin.exceptions import DataError, DoubtfulModelWarning, GoalError, GoalWarning, InfeasibleGoalError
from widemargin.goals import Goal, Population, churn, col, error_rate, positive_rate, precision, recall
from widemargin.rows import External

WOMEN = Population("women", where=col("sex") == "F")
MEN = Population("men", where=col("sex") == "M")
PARITY = Goal(error_rate(), [(positive_rate(WOMEN) >= 0.6 * positive_rate(MEN)).named("parity"), recall() >= 0.5])


class FirstColumn(ClassifierMixin, BaseEstimator):
    """A fitted scorer whose score is the first column."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


def make_data(n=1000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.4
    X = rng.normal(size=(n, d))
    X[:, 0] -= 0.8 * woman
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n) > 0.4).astype(int)
    deployed = (X[:, 0] + 0.1 * rng.normal(size=n) > 0.6).astype(int)
    return X, y, {"sex": np.where(woman, "F", "M"), "deployed": deployed}


@pytest.fixture(scope="module")
def data():
    return make_data()


def prefit(data, goal, **options):
    X, y, columns = data
    clf = GoalThresholdClassifier(LogisticRegression().fit(X, y), goal, cv="prefit", **options)
    return clf.fit(X, y, populations=pd.DataFrame(columns))


@parametrize_with_fitting_checks(
    [GoalThresholdClassifier(LogisticRegression(C=0.1, tol=0.1), random_state=0)],
    [GoalThresholdClassifier(LogisticRegression(C=0.1, tol=0.1), "subject to recall() >= 0.3", cv=2)],
)
def test_sklearn_contract(estimator, check):
    check(estimator)


# --- exactness ------------------------------------------------------------------------------------------------------


def all_choices(z):
    """Every set of positives that some threshold gives."""
    return [z > t for t in [-np.inf, *np.unique(z)]]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 30), ties=st.booleans(), weighted=st.booleans(), flip=st.booleans())
def test_no_threshold_is_better(seed, n, ties, weighted, flip):
    rng = np.random.default_rng(seed)
    z = rng.integers(-3, 4, n) / 4.0 if ties else rng.normal(size=n)
    y = (rng.random(n) < 0.5).astype(int)
    y[:2] = 0, 1
    weight = rng.integers(1, 4, n) / 2.0 if weighted else np.ones(n)
    floor, least = rng.integers(1, 8) / 8, rng.integers(1, 8) / 8
    goal = Goal(error_rate(), [recall() >= floor, precision() >= least])
    clf = GoalThresholdClassifier(
        FirstColumn(), goal, cv="prefit", pos_label=0 if flip else 1, on_infeasible="warn"
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GoalWarning)
        clf.fit(z[:, None], y, sample_weight=weight)
    truth = y == (0 if flip else 1)

    def rates(said):
        hit, called = (weight * (said & truth)).sum(), (weight * said).sum()
        error = (weight * (said != truth)).sum() / weight.sum()
        return error, hit / (weight * truth).sum(), hit / called if called > 0 else np.nan

    every = [rates(said) for said in all_choices(-z if flip else z)]
    good = [e for e, r, p in every if r >= floor - 1e-12 and p >= least - 1e-12]
    said = clf.predict(z[:, None]) == clf.positive_class_
    error, reached, precise = rates(said)
    assert (clf.status_ == "converged") == bool(good)
    assert clf.goal_report_.objective == pytest.approx(error, abs=1e-12)
    if good:
        assert error == pytest.approx(min(good), abs=1e-12)
        assert reached >= floor - 1e-12 and precise >= least - 1e-12


def test_an_undefined_ratio_is_not_met():
    """Calling nobody positive has the least error and no precision: another threshold must be found."""
    y = np.array([0] * 8 + [1, 1])
    z = np.array([*np.linspace(0, 1, 8), 0.95, 2.0])
    clf = GoalThresholdClassifier(FirstColumn(), "minimize positive_rate()\nsubject to precision() >= 0.5", cv="prefit")
    clf.fit(z[:, None], y)
    assert clf.predict(z[:, None]).sum() == 1
    assert clf.goal_report_["#1"].rate == 1.0


@pytest.mark.parametrize(
    "z", [[0.3, 0.5 + 1e-16, 0.5 + 3e-16, 0.9], [1e300, 2e300, 3e300, 4e300], [1.0, 1.0, 1.0, 1.0]]
)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_rounding_moves_no_row(z, share):
    X, y = np.array(z)[:, None], np.array([0, 1, 0, 1])
    goal = Goal(positive_rate(), positive_rate() >= share)
    clf = GoalThresholdClassifier(FirstColumn(), goal, cv="prefit").fit(X, y)
    assert clf.predict(X).mean() >= share
    assert clf.goal_report_["#1"].rate == clf.predict(X).mean()


class FirstProbability(ClassifierMixin, BaseEstimator):
    """A fitted scorer whose probability is the first column."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


@pytest.mark.parametrize("pos_label", [0, 1])
def test_the_scorers_own_threshold_is_kept_where_it_is_as_good(pos_label):
    y = np.array([0, 0, 1, 1])
    for model, z, natural in (
        (FirstColumn(), [-3.0, -2.0, 4.0, 5.0], 0.0),
        (FirstProbability(), [0.0, 0.2, 0.9, 1.0], 0.5),
        (FirstProbability(), [0.1, 0.2, 0.3, 0.4], 0.25),
    ):
        X = np.array(z)[:, None]
        clf = GoalThresholdClassifier(model, cv="prefit", pos_label=pos_label).fit(X, y)
        assert clf.threshold_ == natural
        np.testing.assert_array_equal(clf.predict(X), y)


def test_goal_is_met_and_report_is_what_predict_gives(data):
    X, y, columns = data
    clf = prefit(data, PARITY)
    said, women = clf.predict(X) == 1, columns["sex"] == "F"
    assert said[women].mean() >= 0.6 * said[~women].mean()
    assert said[y == 1].mean() >= 0.5
    parity, floor = clf.goal_report_.constraints
    assert parity.rate == pytest.approx(said[women].mean(), abs=1e-12)
    assert floor.rate == pytest.approx(said[y == 1].mean(), abs=1e-12)
    assert clf.goal_report_.objective == pytest.approx((said != y).mean(), abs=1e-12)
    assert clf.goal_report_.all_met()
    assert clf.status_ == "converged"
    assert "validation rows" in str(clf.goal_report_)
    checked = audit(clf, PARITY, X, y, populations=pd.DataFrame(columns))
    assert checked.objective == pytest.approx(clf.goal_report_.objective)


# --- which rows -----------------------------------------------------------------------------------------------------


def test_threshold_is_chosen_on_rows_that_the_estimator_did_not_see(data):
    X, y, columns = data
    clf = GoalThresholdClassifier(LogisticRegression(), PARITY, cv=None, validation_fraction=0.3, random_state=0)
    clf.fit(X, y, populations=pd.DataFrame(columns))
    assert clf.goal_report_.n_rows == 300
    whole = LogisticRegression().fit(X, y)
    assert np.abs(clf.estimator_.coef_ - whole.coef_).max() > 1e-6
    again = clone(clf).fit(X, y, populations=pd.DataFrame(columns))
    assert again.threshold_ == clf.threshold_


@pytest.mark.parametrize(("n_rows", "chosen_on"), [(9, 9), (10_000, 10_000), (10_001, 2000)])
def test_by_default_folds_choose_where_a_part_of_the_rows_would_be_few(n_rows, chosen_on):
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    y = np.arange(n_rows) % 9 < 4  # of 9 rows a class has too few for five folds, and gets four
    clf = GoalThresholdClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert clf.goal_report_.n_rows == chosen_on
    clf.set_params(goal="subject to recall() >= 0.01", confidence=0.5, on_infeasible="warn")
    if n_rows > 9:
        assert clf.fit(X, y).goal_report_.n_rows < 0.3 * n_rows


def test_a_rule_about_a_small_group_is_read_on_all_rows_also_where_a_class_has_few():
    """A fifth was held out, and of ten draws two had no row of the group: it was said to be in none of the rows."""
    X, group = np.random.default_rng(0).normal(size=(60, 2)), pd.DataFrame({"g": ["b"] * 4 + ["a"] * 56})
    y = X[:, 0] >= np.sort(X[:, 0])[-4]
    goal = "minimize error_rate()\nsubject to demographic_parity(g, difference=0.9)"
    for seed in range(10):
        clf = GoalThresholdClassifier(LogisticRegression(), goal, random_state=seed).fit(X, y, populations=group)
        assert clf.goal_report_.n_rows == 60


@pytest.mark.parametrize("cv", [3, KFold(4)])
def test_cross_validated_scores_then_fit_on_all_rows(data, cv):
    X, y, columns = data
    clf = GoalThresholdClassifier(LogisticRegression(), PARITY, cv=cv, random_state=0)
    clf.fit(X, y, populations=pd.DataFrame(columns))
    assert clf.goal_report_.n_rows == len(y)
    assert "(cross-validated)" in str(clf.goal_report_)
    np.testing.assert_allclose(clf.estimator_.coef_, LogisticRegression().fit(X, y).coef_)
    assert clf.guarantee_ is None


def test_cross_validation_of_an_overfitted_scorer_is_honest(data):
    """A forest scores its own training rows almost perfectly; out of fold it cannot reach this."""
    X, y, _ = data
    goal = Goal(error_rate(), [recall() >= 0.95, precision() >= 0.95])
    forest = RandomForestClassifier(20, random_state=0)
    seen = GoalThresholdClassifier(clone(forest).fit(X, y), goal, cv="prefit").fit(X, y)
    assert seen.goal_report_.all_met()
    with pytest.raises(InfeasibleGoalError):
        GoalThresholdClassifier(forest, goal, cv=3, random_state=0).fit(X, y)


def test_prefit_leaves_the_estimator_alone(data):
    X, y, _ = data
    model = LogisticRegression().fit(X, y)
    before = pickle.dumps(model)
    clf = GoalThresholdClassifier(model, "subject to recall() >= 0.9", cv="prefit").fit(X, y)
    assert clf.estimator_ is model
    assert pickle.dumps(model) == before
    frozen = GoalThresholdClassifier(FrozenEstimator(model), "subject to recall() >= 0.9", cv="prefit")
    assert clone(frozen).fit(X, y).threshold_ == clf.threshold_


# --- labels, weights, baselines, external ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianNB()])
def test_pos_label_may_be_the_first_class(data, model):
    X, y, _ = data
    names = np.where(y == 1, "bad", "ok")  # sorted: "bad" comes first
    clf = GoalThresholdClassifier(model, Goal(error_rate(), recall() >= 0.9), pos_label="bad", random_state=0)
    clf.set_params(cv="prefit", estimator=clone(model).fit(X, names)).fit(X, names)
    assert clf.positive_class_ == "bad"
    said = clf.predict(X)
    assert np.mean(said[names == "bad"] == "bad") >= 0.9
    np.testing.assert_array_equal(clf.decision_function(X) > 0, said == "ok")
    assert str(clf.goal_report_).startswith("Goal report. Positive class: 'bad'") or "bad" in str(clf.goal_report_)


def test_weights_equal_repetition(data):
    X, y, columns = data
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    many = np.repeat(np.arange(len(y)), weight)
    table = pd.DataFrame(columns)
    clf = GoalThresholdClassifier(LogisticRegression().fit(X, y), PARITY, cv="prefit")
    weighted = clone(clf, safe=False).set_params(estimator=clf.estimator)
    weighted.fit(X, y, sample_weight=weight, populations=table)
    clf.fit(X[many], y[many], populations=table.iloc[many])
    assert weighted.threshold_ == clf.threshold_
    assert weighted.goal_report_.objective == pytest.approx(clf.goal_report_.objective, abs=1e-12)


def test_weights_reach_the_estimator_where_it_takes_them(data):
    X, y, _ = data
    weight = np.where(y == 1, 5.0, 1.0)
    clf = GoalThresholdClassifier(LogisticRegression(), cv=2).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(clf.estimator_.coef_, LogisticRegression().fit(X, y, sample_weight=weight).coef_)
    with pytest.warns(GoalWarning, match="the weights count in the goal's rates only"):
        GoalThresholdClassifier(FirstColumn(), cv=2).fit(X, y, sample_weight=weight)


def test_baselines_and_external_rows(data):
    X, y, columns = data
    clf = prefit(data, Goal(error_rate(), churn("deployed") <= 0.12))
    assert np.mean(clf.predict(X) != columns["deployed"]) <= 0.12
    old = LogisticRegression(C=0.01).fit(X[:200], y[:200])
    clf = prefit(data, Goal(error_rate(), churn("old") <= 0.02), baselines={"old": old})
    assert np.mean(clf.predict(X) != old.predict(X)) <= 0.02
    Xt = make_data(300, seed=9)[0]
    goal = "t = external()\nsubject to positive_rate(t) <= 0.2"
    clf = GoalThresholdClassifier(LogisticRegression(), goal, random_state=0).fit(X, y, external={"t": External(Xt)})
    assert clf.predict(Xt).mean() <= 0.2
    assert dict(clf.goal_report_.external_rows) == {"t": 300}
    with pytest.raises(DataError, match="has no X"):
        clf.fit(X, y, external={"t": External(None, populations=pd.DataFrame({"a": [1]}))})


# --- containers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_every_table_gives_the_same_threshold(data, kind):
    X, y, columns = data
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind]
    clf = GoalThresholdClassifier(LogisticRegression(), PARITY, random_state=0)
    reference = clone(clf).fit(X, y, populations=pd.DataFrame(columns, index=np.arange(len(y))[::-1]))
    assert clf.fit(X, y, populations=make(columns)).threshold_ == reference.threshold_


def test_sparse_lists_and_frames_of_words(data):
    X, y, columns = data
    clf = GoalThresholdClassifier(LogisticRegression(), "subject to recall() >= 0.7", random_state=0)
    dense = clone(clf).fit(X, y).threshold_
    assert clone(clf).fit(X.tolist(), y.tolist()).threshold_ == dense
    for kind in (sp.csr_matrix, sp.csc_array, sp.coo_array):
        assert clone(clf).fit(kind(X), y).threshold_ == pytest.approx(dense, abs=1e-4)
    frame = pd.DataFrame({"x": X[:, 0], "sex": columns["sex"]})
    inner = make_pipeline(make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough"), GaussianNB())
    clf = GoalThresholdClassifier(inner, PARITY, random_state=0).fit(frame, y)  # populations from X itself
    assert list(clf.feature_names_in_) == ["x", "sex"]
    assert clf.n_features_in_ == 2
    assert set(clf.predict(frame)) == {0, 1}


def test_input_is_left_alone(data):
    X, y, table = data[0].copy(), data[1].copy(), pd.DataFrame(data[2])
    before = copy.deepcopy((X, y, table))
    clf = GoalThresholdClassifier(LogisticRegression(), PARITY, random_state=0)
    params = clf.get_params(deep=False)
    clf.fit(X, y, populations=table)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    pd.testing.assert_frame_equal(table, before[2])
    assert clf.get_params(deep=False) == params
    assert not hasattr(clf.estimator, "coef_")
    assert not hasattr(clf, "predict_proba")


# --- refusals -------------------------------------------------------------------------------------------------------

IMPOSSIBLE = Goal(error_rate(), [(recall() >= 0.95).named("floor"), (positive_rate() <= 0.2).named("cap")])


def test_infeasible_goal_is_refused_with_numbers(data):
    message = r"every one was tried\); the nearest, -?\d.*misses 2 of 2 .*'floor'.*'cap'.*reaches 0\.\d+, short by 0"
    with pytest.raises(InfeasibleGoalError, match=message):
        prefit(data, IMPOSSIBLE)


def test_nearest_threshold_has_the_least_violation(data):
    X, y, _ = data
    clf = GoalThresholdClassifier(LogisticRegression().fit(X, y), IMPOSSIBLE, cv="prefit", on_infeasible="warn")
    with pytest.warns(GoalWarning, match="no threshold of these scores meets the goal") as caught:
        clf.fit(X, y)
    assert caught[0].filename == __file__
    assert clf.status_ == "infeasible"
    assert not clf.goal_report_.all_met()

    def missed(said):
        return max(0.95 - said[y == 1].mean(), 0.0) + max(said.mean() - 0.2, 0.0)

    least = min(missed(said) for said in all_choices(clf.estimator_.decision_function(X)))
    assert missed(clf.predict(X) == 1) == pytest.approx(least, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(6, 40), floor=st.sampled_from([0.0, 0.3]), weighted=st.booleans())
def test_nearest_threshold_to_a_precision_is_so_in_its_units(seed, n, floor, weighted):
    """By the excess of `TP >= 0.97 (TP + FP)` one wrong row alone would be nearest, whose precision is 0."""
    rng = np.random.default_rng(seed)
    z, y = rng.normal(size=n), (rng.random(n) < 0.5).astype(int)
    y[np.argmax(z)], y[np.argmin(z)] = 0, 1
    weight = rng.uniform(0.5, 2.0, n) if weighted else np.ones(n)
    goal = f"subject to precision() >= 0.97\nsubject to recall() >= {floor}"
    clf = GoalThresholdClassifier(FirstColumn(), goal, cv="prefit", on_infeasible="warn")

    def missed(said):
        if not said.any():
            return 1.97
        short = 0.97 - np.average(y[said], weights=weight[said])
        return max(short, floor - np.average(said[y == 1], weights=weight[y == 1]), 0.0)

    least = min(map(missed, all_choices(z)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(z[:, None], y, sample_weight=weight)
    assert (clf.status_ == "infeasible") == (least > 0.0)
    assert missed(clf.predict(z[:, None]) == 1) <= least + 0.005


def test_nearest_threshold_to_a_ratio_that_misses_by_more_than_one():
    z, y = np.arange(10.0), np.array([0, 0, 0, 0, 1, 0, 1, 1, 1, 0])
    goal = "subject to recall() / positive_rate() >= 5"
    clf = GoalThresholdClassifier(FirstColumn(), goal, cv="prefit", on_infeasible="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(z[:, None], y)
    assert clf.predict(z[:, None]).tolist() == [0] * 6 + [1] * 4  # three quarters of the positives in .4 of the rows


class Broken(ClassifierMixin, BaseEstimator):
    """A fitted scorer with unusable scores."""

    classes_ = np.array([0, 1])

    def __init__(self, value=np.nan, width=1):
        self.value, self.width = value, width

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return np.squeeze(np.full((len(X), self.width), self.value), axis=1 if self.width == 1 else ())


HELD = train_test_split(np.arange(9), test_size=2, random_state=np.random.RandomState(0))[1][0]
"""A row that random_state=0 holds out of nine."""


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda X, y: (GoalThresholdClassifier(Broken(), cv="prefit"), X, y, {}), DataError, "1000 of 1000 scores"),
        (lambda X, y: (GoalThresholdClassifier(Broken(0.0, 3), cv="prefit"), X, y, {}), DataError, "one score a row"),
        (lambda X, y: (GoalThresholdClassifier(FirstColumn(), cv="prefit"), X, y + 1, {}), DataError, "both must be"),
        (
            lambda X, y: (GoalThresholdClassifier(GaussianNB(), randomize=True), X, y + (X[:, 2] > 1), {}),
            ValueError, "Only binary",
        ),
        (lambda X, y: (GoalThresholdClassifier(GaussianNB(), cv=3), X[:5], [0, 0, 0, 1, 1], {}), DataError, "cv=3"),
        (lambda X, y: (GoalThresholdClassifier(GaussianNB(), cv=ShuffleSplit(2)), X, y, {}), DataError, "or more"),
        (lambda X, y: (GoalThresholdClassifier(GaussianNB()), X[:4], [0, 0, 0, 1], {}), DataError, "held out"),
        (
            lambda X, y: (
                GoalThresholdClassifier(GaussianNB(), confidence=0.9, random_state=0), X[:9], np.eye(9)[HELD], {},
            ),
            DataError, "all have the same class",
        ),
        (lambda X, y: (GoalThresholdClassifier(GaussianNB(), confidence=0.3), X, y, {}), ValueError, "confidence"),
        (
            lambda X, y: (GoalThresholdClassifier(GaussianNB(), PARITY), X, y, {"populations": np.zeros((1200, 1))}),
            DataError, "1200 rows and y 1000",
        ),
        (lambda X, y: (GoalThresholdClassifier(GaussianNB(), PARITY), X, y, {}), (DataError, GoalError), "sex"),
        (lambda X, y: (GoalThresholdClassifier(GaussianNB(), pos_label=7), X, y, {}), DataError, "pos_label=7"),
    ],
)  # fmt: skip
def test_wrong_input_is_named(data, make, error, message):
    clf, X, y, arguments = make(*data[:2])
    with pytest.raises(error, match=message):
        clf.fit(X, y, **arguments)


def test_unfitted_prefit_is_refused(data):
    with pytest.raises(sklearn.exceptions.NotFittedError):
        GoalThresholdClassifier(LogisticRegression(), cv="prefit").fit(*data[:2])


def test_scores_that_do_not_differ_leave_two_thresholds(data):
    X, y, _ = data
    model = DummyClassifier(strategy="prior").fit(X, y)
    clf = GoalThresholdClassifier(model, "subject to recall() >= 0.9", cv="prefit").fit(X, y)
    assert clf.predict(X).all()


# --- inside scikit-learn, and files ---------------------------------------------------------------------------------


@routes_to_scores
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_grid_search_slices_populations(data, kind):
    X, y, columns = data
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[kind](columns)
    with sklearn.config_context(enable_metadata_routing=True):
        clf = GoalThresholdClassifier(LogisticRegression(), PARITY, random_state=0)
        clf.set_fit_request(populations=True, sample_weight=True).set_score_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), clf)
        grid = {"goalthresholdclassifier__estimator__C": [0.01, 1.0]}
        search = GridSearchCV(pipe, grid, cv=3, error_score="raise")
        search.fit(X, y, populations=table, sample_weight=np.ones(len(y)))
        result = cross_validate(
            pipe, X, y, params={"populations": table}, cv=2, return_estimator=True, error_score="raise"
        )
    assert search.best_estimator_.predict(X).shape == y.shape
    for fitted in result["estimator"]:
        assert fitted[-1].goal_report_.n_rows == 500
        assert fitted[-1].goal_report_.all_met()


def test_model_file_gives_back_the_model(data, tmp_path):
    X = data[0]
    clf = prefit(data, PARITY, confidence=0.9, on_infeasible="raise")
    save_model(clf, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    for again in (loaded, pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(again.predict(X), clf.predict(X))
        np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
        assert again.goal_ == clf.goal_
        assert again.guarantee_ == clf.guarantee_
        assert again.goal_report_ == clf.goal_report_


def test_a_class_of_few_rows_is_in_both_parts():
    """A fifth of two rows is none, and a rate of that class had no rows."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [98, 2])
    X = rng.normal(size=(100, 2)) + 3.0 * y[:, None]
    for seed in range(5):
        clf = GoalThresholdClassifier(
            LogisticRegression(), "minimize error_rate()\nsubject to recall() >= 0.5", random_state=seed
        ).fit(X, y)
        assert clf.goal_report_.all_met()


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("kind", [GoalThresholdClassifier, GoalReduction])
@pytest.mark.parametrize("around", ["pipeline", "votes"])
def test_weights_reach_the_estimator_in_pipelines_and_votes(kind, around, routing):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(200, 2)), rng.integers(1, 5, 200).astype(float)
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    plain = LogisticRegression()
    wrapped = make_pipeline(plain) if around == "pipeline" else VotingClassifier([("one", plain)], voting="soft")
    with sklearn.config_context(enable_metadata_routing=routing), warnings.catch_warnings():
        warnings.simplefilter("error", GoalWarning)
        clf = kind(wrapped, "minimize error_rate()", random_state=0).fit(X, y, sample_weight=weight)
    fitted = clf.estimator_ if kind is GoalThresholdClassifier else clf.estimator_.models[0]
    weighted = plain.fit(X, y, sample_weight=weight)
    assert fitted.predict_proba(X) == pytest.approx(weighted.predict_proba(X), abs=1e-4)


@pytest.mark.parametrize("per_population", [None, "sex"])
def test_a_model_of_two_scores_keeps_what_is_reported(per_population):
    """The folds' models have scores of their own, and thresholds between these say nothing to the model of all rows."""
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 2, (600, 1)).astype(float), (rng.random(600) < 0.3).astype(int)
    table = pd.DataFrame({"sex": rng.choice(["F", "M"], 600)})
    clf = GoalThresholdClassifier(
        DecisionTreeClassifier(), "subject to recall() >= 0.6", per_population=per_population, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtfulModelWarning)
        clf.fit(X, y, populations=table)
    said = clf.predict(X, table) if per_population else clf.predict(X)
    assert clf.goal_report_.objective == pytest.approx(np.mean(said != y))
    assert clf.goal_report_.constraints[0].rate == pytest.approx(said[y == 1].mean()) and said[y == 1].mean() >= 0.6


@pytest.mark.parametrize("kind", [GoalThresholdClassifier, GoalReduction])
@pytest.mark.parametrize("first", [None, 1, 0.5])
def test_labels_that_are_no_classes_are_named(kind, first):
    y = np.array([first] + [0.25, 0.75] * 10 if first == 0.5 else [first] + ["no", "yes"] * 10, dtype=object)
    said = {None: "1 of 21 labels are missing", 1: "'y' mixes types", 0.5: "Unknown label type"}[first]
    with pytest.raises(ValueError, match=said):
        kind(LogisticRegression()).fit(np.arange(21.0)[:, None], y.astype(float) if first == 0.5 else y)


@pytest.mark.parametrize("floor", [0.4, 1.0])
def test_a_constant_model_of_several_classes_is_named_where_its_folds_differ(floor):
    y = np.random.default_rng(0).choice(3, 600, p=[0.5, 0.3, 0.2])
    goal = f"minimize error_rate()\nsubject to recall(of=2) >= {floor}"
    clf = GoalThresholdClassifier(DecisionTreeClassifier(), goal, random_state=0)
    with pytest.warns(DoubtfulModelWarning, match="the model is constant"):
        clf.fit(np.ones((600, 1)), y)
    assert clf.goal_report_.objective == pytest.approx(np.mean(y != 2)) and (clf.predict(np.ones((3, 1))) == 2).all()


def test_a_constant_model_of_several_classes_that_misses_its_goal_is_refused():
    y = np.random.default_rng(0).choice(3, 600, p=[0.5, 0.3, 0.2])
    goal = "subject to recall(of=2) >= 0.2\nsubject to recall(of=1) >= 0.2"
    with pytest.raises(InfeasibleGoalError):
        GoalThresholdClassifier(DecisionTreeClassifier(), goal, random_state=0).fit(np.ones((600, 1)), y)


@pytest.mark.parametrize("maker", [GoalThresholdClassifier, GoalReduction])
def test_where_the_estimator_breaks_off_there_is_no_threshold(maker):
    """An earlier fit's classes, thresholds and estimator are not mixed with those of the one that failed."""

    class Breaking(LogisticRegression):
        broken = False

        def fit(self, X, y, sample_weight=None):
            if Breaking.broken:
                raise KeyboardInterrupt
            return super().fit(X, y, sample_weight)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    goal = Goal(error_rate(), [recall() >= 0.6])
    clf, fresh = (maker(Breaking(), goal, pos_label=label, random_state=0) for label in ("b", "d"))
    clf.fit(X, np.where(X[:, 0] > 0, "b", "a")).set_params(pos_label="d")
    Breaking.broken = True
    for model in (clf, fresh):
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, np.where(X[:, 0] > 0, "d", "c"))
        with pytest.raises(NotFittedError):  # it was a TypeError, or "d" by the thresholds of "b"
            model.predict(X)

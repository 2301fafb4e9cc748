"""Abstention as a third decision: thresholds on either side of a scorer's own, by brute force and by the audit."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import widemargin as wm
from widemargin.diagnostics import AuditBlock, audit_stream
from widemargin.exceptions import CapabilityError, DataError, DoubtfulModelWarning, InfeasibleGoalError
from widemargin.persistence import load_model, save_model

GOAL = "minimize abstention_rate()\nsubject to limit: selective_error() <= 0.2"


class Column(ClassifierMixin, BaseEstimator):
    """A scorer that reads its score off the first column."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.asarray(X, dtype=float)[:, 0]

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def fitted(scores, y, goal=GOAL, **options):
    X = np.asarray(scores, dtype=float)[:, None]
    scorer = Column().fit(X, np.unique(y) if len(np.unique(y)) == 2 else [0, 1])
    populations = options.pop("populations", None)
    weight = options.pop("sample_weight", None)
    clf = wm.GoalThresholdClassifier(scorer, goal, cv="prefit", abstain="unsure", **options)
    return clf.fit(X, y, populations=populations, sample_weight=weight)


def rates(decided, called, y, weight):
    """Abstention rate, selective error and recall of decisions, weighted."""
    wrong = decided & (called != y)
    share = np.average(decided, weights=weight)
    error = np.average(wrong, weights=weight) / share if share > 0 else np.nan
    return 1 - share, error, np.average((decided & (called == 1))[y == 1], weights=weight[y == 1])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_best_of_all_pairs_of_thresholds(seed, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 14))
    scores = np.round(rng.normal(size=n), 1) + 0.05  # with ties, and none at the scorer's own threshold
    y = np.r_[0, 1, (scores[2:] + rng.normal(size=n - 2) > 0).astype(int)]
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    called, distance = (scores > 0).astype(int), np.abs(scores)
    best = np.inf
    cuts = [-1.0, *distance]
    for below, above in itertools.product(cuts, cuts):
        decided = distance > np.where(called == 1, above, below)
        abstained, error, found = rates(decided, called, y, weight)
        if error <= 0.2 + 1e-12 and found >= 0.3 - 1e-12:
            best = min(best, abstained)
    goal = f"{GOAL}\nsubject to recall() >= 0.3"
    if best == np.inf:
        with pytest.raises(InfeasibleGoalError):
            fitted(scores, y, goal, sample_weight=weight)
        return
    clf = fitted(scores, y, goal, sample_weight=weight)
    assert clf.goal_report_.objective == pytest.approx(best)
    assert clf.optimality_gap_ == pytest.approx(0, abs=1e-9)
    said = clf.predict(scores[:, None])
    decided = said != "unsure"
    assert (said[decided] == called[decided]).all()
    assert rates(decided, called, y, weight)[0] == pytest.approx(best)


def test_pairs_of_thresholds_for_each_population():
    rng = np.random.default_rng(3)
    scores, y, group = rng.normal(size=16), np.zeros(16, int), np.repeat(["a", "b"], 8)
    y[:] = scores + 1.2 * rng.normal(size=16) > 0
    called, distance = (scores > 0).astype(int), np.abs(scores)
    best = np.inf
    options = [[-1.0, *distance[(group == g) & (called == c)]] for g in ("a", "b") for c in (0, 1)]
    place = 2 * (group == "b") + called
    for cuts in itertools.product(*options):
        decided = distance > np.array(cuts)[place]
        errors = [
            (decided & (called != y))[rows].sum() <= 0.2 * decided[rows].sum() for rows in (group == "a", slice(None))
        ]
        if all(errors) and decided[group == "a"].any():
            best = min(best, 1 - decided.mean())
    goal = f'a = population(group == "a")\n{GOAL}\nsubject to selective_error(a) <= 0.2'
    table = pd.DataFrame({"group": group})
    clf = fitted(scores, y, goal, per_population="group", populations=table)
    assert clf.goal_report_.objective == pytest.approx(best)
    assert clf.threshold_.shape == (2, 2)
    report = wm.audit(clf, goal, scores[:, None], y, populations=table)
    assert [item.rate for item in report.constraints] == [item.rate for item in clf.goal_report_.constraints]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = np.where(X[:, 0] + rng.normal(size=3000) > 0.3, "yes", "no")
    return X, y, pd.DataFrame({"sex": rng.choice(["f", "m"], 3000)})


@pytest.mark.parametrize("pos_label", ["yes", "no"])
@pytest.mark.parametrize("probabilities", [False, True])
def test_decisions_are_those_of_the_estimator(rows, pos_label, probabilities):
    X, y, _ = rows
    scorer = LogisticRegression().fit(X[:1000], y[:1000])
    inner = wm.KernelSVC(calibration=None, kernel="linear").fit(X[:300], y[:300]) if not probabilities else scorer
    goal = f"{GOAL}\nsubject to precision() >= 0.7"
    clf = wm.GoalThresholdClassifier(inner, goal, cv="prefit", abstain="unsure", pos_label=pos_label)
    clf.fit(X[1000:2000], y[1000:2000])
    said, own = clf.predict(X), inner.predict(X)
    decided = said != "unsure"
    assert 0.2 < decided.mean() < 1.0
    assert (said[decided] == own[decided]).all()
    assert ((clf.decision_function(X) > 0) == (own == "yes")).all()
    below, above = clf.threshold_
    score = inner.decision_function(X)
    assert (decided == ((score > above) | (score <= below))).all()
    assert clf.score(X, y) == pytest.approx((said == y).mean())
    report = wm.audit(clf, goal, X[1000:2000], y[1000:2000])
    assert [item.rate for item in report.constraints] == [item.rate for item in clf.goal_report_.constraints]
    assert report["limit"].rate <= 0.2


def test_a_confidence_is_proved_by_the_exact_test_of_the_decisions(rows):
    X, y, _ = rows
    clf = wm.GoalThresholdClassifier(LogisticRegression(), GOAL, abstain="unsure", confidence=0.9, random_state=0)
    clf.set_params(validation_fraction=0.4).fit(X, y)
    assert "exact binomial test" in clf.guarantee_
    item = clf.goal_report_["limit"]
    assert binom.cdf(round(item.numerator), round(item.denominator), 0.2) <= 0.1
    rng = np.random.default_rng(1)
    fresh = rng.normal(size=(20000, 3))
    truth = np.where(fresh[:, 0] + rng.normal(size=20000) > 0.3, "yes", "no")
    report = clf.prove(fresh, truth, confidence=0.95)
    assert report["limit"].rate <= 0.2
    assert "With probability >= 0.95" in report.certificate
    with pytest.raises(InfeasibleGoalError, match="could be chance"):
        clf.prove(fresh[:60], truth[:60])


def test_an_audit_counts_decisions(rows):
    X, y, table = rows
    model = LogisticRegression().fit(X[:1000], y[:1000])
    said = model.predict(X).astype(object)
    said[np.abs(model.decision_function(X)) < 0.8] = "unsure"
    decided = said != "unsure"
    goal = """f = population(sex == "f")
minimize abstention_rate()
subject to selective_error(f) <= 0.3
subject to coverage(abstain=True) >= 0.5
subject to recall() >= 0.1
subject to negative_rate(f) >= 0.1
subject to precision() >= 0.1
subject to error_rate() <= 0.4"""
    report = wm.audit(said, goal, y=y, populations=table, abstain="unsure", pos_label="yes")
    f, yes = table["sex"] == "f", y == "yes"
    wrong = decided & (said != y)
    assert report.objective == pytest.approx(1 - decided.mean())
    assert [item.rate for item in report.constraints] == pytest.approx([
        wrong[f].sum() / decided[f].sum(), decided.mean(), (said[yes] == "yes").mean(), (said[f] == "no").mean(),
        yes[said == "yes"].mean(), wrong.mean(),
    ])  # fmt: skip
    assert report.constraints[0].interval.method == "clopper-pearson"
    groups = {item.name: item for item in report.groups}
    assert groups["f"].decision_rate.value == pytest.approx(decided[f].mean())
    assert groups["f"].selective_error.value == pytest.approx(report.constraints[0].rate)
    assert groups["f"].positive_rate.value == pytest.approx((said[f] == "yes").mean())
    again = type(report).from_dict(report.to_dict())
    assert again == report
    blocks = [AuditBlock(said[k::3], y[k::3], populations=table[k::3]) for k in range(3)]
    assert audit_stream(blocks, goal, classes=("no", "yes"), abstain="unsure").constraints == report.constraints
    weight = np.random.default_rng(0).integers(1, 3, len(y))
    twice = np.repeat(np.arange(len(y)), weight)
    parts = [wm.audit(said, goal, y=y, populations=table, sample_weight=weight, abstain="unsure", confidence=None)]
    parts += [wm.audit(said[twice], goal, y=y[twice], populations=table.iloc[twice], abstain="unsure", confidence=None)]
    assert [item.rate for item in parts[0].constraints] == pytest.approx([item.rate for item in parts[1].constraints])


def test_of_a_model_that_abstains_on_all_rows_nothing_is_shown():
    report = wm.audit(["?", "?"], GOAL, y=[0, 1], abstain="?")
    assert report["limit"].verdict == "undefined"
    assert report.cautions == ("the model abstains on all of the 2 rows.",)


@pytest.mark.parametrize(
    ("goal", "warned"),
    [
        ("minimize error_rate(); subject to recall() >= 0.2", True),
        ("minimize error_rate(); subject to selective_error() <= 0.1", True),
        ("minimize error_rate(); subject to recall() >= 0.2; subject to decision_rate() >= 0.25", False),
        ("minimize abstention_rate(); subject to selective_error() <= 0.001", False),
    ],
)
def test_that_most_rows_are_undecided_is_said_where_the_goal_does_not_limit_them(rows, goal, warned):
    X, y, _ = rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = wm.GoalThresholdClassifier(LogisticRegression(), goal, abstain="unsure", random_state=0).fit(X, y)
    undecided = np.mean(model.predict(X) == "unsure")
    assert undecided > 0.55
    said = [caution for caution in model.goal_report_.cautions if "undecided, which the goal does not limit" in caution]
    assert len(said) == warned
    assert sum("undecided, which" in str(one.message) for one in caught) == warned


def test_without_abstention_every_row_is_decided(rows):
    X, y, _ = rows
    model = LogisticRegression().fit(X, y)
    report = wm.audit(model, f"{GOAL}\nsubject to error_rate() <= 0.5", X, y)
    assert report.objective == 0
    assert report["limit"].rate == pytest.approx(report.constraints[1].rate)


def test_saved_and_loaded(rows, tmp_path):
    X, y, _ = rows
    clf = wm.GoalThresholdClassifier(LogisticRegression(), GOAL, abstain="unsure", random_state=0).fit(X, y)
    save_model(clf, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert (again.predict(X) == clf.predict(X)).all()
    scorer = wm.goal_scorer(GOAL)
    assert scorer(again, X, y) == pytest.approx(-(clf.predict(X) == "unsure").mean(), abs=1.5)


@pytest.mark.parametrize(("abstain", "kind"), [(-1, "i"), ("unsure", "O")])
def test_the_type_of_the_answer(abstain, kind):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200)
    y = (scores + rng.normal(size=200) > 0).astype(int)
    scorer = Column().fit(scores[:, None], y)
    clf = wm.GoalThresholdClassifier(scorer, GOAL, cv="prefit", abstain=abstain).fit(scores[:, None], y)
    said = clf.predict(scores[:, None])
    assert said.dtype.kind == kind
    assert set(said.tolist()) == {0, 1, abstain}


def test_nan_is_an_answer_that_audits_know():
    X, y = np.arange(8.0)[:, None] - 3.5, np.array([0, 0, 1, 0, 1, 0, 1, 1])
    goal = "minimize abstention_rate(); subject to selective_error() <= 0"
    clf = wm.GoalThresholdClassifier(Column().fit(X, y), goal, cv="prefit", abstain=np.nan).fit(X, y)
    said = clf.predict(X)
    assert (said != said).sum() == 4
    assert wm.audit(clf, goal, X, y).objective == 0.5
    assert wm.audit(said, goal, y=y, abstain=np.nan).objective == 0.5


def test_a_side_that_no_row_has_shown_is_left_undecided():
    clf = fitted([1.0, 2.0, 3.0, 4.0], [0, 1, 1, 1])
    assert clf.threshold_[0] == -np.inf
    assert clf.predict([[-1.0], [4.0]]).tolist() == ["unsure", 1]


@pytest.mark.parametrize(
    "model", [wm.GoalThresholdClassifier(Column(), GOAL, cv="prefit"), wm.RateConstrainedClassifier(GOAL)]
)
def test_a_model_that_decides_every_row_says_so(model):
    X, y = np.arange(8.0)[:, None] - 3.5, np.repeat([0, 1], 4)
    if hasattr(model, "estimator"):
        model.estimator.fit(X, y)
    with pytest.warns(DoubtfulModelWarning, match="this model decides all of them. GoalThresholdClassifier"):
        model.fit(X, y)


def test_refusals():
    X, y = np.arange(8.0)[:, None] - 3.5, np.repeat([0, 1], 4)
    with pytest.raises(DataError, match="without a goal decides no row"):
        wm.GoalThresholdClassifier(Column(), abstain="unsure").fit(X, y)
    with pytest.raises(DataError, match="is one of the classes"):
        wm.GoalThresholdClassifier(Column(), GOAL, abstain=1).fit(X, y)
    for label, classes in (("1", y), ("True", y == 1)):  # a CSV file of predictions could not tell them apart
        with pytest.raises(DataError, match=r"is one of the classes .* as it is written"):
            wm.GoalThresholdClassifier(Column(), GOAL, abstain=label).fit(X, classes)
        with pytest.raises(DataError, match=r"is one of the classes .* as it is written"):
            wm.audit(classes, GOAL, y=classes, abstain=label)
    with pytest.raises(CapabilityError, match="fixed thresholds only"):
        wm.GoalThresholdClassifier(Column(), GOAL, abstain=2, randomize=True).fit(X, y)
    with pytest.raises(DataError, match="is one of the classes"):
        wm.audit([0, 1], GOAL, y=[0, 1], abstain=1)
    with pytest.raises(DataError, match="which is neither class"):
        wm.audit([0, "?"], GOAL, y=[0, 1], abstain="unsure")
    for said in ([0, "?"], [0, 2]):
        with pytest.raises(DataError, match="named by abstain="):
            wm.audit(said, GOAL, y=[0, 1])
    with pytest.raises(InfeasibleGoalError, match="no pair of thresholds"):
        fitted([-1.0, 1.0], [1, 0])
    with pytest.raises(DataError, match="about scores"):
        wm.audit([0, 1], "subject to margin_quantile(0.1) >= 0", y=[0, 1])
    with pytest.raises(DataError, match="about scores"):
        wm.RateConstrainedClassifier("subject to margin_quantile(0.1) >= 0").fit(X, y)


def test_rows_of_small_probabilities_are_told_apart():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = np.repeat(rng.normal(size=(400, 1)) + y[:, None], 100, axis=1)  # naive Bayes counts it a hundred times
    model = GaussianNB().fit(X, y)
    share = model.predict_proba(X)[:, 1]
    goal = "minimize abstention_rate()\nsubject to selective_error() <= 0.15"
    clf = wm.GoalThresholdClassifier(model, goal, cv="prefit", abstain="unsure").fit(X, y)
    best = 1.0
    for below in np.append(np.unique(share[share <= 0.5]), -1.0):
        for above in np.append(np.unique(share[share > 0.5]), 2.0):
            decided = (share <= below) | (share >= above)
            if decided.any() and np.mean((share > 0.5)[decided] != y[decided]) <= 0.15:
                best = min(best, 1.0 - decided.mean())
    assert clf.goal_report_.objective == pytest.approx(best, abs=1e-12)
    assert np.mean(clf.predict(X) == "unsure") == pytest.approx(best, abs=1e-12)

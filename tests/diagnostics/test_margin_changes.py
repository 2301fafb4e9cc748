"""Who lost margin, which rows stand out, which labels are suspects, what abstention would buy."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_1samp
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import widemargin as wm
from widemargin.diagnostics import MarginReport, margins_of
from widemargin.diagnostics.margins import risk_coverage
from widemargin.exceptions import DataError


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(400, 6, random_state=0)
    return X, y, np.where(X[:, 0] > 0, "left", "right")


# Changes


def test_changes_are_those_of_the_rows(rows):
    X, y, groups = rows
    before, after = LogisticRegression(C=10.0).fit(X, y), LogisticRegression(C=1e-3).fit(X[:, ::-1] * 0.5 + X * 0.5, y)
    changes = wm.margin_changes(before, after, X, y, groups, normalize=None, confidence=0.9)
    sign = 2 * y - 1
    old, new = sign * before.decision_function(X), sign * after.decision_function(X)
    for item, rows_of in [
        (changes.overall, slice(None)),
        *((changes[name], groups == name) for name in ("left", "right")),
    ]:
        change = (new - old)[rows_of]
        assert (item.n_rows, item.lost) == (len(change), (change < 0).mean())
        interval = binomtest(int((change < 0).sum()), len(change)).proportion_ci(0.9, "exact")
        assert item.lost_interval == pytest.approx((interval.low, interval.high))
        assert item.mean == pytest.approx(change.mean())
        assert item.mean_interval == pytest.approx(tuple(ttest_1samp(change, 0).confidence_interval(0.9)))
        assert item.turned_wrong == ((old > 0) & (new <= 0))[rows_of].mean()
        assert item.turned_right == ((old <= 0) & (new > 0))[rows_of].mean()
    means = [item.mean for item in changes.groups]
    assert means == sorted(means)
    assert [item.row for item in changes.losers] == np.argsort(new - old, kind="stable")[:10].tolist()
    assert changes.names == ("LogisticRegression before", "LogisticRegression after")
    assert "turned wrong" in str(changes) and "<table" in changes._repr_html_()
    assert list(changes.to_frame().index) == ["all rows", *(item.name for item in changes.groups)]
    assert json.loads(json.dumps(changes.to_dict()))["overall"]["lost"] == changes.overall.lost
    with pytest.raises(KeyError, match="no group"):
        changes["up"]


def test_models_of_other_units_are_compared_by_their_medians(rows):
    X, y, _ = rows
    clf = LogisticRegression().fit(X, y)
    scores = clf.decision_function(X)
    same = wm.margin_changes(clf, 1000.0 * scores, X, y)
    assert same.overall.mean == pytest.approx(0, abs=1e-12)
    assert wm.margin_changes(margins_of(clf, X, y), margins_of(clf, X, y)).overall.lost == 0
    assert not wm.margin_changes(clf, clf, X, y).losers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], [1.0]), "give y"),
        (([1.0, 2.0], [1.0, 2.0], None, [0, 1], None, 2), "confidence must lie"),
    ],
)
def test_changes_need_rows(arguments, message):
    (*arguments,) = arguments
    confidence = arguments.pop() if len(arguments) == 6 else 0.95
    with pytest.raises(DataError, match=message):
        wm.margin_changes(*arguments, confidence=confidence)


# Risk and coverage, intervals


@given(st.integers(0, 2**32 - 1))
def test_risk_coverage_by_its_definition(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    certainty, wrong, weight = rng.integers(0, 4, n).astype(float), rng.random(n) < 0.4, rng.integers(1, 3, n)
    found = risk_coverage(certainty, wrong, weight.astype(float))
    twice = np.repeat(np.arange(n), weight)
    # Each row is decided together with all that are at least as sure.
    errors = [wrong[twice][certainty[twice] >= certainty[row]].mean() for row in twice]
    assert found.area == pytest.approx(np.mean(errors))
    assert found.errors[-1] == pytest.approx(wrong[twice].mean())
    assert found.best_area <= found.area + 1e-12


def test_the_best_area_is_that_of_an_oracle():
    wrong = np.arange(100_000) < 30_000
    assert risk_coverage(np.arange(100_000.0), wrong, np.ones(100_000)).area == pytest.approx(
        risk_coverage(np.zeros(1), np.zeros(1, bool), np.ones(1)).best_area + 0.3 + 0.7 * np.log(0.7), abs=1e-4
    )


def test_a_report_shows_what_abstention_would_buy(rows):
    X, y, groups = rows
    clf = LogisticRegression().fit(X[:200], y[:200])
    report = wm.margin_report(clf, X, y, groups)
    score, wrong = np.abs(clf.decision_function(X)), clf.predict(X) != y
    order = np.argsort(-score)
    curve = report.overall.risk_coverage
    assert curve.errors == pytest.approx([wrong[order[: 40 * k]].mean() for k in range(1, 11)])
    assert curve.area == pytest.approx((np.cumsum(wrong[order]) / np.arange(1, 401)).mean())
    assert "AURC" in str(report) and report["left"].risk_coverage.errors[-1] == wrong[groups == "left"].mean()
    assert MarginReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    interval = binomtest(int(wrong.sum()), 400).proportion_ci(0.95, "exact")
    assert report.overall.below_interval == pytest.approx((interval.low, interval.high))
    assert report.to_frame()["risk_area"]["all rows"] == curve.area
    assert wm.margin_report(clf, X, y, sample_weight=np.full(400, 2.0)).overall.below_interval is None
    digits, label = load_digits(return_X_y=True)
    many = LogisticRegression(max_iter=1000).fit(digits[:300] / 16, label[:300])
    scores = np.sort(many.decision_function(digits / 16), axis=1)
    wrong = (many.predict(digits / 16) != label)[np.argsort(scores[:, -2] - scores[:, -1], kind="stable")]
    assert wm.margin_report(many, digits / 16, label).overall.risk_coverage.errors[0] == wrong[:180].mean()


def test_a_median_interval_covers(rows):
    rng = np.random.default_rng(0)
    held = []
    for _ in range(400):
        low, high = wm.margin_report(rng.exponential(size=25), y=[1] * 25, classes=[0, 1]).overall.median_interval
        held.append(low <= np.log(2) <= high)
    assert np.mean(held) >= 0.93  # at least 95% but for the draws of this test


# Leverage


def test_leverage_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    X[:, 3] = X[:, 2] + 3e-6 * X[:, 3]  # nearly the same column
    near = X[:, 2] + (X[:, 3] - X[:, 2]) / 3e-6
    wanted = np.column_stack([X[:, :3], near])
    hat = np.column_stack([LinearRegression().fit(wanted, row).predict(wanted) for row in np.eye(60)]).diagonal()
    for units in (np.ones(4), [1e-8, 1.0, 1e8, 1e8]):
        found = wm.margin_report(np.ones(60), X * units, y, leverage=60).leverage
        assert [item.leverage for item in found] == pytest.approx(hat[[item.row for item in found]], rel=1e-3)


def test_leverage_is_the_diagonal_of_the_hat_matrix(rows):
    X, y, _ = rows
    X = np.column_stack([X, X[:, 0], np.ones(400)])  # a column twice, and a constant one
    X[7] *= 10
    clf = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    report = wm.margin_report(clf, X, y, leverage=3)
    hat = np.column_stack([LinearRegression().fit(X, row).predict(X) for row in np.eye(400)[:20]]).diagonal()
    assert report.leverage[0].row == 7
    assert report.leverage[0].leverage == pytest.approx(hat[7])
    assert report.leverage[0].margin == (2 * y[7] - 1) * clf.decision_function(X)[7]
    assert len(report.leverage) == 3 and "leverage" in str(report)
    assert MarginReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    plain = LogisticRegression().fit(X, y)
    sparse = wm.margin_report(plain, sp.csr_array(X), y, leverage=3).leverage
    assert [item.row for item in sparse] == [item.row for item in report.leverage]
    with pytest.raises(DataError, match="leverage needs numbers"):
        wm.margin_report(plain.decision_function(X), pd.DataFrame({"word": ["a"] * 400}), y, leverage=1)


# Suspects


@pytest.mark.parametrize("clf", [LogisticRegression(), LinearSVC()], ids=lambda clf: type(clf).__name__)
def test_planted_labels_are_found(clf):
    X, y = load_iris(return_X_y=True)
    X, y = (X[y > 0], np.array(["a", "b"])[y[y > 0] - 1])
    rng = np.random.default_rng(0)
    planted = rng.permutation(100)[:8]
    wrong = y.copy()
    wrong[planted] = np.where(y[planted] == "a", "b", "a")
    found = wm.label_suspects(make_pipeline(StandardScaler(), clf), X, wrong, random_state=0)
    is_planted = np.isin(np.arange(100), planted)
    assert average_precision_score(is_planted, -found.margin) > 0.7
    named = [item.row for item in found.suspects]
    assert len(set(named) & set(planted.tolist())) >= 6
    assert found.ranking.tolist() == np.argsort(found.margin, kind="stable").tolist()
    assert [item.margin for item in found.suspects] == sorted(item.margin for item in found.suspects)
    assert all(item.label == wrong[item.row] and item.other != item.label for item in found.suspects)
    assert str(named[0]) in str(found) and "<table" in found._repr_html_()
    assert list(found.to_frame().index) == named
    again = wm.label_suspects(make_pipeline(StandardScaler(), clf), pd.DataFrame(X), wrong.tolist(), random_state=0)
    assert again.margin == pytest.approx(found.margin)


def test_few_rows_are_suspects_beside_a_rare_class_that_is_hardly_known():
    X, y = make_classification(1500, 20, n_informative=10, n_redundant=0, weights=[0.93], flip_y=0, random_state=7)
    planted = np.random.default_rng(0).random(1500) < 0.1
    found = wm.label_suspects(LogisticRegression(), X, y ^ planted, repeats=1, random_state=0)
    assert len(found.suspects) < 0.2 * 1500


@pytest.mark.parametrize("missing", [None, np.nan])
def test_suspects_need_labels(missing):
    y = np.array([missing, *([0, 1] * 10)], dtype=object)
    with pytest.raises(DataError, match="1 of 21 labels are missing"):
        wm.label_suspects(LogisticRegression(), np.arange(21.0)[:, None], y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [0, 1, 0]}, "give one label per row"),
        ({"y": [0, 0, 0, 1]}, "the smallest of 2 has 1"),
        ({"y": [0, 0, 0, 0], "folds": 2}, "two classes"),
        ({"y": [0, 0, 1, 1], "folds": 1}, "at least 2 folds"),
    ],
)
def test_suspects_need_rows_of_every_class(arguments, message):
    with pytest.raises(DataError, match=message):
        wm.label_suspects(LogisticRegression(), np.zeros((4, 1)), **arguments)

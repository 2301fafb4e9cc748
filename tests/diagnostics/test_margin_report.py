"""margin_report: margins of all kinds of classifiers, statistics against scipy, groups, and what is refused."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from testing.margin_problems import task

import widemargin as wm
from widemargin.diagnostics import MarginReport, margins_of
from widemargin.exceptions import CapabilityError, DataError
from widemargin.losses import catoni_location

X, Y = task(n=200)
IRIS, KIND = load_iris(return_X_y=True)


def test_margins_of_two_classes():
    clf = LogisticRegression().fit(X, Y)
    np.testing.assert_allclose(margins_of(clf, X, Y).values, Y * clf.decision_function(X))
    words = np.where(Y > 0, "a", "b")  # the second class in sorted order is b
    worded = LogisticRegression().fit(X, words)
    np.testing.assert_allclose(margins_of(worded, X, words).values, -Y * worded.decision_function(X))
    bayes = GaussianNB().fit(X, Y)
    found = margins_of(bayes, X, Y)
    np.testing.assert_allclose(found.values, Y * (2 * bayes.predict_proba(X)[:, 1] - 1), atol=1e-12)
    assert (found.source, found.unit) == ("predict_proba", "differences of probabilities")
    np.testing.assert_array_equal(margins_of(clf.decision_function(X), None, Y).values, margins_of(clf, X, Y).values)


@pytest.mark.parametrize(
    "clf", [SVC(), LogisticRegression(max_iter=1000), RandomForestClassifier(10, random_state=0), wm.KernelSVC(),
            wm.MarginPursuitClassifier()], ids=lambda clf: type(clf).__name__
)  # fmt: skip
def test_margins_of_more_classes_are_positive_where_the_label_wins(clf):
    clf.fit(IRIS, KIND)
    found = margins_of(clf, IRIS, KIND).values
    name = "decision_function" if hasattr(clf, "decision_function") else "predict_proba"
    scores = getattr(clf, name)(IRIS)
    right = scores.argmax(axis=1) == KIND
    assert (found[right] >= 0).all() and (found[~right] <= 0).all()
    second = np.sort(scores, axis=1)[:, -2]
    np.testing.assert_allclose(found[right], scores.max(axis=1)[right] - second[right])


@pytest.mark.parametrize("clf", [wm.RateConstrainedClassifier(), wm.KernelPerceptron(), wm.SBPClassifier()])
def test_classifiers_of_this_library(clf):
    clf.fit(X, Y)
    report = wm.margin_report(clf, X, Y)
    wrong = (clf.predict(X) != Y).mean()
    assert report.overall.below == pytest.approx(wrong, abs=0.01)


def test_structured_classifiers_give_their_own_margins():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 4))
    sets = (rows[:, :3] + 0.3 * rng.normal(size=(40, 3)) > 0).astype(int)
    clf = wm.MultiLabelSVC("tree", C=1.0, random_state=0).fit(rows, sets)
    margins = clf.margins(rows, sets)
    all_sets = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
    scores = np.array([[_score(clf, row, labels) for labels in all_sets] for row in rows])
    for i in range(40):
        own = (all_sets == sets[i]).all(axis=1)
        assert margins[i] == pytest.approx(scores[i][own][0] - scores[i][~own].max(), abs=1e-9)
    report = wm.margin_report(clf, rows, sets, groups=rows[:, 0] > 0)
    assert report.source == "margins" and len(report.groups) == 2
    assert report.overall.below == pytest.approx((clf.predict(rows) != sets).any(axis=1).mean())
    sequences = [rng.normal(size=(length, 2)) for length in (3, 5, 4)]
    states = [np.where(x[:, 0] > 0, "up", "down") for x in sequences]
    chain = wm.ChainSVC(tol=0.1, random_state=0).fit(sequences, states)
    right = [(a == b).all() for a, b in zip(chain.predict(sequences), states, strict=True)]
    assert ((chain.margins(sequences, states) > 0) == right).all()
    with pytest.raises(DataError, match="other lengths"):
        chain.margins(sequences, [s[:1] for s in states])
    with pytest.raises(DataError, match="y has the shape"):
        clf.margins(rows, sets[:, :2])
    with pytest.raises(CapabilityError, match="'levels'"):
        many = np.hstack([sets] * 7)  # a greedy oracle, for so many labels
        wm.MultiLabelSVC("full", C=0.3, tol=0.5, max_iter=1000, random_state=0).fit(rows, many).margins(rows, many)


def _score(clf, row, labels):
    u = (row @ clf.coef_.T + clf.intercept_)[None, :]
    return clf.model_.score(labels, u, clf.theta_)


def test_statistics_are_those_of_scipy():
    m = stats.t(3).rvs(300, random_state=0)
    y = np.where(np.arange(300) % 2 == 0, 1, -1)
    report = wm.margin_report(y * m, y=y, quantiles=(0.1, 0.9), level=0.5, delta=0.1)
    found = report.overall
    assert found.mean == pytest.approx(m.mean()) and found.median == pytest.approx(np.median(m))
    low, high = np.quantile(m, [0.25, 0.75], method="averaged_inverted_cdf")
    assert found.sd == pytest.approx(m.std()) and found.iqr == pytest.approx(high - low)
    assert found.skewness == pytest.approx(stats.skew(m)) and found.minimum == m.min()
    np.testing.assert_allclose(found.quantiles, np.quantile(m, [0.1, 0.9], method="averaged_inverted_cdf"))
    assert found.below == pytest.approx((m < 0.5).mean())
    location = catoni_location(m, "catoni", 0.1)
    assert (found.catoni, found.catoni_radius) == (location.value, location.radius)


@pytest.mark.parametrize("normalize", [None, "median", "max"])
def test_weights_count_rows_more_than_once(normalize):
    rng = np.random.default_rng(1)
    m, weight = rng.normal(size=60), rng.integers(0, 4, 60)
    m[np.flatnonzero(weight == 0)[0]] = 50.0  # counts for nothing, also as the largest
    y = np.where(np.arange(60) % 2 == 0, 1, -1)
    one = wm.margin_report(y * m, y=y, sample_weight=weight, normalize=normalize).overall
    repeated = np.repeat(np.arange(60), weight)
    two = wm.margin_report((y * m)[repeated], y=y[repeated], normalize=normalize).overall
    for name in ("mean", "median", "quantiles", "iqr", "sd", "skewness", "minimum", "below", "weight"):
        assert getattr(one, name) == pytest.approx(getattr(two, name)), name
    assert one.n_rows == (weight > 0).sum()  # as groups of an audit are counted
    plain = wm.margin_report(y * m, y=y, normalize=normalize).overall
    even = wm.margin_report(y * m, y=y, sample_weight=np.full(60, 0.3), normalize=normalize).overall
    assert (even.median, even.quantiles) == (plain.median, plain.quantiles)


@pytest.mark.parametrize("wrap", [lambda clf: clf, make_pipeline, lambda clf: GridSearchCV(clf, {"C": [1.0]})])
@pytest.mark.parametrize("clf", [SVC(decision_function_shape="ovo"), wm.KernelSVC(decision_function_shape="ovo")])
def test_scores_of_pairs_of_classes_are_refused(clf, wrap):
    """Three classes have three pairs: the shapes tell nothing, and 81% of iris would seem wrong."""
    fitted = wrap(clf).fit(IRIS, KIND)
    assert fitted.decision_function(IRIS).shape == (150, 3)
    with pytest.raises(DataError, match=r"scores of pairs of classes.*'ovr'"):
        wm.margin_report(fitted, IRIS, KIND)
    two = KIND < 2
    assert wm.margin_report(wrap(clf).fit(IRIS[two], KIND[two]), IRIS[two], KIND[two]).overall.below == 0.0


@pytest.mark.parametrize("clf", [SVC(kernel="linear"), wm.KernelSVC(kernel="linear")])
def test_weights_of_pairs_of_classes_are_no_norms_of_classes(clf):
    with pytest.raises(DataError, match="belong to pairs of classes"):
        margins_of(clf.fit(IRIS, KIND), IRIS, KIND, normalize="norm")
    clf.fit(X, Y)
    expected = Y * clf.decision_function(X) / np.linalg.norm(clf.coef_)
    np.testing.assert_allclose(margins_of(clf, X, Y, normalize="norm").values, expected)


def test_norms_of_sparse_weights_and_of_mapped_features():
    sparse = sp.csr_matrix(X)
    clf = SVC(kernel="linear").fit(sparse, Y)
    expected = Y * clf.decision_function(sparse) / np.linalg.norm(clf.coef_.toarray())
    np.testing.assert_allclose(margins_of(clf, sparse, Y, normalize="norm").values, expected)
    mapped = wm.MarginPursuitClassifier(kernel="rbf", feature_map="fourier", random_state=0).fit(X, Y)
    assert "in the space of the feature map" in margins_of(mapped, X, Y, normalize="norm").unit


def test_scores_of_a_part_of_the_classes():
    clf = LogisticRegression().fit(X, Y)
    scores, positive = clf.decision_function(X), Y > 0
    with pytest.raises(DataError, match=r"classes are 1.0; .*classes="):
        wm.margin_report(scores[positive], y=Y[positive])
    report = wm.margin_report(scores[positive], y=Y[positive], classes=[-1, 1])
    assert report.overall == wm.margin_report(clf, X[positive], Y[positive]).overall
    many = LogisticRegression(max_iter=1000).fit(IRIS, KIND).decision_function(IRIS[:100])
    np.testing.assert_array_equal(
        margins_of(many, None, KIND[:100], classes=[0, 1, 2]).values,
        margins_of(LogisticRegression(max_iter=1000).fit(IRIS, KIND), IRIS[:100], KIND[:100]).values,
    )
    shares = clf.predict_proba(X)
    np.testing.assert_allclose(margins_of(shares, None, Y).values, Y * (shares[:, 1] - shares[:, 0]))


def test_skewness_does_not_depend_on_the_unit():
    m = stats.expon.rvs(size=50, random_state=0) * 1e-15
    found = wm.margin_report(m, y=[1] * 50, classes=[0, 1]).overall
    assert found.skewness == pytest.approx(stats.skew(m))


def test_groups_of_every_kind_of_column():
    pd = pytest.importorskip("pandas")
    y = np.array([1, 1, 0, 0, 1, 0])
    scores = np.array([1.0, 2.0, -3.0, 1.0, 0.5, -1.0])
    names = ["a", "b", "a", None, "b", "a"]
    for groups in (names, pd.Series(names), np.array(names, dtype=object)):
        report = wm.margin_report(scores, y=y, groups=groups)
        assert [item.name for item in report.groups] == ["a", "b"] and report.n_missing == 1
        assert report["a"].mean == pytest.approx((1 + 3 + 1) / 3)
        assert report["b"].minimum == 0.5
    assert [item.name for item in wm.margin_report(scores, y=y, groups=[0, 0, 1, 1, 2, 2]).groups] == ["0", "1", "2"]
    with pytest.raises(KeyError, match="no group 'z'"):
        report["z"]
    assert "1 rows have no group" in str(report)


def test_normalizers():
    clf = LogisticRegression().fit(X, Y)
    raw = margins_of(clf, X, Y).values
    norm = np.linalg.norm(clf.coef_)
    for given, size in (("norm", norm), ("median", np.median(np.abs(raw))), ("max", np.abs(raw).max()), (2.0, 2.0)):
        np.testing.assert_allclose(margins_of(clf, X, Y, normalize=given).values, raw / size)
    many = LogisticRegression(max_iter=1000).fit(IRIS, KIND)
    distances = margins_of(many, IRIS, KIND, normalize="norm").values
    scores = many.decision_function(IRIS)
    for i in (0, 60, 120):
        others = [c for c in range(3) if c != KIND[i]]
        rival = max(others, key=lambda c: scores[i, c])
        gap = many.coef_[KIND[i]] - many.coef_[rival]
        assert distances[i] == pytest.approx((scores[i, KIND[i]] - scores[i, rival]) / np.linalg.norm(gap))
    with pytest.raises(DataError, match="needs a linear classifier"):
        margins_of(SVC().fit(X, Y), X, Y, normalize="norm")
    with pytest.raises(DataError, match="divides by 0"):
        margins_of(np.zeros(4), None, [0, 1, 0, 1], normalize="max")
    for bad in ("mean", -1.0, True):
        with pytest.raises(DataError, match="normalize is"):
            margins_of(clf, X, Y, normalize=bad)


def test_a_report_survives_json_and_shows_itself():
    clf = wm.MarginPursuitClassifier().fit(X, Y)
    report = wm.margin_report(clf, X, Y, groups=np.where(X[:, 0] > 0, "<b>", "low"), data_name="200 rows")
    assert MarginReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    text = str(report)
    assert text.splitlines()[0] == (
        "Margins of MarginPursuitClassifier as scores (from decision_function); 200 rows, 200 rows."
    )
    assert "Catoni" in text and "low" in text
    page = report._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and page.count("<tr>") == 4
    frame = report.to_frame()
    assert frame.loc["all rows", "q0.05"] == report.overall.quantiles[0] and list(frame.index)[1:] == ["<b>", "low"]
    for plain in ({}, {"format": 99}, {"format": 1, "overall": {}}):
        with pytest.raises(DataError, match="report"):
            MarginReport.from_dict(plain)


def test_equal_margins_have_no_skewness():
    report = wm.margin_report([1.0, -1.0], y=[1, 0])
    assert report.overall.skewness is None and report.overall.catoni_radius is None
    assert " - " in str(report)


def test_margins_whose_third_powers_underflow_have_no_skewness():
    overall = wm.margin_report(1e-150 * np.array([-1.0, 1.0, 3.0]), y=[0, 1, 1]).overall
    assert overall.skewness is None and overall.median == 1e-150


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None}, "give y"),
        ({"y": [1, 0]}, "y has the shape"),
        ({"clf": LogisticRegression}, "is a class"),
        ({"clf": type("Silent", (), {"predict": None})()}, "has no decision_function"),
        ({"clf": [1.0, np.nan, 1.0]}, "not finite"),
        ({"clf": [1.0, 1e150, 1.0]}, r"as large as 1e\+150 overflow"),
        ({"clf": [[1.0, 2.0, 3.0]] * 3}, "scores have the shape"),
        ({"groups": ["a"]}, "groups has 1 values"),
        ({"quantiles": (2.0,)}, "between 0 and 1"),
        ({"delta": 0.0}, "delta is"),
        ({"level": np.nan}, "level is nan"),
        ({"level": "low"}, "level is 'low'"),
        ({"y": [1, 0, None]}, "1 of 3 labels are missing"),
        ({"clf": LogisticRegression().fit([[0.0], [1.0]], [0, 1])}, "give X"),
        ({"sample_weight": [1.0]}, "sample_weight has the shape"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, "no row of positive weight"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments, message):
    given = {"clf": [1.0, 2.0, -1.0], "y": [1, 1, 0]} | arguments
    with pytest.raises(DataError, match=message):
        wm.margin_report(given.pop("clf"), **given)


def test_a_classifier_that_is_not_fitted_is_named_so():
    with pytest.raises(NotFittedError):
        wm.margin_report(LogisticRegression(), X, Y)


def test_labels_that_the_classifier_does_not_know_are_refused():
    clf = LogisticRegression().fit(X, Y)
    with pytest.raises(DataError, match="the classifier knows"):
        wm.margin_report(clf, X, np.where(Y > 0, 1, 7))


def test_margins_of_some_rows_are_described_as_they_are():
    clf = LogisticRegression().fit(X, Y)
    found, rows, weight = margins_of(clf, X, Y), X[:, 0] > 0, np.random.default_rng(0).random(200)
    report = wm.margin_report(found.of(rows), sample_weight=weight[rows], data_name="some")
    wanted = wm.margin_report(clf, X[rows], Y[rows], sample_weight=weight[rows], data_name="some")
    assert report.overall == wanted.overall and (report.source, report.unit) == (wanted.source, wanted.unit)
    with pytest.raises(DataError, match="normalize where they are made"):
        wm.margin_report(found, normalize="median")
    with pytest.raises(DataError, match="1 margins are not finite"):
        wm.margin_report(found._replace(values=np.array([0.0, np.inf])))

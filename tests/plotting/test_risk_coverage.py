"""The curve of error by coverage is drawn as plain loops count it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from testing.margin_problems import task

import widemargin as wm
from widemargin.diagnostics import margin_report
from widemargin.exceptions import DataError
from widemargin.plotting import RiskCoverageDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

X, Y = task(n=150)


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def test_points_are_errors_of_the_surest_rows():
    clf = LogisticRegression().fit(X, Y)
    display = RiskCoverageDisplay.from_estimators(clf, X, Y)
    covered, errors = display.lines_["LogisticRegression"].get_data()
    scores = clf.decision_function(X)
    order = np.argsort(-np.abs(scores))
    wrong = (clf.predict(X) != Y)[order]
    for share, error in zip(covered[::10], errors[::10], strict=True):
        decided = round(share / 100.0 * len(Y))
        assert error == pytest.approx(100.0 * wrong[:decided].mean())
    assert (covered[-1], errors[-1]) == (100.0, pytest.approx(100.0 * wrong.mean()))
    assert "decided" in display.ax_.get_xlabel()


def test_groups_weights_and_several_classifiers():
    clf = wm.RiskClassifier().fit(X, Y)
    group, weight = np.where(X[:, 0] > 0, "a", "b"), np.random.default_rng(0).integers(0, 3, len(Y))
    display = RiskCoverageDisplay.from_estimators(clf, X, Y, groups=group, sample_weight=weight)
    assert list(display.lines_) == ["all rows", "a", "b"]
    again = np.repeat(np.arange(len(Y)), weight)
    report = margin_report(clf, X[again], Y[again], groups=group[again])
    for name, item in (("all rows", report.overall), ("a", report["a"]), ("b", report["b"])):
        covered, errors = display.curves[name]
        assert float(np.diff(covered, prepend=0.0) @ errors) == pytest.approx(item.risk_coverage.area)
    two = {"risk": clf, "logistic": LogisticRegression().fit(X, Y)}
    ax = matplotlib.pyplot.figure().add_subplot()
    assert RiskCoverageDisplay.from_estimators(two, X, Y, ax=ax).ax_ is ax
    with pytest.raises(DataError, match="2 classifiers and groups"):
        RiskCoverageDisplay.from_estimators(two, X, Y, groups=group)


def test_margins_alone_do_not_say_how_sure_a_classifier_is():
    class Structured:
        def margins(self, X, y):
            return np.ones(len(y))

    with pytest.raises(DataError, match="how sure"):
        RiskCoverageDisplay.from_estimators(Structured(), X, Y)

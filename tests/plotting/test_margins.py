"""Displays of margin distributions and of convergence draw the numbers that they are given."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from testing.margin_problems import task

import widemargin as wm
from widemargin.exceptions import DataError
from widemargin.plotting import ConvergenceDisplay, MarginDistributionDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

X, Y = task(n=150)


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def test_density_and_cumulative_share_of_the_margins():
    m = np.random.default_rng(0).normal(size=400)
    display = MarginDistributionDisplay.from_margins({"one": m, "two": m + 1.0}, unit="votes")
    density, cumulative = display.axes_
    values, edges, _ = display.lines_["one"][0].get_data()
    inside = ((m >= edges[0]) & (m <= edges[-1])).mean()
    assert values @ np.diff(edges) == pytest.approx(inside)
    line = display.lines_["two"][1]
    np.testing.assert_array_equal(line.get_xdata(), np.sort(m + 1.0))
    assert line.get_ydata()[-1] == 100.0
    assert "votes" in density.get_xlabel() and "%" in cumulative.get_ylabel()
    assert [text.get_text() for text in density.get_legend().get_texts()] == ["one", "two"]
    low, high = density.get_xlim()
    assert low < 0.0 < high


def test_classifiers_and_checkpoints():
    named = {"pursuit": wm.MarginPursuitClassifier().fit(X, Y), "logistic": LogisticRegression().fit(X, Y)}
    display = MarginDistributionDisplay.from_estimators(named, X, Y, normalize="norm", kind="cumulative")
    assert len(display.axes_) == 1 and "distances to the boundary" in display.axes_[0].get_xlabel()
    styles = {(item[0].get_color(), item[0].get_linestyle()) for item in display.lines_.values()}
    assert len(styles) == 2
    stages = {str(k): np.arange(5.0) + k for k in range(4)}
    ordered = MarginDistributionDisplay.from_margins(stages, ordered=True, kind="density")
    light = [sum(item[0].get_edgecolor()[:3]) for item in ordered.lines_.values()]
    assert light == sorted(light, reverse=True)
    alone = MarginDistributionDisplay.from_estimators(named["pursuit"], X, Y)
    assert list(alone.lines_) == ["MarginPursuitClassifier"]
    again = MarginDistributionDisplay.from_margins(stages, kind="both", axes=alone.axes_)
    assert again.figure_ is alone.figure_


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(DataError, match="nothing to draw"):
        MarginDistributionDisplay.from_margins({})
    with pytest.raises(DataError, match="kind is 'all'"):
        MarginDistributionDisplay.from_margins({"a": [1.0]}, kind="all")
    ax = MarginDistributionDisplay.from_margins({"a": [1.0, 1.0]}, kind="density").axes_[0]
    with pytest.raises(DataError, match="1 axes were given and 2 are needed"):
        MarginDistributionDisplay.from_margins({"a": [1.0]}, axes=ax)
    with pytest.raises(DataError, match="no history"):
        ConvergenceDisplay.from_histories({})
    with pytest.raises(DataError, match="the history 'a' has 0 entries"):
        ConvergenceDisplay.from_histories({"a": []})
    with pytest.raises(DataError, match="not all hold work"):
        ConvergenceDisplay.from_histories({"a": [{"value": 1.0}]}, cost="work")


def test_margins_that_are_not_finite_and_lists_are_refused():
    for bad in (np.nan, np.inf):
        with pytest.raises(DataError, match="1 of 3 margins of 'a' are not finite"):
            MarginDistributionDisplay.from_margins({"a": [0.0, bad, 1.0]})
    with pytest.raises(DataError, match="a dict of names"):
        MarginDistributionDisplay.from_margins([1.0, 2.0])
    with pytest.raises(DataError, match="'LogisticRegression' has no history_"):
        ConvergenceDisplay.from_estimators(LogisticRegression().fit(X, Y))


def test_a_long_legend_does_not_hide_the_curves():
    """It lies below the axes, shortened; on axes of the caller it stays inside them."""
    names = ["a name that would cover the whole of the first axes, " * 2, *(f"stage {k}" for k in range(7))]
    display = MarginDistributionDisplay.from_margins({name: np.arange(9.0) for name in names})
    display.figure_.canvas.draw()
    (legend,) = display.figure_.legends
    assert display.axes_[0].get_legend() is None
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(texts) == 8 and len(texts[0]) == 48 and texts[0].endswith("\u2026") and texts[1] == "stage 0"
    below = min(ax.get_tightbbox().y0 for ax in display.axes_)
    box = legend.get_window_extent()
    assert box.y1 <= below + 1.0 and box.x0 >= 0.0 and box.x1 <= display.figure_.bbox.x1
    _, axes = matplotlib.pyplot.subplots(1, 2)
    inside = MarginDistributionDisplay.from_margins({name: np.arange(9.0) for name in names}, axes=axes)
    assert inside.axes_[0].get_legend() is not None and not inside.figure_.legends


def test_convergence_compares_equal_objectives_only():
    auto = wm.MarginPursuitClassifier().fit(X, Y)
    display = ConvergenceDisplay.from_estimators(auto, cost="gradients")
    last = [entry["value"] for entry in auto.history_ if entry["scale"] == auto.scale_[0]]
    assert 0 < len(display.excess["MarginPursuitClassifier"]) == len(last) < len(auto.history_)
    fixed = wm.MarginPursuitClassifier(scale=1.0).fit(X, Y)
    with pytest.raises(DataError, match="different scales cannot be compared"):
        ConvergenceDisplay.from_estimators({"auto": auto, "fixed": fixed})
    several = wm.MarginPursuitClassifier(scale=1.0).fit(X, np.digitize(X[:, 0], [-1.0, 1.0]))
    with pytest.raises(DataError, match="of 3 classes"):
        ConvergenceDisplay.from_estimators(several)
    one = [entry for entry in several.history_ if entry["class"] == 1.0]
    assert ConvergenceDisplay.from_histories({"class 1": one}).lines_["class 1"] is not None


def test_convergence_is_the_excess_over_the_best_value():
    histories = {
        "a": [{"value": 3.0, "seconds": 0.0}, {"value": 2.0, "seconds": 1.0}],
        "b": [{"primal": 6.0, "seconds": 0.5}],
    }
    display = ConvergenceDisplay.from_histories(histories)
    np.testing.assert_allclose(display.excess["a"], [0.5, 0.0])
    np.testing.assert_allclose(display.excess["b"], [2.0])
    assert display.lines_["a"].get_xdata().tolist() == [0.0]  # the best value itself has no logarithm
    assert (display.ax_.get_yscale(), display.ax_.get_xscale()) == ("log", "linear")
    assert display.ax_.get_xlabel() == "time (s)"
    proved = ConvergenceDisplay.from_histories({"a": [{"primal": 3.0, "dual": 2.0, "seconds": 1.0}]})
    assert proved.lines_["a"].get_ydata().tolist() == [0.5] and proved.ax_.get_xlim()[0] == 0.0
    ConvergenceDisplay.from_histories({"a": histories["a"][1:]}).figure_.canvas.draw()  # nothing is above the best
    exact = ConvergenceDisplay.from_histories(histories, best=1.0, ax=display.ax_)
    np.testing.assert_allclose(exact.excess["a"], [2.0, 1.0])
    clf = wm.MarginPursuitClassifier(scale=1.0).fit(X, Y)
    fitted = ConvergenceDisplay.from_estimators(clf, cost="gradients")
    assert list(fitted.lines_) == ["MarginPursuitClassifier"]
    wide = ConvergenceDisplay.from_histories({"a": [{"value": 3.0 - i, "seconds": 20.0**i} for i in range(3)]})
    assert wide.ax_.get_xscale() == "log"

"""ParetoDisplay draws the classifiers and what the certificates rule out."""

from types import SimpleNamespace

import numpy as np
import pytest

from widemargin_papers.pareto import ParetoDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

PATH = SimpleNamespace(
    nu=np.array([0.1, 0.02, 0.0]),
    norm=np.array([2.0, 5.0, np.inf]),
    mean_hinge=np.array([0.2, 0.1, 0.4]),
    least_norm=np.array([1.9, 4.0, 4.5]),
)


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def test_the_curve_holds_the_finite_norms_and_lies_above_the_shade():
    display = ParetoDisplay.from_path(PATH)
    np.testing.assert_array_equal(display.line_.get_xdata(), [2.0, 5.0])
    np.testing.assert_array_equal(display.line_.get_ydata(), [0.2, 0.1])
    outline = display.ruled_out_.get_paths()[0].vertices
    x, y = outline[1 : (len(outline) - 3) // 2 + 1].T  # the upper edge comes first
    assert y[np.searchsorted(x, 1.9) - 1] == pytest.approx(0.1 * x[np.searchsorted(x, 1.9) - 1])
    assert y[np.searchsorted(x, 1.9)] == pytest.approx(0.02 * 1.9)
    assert y[-1] == 0.0
    assert (np.interp([2.0, 5.0], x, y) <= [0.2, 0.1]).all()
    assert display.ax_.get_xlabel() == "norm of w" and display.figure_ is display.ax_.figure


def test_axes_are_shared():
    first = ParetoDisplay.from_path(PATH, label="one")
    second = ParetoDisplay.from_path(PATH, ax=first.ax_, label="two")
    assert second.ax_ is first.ax_
    assert {"one", "two"} <= set(first.ax_.get_legend_handles_labels()[1])

"""TradeoffDisplay draws what the path measured."""

import sys

import numpy as np
import pytest

from trade_offs import made_path
from widemargin.exceptions import DataError
from widemargin.plotting import TradeoffDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


def test_curves_hold_the_numbers_of_the_path():
    path = made_path()
    display = TradeoffDisplay.from_path(path, errors=2.0)
    order = np.argsort(path.training.reached)
    np.testing.assert_array_equal(display.training_line_.get_xdata(), path.training.reached[order])
    np.testing.assert_array_equal(display.training_line_.get_ydata(), path.training.objective[order])
    line, _, bars = display.held_out_bars_
    order = np.argsort(path.held_out.reached)
    np.testing.assert_array_equal(line.get_ydata(), path.held_out.objective[order])
    lengths = [np.diff(segment[:, 1])[0] for segment in bars[1].get_segments()]
    np.testing.assert_allclose(lengths, 4.0 * path.held_out.objective_error[order])
    widths = [np.diff(segment[:, 0])[0] for segment in bars[0].get_segments()]
    np.testing.assert_allclose(widths, 4.0 * path.held_out.reached_error[order])
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel() == "parity, reached"
    assert display.ax_.get_ylabel() == "error_rate()"


def test_points_that_miss_the_goal_are_hollow():
    path = made_path()
    display = TradeoffDisplay.from_path(path, x="asked")
    np.testing.assert_array_equal(display.missed_.get_offsets()[:, 0], path.values[~path.met])
    assert TradeoffDisplay.from_path(made_path(met=np.ones(5, bool))).missed_ is None


def test_without_held_out_rows_the_training_curve_is_drawn():
    display = TradeoffDisplay.from_path(made_path(held_out=False))
    assert display.held_out_bars_ is None
    assert len(display.training_line_.get_xdata()) == 5


def test_two_paths_share_axes_in_different_colours():
    first = TradeoffDisplay.from_path(made_path(), name="one", training=False)
    second = TradeoffDisplay.from_path(made_path(), ax=first.ax_, name="two", training=False)
    assert second.ax_ is first.ax_
    assert first.training_line_ is None
    assert first.held_out_bars_[0].get_color() != second.held_out_bars_[0].get_color()
    assert {"one, held-out rows", "two, held-out rows"} <= set(first.ax_.get_legend_handles_labels()[1])


def test_a_picture_is_drawn(tmp_path):
    TradeoffDisplay.from_path(made_path()).figure_.savefig(tmp_path / "path.png")
    pixels = matplotlib.image.imread(tmp_path / "path.png")
    assert 0.005 < (pixels[..., :3].min(axis=2) < 0.9).mean() < 0.5


def test_an_unknown_axis_is_refused():
    with pytest.raises(DataError, match="'cost'"):
        TradeoffDisplay.from_path(made_path(), x="cost")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"widemargin\[plot\]"):
        TradeoffDisplay.from_path(made_path())

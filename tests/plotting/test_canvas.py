"""What all figures share."""

import sys

import numpy as np
import pytest

from widemargin.exceptions import MissingLibraryError
from widemargin.plotting._canvas import COLOURS, band, new_figure, require_matplotlib, tidy


def test_a_missing_matplotlib_is_said_with_the_extra_that_brings_it(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("matplotlib.")]:
        monkeypatch.delitem(sys.modules, name)  # what another test has imported is there no more either
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for needs in (require_matplotlib, lambda: new_figure(1, 1, width=3, height=3)):
        with pytest.raises(MissingLibraryError, match=r"pip install 'widemargin\[plot\]'"):
            needs()


def test_a_band_is_the_mean_and_one_standard_deviation_sorted_and_without_gaps():
    _, _, ((axes,),) = new_figure(1, 1, width=3, height=3)
    band(axes, [2.0, None, 1.0], {"mean": [0.2, 0.3, 0.1], "sd": [0.02, 0.0, 0.01]}, 100.0, color=COLOURS["blue"])
    line = axes.lines[0]
    np.testing.assert_allclose(line.get_xdata(), [1.0, 2.0])
    np.testing.assert_allclose(line.get_ydata(), [10.0, 20.0])
    box = axes.collections[0].get_paths()[0].get_extents()
    np.testing.assert_allclose([box.ymin, box.ymax], [9.0, 22.0])


def test_labels_and_parts():
    figure, parts, axes = new_figure(2, 3, width=6, height=4)
    assert axes.shape == (2, 3) and parts == list(figure.subfigs)
    tidy(axes[0, 0], x="share (%)", y="error (%)", title="Test rows")
    assert (axes[0, 0].get_xlabel(), axes[0, 0].get_ylabel()) == ("share (%)", "error (%)")


def test_colours_differ_in_lightness_too():
    """So that they can be told apart in grey."""
    values = {name: [int(code[k : k + 2], 16) for k in (1, 3, 5)] for name, code in COLOURS.items()}
    light = sorted(0.299 * r + 0.587 * g + 0.114 * b for r, g, b in values.values())
    assert (np.diff(light) > 1.0).all()

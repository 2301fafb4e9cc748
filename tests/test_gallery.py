"""The examples of the gallery run without a warning, print something and draw one labelled picture each."""

import runpy
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib")

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"


@pytest.fixture
def pyplot():
    """Figures on no screen, closed afterwards."""
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


@pytest.mark.parametrize("path", sorted(GALLERY.glob("*.py")), ids=lambda path: path.stem)
def test_example_runs_and_draws(path, pyplot, monkeypatch, capsys):
    monkeypatch.chdir(GALLERY)
    text = path.read_text()
    title, line = text.splitlines()[1:3]
    assert set(line) == {"="} and len(line) == len(title)  # what sphinx-gallery asks for
    runpy.run_path(str(path))
    assert capsys.readouterr().out
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    assert len(figures) == 1
    for ax in figures[0].axes:
        assert ax.has_data() and ax.get_xlabel() and ax.get_ylabel()

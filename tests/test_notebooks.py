"""The notebooks of the documentation run without an error, and print what is stored in them but for digits."""

import contextlib
import io
import json
import re
import warnings
from pathlib import Path

import pytest

matplotlib = pytest.importorskip("matplotlib")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs/notebooks").glob("*.ipynb"))


def words(text):
    """A text without its numbers and spaces, which are others on another machine."""
    return re.sub(r"[\d.e+-]+", "#", re.sub(r"\s+", " ", text)).strip()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_and_print_what_is_stored(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    matplotlib.use("agg")
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    names, drawn = {}, 0
    for number, cell in enumerate(cells, 1):
        said, stored = io.StringIO(), {"stdout": "", "stderr": ""}
        with contextlib.redirect_stdout(said), warnings.catch_warnings(action="ignore"):
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                stored[output["name"]] += "".join(output["text"])
            drawn += "image/png" in output.get("data", {})
        assert cell["execution_count"] == number and stored["stderr"] == "", "run `make notebooks`"
        assert words(said.getvalue()) == words(stored["stdout"])
    assert drawn == len(matplotlib.pyplot.get_fignums()) == 1
    matplotlib.pyplot.close("all")

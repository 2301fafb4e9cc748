"""The record of an experiment: finished runs survive, runs of other settings are never mixed in."""

import importlib
import json

import pytest

from widemargin.exceptions import DataError
from widemargin_papers.reproductions import FIGURES
from widemargin_papers.reproductions.experiment import Record


def test_finished_runs_are_found_again(tmp_path):
    path = tmp_path / "sub" / "fig.json"
    Record(path, "fig", {"C": 1.0, "points": (1, 2)}).add("run 0", {"error": 0.5})
    again = Record(path, "fig", {"C": 1.0, "points": [1, 2]})
    assert again.runs == {"run 0": {"error": 0.5}}
    again.add("run 1", {"error": 0.25})
    again.write({"mean": 0.375})
    content = json.loads(path.read_text())
    assert list(content["runs"]) == ["run 0", "run 1"]
    assert content["summary"] == {"mean": 0.375}
    assert {"python", "numpy", "widemargin"} <= set(content["versions"])
    assert [file.name for file in path.parent.iterdir()] == ["fig.json"]


def test_other_settings_and_other_figures_are_refused(tmp_path):
    path = tmp_path / "fig.json"
    Record(path, "fig", {"C": 1.0, "steps": 8}).add("run 0", {})
    with pytest.raises(DataError, match=r"holds 1 runs with other settings \(C differ\)"):
        Record(path, "fig", {"C": 2.0, "steps": 8})
    with pytest.raises(DataError, match="is the record of fig"):
        Record(path, "fig9", {"C": 1.0, "steps": 8})


@pytest.mark.parametrize("text", ["", "[]", '{"figure": "fig"}', "{"])
def test_a_file_that_is_no_record_is_refused(tmp_path, text):
    (tmp_path / "fig.json").write_text(text)
    with pytest.raises(DataError, match="no record of a figure"):
        Record(tmp_path / "fig.json", "fig", {})


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_its_functions_and_no_run_twice(name):
    entry = FIGURES[name]
    module = importlib.import_module(f"widemargin_papers.reproductions.{entry.module}")
    assert {"draw", "keys", "load", "run", "settings", "summarise", "table"} <= set(module.__all__)
    keys = module.keys(entry.runs)
    assert len(keys) == len(set(keys)) >= entry.runs
    assert module.keys(entry.runs + 1)[: len(keys)] == keys  # more runs go on where fewer ended
    for quick in (False, True):
        settings = module.settings(quick)
        assert json.loads(json.dumps(settings)) == settings

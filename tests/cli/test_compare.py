"""`widemargin compare`: two models against one goal."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from any_models import linear_pipeline, project
from command_line import write_csv
from widemargin.cli.main import main
from widemargin.diagnostics import ComparisonReport, compare_models

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return folder, project(folder)


def compared(capsys, folder, *more):
    code = main(["compare", str(folder / "goals.toml"), "--json", *map(str, more)])
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    assert content["exit_code"] == code
    if code != 2:
        jsonschema.validate(content, SCHEMA)
    return content


def test_two_models_in_blocks_are_compared_as_in_memory(made, capsys, monkeypatch, tmp_path):
    folder, rows = made
    monkeypatch.setattr("widemargin.cli.blocks.BLOCK_ROWS", 90)
    files = ["--data", folder / "people.parquet", "--report-json", tmp_path / "r.json"]
    content = compared(capsys, folder, "--models", folder / "tree.skops", folder / "m.skops", *files)
    assert json.loads((tmp_path / "r.json").read_text()) == content
    report = ComparisonReport.from_dict(content["comparison"])
    assert report.names == ("tree", "m")
    import skops.io

    tree = skops.io.load(folder / "tree.skops", trusted=["sklearn.tree._tree.Tree"])
    said = [model.predict(rows[["age", "hours", "work"]]) for model in (tree, linear_pipeline(rows))]
    goal = report.reports[0].goal_text
    wanted = compare_models(*said, goal, y=rows["income"], populations=rows, pos_label="high", names=("tree", "m"))
    assert report.populations == wanted.populations
    assert [item.rate for item in report.reports[1].constraints] == [
        item.rate for item in wanted.reports[1].constraints
    ]
    assert content["exit_code"] == report.exit_code


def test_the_text_names_both(made, capsys):
    folder, _ = made
    main(["compare", str(folder / "goals.toml"), "--models", str(folder / "tree.skops"), str(folder / "m.skops")])
    out = capsys.readouterr().out
    assert out.startswith(f"tree: {folder / 'tree.skops'}\nm: {folder / 'm.skops'}\n\nm against tree on all rows of")
    assert "work == 'own'" in out and "labels to prove it" in out


def test_predictions_and_missing_labels(made, capsys, tmp_path):
    folder, rows = made
    flipped = np.where(np.arange(400) % 10 == 0, "high", rows["income"])
    half = [value if row % 2 else None for row, value in enumerate(rows["income"])]
    table = {"a": rows["income"].tolist(), "b": flipped.tolist()}
    write_csv(tmp_path / "p.csv", table)
    columns = {name: rows[name].tolist() for name in ("age", "hours", "work", "sex")}
    write_csv(tmp_path / "half.csv", {**columns, "income": half})
    given = ["--predictions", f"{tmp_path / 'p.csv'}:a", f"{tmp_path / 'p.csv'}:b"]
    content = compared(capsys, folder, *given, "--data", tmp_path / "half.csv")
    report = ComparisonReport.from_dict(content["comparison"])
    known = np.arange(400) % 2 == 1
    assert (report.names, report.reports, report.n_labelled) == (("a", "b"), None, 200)
    assert report.overall.losses == ((flipped != rows["income"]) & known).sum() == 0  # every tenth row is even
    assert report.overall.changes == (flipped != rows["income"]).sum()
    content = compared(capsys, folder, *given)
    report = ComparisonReport.from_dict(content["comparison"])
    assert report.overall.losses == (flipped != rows["income"]).sum() and report.overall.verdict == "a better"
    assert report.reports is not None


def test_bad_input_is_named(made, capsys):
    folder, _ = made
    models = ["--models", folder / "m.skops", folder / "m.skops"]
    assert "power is 2" in compared(capsys, folder, *models, "--power", "2")["error"]
    assert "cannot be read" in compared(capsys, folder, "--models", folder / "m.skops", folder / "no.skops")["error"]


def test_one_of_two_files_may_have_labels_of_its_own(made, capsys, tmp_path):
    """--model-positive is about the file that has this label; the other one speaks of the target's classes already."""
    folder, rows = made
    said = np.where(rows["age"] > rows["age"].median(), "high", "low")
    write_csv(tmp_path / "a.csv", {"prediction": said.tolist()})
    write_csv(tmp_path / "b.csv", {"prediction": (said == "high").astype(int).tolist()})
    files = ["--predictions", tmp_path / "a.csv", tmp_path / "b.csv"]
    assert "its labels are" in compared(capsys, folder, *files)["error"]
    for positive, n_changed in (("1", 0), ("0", len(rows))):
        content = compared(capsys, folder, *files, "--model-positive", positive)
        assert content["comparison"]["populations"][0]["changes"] == n_changed

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

SCHEMA = jsonschema.Draft202012Validator(  # which is itself seen to be valid in `test_ci_gate`: that takes the longest
    json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())
)


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
        SCHEMA.validate(content)
    return content


def test_two_models_in_blocks_are_compared_as_in_memory(made, capsys, monkeypatch, tmp_path):
    folder, rows = made
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 90)
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
    # a goal without labels is measured all the same, on all rows
    goals = (folder / "goals.toml").read_text().replace('"people.csv"', f'"{folder / "people.csv"}"')
    goals = goals[: goals.index("[goal]")] + "[goal]\ntext = 'subject to positive_rate() <= 0.9'\n"
    (tmp_path / "goals.toml").write_text(goals)
    content = compared(capsys, tmp_path, *given, "--data", tmp_path / "half.csv")
    assert content["comparison"]["reports"][1]["constraints"][0]["rate"] == (flipped == "high").mean()
    content = compared(capsys, folder, *given)
    report = ComparisonReport.from_dict(content["comparison"])
    assert report.overall.losses == (flipped != rows["income"]).sum() and report.overall.verdict == "a better"
    assert report.reports is not None


def test_row_weights_and_external_data_sets(made, capsys, tmp_path):
    """Weights 1, 2 and 0 are rows that are there once, twice or not at all."""
    folder, rows = made
    goals = (folder / "goals.toml").read_text()
    few = "traffic = external()\nsubject to few: positive_rate(on=traffic) <= 0.9\nsubject to recall() >= 0.1"
    text = f'text = """\n{few}\n"""'
    goals = goals[: goals.index("[goal]")] + f'[external.traffic]\ntable = "traffic.parquet"\n[goal]\n{text}\n'
    (tmp_path / "goals.toml").write_text(goals.replace("[data]", '[data]\nweight = "w"'))
    weight = np.random.default_rng(0).integers(0, 3, len(rows))
    rows.assign(w=weight).to_parquet(tmp_path / "people.parquet")
    rows.drop(columns="income")[:100].to_parquet(tmp_path / "traffic.parquet")
    models = ["--models", folder / "tree.skops", folder / "m.skops", "--data", tmp_path / "people.parquet"]
    found = ComparisonReport.from_dict(compared(capsys, tmp_path, *models)["comparison"])
    assert [item.name for item in found.populations] == ["all rows", "traffic"] and found["traffic"].n_rows == 100
    assert found["traffic"].churn is not None and found["traffic"].verdict == "no labels"
    assert found.reports[0].external_rows == (("traffic", 100),)
    twice = rows.loc[rows.index.repeat(weight)].assign(w=1)
    twice.to_parquet(tmp_path / "people.parquet")
    other = ComparisonReport.from_dict(compared(capsys, tmp_path, *models)["comparison"])
    assert found.overall.churn == pytest.approx(other.overall.churn)
    assert found.overall.gain == pytest.approx(other.overall.gain)
    assert found.reports[1].constraints[1].rate == pytest.approx(other.reports[1].constraints[1].rate)
    write_csv(tmp_path / "p.csv", {"prediction": ["low"] * len(twice)})
    files = ["--predictions", tmp_path / "p.csv", tmp_path / "p.csv", *models[3:]]
    assert "about the main rows only" in compared(capsys, tmp_path, *files)["error"]


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
    write_csv(tmp_path / "c.csv", {"prediction": (said == "low").astype(int).tolist()})
    opposite = ["--predictions", tmp_path / "b.csv", tmp_path / "c.csv"]
    for first, second, n_changed in (("1", "0", 0), ("0", "1", 0), ("1", "1", len(rows))):
        each = ["--model-positive", first, "--model-positive", second]
        found = compared(capsys, folder, *opposite, *each)["comparison"]
        assert found["populations"][0]["changes"] == n_changed
        truth = np.mean((said == "high") == (rows["income"] == "high"))
        assert found["reports"][0]["objective"] == pytest.approx(1 - truth if first == "1" else truth)
    thrice = compared(capsys, folder, *opposite, *3 * ["--model-positive", "1"])["error"]
    assert "stands 3 times for 2 models" in thrice
    for positive, n_changed in (("1", 0), ("0", len(rows))):
        content = compared(capsys, folder, *files, "--model-positive", positive)
        assert content["comparison"]["populations"][0]["changes"] == n_changed

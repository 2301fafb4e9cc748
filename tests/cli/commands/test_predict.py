"""`widemargin predict`: labels, scores and probabilities of new rows, in blocks, whole or not at all."""

import csv
import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import skops.io
from sklearn.pipeline import Pipeline

from any_models import linear_pipeline, onnx_bytes, project
from widemargin.cli.main import main
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.persistence import save_model
from widemargin.preprocessing import make_preprocessor


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    rows = project(folder)
    step = make_preprocessor(["age", "hours", "work"])
    classifier = RateConstrainedClassifier(calibration="sigmoid", pos_label="high", random_state=0)
    model = Pipeline([("table", step), ("model", classifier)]).fit(rows, rows["income"])
    save_model(model, folder / "ours.skops")
    return folder, rows, model


def run(capsys, *arguments):
    code = main(["predict", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_workers_write_the_same_file(made, capsys, tmp_path):
    folder, _, _ = made
    pq.write_table(pq.read_table(folder / "people.parquet"), tmp_path / "in.parquet", row_group_size=150)
    common = ("--model", folder / "ours.skops", "--data", tmp_path / "in.parquet", "--keep", "id")
    assert run(capsys, *common, "--out", tmp_path / "alone.parquet")[0] == 0
    assert run(capsys, *common, "--out", tmp_path / "two.parquet", "--workers", 2)[0] == 0
    assert pq.read_table(tmp_path / "two.parquet").equals(pq.read_table(tmp_path / "alone.parquet"))


@pytest.mark.parametrize("source", ["people.csv", "people.parquet"])
@pytest.mark.parametrize("target", ["p.csv", "p.parquet"])
def test_labels_scores_and_probabilities_are_those_of_the_model(made, capsys, monkeypatch, tmp_path, source, target):
    folder, rows, model = made
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 64)
    data, out = folder / source, tmp_path / "new" / target
    code, text, err = run(capsys, "--model", folder / "ours.skops", "--data", data, "--out", out, "--keep", "id", "age")
    assert (code, err) == (0, "") and "400 predictions (id, age, prediction, score, probability) saved" in text
    table = pyarrow.csv.read_csv(out) if target == "p.csv" else pq.read_table(out)
    assert table.column_names == ["id", "age", "prediction", "score", "probability"]
    assert table["prediction"].to_pylist() == model.predict(rows).tolist()
    assert table["score"].to_pylist() == pytest.approx(-model.decision_function(rows))  # classes_[0] is positive
    assert table["probability"].to_pylist() == pytest.approx(model.predict_proba(rows)[:, 0])
    mark = "'" if target == "p.csv" else ""  # no spreadsheet takes an identifier for a formula
    assert table["id"].to_pylist() == [f"{mark}={row}" for row in range(400)]
    assert list(tmp_path.glob("new/.*")) == []


def test_a_foreign_model_takes_its_columns_from_the_goals_file(made, capsys, tmp_path):
    folder, rows, _ = made
    model = linear_pipeline(rows)
    goals, data, out = folder / "goals.toml", folder / "people.csv", tmp_path / "p.csv"
    wanted = model.predict(rows[["age", "hours", "work"]]).tolist()
    assert run(capsys, goals, "--model", folder / "m.skops", "--data", data, "--out", out, "--json")[0] == 0
    assert [row["prediction"] for row in csv.DictReader(out.read_text().splitlines())] == wanted
    skops.io.dump(linear_pipeline(rows).named_steps["logisticregression"], tmp_path / "array.skops")
    code, _, err = run(capsys, "--model", tmp_path / "array.skops", "--data", data, "--out", out)
    assert code == 2 and "does not know its columns. Give the goals file" in err
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(onnx_bytes(model))
    assert run(capsys, "--model", tmp_path / "m.onnx", "--data", data, "--out", out)[0] == 0
    found = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["prediction"] for row in found] == wanted
    shares = model.predict_proba(rows[["age", "hours", "work"]])[:, 1]
    assert np.allclose([float(row["probability"]) for row in found], shares, atol=1e-5)


def test_several_classes_have_a_column_each(made, capsys, tmp_path):
    folder, rows, _ = made
    model = linear_pipeline(rows.assign(income=np.arange(400) % 3))
    skops.io.dump(model, tmp_path / "m.skops")
    assert (
        run(capsys, "--model", tmp_path / "m.skops", "--data", folder / "people.csv", "--out", tmp_path / "p.csv")[0]
        == 0
    )
    assert (tmp_path / "p.csv").read_text().splitlines()[0].count("probability ") == 3


BAD = {
    "no model named": ([], ["--data", "people.csv", "--out", "p.csv"], "no model is named"),
    "unknown ending": ([], ["--model", "ours.skops", "--data", "people.csv", "--out", "p.txt"], "written as .csv"),
    "unknown column": (
        [], ["--model", "ours.skops", "--data", "people.csv", "--out", "p.csv", "--keep", "agge"], "mean 'age'?",
    ),
    "over the table": (
        [], ["--model", "ours.skops", "--data", "people.csv", "--out", "people.csv"], "--out is the table that is read",
    ),
    "no place": (
        [], ["--model", "ours.skops", "--data", "people.csv", "--out", "goals.toml/p.csv"], "cannot be written",
    ),
    "feature absent": (
        ["age"], ["--model", "ours.skops", "--data", "few.parquet", "--out", "p.csv"], "lacks 1 column(s): 'age'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_predicted_is_named_and_leaves_no_file(made, capsys, monkeypatch, kind):
    folder, rows, _ = made
    absent, arguments, text = BAD[kind]
    rows.drop(columns=absent).to_parquet(folder / "few.parquet")
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "") and text in err and "defect" not in err
    assert sorted(folder.iterdir()) == before


def test_a_column_that_would_be_written_twice(made, capsys, tmp_path):
    folder, rows, _ = made
    rows.assign(score=1.0).to_parquet(tmp_path / "s.parquet")
    arguments = ["--model", folder / "ours.skops", "--data", tmp_path / "s.parquet", "--out", tmp_path / "p.csv"]
    code, _, err = run(capsys, *arguments, "--keep", "score")
    assert code == 2 and "--keep score: a column of that name is written" in err


def test_ctrl_c_keeps_the_rows_done_beside_an_earlier_file(made, capsys, monkeypatch, tmp_path):
    folder, _, _ = made
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 100)
    from widemargin.cli.tables.table_writing import TableWriter

    write, calls = TableWriter.write, []

    def interrupt(self, table):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write(self, table)

    monkeypatch.setattr(TableWriter, "write", interrupt)
    (tmp_path / "p.csv").write_text("before")
    arguments = ["--model", folder / "ours.skops", "--data", folder / "people.parquet", "--out", tmp_path / "p.csv"]
    code, _, err = run(capsys, *arguments)
    kept = tmp_path / "p.partial.csv"
    assert code == 130 and f"interrupted; the predictions of the first 100 rows are in {kept}" in err
    assert (tmp_path / "p.csv").read_text() == "before" and len(list(tmp_path.iterdir())) == 2
    assert len(kept.read_text().splitlines()) == 101


@pytest.mark.parametrize("source", ["people.csv", "people.parquet"])
def test_the_time_keeps_the_rows_done_and_says_how_many(made, capsys, monkeypatch, tmp_path, source):
    folder, rows, model = made
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 100)
    moments = iter([0.0, 1.0, 2.0, 3.0, 11.0])
    monkeypatch.setattr("widemargin.cli.console.time.perf_counter", lambda: next(moments))
    (tmp_path / "p.partial.parquet").write_text("an earlier one")
    arguments = ["--model", folder / "ours.skops", "--data", folder / source, "--out", tmp_path / "p.parquet"]
    code, out, err = run(capsys, *arguments, "--time-budget", 10, "--json")
    kept, told = tmp_path / "p.partial2.parquet", json.loads(out)
    assert code == 1 and "--time-budget of 10 s is used up after 300 of 400 rows of" in err
    assert (told["done"], told["total"], told["kept"]) == (300, 400, str(kept))
    assert pq.read_table(kept)["prediction"].to_pylist() == model.predict(rows)[:300].tolist()
    assert not (tmp_path / "p.parquet").exists()


def test_no_time_at_all_leaves_no_file(made, capsys, tmp_path):
    folder, _, _ = made
    arguments = ["--model", folder / "ours.skops", "--data", folder / "people.csv", "--out", tmp_path / "p.csv"]
    code, _, err = run(capsys, *arguments, "--time-budget", 1e-9)
    assert code == 1 and "used up after 0 of 400 rows" in err and "Nothing was written" in err
    assert list(tmp_path.iterdir()) == []


def test_unknown_words_are_told_once_for_all_blocks(made, capsys, monkeypatch, tmp_path):
    folder, rows, _ = made
    rows.assign(work=["robot", *rows["work"][1:]]).to_parquet(tmp_path / "new.parquet")
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 100)
    arguments = ["--model", folder / "ours.skops", "--data", tmp_path / "new.parquet", "--out", tmp_path / "p.csv"]
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0 and json.loads(out)["rows"] == 400
    assert err.count("warning") == 1 and "'robot'" in err and "(in 1 of 4 blocks of rows; this is the first)" in err

"""Audits of any classifier: model files of several makers, predictions, blocks, reports for machines."""

import hashlib
import json
import re
import socket
import xml.etree.ElementTree as ET
from pathlib import Path

import joblib
import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from any_models import frame, linear_pipeline, onnx_bytes, project
from command_line import people, widemargin, write_csv
from widemargin import GoalThresholdClassifier, save_model
from widemargin.cli.main import main
from widemargin.cli.reports import PREDICATE, audit_suite, junit_xml
from widemargin.diagnostics import audit
from widemargin.goals import Goal

SCHEMA = jsonschema.Draft202012Validator(  # which is itself seen to be valid in `test_ci_gate`: that takes the longest
    json.loads((Path(__file__).parents[3] / "docs" / "report.schema.json").read_text())
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    return folder, project(folder)


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def audited(capsys, folder, *more):
    code, out, err = run(capsys, "audit", folder / "goals.toml", "--json", *more)
    content = json.loads(out)
    assert content["exit_code"] == code
    if code != 2:
        SCHEMA.validate(content)
    return content, err


def expected(rows, said):
    text = (
        'women = population(sex == "F")\nminimize error_rate()\n'
        "subject to fair: positive_rate(women) >= 0.5 * positive_rate()\nsubject to recall: recall() >= 0.4\n"
        "subject to sizes: demographic_parity(work, ratio=0.01)"
    )
    return audit(said, text, y=rows["income"], populations=rows, pos_label="high", data_name="?").to_dict()


def same_numbers(content, wanted):
    found = content["report"]
    assert [item["label"] for item in found["constraints"]] == [item["label"] for item in wanted["constraints"]]
    for item, other in zip(found["constraints"], wanted["constraints"], strict=True):
        assert (item["slack"], item["interval"]) == (pytest.approx(other["slack"]), pytest.approx(other["interval"]))
    assert found["objective"] == pytest.approx(wanted["objective"]) and found["n_rows"] == wanted["n_rows"]


@pytest.mark.parametrize("data", [None, "people.parquet"])
@pytest.mark.parametrize("kind", ["m.skops", "tree.skops", "forest.skops", "m.onnx", "m.joblib"])
def test_models_of_any_maker_are_audited(made, capsys, kind, data):
    folder, rows = made
    model = linear_pipeline(rows)
    more = []
    if kind == "tree.skops":
        model = skops.io.load(folder / kind, trusted=["sklearn.tree._tree.Tree"])
    if kind == "forest.skops":
        model = linear_pipeline(rows, RandomForestClassifier(5, max_depth=3, random_state=0))
        skops.io.dump(model, folder / kind)
    if kind == "m.onnx":
        pytest.importorskip("onnxruntime")
        (folder / kind).write_bytes(onnx_bytes(model))
    if kind == "m.joblib":
        joblib.dump(model, folder / kind)
        more = ["--trust-code"]
    more += [] if data is None else ["--data", folder / data]
    content, err = audited(capsys, folder, "--model", folder / kind, *more)
    said = model.predict(rows[["age", "hours", "work"]])
    same_numbers(content, expected(rows, said))
    assert ("code in the file may have run" in err) == (kind == "m.joblib")


def test_blocks_of_a_folder_give_the_numbers_of_the_whole(made, capsys, monkeypatch, tmp_path):
    folder, rows = made
    table = pa.Table.from_pandas(rows, preserve_index=False)
    (tmp_path / "parts").mkdir()
    for number, (start, length) in enumerate([(0, 150), (150, 1), (151, 249)]):
        part = table.slice(start, length)
        if number == 1:  # one category a block, other codes
            part = part.set_column(3, "work", part["work"].dictionary_encode())
        pq.write_table(part, tmp_path / "parts" / f"{number}.parquet")
    whole, _ = audited(capsys, folder, "--model", folder / "m.skops")
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 7)
    parts, _ = audited(capsys, folder, "--model", folder / "m.skops", "--data", tmp_path / "parts")
    same_numbers(parts, whole["report"])
    monkeypatch.setattr("widemargin.cli.tables.csv_reading.CSV_BLOCK", 2000)
    streamed, _ = audited(capsys, folder, "--model", folder / "m.skops")
    same_numbers(streamed, whole["report"])


@pytest.mark.parametrize("kind", ["m.skops", "m.onnx"])
def test_workers_give_the_numbers_of_the_whole(made, capsys, tmp_path, kind):
    folder, rows = made
    if kind == "m.onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("skl2onnx")
        (folder / kind).exists() or (folder / kind).write_bytes(onnx_bytes(linear_pipeline(rows)))
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), tmp_path / "a.parquet", row_group_size=150)
    whole, _ = audited(capsys, folder, "--model", folder / kind, "--data", tmp_path / "a.parquet")
    parts, _ = audited(capsys, folder, "--model", folder / kind, "--data", tmp_path / "a.parquet", "--workers", 2)
    assert parts["report"] == whole["report"]


def test_workers_that_cannot_be_had_are_refused(made, capsys):
    folder, _ = made
    model = ("--model", folder / "m.skops")
    for more, text in [
        (("--workers", "2"), "--workers needs Parquet"),
        (("--workers", "many", "--data", folder / "people.parquet"), "--workers many: give a number of at least 1"),
        (("--workers", "0", "--data", folder / "people.parquet"), "--workers 0: give a number"),
    ]:
        content, _ = audited(capsys, folder, *model, *more)
        assert text in content["error"]


def test_an_address_where_no_scheduler_is(made, capsys):
    folder, _ = made
    more = ("--model", folder / "m.skops", "--data", folder / "people.parquet", "--workers")
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    for address in (f"tcp://127.0.0.1:{free}", "tcp://127.0.0.1", "smoke://here:1"):
        content, _ = audited(capsys, folder, *more, address)
        assert f"--workers {address}: no Dask scheduler answers there" in content["error"]


def test_a_cluster_gives_the_numbers_of_the_whole(made, capsys, tmp_path, dask_client):
    """From a process without another client, by way of a folder whose filter left a part empty."""
    folder, rows = made
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, part in enumerate((rows[:250], rows[:0], rows[250:])):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), parts / f"part.{number}.parquet")
    common = ("--model", folder / "m.skops", "--data", parts)
    whole, _ = audited(capsys, folder, *common)
    address = dask_client.cluster.scheduler_address
    done = widemargin("audit", folder / "goals.toml", *common, "--workers", address, "--json")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["report"] == whole["report"]
    here, _ = audited(capsys, folder, *common, "--workers", "2")
    assert here["report"] == whole["report"]


def test_predictions_by_row_and_by_key(made, capsys, tmp_path):
    folder, rows = made
    said = linear_pipeline(rows).predict(rows[["age", "hours", "work"]])
    wanted = expected(rows, said)
    guarded = [f"'{key}" for key in rows["id"]]
    table = pa.table({"id": rows["id"].to_numpy(), "prediction": said, "other": rows["age"].to_numpy()})
    pq.write_table(table, tmp_path / "p.parquet")
    content, _ = audited(capsys, folder, "--predictions", tmp_path / "p.parquet")
    same_numbers(content, wanted)
    order = np.random.default_rng(0).permutation(len(rows))
    pq.write_table(table.rename_columns(["id", "decided", "other"]).take(order), tmp_path / "q.parquet")
    content, _ = audited(capsys, folder, "--predictions", f"{tmp_path / 'q.parquet'}:decided", "--key", "id")
    same_numbers(content, wanted)
    assert content["model"] == f"predictions {tmp_path / 'q.parquet'}, column 'decided'"
    write_csv(tmp_path / "r.csv", {"id": guarded, "decided": [f"'-{value}" for value in said]})
    content, _ = audited(capsys, folder, "--predictions", f"{tmp_path / 'r.csv'}:decided")
    assert "'-high'" in content["error"] and content["exit_code"] == 2  # the apostrophe is gone again


def test_labels_of_the_model_may_be_others(made, capsys, tmp_path):
    folder, rows = made
    model = linear_pipeline(rows.assign(income=(rows["income"] == "high").astype(int)))
    skops.io.dump(model, tmp_path / "m.skops")
    content, _ = audited(capsys, folder, "--model", tmp_path / "m.skops")
    assert "its classes are 0, 1, and data.positive is 'high'" in content["error"]
    content, _ = audited(capsys, folder, "--model", tmp_path / "m.skops", "--model-positive", "1")
    said = np.where(model.predict(rows[["age", "hours", "work"]]) == 1, "high", "low")
    same_numbers(content, expected(rows, said))
    content, _ = audited(capsys, folder, "--model", tmp_path / "m.skops", "--model-positive", "2")
    assert "--model-positive 2 is none of the classes" in content["error"]


def test_a_matrix_goes_to_models_without_names(made, capsys, tmp_path):
    pytest.importorskip("onnxruntime")
    from skl2onnx import to_onnx

    folder, rows = made
    text = (folder / "goals.toml").read_text().replace('"hours", "work"]', '"hours"]')
    (tmp_path / "goals.toml").write_text(text.replace('"people.csv"', f'"{folder / "people.csv"}"'))
    X = rows[["age", "hours"]].to_numpy(np.float32)
    model = LogisticRegression().fit(X, rows["income"])
    skops.io.dump(model, tmp_path / "m.skops")
    (tmp_path / "m.onnx").write_bytes(to_onnx(model, X[:1], options={"zipmap": False}).SerializeToString())
    for name in ("m.skops", "m.onnx"):
        content, err = audited(capsys, tmp_path, "--model", tmp_path / name)
        same_numbers(content, expected(rows, model.predict(X)))
        assert err == ""


def test_reports_for_machines(made, capsys, tmp_path):
    folder, _ = made
    files = ["--report-json", tmp_path / "a" / "r.json", "--junit", tmp_path / "r.xml"]
    code, out, _ = run(capsys, "audit", folder / "goals.toml", "--model", folder / "tree.skops", *files)
    document = json.loads((tmp_path / "a" / "r.json").read_text())
    SCHEMA.validate(document)
    suite = ET.fromstring((tmp_path / "r.xml").read_text())[0]
    constraints = document["report"]["constraints"]
    assert [case.get("name") for case in suite.iter("testcase")] == [item["label"] for item in constraints]
    assert int(suite.get("failures")) == sum(not item["met"] for item in constraints)
    assert code == int(int(suite.get("failures")) > 0)
    assert suite.find("system-out").text in out
    confident = run(capsys, "audit", folder / "goals.toml", "--model", folder / "tree.skops", "--confident", *files)
    again = json.loads((tmp_path / "a" / "r.json").read_text())
    assert again["decide"] == "confident" and again["passed"] == (confident[0] == 0)
    (tmp_path / "file").write_text("")
    code, _, err = run(
        capsys, "audit", folder / "goals.toml", "--model", folder / "m.skops", "--junit", tmp_path / "file" / "r.xml"
    )
    assert code == 2 and "r.xml: --junit cannot be written" in err


def test_a_model_card_and_a_statement_say_what_was_found(made, capsys, tmp_path):
    folder, _ = made
    spoilt(tmp_path, "people.csv", (folder / "people.csv").read_bytes().replace(b",F,", b",,", 30))
    goals = spoilt(tmp_path, "goals.toml", (folder / "goals.toml").read_bytes())
    card, stated = tmp_path / "card.md", tmp_path / "audit.intoto.json"
    more = ["--model-card", card, "--in-toto", stated, "--about", tmp_path / "people.csv", "--tool", "a <tree>"]
    code, out, _ = run(capsys, "audit", goals, "--model", folder / "tree.skops", "--json", "--missing-groups", *more)
    content = json.loads(out)
    SCHEMA.validate(content)
    spans = content["report"]["missing_groups"]
    assert spans["n_rows"] == 30 and [item["is_exact"] for item in spans["constraints"]][:2] == [True, True]
    made_of = json.loads(stated.read_text())
    names = {tmp_path / "people.csv", goals, folder / "tree.skops"}
    assert made_of["predicateType"] == PREDICATE and made_of["predicate"]["result"] == content
    hashes = {item["name"]: item["digest"]["sha256"] for item in made_of["subject"]}
    assert hashes == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in names}
    options = made_of["predicate"]["options"]
    assert options["missing_groups"] is True and options["about"] == [str(tmp_path / "people.csv")]
    head, text = card.read_text().removeprefix("---\nmodel-index: ").split("\n---\n")
    (index,) = json.loads(head)
    metrics = {item["name"]: item["value"] for item in index["results"][0]["metrics"]}
    assert (
        index["name"] == "a <tree>"
        and metrics["recall: recall() >= 0.4"] == content["report"]["constraints"][1]["rate"]
    )
    women = next(group for group in content["report"]["groups"] if group["name"] == "women")
    assert metrics["positive rate, women"] == women["positive_rate"]["value"]
    assert ("Not passed" in text) == (code == 1) and "in every case" in text


def test_junit_escapes_names_and_says_numbers():
    goal = Goal.parse(
        'subject to "<i>&\\"x\\"": positive_rate(population(g == "a")) >= 0.9\n'
        'subject to recall(population(g == "b")) >= 0.5, min_rows=100, on_small="drop"\n'
        "subject to small: positive_rate() <= 0.9"
    )
    table = pa.table({"g": ["a", "b", "a", "b"]})
    with pytest.warns(UserWarning, match="dropped"):
        report = audit([1, 0, 0, 1], goal, y=[1, 0, 1, 1], populations=table, pos_label=1, decide="confident")
    suite = ET.fromstring(junit_xml([audit_suite(report, suite="goals\x1b[31m <&.toml")]))[0]
    first, second, third = suite.iter("testcase")
    assert first.get("name") == '<i>&"x"' and suite.get("name") == "goals?[31m <&.toml"
    message = first.find("failure").get("message")
    assert message.startswith("undecided: rate 0.5 < bound 0.9 (slack -0.4, 2 rows); 95% of slack: [")
    failure = second.find("failure")
    assert failure.get("type") == "undecided" and "<= bound" in failure.get("message")
    assert third.find("skipped").get("message").startswith("recall(population")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "2", "1")


def spoilt(folder, name, content):
    (folder / name).write_bytes(content)
    return folder / name


BAD = {
    "joblib without leave": (lambda folder: ["--model", spoilt(folder, "x.joblib", b"")], "runs the code in it"),
    "pickle without leave": (lambda folder: ["--model", spoilt(folder, "x.pkl", b"")], "--trust-code"),
    "no joblib file": (
        lambda folder: ["--model", spoilt(folder, "x.joblib", b"no"), "--trust-code"], "cannot be opened",
    ),
    "no joblib at all": (lambda folder: ["--model", folder / "none.joblib", "--trust-code"], "cannot be read"),
    "no onnx model at all": (lambda folder: ["--model", folder / "none.onnx"], "cannot be read"),
    "no onnx file": (lambda folder: ["--model", spoilt(folder, "x.onnx", b"hello")], "no usable ONNX model"),
    "no skops file": (lambda folder: ["--model", spoilt(folder, "x.skops", b"PK hello")], "cannot be read"),
    "no predictions": (lambda folder: ["--predictions", folder / "none.csv"], "cannot be read"),
    "predictions of other rows": (
        lambda folder: ["--predictions", f"{folder / 'short.csv'}:income"], "10 predictions for the 400 rows",
    ),
    "which column": (lambda folder: ["--predictions", folder / "people.csv"], "which of the 6 columns"),
    "wrong column": (lambda folder: ["--predictions", f"{folder / 'people.csv'}:incom"], "Did you mean 'income'?"),
    "key twice": (
        lambda folder: ["--predictions", f"{folder / 'people.csv'}:income", "--key", "sex"], "'sex' stands in more",
    ),
    "key absent": (
        lambda folder: ["--predictions", f"{folder / 'short.csv'}:income", "--key", "id"], "390 row(s) of the audited",
    ),
    "no Parquet": (
        lambda folder: ["--model", folder / "m.skops", "--data", spoilt(folder, "x.parquet", b"P")], "cannot be read",
    ),
    "empty folder": (lambda folder: ["--model", folder / "m.skops", "--data", folder / "empty"], "no Parquet file"),
    "column absent": (
        lambda folder: ["--model", folder / "m.skops", "--data", folder / "few.parquet"],
        "few.parquet: 1 column(s) are missing: 'age'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_audited_is_named(made, capsys, kind):
    if "onnx" in kind:
        pytest.importorskip("onnxruntime", reason="an optional library")
    folder, rows = made
    rows[:10].to_csv(folder / "short.csv", index=False)
    rows.drop(columns="age").to_parquet(folder / "few.parquet")
    (folder / "empty").mkdir(exist_ok=True)
    arguments, text = BAD[kind]
    code, out, err = run(capsys, "audit", folder / "goals.toml", *arguments(folder))
    assert code == 2 and out == "" and "defect" not in err
    assert text in err


def test_large_csv_is_read_in_blocks(made, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("widemargin.cli.tables.csv_reading.CSV_BLOCK", 3000)
    folder, _ = made
    write_csv(tmp_path / "bad.csv", {**people(300), "income": ["high"] * 299 + ["x"]})
    code, _, err = run(
        capsys, "audit", folder / "goals.toml", "--model", folder / "m.skops", "--data", tmp_path / "bad.csv"
    )
    assert code == 2 and "hours" in err
    write_csv(tmp_path / "bad.csv", {**people(300), "age": [30] * 299 + ["old"]})
    code, _, err = run(capsys, "audit", folder / "goals.toml", "--data", tmp_path / "bad.csv", "--predictions", "x.csv")
    assert code == 2 and "column 'age' begins with values of another kind and holds 'old'" in err


SPOILT = {
    "missing label": (None, "'income' is missing in 1 of 100 row(s) looked at, the first is row 250 (counted from 0)"),
    "third class": ("middle", "Join some, or drop rows: 'middle' is first in row 250 (counted from 0)"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_rows_are_counted_in_the_file_and_not_in_the_block(made, capsys, monkeypatch, tmp_path, kind):
    folder, rows = made
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 100)
    value, text = SPOILT[kind]
    spoilt_rows = rows.copy()
    spoilt_rows.loc[250, "income"] = value
    spoilt_rows.to_parquet(tmp_path / "spoilt.parquet")
    model, data = ["--model", folder / "m.skops"], ["--data", tmp_path / "spoilt.parquet"]
    code, _, err = run(capsys, "audit", folder / "goals.toml", *model, *data)
    assert code == 2 and f"{tmp_path / 'spoilt.parquet'}: " in err and text in err


def test_errors_of_the_schema_name_the_file_and_its_row(project, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 100)
    assert main(["train", str(project / "goals.toml")]) in (0, 1)
    rows = pd.DataFrame(people(400)).astype({"age": float})
    rows.loc[250, "age"] = np.inf
    rows.to_parquet(tmp_path / "spoilt.parquet")
    rows.drop(columns="age").to_parquet(tmp_path / "few.parquet")
    model = ["--model", project / "out" / "people.skops", "--rows", "all", "--data"]
    code, _, err = run(capsys, "audit", project / "goals.toml", *model, tmp_path / "spoilt.parquet")
    assert code == 2 and f"{tmp_path / 'spoilt.parquet'}: column 'age' holds 1 infinite number(s)" in err
    assert "That is row 250 of the file, counted from 0" in err
    code, _, err = run(capsys, "audit", project / "goals.toml", *model, tmp_path / "few.parquet")
    assert code == 2 and f"{tmp_path / 'few.parquet'}: " in err and "age" in err


def test_ctrl_c_ends_quietly(made, capsys, monkeypatch):
    folder, _ = made

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("widemargin.diagnostics.AuditCounts.add", interrupt)
    code, out, err = run(capsys, "audit", folder / "goals.toml", "--model", folder / "m.skops")
    assert (code, out) == (130, "") and err.endswith("widemargin: interrupted\n") and "Traceback" not in err


@pytest.mark.parametrize("command", ["audit", "compare"])
def test_no_verdict_on_the_first_rows_when_the_time_is_up(made, capsys, monkeypatch, tmp_path, command):
    folder, _ = made
    monkeypatch.setattr("widemargin.cli.tables.table_files.BLOCK_ROWS", 100)
    moments = iter([0.0, 1.0, 2.0, 11.0])
    monkeypatch.setattr("widemargin.cli.console.time.perf_counter", lambda: next(moments))
    classifier = {"audit": ["--model", folder / "m.skops"], "compare": ["--models", *2 * [folder / "m.skops"]]}[command]
    files = ["--report-json", tmp_path / "r.json", *(["--junit", tmp_path / "r.xml"] * (command == "audit"))]
    code, out, err = run(
        capsys, command, folder / "goals.toml", *classifier, "--rows", "all", "--time-budget", 10, *files, "--json"
    )
    assert code == 1 and "used up after 200 of 400 rows" in err and "would mislead" in err and "Give more time" in err
    assert json.loads(out)["done"] == 200 and "report" not in json.loads(out)
    assert list(tmp_path.iterdir()) == []


def test_the_frame_of_the_project_is_fixed():
    assert frame().equals(frame())


def test_rows_that_training_held_out_are_measured_where_the_table_is_its_own(project, capsys):
    text = (project / "goals.toml").read_text()
    split = 'split = { column = "split", train = "train", test = "test" }'
    text = text.replace(split, 'ignore = ["split"]') + "[validation]\nfraction = 0.25\n"
    (project / "goals.toml").write_text(text)
    assert main(["train", str(project / "goals.toml"), "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)["reports"]["test"]["this model"]
    model = ["--model", str(project / "out" / "people.skops")]
    assert main(["audit", str(project / "goals.toml"), *model, "--json"]) == 0
    printed = capsys.readouterr()
    content = json.loads(printed.out)
    assert content["rows"] == "test rows" and content["report"]["n_rows"] == 150 and printed.err == ""
    assert [item["rate"] for item in content["report"]["constraints"]] == [
        item["rate"] for item in trained["constraints"]
    ]
    for rows, count in (("train", 450), ("all", 600)):
        main(["audit", str(project / "goals.toml"), *model, "--rows", rows, "--json"])
        printed = capsys.readouterr()
        assert json.loads(printed.out)["report"]["n_rows"] == count
        assert ("holds the rows that the model was trained on" in printed.err) == (rows == "all")


def test_rows_held_out_that_the_model_may_know_are_named(project, capsys):
    goals, table = project / "goals.toml", project / "people.csv"
    split = 'split = { column = "split", train = "train", test = "test" }'
    text = goals.read_text().replace(split, 'ignore = ["split"]') + "[validation]\nfraction = 0.25\n"
    goals.write_text(text)
    model = project / "out" / "people.skops"
    assert run(capsys, "train", goals)[0] == 0
    warned = r"holds out other rows now than when .*people\.skops was trained, because {} was another then"
    commands = (
        ["audit"],
        ["report", "--no-tradeoff", "--out", project / "r.html"],
        ["compare", "--models", model, model],
    )
    goals.write_text(text.replace("0.25", "0.5"))
    for command, *more in commands:
        assert re.search(warned.format("the share"), run(capsys, command, goals, *more)[2])
    goals.write_text(text)
    first, *lines = table.read_text().splitlines()
    table.write_text("\n".join([first, *lines[::-1]]))  # the same numbers are drawn, of other rows
    for command, *more in commands:
        assert re.search(warned.format("the table"), run(capsys, command, goals, *more)[2])
    assert run(capsys, "train", goals)[0] == 0
    for command, *more in commands:
        assert "other rows now" not in run(capsys, command, goals, *more)[2]


def test_rows_without_the_weights_of_the_goals_file_are_said_to_count_the_same(trained, capsys):
    goals = trained / "goals.toml"
    goals.write_text(goals.read_text().replace("[data]", '[data]\nweight = "w"'))
    content, err = audited(capsys, trained)
    assert content["exit_code"] == 0
    assert "people.csv lacks the column 'w' (data.weight), so every row counts the same" in err
    rows = pd.read_csv(trained / "people.csv")
    rows.assign(w=2.0).to_csv(trained / "people.csv", index=False)
    weighted, err = audited(capsys, trained)
    assert "lacks the column" not in err
    assert weighted["report"]["objective"] == pytest.approx(content["report"]["objective"])


def test_labels_of_a_file_of_predictions_may_be_others(made, capsys, tmp_path):
    """--model-positive holds for files too: read the other way round, the same file is another classifier."""
    folder, rows = made
    old = (rows["age"] > rows["age"].median()).astype(int)
    old.to_frame("prediction").to_csv(tmp_path / "p.csv", index=False)
    content, _ = audited(capsys, folder, "--predictions", tmp_path / "p.csv")
    assert content["exit_code"] == 2
    assert "its labels are" in content["error"] and "say by --model-positive which label" in content["error"]
    for positive, said in (("1", old == 1), ("0", old == 0)):
        content, _ = audited(capsys, folder, "--predictions", tmp_path / "p.csv", "--model-positive", positive)
        same_numbers(content, expected(rows, np.where(said, "high", "low")))
    content, _ = audited(capsys, folder, "--predictions", tmp_path / "p.csv", "--model-positive", "7")
    assert "gives the labels 0, 1, and --model-positive is 7" in content["error"]


ABSTAINS = """
women = population(sex == "F")
minimize abstention_rate()
subject to limit: selective_error() <= 0.2
subject to her: selective_error(women) <= 0.3
subject to decided: coverage(women, abstain=True) >= 0.3
subject to recall() >= 0.2
"""
MARGINS = "subject to tail: margin_quantile(0.1, women) >= -0.5\nsubject to margin_quantile(0.3) >= 0"


def asking(folder, path, text):
    """The same project with another goal."""
    goals = (folder / "goals.toml").read_text().replace('"people.csv"', f'"{folder / "people.csv"}"')
    head = goals[: goals.index("[goal]")]
    path.write_text(f"{head}[goal]\ntext = '''{text}'''\n")


@pytest.mark.parametrize("unlabelled", ["drop", "refuse"])
def test_a_target_without_any_value_is_like_none(made, capsys, tmp_path, unlabelled):
    """Labels that come later: rates without labels are measured on all rows, others are refused with the reason."""
    folder, rows = made
    empty = rows.assign(income=None)
    empty.to_csv(tmp_path / "empty.csv", index=False)
    empty.astype({"income": "string"}).to_parquet(tmp_path / "empty.parquet", row_group_size=100)
    for goal in ("subject to positive_rate() <= 0.9", "subject to recall() >= 0.5"):
        asking(folder, tmp_path / "goals.toml", goal)
        text = (tmp_path / "goals.toml").read_text()
        (tmp_path / "goals.toml").write_text(text.replace("[data]", f'[data]\nunlabelled = "{unlabelled}"'))
        for given in (["empty.csv"], ["empty.parquet"], ["empty.parquet", "--workers", "2"]):
            model = ["--model", folder / "tree.skops", "--data", tmp_path / given[0], *given[1:]]
            content, _ = audited(capsys, tmp_path, *model)
            if "recall" in goal:
                assert content["exit_code"] == 2 and "holds no value in" in content["error"]
                assert "Fill that column, or ask in [goal.audit] for rates without labels only" in content["error"]
            else:
                assert content["report"]["n_rows"] == len(rows) and content["report"]["objective"] is None
                assert content["report"]["constraints"][0]["verdict"] == "met"


def test_a_model_or_predictions_that_abstain(made, capsys, tmp_path):
    folder, rows = made
    asking(folder, tmp_path / "goals.toml", ABSTAINS)
    X = rows[["age", "hours"]]
    scorer = LogisticRegression(C=0.01).fit(X, rows["income"])
    goal = "minimize abstention_rate()\nsubject to selective_error() <= 0.05"
    clf = GoalThresholdClassifier(scorer, goal, cv="prefit", abstain="unsure", pos_label="high").fit(X, rows["income"])
    save_model(clf, tmp_path / "model.skops")
    said = clf.predict(X)
    wanted = audit(said, ABSTAINS, y=rows["income"], populations=rows, pos_label="high", abstain="unsure").to_dict()
    assert 0.1 < wanted["objective"] < 0.9
    content, _ = audited(capsys, tmp_path, "--model", tmp_path / "model.skops")
    same_numbers(content, wanted)
    assert content["report"]["groups"] == wanted["groups"]
    for option, why in (  # what belongs to predictions is not ignored beside a model
        (("--abstain", "?"), "model.skops never says that, but 'unsure' where nothing is decided"),
        (("--key", "id"), "--key matches rows of --predictions, and a model is asked about every row"),
    ):
        content, _ = audited(capsys, tmp_path, "--model", tmp_path / "model.skops", *option)
        assert content["exit_code"] == 2 and why in content["error"]
    pd.DataFrame({"prediction": said}).to_csv(tmp_path / "p.csv", index=False)
    content, _ = audited(capsys, tmp_path, "--predictions", tmp_path / "p.csv", "--abstain", "unsure")
    same_numbers(content, wanted)
    numbers = np.where(said == "high", "7", np.where(said == "low", "3", "?"))
    pd.DataFrame({"prediction": numbers}).to_csv(tmp_path / "n.csv", index=False)
    content, _ = audited(
        capsys, tmp_path, "--predictions", tmp_path / "n.csv", "--abstain", "?", "--model-positive", "7"
    )
    same_numbers(content, wanted)
    content, _ = audited(capsys, tmp_path, "--predictions", tmp_path / "p.csv")
    assert content["exit_code"] == 2 and "'unsure' is neither 'low' nor 'high'. If" in content["error"]
    code, _, _ = run(capsys, "predict", "--model", tmp_path / "model.skops", "--data", folder / "people.parquet",
                     "--out", tmp_path / "said.csv")  # fmt: skip
    assert code == 0
    assert pd.read_csv(tmp_path / "said.csv")["prediction"].tolist() == said.tolist()


def test_margins_of_a_model(made, capsys, tmp_path):
    folder, rows = made
    asking(folder, tmp_path / "goals.toml", f'women = population(sex == "F")\n{MARGINS}')
    model, X = linear_pipeline(rows), rows[["age", "hours", "work"]]
    margins = np.where(rows["income"] == "high", -1, 1) * model.decision_function(X)  # "low" is classes_[1]
    content, _ = audited(capsys, tmp_path, "--model", folder / "m.skops")
    tail, half = content["report"]["constraints"]
    assert tail["rate"] == pytest.approx((margins[rows["sex"] == "F"] < -0.5).mean())
    assert half["rate"] == pytest.approx((margins < 0).mean())
    said = pd.DataFrame({"prediction": model.predict(X)})
    said.to_csv(tmp_path / "p.csv", index=False)
    content, _ = audited(capsys, tmp_path, "--predictions", tmp_path / "p.csv")
    assert content["exit_code"] == 2 and "about scores, which predictions alone do not show" in content["error"]

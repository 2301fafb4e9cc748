"""No command writes over what it reads, nor two results into one file, and nothing is lost where one is asked to."""

import json

import pytest

from widemargin.cli.main import main

MODEL = ["--model", "m.skops"]
SWEEP = ["tradeoff", "goals.toml", "--constraint", "recall", "--from", ".5", "--to", ".6"]
ASKED = {
    "init": (["init", "people.csv", "--out", "people.csv", "--force"], "--out is the table that is read"),
    "train over the goals": (["train", "goals.toml", "--model", "goals.toml"], "--model is the goals file itself"),
    "train over the table": (["train", "goals.toml", "--model", "./people.csv"], "--model is the table"),
    "train over a link": (["train", "goals.toml", "--model", "link.csv"], "--model is the table"),
    "report over the goals": (["report", "goals.toml", *MODEL, "--out", "goals.toml"], "--out is the goals file"),
    "report over the model": (["report", "goals.toml", *MODEL, "--out", "m.skops"], "--out is a model that is read"),
    "report over a path": (
        ["report", "goals.toml", *MODEL, "--tradeoff", "p.json", "--out", "p.json"], "--out is a stored path",
    ),
    "junit": (["audit", "goals.toml", *MODEL, "--junit", "people.csv"], "--junit is the table that is read"),
    "other data": (
        ["audit", "goals.toml", *MODEL, "--data", "new.csv", "--report-json", "new.csv"], "--report-json is the table",
    ),
    "predictions": (
        ["audit", "goals.toml", "--predictions", "p.csv:old", "--junit", "p.csv"], "--junit is a file of predictions",
    ),
    "two results": (
        ["audit", "goals.toml", *MODEL, "--junit", "a.x", "--report-json", "a.x"], "written by --report-json too",
    ),
    "compare": (
        ["compare", "goals.toml", "--models", "m.skops", "n.skops", "--report-json", "n.skops"], "is a model that",
    ),
    "tradeoff": ([*SWEEP, "--out", "goals.toml"], "--out is the goals file itself"),
    "plot": ([*SWEEP, "--plot", "people.csv"], "--plot is the table that is read"),
    "predict": (["predict", *MODEL, "--data", "people.csv", "--out", "people.csv"], "--out is the table that is read"),
    "a part of a table": (
        ["predict", *MODEL, "--data", "parts", "--out", "parts/new.parquet"], "in the folder of the table that is read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ASKED)
def test_a_command_that_would_write_over_what_it_reads_is_refused(project, capsys, monkeypatch, kind):
    arguments, text = ASKED[kind]
    monkeypatch.chdir(project)
    (project / "parts").mkdir()
    (project / "link.csv").symlink_to("people.csv")
    before = {file: file.read_bytes() for file in project.iterdir() if file.is_file()}
    assert main([*arguments, "--json"]) == 2
    said = json.loads(capsys.readouterr().out)["error"]
    assert text in said and said.endswith("which would be replaced. Give another name")
    assert {file: file.read_bytes() for file in project.iterdir() if file.is_file()} == before


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("out/people.skops", "goals.toml", "output.model: is the goals file itself"),
        ("out/people.skops", "old.skops", "output.model: is the model of baselines.other"),
        ('.skops"\n', '.skops"\nreport = "out/people.skops"\n', "output.report: is output.model too"),
    ],
)
def test_outputs_of_a_goals_file_that_name_what_it_reads(project, capsys, old, new, text):
    goals = project / "goals.toml"
    written = goals.read_text().replace("[baselines]", '[baselines]\nother = { model = "old.skops" }').replace(old, new)
    goals.write_text(written.replace('model = "old.skops" }\nreport = "out/people.skops"', 'model = "old.skops" }'))
    assert main(["check", str(goals)]) == 2
    assert text in capsys.readouterr().out


def test_columns_to_keep_may_be_named_one_by_one():
    from widemargin.cli.parser import make_parser

    said = ["predict", "--data", "a.csv", "--keep", "id", "--keep", "sex", "age"]
    assert make_parser().parse_args(said).keep == ["id", "sex", "age"]
    assert make_parser().parse_args(said[:3]).keep == []

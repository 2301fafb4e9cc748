"""`widemargin report`: the page of a trained model, from stored paths and from short ones."""

import json
import shutil

import joblib
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from testing.report_pages import PageReader

from command_line import people, write_csv, write_project
from widemargin.cli.commands import tradeoff as paths
from widemargin.cli.main import main
from widemargin.cli.training import sha256_of
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.persistence import load_model


@pytest.fixture(scope="module")
def path_file(tmp_path_factory):
    """A stored path of the project and its model."""
    folder = write_project(tmp_path_factory.mktemp("path"))
    asked = ["--constraint", "recall", "--from", "0.5", "--to", "0.7", "--points", "2", "--out"]
    assert main(["tradeoff", str(folder / "goals.toml"), *asked, str(folder / "recall.json")]) == 0
    return folder / "recall.json"


def report(project, *more):
    model, out = project / "out" / "people.skops", project / "page" / "report.html"
    return main(["report", str(project / "goals.toml"), "--model", str(model), "--out", str(out), *map(str, more)])


def page_of(project):
    return PageReader((project / "page" / "report.html").read_text("utf-8"))


def test_the_page_of_a_trained_model(trained, capsys):
    assert report(trained, "--json", "--title", "People & <income>") == 0
    content = json.loads(capsys.readouterr().out)
    page = page_of(trained)
    assert content["rows"] == "test rows" and content["report"]["n_rows"] == 200
    assert [item["label"] for item in content["report"]["constraints"]] == ["recall"]  # [goal.audit]
    assert [path["name"] for path in content["paths"]] == ["fair", "recall", "churn"]
    for text in (
        "People & <income>", "Goal met: 1 of 1 rule is kept by the estimate", "What training asked for",
        "the same SVM without rules", "The bound of “fair”", "The bound of “churn”", "“deployed”",
        "test rows of people.csv", sha256_of(trained / "people.csv"),
        sha256_of(trained / "out" / "people.skops"), sha256_of(trained / "goals.toml"),
        "RateConstrainedClassifier", "scikit-learn",
    ):  # fmt: skip
        assert text in page.text, text
    assert str(trained) not in page.text  # no place on the machine


def test_a_rule_both_ways_round_has_one_path_and_what_is_so_of_the_goal_is_said_once(project, capsys):
    goals = project / "goals.toml"
    head, tail = goals.read_text().split("subject to fair", 1)
    both = "women) / positive_rate(men) >= 0.8\nsubject to back: positive_rate(men) / positive_rate(women) >= 0.8\n'''"
    goals.write_text(f"{head}subject to fair: positive_rate({both}\n\n[output]{tail.partition('[output]')[2]}")
    assert main(["train", str(goals)]) == 0
    capsys.readouterr()
    assert report(project) == 0
    assert capsys.readouterr().err.count("a classifier that predicts nothing positive breaks no bound") == 1
    page = page_of(project)
    assert page.text.count("The bound of “") == 1


def test_the_model_of_the_goals_file_is_read_where_none_is_named(trained, capsys):
    goals, model = trained / "goals.toml", trained / "out" / "people.skops"
    assert main(["audit", str(goals), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == str(model)
    out = trained / "page" / "report.html"
    assert main(["report", str(goals), "--no-tradeoff", "--out", str(out)]) == 0
    assert sha256_of(model) in out.read_text("utf-8")
    capsys.readouterr()
    assert main(["audit", str(goals), "--report-json", str(model)]) == 2
    assert "a model that is read, which would be replaced" in capsys.readouterr().err
    model.unlink()
    assert main(["audit", str(goals)]) == 2
    assert f"there is no model yet. Make it by `widemargin train {goals}`" in capsys.readouterr().err
    goals.write_text(goals.read_text().partition("[output]")[0])
    for command in ("audit", "report"):
        assert main([command, str(goals)]) == 2
        assert "no model is named. Give --model FILE, or name it by [output] model" in capsys.readouterr().err


def test_the_owner_speaks_in_the_goals_file_and_on_the_command_line(trained, capsys):
    goals = trained / "goals.toml"
    card = '[card]\nintended_use = "Rank <b>files</b>."\nowner = "Nobody"\nlimits = "<script>alert(1)</script>"\n'
    goals.write_text(goals.read_text() + card)
    more = ["--no-tradeoff", "--card", "owner=Risk & Co <risk@example.org>", "--card", "Review=every <i>year</i>"]
    assert report(trained, *more) == 0
    page = page_of(trained)
    raw = (trained / "page" / "report.html").read_text("utf-8")
    for text in ("Rank <b>files</b>.", "Risk & Co <risk@example.org>", "Review", "every <i>year</i>", "Further limits"):
        assert text in page.text, text
    assert "Nobody" not in raw and "<b>files" not in raw and "<script>alert" not in raw and "<i>year" not in raw
    assert page.text.count("Not stated.") == 3
    with pytest.raises(SystemExit):
        report(trained, "--card", "owner")
    assert "is no KEY=TEXT" in capsys.readouterr().err


def test_stored_paths_are_shown_as_they_are(trained, capsys):
    out = trained / "recall.json"
    asked = ["--constraint", "recall", "--from", "0.5", "--to", "0.7", "--points", "5", "--out", str(out)]
    assert main(["tradeoff", str(trained / "goals.toml"), *asked]) == 0
    assert report(trained, "--tradeoff", out, "--no-tradeoff") == 0
    (text,) = [text for tag, text in page_of(trained).texts if tag == "script" and text.startswith("{")]
    stored = json.loads(out.read_text())["path"]
    assert json.loads(text)["objective"] == stored["held_out"]["objective"]
    assert json.loads(text)["values"] == [0.5, 0.55, 0.6, 0.65, 0.7]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain | {"goal": "minimize error_rate()"}, "was made with the goal in another state"),
        (lambda plain: plain | {"settings": {}}, "the model's settings in another state"),
        (lambda plain: plain | {"table": {"sha256": "0"}}, "the table in another state"),
        (lambda plain: plain | {"table": None}, "the table in another state"),
        (lambda plain: plain | {"kind": "x"}, "holds no trade-off"),
        (lambda plain: plain | {"format": 9}, "has format 9"),
        (lambda plain: plain | {"path": {}}, "no stored trade-off path"),
        (lambda plain: [plain], "holds no trade-off"),
        (lambda plain: None, "holds no trade-off"),
    ],
)
def test_paths_of_something_else_are_refused(trained, path_file, capsys, change, message):
    out = trained / "recall.json"
    shutil.copy(path_file, out)
    out.write_text(json.dumps(change(json.loads(out.read_text()))))
    assert report(trained, "--tradeoff", out) == 2
    said = capsys.readouterr().err
    assert message in said and str(out) in said and "defect" not in said
    assert not (trained / "page").exists()


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000, b"nan"])
def test_files_that_hold_no_path_are_refused(trained, capsys, content):
    (trained / "path.json").write_bytes(content)
    assert report(trained, "--tradeoff", trained / "path.json") == 2
    said = capsys.readouterr().err
    assert "path.json" in said and "defect" not in said


def test_a_missed_goal_exits_with_1_and_is_written_all_the_same(trained, capsys):
    text = (trained / "goals.toml").read_text().replace("recall() >= 0.4", "recall() >= 0.999")
    (trained / "goals.toml").write_text(text)
    assert report(trained, "--no-tradeoff") == 1
    assert "Goal NOT met: 0 of 1" in page_of(trained).text


def test_time_leaves_out_what_stands_beside(trained, capsys):
    assert report(trained, "--time-budget", "1e-9") == 0
    said = capsys.readouterr().err
    assert "without rules is left out" in said and "3 rules have no price" in said
    assert "What the rules cost" not in page_of(trained).text


@pytest.mark.parametrize("where", ["fit", "sweep", "points"])
def test_ctrl_c_writes_the_page_with_what_is_there(trained, capsys, monkeypatch, where):
    def interrupted(*arguments, **options):
        if where != "points":
            raise KeyboardInterrupt
        return TradeoffPath.from_dict(real(*arguments, **options).to_dict() | {"n_asked": 9})

    real = paths.tradeoff_path
    if where == "fit":
        monkeypatch.setattr(RateConstrainedClassifier, "fit", interrupted)
    else:
        monkeypatch.setattr(paths, "tradeoff_path", interrupted)
    assert report(trained) == 130
    assert "interrupted: the page is written with what is there" in capsys.readouterr().err
    page = page_of(trained)
    assert ("the same SVM without rules" in page.text) == (where != "fit")
    assert ("The bound of “fair”" in page.text) == (where == "points")
    assert "The bound of “recall”" not in page.text


def test_other_rows_and_rows_that_were_trained_on(trained, capsys):
    fresh = people(300, seed=5)
    del fresh["split"]
    write_csv(trained / "fresh.csv", fresh)
    assert report(trained, "--no-tradeoff", "--data", trained / "fresh.csv", "--json") in (0, 1)
    assert json.loads(capsys.readouterr().out)["rows"] == "all rows"
    assert "fresh.csv" in page_of(trained).text
    assert report(trained, "--no-tradeoff", "--rows", "train") in (0, 1)
    assert "There are no intervals" in page_of(trained).text
    assert report(trained, "--no-tradeoff", "--rows", "train", "--decide", "confident") == 2
    assert "were trained on" in capsys.readouterr().err


def test_rows_that_cannot_be_had_are_named(trained, capsys):
    fresh = people(30, seed=5)
    del fresh["split"]
    write_csv(trained / "fresh.csv", fresh)
    assert report(trained, "--data", trained / "fresh.csv", "--rows", "test") == 2
    assert "--rows test needs the column" in capsys.readouterr().err


def test_any_model_and_predictions_alone(trained, capsys):
    """scikit-learn's own types, a pickle that is trusted, and a column of decisions."""
    table = pd.read_csv(trained / "people.csv")
    model = LogisticRegression().fit(table[["age"]], table["income"])
    skops.io.dump(model, trained / "age.skops")
    joblib.dump(model, trained / "age.joblib")
    out = trained / "page" / "report.html"
    common = ["report", str(trained / "goals.toml"), "--no-tradeoff", "--out", str(out), "--json"]
    assert main([*common, "--model", str(trained / "age.skops")]) in (0, 1)
    rates = json.loads(capsys.readouterr().out)["report"]["constraints"][0]["rate"]
    test = table[table["split"] == "test"]
    found = model.predict(test[["age"]])[test["income"] == "high"] == "high"
    assert rates == pytest.approx(found.mean())
    page = page_of(trained)
    assert "A linear classifier (LogisticRegression)" in page.text and "Margins by population" in page.text
    assert main([*common, "--model", str(trained / "age.joblib")]) == 2
    assert "--trust-code" in capsys.readouterr().err
    assert main([*common, "--model", str(trained / "age.joblib"), "--trust-code"]) in (0, 1)
    capsys.readouterr()
    assert (
        main([*common, "--predictions", f"{trained / 'people.csv'}:old", "--report-json", str(trained / "r.json")]) == 0
    )
    assert "Only predictions were given" in page_of(trained).text
    assert json.loads((trained / "r.json").read_text())["passed"] is True


def test_hostile_tables_make_a_page_that_is_only_text(tmp_path, capsys):
    """Column names, values and labels with markup in them, from the file to the page."""
    bad = "<img src=x onerror=alert(1)>"
    columns = people()
    columns["<b>age</b>"] = columns.pop("age")
    columns["income"] = [bad if value == "high" else "</script>" for value in columns["income"]]
    columns["old"] = [bad if value == "high" else "</script>" for value in columns["old"]]
    columns["sex"] = ["'\"><svg onload=x>" if value == "F" else value for value in columns["sex"]]
    lines = [",".join(_quoted(value) for value in row) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "people.csv").write_text("\n".join([",".join(map(_quoted, columns)), *lines, ""]))
    (tmp_path / "goals.toml").write_text(
        f"""
[data]
table = "people.csv"
target = "income"
positive = "{bad}"
protected = ["sex"]
split = {{ column = "split", train = "train", test = "test" }}
[baselines]
deployed = {{ column = "old" }}
[goal]
text = '''
"{bad}" = population(sex == "'\\"><svg onload=x>")
subject to "</script>": recall("{bad}") >= 0.5
subject to churn("deployed") <= 0.4
'''
[output]
model = "out/people.skops"
"""
    )
    assert main(["train", str(tmp_path / "goals.toml")]) in (0, 1), capsys.readouterr().err
    assert report(tmp_path) in (0, 1)
    page = page_of(tmp_path)
    assert not page.of("img") and len(page.of("script")) == 3 and bad in page.text and "<b>age</b>" in page.text
    assert load_model(tmp_path / "out" / "people.skops").classes_.tolist() == ["</script>", bad]


def _quoted(value):
    return "" if value is None else '"' + str(value).replace('"', '""') + '"'


def test_external_rows_are_trained_measured_and_recorded(trained, capsys):
    """A data set beside the table is part of the paths, of the page and of the record."""
    write_csv(trained / "more.csv", {name: values for name, values in people(200, seed=3).items() if name != "split"})
    text = (trained / "goals.toml").read_text()
    more = 'subject to m: positive_rate(external("more")) <= '
    text = text.replace("[goal]", '[external.more]\ntable = "more.csv"\n\n[goal]')
    text = text.replace('churn("deployed") <= 0.3', f'churn("deployed") <= 0.3\n{more}0.6')
    text = text.replace('"subject to recall: recall() >= 0.4"', f"'subject to recall: recall() >= 0.4; {more}0.9'")
    (trained / "goals.toml").write_text(text)
    assert main(["train", str(trained / "goals.toml")]) == 0, capsys.readouterr().err
    assert report(trained) == 0, capsys.readouterr().err
    page = page_of(trained)
    assert "The external data set “more” has 200 rows" in page.text and "The bound of “m”" in page.text
    assert sha256_of(trained / "more.csv") in page.text


def test_rows_that_the_file_holds_out_and_the_place_of_the_page(trained, capsys):
    text = (
        (trained / "goals.toml").read_text().replace('split = { column = "split", train = "train", test = "test" }', "")
    )
    text = text.replace('protected = ["sex"]', 'protected = ["sex"]\nignore = ["split"]')
    (trained / "goals.toml").write_text(text + 'report = "pages/people.html"\n\n[validation]\nfraction = 0.25\n')
    assert main(["train", str(trained / "goals.toml")]) == 0, capsys.readouterr().err
    capsys.readouterr()
    model = trained / "out" / "people.skops"
    assert main(["report", str(trained / "goals.toml"), "--model", str(model), "--no-tradeoff", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["n_rows"] == 150
    assert "test rows of people.csv" in PageReader((trained / "pages" / "people.html").read_text("utf-8")).text
    (trained / "goals.toml").write_text(text)
    assert report(trained, "--rows", "test") == 2
    assert "--rows test needs the column" in capsys.readouterr().err
    assert report(trained, "--no-tradeoff") == 0
    assert "There are no intervals" in page_of(trained).text


@pytest.mark.parametrize(("more", "seconds"), [((), 40.0), (("--time-budget", "7"), 7.0)])
def test_the_svm_without_rules_has_the_time_of_the_file_or_of_the_command(trained, monkeypatch, more, seconds):
    goals = trained / "goals.toml"
    goals.write_text(goals.read_text().replace("[output]", "[model]\ntime_budget = 40\n[output]", 1))
    asked, fit = [], RateConstrainedClassifier.fit
    monkeypatch.setattr(
        RateConstrainedClassifier, "fit", lambda svm, *rows, **given: (asked.append(svm), fit(svm, *rows, **given))[1]
    )
    assert report(trained, "--no-tradeoff", *more) == 0
    assert [svm.time_budget for svm in asked] == [pytest.approx(seconds, abs=2.0)]

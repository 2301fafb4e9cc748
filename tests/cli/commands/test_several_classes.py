"""Goals files whose target has several classes, from `check` to the HTML page."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from command_line import content_and_print
from widemargin.cli.main import main
from widemargin.cli.tables.table_files import held_out

GOALS = """
[data]
table = "iris.csv"
target = "species"
protected = ["side"]
[validation]
fraction = 0.3
[goal]
text = '''
left = population(side == "left")
minimize error_rate()
subject to floor: recall(of="versicolor") >= 0.8
subject to fair: recall(left, of="virginica") >= 0.8 * recall(of="virginica")
subject to mix: confusion("virginica", "versicolor") <= 0.3
'''
[model]
C = 1.0
[output]
model = "m.skops"
report = "m.html"
"""


@pytest.fixture
def folder(tmp_path):
    data = load_iris()
    frame = pd.DataFrame(data.data, columns=["sepal length", "sepal width", "petal length", "petal width"])
    frame["side"] = np.where(np.arange(150) % 3 == 0, "left", "right")
    frame["species"] = data.target_names[data.target]
    frame.to_csv(tmp_path / "iris.csv", index=False)
    (tmp_path / "goals.toml").write_text(GOALS)
    return tmp_path


def run(capsys, folder, command, *options, code=0, goals="goals.toml"):
    assert main([command, str(folder / goals), *map(str, options)]) == code
    return capsys.readouterr()


def test_train_audit_predict_and_report(folder, capsys):
    run(capsys, folder, "check", "--data")
    content = json.loads(run(capsys, folder, "train", "--json").out)
    assert content["met"] == {"train": True, "test": True}
    assert content["training"]["classes"] == ["setosa", "versicolor", "virginica"]
    assert set(content["reports"]["test"]) == {"this model", "plain logistic regression"}
    model = folder / "m.skops"
    audited = json.loads(run(capsys, folder, "audit", "--model", model, "--rows", "test", "--json").out)
    assert audited["report"]["constraints"] == content["reports"]["test"]["this model"]["constraints"]
    text = run(capsys, folder, "audit", "--model", model, "--rows", "test").out
    assert "3 classes: 'setosa', 'versicolor', 'virginica'" in text
    assert "'versicolor': all rows" not in text or "recall" in text
    run(capsys, folder, "predict", "--model", model, "--data", folder / "iris.csv", "--out", folder / "said.csv")
    said = pd.read_csv(folder / "said.csv")
    assert set(said.iloc[:, -4:].columns) >= {"score setosa"} or "prediction" in " ".join(said.columns)
    column = next(name for name in said.columns if "predict" in name.lower())
    said[[column]].to_csv(folder / "only.csv", index=False)
    again = json.loads(
        run(capsys, folder, "audit", "--predictions", folder / "only.csv", "--rows", "test", "--json").out
    )
    assert again["report"]["constraints"] == audited["report"]["constraints"]
    run(capsys, folder, "report", "--model", model, "--rows", "test")
    page = (folder / "m.html").read_text()
    assert "versicolor" in page
    assert "None" not in page


def test_two_models_of_several_classes_are_compared(folder, capsys):
    run(capsys, folder, "train")
    frame = pd.read_csv(folder / "iris.csv")
    frame["said"] = np.where(np.arange(150) % 4 == 0, "setosa", frame["species"])
    frame[["said"]].to_csv(folder / "said.csv", index=False)
    all_rows = ["--data", folder / "iris.csv", "--rows", "all", "--json"]
    given = ["--predictions", f"{folder / 'said.csv'}:said", f"{folder / 'iris.csv'}:species"]
    overall, reports = of_comparison(run(capsys, folder, "compare", *given, *all_rows))
    assert (overall["wins"], overall["losses"]) == ((frame["said"] != frame["species"]).sum(), 0)
    assert [report["classes"] for report in reports] == [["setosa", "versicolor", "virginica"]] * 2
    same = ["--models", folder / "m.skops", folder / "m.skops"]
    assert of_comparison(run(capsys, folder, "compare", *same, *all_rows))[0]["verdict"] == "equal"


def of_comparison(printed):
    comparison = json.loads(printed.out)["comparison"]
    return comparison["populations"][0], comparison["reports"]


def test_a_goal_of_several_classes_is_proved_on_rows_kept_aside(folder, capsys):
    easy = GOALS[: GOALS.index("subject to fair")].replace(">= 0.8", ">= 0.5") + GOALS[GOALS.index("'''\n[model]") :]
    (folder / "goals.toml").write_text(easy.replace("fraction = 0.3", "fraction = 0.3\nconfidence = 0.9"))
    content = json.loads(run(capsys, folder, "train", "--json").out)
    assert content["met"]["validation"]
    assert "probability >= 0.9" in content["guarantee"]


def test_what_is_for_two_classes_is_refused_in_words(folder, capsys):
    goals = folder / "goals.toml"
    for old, new, message in (
        ('recall(of="versicolor")', "recall()", "does not say which class it speaks of"),
        ('target = "species"', 'target = "species"\npositive = "setosa"', "Or leave out data.positive"),
        ("C = 1.0", 'kernel = "rbf"', "model.kernel is for two classes"),
        ('of="versicolor"', 'of="versicolour"', "the goal speaks of the class 'versicolour'"),
        ('target = "species"', 'target = "petal width"', "A class is a word or a whole number"),
    ):
        goals.write_text(GOALS.replace(old, new))
        assert message in " ".join(run(capsys, folder, "train", code=2).err.split())


def test_a_sweep_of_a_bound_stands_on_the_page(folder, capsys):
    asked, out = ("--constraint", "floor", "--from", "0.5", "--to", "0.9", "--points", "2"), folder / "path.json"
    swept = json.loads(run(capsys, folder, "tradeoff", *asked, "--out", out, "--json").out)["path"]
    assert swept["met"] == [True, True] and swept["held_out"]["n_rows"] == 45
    assert "Nothing was trained" in run(capsys, folder, "tradeoff", *asked, "--out", out).out
    run(capsys, folder, "train")
    run(capsys, folder, "report", "--tradeoff", out, "--out", folder / "page.html")
    assert "What the rules cost" in (folder / "page.html").read_text()


def test_two_classes_need_no_positive_one_where_the_goal_names_it(folder, capsys):
    frame = pd.read_csv(folder / "iris.csv")
    frame["species"] = np.where(frame["species"] == "setosa", "virginica", frame["species"])
    frame.to_csv(folder / "iris.csv", index=False)
    before, rest = GOALS.split("subject to floor", 1)
    floor = 'subject to floor: recall(of="virginica") >= 0.5\n'
    (folder / "goals.toml").write_text(before + floor + "'''" + rest.rsplit("'''", 1)[1])
    content = json.loads(run(capsys, folder, "train", "--json").out)
    assert content["training"]["positive_class"] == "virginica"
    assert set(content["reports"]["test"]) == {"this model", "unconstrained SVM"}


def test_init_names_no_positive_class_and_says_what_is_found_of_each(folder, capsys):
    said = json.loads(run_init(capsys, folder).out)
    assert said["positive"] is None
    text = (folder / "first.toml").read_text()
    assert "positive =" not in text
    assert 'of "setosa": subject to recall(of="setosa") >= ...' in text
    run(capsys, folder, "train", goals="first.toml")


def run_init(capsys, folder):
    table, out = str(folder / "iris.csv"), str(folder / "first.toml")
    assert main(["init", table, "--target", "species", "--out", out, "--json"]) == 0
    return capsys.readouterr()


def test_a_class_that_no_held_out_row_has_may_be_predicted(folder, capsys):
    frame = pd.read_csv(folder / "iris.csv")
    frame["part"] = np.where(np.arange(150) % 2, "train", "test")
    frame.loc[(frame["part"] == "test") & (frame["species"] == "virginica"), "species"] = "versicolor"
    frame.to_csv(folder / "iris.csv", index=False)
    split = 'split = { column = "part", train = "train", test = "test" }'
    goals = (
        GOALS.split("[goal]")[0].replace("[validation]\nfraction = 0.3", split)
        + "[goal]\ntext = 'minimize error_rate()'"
    )
    (folder / "goals.toml").write_text(goals + '\n[output]\nmodel = "m.skops"\n')
    content = json.loads(run(capsys, folder, "train", "--json").out)
    assert content["reports"]["test"]["this model"]["objective"] > 0.2
    audited = json.loads(run(capsys, folder, "audit", "--json").out)
    assert audited["report"]["objective"] == content["reports"]["test"]["this model"]["objective"]


def test_a_verdict_that_differs_from_the_cross_validated_report_says_why(folder, capsys):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 3, 240)
    frame = pd.DataFrame({"value": (y + rng.normal(size=240) * 2).round(1), "species": np.array(["a", "b", "c"])[y]})
    frame.to_csv(folder / "iris.csv", index=False)
    text = (
        "[data]\ntable = 'iris.csv'\ntarget = 'species'\n[goal]\ntext = 'subject to prediction_rate(of=\"a\") <= 0.3'\n"
    )
    (folder / "goals.toml").write_text(text + '[model]\nlearner = "trees"\n')
    code, content, printed = content_and_print(capsys, "train", folder / "goals.toml")
    assert code == 1
    assert content["met"] == {"train": False} and content["training"]["constraints"][0]["met"]
    assert "NOT MET on the training rows as the final model decides them, though met by the cross-validated" in printed


def test_a_class_that_is_only_predicted_stands_on_the_page(folder, capsys):
    run(capsys, folder, "train")
    frame = pd.read_csv(folder / "iris.csv")
    frame["species"] = frame["species"].replace("virginica", "versicolor")
    frame.to_csv(folder / "new.csv", index=False)
    (folder / "loose.toml").write_text(GOALS.replace("subject to fair", "# ").replace("subject to mix", "# "))
    options = ("--model", folder / "m.skops", "--data", folder / "new.csv")
    run(capsys, folder, "report", *options, code=1, goals="loose.toml")
    assert "virginica" in (folder / "m.html").read_text()


@pytest.mark.parametrize("learned", [3, 2])
def test_a_class_that_no_training_row_has_is_said_and_counts_as_errors(folder, capsys, learned):
    frame = pd.read_csv(folder / "iris.csv")
    if learned == 2:  # a model of two classes, whose ramp says nothing of a third one
        frame["species"] = frame["species"].replace("setosa", "virginica")
        rules = GOALS.split("subject to floor")[0] + GOALS[GOALS.index("'''\n[model]") :]
        (folder / "goals.toml").write_text(rules)
    frame.loc[held_out(len(frame), 0.3).argmax(), "species"] = "unheard of"
    frame.to_csv(folder / "iris.csv", index=False)
    text = "no training row has 'unheard of' as its 'species'"
    trained = json.loads(run(capsys, folder, "train", "--json").out)
    assert text in " ".join(trained["cautions"])
    audited = run(capsys, folder, "audit", "--model", folder / "m.skops", "--rows", "test", "--json")
    assert text in audited.err
    report = json.loads(audited.out)["report"]
    assert report["objective"] == trained["reports"]["test"]["this model"]["objective"] > 0.0
    assert report["ramp_objective"] is None
    assert text in run(capsys, folder, "report", "--model", folder / "m.skops", "--rows", "test").err

"""What `train` does with the further sections of a goals file."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from command_line import content_and_print, people, write_csv
from widemargin.cli.main import main
from widemargin.diagnostics import certified_radii
from widemargin.persistence import load_model, model_info

PLAIN = """
[data]
table = "people.csv"
target = "income"
positive = "high"
protected = ["sex"]
ignore = ["split", "old"]
[goal]
text = '''
minimize error_rate()
subject to recall: recall() >= 0.7
'''
[output]
model = "m.skops"
"""


@pytest.fixture
def folder(tmp_path):
    write_csv(tmp_path / "people.csv", people())
    (tmp_path / "goals.toml").write_text(PLAIN)
    return tmp_path


def train(folder, capsys, old="", new="", *options, code=0):
    return train_and_print(folder, capsys, old, new, *options, code=code)[0]


def train_and_print(folder, capsys, old="", new="", *options, code=0):
    """What `--json` gives, and what is printed without it."""
    text = (folder / "goals.toml").read_text()
    assert old in text
    (folder / "goals.toml").write_text(text.replace(old, new, 1))
    ended, content, printed = content_and_print(capsys, "train", folder / "goals.toml", *options)
    assert ended == code
    return content, printed


def test_a_model_is_the_baseline_of_the_next_one_and_traffic_is_external(folder, capsys):
    train(folder, capsys)
    (folder / "m.skops").rename(folder / "old.skops")
    traffic = pa.table({name: values for name, values in people(300, seed=5).items() if name != "income"})
    pyarrow.parquet.write_table(traffic, folder / "traffic.parquet")
    more = """
subject to calm: churn("before", on=external("traffic")) <= 0.05
subject to few: positive_rate(external("traffic")) <= 0.6
subject to seen: recall(external("last_year")) >= 0.5
'''
[baselines]
before = { model = "old.skops" }
[external.traffic]
table = "traffic.parquet"
[external.last_year]
table = "last.csv"
"""
    last = people(200, seed=6)
    last["income"] = [None if row % 3 == 0 else label for row, label in enumerate(last["income"])]
    write_csv(folder / "last.csv", last)
    content = train(folder, capsys, "\n'''\n", more)
    items = {item["label"]: item for item in content["reports"]["train"]["this model"]["constraints"]}
    assert items["calm"]["n_rows"] == 300 and items["calm"]["met"]
    model, old = load_model(folder / "m.skops"), load_model(folder / "old.skops")
    changed = (model.predict(traffic) != old.predict(traffic)).mean()
    assert items["calm"]["rate"] == pytest.approx(changed)
    assert items["few"]["rate"] == pytest.approx((model.predict(traffic) == "high").mean())
    labelled = np.array([label == "high" for label in last["income"]])
    found = model.predict(pa.table(last)) == "high"
    assert items["seen"]["rate"] == pytest.approx(found[labelled].mean())
    assert set(content["reports"]["train"]) == {"this model", "unconstrained SVM", "before"}
    assert content["reports"]["train"]["before"]["constraints"][1]["rate"] == 0.0
    audited = ["audit", str(folder / "goals.toml"), "--model", str(folder / "m.skops")]
    assert main([*audited, "--data", str(folder / "people.csv"), "--json"]) == 0
    printed = capsys.readouterr()
    assert "people.csv holds the rows that the model was trained on" in printed.err
    report = json.loads(printed.out)["report"]
    assert [item["rate"] for item in report["constraints"]] == [item["rate"] for item in items.values()]
    assert main(["train", str(folder / "goals.toml")]) == 0
    shown = capsys.readouterr().out
    assert f"External data set traffic: 300 rows without labels of {folder / 'traffic.parquet'}" in shown
    assert "External data set last_year: 200 rows with labels" in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns(["age"]), "external.traffic: the table lacks 1 column(s): 'age'"),
        (
            lambda table: table.set_column(0, "age", pa.array(["x"] * 300)),
            "external.traffic: column 'age' held numbers",
        ),
        (lambda table: table.append_column("z", pa.array(["maybe"] * 300)), "'maybe'"),
        (lambda table: table.slice(0, 0), "traffic.parquet: the table has 0 rows"),
    ],
)
def test_what_is_wrong_with_an_external_table_is_named(folder, capsys, change, message):
    traffic = change(pa.table({name: values for name, values in people(300, seed=5).items() if name != "income"}))
    pyarrow.parquet.write_table(traffic, folder / "traffic.parquet")
    target = 'target = "z"\n' if "z" in traffic.column_names else ""
    more = "\nsubject to error_rate(external('traffic')) <= 0.9\n" if target else ""
    more += f"\nsubject to positive_rate(external('traffic')) <= 0.6\n'''\n[external.traffic]\n{target}"
    content = train(
        folder, capsys, "\n'''\n", more.replace("'traffic'", '"traffic"') + 'table = "traffic.parquet"\n', code=2
    )
    assert message in content["error"]


def test_folders_of_external_tables_may_hold_no_links_that_lead_away(folder, capsys):
    (folder / "parts").mkdir()
    outside = folder.parent / f"{folder.name}-outside"
    outside.mkdir()
    pyarrow.parquet.write_table(pa.table(people(300)), outside / "p.parquet")
    (folder / "parts" / "p.parquet").symlink_to(outside / "p.parquet")
    more = '\nsubject to positive_rate(external("x")) <= 0.6\n\'\'\'\n[external.x]\ntable = "parts"\n'
    content = train(folder, capsys, "\n'''\n", more, code=2)
    assert "external.x.table" in content["error"] and "leads outside" in content["error"]
    train(folder, capsys, "", "", "--allow-outside", str(outside))


def test_a_fraction_of_the_rows_is_held_out(folder, capsys):
    content = train(folder, capsys, "[output]", "[validation]\nfraction = 0.25\n[output]", code=0)
    assert model_info(folder / "m.skops").metadata["rows"] == {"train": 450, "test": 150}
    assert set(content["met"]) == {"train", "test"}
    again = train(folder, capsys)
    assert again["reports"]["test"] == content["reports"]["test"]


def test_folds_choose_the_regulariser(folder, capsys):
    write_csv(folder / "people.csv", people(160))
    content, printed = train_and_print(folder, capsys, "[output]", "[validation]\nfolds = 2\n[output]")
    model = load_model(folder / "m.skops")[-1]
    assert type(model).__name__ == "RateConstrainedClassifier" and content["C"] == model.C
    assert content["C"] != 0.2
    assert f"Chosen by 2 folds: C = {content['C']:g}" in printed


def test_a_confidence_is_proved_on_rows_kept_aside(folder, capsys):
    write_csv(folder / "people.csv", people(2000))
    lines = "[validation]\nconfidence = 0.9\nfraction = 0.5\n[output]"
    content, shown = train_and_print(folder, capsys, "[output]", lines)
    assert content["met"] == {"validation": True}
    assert "probability >= 0.9 " in content["guarantee"] and "502 rows" in content["guarantee"]
    assert "Goal: proved for new rows with confidence 0.9." in shown
    content = train(folder, capsys, "recall() >= 0.7", "recall() >= 0.9999")  # a constant model has it by definition
    assert "'recall' by definition" in content["guarantee"]
    both = "recall() >= 0.9999\nsubject to false_positive_rate() <= 0.01"
    content = train(folder, capsys, "recall() >= 0.9999", both, code=1)
    assert "error" in content


def test_the_time_budget_of_the_command_line_comes_first(folder, capsys):
    assert main(["train", str(folder / "goals.toml"), "--time-budget", "1e-6", "--json"]) in (0, 1)
    assert "stopped after" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["train", str(folder / "goals.toml"), "--time-budget", "0"])


def cases(file):
    """By suite and test case, whether it failed and why."""
    root = ET.parse(file).getroot()
    assert root.get("name") == "widemargin train"
    assert root.get("failures") == str(len(root.findall(".//failure")))
    return {
        (suite.get("name").rpartition(": ")[2], case.get("name")): next((f.get("message") for f in case), None)
        for suite in root
        for case in suite.findall("testcase")
    }


def test_junit_has_a_suite_for_each_part_that_decides(folder, capsys):
    file = folder / "out" / "train.xml"
    audit = "[goal.audit]\ntext = 'subject to high: recall() >= 0.99'\n[output]"
    train(folder, capsys, "[output]", f"[validation]\nfraction = 0.25\n{audit}", "--junit", str(file), code=1)
    found = cases(file)
    assert list(found) == [("training rows", "recall"), ("test rows", "high")]
    assert found["training rows", "recall"] is None and " < bound 0.99 " in found["test rows", "high"]


def test_junit_of_a_proof_and_of_randomized_training(folder, capsys):
    file = folder / "train.xml"
    train(folder, capsys, "[output]", "[validation]\nconfidence = 0.9\n[output]", "--junit", str(file))
    assert cases(file) == {("validation", "proved with confidence 0.9"): None}
    train(folder, capsys, "confidence = 0.9", "fraction = 0.2", "--junit", str(file))
    train(folder, capsys, "[output]", "[model]\nenforce = 'randomized'\n[output]", "--junit", str(file))
    assert ("training rows", "recall") in cases(file)


def test_junit_where_no_model_meets_the_goal(folder, capsys):
    file = folder / "train.xml"
    train(folder, capsys, "recall() >= 0.7", "error_rate() <= 0.001", "--junit", str(file), code=1)
    ((name, why),) = cases(file).items()
    assert name[1] == "a model that meets the goal" and "0.001" in why


def test_weights_are_rows_that_are_there_several_times(folder, capsys):
    weight, columns = np.random.default_rng(0).integers(0, 3, 600), people()
    write_csv(folder / "people.csv", columns | {"w": weight.tolist()})
    weighted = train(folder, capsys, "[data]", '[data]\nweight = "w"\nfeatures = ["age"]')
    assert model_info(folder / "m.skops").metadata["weight"] == "w"
    said = load_model(folder / "m.skops").predict(pa.table(columns))
    constraint = weighted["reports"]["train"]["this model"]["constraints"][0]
    positive = weight * (np.array(columns["income"]) == "high")
    assert constraint["rate"] == pytest.approx((positive * (said == "high")).sum() / positive.sum())


def test_a_weight_is_a_number_from_0_on_and_plays_no_other_part(folder, capsys):
    write_csv(folder / "people.csv", people() | {"w": [1.0, 2.0, -1.0, *[1.0] * 597]})
    assert "'w' is missing, negative or not finite in 1 of 600 row(s)" in train(
        folder, capsys, "[data]", '[data]\nweight = "w"', code=2
    )["error"]  # fmt: skip
    write_csv(folder / "people.csv", people() | {"w": [0] * 600})
    assert "'w' is 0 in all 600 training rows" in train(folder, capsys, "[data]", "[data]", code=2)["error"]
    assert "holds string" in train(folder, capsys, '"w"', '"work"', code=2)["error"]
    assert "'sex' is also named by data.protected" in train(folder, capsys, '"work"', '"sex"', code=2)["error"]


def test_protected_columns_are_features_only_when_asked_and_the_report_says_so(folder, capsys):
    assert train(folder, capsys)["features"] == ["age", "work"]
    lines = 'protected = ["sex"]\nprotected_as_features = ["sex"]'
    content = train(folder, capsys, 'protected = ["sex"]', lines)
    assert content["features"] == ["age", "work", "sex"] and content["protected_as_features"] == ["sex"]
    assert model_info(folder / "m.skops").metadata["protected_as_features"] == ["sex"]
    assert main(["train", str(folder / "goals.toml")]) == 0
    shown = capsys.readouterr().out
    assert "Protected, and used to decide all the same, as asked: sex" in shown
    assert "Used to measure rates, not to decide" not in shown


def test_functions_run_only_when_allowed(folder, capsys):
    (folder / "wm_train_rules.py").write_text("def decide(table):\n    return ['high'] * table.num_rows\n")
    lines = '[baselines.rule]\nfunction = "wm_train_rules:decide"\n[output]'
    content = train(folder, capsys, "[output]", lines, code=2)
    assert "would run code" in content["error"]
    content = train(folder, capsys, "", "", "--allow-code")
    assert content["reports"]["train"]["rule"]["constraints"][0]["rate"] == 1.0


def test_rare_words_share_a_feature(folder, capsys):
    columns = people()
    columns["work"][:3] = ["robot", "clerk", "pilot"]
    write_csv(folder / "people.csv", columns)
    train(folder, capsys, "[output]", "[model]\nrare_words = 5\n[output]")
    assert "work rare" in load_model(folder / "m.skops")[0].get_feature_names_out()


def test_a_table_may_come_in_parts(folder, capsys):
    whole = train(folder, capsys)
    columns = people()
    for name, rows in (("a.csv", slice(0, 250)), ("b.csv", slice(250, None))):
        write_csv(folder / name, {column: values[rows] for column, values in columns.items()})
    parts = train(folder, capsys, 'table = "people.csv"', 'table = ["a.csv", "b.csv"]')
    assert parts["training"] == whole["training"]
    (folder / "parts").mkdir()
    for number in range(2):
        pyarrow.parquet.write_table(
            pa.table({column: values[number * 300 : number * 300 + 300] for column, values in columns.items()}),
            folder / "parts" / f"p{number}.parquet",
        )
    assert train(folder, capsys, 'table = ["a.csv", "b.csv"]', 'table = "parts"')["training"] == whole["training"]
    assert main(["train", str(folder / "goals.toml")]) == 0
    assert f"600 training rows of {folder / 'parts'};" in capsys.readouterr().out


def test_one_class_among_the_training_rows_is_named(folder, capsys):
    """Not the first rate that has no rows, which would be another's fault."""
    columns = people()
    columns["income"] = ["low"] * len(columns["income"])
    write_csv(folder / "people.csv", columns)
    content = train(folder, capsys, code=2)
    assert "people.csv: the target 'income' is 'low' in all 600 training rows; two classes are" in content["error"]
    columns["income"] = ["low" if part == "train" and row % 2 else "high" for row, part in enumerate(columns["split"])]
    write_csv(folder / "people.csv", columns)
    split = 'split = { column = "split", train = "train", test = "test" }'
    content = train(folder, capsys, "[goal]", f"{split}\n\n[goal]", code=2)
    assert "the target 'income' is 'high' in all 200 test rows; two classes are" in content["error"]


def test_rows_on_which_a_goal_cannot_be_measured_are_named(folder, capsys):
    goal = 'positive_rate(population(sex == "X")) >= 0.1'
    columns = people()
    columns["sex"] = ["X" if part == "test" else "F" for part in columns["split"]]
    write_csv(folder / "people.csv", columns)
    text = (folder / "goals.toml").read_text().replace("recall() >= 0.7", goal)
    split = 'split = { column = "split", train = "train", test = "test" }'
    (folder / "goals.toml").write_text(text.replace("[goal]", f"{split}\n[goal]"))
    content = train(folder, capsys, code=2)
    assert content["error"].startswith(
        "on the training rows: column 'sex' has no value 'X', so the population is empty"
    )
    columns["sex"] = ["F" if part == "test" else "X" for part in columns["split"]]
    write_csv(folder / "people.csv", columns)
    assert train(folder, capsys, code=2)["error"].startswith("on the test rows: column 'sex' has no value 'X'")


def test_a_model_that_knows_its_rows_by_heart_is_named(folder, capsys):
    """Forty columns of noise and few rows: the numbers of both errors are said, on the console and in JSON."""
    rng, n = np.random.default_rng(0), 200
    table = {f"x{j}": rng.normal(size=n).round(4).tolist() for j in range(60)}
    table |= {"income": rng.choice(["high", "low"], n).tolist(), "split": ["train"] * 100 + ["test"] * 100}
    write_csv(folder / "people.csv", table)
    (folder / "goals.toml").write_text("""
[data]
table = "people.csv"
target = "income"
positive = "high"
split = { column = "split", train = "train", test = "test" }
[goal]
text = "minimize error_rate()"
[model]
C = 100.0
""")
    assert main(["train", str(folder / "goals.toml")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Caution: the error is 0.0" in said and "on 100 held-out rows: the model knows its rows by heart" in said
    assert len(train(folder, capsys)["cautions"]) >= 1
    cautions = train(folder, capsys, "C = 100.0", 'learner = "trees"')["cautions"]
    assert "by heart. What helps: fewer features" in " ".join(cautions)  # trees have no C


ABSTAINING = """minimize abstention_rate()
subject to right: selective_error() <= 0.1
subject to seen: coverage(abstain=True) >= 0.3
"""


def test_a_goal_about_decisions_makes_a_model_that_abstains(folder, capsys):
    rows = people(3000)  # a proof needs some
    write_csv(folder / "people.csv", rows)
    goal = PLAIN.partition("'''\n")[2].partition("'''")[0]
    content = train(folder, capsys, goal, ABSTAINING, code=0)
    model = load_model(folder / "m.skops")
    said = model.predict(pa.table(rows))
    decided, wrong = said != "undecided", said != np.array(rows["income"])
    assert set(said) == {"high", "low", "undecided"}
    ours, plain = (content["reports"]["train"][name] for name in ("this model", "plain logistic regression"))
    assert ours["objective"] == pytest.approx(1.0 - decided.mean()) and plain["objective"] == 0.0
    assert ours["constraints"][0]["rate"] == pytest.approx(wrong[decided].mean())
    assert content["status"] == "converged" and content["C"] == 0.2
    more = '[model]\nabstain = "ask"\n[validation]\nconfidence = 0.9\n[output]'
    again, printed = train_and_print(folder, capsys, "[output]", more)
    assert "exact binomial test" in again["guarantee"] and set(again["met"]) == {"validation"}
    assert "ask" in load_model(folder / "m.skops").predict(pa.table(rows))
    goals = str(folder / "goals.toml")
    assert "Undecided, 'ask': rows with a score for 'high' between " in printed
    assert main(["audit", goals, "--model", str(folder / "m.skops"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert report["constraints"][0]["rate"] <= 0.1
    page = folder / "page.html"
    assert main(["report", goals, "--model", str(folder / "m.skops"), "--out", str(page)]) == 0
    assert "What abstention buys" in page.read_text() and "or that it does not know" in page.read_text()
    capsys.readouterr()
    bounds = ["--constraint", "right", "--from", "0.1", "--to", "0.2", "--points", "2"]
    path = ["tradeoff", goals, *bounds, "--out", str(folder / "path.json")]
    assert main([*path, "--json"]) == 0
    strict, loose = json.loads(capsys.readouterr().out)["path"]["training"]["objective"]
    assert 0.0 <= loose < strict  # the share of undecided rows
    assert main(path) == 0 and "Nothing was trained" in capsys.readouterr().out
    shown = ["--model", str(folder / "m.skops"), "--tradeoff", str(folder / "path.json"), "--out", str(page)]
    assert main(["report", goals, *shown]) == 0
    assert main([*path, "--time-budget", "5"]) == 2
    assert "--time-budget is for models that are trained to their goal" in capsys.readouterr().err
    models = [str(folder / "m.skops")] * 2
    assert main(["compare", goals, "--models", *models, "--data", str(folder / "people.csv")]) == 2
    assert "m.skops leaves rows undecided" in capsys.readouterr().err


def test_decisions_of_a_rare_class_have_a_certainty(folder, capsys):
    # The best SVM says "low" everywhere, with the same score, though half of the rows are far surer than the others.
    rng = np.random.default_rng(0)
    x = rng.normal(size=1500)
    high = rng.random(1500) < 1.0 / (1.0 + np.exp(1.2 - 0.8 * x))
    write_csv(folder / "people.csv", {"x": x, "sex": ["F", "M"] * 750, "income": np.where(high, "high", "low")})
    goal = PLAIN.partition("'''\n")[2].partition("'''")[0]
    text = PLAIN.replace('ignore = ["split", "old"]\n', "").replace(goal, ABSTAINING.replace("0.1", "0.18"))
    (folder / "goals.toml").write_text(text)
    assert train(folder, capsys)["met"] == {"train": True}


def test_what_is_promised_may_be_about_scores(folder, capsys):
    promise = "recall: recall() >= 0.7\n'''\n[validation]\nfraction = 0.4\n[goal.audit]\ntext = '''\n"
    promise += "subject to certified_rate(0.2) >= 0.1\nsubject to margin_quantile(0.5) >= 0\n'''\n"
    content = train(folder, capsys, "recall: recall() >= 0.7\n'''\n", promise)
    model, report = load_model(folder / "m.skops"), content["reports"]["test"]["this model"]
    radii = certified_radii(model, pa.table(people()))  # in the table's units, of all rows
    assert report["constraints"][0]["rate"] == pytest.approx((radii.values > 0.2).mean(), abs=0.1)
    assert 0.0 < report["constraints"][1]["rate"] < 0.5  # rows decided wrongly
    assert main(["check", str(folder / "goals.toml"), "--data"]) == 0


@pytest.mark.parametrize(
    ("more", "named"),
    [("[validation]\nfolds = 2\n", "validation.folds"), ('[model]\nenforce = "randomized"\n', "model.enforce")],
)
def test_what_does_not_go_with_abstention_is_named(folder, capsys, more, named):
    content = train(
        folder, capsys, "recall: recall() >= 0.7\n'''\n", f"right: selective_error() <= 0.1\n'''\n{more}", code=2
    )
    assert named in content["error"] and "abstains" in content["error"]


def test_two_thresholds_for_each_value_of_a_column(folder, capsys):
    rows = people(2000)
    rows["income"] = [int(label == "high") for label in rows["income"]]  # numbers, beside a text for no decision
    write_csv(folder / "people.csv", rows)
    goal = PLAIN.partition("'''\n")[2].partition("'''")[0]
    text = PLAIN.replace(goal, ABSTAINING).replace('"high"', "1")
    # Thresholds lie just within the bound that is trained to, so a looser one is promised of whatever rows.
    more = "[goal.audit]\ntext = '''\nsubject to selective_error() <= 0.15\n"
    more += "subject to coverage(abstain=True) >= 0.3\n'''\n"
    more += '[model]\nthresholds_by = "sex"\n[output]'
    (folder / "goals.toml").write_text(text.replace("[output]", more))
    goals, model, data = str(folder / "goals.toml"), str(folder / "m.skops"), str(folder / "people.csv")
    assert main(["train", goals, "--junit", str(folder / "r.xml")]) == 0
    said = capsys.readouterr().out
    assert said.count("Undecided, 'undecided': rows of sex ") == 2
    # What the rows say by the scores of the model that was fitted to them is shown, and does not decide.
    assert "met on the training rows by scores of models that have not seen them" in said
    assert 'failures="0"' in (folder / "r.xml").read_text()
    assert np.shape(load_model(model)[-1].threshold_) == (2, 2)
    assert main(["predict", goals, "--data", data, "--out", str(folder / "p.csv")]) == 0
    said, pipeline = pyarrow.csv.read_csv(folder / "p.csv")["prediction"].to_pylist(), load_model(model)
    answers = pipeline[-1].predict(pipeline[:-1].transform(pa.table(rows)), populations=pa.table(rows))
    assert said == [str(label) for label in answers] and {*said} == {"0", "1", "undecided"}
    capsys.readouterr()
    # The scores that are written, of the class that the goals file calls positive, lie where it is said that they do.
    text = (folder / "goals.toml").read_text()
    (folder / "other.toml").write_text(text.replace("positive = 1", "positive = 0"))
    assert main(["predict", str(folder / "other.toml"), "--data", data, "--out", str(folder / "o.csv")]) == 0
    printed, written = capsys.readouterr().out, pyarrow.csv.read_csv(folder / "o.csv")
    scores, decided = np.array(written["score"]), np.array(written["prediction"].to_pylist()) != "undecided"
    assert "A score above 0" not in printed
    for sex, low, high in re.findall(r"rows of sex (\w+) with a score for 0 between (\S+) and (\S+)", printed):
        here = np.array(rows["sex"]) == sex
        assert ((scores[here] < float(low)) | (scores[here] > float(high))).tolist() == decided[here].tolist()
    assert printed.count("rows of sex ") == 2
    for asked in (["--model", model], ["--predictions", str(folder / "p.csv"), "--abstain", "undecided"]):
        assert main(["audit", goals, "--data", data, "--json", *asked]) == 0
        rates = [item["rate"] for item in json.loads(capsys.readouterr().out)["report"]["constraints"]]
        decided = np.array(said) != "undecided"
        wrong = np.array(said) != np.array(rows["income"]).astype(str)
        assert rates == pytest.approx([wrong[decided].mean(), decided.mean()])


@pytest.mark.parametrize("more", ["", "[validation]\nfraction = 0.4\nconfidence = 0.9\n"])
def test_boosted_trees_are_trained_to_the_goal_saved_audited_and_shown(folder, capsys, more):
    fair = "subject to recall: recall() >= 0.6\nsubject to fair: demographic_parity(sex, difference=0.2)"
    (folder / "goals.toml").write_text(PLAIN.replace("subject to recall: recall() >= 0.7", fair) + more)
    content, printed = train_and_print(folder, capsys, "[output]", '[model]\nlearner = "trees"\n[output]')
    assert content["met"]["validation" if more else "train"]
    assert (content["guarantee"] is not None) == bool(more)
    assert "plain boosted trees" in content["reports"]["train"]
    model = load_model(folder / "m.skops")
    assert type(model[-1]).__name__ == "GoalReduction"
    goals, table = str(folder / "goals.toml"), str(folder / "people.csv")
    # The same rows have other rates in the report, which a sentence explains.
    assert ("The model was fitted to these rows" in printed) == ("(cross-validated)" in printed) == (not more)
    # In groups of few rows a rate may be missed by chance, which exit code 1 says.
    assert main(["audit", goals, "--model", str(folder / "m.skops"), "--data", table]) in (0, 1)
    assert main(["report", goals, "--model", str(folder / "m.skops"), "--out", str(folder / "m.html")]) in (0, 1)
    page = (folder / "m.html").read_text()
    assert "plain boosted trees" in page
    # No setting is shown, or told, that trees have not.
    assert "trees</dd>" in page and "deterministic" not in page and "linear" not in page
    assert content["C"] is None


@pytest.mark.parametrize(
    ("model", "more", "key"),
    [
        ('kernel = "rbf"', "", "model.kernel"),
        ("C = 1.0", "", "model.C"),
        ('enforce = "randomized"', "", "model.enforce"),
        ('abstain = "undecided"', "", "model.learner"),
        ("", "[validation]\nfolds = 3\n", "validation.folds"),
    ],
)
def test_what_is_for_svms_is_refused_of_trees(folder, capsys, model, more, key):
    goals = folder / "goals.toml"
    goals.write_text(PLAIN.replace("[output]", f'[model]\nlearner = "trees"\n{model}\n{more}[output]'))
    assert main(["train", str(goals)]) == 2
    message = capsys.readouterr().err
    assert f"{key}: " in message
    assert "learner" in message or "trees" in message


@pytest.mark.parametrize(
    ("spelling", "text"),
    [
        ("{:_}".format, "feature 'pay' holds numbers written as texts, such as 1'000: write digits"),
        (
            lambda number: f"{1 + number % 28}/{1 + number % 12}/{1980 + number % 40}",
            "feature 'pay' holds days such as",
        ),
    ],
)
def test_texts_that_are_numbers_or_days_are_told(folder, capsys, spelling, text):
    rows = people()
    rows["pay"] = [spelling(1000 + 37 * row).replace("_", "'") for row in range(len(rows["income"]))]
    write_csv(folder / "people.csv", rows)
    main(["train", str(folder / "goals.toml")])
    assert text in " ".join(capsys.readouterr().err.split())
    (folder / "goals.toml").write_text((folder / "goals.toml").read_text().replace("[goal]", 'words = ["pay"]\n[goal]'))
    capsys.readouterr()
    main(["train", str(folder / "goals.toml")])
    assert "feature 'pay' holds" not in capsys.readouterr().err

"""`widemargin check`: what it finds in the file, and on the table."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from command_line import people, write_csv
from widemargin.cli.main import main


def check(folder, capsys, *options, code=0):
    assert main(["check", str(folder / "goals.toml"), "--json", *options]) == code
    return json.loads(capsys.readouterr().out)


def changed(folder, old, new):
    text = (folder / "goals.toml").read_text()
    assert old in text
    (folder / "goals.toml").write_text(text.replace(old, new))


def told(found):
    return [f"{item['line']} {item['key']}: {item['text']}" for item in found]


def test_a_good_file_has_no_problems(project, capsys):
    assert check(project, capsys)["problems"] == []
    assert not (project / "out").exists()
    content = check(project, capsys, "--data")
    assert content["problems"] == content["warnings"] == []
    assert content["rows"] == {"train": 400, "test": 200}
    assert main(["check", str(project / "goals.toml"), "--data"]) == 0
    assert "no problems (400 train rows, 200 test rows)" in capsys.readouterr().out


def test_problems_of_the_file_are_listed_on_stdout(project, capsys):
    changed(project, "protected", "protekted")
    changed(project, "recall() >= 0.6", "recal() >= 0.6")
    content = check(project, capsys, code=2)
    assert told(content["problems"]) == [
        "6 data.protekted: unknown key. Is it 'protected'?",
        "18 goal.text: no valid goal: unknown function 'recal'. Did you mean 'recall'?",
    ]
    assert main(["check", str(project / "goals.toml")]) == 2
    printed = capsys.readouterr()
    assert "2 problems" in printed.out and printed.err == ""
    assert "subject to recall: recal() >= 0.6\n" in printed.out


@pytest.mark.parametrize("options", [(), ("--data",)])
def test_what_training_does_not_bound_is_a_problem_with_and_without_the_table(project, capsys, options):
    changed(project, "recall() >= 0.6", "margin_quantile(0.1) >= 0")
    (problem,) = check(project, capsys, *options, code=2)["problems"]
    assert problem["key"] == "goal.text" and "about scores" in problem["text"]


def test_a_promise_is_told_to_repeat_the_populations_of_the_goal(project, capsys):
    changed(project, "recall() >= 0.4", "recall(women) >= 0.4")
    (problem,) = check(project, capsys, code=2)["problems"]
    assert "unknown population 'women'" in problem["text"]
    assert problem["text"].endswith("What goal.text defines has to be repeated here.")


def test_without_a_file_it_says_so(capsys, tmp_path):
    assert main(["check"]) == 2
    assert "no goals file was named" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "none.toml")]) == 2
    assert "cannot be read" in capsys.readouterr().out


PROBLEMS = {
    "table": ('"people.csv"', '"peple.csv"', "3 data.table: ", "cannot be read"),
    "column": ('["sex"]', '["sx"]', "6 data.protected: column 'sx' is not in the table. Did you mean 'sex'?", ""),
    "target": ('"income"', '"incme"', "4 data.target: column 'incme' is not in the table. Did you mean 'income'?", ""),
    "positive": ('"high"', '"hgh"', "5 data.positive: ", "Did you mean 'high'?"),
    "split": ('test = "test"', 'test = "tst"', "7 data.split: ", "0 rows have 'tst'"),
    "value": ('sex == "F"', 'sex == "f"', "14 goal.text: on the training rows: ", "has no value 'f'"),
    "quoted number": ('sex == "F"', 'age < "30"', "14 goal.text: ", "Write a number, without quotes"),
    "goal column": ('sex == "F"', 'sax == "F"', "14 goal.text: on the training rows: ", "'sax'"),
    "empty": ('sex == "F"', 'sex == "F" and age > 200', "14 goal.text: ", "population women is empty"),
    "bound": (
        "recall() >= 0.6", "true_positives() >= 500", "18 goal.text: on the training rows: 'recall'",
        "cannot hold on these rows",
    ),
    "class": (
        "recall() >= 0.6", 'recall(of="hgh") >= 0.6\nsubject to recall(of="high") >= 0.1', "18 goal.text: ",
        "speaks of the class 'hgh'",
    ),
    "promise": ("recall() >= 0.4", "true_positives() >= 190", "23 goal.audit.text: on the test rows: ", "cannot hold"),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(PROBLEMS))
def test_problems_of_the_table_have_lines(project, capsys, kind):
    old, new, start, text = PROBLEMS[kind]
    changed(project, old, new)
    problems = told(check(project, capsys, "--data", code=2)["problems"])
    assert len(problems) == 1, problems
    assert problems[0].startswith(start) and text in problems[0]


def test_several_problems_are_found_at_once(project, capsys):
    changed(project, 'sex == "F"', 'sex == "X"')
    changed(project, "recall() >= 0.6", "true_positives() >= 500")
    changed(project, '["sex"]', '["sex", "gender"]')
    columns = people()
    columns["old"] = ["maybe"] * 600
    write_csv(project / "people.csv", columns)
    content = check(project, capsys, "--data", code=2)
    text = "\n".join(told(content["problems"]))
    assert len(content["problems"]) == 4
    for part in ("6 data.protected: column 'gender'", "14 goal.text", "18 goal.text", "'maybe'"):
        assert part in text


def test_a_mark_stands_below_the_value(project, capsys):
    changed(project, 'sex == "F"', 'sex == "X"')
    assert main(["check", str(project / "goals.toml"), "--data"]) == 2
    lines = capsys.readouterr().out.split("\n")
    mark = next(number for number, line in enumerate(lines) if line.strip() == "^")
    assert lines[mark].index("^") == lines[mark - 1].index('"X"')


@pytest.mark.parametrize(("cure", "kind", "code"), [("raise", "problems", 2), ("warn", "warnings", 0)])
def test_rules_that_contradict_each_other_whatever_the_model_are_named(project, capsys, cure, kind, code):
    changed(project, "recall() >= 0.6", "recall() >= 0.6\nsubject to recall() <= 0.5")
    changed(project, "[output]", f'[model]\non_infeasible = "{cure}"\n\n[output]')
    found = told(check(project, capsys, "--data", code=code)[kind])
    (said,) = (text for text in found if "no classifier of any kind meets these 2 constraints" in text)
    assert said.startswith("19 goal.text: on the training rows: ")
    assert said.endswith("together: 'recall', 'recall() <= 0.5'. Loosen one of them")


def test_contradictions_are_those_of_weighted_rows(project, capsys):
    changed(project, "recall() >= 0.6", "positive_rate() >= 0.6\nsubject to false_positive_rate() <= 0.1")
    columns = people()
    columns["kilos"] = [50 if label == "high" else 1 for label in columns["income"]]
    write_csv(project / "people.csv", columns)
    assert "meets these" in told(check(project, capsys, "--data", code=2)["problems"])[0]
    changed(project, 'positive = "high"', 'positive = "high"\nweight = "kilos"')
    changed(project, "0.8 * positive_rate(men)", "0.1 * positive_rate(men)")
    changed(project, "<= 0.3", "<= 1")
    assert check(project, capsys, "--data")["problems"] == []


def test_labels_that_are_made_up_prove_no_contradiction(project, capsys):
    changed(project, "recall() >= 0.6", "recall() >= 0.9\nsubject to positive_rate() <= 0.4")
    write_csv(project / "people.csv", {**people(), "income": ["high"] * 600})
    content = check(project, capsys, "--data", code=2)
    assert "meets these" not in "\n".join(told(content["problems"]))


def test_another_table_can_be_looked_at(project, capsys):
    write_csv(project / "new.csv", {**people(100), "age": ["old"] * 100})
    content = check(project, capsys, "--data", str(project / "new.csv"))
    assert content["rows"] == {"train": 66, "test": 34}


def warned(folder, capsys, columns):
    write_csv(folder / "people.csv", columns)
    return "\n".join(told(check(folder, capsys, "--data")["warnings"]))


def test_columns_that_are_no_features_are_warned_of(project, capsys):
    columns = people()
    columns["constant"] = [7] * 600
    columns["income.gross"] = [f'"{1000 + row % 40:,}.50"' for row in range(600)]
    columns["since"] = [f"{1 + row % 7:02d}/03/2024" for row in range(600)]
    columns["client_id"] = list(np.random.default_rng(0).permutation(10**6)[:600])
    columns["row"] = list(range(600))
    columns[""] = list(np.random.default_rng(1).permutation(600))
    columns["answer"] = ["yes" if label == "high" else "no" for label in columns["income"]]
    columns["gender"] = [{"F": 0, "M": 1}[value] for value in columns["sex"]]
    text = warned(project, capsys, columns)
    assert "feature 'constant' has the same value in all 400 rows" in text
    assert "feature 'income.gross' holds numbers written as texts, such as 1,001.50: write digits" in text
    assert "feature 'since' holds days such as 02/03/2024: write them as 2024-01-31 and name it in data.dates" in text
    assert "feature 'client_id' has 400 distinct values in 400 rows and looks like an identifier" in text
    assert "feature 'row' has 400 distinct values in 400 rows and looks like an identifier" in text
    assert "feature '' has 400 distinct values in 400 rows and looks like an identifier" in text
    assert "feature 'answer' alone tells the target in 100.0% of the rows" in text
    assert "feature 'gender' tells the protected 'sex' in 100.0% of the rows" in text
    assert "'age'" not in text and "'work'" not in text
    check(project, capsys, "--data", "--strict", code=2)


def test_decisions_of_an_earlier_model_are_no_feature(project, capsys):
    columns = people()
    columns["old"] = columns["income"]
    assert "'deployed'" not in warned(project, capsys, columns)


@pytest.mark.parametrize("options", [(), ("--strict",)])
@pytest.mark.parametrize("kind", ["clean", "warning", "problem"])
def test_the_exit_code_is_what_the_last_line_says(project, capsys, kind, options):
    if kind == "warning":
        write_csv(project / "people.csv", people() | {"constant": [7] * 600})
    elif kind == "problem":
        write_csv(project / "people.csv", people() | {"age": ["inf"] * 600})
    code = main(["check", str(project / "goals.toml"), "--data", *options])
    printed = capsys.readouterr()
    assert printed.err == "" and code == (2 if kind == "problem" or (kind == "warning" and options) else 0)
    assert ("no problems" in printed.out) is (code == 0)
    last = printed.out.splitlines()[-1]
    assert ("--strict" in last) is (kind == "warning" and code == 2)
    assert (", 1 warning to read" in last) is (kind == "warning" and code == 0)


def test_a_table_of_held_out_rows_alone_can_be_checked(project, capsys):
    write_csv(project / "held_out.csv", people(100) | {"split": ["test"] * 100})
    content = check(project, capsys, "--data", str(project / "held_out.csv"))
    assert content["problems"] == [] and content["rows"] == {"test": 100}
    write_csv(project / "held_out.csv", people(100) | {"split": ["tset"] * 100})
    check(project, capsys, "--data", str(project / "held_out.csv"), code=2)


def test_features_that_do_not_fit_the_rows_held_out(project, capsys):
    columns = people()
    columns["work"] = ["new" if row % 30 == 0 else word for row, word in enumerate(columns["work"])]
    assert "on the test rows column 'work' has words that training does not know in 20 row(s) ('new')" in warned(
        project, capsys, columns
    )
    columns["age"] = ["inf" if row == 0 else age for row, age in enumerate(columns["age"])]
    write_csv(project / "people.csv", columns)
    problems = told(check(project, capsys, "--data", code=2)["problems"])
    assert any("on the test rows: column 'age' holds 1 infinite number(s)" in text for text in problems)


def test_features_that_cannot_be_read(project, capsys):
    columns = people()
    columns["empty"] = [None] * 600
    columns["day"] = ["2024-01-01"] * 600
    write_csv(project / "people.csv", columns)
    text = "\n".join(told(check(project, capsys, "--data", code=2)["problems"]))
    assert "column 'empty' holds no value at all" in text and "column 'day' has type Date" in text


def test_few_rows_are_warned_of_and_too_few_for_a_confidence_refused(project, capsys):
    changed(project, "recall() >= 0.4", "recall(population(age > 65)) >= 0.4")
    content = check(project, capsys, "--data")
    assert "is measured on" in content["warnings"][0]["text"] and content["warnings"][0]["line"] == 23
    changed(project, "[output]", "[validation]\nconfidence = 0.99\nfraction = 0.02\n[output]")
    content = check(project, capsys, "--data", code=2)
    text = "\n".join(told(content["problems"]))
    assert "26 validation.confidence: 'recall' cannot be proved with confidence 0.99 by about 2 rows" in text
    assert "could still be chance (p = 0.058, exact binomial test)" in text


def test_pairs_of_one_bundle_on_few_rows_are_one_warning(project, capsys):
    columns = people()
    columns["town"] = [f"t{row % 4}" for row in range(600)]
    write_csv(project / "people.csv", columns)
    changed(project, "recall() >= 0.4", "demographic_parity(town, difference=0.9)")
    found = [item for item in check(project, capsys, "--data")["warnings"] if "is measured on" in item["text"]]
    assert len(found) == 1 and "the smallest of 12 such pairs" in found[0]["text"]


def test_a_goals_file_that_an_option_took_is_named(project, capsys):
    assert main(["check", "--data", str(project / "goals.toml")]) == 2
    assert "goals.toml' for its table: write" in capsys.readouterr().err


def test_protected_features_are_said(project, capsys):
    changed(project, 'protected = ["sex"]', 'protected = ["sex"]\nprotected_as_features = ["sex"]')
    assert told(check(project, capsys, "--data")["warnings"]) == [
        "7 data.protected_as_features: 'sex' is protected and a feature all the same, as asked"
    ]


def test_external_tables_are_looked_at(project, capsys):
    traffic = pa.table({name: values for name, values in people(300).items() if name != "age"})
    pyarrow.parquet.write_table(traffic, project / "traffic.parquet")
    changed(project, 'churn("deployed") <= 0.3', "positive_rate(external('traffic')) <= 0.3")
    changed(
        project, "[output]", '[external.traffic]\ntable = "traffic.parquet"\n[external.x]\ntable = "x.csv"\n[output]'
    )
    content = check(project, capsys, "--data", code=2)
    assert "on external data set 'traffic': the table lacks 1 column(s): 'age'" in told(content["problems"])[0]
    assert told(content["warnings"]) == ["27 external.x: no goal measures a rate on 'x', so it is not read. Drop it"]


def test_one_class_only(project, capsys):
    write_csv(project / "people.csv", {**people(), "income": ["high"] * 600})
    problems = told(check(project, capsys, "--data", code=2)["problems"])
    assert any(text.startswith("4 data.target: the target 'income' is 'high' in all 400 rows") for text in problems)


HIDDEN = (  # each stands beside a fault that once hid it
    ('["sex"]', '["sex", "gender"]', "data.protected: column 'gender' is not in the table"),
    ('sex == "F"', 'sex == "X"', "goal.text: on the training rows: population 'women'"),
    ("minimize error_rate()", "minimize error_rate()\nsubject to many: count() >= 9000", "cannot hold on these rows"),
)


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda columns: columns, "data.positive: "),
        (lambda columns: {**columns, "income": ["?", *columns["income"][1:]]}, "has 3 classes"),
        (lambda columns: {**columns, "income": [None, None, *columns["income"][2:]]}, "is missing in 1 of 400 row(s)"),
        (lambda columns: {**columns, "income": ["high"] * 600}, "is 'high' in all 400 rows"),
        (lambda columns: {**columns, "income": [f"{row}.5" for row in range(600)]}, "has 400 classes"),
        (lambda columns: {name: values for name, values in columns.items() if name != "income"}, "column 'income'"),
        (lambda columns: {**columns, "split": ["train"] * 600}, "0 rows have 'test'"),
        (lambda columns: {**columns, "kilos": [-1] * 600}, "the weight 'kilos' is missing, negative or not finite"),
        (lambda columns: {**columns, "kilos": [0] * 600}, "the weight 'kilos' is 0 in all 400 training rows"),
    ],
)
def test_a_fault_hides_no_other(project, capsys, spoil, fault):
    columns = spoil(people())
    if fault == "data.positive: ":
        changed(project, '"high"', '"hgh"')
    if "kilos" in columns:
        changed(project, 'positive = "high"', 'positive = "high"\nweight = "kilos"')
    changed(project, HIDDEN[0][0], HIDDEN[0][1])
    changed(project, HIDDEN[1][0], HIDDEN[1][1])
    changed(project, "recall() >= 0.4", "recall(population(age > 900)) >= 0.4")
    columns["blank"] = [None] * 600
    write_csv(project / "people.csv", columns)
    problems = told(check(project, capsys, "--data", code=2)["problems"])
    expected = (
        fault, HIDDEN[0][2], HIDDEN[1][2], "column 'blank' holds no value at all", "goal.audit.text: on the t",
    )  # fmt: skip
    for text in expected:
        assert sum(text in line for line in problems) == 1, (text, problems)
    assert len(problems) == len(expected)


def test_a_wrong_positive_class_blames_nothing_that_hangs_on_it(project, capsys):
    changed(project, '"high"', '"hgh"')
    changed(project, "recall() >= 0.4", "true_positives() >= 190")  # 'high' has fewer rows, 'low' more
    problems = told(check(project, capsys, "--data", code=2)["problems"])
    assert len(problems) == 1 and "Did you mean 'high'?" in problems[0]


def test_a_baseline_that_cannot_be_read_hides_no_other_problem(project, capsys):
    changed(project, '{ column = "old" }', '{ model = "none.skops" }')
    changed(project, 'sex == "F"', 'sex == "X"')
    problems = told(check(project, capsys, "--data", code=2)["problems"])
    assert len(problems) == 2
    assert problems[0].startswith("10 baselines.deployed: ") and "has no value 'X'" in problems[1]


def test_problems_of_file_and_table_are_listed_together(project, capsys):
    changed(project, "protected", "protekted")
    changed(project, '"high"', '"hgh"')
    changed(project, 'column = "old"', 'model = "../old.skops"')
    changed(project, 'sex == "F"', 'sex == "X"')
    changed(project, "[output]", '[external.x]\ntable = "/etc/x.csv"\n[model]\nC = -1\n[output]')
    problems = told(check(project, capsys, "--data", code=2)["problems"])
    starts = (
        "5 data.positive: ", "6 data.protekted: unknown key", "10 baselines.deployed.model: ",
        "14 goal.text: on the training rows: population 'women'", "26 external.x.table: ", "28 model.C: ",
    )  # fmt: skip
    assert [any(line.startswith(start) for line in problems) for start in starts] == [True] * len(starts)
    assert len(problems) == len(starts)
    text = "\n".join(told(check(project, capsys, code=2)["problems"]))
    assert "leads outside" in text and "hgh" not in text


def test_a_function_runs_only_where_it_is_allowed_even_beside_other_problems(project, capsys):
    (project / "runs.py").write_text("open('ran', 'w')\ndef said(table):\n    return ['high'] * len(table)\n")
    changed(project, '{ column = "old" }', '{ function = "runs:said" }')
    changed(project, "protected", "protekted")
    problems = told(check(project, capsys, "--data", code=2)["problems"])
    assert any("would run code" in line for line in problems)
    assert not (project / "ran").exists()


def test_every_statement_of_a_goal_is_looked_at(project, capsys):
    changed(project, 'sex == "F"', "sex == F")
    changed(project, "recall() >= 0.6", "recall() >= 60%")
    changed(project, 'churn("deployed") <= 0.3', 'churn("deployed") < 0.3')
    changed(project, "minimize error_rate()", "minimise eror_rate()")
    problems = told(check(project, capsys, code=2)["problems"])
    assert [line.split(" goal.text: ")[0] for line in problems] == ["14", "16", "18", "19"]
    for text, line in zip(("Quote a text", "'error_rate'", "'%'", "strict"), problems, strict=True):
        assert text in line


def test_few_rows_for_the_columns_and_groups_that_nobody_is_in_are_warned_of(project, capsys):
    groups = 'elsewhere = population(sex == "X")\nabsent = population(sx == "F")\n'
    changed(project, "minimize error_rate()", f"{groups}minimize error_rate()")
    watched = told(check(project, capsys, "--data")["warnings"])
    assert any("population 'elsewhere'" in text and "will show this group without rows" in text for text in watched)
    assert any("'sx' is in no table given" in text and "will show this group without rows" in text for text in watched)
    table = people(60)
    table |= {f"x{j}": np.random.default_rng(j).normal(size=60).tolist() for j in range(8)}
    write_csv(project / "people.csv", table)
    told_now = told(check(project, capsys, "--data", code=0)["warnings"])
    assert any("training rows of the rarer class for" in text for text in told_now)


ABSTAINING = """minimize abstention_rate()
subject to selective_error() <= 0.2
'''
[model]
abstain = "undecided"
thresholds_by = "sex"
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"undecided"', '"low"', "model.abstain: abstain='low' is one of the classes ('high', 'low')"),
        ('by = "sex"', 'by = "sect"', "model.thresholds_by: column 'sect' is not in the table. It has 'age'"),
        ('by = "sex"', 'by = "id"', "model.thresholds_by: column 'id' has 1200 different values"),
        ('by = "sex"', 'by = "half"', "model.thresholds_by: 600 of 1200 rows belong to none of the 1 groups"),
        # Thresholds by the target itself were trained, and met every goal.
        ('by = "sex"', 'by = "income"', "model.thresholds_by: 'income' is also named by data.target."),
    ],
)
def test_what_no_model_that_abstains_can_be_trained_with(project, capsys, old, new, problem):
    columns = people(1800)
    columns |= {"id": list(range(1800)), "half": [row % 6 < 3 or None for row in range(1800)]}
    write_csv(project / "people.csv", columns)
    goals = (project / "goals.toml").read_text()
    (project / "goals.toml").write_text(goals.partition("minimize")[0] + ABSTAINING)
    assert check(project, capsys, "--data")["problems"] == []
    changed(project, old, new)
    (found,) = check(project, capsys, "--data", code=2)["problems"]
    assert f"{found['key']}: {found['text']}".startswith(problem)
    assert main(["train", str(project / "goals.toml"), "--model", str(project / "m.skops")]) == 2
    assert not (project / "m.skops").exists()


def test_a_file_that_ends_before_its_goal_is_checked_with_its_table(project, capsys):
    text = (project / "goals.toml").read_text()
    (project / "goals.toml").write_text(text[: text.index("[goal]")])
    assert any("goal" in problem for problem in told(check(project, capsys, "--data", code=2)["problems"]))

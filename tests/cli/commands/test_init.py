"""`widemargin init`: the file it writes passes `check` and `train`, and says why each line is there."""

import dataclasses
import datetime
import json
import math
import re
import tomllib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from command_line import people, write_csv
from widemargin.cli.checks import column_checks, proposals
from widemargin.cli.checks.column_checks import groups_of, stands_for_none, tells_groups
from widemargin.cli.checks.guesses import guess_roles
from widemargin.cli.checks.proposals import OPTIONS, PlainModel, Proposal, _least_margin_that_keeps
from widemargin.cli.commands.init import answer
from widemargin.cli.goals_file.reader import read_goals_file
from widemargin.cli.main import main
from widemargin.exceptions import CapabilityError, DataError
from widemargin.persistence import load_model, to_onnx


def clients(n_rows=1500, seed=0):
    """A table with every role: a target in the middle, protected columns, codes, an id, a date, leaks."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 70, n_rows)
    sex = rng.integers(1, 3, n_rows)
    amount = rng.lognormal(8, 1, n_rows).round(2)
    bad = (0.5 * rng.normal(size=n_rows) + (age < 30) + 0.4 * (sex == 2) + 2.0 * (amount > 4000) > 1.6).astype(int)
    day = datetime.date(2024, 1, 1)
    return {
        "client_id": (np.arange(n_rows) * 7 + 3).tolist(),
        "Sex": sex.tolist(),
        "age": age.tolist(),
        "default payment": bad.tolist(),
        "region": rng.integers(1, 9, n_rows).tolist(),
        "amount": amount.tolist(),
        "opened": [day + datetime.timedelta(int(days)) for days in rng.integers(0, 300, n_rows)],
        "after": ["late" if value else None for value in bad],
        "one": [1] * n_rows,
        "current_decision": (amount > 5000).astype(int).tolist(),
        "note": [f"text {row}" for row in range(n_rows)],
    }


@pytest.fixture
def one_setting(monkeypatch):
    """Folds choose neither C nor how numbers become features: most of the time of `init`, seen in other tests."""

    def first(rows, guesses):
        return 0.002, "scale", proposals._first_step(guesses, "scale").fit_transform(rows)

    monkeypatch.setattr(proposals, "_best_setting", first)


def init(folder, table, capsys, *options, code=0):
    arguments = ["init", str(folder / table), "--out", str(folder / "goals.toml"), "--json", *options]
    assert main(arguments) == code
    return json.loads(capsys.readouterr().out)


def test_a_csv_file_becomes_a_model_in_two_commands(tmp_path, capsys):
    write_csv(tmp_path / "clients.csv", clients())
    content = init(tmp_path, "clients.csv", capsys)
    assert content["target"] == "default payment" and content["positive"] == 0
    assert "names a harm" in content["why_positive"]
    assert content["protected"] == ["Sex", "age"]
    assert set(content["ignore"]) == {"client_id", "opened", "after", "one", "note"}
    assert "only after the fact" in content["ignore"]["after"]
    assert content["features"] == ["region", "amount"]
    assert "holds days or times: name it in data.dates" in content["ignore"]["opened"]
    assert "demographic_parity(Sex, ratio=0.85, values=[" in content["goal"], content["left_out"]
    goals = read_goals_file(tmp_path / "goals.toml")
    assert goals.data.words == ("region",)
    assert goals.baselines == {"current_decision": "current_decision"}
    assert goals.validation.fraction == 0.25 and goals.data.split is None
    assert main(["check", str(tmp_path / "goals.toml"), "--data"]) == 0
    assert main(["train", str(tmp_path / "goals.toml")]) == 0
    assert (tmp_path / "goals.skops").exists()


def test_old_is_an_age_where_it_says_yes_or_no_and_a_decision_where_it_holds_the_words_of_the_target():
    yes, words = [0, 1, 1] * 20, ["granted", "denied", "denied"] * 20
    aged = roles(old=[1, 0] * 30, n=[*range(5)] * 12, reingreso=yes)
    assert aged.protected == {"old": "age"} and not aged.earlier
    assert aged.positive == 0 and "'reingreso' names a harm" in aged.why_positive
    decided = roles(old=["granted", "denied"] * 30, n=[*range(5)] * 12, outcome=words)
    assert decided.earlier == ("old",) and not decided.protected


@pytest.mark.usefixtures("one_setting")
def test_groups_written_as_0_0_and_1_0_because_some_are_missing_have_a_rule(tmp_path, capsys):
    table = two_groups(3000, 1, 0.0)
    sex = table.pop("gender_of_person")
    male = [None if row % 50 == 0 else float(value == "Male") for row, value in enumerate(sex)]
    write_csv(tmp_path / "t.csv", {"male": male, **table})
    content = init(tmp_path, "t.csv", capsys)
    assert "demographic_parity(male, ratio=0.85, values=[" in content["goal"], content["left_out"]
    assert main(["train", str(tmp_path / "goals.toml")]) == 0
    assert "male == 1 " in capsys.readouterr().out


def test_identifiers_of_somebody_who_has_several_rows_are_ignored():
    rng = np.random.default_rng(0)
    persons = rng.integers(100, 160, 300).tolist()
    found = roles(**{"ID": persons, "branch_id": rng.integers(0, 9, 300).tolist(), "": persons, "E": [0, 1, 1] * 100})
    assert found.features == ("branch_id",) and set(found.ignore) == {"ID", ""}
    assert found.ignore["ID"] == f"is an identifier by its name: {len({*persons})} of them in 300 rows"
    many_rows = rng.integers(0, 12, 300).tolist()  # `ID` says nothing else, however many rows somebody has
    assert set(roles(ID=many_rows, plot_id=many_rows, E=[0, 1, 1] * 100).ignore) == {"ID"}


def test_infinite_numbers_give_no_warning_of_numpys():
    found = roles(u=[float("inf")] * 30 + [*map(float, range(30))], v=[1, 2, 3] * 20, E=[0, 1] * 30)
    assert [*found.ignore] == ["u"] and "holds infinite numbers: leave these cells empty" in found.ignore["u"]
    assert roles(u=[float("nan")] * 30 + [*map(float, range(30))], E=[0, 1] * 30).ignore == {}  # NaN is no value


def test_a_column_with_hardly_a_value_is_ignored():
    few, some = ["$70/mo"] + 97 * [None], ["a"] * 5 + ["b"] * 10 + 83 * [None]
    found = roles(fee=few, some=some, E=[0, 1] * 49)
    assert found.ignore == {"fee": "is empty in all rows but 1"}


@pytest.mark.usefixtures("one_setting")
def test_a_column_without_a_name_is_shown_as_such_and_columns_of_one_reason_together(tmp_path, capsys):
    constant = {f"c{number}": [0] * 300 for number in range(12)}
    write_csv(tmp_path / "people.csv", {"": list(range(300)), **people(300), **constant})
    assert main(["init", str(tmp_path / "people.csv"), "--out", str(tmp_path / "goals.toml")]) == 0
    together = "c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 2 more: each has the same value in every row"
    for text, start in ((capsys.readouterr().out, "  "), ((tmp_path / "goals.toml").read_text(), "#   ")):
        assert f"\n{start}(column without a name) names the rows" in text and f"\n{start}{together}\n" in text


@pytest.mark.usefixtures("one_setting")
def test_columns_that_number_the_rows_are_ignored(tmp_path, capsys):
    """The index that pandas writes, and a column that counts."""
    numbers = list(range(1, 1201))
    table = {"": numbers[::-1], "Unnamed: 0": [7 * number % 1201 for number in numbers], "place": numbers}
    write_csv(tmp_path / "people.csv", {**table, **people(1200)})
    content = init(tmp_path, "people.csv", capsys)
    assert {*content["ignore"]} == {*table}
    assert content["ignore"]["place"] == "numbers the rows"


@pytest.mark.parametrize(
    ("name", "values", "splits"),
    [("voice.part", ["Bass 1", "Bass 2"], False), ("Fold", ["L on R", "R on L"], False),
     ("part", ["training", "rest"], True), ("my_fold", ["fold 1", "fold 2"], True), ("fold", [1, 2], True)],
)  # fmt: skip
def test_columns_that_split_the_rows_are_known_by_their_values(name, values, splits):
    guesses = roles(**{name: values * 20, "n": [1, 2, 3, 1] * 10, "y": [0, 1, 1, 0, 1] * 8})
    assert (name in guesses.ignore) == splits


def test_identifiers_without_a_telling_name_are_ignored():
    rng, y = np.random.default_rng(0), [0, 1] * 50
    columns = {
        "matricule": (rng.permutation(100) + 7).tolist(),  # shuffled, and without a gap
        "account": np.cumsum(rng.integers(1, 9, 100)).tolist(),  # with gaps, and rising
        "cpf": rng.choice(10**6, 100, replace=False).astype(int) * 9_000 + 10**10,  # of eleven digits, all different
        "cents": rng.choice(10**8, 100, replace=False).astype(int),  # all different, of one to eight digits
        "pay": rng.permutation(np.arange(100) * 13).tolist(),  # another one in every row by chance
    }
    guesses = roles(**columns, y=y)
    assert guesses.ignore == dict.fromkeys(("matricule", "account", "cpf"), "numbers the rows")
    assert guesses.features == ("cents", "pay")


def test_days_that_only_one_class_has_are_known_after_the_fact():
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(row) for row in range(100)]
    left = [day if row % 3 == 0 else None for row, day in enumerate(days)]
    texts = [None if day is None else f"{day:%d.%m.%Y}" for day in left]
    y, n = [int(day is not None) for day in left], [1, 2] * 50
    ignore = roles(n=n, hired=days, left=left, gone=texts, y=y).ignore
    told = "alone tells the target in 100.0% of the rows: is it known only after the fact?"
    assert ignore["left"] == ignore["gone"] == told
    assert ignore["hired"].startswith("holds days or times")


@pytest.mark.usefixtures("one_setting")
@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_a_column_that_splits_the_rows_is_used(tmp_path, capsys, name):
    if name.endswith("csv"):
        write_csv(tmp_path / name, people(1200))
    else:
        pyarrow.parquet.write_table(pa.table(people(1200)), tmp_path / name)
    content = init(tmp_path, name, capsys)
    assert (content["target"], content["features"], content["protected"]) == ("income", ["work"], ["sex", "age"])
    goals = read_goals_file(tmp_path / "goals.toml")
    assert goals.data.split is not None and goals.data.split.column == "split"
    assert goals.validation.fraction is None
    assert main(["train", str(tmp_path / "goals.toml")]) == 0


def test_every_line_says_why(tmp_path, capsys):
    write_csv(tmp_path / "clients.csv", clients())
    assert main(["init", str(tmp_path / "clients.csv"), "--out", str(tmp_path / "goals.toml")]) == 0
    shown = capsys.readouterr().out
    assert "Target: default payment (it has two values and this name); positive: 0, assumed" in shown
    text = (tmp_path / "goals.toml").read_text()
    lines = text.split("\n")
    for key in ("table", "target", "positive", "fraction", "C", "numbers", "rare_words", "time_budget"):
        line = next(line for line in lines if line.startswith(f"{key} = "))
        assert "  # " in line
    for key in ("protected", "words", "ignore"):
        number = next(number for number, line in enumerate(lines) if line.startswith(f"{key} = "))
        assert lines[number - 1].startswith("#")
    assert any(line.startswith("# Sex, 80% rule: every group gets 0 at least four fifths as often") for line in lines)
    assert any("changes 0." in line and 'churn("current_decision")' in line for line in lines)


@pytest.mark.usefixtures("one_setting")
def test_groups_that_a_rule_leaves_out_are_named(tmp_path):
    table = clients()
    table["race"] = ["C"] * 10 + ["AB"[j % 2] for j in range(len(table["Sex"]) - 10)]
    write_csv(tmp_path / "clients.csv", table)
    assert main(["init", str(tmp_path / "clients.csv"), "--out", str(tmp_path / "goals.toml")]) == 0
    (rule,) = [
        line for line in (tmp_path / "goals.toml").read_text().split("\n") if line.startswith("# race, 80% rule")
    ]
    assert "; not for 'C', of fewer than 100 rows with 0" in rule


@pytest.mark.usefixtures("one_setting")
def test_people_who_did_not_say_are_no_group_and_years_of_birth_no_ages(tmp_path, capsys):
    table = clients()
    del table["age"], table["Sex"]
    table["race"] = (["A", "B", "Decline to state"] * len(table["amount"]))[: len(table["amount"])]
    table["year of birth"] = [1950 + amount % 50 for amount in range(len(table["amount"]))]
    write_csv(tmp_path / "clients.csv", table)
    content = init(tmp_path, "clients.csv", capsys)
    assert 'values=["A", "B"]' in content["goal"] and "race ==" not in content["goal"]
    text = " ".join((tmp_path / "goals.toml").read_text().replace("\n#", "").split())
    assert "; not for rows whose group nobody knows ('Decline to state')" in text
    assert "year of birth: it holds years, and ages are cut at 25, 40, 60" in text


@pytest.mark.usefixtures("one_setting")
def test_nothing_is_replaced_without_force(tmp_path, capsys):
    write_csv(tmp_path / "people.csv", people())
    (tmp_path / "goals.toml").write_text("mine")
    content = init(tmp_path, "people.csv", capsys, code=2)
    assert "exists already and is not replaced" in content["error"]
    assert (tmp_path / "goals.toml").read_text() == "mine"
    init(tmp_path, "people.csv", capsys, "--force")
    assert (tmp_path / "goals.toml").read_text() != "mine"


@pytest.mark.usefixtures("one_setting")
def test_the_target_can_be_named(tmp_path, capsys):
    write_csv(tmp_path / "people.csv", people(1200))
    assert init(tmp_path, "people.csv", capsys, "--target", "sex")["target"] == "sex"
    content = init(tmp_path, "people.csv", capsys, "--target", "sx", "--force", code=2)
    assert "there is no column 'sx'" in content["error"]


@pytest.mark.usefixtures("one_setting")
def test_rows_without_a_target_are_left_out_and_counted(tmp_path, capsys):
    columns = people(600)
    columns["income"] = [None if row % 10 == 0 else value for row, value in enumerate(columns["income"])]
    write_csv(tmp_path / "people.csv", columns)
    assert init(tmp_path, "people.csv", capsys, "--target", "income")["n_unlabelled"] == 60
    goals, model = str(tmp_path / "goals.toml"), str(tmp_path / "goals.skops")
    assert main(["train", goals]) == 0
    assert "Left out: 60 rows without a value of income" in capsys.readouterr().out
    main(["audit", goals, "--model", model, "--data", str(tmp_path / "people.csv")])
    audited = capsys.readouterr()
    assert "(180 rows)" in audited.out and "20 rows without a value of 'income' are left out" in audited.err
    main(["report", goals, "--no-tradeoff"])
    assert "rows left out, without a target" in (tmp_path / "goals.html").read_text()
    # who did not ask for it is told that it can be asked for
    text = (tmp_path / "goals.toml").read_text()
    (tmp_path / "goals.toml").write_text(re.sub("unlabelled = .*", "", text))
    assert main(["train", goals]) == 2
    assert "is missing in 40 of 400 row(s) looked at, the first is row 10 " in capsys.readouterr().err


@pytest.mark.usefixtures("one_setting")
def test_hostile_names_and_values_stay_texts(tmp_path, capsys):
    """Whatever the names are, the file is TOML that says the same."""
    rng = np.random.default_rng(0)
    hostile = ["a\nb", '"q"', "'''", "x\x7f\x1b[31m", "# c", "\\u0041", "= 1", "é ü", "[data]"]
    columns = {name: rng.normal(size=400).round(3).tolist() for name in hostile}
    columns['race"\n'] = rng.choice(["A'''B", 'C"\\D', "\u202e"], 400).tolist()
    columns["race '''"] = rng.choice(["x", "y"], 400).tolist()
    score = np.array(columns["a\nb"]) + rng.normal(size=400)
    columns["y"] = np.where(score > 0.5, "ja\n'''", 'nein"').tolist()
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    content = init(tmp_path, "t.parquet", capsys)
    assert content["target"] == "y" and content["positive"] == "ja\n'''"
    assert content["protected"] == ['race"\n', "race '''"]
    table = tomllib.loads((tmp_path / "goals.toml").read_text())
    assert set(table) == {"data", "validation", "goal", "model", "output"}
    assert table["data"]["protected"] == content["protected"]
    assert main(["check", str(tmp_path / "goals.toml"), "--data"]) == 0
    assert main(["train", str(tmp_path / "goals.toml")]) in (0, 1)
    assert "\x1b" not in capsys.readouterr().out


def roles(**columns):
    return guess_roles(pa.table(columns), None, "t.csv")


def test_targets_are_guessed_by_name_then_by_place():
    two, other, y = [0, 1, 1, 1], ["a", "b", "a", "b"], ["x", "y", "y", "y"]
    assert roles(n=[1, 2, 3, 4], label=two, last=other).target == "label"
    assert roles(n=[1, 2, 3, 4], first=two, last=other).target == "last"
    assert roles(n=[1, 2, 3, 4], income=two, target=other, z=y).target == "target"
    assert roles(n=[1, 2, 3, 4], a=two, sex=other).target == "a"
    assert roles(n=[1, 2, 3, 4], old_decision=two, décision=other, sex=y).target == "décision"
    assert roles(n=[1, 2, 3, 4], b=y).positive == "x"
    status = ["good", "bad", "good", "good"]
    assert roles(n=[1, 2, 3, 4], status=status, last=other).target == "status"
    assert roles(n=[1, 2, 3, 4], Survive=two, last=other).target == "Survive"
    assert roles(n=[1, 2, 3, 4], sex=other, outcome=["Dead", "Alive", "Alive", "Alive"]).positive == "Alive"
    assert "because 'approved' names it" in roles(n=[1, 2, 3, 4], sex=other, approved=two).why_positive
    numbered = ["1. Yes", "2. No", "1. Yes", "1. Yes"]
    assert roles(n=[1, 2, 3, 4], sex=other, insured=numbered).positive == "1. Yes"
    numbered = ["1. Male", "2. Female", "1. Male", "2. Female"]
    assert roles(n=[1, 2, 3, 4], who=numbered, y=two).protected == {"who": "sex"}
    several = roles(n=[1, 2, 3, 4], target=[0, 1, 2, 2])
    assert several.target == "target" and several.positive is None
    assert several.why_positive.endswith("such as recall(of=0) >= 0.8")
    with pytest.raises(DataError, match=r"no column without gaps has exactly two values\. Name the target"):
        roles(m=[1, 2, None, 1])
    said = r"two values, except 'sex': by name attributes of people.*the target by --target \('state', of more values\)"
    with pytest.raises(DataError, match=said):
        roles(n=[1, 2, None, 4], sex=other, state=["a", "b", "c", "a"])
    with pytest.raises(DataError, match=r"'vote', of which 1 row\(s\) without a value are left out then"):
        roles(n=[1, 2, 3, 4], vote=["a", "b", "c", None])
    with pytest.raises(DataError, match=r"no column is left as a feature"):
        roles(y=two)
    with pytest.raises(DataError, match=r"'approved' has 3 values, and 2 by case and blanks: 'Yes', 'yes '.*--target"):
        roles(n=[1, 2, 3, 4], approved=["Yes", "yes ", "no", "no"], online=other)


SPELLINGS = {
    "numbers written as texts, such as 1,000.00": lambda row: f"{1000 + 37 * row:,.2f}",
    "numbers written as texts, such as €9": lambda row: f"€{9 + row}",
    "numbers written as texts, such as 0.5%": lambda row: f"{row}.5%",
    "days such as 1 March 2020": lambda row: f"{1 + row % 28} March {2020 + row // 28}",
    "days such as Jan 1, 2020": lambda row: f"Jan {1 + row % 28}, {2020 + row // 28}",
    "days such as 01/02/20": lambda row: f"{1 + row % 28:02d}/02/{20 + row // 28}",
    "days such as 20200101": lambda row: 20200101 + row % 28 + 10000 * (row // 28),
}


@pytest.mark.parametrize("said", SPELLINGS)
def test_numbers_and_days_in_other_spellings_are_told_and_not_taken_for_words(said):
    column = [SPELLINGS[said](row) for row in range(60)]
    found = roles(x=column, n=[1, 5, 3] * 20, y=[0, 1] * 30)
    assert found.ignore["x"].startswith(f"holds {said}: write ") and found.features == ("n",)


@pytest.mark.parametrize(
    ("others", "said"),
    [([], "holds days or times: name it in data.dates"),
     (["n/a!", "31/12/2023"], "holds days as 2024-01-31 beside 'n/a!', '31/12/2023': write these in the same way")],
)  # fmt: skip
def test_texts_of_days_are_told_with_those_that_are_none(others, said):
    days = [f"2020-{1 + row % 12:02d}-{1 + row % 28:02d}" for row in range(150)]
    found = roles(x=days[: 150 - len(others)] + others, n=[1, 5, 3] * 50, y=[0, 1] * 75)
    assert found.ignore["x"].startswith(said) and found.features == ("n",)


@pytest.mark.parametrize(
    ("name", "beside", "ignored"),
    [("weight", "income", True), ("weight", "Height", False), ("pspwght", "Height", True), ("bweight", "income", False),
     ("perweight", "income", True), ("weight", "litter", False),
     ("body_weight", "income", False), ("weight", "horsepower", False), ("fnlwgt", "height", True)],
)  # fmt: skip
def test_weights_of_a_sample_are_no_features_and_those_of_bodies_are(name, beside, ignored):
    rng = np.random.default_rng(0)
    found = roles(**{name: rng.gamma(4.0, 20.0, 60).tolist(), beside: rng.normal(size=60).tolist()}, y=[0, 1] * 30)
    assert ("sampling weight" in found.ignore.get(name, "")) == ignored


def test_codes_and_small_classes_of_words_stay_words():
    codes = [f"ABC{row % 30}" for row in range(60)]
    found = roles(
        code=codes, share=["5%", "10%", "20%"] * 20, digits=[f"{row % 30:03d}" for row in range(60)], y=[0, 1] * 30
    )
    assert found.ignore == {}


def test_numbers_of_places_are_words_where_there_are_hundreds_of_them():
    row = np.arange(900)
    places = dict.fromkeys(("zip_code", "PLZ", "county_fips", "pay"), 10000 + 37 * (row * 7 % 211))
    found = roles(**places, code=row * 11 % 307, y=row % 2)
    assert set(found.words) == {"zip_code", "PLZ", "county_fips"} and {"pay", "code"} <= set(found.features)


@pytest.mark.parametrize("pair", ["ja nein", "oui non", "sim não", "tak nie", "да нет", "是 否", "1.0 0.0", "T F"])
def test_yes_is_known_in_other_languages(pair):
    yes, no = pair.split(" ")
    assert roles(n=[1, 2, 3, 4] * 5, sex=["m", "f"] * 10, approved=[yes, yes, yes, no] * 5).positive == yes


def test_a_target_that_cannot_be_one_is_told_why():
    for values, said in (
        ([1.5, 2.5, 3.5] * 10, r"has 30 values of type double; .*Cut numbers into classes"),
        (["yes"] * 30, r"has 1 value, 'yes'; .*Add rows of another one"),
    ):
        values = [value + row for row, value in enumerate(values)] if values[0] == 1.5 else values
        with pytest.raises(DataError, match=said):
            guess_roles(pa.table({"n": [*range(30)], "y": values}), "y", "t.csv")
    in_parts = [0.7, 1.0] * 20  # no estimator takes such numbers for classes
    assert roles(n=[1, 2, 3, 4] * 10, e=[0, 0, 1, 1] * 10, space=in_parts).target == "e"
    with pytest.raises(DataError, match=r"has numbers that are not whole, such as 0\.7; a"):
        guess_roles(pa.table({"n": [1, 2, 3, 4] * 10, "space": in_parts}), "space", "t.csv")
    with pytest.raises(DataError, match="by --target, of 2 to 20 words or whole numbers: cut numbers"):
        roles(length=[1.5, 2.5], width=[2.5, 3.5])
    with pytest.raises(DataError, match=r"'paid', of which 1 row\(s\) without a value are left out"):
        roles(n=[1, 2, 3, 4], paid=["yes", "no", None, "no"])
    with pytest.raises(DataError, match=r"'one' has the same value in every row; 'sex' \(sex\). Add"):
        roles(sex=["m", "f"] * 20, one=[1] * 40, paid=["yes", "no", "no", "no"] * 10)


@pytest.mark.usefixtures("one_setting")
def test_spellings_of_one_value_are_told(tmp_path, capsys):
    columns = people()
    columns["sex"] = [value if row % 2 else f"{value.lower()} " for row, value in enumerate(columns["sex"])]
    write_csv(tmp_path / "t.csv", columns)
    said = "sex has 4 values, and 2 by case and blanks"
    assert init(tmp_path, "t.csv", capsys)["cautions"][0].startswith(said)
    assert main(["check", str(tmp_path / "goals.toml"), "--data"]) == 0
    assert said.replace("sex", "'sex'") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, 2, -999, 4, -999], "-999 in 2 of 5"), ([1.5, 2.0, -9.0, -9.0], "-9.0 in 2 of 4"), ([1, 2, -9, -1, -9], ""),
        ([10, 20, 999, 999], "999 in 2 of 4"), ([800, 999, 999, 1], ""), ([1, 5, 9, 9], ""), ([99, 99], ""),
        ([-1, -1, 3, 4], ""), ([0.99, 0.99, 0.1, 0.5], ""), ([None, None], ""), (["yes", "?", "?"], "'?' in 2 of 3"),
    ],
)  # fmt: skip
def test_values_that_often_stand_for_none_are_told(values, said):
    told = stands_for_none(pa.chunked_array([pa.array(values)]), is_target=True)
    assert told == (f"holds {said} rows: if it stands for no value, name it in data.missing" if said else "")


def test_a_table_too_wide_to_be_tried_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(proposals, "OPTIONS", replace(OPTIONS, seconds=1e-3))
    columns = people(300) | {f"x{j}": np.random.default_rng(j).normal(size=300).round(3).tolist() for j in range(60)}
    write_csv(tmp_path / "t.csv", columns)
    content = init(tmp_path, "t.csv", capsys)
    assert "no model could be fitted to folds of these rows within 0.001 seconds" in content["cautions"][-1]
    assert "C =" not in (tmp_path / "goals.toml").read_text()
    assert " and 11 more." in (tmp_path / "goals.toml").read_text()


@pytest.mark.parametrize(
    "table",
    [
        "a\n",
        "a,y\n1,0\n",
        "a,y\n1,0\n2,1\n",
        "y\n0\n1\n",
        "a,y\n" + "1,0\n" * 50 + "1,1\n",
        "a,y\nx,0\nx,1\nz,1\n",
        "a,target\n" + "1,0\n" * 12 + "2,1\n3,2\n",
    ],
)
def test_small_tables_end_in_a_file_or_a_message(tmp_path, capsys, table):
    (tmp_path / "t.csv").write_text(table)
    code = main(["init", str(tmp_path / "t.csv"), "--out", str(tmp_path / "goals.toml")])
    printed = capsys.readouterr()
    assert code == (0 if (tmp_path / "goals.toml").exists() else 2)
    assert "defect" not in printed.err and "Traceback" not in printed.err


@pytest.mark.usefixtures("one_setting")
def test_names_of_columns_are_told_on_one_line_and_bytes_by_their_cure(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = people()
    columns["wo\x1b[31mrk\nx"] = columns.pop("work")
    columns["y" * 100_000] = columns["age"]
    for end in ("first", "second"):  # questions of a survey begin alike
        columns[f"{'q' * 100} {end}"] = columns["age"]
    columns["place"] = [f"caf\u00e9 {row % 3}" for row in range(len(columns["age"]))]
    names = [f'"{name}"' for name in columns]
    rows = [
        ",".join("" if value is None else str(value) for value in row) for row in zip(*columns.values(), strict=True)
    ]
    (tmp_path / "t.csv").write_bytes("\n".join([",".join(names), *rows, ""]).encode("latin-1"))
    assert main(["init", "t.csv"]) == 0
    printed = capsys.readouterr().out
    assert "q first" in printed and "q second" in printed
    assert "wo?[31mrk?x" in printed and "y" * 40 + "..." in printed and "y" * 41 not in printed
    assert "place holds bytes that are no UTF-8 text (save the file as UTF-8" in printed
    written = (tmp_path / "goals.toml").read_text()
    assert len(max(written.split("\n"), key=len)) < 1000
    assert main(["train", "goals.toml"]) in (0, 1)


@pytest.mark.usefixtures("one_setting")
def test_the_separator_is_guessed_written_and_used_by_every_command(tmp_path, capsys):
    columns = people(1200)
    rows = zip(*columns.values(), strict=True)
    lines = [";".join("" if value is None else str(value) for value in row) for row in rows]
    (tmp_path / "people.csv").write_text("\n".join([";".join(columns), *lines, ""]))
    init(tmp_path, "people.csv", capsys)
    assert read_goals_file(tmp_path / "goals.toml").data.separator == ";"
    assert main(["train", str(tmp_path / "goals.toml")]) == 0
    model, data = ["--model", str(tmp_path / "goals.skops")], ["--data", str(tmp_path / "people.csv")]
    assert main(["audit", str(tmp_path / "goals.toml"), *model]) == 0
    out = ["--out", str(tmp_path / "p.csv")]
    capsys.readouterr()
    assert main(["predict", *model, *data, *out]) == 2
    assert "it seems to be separated by semicolon" in capsys.readouterr().err
    assert main(["predict", *model, *data, *out, "--separator", ";"]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 1201
    with pytest.raises(SystemExit):
        main(["predict", *model, *data, *out, "--separator", ";;"])
    assert "is not one character" in capsys.readouterr().err


def two_groups(n_rows, seed, gap):
    """Rows of which one group has the outcome more often, by a column that the model sees."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["Male", "Female"], n_rows)
    score = rng.normal(size=n_rows) + gap * (sex == "Male")
    y = np.where(score + rng.normal(size=n_rows) > gap / 2, "granted", "denied")
    return {"gender_of_person": sex.tolist(), "score": score.round(4).tolist(), "loan": y.tolist()}


def test_a_rule_is_trained_to_the_least_margin_that_every_fold_keeps():
    tried = []

    class Trials:
        def tried(self, proposals):
            tried.append([item.margin for item in proposals])
            return results[proposals[-1].margin]

        def plain_keeps(self, proposal):
            return proposal.column == "race"

    plain = PlainModel(1.0, "scale", error=0.2, constant_error=0.3, recall={}, changed={})
    rule = [Proposal("sex", "80% rule", margin, [], [], "") for margin in ("0.85", "0.9")]
    results = {"0.85": (0.21, 2), "0.9": (0.22, 3)}
    assert _least_margin_that_keeps(rule, [], Trials(), plain) == (rule[1], "")
    assert tried == [["0.85"], ["0.9"]]
    kept, _ = _least_margin_that_keeps([dataclasses.replace(rule[1], column="race")], [], Trials(), plain)
    assert kept.why == "; a model without rules keeps it on unseen rows, too"
    for result, said in (
        ({"0.85": (0.2, 2), "0.9": (0.2, 1)}, "even trained to 0.9, it is missed on unseen rows in 2 of 3 folds"),
        ({"0.85": (0.26, 3)}, "it costs more than half of what learning gains: error 0.260 on unseen rows, 0.200 "),
        ({"0.85": (math.inf, 0)}, "no model was found that keeps it"),
    ):
        results.update(result)
        kept, why = _least_margin_that_keeps(rule, [], Trials(), plain)
        assert kept is None and why.startswith(said)


@pytest.mark.usefixtures("one_setting")
def test_only_rules_with_a_name_are_asked_and_they_are_kept_on_unseen_rows(tmp_path, capsys):
    asked = []
    for gap in (0.0, 2.0):
        write_csv(tmp_path / "t.csv", two_groups(3000, 1, gap))
        content = init(tmp_path, "t.csv", capsys, "--force")
        assert (content["positive"], content["protected"]) == ("granted", ["gender_of_person"])
        goals = read_goals_file(tmp_path / "goals.toml")
        (rule,) = goals.goal.constraints or (None,)
        text, promised = str(goals.goal), str(goals.audit_goal)
        asked.append("none" if rule is None else text.split("subject to ")[1].split("(")[0])
        if rule is not None:
            assert any(a in text and b in promised for a, b in (("ratio=0.85", "ratio=0.8,"), ("=0.03", "=0.05")))
        if not gap:
            assert main(["train", str(tmp_path / "goals.toml")]) == 0
            capsys.readouterr()
    assert asked == ["four_fifths_gender_of_person: demographic_parity", "none"]


@pytest.mark.usefixtures("one_setting")
def test_ages_are_cut_where_law_and_practice_cut(tmp_path, capsys):
    rng = np.random.default_rng(0)
    age, score = rng.integers(18, 90, 3000), rng.normal(size=3000).round(3)
    write_csv(
        tmp_path / "t.csv",
        {
            "Alter": age.tolist(),
            "points": score.tolist(),
            "y": (score + rng.normal(size=3000) > 0).astype(int).tolist(),
        },
    )
    content = init(tmp_path, "t.csv", capsys)
    assert content["protected"] == ["Alter"] and "may be about age" in content["alike"]["Alter"]
    for cut in (25, 40, 60):
        assert f"positive_rate(alter_below_{cut}) / positive_rate(alter_from_{cut}) >= 0.85" in content["goal"]
        assert f"positive_rate(alter_from_{cut}) / positive_rate(alter_below_{cut}) >= 0.85" in content["goal"]


NAMES = ["afam", "Altersgruppe", "SeniorCitizen", "ethnie", "Geburtsdatum", "date_naissance", "Ausländer", "GENDER",
         "Schwerbehinderung", "is_male", "racePctWhite", "pct_black", "HispanicFlag", "Ages", "maritalStatus",
         "religion", "nationality", "disabled", "Geschlecht", "Geschl.", "Staatsangeh", "foreign_worker",
         "date_of_birth", "birthyr", "age76", "sex1", "nonwhite", "blhisp", "ethn", "marr", "evermarried", "widowed",
         "immigr", "catholic", "maried", "skin_colour", "płeć", "возраст", "性別", "cittadinanza", "민족", "民族",
         "年龄段", "出生日期", "дата_рождения", "종교", "fml", "isfemale",
         "AGEP", "RAC1P", "NATIVITY", "MAR", "CIT", "mar_stat", "agea", "aian", "nhpi", "pacific_islander", "tribe",
         "ancestry", "indianPerCap", "mother_tongue", "godsdienst", "pronouns", "transgender"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_protected_columns_are_known_by_their_names(name):
    assert [*roles(**{name: [1, 2, 3, 1], "n": [1, 2, 3, 4], "y": [0, 1, 1, 0]}).protected] == [name]


@pytest.mark.parametrize("name", ["country_of_birth", "birthplace"])
def test_a_country_of_birth_tells_no_age(name):
    guesses = roles(**{name: [*"aabb"], "n": [1, 2, 3, 4], "y": [0, 1, 1, 0]})
    assert guesses.protected == {name: "nationality"}


NO_NAMES = ["Seniority", "manage", "percentage", "agency", "sextant", "traced", "sedan", "SkinThickness", "birthweight",
            "birth_order", "birthcontrol", "marrow", "carriage", "stage2", "attribute", "marks", "city",
            "march", "skinny_polar"]  # fmt: skip


@pytest.mark.parametrize("name", NO_NAMES)
def test_words_within_words_protect_nothing(name):
    assert not roles(**{name: [1, 2, 3, 1], "n": [1, 2, 3, 4], "y": [0, 1, 1, 0]}).protected


HARMS = ["deny", "Attrition", "Ausfall", "démission", "loan_default", "cancelled", "Kreditausfall",
         "Zahlungsverzug", "Rückfall", "festnahme", "Kündigung", "re\u0301cidive", "défaut_paiement", "refusé",
         "décès", "reincidencia", "mora", "detenido", "inadimplência", "prisão", "evasao", "recidiva",
         "insolvenza", "arresto", "wanbetaling", "achterstand", "veroordeeld", "ziekte", "odmowa", "avslag",
         "отказ", "是否违约", "연체", "SeriousDlqin2yrs", "Exited", "foreclosure", "evicted", "in_arrears", "expelled",
         "not.fully.paid", "never_approved", "No-show"]  # fmt: skip


@pytest.mark.parametrize("name", HARMS)
def test_a_harm_is_known_by_its_name_and_not_wished_for(name):
    """It is the target although a column of letters comes last, and the outcome that people want is the other one."""
    columns = {"age": [*range(20, 28)], "n": [3, 1] * 4, name: ["no", "yes", "no", "no"] * 2, "v7": ["F", "M"] * 4}
    guesses = roles(**columns)
    assert (guesses.target, guesses.positive) == (name, "no")
    assert [*guesses.protected.items()] == [("age", "age"), ("v7", "sex")]  # what only values tell comes last
    assert guesses.alike == {"v7": "may be about sex: it holds f and m"}


@pytest.mark.parametrize(
    ("values", "wanted"),
    [("schlecht gut", "gut"), ("refusé accepté", "accepté"), ("aprobado rechazado", "aprobado"), ("mau bom", "bom"),
     ("respinto approvato", "approvato"), ("afgewezen goedgekeurd", "goedgekeurd"), ("bewilligt anders", "bewilligt"),
     ("Fail Pass", "Pass"), ("pass others", "pass"), ("fail others", "others")],
)  # fmt: skip
def test_the_wanted_outcome_is_known_by_its_word_in_other_languages(values, wanted):
    guesses = roles(n=[1, 2, 3, 4] * 5, sexe=["m", "f"] * 10, y=values.split() * 10)
    assert guesses.positive == wanted and "as the words say" in guesses.why_positive


def test_of_codes_from_1_on_none_says_yes():
    """The Statlog file of German credits writes 1 for good and 2 for bad."""
    for values, wanted in (
        ([1, 1, 1, 2], 1),
        ([1, 2, 2, 2], 2),
        ([0, 0, 0, 1], 0),
        ([1, 1, 1, 0], 0),
        ([-1, -1, -1, 1], -1),
    ):
        assert roles(n=[1, 2, 3, 4] * 5, sex=["m", "f"] * 10, risk=values * 5).positive == wanted


@pytest.mark.parametrize("name", ["repaid", "pass_bar", "Promoted", "not_defaulted", "nonDelinquent", "no_default"])
def test_a_benefit_is_known_by_its_name_and_what_is_denied_is_its_opposite(name):
    guesses = roles(n=[1, 2, 3, 4], sex=[*"mfmf"], **{name: ["no", "yes", "no", "no"]})
    assert (guesses.positive, guesses.target) == ("yes", name) and f"because {name!r} names it" in guesses.why_positive


@pytest.mark.parametrize("name", ["hypotheque", "mortgage", "Vertrag", "today", "moral", "crimson", "arrêté"])
def test_words_that_begin_alike_are_no_harms(name):
    assert "names a harm" not in roles(n=[1, 2, 3, 4], sex=[*"mfmf"], **{name: ["no", "yes", "no", "no"]}).why_positive


@pytest.mark.parametrize("name", ["vehicle_age", "carAge", "age of account"])
def test_the_age_of_a_thing_is_asked_for(name):
    table, asked = pa.table({name: [*range(8)], "n": [3, 1] * 4, "sex": [*"mfmfmfmf"], "y": [0, 1] * 4}), []
    guesses = guess_roles(table, None, "t.csv", favourable="1", ask=lambda question, _: asked.append(question) or "no")
    assert asked == [f"{name!r} may be about age, as its name says. Is it a protected attribute?"]
    assert [*guesses.protected] == ["sex"] and name in guesses.features
    guesses = guess_roles(table, None, "t.csv")
    assert [*guesses.protected] == ["sex", name] and [*guesses.alike] == [name]


def test_look_alikes_and_the_outcome_are_asked_for():
    columns = {"who": ["male", "female"] * 4, "page": [*range(8)], "result": ["a", "a", "a", "b"] * 2}
    asked = []

    def ask(question, answers):
        asked.append(question)
        return answers[1]

    guesses = guess_roles(pa.table(columns), None, "t.csv", ask=ask)
    assert guesses.protected == {} and "who" in guesses.features and guesses.positive == "b"
    assert asked == ["'who' may be about sex: it holds female and male. Is it a protected attribute?"]
    assert guess_roles(pa.table(columns), None, "t.csv").protected == {"who": "sex"}
    two = pa.table({"page": [*range(8)], "hat": ["a", "b"] * 4, "shoe": ["x", "y"] * 4})
    assert guess_roles(two, None, "t.csv", ask=ask).target == "hat"
    assert asked[1] == "Which column is to be predicted?"
    assert guess_roles(two, None, "t.csv").target == "shoe"
    guess_roles(pa.table(columns | {"sex": columns["who"]}), None, "t.csv", ask=ask)
    assert asked[-1] == "Which value of 'result' is the outcome that people want?"
    assert guess_roles(pa.table(columns), None, "t.csv", favourable="a").positive == "a"
    with pytest.raises(DataError, match="--favourable 'c': the target 'result' has the values 'a' and 'b'"):
        guess_roles(pa.table(columns), None, "t.csv", favourable="c")


@pytest.mark.parametrize(("typed", "given"), [(["2"], "no"), ([""], "yes"), (["maybe", "no"], "no")])
def test_answers_on_the_terminal(monkeypatch, capsys, typed, given):
    def read(prompt):
        assert prompt == "Is it? 1: 'yes', 2: 'no' [1]: "
        if not typed:
            raise EOFError
        return typed.pop(0)

    monkeypatch.setattr("builtins.input", read)
    was_refused = "maybe" in typed
    assert answer("Is it?", ("yes", "no")) == given
    assert ("'maybe' is none of the answers. Give a number from 1 to 2" in capsys.readouterr().out) == was_refused
    typed = []
    with pytest.raises(DataError, match=r"Is it\? This was not answered"):
        answer("Is it?", ("yes", "no"))


@pytest.mark.usefixtures("one_setting")
def test_decimal_commas_words_among_numbers_and_days(tmp_path, capsys):
    rng = np.random.default_rng(0)
    columns = people(600) | {
        "rate": [f"{value:.2f}".replace(".", ",") for value in rng.normal(size=600)],
        "income_before": [
            "n/a!" if row % 50 == 0 else str(int(number)) for row, number in enumerate(rng.normal(3e3, 900, 600))
        ],
        "since": [
            (datetime.date(2024, 1, 1) + datetime.timedelta(int(days))).isoformat()
            for days in rng.integers(0, 300, 600)
        ],
        "until": ["31/01/2024", "01/02/2024"] * 300,
    }
    lines = [
        ";".join("" if value is None else str(value) for value in row) for row in zip(*columns.values(), strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join([";".join(columns), *lines, ""]))
    content = init(tmp_path, "t.csv", capsys)
    goals = read_goals_file(tmp_path / "goals.toml")
    assert goals.data.csv == {"words": (), "separator": ";", "decimal": ",", "missing": ("n/a!",)}
    assert {"rate", "income_before"} <= {*content["features"]}
    assert "name it in data.dates" in content["ignore"]["since"]
    assert "such as 31/01/2024: write them as 2024-01-31" in content["ignore"]["until"]
    text = (tmp_path / "goals.toml").read_text()
    text = text.replace('"since", ', "", 1).replace(
        "ignore = [", 'dates = ["since"]\ndate_parts = ["weekday"]\nignore = ['
    )
    (tmp_path / "goals.toml").write_text(text)
    assert main(["check", str(tmp_path / "goals.toml"), "--data"]) == 0
    assert main(["train", str(tmp_path / "goals.toml")]) in (0, 1)
    model = load_model(tmp_path / "goals.skops")
    kinds = {column.name: column.kind for column in model[0].schema_.columns}
    assert (kinds["since"], kinds["rate"], kinds["income_before"]) == ("date", "number", "number")
    assert "since weekday = Monday" in model[0].get_feature_names_out()
    assert main(["predict", str(tmp_path / "goals.toml"), "--data", str(tmp_path / "t.csv")]) == 0
    pytest.importorskip("onnx")
    with pytest.raises(CapabilityError, match="column 'since' holds dates"):
        to_onnx(model, tmp_path / "m.onnx")


def test_a_goals_file_takes_no_name_of_another_file(tmp_path, capsys):
    write_csv(tmp_path / "people.csv", people())
    (tmp_path / "old.csv").write_text("a,b\n")
    assert main(["init", str(tmp_path / "people.csv"), "--out", str(tmp_path / "old.csv"), "--force"]) == 2
    assert "Give a name that ends in .toml" in capsys.readouterr().err
    assert (tmp_path / "old.csv").read_text() == "a,b\n"


def test_files_without_names_or_with_another_separator_are_refused(tmp_path, capsys):
    rows = "\n".join(f"{20 + row % 40},{'MF'[row % 2]},{row % 3},{'yes' if row % 3 else 'no'}" for row in range(200))
    for text, said in (
        (rows, "the first line seems to be a row, not the names of the columns: '20', 'M', '0' are values"),
        (rows.replace(",", " "), "the table has one column, '20 M 0 no'"),
    ):
        (tmp_path / "t.csv").write_text(text + "\n")
        assert main(["init", str(tmp_path / "t.csv"), "--out", str(tmp_path / "goals.toml")]) == 2
        assert said in capsys.readouterr().err
        assert not (tmp_path / "goals.toml").exists()


@pytest.mark.usefixtures("one_setting")
def test_a_name_may_be_a_value_of_its_column(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(
        "speed,belt,dead,airbag\n"
        + "".join(
            f"{row % 7},{row % 4},{('dead', 'alive')[row % 3 > 0]},{('none', 'airbag')[row % 2]}\n"
            for row in range(200)
        )
    )
    assert init(tmp_path, "t.csv", capsys)["target"] == "dead"


@pytest.mark.usefixtures("one_setting")
def test_what_is_known_only_after_the_fact_is_suspected(tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    known = np.where(rng.random(1000) < 0.02, 1 - y, y)
    case = [f"case {row}" if row % 3 == 0 else None for row in range(1000)]
    columns = {
        "score": rng.normal(size=1000).round(3).tolist(),
        '"after\nwards"': known.tolist(),  # whatever the name, the caution is one line of the file
        "case": case,
        "paid": y.tolist(),
    }
    write_csv(tmp_path / "t.csv", columns)
    content = init(tmp_path, "t.csv", capsys)
    assert "alone after\nwards tells 97%" in content["cautions"][-1]
    assert content["ignore"]["case"].startswith("names the rows")
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace(",,", ',"",'))
    assert init(tmp_path, "t.csv", capsys, "--force")["ignore"]["case"].startswith("names the rows")


@pytest.mark.usefixtures("one_setting")
def test_a_protected_column_that_tells_the_target_stays_protected(tmp_path, capsys):
    y = [0, 1] * 100
    race = ["White" if row % 3 else "Black" for row in range(200)]
    columns = {"race": [of if y[row] else None for row, of in enumerate(race)], "n": [*range(5)] * 40, "stopped": y}
    write_csv(tmp_path / "t.csv", columns)
    content = init(tmp_path, "t.csv", capsys)
    assert content["protected"] == ["race"] and content["ignore"] == {}
    assert "race alone tells the target in 100.0% of the rows: it may be noted of one class only" in content["cautions"]


@pytest.mark.usefixtures("one_setting")
def test_a_column_that_names_the_rows_is_no_feature_of_a_small_table_either(tmp_path, capsys):
    # Held-out rows would have no name that training knows, and training refuses such a column.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 36)
    columns = {
        "state": [f"s{row}" for row in range(36)],
        "rate": (y + rng.normal(size=36)).tolist(),
        "high": y.tolist(),
    }
    write_csv(tmp_path / "t.csv", columns)
    assert init(tmp_path, "t.csv", capsys)["ignore"]["state"].startswith("names the rows")
    assert main(["train", str(tmp_path / "goals.toml"), "--model", str(tmp_path / "m.skops")]) in (0, 1)


def test_few_rows_without_a_mistake_are_no_sign_of_the_answer(tmp_path, capsys):
    # Of 8 rows of the rarer class two or three are unseen, and a model is right about these by chance.
    y = np.arange(30) % 4 == 0
    columns = {"size": (y + 0.1 * np.random.default_rng(0).normal(size=30)).tolist(), "high": y.astype(int).tolist()}
    write_csv(tmp_path / "t.csv", columns)
    assert not any("after the fact" in text for text in init(tmp_path, "t.csv", capsys)["cautions"])


@pytest.mark.usefixtures("one_setting")
def test_groups_without_a_rule_are_shown_all_the_same(tmp_path, capsys):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 160)
    sex, city = rng.choice(["F", "M"], 160), rng.choice(["Zürich", "Zurich"], 160)
    table = {"sex": sex, "nationality": city, "n": y + rng.normal(size=160), "hired": y}
    write_csv(tmp_path / "p.csv", {name: values.tolist() for name, values in table.items()})
    content = init(tmp_path, "p.csv", capsys)
    assert "sex: no two groups have 100 training rows of the positive class" in content["left_out"]
    assert 'sex_f = population(sex == "F")' in content["goal"] and "subject to" not in content["goal"]
    assert main(["check", str(tmp_path / "goals.toml"), "--data"]) == 0
    assert main(["train", str(tmp_path / "goals.toml")]) == 0
    printed = capsys.readouterr().out
    for name in ("sex_f", "sex_m", "nationality_zürich", "nationality_zurich", "sex_f and nationality_zurich"):
        assert f"\n{name} " in printed, name


def test_the_first_columns_without_a_rule_are_shown_behind_those_with_one():
    """One-hot columns of a race have the rules of three columns; the ages behind them are shown all the same."""
    names = [f"race_{name}" for name in ("white", "black", "asian")]
    ones = {name: ([1] + [0] * number) * (60 // number) for number, name in enumerate(names, 1)}
    table = pa.table({name: values[:60] for name, values in ones.items()} | {
        "age_band": ["young", "young", "old", "old", "old"] * 12, "n": [3, 1, 2, 1] * 15, "y": [0, 0, 1] * 20
    })  # fmt: skip
    guesses = guess_roles(table, "y", "t.csv")
    rules = [Proposal(name, "80% rule", "", [], [], "") for name in names]
    assert [*guesses.protected] == [*names, "age_band"]
    assert [group.name for group in proposals.groups_to_watch(table, guesses, rules)] == [
        "age_band_old",
        "age_band_young",
    ]


def test_signs_in_values_are_words_in_the_names_of_groups():
    """`age_60` would be those of 60 years, and of the codes -1 and 1 both would be `flag_1`."""
    table = pa.table({"age": ["<25", "25-59", "60+"] * 20, "is_black": [-1, 1] * 30, "n": [3, 1, 2, 1] * 15,
                      "y": [0, 0, 1] * 20})  # fmt: skip
    names = {group.name for group in proposals.groups_to_watch(table, guess_roles(table, "y", "t.csv"), [])}
    assert names == {"age_below_25", "age_25_59", "age_60_and_more", "is_black_minus_1", "is_black_1"}


@pytest.mark.usefixtures("one_setting")
def test_no_rule_is_asked_that_a_constant_keeps(tmp_path, capsys):
    rng = np.random.default_rng(2)
    n, sex = rng.normal(size=1500), rng.choice(["F", "M"], 1500)
    granted = rng.random(1500) < 0.25
    write_csv(tmp_path / "p.csv", {"sex": sex.tolist(), "n": n.tolist(), "granted": granted.astype(int).tolist()})
    content = init(tmp_path, "p.csv", capsys)
    assert "subject to" not in content["goal"] and "population(sex" in content["goal"]
    (said,) = content["left_out"]
    assert said.startswith("any rule: ") and "the best constant, which keeps such rules" in said


@pytest.mark.usefixtures("one_setting")
def test_a_feature_that_tells_a_protected_column_is_named(tmp_path, capsys):
    columns = people(300)
    columns = {"form": [{"F": "A92", "M": "A93"}[value] for value in columns["sex"]], **columns}
    write_csv(tmp_path / "p.csv", columns)
    said = "feature 'form' tells the protected 'sex' in 100.0% of the rows"
    assert any(said in text for text in init(tmp_path, "p.csv", capsys)["cautions"])
    # Where answers lack in both columns, that tells nothing of who somebody is.
    lacking = [None] * 20
    asian, session = pa.chunked_array([[1] * 4 + [0] * 276 + lacking]), pa.chunked_array([[1, 2] * 140 + lacking])
    assert not tells_groups("session", session, {"asian": groups_of(asian)})
    (said,) = tells_groups(
        "copy", asian, {"asian": groups_of(asian), "lacking": groups_of(pa.chunked_array([lacking * 15]))}
    )
    assert said.startswith("feature 'copy' tells the protected 'asian' in 100.0% of the rows")


def test_a_class_of_few_rows_is_in_every_fold_or_told():
    rows = np.random.default_rng(0).permutation(240)  # the order in which rows are put into folds
    for n_positive in (3, 2, 0):
        y = np.zeros(240, int)
        y[rows[[0, 3, 6][:n_positive]]] = 1
        guesses = guess_roles(pa.table({"a": [1.5, 2.5, 4.5] * 80, "y": [0, 1] * 120}), None, "t.csv")
        train = pa.table({"a": [1.5, 2.5, 4.5] * 80, "y": y})
        plain = proposals.propose(train, guesses)[0]
        told = [text for text in proposals.doubts(train, guesses, plain) if "fold" in text]
        few = f"{n_positive} training rows of the rarer class are too few for 3 folds"
        assert (plain is None) == (n_positive < 3) == bool(told) and all(text.startswith(few) for text in told)


@pytest.mark.usefixtures("one_setting")
def test_a_rare_class_that_scores_find_is_not_called_nothing(tmp_path, capsys):
    rng = np.random.default_rng(4)
    n = rng.normal(size=2000)
    sick = (n + rng.logistic(size=2000) > 4.6).astype(int)
    write_csv(tmp_path / "p.csv", {"n": n.tolist(), "noise": rng.normal(size=2000).tolist(), "stroke": sick.tolist()})
    (said,) = init(tmp_path, "p.csv", capsys)["cautions"]
    assert "so something is learned. Ask for a recall of the rarer class" in said and "nothing is learned" not in said
    write_csv(tmp_path / "p.csv", {"n": rng.permutation(n).tolist(), "stroke": sick.tolist()})
    (said,) = init(tmp_path, "p.csv", capsys, "--force")["cautions"]
    assert "nothing is learned" in said


def test_a_day_of_birth_is_no_feature_but_an_age():
    days = [datetime.date(1950, 1, 1) + datetime.timedelta(97 * row) for row in range(60)]
    spelt = [f"{day:%d.%m.%Y}" for day in days]
    ignore = roles(Geburtsdatum=days, dob=spelt, opened=days, n=[1, 2, 3] * 20, y=[0, 1] * 30).ignore
    for name in ("Geburtsdatum", "dob"):
        assert "tells the age" in ignore[name] and "data.dates" not in ignore[name]
    assert "data.dates" in ignore["opened"]
    # Rows with a day of birth are people, who do not wish for a harm.
    assert roles(dob=days, n=[1, 2, 3, 4] * 15, default=[0, 0, 1] * 20).positive == 0


def written_as_columns(n_rows=1200, seed=4):
    """A table whose words were written as columns of zeros and ones: sex, groups of ages, and the class itself."""
    rng = np.random.default_rng(seed)
    woman, old = rng.random(n_rows) < 0.45, rng.random(n_rows) < 0.4
    score = rng.normal(size=n_rows) - 0.3 * old
    said = np.digitize(score + 0.4 * rng.normal(size=n_rows), [-0.9, -0.5, 0.0])
    table = {
        "score": score.round(3),
        "state_1": (rng.random(n_rows) < 0.4).astype(int),
        "MemberID_t": np.arange(n_rows) // 2 * 7,
    }
    table |= {"sexMALE": ~woman, "sexFEMALE": woman, "age_25": ~old, "age_65": old, "agePct": rng.random(n_rows)}
    table |= {"searched_N": score > 1.2, "searched_Y": score <= 1.2}
    table |= {f"grade_{name}": said == number for number, name in enumerate(("poor", "very_poor", "fair", "high"))}
    return {
        name: values.astype(int).tolist() if values.dtype == bool else values.tolist() for name, values in table.items()
    }


@pytest.mark.usefixtures("one_setting")
def test_columns_for_the_values_of_one_are_seen_together(tmp_path, capsys):
    write_csv(tmp_path / "columns.csv", written_as_columns())
    content = init(tmp_path, "columns.csv", capsys, "--target", "grade_high")
    other_grades = {"grade_poor", "grade_very_poor", "grade_fair"}
    assert {content["ignore"][name] for name in other_grades} == {
        "holds another value of what 'grade_high' holds one of"
    }
    assert "MemberID_t" in content["ignore"]
    assert "sexFEMALE: it tells the same rows apart as sexMALE" in content["left_out"]
    assert "age_65: it tells the same rows apart as age_25" in content["left_out"]
    about = {name: [text for text in content["left_out"] if text.startswith(name)] for name in ("age_25", "agePct")}
    assert "age_25" in content["goal"] and not any("no two groups" in text for text in about["age_25"])
    (text,) = about["agePct"]
    assert (
        "no practice says where to cut its numbers. Write populations yourself, such as population(agePct >= 0." in text
    )
    assert "sexFEMALE" not in content["goal"]
    text = (tmp_path / "goals.toml").read_text()
    assert "one of 4 columns for the values of one: join them to predict all of these values" in text
    assert not read_goals_file(tmp_path / "goals.toml").data.words  # of two values a number says as much


@pytest.mark.usefixtures("one_setting")
def test_every_rule_that_is_tried_is_named_while_it_is_tried():
    table, steps = pa.table(clients()), []
    guesses = guess_roles(table, None, "clients.csv")
    proposals.propose(table, guesses, steps.append)
    assert steps[0] == "choosing C and how numbers become features"
    assert {text.split(": ")[1] for text in steps[1:]} >= {"Sex, 80% rule", "age, 80% rule"}


def test_a_target_is_none_of_several_columns_for_one_value_nor_a_word_with_a_y():
    table = written_as_columns()
    guesses = guess_roles(pa.table(table), None, "columns.csv")
    assert guesses.why_target.startswith("the last column with two values") and guesses.target == "state_1"
    del table["state_1"]  # of columns for the values of one a target is guessed where there is no other
    assert guess_roles(pa.table(table), None, "columns.csv").target == "grade_high"
    # A number or a capital letter ends what their names have in common, as a sign does.
    for names in (("grade1", "grade2", "grade3"), ("gradeLow", "gradeMid", "gradeHigh")):
        columns = {name: [int(row % 3 == number) for row in range(60)] for number, name in enumerate(names)}
        table = {"x": [3, 1, 4, 1, 5] * 12, "e": [0, 1] * 30, **columns}
        assert guess_roles(pa.table(table), None, "t.csv").target == "e"
        assert {*guess_roles(pa.table(table), names[2], "t.csv").ignore} == {*names[:2]}
    # The first value is often left out; beside these, `d81educ` is another thing.
    year = np.random.default_rng(0).integers(80, 85, 400)
    columns = {f"d{number}": (year == number).astype(int) for number in range(81, 85)}
    table = {"d81educ": year % 7 / 2, "x": np.arange(400) % 7, "e": [0, 1] * 200, **columns}
    assert guess_roles(pa.table(table), None, "t.csv").target == "e"
    assert {*guess_roles(pa.table(table), "d84", "t.csv").ignore} == {"d81", "d82", "d83", "d81educ"}
    rare = {f"rare{number}": [int(row % 90 == 20 * number) for row in range(400)] for number in range(4)}
    table = {"x": np.arange(400) % 7, "e": [0, 1] * 200, **rare}  # apart by chance
    assert guess_roles(pa.table(table), None, "t.csv").target == "rare3"
    # The training rows might have none of its ones.
    assert guess_roles(pa.table(table | {"one": np.arange(400) == 7}), None, "t.csv").target == "rare3"
    guesses = guess_roles(pa.table({"x": [*range(60)], "y": [0, 1] * 30, "z_1": [0, 0, 1] * 20}), None, "columns.csv")
    assert guesses.target == "y"


def test_many_columns_of_two_values_are_not_all_read_for_each_of_them(monkeypatch):
    """400 such columns took 20 s, because what every one of them holds was looked at 400 times."""
    read, ones = [], column_checks._ones
    monkeypatch.setattr(column_checks, "_ones", lambda column: read.append(column) or ones(column))
    values = np.random.default_rng(0).random((100, 60)) < 0.3
    table = pa.table({f"f_{number}": column.astype(int) for number, column in enumerate(values.T)})
    assert guess_roles(table, None, "t.csv").target == "f_59"
    assert len(read) < 60 * 6

import sys

import pyarrow as pa
import pytest
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from widemargin.cli.goals_file.keys import BaselineSection, DataSection, GoalSection, GoalsFile
from widemargin.cli.tables.training_data import with_baselines
from widemargin.exceptions import DataError, ModelFileError
from widemargin.goals import Goal
from widemargin.persistence import save_model
from widemargin.preprocessing import make_preprocessor

TABLE = pa.table({"age": [20, 30, 40, 50], "work": ["a", "b", "a", "b"], "y": ["no", "no", "yes", "yes"]})


def goals(tmp_path, **more):
    data = DataSection(table=tmp_path / "t.csv", target="y", positive="yes")
    models = {name: BaselineSection(model=path) for name, path in more.pop("baseline_models", {}).items()}
    functions = {name: BaselineSection(function=said) for name, said in more.pop("baseline_functions", {}).items()}
    goal = GoalSection(text=Goal())
    return GoalsFile(path=tmp_path / "goals.toml", data=data, goals=goal, earlier=models | functions, **more)


@pytest.fixture
def old_model(tmp_path):
    labels = TABLE["y"].to_numpy(zero_copy_only=False)
    model = Pipeline([("table", make_preprocessor(["age", "work"])), ("model", LinearSVC())]).fit(TABLE, labels)
    save_model(model, tmp_path / "old.skops")
    return tmp_path / "old.skops"


def test_a_model_is_asked_about_the_rows(tmp_path, old_model):
    table = with_baselines(TABLE, goals(tmp_path, baseline_models={"old": old_model}), "t.csv")
    assert table["old"].to_pylist() == ["no", "no", "yes", "yes"]
    assert table.drop_columns(["old"]).equals(TABLE)


def test_what_a_model_cannot_do_is_named(tmp_path, old_model):
    asked = goals(tmp_path, baseline_models={"old": old_model})
    with pytest.raises(DataError, match=r"baselines\.old \(.*old\.skops\) on t\.csv: the table lacks 1 column.*'age'"):
        with_baselines(TABLE.drop_columns(["age"]), asked, "t.csv")
    with pytest.raises(DataError, match=r"baselines\.old is a model, old\.skops, but there is a column 'old' too"):
        with_baselines(TABLE.append_column("old", TABLE["y"]), asked, "t.csv")
    with pytest.warns(UserWarning, match=r"^baselines\.old: the table differs from the training table"):
        with_baselines(TABLE.set_column(1, "work", pa.array(["a", "c", "a", "b"])), asked, "t.csv")
    old_model.write_bytes(b"nothing")
    with pytest.raises(ModelFileError, match=r"baselines\.old .*no widemargin model file"):
        with_baselines(TABLE, asked, "t.csv")
    save_model(LinearSVC().fit([[0.0], [1.0]], ["no", "yes"]), old_model)
    with pytest.raises(DataError, match=r"old\.skops\) on t\.csv: the model takes arrays, not tables"):
        with_baselines(TABLE, asked, "t.csv")


FUNCTIONS = """
import pyarrow
def decide(table):
    assert isinstance(table, pyarrow.Table)
    return ["yes" if age > 35 else "no" for age in table["age"].to_pylist()]
def short(table):
    return ["yes"]
def none(table):
    return None
def fails(table):
    raise RuntimeError("no rules")
value = 3
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    (tmp_path / "wm_rules.py").write_text(FUNCTIONS)
    yield
    sys.modules.pop("wm_rules", None)


def test_a_function_is_found_beside_the_goals_file(tmp_path, rules):
    path = list(sys.path)
    table = with_baselines(TABLE, goals(tmp_path, baseline_functions={"rule": "wm_rules:decide"}), "t.csv")
    assert table["rule"].to_pylist() == ["no", "no", "yes", "yes"]
    assert sys.path == path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wm_rules:short", r"wm_rules:short gives an answer of shape \(1,\) for the 4 rows of t\.csv"),
        ("wm_rules:none", r"wm_rules:none gives an answer of shape \(\) for the 4 rows"),
        ("wm_rules:fails", r"wm_rules:fails fails on t\.csv \(RuntimeError: no rules\)"),
        ("wm_rules:value", r"wm_rules:value is a int, no function"),
        ("wm_rules:absent", r"wm_rules:absent cannot be imported \(AttributeError"),
        ("wm_no_such_module:f", r"wm_no_such_module:f cannot be imported \(ModuleNotFoundError"),
    ],
)
def test_what_a_function_does_wrong_is_named(tmp_path, rules, name, message):
    with pytest.raises(DataError, match=message):
        with_baselines(TABLE, goals(tmp_path, baseline_functions={"rule": name}), "t.csv")

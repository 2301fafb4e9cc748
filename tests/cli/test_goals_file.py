from pathlib import Path

import pytest

from widemargin.cli.goals_file import read_goals_file
from widemargin.exceptions import GoalsFileError
from widemargin.goals import Goal

GOOD = '''
[data]
table = "people.csv"
target = "income"
positive = ">50K"
protected = ["sex"]
ignore = ["id"]
words = ["zip"]
split = { column = "split", train = "train", test = "test" }

[baselines]
deployed = { column = "old_model" }

[goal]
text = """
women = population(sex == "Female")
minimize error_rate()
subject to positive_rate(women) >= 0.8 * positive_rate()
subject to churn("deployed") <= 0.1
"""
[goal.audit]
text = "subject to recall() >= 0.5"

[model]
C = 1
enforce = "randomized"
numbers = "bins"
bins = 20
time_budget = 60

[output]
model = "out/people.skops"
'''

SMALL = '[data]\ntable = "t.csv"\ntarget = "y"\npositive = 1\n[goal]\ntext = "subject to recall() >= 0.5"\n'


def read(tmp_path, text):
    path = tmp_path / "goals.toml"
    path.write_text(text, encoding="utf-8")
    return read_goals_file(path)


def problems(tmp_path, text):
    with pytest.raises(GoalsFileError) as caught:
        read(tmp_path, text)
    return str(caught.value)


def test_everything_is_read_and_paths_are_relative_to_the_file(tmp_path):
    goals = read(tmp_path, GOOD)
    assert goals.data.table == tmp_path / "people.csv"
    assert goals.output == tmp_path / "out" / "people.skops"
    assert (goals.data.target, goals.data.positive, goals.data.features) == ("income", ">50K", None)
    assert (goals.data.protected, goals.data.ignore, goals.data.words) == (("sex",), ("id",), ("zip",))
    assert goals.data.split is not None
    assert (goals.data.split.column, goals.data.split.train, goals.data.split.test) == ("split", "train", "test")
    assert goals.baselines == {"deployed": "old_model"}
    assert len(goals.goal.constraints) == 2
    assert goals.audit_goal == Goal.parse("subject to recall() >= 0.5")
    model = goals.model
    assert (model.C, model.enforce, model.numbers, model.bins, model.time_budget) == (
        1.0,
        "randomized",
        "bins",
        20,
        60.0,
    )


def test_defaults(tmp_path):
    goals = read(tmp_path, SMALL)
    assert goals.data.split is None and goals.audit_goal is None and goals.output is None
    assert goals.baselines == {} and goals.data.protected == ()
    model = goals.model
    assert (model.C, model.enforce, model.numbers, model.bins) == (0.2, "deterministic", "scale", 30)
    assert model.time_budget is None and model.on_infeasible == "raise"
    assert read(tmp_path, SMALL + '[model]\non_infeasible = "warn"\n').model.on_infeasible == "warn"
    assert "model.on_infeasible: must be one of 'raise', 'warn'" in problems(
        tmp_path, SMALL + "[model]\non_infeasible = true\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('table = "people.csv"', 'tabel = "people.csv"', "data.table: missing. Add it"),
        ('table = "people.csv"', 'tabel = "people.csv"', "data.tabel: unknown key. Is it 'table'?"),
        ('table = "people.csv"', "table = 3", "data.table: must be a text between quotes; got 3"),
        ('target = "income"', 'target = ""', "data.target: must be a text between quotes; got ''"),
        ('positive = ">50K"', "positive = [1]", "data.positive: must be one value of the column; got [1]"),
        ('protected = ["sex"]', 'protected = "sex"', 'data.protected: must be a list of column names, such as ["sex"]'),
        ('protected = ["sex"]', 'protected = ["sex", "sex"]', "data.protected: names a column twice"),
        (
            'protected = ["sex"]',
            'protected = ["sex"]\nfeatures = ["age", "sex"]',
            "'sex' is also named by data.protected",
        ),
        ('words = ["zip"]', 'features = ["income"]', "data.features: 'income' is also named by data.target"),
        ('words = ["zip"]', 'features = ["old_model"]', "'old_model' is also named by baselines.deployed"),
        ('test = "test" }', 'test = "train" }', "data.split: train and test are both 'train'"),
        ('train = "train", ', "", "data.split.train: missing"),
        (
            '{ column = "split", train = "train", test = "test" }',
            "3",
            "data.split: must be a section, [data.split]; got 3",
        ),
        ('{ column = "old_model" }', '"old_model"', "baselines.deployed: must be a section"),
        (
            '{ column = "old_model" }',
            '{ colum = "old_model" }',
            "baselines.deployed.colum: unknown key. Is it 'column'?",
        ),
        ("deployed =", "other =", "goal.text: the baseline 'deployed' is not in [baselines]"),
        ("[baselines]", "[baseline]", "baseline: unknown key. Is it 'baselines'?"),
        ("recall() >= 0.5", "recall() >=", "goal.audit.text: no valid goal"),
        (
            "recall() >= 0.5",
            "recall(external('x')) >= 0.5",
            "goal.audit.text: the external data set 'x' is not in the file. Add: [external.x] with its table",
        ),
        ("minimize error_rate()", "minimize __import__('os')", "goal.text: no valid goal"),
        ("C = 1", "C = 0", "model.C: must be a number above 0; got 0"),
        ("C = 1", "C = nan", "model.C: must be a number above 0; got nan"),
        ("C = 1", "C = true", "model.C: must be a number above 0; got True"),
        ("C = 1", "c = 1", "model.c: unknown key. Is it 'C'?"),
        ("bins = 20", "bins = 2.5", "model.bins: must be a whole number from 2 to 1000; got 2.5"),
        ('"randomized"', '"random"', "model.enforce: must be one of 'deterministic', 'randomized'; got 'random'"),
        ("[output]", "[outputs]", "outputs: unknown key. Is it 'output'?"),
        ('model = "out/people.skops"', 'nothing = "x"', "output.nothing: unknown key. Known here: model"),
    ],
)
def test_every_problem_is_named_by_its_key_and_cured(tmp_path, old, new, message):
    assert old in GOOD
    assert message in problems(tmp_path, GOOD.replace(old, new))


def test_a_kernel_is_read_with_what_is_said_about_it(tmp_path):
    assert read(tmp_path, SMALL).model.kernel == {}
    assert read(tmp_path, SMALL + '[model]\nkernel = "linear"\n').model.kernel == {}
    text = '[model]\nkernel = "rbf"\ngamma = 0.5\nfeature_map = "nystroem"\nn_components = 50\n'
    assert read(tmp_path, SMALL + text).model.kernel == {
        "kernel": "rbf", "gamma": 0.5, "feature_map": "nystroem", "n_components": 50,
    }  # fmt: skip
    text = '[model]\nkernel = "poly"\ngamma = "auto"\ndegree = 2\ncoef0 = -1\ncache_size = 10\n'
    assert read(tmp_path, SMALL + text).model.kernel == {
        "kernel": "poly", "gamma": "auto", "degree": 2.0, "coef0": -1.0, "cache_size": 10.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('kernel = "RBF"', "model.kernel: must be one of 'linear', 'poly', 'rbf', 'laplacian', 'sigmoid'; got 'RBF'"),
        ('kernel = "precomputed"', "model.kernel: must be one of"),
        ('kernal = "rbf"', "model.kernal: unknown key. Is it 'kernel'?"),
        ('kernel = "rbf"\ngamma = "wide"', "model.gamma: must be 'scale', 'auto' or a number above 0; got 'wide'"),
        ('kernel = "rbf"\ngamma = 0', "model.gamma: must be 'scale', 'auto' or a number above 0; got 0"),
        ('kernel = "poly"\ncoef0 = "1"', "model.coef0: must be a number; got '1'"),
        ('kernel = "poly"\ndegree = -1', "model.degree: must be a number above 0; got -1"),
        ('kernel = "rbf"\nfeature_map = "hash"', "model.feature_map: must be one of"),
        (
            'kernel = "poly"\nfeature_map = "fourier"',
            "model.feature_map: 'fourier' is for the kernel 'rbf'",
        ),
        (
            'kernel = "rbf"\nfeature_map = "nystroem"\nn_components = 0',
            "model.n_components: must be a whole number",
        ),
        ('kernel = "rbf"\nn_components = 9', "model.n_components: is for a feature_map. Add feature_map"),
        (
            'kernel = "rbf"\nfeature_map = "nystroem"\ncache_size = 9',
            "model.cache_size: is for kernels without",
        ),
        ("gamma = 1", "model.gamma: is for kernels, and model.kernel is 'linear'. Name another kernel or drop it"),
    ],
)
def test_what_is_wrong_about_a_kernel_is_named(tmp_path, lines, message):
    text = problems(tmp_path, SMALL + f"[model]\n{lines}\n")
    assert "1 problem\n" in text
    assert message in text


def test_all_problems_are_told_at_once(tmp_path):
    text = problems(tmp_path, '[data]\ntable = 1\n[model]\nC = "x"\nD = 1\n')
    assert "6 problems" in text
    for key in ("data.table", "data.target", "data.positive", "[goal]: the section is missing", "model.C", "model.D"):
        assert key in text
    assert "goal.text" not in text  # said once, by its section


def test_one_problem_is_singular(tmp_path):
    assert "goals.toml: 1 problem\n" in problems(tmp_path, SMALL + "more = 1\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[data\n", "no valid TOML"),
        (b"a = 1\na = 2\n", "no valid TOML"),
        (b"\xff\xfe", "no UTF-8 text (byte 0)"),
        (b"x" * (1 << 20) + b"yy", "larger than 1048576 bytes"),
        (b"x = " + b"[" * 5000, "goals.toml: "),
        (b"", "[data]: the section is missing"),
    ],
)
def test_files_that_are_no_goals_file(tmp_path, content, message):
    path = tmp_path / "goals.toml"
    path.write_bytes(content)
    with pytest.raises(GoalsFileError) as caught:
        read_goals_file(path)
    assert message in str(caught.value)


def test_absent_files_and_folders_are_named(tmp_path):
    with pytest.raises(GoalsFileError, match=r"none\.toml: the file cannot be read \(No such file"):
        read_goals_file(tmp_path / "none.toml")
    with pytest.raises(GoalsFileError, match=r"Is a directory"):
        read_goals_file(tmp_path)


def test_the_example_is_a_goals_file():
    goals = read_goals_file(Path(__file__).parents[2] / "examples" / "adult.toml")
    assert len(goals.goal.constraints) == 4
    assert "sex" in goals.data.protected
    assert goals.data.table.exists()
    assert goals.audit_goal is not None

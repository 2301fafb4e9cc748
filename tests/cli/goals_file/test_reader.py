import time
from pathlib import Path

import pyarrow as pa
import pytest

from widemargin.cli.goals_file.reader import read_goals_file
from widemargin.cli.tables.column_roles import feature_columns
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
    assert goals.outputs.model == tmp_path / "out" / "people.skops"
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
    assert goals.data.split is None and goals.audit_goal is None and goals.outputs.model is None
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


@pytest.mark.parametrize("line", ['numbers = "bins"', 'learner = "trees"', 'kernel = "poly"', 'kernel = "sigmoid"'])
def test_what_cannot_be_certified_is_named(tmp_path, line):
    asked = '[goal.audit]\ntext = "subject to certified_rate(0.1) >= 0.5"\n'
    text = problems(tmp_path, SMALL + asked + f"[model]\n{line}\n")
    assert f"model.{line.replace(' =', ': is')}, and such decisions cannot be certified" in text


def test_all_problems_are_told_at_once(tmp_path):
    text = problems(tmp_path, '[data]\ntable = 1\n[model]\nC = "x"\nD = 1\n')
    assert "5 problems" in text
    for key in ("data.table", "data.target", "[goal]: the section is missing", "model.C", "model.D"):
        assert key in text
    assert "goal.text" not in text  # said once, by its section


def test_one_problem_is_singular(tmp_path):
    assert "goals.toml: 1 problem\n" in problems(tmp_path, SMALL + "more = 1\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[data\n", "no valid TOML"),
        (b"a = 1\na = 2\n", "no valid TOML"),
        (b'[data]\ntable = "C:\\users\\a.csv"\n', "write paths with / or in single quotes"),
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
    goals = read_goals_file(Path(__file__).parents[3] / "examples" / "adult.toml")
    assert len(goals.goal.constraints) == 4
    assert "sex" in goals.data.protected
    assert goals.data.table.exists()
    assert goals.audit_goal is not None


# Lines: every problem says where it is


@pytest.mark.parametrize(
    ("old", "new", "line", "shown"),
    [
        ('table = "people.csv"', 'tabel = "people.csv"', 3, "data.tabel: unknown key"),
        ('protected = ["sex"]', 'protected = [\n "sex",\n "sex"]', 6, "data.protected: names a column twice"),
        ('test = "test" }', 'test = "train" }', 9, "data.split: train and test are both"),
        ("deployed =", "other =", 19, 'subject to churn("deployed") <= 0.1'),
        ("recall() >= 0.5", "recal() >= 0.5", 22, 'text = "subject to recal() >= 0.5"'),
        ("positive_rate(women) >=", "positive_rate(man) >=", 18, "subject to positive_rate(man) >= 0.8"),
        ("[output]", "[output]\nmodell = 3", 32, "output.modell: unknown key. Is it 'model'?"),
    ],
)
def test_problems_have_their_lines(tmp_path, old, new, line, shown):
    assert old in GOOD
    text = problems(tmp_path, GOOD.replace(old, new))
    assert f"\n  line {line}: " in text
    assert shown in text


def test_a_goal_is_marked_where_it_is_wrong(tmp_path):
    text = problems(tmp_path, GOOD.replace("positive_rate(women) >=", "positive_rate(man) >="))
    told = text.splitlines()[-2:]
    assert told[1].index("^") == told[0].index("man")
    text = problems(tmp_path, GOOD.replace("recall() >= 0.5", "recall() >= >= 0.5"))
    told = text.splitlines()[-2:]
    assert told[1].index("^") == told[0].index(">= 0.5")


def test_problems_are_told_in_the_order_of_their_lines(tmp_path):
    with pytest.raises(GoalsFileError) as caught:
        read(tmp_path, GOOD.replace("C = 1", "C = 0").replace("bins = 20", "bins = 1").replace('"income"', '""'))
    assert [problem["line"] for problem in caught.value.problems] == [4, 25, 28]
    assert [problem["key"] for problem in caught.value.problems] == ["data.target", "model.C", "model.bins"]


def test_toml_that_is_none_is_shown_with_its_place(tmp_path):
    text = problems(tmp_path, '[data]\ntable = "a.csv\n')
    assert "no valid TOML" in text and '    table = "a.csv\n' in text
    told = text.splitlines()
    assert told[-1].strip() == "^"


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    (tmp_path / "goals.toml").write_text(SMALL, encoding="utf-8-sig")
    assert read_goals_file(tmp_path / "goals.toml").data.target == "y"


# External data sets, baselines, validation, protected columns

MORE = """
[external.traffic]
table = "traffic.parquet"
[external.old]
table = ["a.csv", "b.csv"]
target = "z"
[baselines.model]
model = "models/old.skops"
"""


def test_external_data_sets_and_models_are_read(tmp_path):
    text = SMALL.replace("recall() >= 0.5", "churn('model', on=external('traffic')) <= 0.1") + MORE
    goals = read(tmp_path, text)
    assert goals.external["traffic"].table == tmp_path / "traffic.parquet"
    assert goals.external["traffic"].target is None
    assert goals.external["old"].table == (tmp_path / "a.csv", tmp_path / "b.csv")
    assert goals.external["old"].target == "z"
    assert goals.baseline_models == {"model": tmp_path / "models" / "old.skops"}
    assert goals.baselines == {} and goals.baseline_names == ("model",)


def test_functions_need_permission(tmp_path):
    text = SMALL + '[baselines.rule]\nfunction = "rules:decide"\n'
    assert "line 8: baselines.rule.function: 'rules:decide' would run code" in problems(tmp_path, text)
    goals = read_goals_file(tmp_path / "goals.toml", allow_code=True)
    assert goals.baseline_functions == {"rule": "rules:decide"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('[baselines.x]\ncolumn = "a"\nmodel = "m.skops"', "baselines.x: needs exactly one of column, model, function"),
        ("[baselines.x]", "baselines.x: needs exactly one of column, model, function; got none"),
        ('[baselines.x]\nfunction = "os.system(1)"', 'must be of the form "module:function"; got'),
        ('[baselines."\\u0007"]\ncolumn = "a"', "a name must have 1 to 200 printable characters"),
        ("[external.x]", "external.x.table: missing. Add it"),
        ('[external]\nx = "t.csv"', "external.x: must be a section, [external.x]; got 't.csv'"),
        ('[external.x]\ntable = "t.csv"\n[baselines.x]\ncolumn = "a"', "a baseline is called 'x' too. Rename one"),
        ('[external.x]\ntable = "a\\u0000.csv"', "external.x.table: must be a file name without control characters"),
        ("[validation]\nfraction = 1.0", "validation.fraction: must be a number above 0 and below 1; got 1.0"),
        ("[validation]\nconfidence = 0.4", "validation.confidence: must be a number from 0.5 and below 1; got 0.4"),
        ("[validation]\nfolds = 1", "validation.folds: must be a whole number from 2 to 100; got 1"),
        ("[validation]\nfolds = 5\nconfidence = 0.9", "confidence: cannot stand beside validation.folds"),
        ("[validation]\nfolds = 5\nfraction = 0.2", "fraction: cannot stand beside validation.folds"),
        ("[validation]\nfolds = 5\n[model]\nC = 1", "model.C: is chosen by validation.folds"),
        (
            '[validation]\nconfidence = 0.9\n[model]\nenforce = "randomized"',
            "validation.confidence: covers the rates of predict",
        ),
        ('[output]\npredictions = "p.xlsx"', "output.predictions: is written as .csv, .parquet or .pq. Choose one"),
        ('[output]\npredictions = "t.csv"', "output.predictions: is the table that is read, which would be replaced"),
        ("[model]\nC = 1" + "0" * 400, "model.C: must be a number"),
    ],
)
def test_what_is_wrong_in_the_further_sections_is_named(tmp_path, lines, message):
    assert message in problems(tmp_path, SMALL + lines + "\n")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('protected_as_features = ["age"]', "'age' is not in data.protected. List protected columns only"),
        ('ignore = ["age"]\nprotected_as_features = ["age"]', "'age' is named by data.ignore"),
        ('features = ["sex"]', "drop one, or list it in data.protected_as_features too"),
        ("features = []", "data.features: names no column"),
        (
            'split = { column = "s", train = 1, test = 0 }\n[validation]\nfraction = 0.5',
            "data.split already holds rows",
        ),
    ],
)
def test_roles_of_columns_are_checked(tmp_path, lines, message):
    text = SMALL.replace("positive = 1", f'positive = 1\nprotected = ["sex"]\n{lines}')
    assert message in problems(tmp_path, text)


def test_protected_columns_may_be_features_when_asked(tmp_path):
    text = SMALL.replace("positive = 1", 'positive = 1\nprotected = ["sex"]\nprotected_as_features = ["sex"]')
    goals = read(tmp_path, text)
    table = pa.table({"a": [1], "sex": ["F"], "y": [1]})
    assert feature_columns(table.column_names, goals) == ["a", "sex"]
    goals = read(tmp_path, text.replace("positive = 1", 'positive = 1\nfeatures = ["a"]'))
    assert feature_columns(table.column_names, goals) == ["a", "sex"]


# Paths lead nowhere else


@pytest.mark.parametrize(
    "lines",
    [
        '[external.x]\ntable = "{}"', '[external.x]\ntable = ["a.csv", "{}"]', '[baselines.x]\nmodel = "{}"',
        '[output]\nmodel = "{}"', '[output]\nreport = "{}"', '[output]\npredictions = "{}"',
    ],
)  # fmt: skip
@pytest.mark.parametrize("way", ["..", "absolute", "link"])
def test_what_leads_outside_the_folder_is_refused(tmp_path, lines, way):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f.csv").write_text("a\n1\n")
    (tmp_path / "in" / "link.csv").symlink_to(tmp_path / "out" / "f.csv")
    name = {"..": "../out/f.csv", "absolute": str(tmp_path / "out" / "f.csv"), "link": "link.csv"}[way]
    path = tmp_path / "in" / "goals.toml"
    path.write_text(SMALL + lines.replace("{}", name) + "\n")
    with pytest.raises(GoalsFileError, match=r"leads outside the folder of the goals file.*--allow-outside"):
        read_goals_file(path)
    assert read_goals_file(path, allow_outside=[tmp_path / "out"]).data.target == "y"
    path.write_text(SMALL + lines.replace("{}", "sub/../f.csv") + "\n")
    assert read_goals_file(path).data.target == "y"


def test_the_main_table_may_lie_anywhere(tmp_path):
    assert read(tmp_path, SMALL.replace("t.csv", "../elsewhere/t.csv")).data.table.name == "t.csv"


def test_a_file_full_of_nonsense_is_refused_at_once(tmp_path):
    lines = "\n".join(f"k{number} = 1" for number in range(60_000))
    started = time.process_time()
    text = problems(tmp_path, f"[data]\n{lines}\n")
    assert time.process_time() - started < 10.0
    assert "data.k7: unknown key" in text and text.count("\n") < 110

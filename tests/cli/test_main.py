"""The command line as its users meet it: in a process of its own, with good input and every kind of bad input."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from command_line import people, widemargin, widemargin_here, write_csv
from widemargin import __version__
from widemargin.cli.main import main
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.persistence import load_model, model_info, save_model

ADULT = Path(__file__).parents[2] / "examples" / "adult.toml"


def failed_cleanly(result, code, *texts):
    """Exit code, nothing on stdout, a message without traceback on stderr."""
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("widemargin: ")
    assert "Traceback" not in result.stderr and "defect" not in result.stderr
    for text in texts:
        assert text in result.stderr


def without_numbers(text):
    """Every digit and sign a 0: numbers differ in their last digits between versions of the libraries."""
    return re.sub(r"[\d+-]", "0", text)


def test_the_example_is_trained_saved_and_audited(tmp_path, capsys):
    """The main job: four constraints met on training rows, the promise kept on test rows, all in the printed text."""
    model = tmp_path / "adult.skops"
    trained = widemargin_here(capsys, "train", ADULT, "--model", model)
    assert trained.returncode == 0, trained.stderr
    for text in (
        'women = population(sex == "Female")',
        "PASSED: 4 of 4 constraints met by the estimate",
        "Training rows (32561)",
        "Test rows (16281)",
        "unconstrained SVM",
        "deployed",
        "NOT MET",  # the others do not meet the goal
        f"Model saved as {model}",
    ):
        assert text in trained.stdout
    assert trained.stderr == ""  # no terminal, no progress; nothing to warn about
    readme = (ADULT.parents[1] / "README.md").read_text()
    (shown,) = re.findall(r"```text\n([^`]*?Goal report.*?)```", readme, re.DOTALL)
    assert without_numbers(shown) in without_numbers(trained.stdout)
    there = trained.stdout[trained.stdout.index("Measured on test rows (") :]
    numbers = (re.findall(r"[+-]?\d+\.\d+", text)[:40] for text in (shown, there))
    np.testing.assert_allclose(*([float(number) for number in each] for each in numbers), atol=0.01)
    info = model_info(model)
    assert info.goal is not None and "fair: positive_rate(women)" in info.goal
    assert not {"sex", "race", "income", "deployed", "split", "fnlwgt"} & set(info.features)
    assert model.stat().st_size < 100_000  # no training rows inside
    data = ADULT.parent / "data" / "adult.csv.gz"
    audited = widemargin_here(capsys, "audit", ADULT, "--model", model, "--data", data, "--json")
    assert audited.returncode == 0, audited.stderr
    report = json.loads(audited.stdout)
    assert report["rows"] == "test rows" and report["report"]["n_rows"] == 16281
    assert all(item["met"] for item in report["report"]["constraints"])


def test_train_prints_json_and_exits_by_the_goal(project, capsys):
    assert main(["train", str(project / "goals.toml"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["command"] == "train" and content["exit_code"] == 0
    assert content["features"] == ["age", "work"]
    assert content["status"] == "converged"
    assert [item["label"] for item in content["training"]["constraints"]] == ["fair", "recall", "churn"]
    assert set(content["reports"]) == {"train", "test"}
    assert set(content["reports"]["train"]) == {"this model", "unconstrained SVM", "deployed"}
    assert [item["label"] for item in content["reports"]["test"]["this model"]["constraints"]] == ["recall"]
    assert content["model"] == str(project / "out" / "people.skops")
    loaded = load_model(project / "out" / "people.skops")
    assert loaded.classes_.tolist() == ["high", "low"]
    assert loaded[-1].positive_class_ == "high"
    assert model_info(project / "out" / "people.skops").metadata["rows"] == {"train": 400, "test": 200}


def test_the_promise_on_test_rows_decides_too(project, capsys):
    text = (project / "goals.toml").read_text()
    (project / "goals.toml").write_text(text.replace("recall() >= 0.4", "recall() >= 0.999"))
    assert main(["train", str(project / "goals.toml")]) == 1
    assert "NOT PASSED" in capsys.readouterr().out


def test_without_an_audit_goal_the_goal_decides_on_test_rows(project, capsys):
    text = (project / "goals.toml").read_text()
    start, end = text.index("[goal.audit]"), text.index("[output]")
    tight = text[:start] + text[end:]
    tight = tight[: tight.index("subject to fair")] + "subject to recall: recall() >= 0.9\n'''\n" + text[end:]
    (project / "goals.toml").write_text(tight)
    code = main(["train", str(project / "goals.toml"), "--json"])
    content = json.loads(capsys.readouterr().out)
    recall = content["reports"]["test"]["this model"]["constraints"][0]
    assert content["met"] == {"train": True, "test": False} and code == 1
    assert recall["label"] == "recall" and not recall["met"]
    main(["train", str(project / "goals.toml")])
    assert "Goal: met on the training rows; NOT MET on the test rows." in capsys.readouterr().out


def test_a_randomized_model_is_judged_by_its_ramp_rates_on_training_rows(project, capsys):
    changed_goals("[output]", '[model]\nenforce = "randomized"\n[output]')(project)
    changed_goals("recall() >= 0.4", "positive_rate() <= 0.99")(project)
    text = (project / "goals.toml").read_text()
    start, end = text.index("subject to fair"), text.index("'''\n\n[goal.audit]")
    (project / "goals.toml").write_text(f"{text[:start]}subject to positive_rate() <= 0.3\n{text[end:]}")
    assert main(["train", str(project / "goals.toml"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    items = content["training"]["constraints"]
    assert all(item["ramp_slack"] >= -1e-9 for item in items)
    assert not all(item["met"] for item in items)  # or this test would show nothing
    assert main(["train", str(project / "goals.toml")]) == 0
    shown = capsys.readouterr().out
    assert "met on the training rows by the ramp rates" in shown and "on the test rows by the rates of predict" in shown
    assert main(audit(project)) == 0
    assert "Measured and decided here are the rates of predict." in capsys.readouterr().out


@pytest.mark.parametrize("lines", ['kernel = "rbf"', 'kernel = "rbf"\nfeature_map = "nystroem"\nn_components = 20'])
def test_a_kernel_model_is_trained_saved_and_audited(project, capsys, lines):
    changed_goals("[output]", f"[model]\n{lines}\n[output]")(project)
    assert main(["train", str(project / "goals.toml"), "--json"]) in (0, 1)  # it may miss the promise on test rows
    content = json.loads(capsys.readouterr().out)
    assert content["met"]["train"]
    model = load_model(project / "out" / "people.skops")[-1]
    assert model.kernel == "rbf"
    assert hasattr(model, "feature_map_") == ("feature_map" in lines) != hasattr(model, "support_vectors_")
    assert main([*audit(project), "--json"]) == content["exit_code"]
    audited = json.loads(capsys.readouterr().out)
    for here, there in zip(
        audited["report"]["constraints"], content["reports"]["test"]["this model"]["constraints"], strict=True
    ):
        assert here["slack"] == there["slack"]


def test_an_infeasible_model_is_kept_on_request(project, capsys):
    changed_goals('churn("deployed") <= 0.3', 'churn("deployed") <= 0.001\nsubject to recall() >= 0.99')(project)
    changed_goals("[output]", '[model]\non_infeasible = "warn"\n[output]')(project)
    assert main(["train", str(project / "goals.toml")]) == 1
    printed = capsys.readouterr()
    assert "warning: no model that meets the goal" in printed.err and "This model is kept." in printed.err
    assert "on_infeasible" not in printed.err
    assert "NOT MET on the training rows" in printed.out
    assert load_model(project / "out" / "people.skops")[-1].status_ == "infeasible"


def test_the_time_budget_is_shared_and_warnings_name_the_model(project, capsys, monkeypatch):
    changed_goals("[output]", "[model]\ntime_budget = 1e-6\n[output]")(project)
    assert main(["train", str(project / "goals.toml"), "--json"]) in (0, 1)
    printed = capsys.readouterr()
    assert "warning: this model: stopped after" in printed.err and "raise model.time_budget" in printed.err
    assert "warning: the unconstrained SVM to compare with is left out: model.time_budget is used up." in printed.err
    assert "unconstrained SVM" not in json.loads(printed.out)["reports"]["train"]
    clock = iter([0.0, 0.0])
    monkeypatch.setattr("widemargin.cli.commands.train.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert main(["train", str(project / "goals.toml")]) in (0, 1)
    assert "warning: the unconstrained SVM to compare with: stopped after" in capsys.readouterr().err


def test_without_a_split_nothing_is_claimed_about_unseen_rows(project, capsys):
    text = (project / "goals.toml").read_text()
    split = 'split = { column = "split", train = "train", test = "test" }'
    (project / "goals.toml").write_text(text.replace(split, 'ignore = ["split"]'))
    assert main(["train", str(project / "goals.toml")]) == 0
    printed = capsys.readouterr().out
    assert "No rows were held out (no data.split), so nothing is known about unseen rows." in printed
    assert "Test rows" not in printed and "Training rows (600)" in printed


def test_without_a_file_name_the_model_is_not_saved(project, capsys):
    text = (project / "goals.toml").read_text()
    (project / "goals.toml").write_text(text[: text.index("[output]")])
    assert main(["train", str(project / "goals.toml")]) == 0
    assert "The model was not saved. Name a file by [output] model or --model." in capsys.readouterr().out
    assert main(["train", str(project / "goals.toml"), "--model", str(project / "m.skops")]) == 0
    assert (project / "m.skops").exists()


def audit(folder, *more, data="people.csv"):
    goals, model = folder / "goals.toml", folder / "out" / "people.skops"
    return ["audit", str(goals), "--model", str(model), "--data", str(folder / data), *more]


@pytest.mark.parametrize(("rows", "count"), [((), 200), (("--rows", "train"), 400), (("--rows", "all"), 600)])
def test_audit_measures_the_rows_asked_for(trained, capsys, rows, count):
    assert main(audit(trained, *rows, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["report"]["n_rows"] == count


def test_audit_asks_only_for_the_rows_that_are_wanted(trained, capsys):
    write_csv(trained / "new.csv", {**people(100, seed=1), "split": ["train"] * 100})
    assert main(audit(trained, "--rows", "train", data="new.csv")) == 0
    assert main(audit(trained, data="new.csv")) == 2
    assert "0 rows have 'test'" in (text := capsys.readouterr().err) and "--rows all|train|test" in text


def test_audit_without_the_target_column(trained, capsys):
    columns = people(100, seed=1)
    columns["incomes"] = columns.pop("income")
    write_csv(trained / "new.csv", columns)
    assert main(audit(trained, "--rows", "all", data="new.csv")) == 2
    text = capsys.readouterr().err
    assert f"column 'income' (data.target) is not in {trained / 'new.csv'}. Did you mean 'incomes'?" in text
    assert "recall needs labels" in text and "y=" not in text
    promise("positive_rate() <= 0.9")(trained)
    assert main(audit(trained, "--rows", "all", data="new.csv")) == 0
    assert main(audit(trained, "--rows", "all", "--json", data="new.csv")) == 0


def test_audit_of_a_file_without_the_split_takes_all_rows(trained, capsys):
    columns = people(100, seed=1)
    del columns["split"]
    write_csv(trained / "new.csv", columns)
    assert main(audit(trained, data="new.csv")) == 0
    assert "all rows of" in capsys.readouterr().out
    assert main(audit(trained, "--rows", "test", data="new.csv")) == 2
    assert "--rows test needs the column that data.split names, 'split'" in capsys.readouterr().err


def test_audit_decides_by_estimate_or_with_confidence(trained, capsys):
    text = (trained / "goals.toml").read_text()
    assert main(audit(trained, "--json")) == 0
    rate = json.loads(capsys.readouterr().out)["report"]["constraints"][0]["rate"]
    close = text.replace("recall() >= 0.4", f"recall() >= {rate - 0.001:.4f}")
    (trained / "goals.toml").write_text(close)
    assert main(audit(trained)) == 0
    assert main(audit(trained, "--decide", "confident")) == 1
    assert "undecided" in capsys.readouterr().out
    (trained / "goals.toml").write_text(text.replace("recall() >= 0.4", f"recall() >= {rate + 0.001:.4f}"))
    assert main(audit(trained)) == 1


def test_unknown_words_in_new_rows_are_counted_on_stderr(trained, capsys):
    columns = people(100, seed=1)
    columns["work"][0] = "robot"
    write_csv(trained / "new.csv", columns)
    main(audit(trained, "--rows", "all", data="new.csv"))
    assert "warning: the table differs from the training table" in (text := capsys.readouterr().err)
    assert "'work' holds unknown words in 1 of 100 rows ('robot')" in text


def test_usage():
    shown = widemargin("--version")
    assert shown.stdout == f"widemargin {__version__}\n" and shown.returncode == 0
    loaded = "import sys, widemargin.cli.main; print('sklearn' in sys.modules)"  # --help is quick
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True).stdout == "False\n"
    with pytest.raises(SystemExit, match="2"):
        main([])
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "goals.toml"])


# Bad input: each kind is told in one message, with exit code 2 (a goal that cannot be met: 1)


def changed_goals(old, new):
    def change(folder):
        text = (folder / "goals.toml").read_text()
        assert old in text
        (folder / "goals.toml").write_text(text.replace(old, new))

    return change


def changed_table(**columns):
    def change(folder):
        write_csv(folder / "people.csv", {**people(), **columns})

    return change


BAD_FOR_TRAINING = {
    "no goals file": (lambda folder: (folder / "goals.toml").unlink(), 2, ["goals.toml: the file cannot be read"]),
    "no TOML": (changed_goals("[data]", "[data"), 2, ["goals.toml: no valid TOML", "line 2"]),
    "unknown key": (changed_goals("protected", "protekted"), 2, ["data.protekted: unknown key. Is it 'protected'?"]),
    "goal syntax": (
        changed_goals("recall() >= 0.6", "recall() >= >= 0.6"),
        2,
        ["line 18: goal.text: no valid goal: Python's parser says", "subject to recall: recall() >= >= 0.6", "^"],
    ),
    "no table": (lambda folder: (folder / "people.csv").unlink(), 2, ["people.csv: the table cannot be read"]),
    "unknown column": (changed_goals('["sex"]', '["gender"]'), 2, ["'gender' (data.protected)", "It has 'age'"]),
    "unknown column in the goal": (changed_goals('sex == "F"', 'sexx == "F"'), 2, ["'sexx'", "'sex'"]),
    "unknown value": (changed_goals('sex == "F"', 'sex == "Female"'), 2, ["'Female'"]),
    "three classes": (
        changed_table(income=["a", "b", "b", "c"] * 150),
        2,
        ["'income' has 3 classes", "two are needed"],
    ),
    "misspelt positive class": (changed_goals('"high"', '"Hihg"'), 2, ["'Hihg'", "Did you mean 'high'?"]),
    "misspelt target": (changed_goals('"income"', '"incme"'), 2, ["'incme' (data.target)", "Did you mean 'income'?"]),
    "wrong positive class": (changed_goals('"high"', '"rich"'), 2, ["data.positive is 'rich'", "'high', 'low'"]),
    "infinite number": (changed_table(age=["inf", *people()["age"][1:]]), 2, ["'age' holds 1 infinite number(s)"]),
    "missing label": (changed_table(income=[None, *people()["income"][1:]]), 2, ["'income' is missing in 1 of "]),
    "wrong split": (changed_goals('test = "test"', 'test = "tset"'), 2, ["0 rows have 'tset' in column 'split'"]),
    "baseline of another label space": (changed_table(old=[0, 1] * 300), 2, ["'deployed'"]),
    "no place for the model": (
        changed_goals('"out/people.skops"', '"people.csv/x.skops"'),
        2,
        ["x.skops: [output] model cannot be written", "people.csv (Not a directory)"],
    ),
    "infeasible goal": (
        changed_goals('churn("deployed") <= 0.3', 'churn("deployed") <= 0.001\nsubject to recall() >= 0.99'),
        1,
        ["the goal cannot be met", "churn", "recall", 'keep this model by [model] on_infeasible = "warn"'],
    ),
    "goal that no trees meet": (
        lambda folder: [
            changed_goals('churn("deployed") <= 0.3', 'churn("deployed") <= 0.001\nsubject to recall() >= 0.99')(
                folder
            ),
            changed_goals("[output]", '[model]\nlearner = "trees"\n[output]')(folder),
        ],
        1,
        ["Loosen one of them, try other features or another [model], or keep"],
    ),
}


@pytest.mark.parametrize("kind", BAD_FOR_TRAINING)
def test_bad_input_for_training(project, kind, capsys):
    change, code, texts = BAD_FOR_TRAINING[kind]
    change(project)
    failed_cleanly(widemargin_here(capsys, "train", project / "goals.toml"), code, *texts)
    assert not (project / "out" / "people.skops").exists()


def test_a_process_ends_with_the_code_of_a_failure():
    """Of a command that imports little: whatever the command, a process only calls `main`."""
    failed_cleanly(widemargin("compile", "SVC"), 2, "'SVC': no such estimator")


def new_rows(**columns):
    def change(folder):
        content = {name: values for name, values in {**people(100), **columns}.items() if values is not None}
        write_csv(folder / "people.csv", content)

    return change


def both(first, second):
    def change(folder):
        first(folder)
        second(folder)

    return change


def promise(constraint):
    return changed_goals('"subject to recall: recall() >= 0.4"', f"'subject to {constraint}'")


FAIR = 'positive_rate(population(sex == "F")) >= 0.1'
CHURN = 'churn("deployed") <= 0.9'


def damaged(folder):
    path = folder / "out" / "people.skops"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


BAD_FOR_AUDITS = {
    "damaged model": (damaged, ["people.skops: the file is damaged"]),
    "foreign model": (
        lambda folder: (folder / "out" / "people.skops").write_text("hello"),
        ["people.skops: no model file of widemargin or skops"],
    ),
    "no model": (lambda folder: (folder / "out" / "people.skops").unlink(), ["people.skops: the file cannot be read"]),
    "model of arrays": (
        lambda folder: save_model(LinearSVC().fit([[0.0], [1.0]], ["low", "high"]), folder / "out" / "people.skops"),
        ["people.skops cannot classify these rows", "It got the columns 'age', 'work'"],
    ),
    "feature absent": (new_rows(age=None), ["lacks 1 column(s): 'age'"]),
    "population's column absent": (both(new_rows(sex=None), promise(FAIR)), ["not in the table: 'sex' (goal"]),
    "wrong type": (new_rows(age=["young"] * 100), ["'age' held numbers in training but holds words now", "'young'"]),
    "no known word": (new_rows(work=["x"] * 100), ["not one value of column 'work' was known in training"]),
    "labels absent": (new_rows(income=None), ["label"]),
    "baseline absent": (both(new_rows(old=None), promise(CHURN)), ["'old' (baselines.deployed)"]),
}


@pytest.mark.parametrize("kind", BAD_FOR_AUDITS)
def test_bad_input_for_audits(trained, kind, capsys):
    change, texts = BAD_FOR_AUDITS[kind]
    change(trained)
    failed_cleanly(widemargin_here(capsys, *audit(trained)), 2, *texts)


def test_errors_are_json_too(project, capsys):
    (project / "goals.toml").unlink()
    assert main(["train", str(project / "goals.toml"), "--json"]) == 2
    content = json.loads(capsys.readouterr().out)
    assert content["exit_code"] == 2 and "cannot be read" in content["error"]


def test_hostile_names_cannot_write_to_the_terminal(project, capsys):
    changed_goals('["sex"]', '["sex", "\\u001b[31mred"]')(project)
    result = widemargin_here(capsys, "train", project / "goals.toml")
    failed_cleanly(result, 2, "data.protected")
    assert "\x1b" not in result.stderr


def test_a_defect_is_no_traceback(project, monkeypatch, capsys):
    def fail(options):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("widemargin.cli.commands.train.run", fail)
    assert main(["train", "goals.toml"]) == 2
    text = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: oops" in text and "Traceback" not in text
    assert main(["--traceback", "train", "goals.toml"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_before_training_ends_quietly(project, monkeypatch, capsys):
    def interrupt(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("widemargin.cli.commands.train.run", interrupt)
    assert main(["train", "goals.toml"]) == 130
    assert capsys.readouterr().err == "widemargin: interrupted\n"


def test_ctrl_c_within_exec_ends_with_the_exit_code(tmp_path):
    """`python -m` ended by the signal, where Ctrl-C came while a module made a class of a text, as dataclasses do."""
    (tmp_path / "stopped.py").write_text(
        "import sys\n"
        "import widemargin.cli.commands.check as check\n"
        "from widemargin.cli.main import main\n"
        "check.run = lambda options: exec('raise KeyboardInterrupt')\n"
        "sys.exit(main(['check', 'goals.toml']))\n"
    )
    done = subprocess.run([sys.executable, "-m", "stopped"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "widemargin: interrupted\n")


def test_ctrl_c_while_training_keeps_the_best_so_far(project, monkeypatch, capsys):
    def interrupt(self, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr("widemargin.cli.console.Progress.watch", interrupt)
    assert main(["train", str(project / "goals.toml"), "--json"]) == 130
    printed = capsys.readouterr()
    assert "warning: this model: interrupted after" in printed.err
    content = json.loads(printed.out)
    assert (content["status"], content["exit_code"]) == ("interrupted", 130)
    assert set(content["reports"]["train"]) == {"this model", "deployed"}  # no time for the comparison
    assert load_model(project / "out" / "people.skops")[-1].status_ == "interrupted"
    first = (project / "out" / "people.skops").read_bytes()
    for name in ("people.interrupted.skops", "people.interrupted2.skops"):  # no earlier file is replaced
        assert main(["train", str(project / "goals.toml")]) == 130
        path = project / "out" / name
        assert f"Interrupted. The model so far is saved as {path}" in capsys.readouterr().out
        assert load_model(path)[-1].status_ == "interrupted"
    assert (project / "out" / "people.skops").read_bytes() == first


@pytest.mark.parametrize("where", ["comparison", "saving", "measuring"])
def test_ctrl_c_after_training_loses_no_model(project, monkeypatch, capsys, where):
    times = []

    def once(wanted, original):
        def call(*arguments, **more):
            times.append(1)
            if len(times) == wanted:
                raise KeyboardInterrupt
            return original(*arguments, **more)

        return call

    if where == "comparison":
        monkeypatch.setattr(RateConstrainedClassifier, "fit", once(2, RateConstrainedClassifier.fit))
    elif where == "saving":
        monkeypatch.setattr("widemargin.cli.commands.train.save_model", once(1, save_model))
    else:
        monkeypatch.setattr(RateConstrainedClassifier, "predict", once(1, RateConstrainedClassifier.predict))
    assert main(["train", str(project / "goals.toml")]) == 130
    printed = capsys.readouterr()
    path = project / "out" / "people.skops"
    assert f"saved as {path}" in (printed.out if where == "saving" else printed.err)
    assert load_model(path)[-1].status_ == "converged"


def test_ctrl_c_while_the_program_is_loaded_shows_no_traceback(monkeypatch, capsys):
    def interrupt(name):
        raise KeyboardInterrupt

    monkeypatch.setattr("widemargin.cli.main.importlib.import_module", interrupt)
    assert main(["train", "goals.toml"]) == 130
    assert capsys.readouterr().err == "widemargin: interrupted\n"


def test_a_reader_that_leaves_is_no_error(tmp_path):
    """Of a command that imports little: all print by the same function, and `main` hands out what they printed."""
    people = "F,A,yes\nM,A,yes\nF,B,yes\nM,B,yes\n"
    (tmp_path / "people.csv").write_text("gender,ethnicity,hired\n" + 60 * people)
    command = f'"{sys.executable}" -m widemargin audit "{tmp_path / "people.csv"}" --standard ll144 | head -n 1'
    command += "; echo ${PIPESTATUS[0]}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
    first, code = result.stdout.splitlines()
    assert first.startswith("outcome: column 'hired'")
    assert code == "0"  # the verdict is that of a reader who stays
    assert "Traceback" not in result.stderr and "Exception" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "command", "text"),
    [
        (["audit", "g.toml", "--model", "m.skops", "--decide", "maybe"], "audit", "argument --decide: invalid choice"),
        (["train", "g.toml", "--time-budget", "0"], "train", "0 is no number of seconds above 0"),
        (["train", "g.toml", "--time-budget", "1h"], "train", "1h is no number of seconds above 0"),
        (["tradeoff", "g.toml", "--constraint", "c", "--from", "80%", "--to", "1"], "tradeoff", "80% is no finite"),
        (["frobnicate"], "frobnicate", "argument COMMAND: invalid choice"),
    ],
)
def test_errors_of_usage_are_json_where_that_is_asked_for(capsys, arguments, command, text):
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--json"])
    printed = capsys.readouterr()
    said = json.loads(printed.out)
    assert (said["command"], said["exit_code"]) == (command, 2) and text in said["error"] and text in printed.err
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().out == ""


def test_ctrl_c_while_a_library_is_imported_is_no_defect(project, monkeypatch, capsys):
    def fail(options):
        raise ImportError("initialization failed") from KeyboardInterrupt()  # as pybind11 puts it

    monkeypatch.setattr("widemargin.cli.commands.train.run", fail)
    assert main(["train", "goals.toml"]) == 130
    assert capsys.readouterr().err == "widemargin: interrupted\n"

"""Rate-constrained models as files, and the file that every later version must read."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from golden_model import GOAL, golden_labels, golden_model, golden_table
from widemargin import RateConstrainedClassifier
from widemargin.exceptions import ModelFileError, ModelFileWarning
from widemargin.goals import Goal
from widemargin.persistence import load_model, model_info, save_model

DATA = Path(__file__).parents[1] / "data"


def features():
    return golden_model()[0].transform(golden_table())


def test_everything_about_the_model_comes_back(tmp_path):
    model = golden_model()
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    table = golden_table()
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    np.testing.assert_array_equal(loaded.decision_function(table), model.decision_function(table))
    before, after = model[-1], loaded[-1]
    X = model[0].transform(table)
    np.testing.assert_array_equal(after.randomized_proba(X), before.randomized_proba(X))
    np.testing.assert_array_equal(after.predict_randomized(X, 0), before.predict_randomized(X, 0))
    assert after.goal_ == before.goal_
    assert after.goal_report_ == before.goal_report_
    assert str(after.goal_report_) == str(before.goal_report_)
    assert after.positive_class_ == "yes" and after.status_ == before.status_
    assert after.get_params() == before.get_params()
    assert vars(after).keys() == vars(before).keys()


def test_the_file_says_what_the_goal_was(tmp_path):
    save_model(golden_model(), tmp_path / "m.skops")
    info = model_info(tmp_path / "m.skops")
    assert Goal.parse(info.goal or "") == Goal.parse(GOAL)
    assert info.model == "Pipeline(TablePreprocessor, RateConstrainedClassifier)"
    assert info.classes == ["no", "yes"]
    assert info.features == ["age", "score", "work", "citizen"]


def test_a_goal_object_is_given_back_as_a_goal(tmp_path):
    goal = Goal.parse("subject to recall() >= 0.5")
    model = RateConstrainedClassifier(goal).fit(features(), golden_labels())
    save_model(model, tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops").goal == goal
    assert model.goal is goal


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_calibrated_models_keep_their_probabilities(tmp_path, calibration):
    X = features()
    model = RateConstrainedClassifier(calibration=calibration, random_state=0).fit(X, golden_labels())
    save_model(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").predict_proba(X), model.predict_proba(X))


def test_baseline_models_are_kept(tmp_path):
    X, y = features(), golden_labels()
    old = LogisticRegression().fit(X, y)
    model = RateConstrainedClassifier('subject to churn("old") <= 0.5', baselines={"old": old}).fit(X, y)
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.baselines["old"].predict(X), old.predict(X))


def test_callbacks_are_refused_by_name(tmp_path):
    model = RateConstrainedClassifier(callbacks=[print]).fit(features(), golden_labels())
    with pytest.raises(ModelFileError, match=r"model\.callbacks\[0\] is a builtins\.print"):
        save_model(model, tmp_path / "m.skops")


def test_the_file_does_not_grow_with_the_rows(tmp_path):
    X, y = features(), golden_labels()
    sizes = []
    for times in (1, 20):
        rows = np.tile(X.toarray(), (times, 1))
        model = RateConstrainedClassifier("subject to recall() >= 0.7").fit(rows, np.tile(y, times))
        save_model(model, tmp_path / "m.skops")
        sizes.append((tmp_path / "m.skops").stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]


@pytest.mark.parametrize("format_number", [1])
def test_files_of_every_format_are_read_and_decide_as_then(format_number):
    path = DATA / f"model-format-{format_number}.skops"
    assert path.stat().st_size < 50_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelFileWarning)  # a later scikit-learn than that of the file is no failure
        model = load_model(path)
    expected = json.loads(path.with_suffix(".json").read_text())["scores"]
    table = golden_table()
    np.testing.assert_allclose(model.decision_function(table), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict(table), np.where(np.array(expected) > 0, "yes", "no"))
    assert model[-1].goal_ == Goal.parse(GOAL)
    assert model_info(path).metadata == {"what": "golden file"}

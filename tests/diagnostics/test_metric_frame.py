"""Rates by group have the numbers of fairlearn's MetricFrame."""

import json

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics

from widemargin.diagnostics import as_metric, metric_frame
from widemargin.exceptions import DataError, GoalError
from widemargin.goals import Goal, churn, precision, recall

RATES = {
    "recall()": sklearn.metrics.recall_score,
    "precision()": lambda y, p, sample_weight=None: sklearn.metrics.precision_score(y, p, sample_weight=sample_weight),
    "accuracy()": sklearn.metrics.accuracy_score,
    "f_beta(2)": lambda y, p, sample_weight=None: sklearn.metrics.fbeta_score(
        y, p, beta=2, sample_weight=sample_weight
    ),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 500
    groups = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(0, 3, n)})
    return rng.integers(0, 2, n), rng.integers(0, 2, n), groups, rng.integers(0, 4, n).astype(float)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("columns", [["sex"], ["sex", "age"]])
def test_numbers_are_those_of_fairlearn(data, weighted, columns):
    fairlearn = pytest.importorskip("fairlearn.metrics")
    y, p, groups, weight = data
    metrics = {
        **RATES, "positive_rate()": fairlearn.selection_rate, "false_positive_rate()": fairlearn.false_positive_rate,
        "true_negative_rate()": fairlearn.true_negative_rate, "false_negative_rate()": fairlearn.false_negative_rate,
    }  # fmt: skip
    parameters = {name: {"sample_weight": weight} for name in metrics} if weighted else None
    theirs = fairlearn.MetricFrame(
        metrics=metrics, y_true=y, y_pred=p, sensitive_features=groups[columns], sample_params=parameters
    )
    given = groups[columns] if len(columns) > 1 else groups[columns[0]]
    ours = metric_frame(list(metrics), y, p, given, sample_weight=weight if weighted else None)
    assert ours.overall == pytest.approx(theirs.overall.to_dict())
    frame = ours.to_frame()
    assert np.allclose(frame.to_numpy(), theirs.by_group[list(frame.columns)].to_numpy(dtype=float))
    assert [tuple(np.atleast_1d(key)) for key in frame.index] == [
        tuple(np.atleast_1d(k)) for k in theirs.by_group.index
    ]
    for method in ("between_groups", "to_overall"):
        assert ours.difference(method) == pytest.approx(theirs.difference(method=method).to_dict())
        assert ours.ratio(method) == pytest.approx(theirs.ratio(method=method).to_dict())
    assert ours.group_min() == pytest.approx(theirs.group_min().to_dict())
    assert ours.group_max() == pytest.approx(theirs.group_max().to_dict())


def test_rates_of_the_language_go_into_a_metric_frame(data):
    fairlearn = pytest.importorskip("fairlearn.metrics")
    y, p, groups, weight = data
    names = ["recall()", "precision()", "error_rate()"]
    theirs = fairlearn.MetricFrame(
        metrics={name: as_metric(name) for name in names}, y_true=y, y_pred=p, sensitive_features=groups["sex"],
        sample_params={name: {"sample_weight": weight} for name in names},
    )  # fmt: skip
    ours = metric_frame(names, y, p, groups["sex"], sample_weight=weight)
    assert np.allclose(theirs.by_group.to_numpy(dtype=float), ours.to_frame().to_numpy())


def test_a_goal_names_its_rates(data):
    y, p, groups, _ = data
    goal = Goal.parse(
        'women = population(sex == "F")\nsubject to positive_rate(women) >= 0.8 * positive_rate()\n'
        'subject to precision(women) >= 0.1\nsubject to churn("old") <= 0.9'
    )
    found = metric_frame(goal, y, p, groups["sex"], baselines={"old": 1 - p})
    assert found.rates == ("positive_rate()", "precision()", 'churn("old")')
    assert found.by_group["F"]['churn("old")'] == 1.0
    assert found.overall["precision()"] == pytest.approx(sklearn.metrics.precision_score(y, p))
    assert metric_frame([recall(), precision()], y, p, groups["sex"]).rates == ("recall()", "precision()")


def test_undefined_values_missing_groups_and_forms():
    frame = metric_frame(
        ["recall()", "positive_rate()"], ["no", "no", "yes", "yes"], ["no", "yes", "yes", "no"],
        ["<a>", "<a>", "b", None], pos_label="yes",
    )  # fmt: skip
    assert frame.by_group == {
        "<a>": {"recall()": None, "positive_rate()": 0.5},
        "b": {"recall()": 1.0, "positive_rate()": 1.0},
    }
    assert (frame.n_rows, frame.n_missing, frame.overall["recall()"]) == ({"<a>": 2, "b": 1}, 1, 0.5)
    assert frame.difference() == {"recall()": 0.0, "positive_rate()": 0.5}
    assert frame.ratio() == {"recall()": 1.0, "positive_rate()": 0.5}
    assert str(frame).splitlines()[2].split() == ["<a>", "2", "-", "0.5000"]
    assert "&lt;a&gt;" in frame._repr_html_() and "<a>" not in frame._repr_html_()
    assert json.loads(json.dumps(frame.to_dict()))["groups"][0]["rates"]["recall()"] is None
    assert np.isnan(as_metric("recall()")([0, 0], [1, 0]))
    assert np.isnan(frame.to_frame().loc["<a>", "recall()"])


def test_blanks_tell_groups_apart():
    frame = metric_frame("positive_rate()", None, [1, 0, 1], ["a", " a", "b"])
    assert [line[:4].rstrip() for line in str(frame).splitlines()[2:]] == ["' a'", "a", "b"]


BAD = {
    "a population": (
        lambda: metric_frame("recall(population(x > 1))", [1, 0], [1, 0], ["a", "b"]), "leave its population",
    ),
    "no labels": (lambda: metric_frame("recall()", None, [1, 0], ["a", "b"]), "recall.* needs labels"),
    "no baseline": (lambda: metric_frame([churn("old")], None, [1, 0], ["a", "b"]), "baseline 'old' is unknown"),
    "lengths": (lambda: metric_frame("positive_rate()", None, [1, 0], ["a"]), "each of the 2 rows"),
    "a dict": (lambda: metric_frame("positive_rate()", None, [1, 0], {"a": [1, 2]}), "groups is a dict; give a vector"),
    "nothing": (lambda: metric_frame([], [1, 0], [1, 0], ["a", "b"]), "no rate is named"),
    "no expression": (lambda: metric_frame("recal()", [1, 0], [1, 0], ["a", "b"]), "recall"),
    "two": (lambda: as_metric(["recall()", "accuracy()"]), "one rate is needed"),
    "goal": (lambda: metric_frame(Goal.parse("minimize error_rate()"), [1, 0], [1, 0], ["a", "b"]), "no constraint"),
    "method": (
        lambda: metric_frame("accuracy()", [1, 0], [1, 0], ["a", "b"]).difference("x"), "method is 'x'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_measured_is_named(kind):
    call, text = BAD[kind]
    with pytest.raises((DataError, GoalError), match=text):
        call()

"""Counts and rates by group, against plain loops."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

from widemargin import RateConstrainedClassifier, audit
from widemargin.diagnostics import AuditBlock, AuditCounts
from widemargin.exceptions import DataError, GoalError
from widemargin.goals import Goal, Population
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.group_table import HEADS, group_cells, rates_of
from widemargin.goals.measuring.intervals import clopper_pearson

GOAL = """
women = population(sex == "f")
young = population(age < 30)
subject to positive_rate(women) >= 0.5 * positive_rate()
subject to recall(young) >= 0.1
"""


def rows(seed, n=300):
    rng = np.random.default_rng(seed)
    table = pa.table({"sex": rng.choice(["f", "m"], n), "age": rng.integers(18, 60, n)})
    return (rng.random(n) < 0.4).astype(int), (rng.random(n) < 0.5).astype(int), table, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("weighted", [False, True])
def test_every_number_is_that_of_plain_loops(weighted):
    predicted, y, table, weight = rows(0)
    weight = weight if weighted else np.ones(len(y))
    report = audit(predicted, GOAL, y=y, populations=table, sample_weight=weight if weighted else None, confidence=0.9)
    women, young = np.asarray(table["sex"]) == "f", np.asarray(table["age"]) < 30
    inside = {"all rows": women | ~women, "women": women, "young": young, "women and young": women & young}
    assert [item.name for item in report.groups] == [*inside]
    for item in report.groups:
        group = inside[item.name]
        assert item.n_rows == group.sum()
        for name, of, over in (
            ("positive_rate", predicted == 1, group),
            ("recall", predicted == 1, group & (y == 1)),
            ("precision", y == 1, group & (predicted == 1)),
            ("false_positive_rate", predicted == 1, group & (y == 0)),
        ):
            rate = getattr(item, name)
            assert rate.value == pytest.approx(weight[over & of].sum() / weight[over].sum(), rel=1e-12)
            ends = (None, None) if weighted else clopper_pearson((over & of).sum(), over.sum(), 0.9)
            assert (rate.lower, rate.upper) == ends
    assert GoalReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    head, *lines = group_cells(report.groups)
    assert all(HEADS[name] in head for name in rates_of(report.groups)) and len(lines) == 4


def test_populations_that_no_rate_speaks_of_are_shown_by_every_way_to_measure_and_not_trained_to():
    predicted, y, table, _ = rows(2)
    plain = audit(predicted, GOAL, y=y, populations=table)
    watched = Goal.parse(GOAL.replace("subject to", "# subject to"))
    report = audit(predicted, watched, y=y, populations=table)
    assert report.groups == plain.groups and not report.constraints
    assert Goal.parse(str(watched)) == watched == pickle.loads(pickle.dumps(watched)) != Goal()
    counts = AuditCounts(watched, classes=[0, 1], pos_label=1)
    for half in (slice(0, 120), slice(120, None)):
        part = table.filter(pa.array(np.isin(np.arange(len(y)), np.arange(len(y))[half])))
        counts.add(AuditBlock(predicted[half], y[half], populations=part))
    assert counts.report().groups == report.groups
    X = np.column_stack([y + np.random.default_rng(0).normal(size=len(y)), predicted])
    one, other = (RateConstrainedClassifier(goal).fit(X, y, populations=table) for goal in (watched, Goal()))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    with pytest.raises(GoalError, match=r"cannot be watched"):
        Goal(watched=[Population("elsewhere", "other")])
    assert Goal.parse('elsewhere = external("other")').watched == ()


def test_watched_groups_are_those_that_stand_alone_and_have_no_rows_where_a_column_or_value_is_absent():
    predicted, y, table, _ = rows(2)
    assert Goal.parse("a = population(x == 1)\nb = population(w == 2)\nsubject to recall(a & b) >= 0.1").watched == ()
    text = 'z = population(sex == "elsewhere")\nx = population(nobody == "f")\nsubject to recall() >= 0'
    counts = AuditCounts(text, classes=[0, 1], pos_label=1)
    counts.add(AuditBlock(predicted, y, populations=table))
    for report in (audit(predicted, text, y=y, populations=table), counts.report()):
        assert [(item.name, item.n_rows, item.recall.value) for item in report.groups[1:]] == [
            ("z", 0, None), ("x", 0, None),
        ]  # fmt: skip
    with pytest.raises(DataError, match="no table; give populations="):
        audit(predicted, text, y=y)


def test_of_many_groups_the_text_shows_some_and_says_where_the_others_are():
    predicted, y, _, _ = rows(3)
    table = pa.table({"one": np.arange(300) % 7, "other": np.arange(300) % 11})
    text = "\n".join(
        f"{name}{j} = population({name} == {j})" for name, n in (("one", 7), ("other", 11)) for j in range(n)
    )
    report = audit(predicted, text, y=y, populations=table)
    assert len(report.groups) == 1 + 18 + 77
    assert "... 56 more groups are in to_dict(), and in the file of --report-json." in str(report)
    assert len(group_cells(report.groups)) == 41


def test_without_labels_or_groups_there_is_less():
    predicted, y, table, _ = rows(1)
    report = audit(predicted, 'subject to positive_rate(population(sex == "f")) >= 0.1', populations=table)
    assert [item.name for item in report.groups] == ["all rows", 'sex == "f"']
    assert all(item.recall is None for item in report.groups)
    assert "recall" not in group_cells(report.groups)[0]
    assert audit(predicted, "subject to recall() >= 0.1", y=y).groups == () and group_cells(()) == []
    nobody = audit(np.zeros(300, int), GOAL, y=y, populations=table).groups
    assert nobody[1].precision.value is None and "-" in group_cells(nobody)[2]


def test_of_several_classes_each_one_has_a_table_where_the_goal_names_none():
    rng = np.random.default_rng(4)
    y, predicted = rng.choice(["a", "b", "c"], (2, 300))
    table = pa.table({"sex": rng.choice(["f", "m"], 300)})
    women = np.asarray(table["sex"]) == "f"
    text = 'women = population(sex == "f")\n'

    def groups(goal: str) -> list:
        report = audit(predicted, text + goal, y=y, populations=table)
        counts = AuditCounts(text + goal, classes=["a", "b", "c"])
        for part in (slice(0, 100), slice(100, None)):
            counts.add(AuditBlock(predicted[part], y[part], populations=table[part]))
        assert counts.report().groups == report.groups
        return list(report.groups)

    # Of a confusion of two classes neither is named by itself.
    for goal in ("minimize error_rate()", 'subject to confusion("a", "b") <= 1', "subject to error_rate(women) <= 1"):
        found = groups(goal)
        assert [item.name for item in found] == [f"{of!r}: {name}" for of in "abc" for name in ("all rows", "women")]
        for item, of in zip(found[1::2], "abc", strict=True):
            assert item.n_rows == women.sum()
            assert item.positive_rate.value == pytest.approx((predicted[women] == of).mean())
            assert item.recall.value == pytest.approx((predicted[women & (y == of)] == of).mean())
            assert item.precision.value == pytest.approx((y[women & (predicted == of)] == of).mean())
            assert item.false_positive_rate.value == pytest.approx((predicted[women & (y != of)] == of).mean())
    named = groups('subject to recall(of="b") >= 0\nsubject to confusion("a", "b") <= 1')
    assert [item.name for item in named] == ["'b': all rows", "'b': women"]
    assert named[1].recall.value == pytest.approx((predicted[women & (y == "b")] == "b").mean())

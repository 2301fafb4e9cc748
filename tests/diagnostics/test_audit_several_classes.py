"""`audit` of classifiers of more than two classes: models, arrays, blocks of rows, external data sets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from widemargin.diagnostics import AuditBlock, AuditCounts, audit, audit_stream
from widemargin.exceptions import CapabilityError, DataError
from widemargin.goals import External

GOAL = """
half = population(half == "left")
traffic = external()
minimize error_rate()
subject to eights: recall(of=8) >= 0.9
subject to "eights in halves": recall(half, of=8) >= 0.8 * recall(of=8)
subject to "no ones as eights": confusion(1, 8) <= 0.2
subject to "sure threes": precision(half, of=3) >= 0.9
subject to drift: prediction_rate(traffic, of=0) <= 0.5
subject to changes: churn("old", on=traffic) <= 0.4
"""


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900]
    table = pd.DataFrame({"half": np.where(np.arange(len(y)) % 3 == 0, "left", "right")})
    model = GaussianNB().fit(X[:100] > 7, y[:100])
    return X > 7, y, table, model


def options(digits):
    X, y, table, _ = digits
    old = np.roll(y, 7)[:200]
    return {
        "populations": table, "external": {"traffic": External(X[:200], old=old)},
        "sample_weight": np.where(y == 8, 2.0, 1.0),
    }  # fmt: skip


def test_a_model_is_audited(digits):
    X, y, table, model = digits
    report = audit(model, GOAL, X, y, **options(digits))
    said, left, weight = model.predict(X), (table["half"] == "left").to_numpy(), np.where(y == 8, 2.0, 1.0)
    assert report.objective == pytest.approx(np.average(said != y, weights=weight))
    assert report["eights"].rate == pytest.approx((said[y == 8] == 8).mean())
    assert report["eights in halves"].rate == pytest.approx((said[left & (y == 8)] == 8).mean())
    assert report["no ones as eights"].rate == pytest.approx((said[y == 1] == 8).mean())
    threes = left & (said == 3)
    assert report["sure threes"].rate == pytest.approx((y[threes] == 3).mean())
    assert report["drift"].rate == pytest.approx((said[:200] == 0).mean())
    assert report["changes"].rate == pytest.approx((said[:200] != np.roll(y, 7)[:200]).mean())
    assert report.positive_class is None
    assert report.external_rows == (("traffic", 200),)
    assert "10 classes: 0, 1, 2" in str(report)
    names = [group.name for group in report.groups]
    assert names == ["8: all rows", "8: half", "3: all rows", "3: half"]
    recall_of_half = {group.name: group for group in report.groups}["8: half"].recall
    assert recall_of_half.value == pytest.approx(report["eights in halves"].rate)
    predictions = {None: said, "traffic": said[:200]}
    assert audit(predictions, GOAL, X, y, **options(digits)) == report


def test_blocks_give_the_report_in_memory(digits):
    X, y, table, model = digits
    plain = options(digits)
    goal = GOAL + 'subject to old: recall(population(predicted_positive("now", of=8)), of=8) >= 0.3'
    now = np.roll(y, 1)
    whole = audit(model, goal, X, y, baselines={"now": now}, **plain)
    said, weight = model.predict(X), plain["sample_weight"]
    blocks = [
        AuditBlock(said[rows], y[rows], None, table.iloc[rows], weight[rows], {"now": now[rows]})
        for rows in (slice(0, 250), slice(250, 251), slice(251, None))
    ]
    blocks.append(AuditBlock(said[:200], baselines={"old": np.roll(y, 7)[:200]}, source="traffic"))
    assert audit_stream(blocks, goal, classes=range(10)).to_dict() == whole.to_dict()
    one, other = AuditCounts(goal, classes=range(10)), AuditCounts(goal, classes=range(10))
    for place, block in enumerate(blocks):
        (one if place % 2 else other).add(block)
    assert other.merge(one).report().to_dict() == whole.to_dict()
    with pytest.raises(DataError, match="cannot be merged"):
        AuditCounts(goal, classes=range(10)).merge(AuditCounts(goal, classes=range(9)))


def test_two_classes_need_no_positive_one_where_all_are_named():
    y = np.array(["default", "repaid"] * 20)
    said = np.where(np.arange(40) % 5 == 0, "default", y)
    report = audit(said, "subject to floor: recall(of='default') >= 0.5", y=y)
    assert report["floor"].rate == 1.0
    other = audit(said, "subject to floor: recall() >= 0.5", y=y, pos_label="default")
    assert other["floor"] == report["floor"].__class__(**{**vars(report["floor"]), "text": "recall() >= 0.5"})
    for pos_label in y[:2]:  # and it does not matter which it is
        again = audit(said, "subject to floor: recall(of='default') >= 0.5", y=y, pos_label=pos_label)
        assert again["floor"] == report["floor"]


def test_what_is_refused(digits):
    X, y, _, model = digits
    with pytest.raises(DataError, match=r"pos_label=8 is for two classes, and there are 10.*recall\(of=8\)"):
        audit(model, "subject to recall(of=8) >= 0.5", X, y, pos_label=8)
    with pytest.raises(DataError, match="none of the classes 0, 1, 2"):
        audit(np.full(900, 12), "subject to recall(of=8) >= 0.5", y=y)
    with pytest.raises(CapabilityError, match="abstain=-1 is for two classes, and there are 10"):
        audit(np.full(900, -1), "subject to recall(of=8) >= 0.5", y=y, abstain=-1)
    with pytest.raises(CapabilityError, match="missing_groups is for two classes, and there are 10"):
        audit(model, "subject to recall(of=8) >= 0.5", X, y, missing_groups=True)
    with pytest.raises(DataError, match="needs a classifier of two classes"):
        audit(model, "subject to margin_below(0.5) <= 0.5", X, y)


def test_predictions_may_name_a_class_that_no_row_has():
    goal, y, predicted = 'subject to recall(of="a") >= 0.5', [*"abcab"], [*"abdad"]
    with pytest.raises(DataError, match="2 values that are none of the classes"):
        audit(predicted, goal, y=y)
    report = audit(predicted, goal, y=y, classes=[*"abcd"])
    assert report.passed and report.constraints[0].rate == 1.0

"""Predicates: structure, equality, algebra, and refusals."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from testing.goal_strategies import predicates

from widemargin.exceptions import GoalError
from widemargin.goals import col, negative_label, positive_label, predicted_negative, predicted_positive
from widemargin.goals.language.predicates import (
    And,
    BaselineSays,
    Column,
    Compare,
    IsIn,
    IsNull,
    IsTrue,
    LabelIs,
    Not,
    Or,
    Predicate,
    as_predicate,
)
from widemargin.goals.language.values import LIMITS

AGE, SEX = col("age"), col("sex")


@pytest.mark.parametrize(
    ("predicate", "expected", "text"),
    [
        (SEX == "Female", Compare("sex", "==", "Female"), 'sex == "Female"'),
        (SEX != "Female", Compare("sex", "!=", "Female"), 'sex != "Female"'),
        (AGE < 30, Compare("age", "<", 30), "age < 30"),
        (AGE <= 30.5, Compare("age", "<=", 30.5), "age <= 30.5"),
        (np.int64(30) < AGE, Compare("age", ">", 30), "age > 30"),
        (AGE >= -30, Compare("age", ">=", -30), "age >= -30"),
        (30 < AGE, Compare("age", ">", 30), "age > 30"),  # noqa: SIM300
        (np.float64(30) >= AGE, Compare("age", "<=", 30.0), "age <= 30.0"),
        (col(0) == True, Compare(0, "==", True), "col(0) == True"),  # noqa: E712
        (SEX.isin(["a", "b", "a"]), IsIn("sex", ("a", "b")), 'sex in ["a", "b"]'),
        (~SEX.isin(["a"]), Not(IsIn("sex", ("a",))), 'sex not in ["a"]'),
        (AGE.is_null(), IsNull("age"), "age.is_null()"),
        (col("a b").is_null(), IsNull("a b"), 'col("a b").is_null()'),
        (~col("a"), Not(IsTrue("a")), "not a"),
        (col("a") & col("b"), And((IsTrue("a"), IsTrue("b"))), "a and b"),
        (col("a") | (AGE > 3), Or((IsTrue("a"), Compare("age", ">", 3))), "a or age > 3"),
        ((AGE > 3) & col("a"), And((Compare("age", ">", 3), IsTrue("a"))), "age > 3 and a"),
        (~(AGE > 3), Not(Compare("age", ">", 3)), "not (age > 3)"),
        (~~(AGE > 3), Not(Not(Compare("age", ">", 3))), "not not (age > 3)"),
        (positive_label(), LabelIs(True), "positive_label()"),
        (negative_label(), LabelIs(False), "negative_label()"),
        (predicted_positive("h"), BaselineSays("h", True), 'predicted_positive("h")'),
        (predicted_negative('h"'), BaselineSays('h"', False), r'predicted_negative("h\"")'),
    ],
)
def test_what_is_written_and_how_it_prints(predicate, expected, text):
    assert predicate == expected
    assert hash(predicate) == hash(expected)
    assert str(predicate) == text


def test_nested_text():
    a, b, c = col("a"), col("b"), col("c")
    assert str((a | b) & ~(b & c)) == "(a or b) and not (b and c)"
    assert str(a & b | c) == "(a and b) or c"


def test_and_and_or_are_flat():
    a, b, c = (IsTrue(name) for name in "abc")
    assert a & b & c == a & (b & c) == And((a, b, c))
    assert a | b | c == Or((a, Or((b, c))))
    assert (a & b) | c != a & (b | c)
    assert a & b != b & a


def test_true_is_not_one():
    assert (AGE == 1) != (AGE == True)  # noqa: E712
    assert AGE.isin([1]) != AGE.isin([True])
    assert (AGE == 1) == (AGE == 1.0)
    assert (AGE == 1) != "age == 1"
    assert AGE.isin([1]) != "age in [1]"


@given(predicates)
def test_values_survive_pickle_copy_and_hash(predicate):
    again = pickle.loads(pickle.dumps(predicate))
    assert again == predicate
    assert hash(again) == hash(predicate)
    assert copy.deepcopy(predicate) is predicate
    assert copy.copy(predicate) is predicate


def test_what_a_predicate_looks_at():
    predicate = (
        (SEX == "F") & (AGE > 3) | ~(col(0).is_null() | SEX.isin(["a"])) | positive_label() & predicted_positive("h")
    )
    assert predicate.columns == ("sex", "age", 0)
    assert predicate.baselines == ("h",)
    assert predicate.uses_label
    assert not (AGE > 3).uses_label
    assert len(list(predicate.leaves())) == 6


def test_immutable():
    predicate = SEX == "F"
    with pytest.raises(AttributeError):
        predicate.column = "age"
    with pytest.raises(AttributeError, match="a column cannot be changed"):
        SEX.name = "age"
    with pytest.raises(AttributeError):
        (predicate & predicate).parts = ()


def test_columns_pickle():
    assert pickle.loads(pickle.dumps(col("a"))).name == "a"
    assert repr(col("a")) == 'col("a")'
    assert repr(col(3)) == "col(3)"
    assert str(col("a b")) == 'col("a b")'
    assert isinstance(col("a"), Column)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda: bool(AGE > 3),
        lambda: bool(AGE),
        lambda: 3 < AGE < 5,
        lambda: (AGE > 3) and (AGE < 5),
        lambda: AGE in ["age"],
        lambda: not (AGE > 3),
    ],
)
def test_truth_value(misuse):
    with pytest.raises(GoalError, match=r"Use & \| ~ instead of and"):
        misuse()


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: AGE == SEX, "compared with a value, not with another column"),
        (lambda: (SEX == 1) == AGE, "compared with a value"),
        (lambda: AGE == None, "is_null"),  # noqa: E711
        (lambda: float("nan") == AGE, "is_null"),
        (lambda: AGE < True, "booleans have no order"),
        (lambda: AGE.isin("abc"), "must be a list"),
        (lambda: AGE.isin([]), "empty"),
        (lambda: (AGE > 3) & True, "is no predicate.*put each comparison in brackets"),
        (lambda: 3 & (AGE > 3), "is no predicate"),
        (lambda: "a" | AGE, "is no predicate"),
        (lambda: AGE | "a", "is no predicate"),
        (lambda: np.bool_(True) & (AGE > 3), "is no predicate"),
        (lambda: (AGE == 1) | 3, "is no predicate"),
        (lambda: 3 | (AGE == 1), "is no predicate"),
        (lambda: 3 & AGE, "is no predicate"),
        (lambda: Compare("a", "=>", 3), "unknown comparison"),
        (lambda: And(()), "needs a tuple"),
        (lambda: Or((IsTrue("a"),)), "at least two"),
        (lambda: Not("a"), "is no predicate"),
        (lambda: col(""), "empty"),
        (lambda: col(None), "a column is a name"),
        (lambda: predicted_positive(""), "baseline"),
        (lambda: as_predicate("age > 3"), "is no predicate"),
    ],
)
def test_refusals(misuse, message):
    with pytest.raises(GoalError, match=message):
        misuse()


def test_nesting_is_limited():
    predicate: Predicate = IsTrue("a")
    for _ in range(LIMITS.nesting):
        predicate = ~predicate
    assert predicate.nesting == LIMITS.nesting
    with pytest.raises(GoalError, match="at most 40 deep"):
        _ = ~predicate
    with pytest.raises(GoalError, match="at most 40 deep"):
        _ = predicate & IsTrue("b")

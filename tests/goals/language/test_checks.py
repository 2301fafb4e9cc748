"""The small values that goals are made of: stored in one form, refused with what was given."""

import datetime
import decimal
import fractions

import numpy as np
import pytest

from widemargin.exceptions import GoalError
from widemargin.goals.language.values import (
    checked_column,
    checked_literal,
    checked_literals,
    checked_min_rows,
    checked_name,
    checked_number,
    checked_on_small,
    shown,
    typed,
)


@pytest.mark.parametrize("name", ["a", "a b", "数", 'quo"te', "x" * 200, np.str_("a")])
def test_names(name):
    assert checked_name(name, "it") == name
    assert type(checked_name(name, "it")) is str


@pytest.mark.parametrize("name", ["", " ", "\u2003", "a\nb", "\0", "x" * 201, "\ud800", "\u202e", None, 3, b"a"])
def test_wrong_names(name):
    with pytest.raises(GoalError, match="it must"):
        checked_name(name, "it")


@pytest.mark.parametrize(("value", "kind"), [("a\nb", str), (np.str_("a"), str), (0, int), (np.int32(7), int)])
def test_columns(value, kind):
    assert checked_column(value) == value
    assert type(checked_column(value)) is kind


@pytest.mark.parametrize("value", ["", -1, True, np.bool_(True), 1.0, None, ("a",), 2**70])
def test_wrong_columns(value):
    with pytest.raises(GoalError, match="a column"):
        checked_column(value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("", str),
        (np.str_("a"), str),
        (True, bool),
        (np.bool_(False), bool),
        (3, int),
        (np.uint8(3), int),
        (0.5, float),
        (np.float32(0.5), float),
        (np.float64(0.5), float),
    ],
)
def test_literals_are_python_values(value, kind):
    assert checked_literal(value) == value
    assert type(checked_literal(value)) is kind


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "is_null"),
        (float("nan"), "is_null"),
        (np.float64("nan"), "is_null"),
        (float("inf"), "finite"),
        (2**63, "64 bits"),
        (-(2**63), "64 bits"),
        pytest.param(10**5000, "64 bits", id="huge"),
        (b"a", "bytes"),
        (1j, "complex"),
        ([1], "list"),
        (datetime.date(2020, 1, 1), "date"),
    ],
)
def test_wrong_literals(value, message):
    with pytest.raises(GoalError, match=message):
        checked_literal(value)


def test_collections_of_literals():
    assert checked_literals(["b", "a", "b"], "values") == ("b", "a")
    assert checked_literals([1, True, 1.0], "values") == (1, True)
    assert checked_literals(np.array([1, 2]), "values") == (1, 2)
    assert checked_literals({"b", "a", "c"}, "values") == ("a", "b", "c")
    assert checked_literals((value for value in "ab"), "values") == ("a", "b")


@pytest.mark.parametrize("values", ["ab", b"ab", 3, None, [], [None], [[1]]])
def test_wrong_collections(values):
    with pytest.raises(GoalError):
        checked_literals(values, "values")


def test_true_is_not_one():
    assert typed(True) != typed(1)
    assert typed(1) == typed(1.0)


@pytest.mark.parametrize(
    "value", [3, 0.5, np.float64(0.5), np.float32(0.5), np.int64(3), np.uint8(3), fractions.Fraction(1, 2)]
)
def test_numbers(value):
    assert checked_number(value, "it") == float(value)
    assert type(checked_number(value, "it")) is float


def test_there_is_one_zero():
    assert str(checked_number(-0.0, "it")) == "0.0"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "must be a number, got True"),
        (np.bool_(True), "must be a number"),
        ("0.5", "must be a number, got '0.5' .str"),
        (None, "must be a number"),
        (1j, "must be a number"),
        (decimal.Decimal("0.5"), "must be a number"),
        (np.array([0.5]), "must be a number"),
        (np.array(0.5), "must be a number"),
        (float("nan"), "must be finite, got nan"),
        (-float("inf"), "must be finite, got -inf"),
        pytest.param(10**400, "too large", id="huge"),
    ],
)
def test_wrong_numbers(value, message):
    with pytest.raises(GoalError, match=message):
        checked_number(value, "it")


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", 2**70])
def test_wrong_min_rows(value):
    with pytest.raises(GoalError, match="min_rows must be an integer >= 1"):
        checked_min_rows(value)


def test_options():
    assert checked_min_rows(None) is None
    assert checked_min_rows(np.int64(30)) == 30
    assert [checked_on_small(value) for value in (None, "error", "drop")] == [None, "error", "drop"]
    for wrong in ("ignore", 3, True, ["drop"]):
        with pytest.raises(GoalError, match="on_small must be"):
            checked_on_small(wrong)


def test_shown_is_short_and_never_fails():
    class Broken:
        def __repr__(self):
            raise RuntimeError("no")

    assert shown(Broken()) == "a Broken"
    assert len(shown("x" * 1000)) == 80
    assert shown("a") == "'a'"
    assert len(shown(10**5000)) <= 80  # Python itself refuses to print so many digits

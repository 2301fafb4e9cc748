"""The algebra of expressions: its laws, NumPy's numbers, and every misuse."""

import copy
import operator
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.goal_strategies import expressions, numbers

from widemargin.exceptions import GoalError
from widemargin.goals import Constraint, Expression, Population, changes, col, precision, recall, wins
from widemargin.goals.language.linear import Linear
from widemargin.goals.language.populations import EVERYONE

WOMEN = Population("women", where=col("sex") == "Female")
POOL = [EVERYONE, WOMEN, Population.external("traffic")]
some = expressions(POOL)
factors = st.floats(-100, 100).filter(lambda k: k == 0 or abs(k) > 1e-6) | st.integers(-5, 5)


def close(a, b):
    """Equal as linear forms, up to rounding and the order of terms."""
    left, right = ({atom: c for c, atom in e.form.terms} for e in (a, b))
    atoms = left.keys() | right.keys()
    # what cancels leaves a rounding error behind, relative to what was there
    size = max([1.0, *map(abs, left.values()), *map(abs, right.values()), abs(a.form.constant), abs(b.form.constant)])
    gaps = [left.get(atom, 0.0) - right.get(atom, 0.0) for atom in atoms] + [a.form.constant - b.form.constant]
    return max(map(abs, gaps)) <= 1e-9 * size * 1e3


@given(some, some)
def test_addition_commutes(a, b):
    assert close(a + b, b + a)


@given(some, some, some)
def test_addition_is_associative(a, b, c):
    assert close((a + b) + c, a + (b + c))


@given(some, some, factors)
def test_scaling_distributes(a, b, k):
    assert close(k * (a + b), k * a + b * k)


@given(some, factors, factors)
def test_factors_multiply(a, j, k):
    assert close(j * (k * a), (j * k) * a)
    assert close(j * a + k * a, (j + k) * a)


@given(some)
def test_neutral_elements_and_inverses(a):
    assert (a + 0).form == (0 + a).form == (1 * a).form == (a / 1).form == (+a).form == a.form
    assert (a - a).form == (0 * a).form == Linear()
    assert (-a).form == (0 - a).form == (-1 * a).form
    negative = -a
    assert (-negative).form == a.form


@given(some, st.floats(0.01, 100.0))
def test_division_is_multiplication_by_the_inverse(a, k):
    assert close(a / k, a * (1 / k))


@given(some, some, numbers)
def test_subtraction(a, b, k):
    assert (a - b).form == (a + (-b)).form
    assert close(k - a, -(a - k))


@given(st.lists(some, max_size=4))
def test_sum(parts):
    total = sum(parts)
    if parts:
        assert isinstance(total, Expression)
        by_hand = parts[0]
        for part in parts[1:]:
            by_hand = by_hand + part
        assert total.form == by_hand.form


@given(some, factors)
def test_ranges_follow_the_algebra(a, k):
    low, high = a.range
    assert low <= high
    if k != 0 and all(coefficient * k != 0.0 for coefficient, _ in a.form.terms):  # none is lost in rounding
        expected = (low * k, high * k) if k > 0 else (high * k, low * k)
        assert (k * a).range == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert (a + 1).range == pytest.approx((low + 1, high + 1), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("number", [2, 0.5, np.float64(0.5), np.float32(0.5), np.int64(2), np.uint8(2), Fraction(1, 2)])
def test_all_kinds_of_numbers(number):
    value = float(number)
    for result, expected in [
        (number * recall(), recall() * value),
        (recall() * number, recall() * value),
        (recall() / number, recall() / value),
        (number + recall(), recall() + value),
        (recall() - number, recall() - value),
        (number - recall(), value - recall()),
    ]:
        assert isinstance(result, Expression)
        assert result.form == expected.form
        assert type(result.form.terms[0][0]) is float
        assert type(result.form.constant) is float


def test_numpy_scalars_compare_without_broadcasting():
    for result in (recall() >= np.float64(0.6), np.float64(0.6) <= recall(), np.float32(0.5) <= recall()):
        assert isinstance(result, Constraint)
        assert result.sense == ">="
    assert (np.float64(0.6) >= recall()).sense == "<="


@pytest.mark.parametrize(
    "apply", [operator.add, operator.sub, operator.mul, operator.truediv, operator.le, operator.ge]
)
@pytest.mark.parametrize(
    "wrong", ["0.5", None, True, np.bool_(True), [0.5], np.array([0.5, 1.0]), 1j, float("nan"), WOMEN]
)
def test_only_numbers_and_expressions_are_operands(apply, wrong):
    for left, right in ((recall(), wrong), (wrong, recall())):
        with pytest.raises(GoalError):
            apply(left, right)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: recall() > 0.5, r"recall\(\) > 0.5: strict inequalities are not supported, use <= or >="),
        (lambda: recall() < 0.5, "strict inequalities are not supported"),
        (lambda: 0.5 < recall(), "strict inequalities"),  # noqa: SIM300
        (lambda: recall() < recall(WOMEN), r"recall\(\) < recall\(women\)"),
        (lambda: 0.5 <= recall() <= 0.6, "Write two constraints"),
        (lambda: recall() >= 0.6 >= 0.5, "Write two constraints"),
        (lambda: bool(recall()), "has no truth value"),
        (lambda: recall() and precision(), "has no truth value"),
        (lambda: recall() * recall(), "product of two expressions is not linear"),
        (lambda: recall() ** 2, "is not linear"),
        (lambda: abs(recall() - recall(WOMEN)), "Write two constraints: .* <= d and .* >= -d"),
        (lambda: recall() / 0, "division by zero"),
        (lambda: recall() / (recall() - recall()), "division by zero"),
        (lambda: 1 / precision(), "a ratio of ratios"),
        (lambda: recall() / (recall() - 0.5), "the denominator"),
        (lambda: recall() + (recall() >= 0.5), "Write two constraints"),
        (lambda: recall() >= (recall() >= 0.5), "Write two constraints"),
        (lambda: recall() >= True, "must be a number, got True .bool"),
        (lambda: recall() >= "0.5", "must be a number, got '0.5' .str"),
        (lambda: recall() >= float("inf"), "must be finite"),
        (lambda: 1e308 * (1e308 * recall()), "must be finite"),
        (lambda: Expression("recall()"), "made of a Linear form"),
        (lambda: recall() // 2, None),
        (lambda: recall() % 2, None),
    ],
)
def test_misuse(misuse, message):
    with pytest.raises(GoalError if message else TypeError, match=message):
        misuse()


def test_equality_is_identity():
    a = recall()
    assert a == a
    assert recall() != a
    assert (a == 0.6) is False
    assert (a != 0.6) is True
    assert len({a, recall(), a}) == 2


def test_division_of_expressions():
    ratio = wins("h") / changes("h")
    assert [r.name for r in ratio.form.ratios] == [None]
    assert (recall() / (recall() - recall() + 2)).form == (recall() / 2).form


def test_immutable_copied_and_pickled():
    a = 0.5 * recall(WOMEN) + 1
    with pytest.raises(AttributeError, match="an expression cannot be changed"):
        a.form = recall().form
    with pytest.raises(AttributeError, match="an expression cannot be changed"):
        del a.form
    with pytest.raises(AttributeError):
        a.other = 3
    assert copy.deepcopy(a) is copy.copy(a) is a
    assert pickle.loads(pickle.dumps(a)).form == a.form
    assert a.populations == (WOMEN,)
    assert str(a) == repr(a) == "0.5 * recall(women) + 1"

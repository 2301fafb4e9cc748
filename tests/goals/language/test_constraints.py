"""Constraints: what is refused at once, how ratios are cleared, options and labels."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.goal_reference import linear_value, random_world
from testing.goal_strategies import constraints, population_pools

from widemargin.exceptions import GoalError
from widemargin.goals import (
    Population,
    changes,
    col,
    demographic_parity,
    errors,
    f_beta,
    false_positives,
    positive_rate,
    precision,
    recall,
    win_change_ratio,
    win_loss_ratio,
    wins,
)
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Linear
from widemargin.goals.language.populations import EVERYONE

A, B = Population("a", where=col("a")), Population("b", where=col("b"))


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (recall() >= 0.6, "recall() >= 0.6"),
        (0.6 <= recall(), "recall() >= 0.6"),  # noqa: SIM300
        (recall() <= 1, "recall() <= 1"),
        (positive_rate(A) >= 0.8 * positive_rate(B), "positive_rate(a) >= 0.8 * positive_rate(b)"),
        (1 - precision() <= 0.2, "1 - precision() <= 0.2"),
        (recall(A) - recall(B) <= 0.1 - recall(), "recall(a) - recall(b) <= 0.1 - recall()"),
    ],
)
def test_printed_as_written(constraint, text):
    assert str(constraint) == constraint.text == text
    assert repr(constraint) == f"<Constraint {text}>"


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (
            lambda: recall() >= 1.2,
            r"recall\(\) >= 1.2: never true, because recall\(\) lies in \[0, 1\] and the bound is 1.2",
        ),
        (lambda: recall() <= -0.1, "never true"),
        (lambda: recall() >= -0.1, "always true, because .* Choose a bound inside"),
        (lambda: recall() <= 1.5, "always true"),
        (lambda: errors() >= -1, r"always true, because errors\(\) lies in \[0, inf\)"),
        (lambda: recall() + 1 <= 0.5, r"the bound is -0.5"),
        (lambda: recall(A) - recall(B) >= 1.5, r"lies in \[-1, 1\]"),
        (lambda: recall(A) >= recall(B) + 1.5, r"recall\(a\) - recall\(b\) lies in \[-1, 1\] and the bound is 1.5"),
        (lambda: positive_rate(A) >= 2 + 0.8 * positive_rate(B), "never true"),
        (lambda: precision() >= 1.2, r"precision\(\) lies in \[0, 1\] and the bound is 1.2"),
        (lambda: 1 - precision() <= 1.5, r"always true, because precision\(\) lies in \[0, 1\] and the bound is -0.5"),
        (lambda: 1 - precision() >= 1.5, "never true"),
        (lambda: f_beta(2) <= 1.1, "always true"),
        (lambda: win_change_ratio("h") >= 2, "never true"),
        (lambda: win_loss_ratio("h") >= -2, "always true"),
        (lambda: recall() - recall() >= 0, "there is no rate in it"),
        (lambda: recall() >= recall(), "there is no rate in it"),
        (lambda: precision() >= precision(), "there is no rate in it"),
        (lambda: wins("h") / wins("h") >= 1, "nothing is left of it"),
        (lambda: precision(A) >= 0.8 * precision(B), "only one ratio against one constant"),
        (lambda: precision() >= recall(), "only one ratio against one constant.*precision.. stands beside"),
        (lambda: precision() + recall() >= 0.5, "only one ratio against one constant"),
        (lambda: recall() <= precision(), "only one ratio against one constant"),
    ],
)
def test_refused_at_once(misuse, message):
    with pytest.raises(GoalError, match=message):
        misuse()


@pytest.mark.parametrize("bound", [0, 1, 0.5, 1 / 3, np.float64(1.0)])
def test_the_ends_of_the_range_are_allowed(bound):
    """A sweep of a bound from 0 to 1 must not fail at its ends."""
    assert (recall() >= bound).cleared.bound == bound
    assert (precision() <= bound).cleared.ratio_bound == bound


def test_rounding_at_the_ends_is_forgiven():
    thirds = sum(positive_rate(Population(f"p{k}", where=col(f"p{k}"))) / 3 for k in range(3))
    assert (thirds <= 1).sense == "<="
    assert (0.1 * recall(A) + 0.2 * recall(B) <= 0.3).sense == "<="


@pytest.mark.parametrize("misuse", [lambda c: bool(c), lambda c: c and c, lambda c: not c, lambda c: c or None])
def test_truth_value(misuse):
    with pytest.raises(GoalError, match=r"recall\(\) >= 0.6: A constraint has no truth value.*Write two constraints"):
        misuse(recall() >= 0.6)


def test_linear_constraints_move_their_constants():
    cleared = (recall(A) + 0.25 >= 0.5 * recall(B) - 0.25).cleared
    assert cleared.form == (recall(A) - 0.5 * recall(B)).form
    assert (cleared.sense, cleared.bound, cleared.ratio, cleared.ratio_bound) == (">=", -0.5, None, None)


def test_ratios_are_multiplied_by_their_denominator():
    cleared = (precision(A) >= 0.75).cleared
    assert str(cleared.form) == "0.25 * true_positives(a) - 0.75 * false_positives(a)"
    assert (cleared.sense, cleared.bound, cleared.ratio_bound) == (">=", 0.0, 0.75)
    assert cleared.ratio == precision(A).form.ratios[0]


def test_factors_and_shifts_of_a_ratio_are_moved():
    same = (precision() >= 0.75).cleared
    for constraint in (4 * precision() - 1 >= 2, 2 - precision() <= 1.25, 1 + precision() >= 1.75, precision() >= 0.75):
        assert constraint.cleared == same
    assert (1 - precision() >= 0.25).cleared.sense == "<="


def test_constants_inside_a_ratio():
    cleared = (wins("h") / (changes("h") + 4) >= 0.5).cleared
    assert str(cleared.form) == 'wins("h") - 0.5 * changes("h")'
    assert cleared.bound == 2.0
    # Both sides are over the same rows, so the changes are those of rows with a label.
    assert [rate.labelled for rate in cleared.form.rates] == [False, True]


@given(st.data(), st.integers(0, 2**32 - 1))
def test_clearing_changes_nothing(data, seed):
    """On any data the constraint holds if and only if its cleared form does, wherever the ratio is defined."""
    constraint = data.draw(constraints([EVERYONE]))
    cleared, rng = constraint.cleared, np.random.default_rng(seed)
    for n in (1, 4, 15):
        world = random_world(rng, n, ("deployed", "old model", 'h"1'))
        left, right = linear_value(constraint.lhs, world), linear_value(constraint.rhs, world)
        moved = linear_value(cleared.form, world) - cleared.bound
        if math.isnan(left - right) or math.isnan(moved):
            continue
        terms = [abs(c) for side in (constraint.lhs, constraint.rhs, cleared.form) for c, _ in side.terms]
        tolerance = 1e-7 * n * max(1.0, abs(left), abs(right), abs(cleared.bound), *terms) ** 2
        user_slack = left - right if constraint.sense == ">=" else right - left
        cleared_slack = moved if cleared.sense == ">=" else -moved
        if abs(user_slack) > tolerance and abs(cleared_slack) > tolerance:
            assert (user_slack > 0) == (cleared_slack > 0)


@given(st.data())
def test_survive_pickle_copy_and_hash(data):
    constraint = data.draw(constraints(data.draw(population_pools())))
    again = pickle.loads(pickle.dumps(constraint))
    assert again == constraint
    assert hash(again) == hash(constraint)
    assert copy.deepcopy(constraint) is copy.copy(constraint) is constraint


def test_labels_and_options():
    plain = recall() >= 0.6
    full = plain.named("floor").with_options(min_rows=30, on_small="drop")
    assert (plain.label, plain.min_rows, plain.on_small) == (None, None, "error")
    assert (full.label, full.min_rows, full.on_small) == ("floor", 30, "drop")
    assert full.with_options(min_rows=3).on_small == "drop"
    assert repr(full) == '<Constraint floor: recall() >= 0.6, min_rows=30, on_small="drop">'
    assert plain.text == full.text
    assert plain != full
    assert plain == (recall() >= 0.6)
    assert plain != "recall() >= 0.6"


def test_the_goals_rule_fills_what_was_not_said():
    plain = recall() >= 0.6
    assert plain.inheriting(30, "drop") == plain.with_options(min_rows=30, on_small="drop")
    own = plain.with_options(min_rows=3, on_small="error")
    assert own.inheriting(30, "drop") == own
    assert plain.with_options(min_rows=3).inheriting(30, "drop").on_small == "drop"


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda c: c.named(""), "a constraint's label"),
        (lambda c: c.named("a\nb"), "a constraint's label"),
        (lambda c: c.named(3), "a constraint's label must be a string"),
        (lambda c: c.with_options(min_rows=0), "min_rows"),
        (lambda c: c.with_options(on_small="ignore"), "on_small"),
        (lambda c: Constraint(c.lhs, "==", c.rhs), "sense is >= or <="),
        (lambda c: Constraint(c.lhs, ">=", 0.5), "compares linear forms"),
        (lambda c: Constraint(Linear((), 1.0), ">=", Linear()), "there is no rate"),
    ],
)
def test_misuse(misuse, message):
    with pytest.raises(GoalError, match=message):
        misuse(recall() >= 0.6)


def test_immutable():
    constraint = recall() >= 0.6
    with pytest.raises(AttributeError):
        constraint.label = "x"
    with pytest.raises(AttributeError):
        constraint.on_small = "drop"
    with pytest.raises(AttributeError):
        demographic_parity("sex", ratio=0.8).ratio = 1.0


def test_counts_have_no_upper_end():
    assert (false_positives(A) <= 1e6).cleared.bound == 1e6

"""Bundles: what they expand to, and what they refuse."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.goal_strategies import bundles, population_pools

from widemargin.exceptions import DataError, GoalError
from widemargin.goals import (
    Bundle,
    Goal,
    Population,
    accuracy,
    col,
    demographic_parity,
    equal_opportunity,
    equalized_odds,
    must_be_right,
)
from widemargin.goals.language.populations import EVERYONE

ADULTS = Population("adults", where=col("age") >= 18)


def texts(bundle, values):
    return [str(constraint) for constraint in bundle.expand(values)]


def test_ratio_over_all_ordered_pairs():
    constraints = demographic_parity("sex", ratio=0.8).expand(["Female", "Male"])
    assert [str(constraint) for constraint in constraints] == [
        "positive_rate(\"sex == 'Female'\") >= 0.8 * positive_rate(\"sex == 'Male'\")",
        "positive_rate(\"sex == 'Male'\") >= 0.8 * positive_rate(\"sex == 'Female'\")",
    ]
    assert [constraint.label for constraint in constraints] == [
        'demographic_parity(sex): "Female" >= 0.8 * "Male"',
        'demographic_parity(sex): "Male" >= 0.8 * "Female"',
    ]
    population = constraints[0].lhs.populations[0]
    assert population == Population("sex == 'Female'", where=col("sex") == "Female")


def test_difference():
    constraints = equal_opportunity("race", difference=0.1).expand(["a", "b", "c"])
    assert len(constraints) == 6
    assert str(constraints[0]) == "recall(\"race == 'a'\") - recall(\"race == 'b'\") <= 0.1"
    assert constraints[0].label == 'equal_opportunity(race): "a" <= 0.1 + "b"'


def test_reference_in_both_directions():
    constraints = demographic_parity("race", ratio=0.8, reference="b").expand(["a", "b", "c"])
    assert [constraint.label.split(": ")[1] for constraint in constraints] == [
        '"a" >= 0.8 * "b"',
        '"b" >= 0.8 * "a"',
        '"c" >= 0.8 * "b"',
        '"b" >= 0.8 * "c"',
    ]


def test_every_value_against_all_rows():
    bundle = demographic_parity("race", difference=0.1, overall=True, population=ADULTS)
    constraints = bundle.expand(["a", "b", "c"])
    assert [constraint.label.split(": ")[1] for constraint in constraints[:2]] == [
        '"a" <= 0.1 + overall',
        'overall <= 0.1 + "a"',
    ]
    assert len(constraints) == 6
    assert constraints[0].lhs.populations[1] == ADULTS
    goal = Goal.parse("minimize error_rate(); subject to demographic_parity(race, difference=0, overall=True)")
    assert goal == Goal.parse(str(goal))
    assert goal.constraints[0].overall
    assert goal.constraints[0] != demographic_parity("race", difference=0)
    many = demographic_parity("race", ratio=0.8, overall=True).expand([f"group {k}" for k in range(200)])
    assert len(many) == 400
    with pytest.raises(GoalError, match="exclude each other"):
        demographic_parity("race", ratio=0.8, overall=True, reference="a")
    with pytest.raises(DataError, match="overall=True"):
        demographic_parity("race", ratio=0.8).expand([f"group {k}" for k in range(200)])


def test_equalized_odds_compares_two_rates():
    constraints = equalized_odds("sex", ratio=1).expand(["F", "M"])
    assert [constraint.lhs.rates[0].metric for constraint in constraints] == ["recall"] * 2 + [
        "false_positive_rate"
    ] * 2
    assert constraints[2].label == 'equalized_odds(sex), false_positive_rate: "F" >= 1 * "M"'
    assert len({constraint.label for constraint in constraints}) == 4


def test_listed_values_and_numbers():
    bundle = demographic_parity(col(3), ratio=0.5, values=[2, 0])
    assert texts(bundle, [0, 1, 2])[0] == 'positive_rate("col(3) == 2") >= 0.5 * positive_rate("col(3) == 0")'
    assert len(bundle.expand([0, 1, 2])) == 2
    assert len(demographic_parity("a", ratio=1).expand([False, True])) == 2
    assert len(demographic_parity("a", ratio=1).expand(np.array([1, 2, 3]))) == 6


def test_inside_a_population():
    constraints = demographic_parity("sex", ratio=0.8, population=ADULTS).expand(["F", "M"])
    population = constraints[0].lhs.populations[0]
    assert population == Population("adults and sex == 'F'", where=(col("age") >= 18) & (col("sex") == "F"))
    traffic = demographic_parity("sex", ratio=0.8, population=Population.external("traffic")).expand(["F", "M"])
    assert traffic[0].lhs.populations[0] == Population("traffic and sex == 'F'", "traffic", col("sex") == "F")
    nameless = demographic_parity("sex", ratio=0.8, population=Population(None, where=col("a"))).expand(["F", "M"])
    assert nameless[0].lhs.populations[0].name == "population(a) and sex == 'F'"


def test_long_values_stay_printable():
    constraints = demographic_parity("c" * 300, ratio=0.8).expand(["x" * 500, "a\nb"])
    assert constraints[0].lhs.populations[0].name is None
    assert all(len(constraint.label) <= 200 and constraint.label.isprintable() for constraint in constraints)


def test_options_and_label_are_passed_on():
    bundle = demographic_parity("sex", ratio=0.8, min_rows=30, on_small="drop").named("parity")
    for constraint in bundle.expand(["F", "M"]):
        assert (constraint.min_rows, constraint.on_small) == (30, "drop")
        assert constraint.label.startswith("parity: ")
    other = bundle.with_options(min_rows=5)
    assert (other.min_rows, other.on_small, other.label) == (5, "drop", "parity")
    plain = demographic_parity("sex", ratio=0.8)
    assert plain.inheriting(7, "drop") == plain.with_options(min_rows=7, on_small="drop")
    assert bundle.inheriting(7, "error") == bundle
    assert plain.on_small == "error"
    assert plain == plain.with_options(on_small="error")
    assert repr(bundle) == '<Bundle parity: demographic_parity(sex, ratio=0.8), min_rows=30, on_small="drop">'


def test_true_is_not_one():
    one, true = (demographic_parity("a", ratio=1, reference=value) for value in (1, True))
    assert one != true
    assert one != "demographic_parity(a, ratio=1, reference=1)"
    assert demographic_parity("a", ratio=1, values=[0, 1]) != demographic_parity("a", ratio=1, values=[False, True])


@given(st.data())
def test_survive_pickle_copy_and_hash(data):
    bundle = data.draw(bundles(data.draw(population_pools())))
    again = pickle.loads(pickle.dumps(bundle))
    assert again == bundle
    assert hash(again) == hash(bundle)
    assert copy.deepcopy(bundle) is copy.copy(bundle) is bundle


@given(st.data())
def test_every_bundle_expands_where_its_values_are_found(data):
    bundle = data.draw(bundles([EVERYONE, ADULTS]))
    present = list(bundle.values or ["v1", "v2"])
    if bundle.reference is not None and bundle.reference not in present:
        present.append(bundle.reference)
    constraints = bundle.expand(present)
    used = bundle.values or present
    pairs = len(used) * (len(used) - 1) if bundle.reference is None else 2 * sum(v != bundle.reference for v in used)
    assert len(constraints) == pairs * len(bundle.rates)
    assert all(len(constraint.label) <= 200 and constraint.label.isprintable() for constraint in constraints)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda: demographic_parity("sex"), "exactly one of ratio"),
        (lambda: demographic_parity("sex", ratio=0.8, difference=0.1), "exactly one of ratio"),
        (lambda: demographic_parity("sex", ratio=0), r"ratio must lie in \(0, 1\], got 0.0"),
        (lambda: demographic_parity("sex", ratio=1.25), "ratio must lie in"),
        (lambda: demographic_parity("sex", ratio="0.8"), "ratio must be a number"),
        (lambda: demographic_parity("sex", ratio=True), "ratio must be a number"),
        (lambda: demographic_parity("sex", difference=-0.1), r"difference must lie in \[0, 1\]"),
        (lambda: demographic_parity("sex", difference=1.1), "difference must lie in"),
        (lambda: demographic_parity("sex", ratio=1, values=["a"]), "at least two values"),
        (lambda: demographic_parity("sex", ratio=1, values="ab"), "must be a list"),
        (lambda: demographic_parity("sex", ratio=1, values=["a", "b"], reference="c"), "is not among"),
        (lambda: demographic_parity("sex", ratio=1, reference=float("nan")), "is_null"),
        (lambda: demographic_parity("sex", ratio=1, population="women"), "population must be a Population"),
        (lambda: demographic_parity("", ratio=1), "must not be empty"),
        (lambda: demographic_parity("sex", ratio=1, min_rows=0), "min_rows"),
        (lambda: demographic_parity("sex", ratio=1, on_small="x"), "on_small"),
        (lambda: demographic_parity("sex", ratio=1).named(""), "label"),
        (lambda: Bundle("parity", "sex", ratio=1), "unknown bundle"),
        (lambda: must_be_right(None), "needs the population"),
        (lambda: must_be_right("gold"), "population must be a Population"),
        (lambda: must_be_right(ADULTS, 1.5), "never true"),
        (lambda: must_be_right(ADULTS, "all"), "share must be a number"),
    ],
)
def test_misuse(misuse, message):
    with pytest.raises(GoalError, match=message):
        misuse()


@pytest.mark.parametrize(
    ("bundle", "values", "message"),
    [
        (demographic_parity("sex", ratio=1), [], "column sex holds no value on these rows"),
        (demographic_parity("sex", ratio=1), ["F"], 'sex holds only the value "F" on these rows, and two groups'),
        (
            demographic_parity("age", ratio=1),
            range(90),
            "90 distinct values, which makes 8010 constraints .at most 1000.",
        ),
    ],
)
def test_what_the_data_may_refuse(bundle, values, message):
    with pytest.raises(DataError, match=message):
        bundle.expand(values)


@pytest.mark.parametrize("arguments", [{"values": ["F", "X"]}, {"reference": "X"}])
def test_a_value_that_nobody_has_is_a_fault_of_the_goal(arguments):
    with pytest.raises(GoalError, match='"X" is no value of column sex; found'):
        demographic_parity("sex", ratio=1, **arguments).expand(["F", "M"])


@pytest.mark.parametrize("value", ["African-American", "it's", 'say "x"', "back\\slash", "a\tb", "größe"])
@pytest.mark.parametrize("column", ["race", "the race", 'a"b'])
def test_names_of_groups_read_back_from_a_text(column, value):
    constraint = demographic_parity(column, ratio=0.8).expand([value, "other"])[0]
    goal = Goal(None, constraint)
    assert Goal.parse(str(goal)) == goal
    if value == "African-American" and column == "race":
        assert constraint.lhs.populations[0].name == "race == 'African-American'"


def test_many_values_work_against_a_reference():
    assert len(demographic_parity("age", ratio=1, reference=0).expand(range(90))) == 178


def test_must_be_right():
    assert must_be_right(ADULTS) == (accuracy(ADULTS) >= 1)
    assert must_be_right(ADULTS, 0.9) == (accuracy(ADULTS) >= 0.9)


def test_text():
    bundle = demographic_parity("a b", difference=0.1, reference=2, values=[1, 2], population=ADULTS)
    assert (
        str(bundle) == 'demographic_parity(col("a b"), difference=0.1, reference=2, values=[1, 2], population=adults)'
    )
    assert str(demographic_parity("sex", ratio=1, population=EVERYONE)) == "demographic_parity(sex, ratio=1)"

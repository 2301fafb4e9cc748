"""Groups of rows with a threshold of their own: found at fit, looked up at prediction, reached by definition."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from widemargin.estimators.thresholds.groups import find_groups, group_numbers
from widemargin.exceptions import DataError, GoalError
from widemargin.goals import Population, col
from widemargin.goals.binding.membership import disjoint
from widemargin.goals.language.predicates import LabelIs

SEX = pd.DataFrame({"sex": ["F", "M", "F", "M"], "age": [20, 30, 40, 50], "member": [True, False, True, True]})
YOUNG, OLD = Population("young", where=col("age") < 35), Population("old", where=col("age") >= 35)


@pytest.mark.parametrize(
    ("column", "names", "numbers"),
    [
        ("sex", ["F", "M"], [0, 1, 0, 1]),
        ("member", ["False", "True"], [1, 0, 1, 1]),
        ("age", ["20", "30", "40", "50"], [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_values_of_a_column(column, names, numbers, kind):
    table = kind(SEX.to_dict("list"))
    groups = find_groups(column, None, table, 4)
    assert [group.name for group in groups] == names
    np.testing.assert_array_equal(group_numbers(groups, None, table, 4), numbers)
    np.testing.assert_array_equal(group_numbers(groups, table, None, 4), numbers)  # columns of X


def test_positions_of_an_array():
    table = np.array([[0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(group_numbers(find_groups(0, None, table, 2), None, table, 2), [0, 1])


def test_values_that_no_row_has_now_are_no_error():
    groups = find_groups("sex", None, SEX, 4)
    np.testing.assert_array_equal(group_numbers(groups, None, SEX.iloc[[1, 3]], 2), [1, 1])
    listed = [Population("a", where=col("sex").isin(["F", "X"])), Population("b", where=col("sex") == "M")]
    np.testing.assert_array_equal(group_numbers(listed, None, SEX.iloc[[0, 2]], 2), [0, 0])
    assert len(group_numbers(groups, None, SEX.iloc[:0], 0)) == 0


@pytest.mark.parametrize(
    ("groups", "table", "message"),
    [
        ("sex", pd.DataFrame({"sex": ["F", "M", "other", None]}), "2 of 4 rows belong to none of the 2 groups"),
        ([YOUNG], SEX, "2 of 4 rows belong to none of the 1 groups"),
        ([YOUNG, OLD, Population("all", where=col("age") > 0)], SEX, "and 4 to more than one"),
    ],
)
def test_rows_of_no_group_or_several_are_refused(groups, table, message):
    known = find_groups(groups, None, SEX, 4)
    with pytest.raises(DataError, match=message):
        group_numbers(known, None, table, 4)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("race", GoalError, "'race' is in no table"),
        (["sex"], DataError, "holds a str"),
        ([], DataError, "holds 0 populations"),
        ([Population.external("traffic")], GoalError, "nothing else is known at prediction"),
        ([Population("p", where=LabelIs(True))], GoalError, "no condition on columns alone"),
        ([Population.everyone()], GoalError, "no condition on columns alone"),
    ],
)
def test_what_is_no_group_is_named(value, error, message):
    with pytest.raises(error, match=message):
        find_groups(value, None, SEX, 4)


def test_no_table_and_too_many_values():
    with pytest.raises(DataError, match="there is no table"):
        find_groups("sex", np.zeros((4, 1)), None, 4)
    with pytest.raises(DataError, match="1001 different values"):
        find_groups("id", None, pd.DataFrame({"id": np.arange(1001)}), 1001)


WOMEN = Population("women", where=col("sex") == "F")


@pytest.mark.parametrize(
    ("population", "by_sex", "by_age"),
    [
        (Population.everyone(), 2, 2),
        (WOMEN, 1, 2),
        (WOMEN.positives(), 1, 2),
        (WOMEN & (col("age") > 60), 1, 1),
        (Population("x", where=col("sex") != "F"), 1, 2),
        (Population("x", where=~(col("sex") == "F")), 1, 2),
        (Population("x", where=col("sex").isin(["F", "M"])), 2, 2),
        (Population("x", where=(col("sex") == "F") | (col("age") > 60)), 2, 2),
        (Population("x", where=col("sex").is_null()), 0, 2),
        (Population.external("t", where=col("sex") == "M"), 1, 2),
        (Population("x", where=col("age") < 35) & (col("sex") == "F"), 1, 1),
        (Population("x", where=col("age") < 30), 2, 1),
    ],
)
def test_which_groups_a_population_reaches_goes_by_the_definition(population, by_sex, by_age):
    assert reached(find_groups("sex", None, SEX, 4), population) == by_sex
    assert reached((YOUNG, OLD), population) == by_age


def reached(groups, population):
    """How many groups the rows of a population can belong to."""
    here = Population(None, where=population.where)
    return sum(not disjoint(Population(None, where=group.where), here) for group in groups)


def test_booleans():
    groups = find_groups("member", None, SEX, 4)
    assert reached(groups, Population("x", where=col("member"))) == 1
    assert reached(groups, Population("x", where=~col("member"))) == 1
    assert reached(groups[:1], Population.everyone()) == 1

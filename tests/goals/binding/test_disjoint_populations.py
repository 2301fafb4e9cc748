"""Populations without common rows, found from definitions; checked on rows of every kind."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.goals import Population, col
from widemargin.goals.binding.membership import disjoint, members
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable


def population(where):
    return Population(None, where=where)


SEX, AGE = col("sex"), col("age")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (SEX == "F", SEX == "M", True),
        (SEX == "F", SEX != "F", True),
        (SEX == "F", ~(SEX == "F"), True),
        (SEX.isin(["F", "X"]), SEX == "M", True),
        (SEX.isin(["F", "X"]), SEX != "M", False),
        (SEX != "F", SEX != "M", False),
        (SEX == "F", SEX == "F", False),
        (AGE < 30, AGE >= 30, True),
        (AGE <= 30, AGE >= 30, False),
        ((AGE >= 20) & (AGE < 30), (AGE >= 30) & (AGE < 40), True),
        ((SEX == "F") & (AGE < 30), (SEX == "F") & (AGE > 40), True),
        ((SEX == "F") & (AGE < 30), (SEX == "M") & (AGE < 30), True),
        ((SEX == "F") | (AGE < 30), SEX == "M", False),
        (SEX.is_null(), SEX == "F", True),
        (SEX.is_null() | (SEX == "F"), SEX.is_null() | (SEX == "M"), False),
        (SEX == "F", AGE < 30, False),
        (AGE == 1, AGE == True, False),  # noqa: E712
    ],
)
def test_by_hand(first, second, expected):
    assert disjoint(population(first), population(second)) == expected
    assert disjoint(population(second), population(first)) == expected


def test_labels_answers_and_data_sets():
    young = population(AGE < 30)
    assert disjoint(young.positives(), young.negatives())
    assert not disjoint(young.positives(), young)
    assert disjoint(young.predicted_positive("old"), young.predicted_negative("old"))
    assert not disjoint(young.predicted_positive("old"), young.predicted_negative("older"))
    assert disjoint(Population.external("a"), Population.external("b"))
    assert disjoint(Population.external("a"), Population.everyone())
    assert not disjoint(Population.everyone(), Population.everyone())


NUMBERS = st.sampled_from([-1.5, 0, 2, 2.5, 7])
LEAVES = st.one_of(
    st.builds(lambda v, op: getattr(AGE, op)(v), NUMBERS, st.sampled_from(["__lt__", "__le__", "__gt__", "__ge__"])),
    st.builds(lambda v: v == AGE, NUMBERS),
    st.just(AGE.is_null()),
)
CONDITIONS = st.recursive(
    LEAVES, lambda inner: st.one_of(st.builds(lambda a: ~a, inner), st.builds(lambda a, b: a & b, inner, inner),
                                    st.builds(lambda a, b: a | b, inner, inner)), max_leaves=4,
)  # fmt: skip


@given(CONDITIONS, CONDITIONS)
def test_no_row_belongs_to_both(first, second):
    """On a table with every number that conditions tell apart, disjoint populations share no row."""
    values = np.array([-9, -1.5, -1, 0, 1, 2, 2.25, 2.5, 5, 7, 99, np.nan])
    table = PopulationTable.build(pd.DataFrame({"age": values}), None, n_rows=len(values))
    source = Source(None, None, None, table, {}, len(values))
    pair = population(first), population(second)
    inside = [members(each, source).true for each in pair]
    if disjoint(*pair):
        assert not (inside[0] & inside[1]).any()

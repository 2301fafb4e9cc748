"""Predicates on data: three-valued logic against the naive evaluator, and every refusal."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive_rates import NaiveSource, naive_holds
from widemargin.exceptions import DataError, GoalError, GoalWarning
from widemargin.goals import Population, col, negative_label, positive_label, predicted_negative, predicted_positive
from widemargin.goals.binding.membership import evaluate, members
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable

COLUMNS = {
    "sex": ["F", "M", None, "F", "M", "F"],
    "age": [20.0, None, 30.0, 40.0, 30.0, 55.5],
    "n": [1, 2, 3, 4, 5, 6],
    "member": [True, None, False, True, True, False],
    "flag": [0, 1, 1, 0, None, 1],
    "day": ["2024-01-01", None, "2024-03-01", "2024-02-01", "2024-02-01", "2024-12-31"],
}
LABELS = [1, -1, 1, None, -1, 1]
SAID = [1, -1, -1, 1, 1, -1]


def frame():
    made = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in COLUMNS.items()})
    return made.assign(day=pd.to_datetime(made["day"]))


SOURCE = Source(
    None,
    np.array([0 if label is None else label for label in LABELS], np.int8),
    None,
    PopulationTable.build(frame()),
    {"old": np.array(SAID, np.int8)},
    6,
)
NAIVE = NaiveSource(COLUMNS, LABELS, None, {"old": SAID}, 6)

leaves = st.sampled_from(
    [
        col("sex") == "F", col("sex") != "F", col("sex") >= "G", col("sex") < "M", col("sex").isin(["F", "M"]),
        col("sex").is_null(), col("age").is_null(), col("age") < 30, col("age") <= 30, col("age") > 30,
        col("age") >= 30, col("age") == 30, col("age") != 30.0, col("age").isin([20, 40]), col("n") > 3,
        col("n").isin([2, 99]),
        col("member") == True, col("member") != True, col("flag") == 1, col("n").is_null(),  # noqa: E712
        positive_label(), negative_label(), predicted_positive("old"), predicted_negative("old"),
        col("member") & col("flag"),
    ]
)  # fmt: skip


def combined(parts):
    pairs = st.tuples(parts, parts)
    return pairs.map(lambda p: p[0] & p[1]) | pairs.map(lambda p: p[0] | p[1]) | parts.map(lambda p: ~p)


predicates = st.recursive(leaves, combined, max_leaves=6)


@given(predicates)
def test_evaluation_is_kleenes(predicate):
    truth = evaluate(predicate, SOURCE)
    answers = [naive_holds(predicate, NAIVE, row) for row in range(6)]
    assert truth.true.tolist() == [answer is True for answer in answers]
    unknown = np.zeros(6, bool) if truth.unknown is None else truth.unknown
    assert unknown.tolist() == [answer is None for answer in answers]


def test_a_missing_value_is_in_no_population_and_in_no_complement():
    inside = evaluate(col("sex") == "F", SOURCE)
    outside = evaluate(~(col("sex") == "F"), SOURCE)
    assert not inside.true[2]
    assert not outside.true[2]
    assert inside.unknown.tolist() == outside.unknown.tolist() == [False, False, True, False, False, False]
    assert evaluate((col("sex") == "F") | col("sex").is_null(), SOURCE).true[2]


def test_dates_are_compared_with_iso_text():
    assert evaluate(col("day") >= "2024-02-01", SOURCE).true.tolist() == [False, False, True, True, True, True]
    assert evaluate(col("day").isin(["2024-01-01", "2024-12-31T00:00:00"]), SOURCE).true.tolist() == [
        True,
        *[False] * 4,
        True,
    ]
    assert evaluate(col("day") == "2024-01-01T02:00+02:00", SOURCE).true.sum() == 1
    with pytest.raises(GoalError, match=r"'day' holds dates .* write an ISO date"):
        evaluate(col("day") > "yesterday", SOURCE)


def test_everyone_needs_no_table():
    bare = Source(None, None, None, None, {}, 4)
    assert members(Population.everyone(), bare).true.tolist() == [True] * 4


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        (col("sex") == 1, ["'sex'", "text", "compared with 1 (int)", "'F', 'M'"]),
        (col("sex") < 1.5, ["'sex'", "1.5 (float)"]),
        (col("age") == "30", ["'age'", "numbers", "'30' (str)"]),
        (col("age") == True, ["'age'", "True (bool)"]),  # noqa: E712
        (col("age").isin([30, "40"]), ["'age'", "'40' (str)"]),
        (col("member") == "yes", ["'member'", "booleans", "'yes' (str)"]),
        (col("member") == 3, ["'member'", "3 (int)"]),
        (col("day") == 20240101, ["'day'", "dates", "(int)"]),
        (
            col("sex") == "Female",
            ["'sex' has no value 'Female', so the population is empty on these rows", "there are: 'F', 'M'"],
        ),
        (col("sex") != "f", ["has no value 'f' on these rows. The values", "Did you mean 'F'?"]),
        (col("sex").isin(["x", "y"]), ["has no value 'x', 'y'"]),
        (col("age") & col("member"), ["'age'", "is not boolean", "compare it"]),
        (col("sex") & col("member"), ["'sex'", "is not boolean"]),
        (col("height") > 1, ["'height' is in no table given", "'sex', 'age'"]),
    ],
)
def test_refusals_name_the_column_and_the_value(predicate, words):
    with pytest.raises(GoalError) as caught:
        evaluate(predicate, SOURCE)
    for word in words:
        assert word in str(caught.value)


def test_the_population_is_named_in_the_message():
    with pytest.raises(GoalError, match=r"population 'women': column 'sex' has no value 'Female'"):
        members(Population("women", where=col("sex") == "Female"), SOURCE)
    with pytest.raises(GoalError, match=r"^column 'sex' has no value"):
        members(Population(None, where=col("sex") == "Female"), SOURCE)


def test_some_absent_values_of_a_list_only_warn():
    with pytest.warns(
        GoalWarning,
        match=r"has no value 'f'; 1 of the 2 values .* are there\. The values there are: 'F', 'M'\. Did you mean 'F'",
    ):
        truth = evaluate(col("sex").isin(["F", "f"]), SOURCE)
    assert truth.true.tolist() == [True, False, False, True, False, True]


def test_another_word_is_no_suggestion():
    table = PopulationTable.build(pd.DataFrame({"sex": ["Male", "Male", "Unknown"]}))
    source = Source(None, None, None, table, {}, 3)
    with pytest.raises(GoalError) as caught:
        evaluate(col("sex") == "Female", source)
    assert "Did you mean" not in str(caught.value)
    assert "The values there are: 'Male', 'Unknown'." in str(caught.value)
    for near in ("male ", "Unknwon", "MALE"):
        with pytest.raises(GoalError, match=r"Did you mean '(Male|Unknown)'"):
            evaluate(col("sex") == near, source)


def test_at_most_ten_values_are_listed():
    many = Source(
        None, None, None, PopulationTable.build(pd.DataFrame({"c": [f"v{i:02d}" for i in range(30)]})), {}, 30
    )
    with pytest.raises(GoalError, match=r"'v09' and 20 more"):
        evaluate(col("c") == "nothing", many)


def test_a_declared_level_without_rows_is_just_empty():
    series = pd.Series(["a", "a"], dtype=pd.CategoricalDtype(["a", "b"]))
    source = Source(None, None, None, PopulationTable.build(pd.DataFrame({"c": series})), {}, 2)
    assert not evaluate(col("c") == "b", source).true.any()


def test_a_column_without_any_value_is_unknown_everywhere():
    source = Source(None, None, None, PopulationTable.build(pd.DataFrame({"c": [None, None]})), {}, 2)
    truth = evaluate(col("c") > 3, source)
    assert truth.unknown.all()
    assert not truth.true.any()
    assert evaluate(col("c").is_null(), source).true.all()


def test_no_table_and_no_labels():
    bare = Source("traffic", None, None, None, {}, 4)
    with pytest.raises(DataError, match=r"age > 3 looks at column 'age', and external 'traffic' has no table"):
        evaluate(col("age") > 3, bare)
    with pytest.raises(GoalError, match=r"positive_label\(\) needs labels, and external 'traffic' has no y"):
        evaluate(positive_label(), bare)


def test_other_spellings_of_a_value_are_warned_of():
    table = PopulationTable.build(pd.DataFrame({"sex": ["Female", "female", "Male", "Female ", "Male"]}))
    source = Source(None, np.zeros(5, np.int8), None, table, {}, 5)
    with pytest.warns(GoalWarning, match="holds 'Female ', 'female' beside 'Female', other values by case or blanks"):
        assert evaluate(col("sex") == "Female", source).true.tolist() == [True, False, False, False, False]
    with pytest.warns(GoalWarning, match="holds 'female' beside 'Female', 'Female '"):
        evaluate(col("sex").isin(["Female", "Female "]), source)
    for silent in (col("sex") == "Male", ~col("sex").isin(["Female", "female", "Female "])):
        assert evaluate(silent, source).true.tolist() == [False, False, True, False, True]

"""Columns: every kind of table is read into the same arrays, and missing is missing."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from widemargin._text import close_match, listing
from widemargin.exceptions import DataError
from widemargin.goals.binding.tables import column_from_arrow, column_of


def facts(column):
    """What must not depend on where the column came from."""
    missing = np.zeros(len(column.values), bool) if column.missing is None else column.missing
    return column.kind, column.distinct(), missing.tolist(), column.n_missing


@pytest.mark.parametrize(
    ("values", "kind", "distinct"),
    [
        (["b", None, "a", "b"], "string", ["a", "b"]),
        ([3, None, 1, 3], "number", [1, 3]),
        ([1.5, None, 0.5, 1.5], "number", [0.5, 1.5]),
        ([True, None, False, True], "boolean", [False, True]),
        ([None, None, None, None], "empty", []),
    ],
)
def test_all_sources_of_a_column_agree(values, kind, distinct):
    expected = (kind, distinct, [value is None for value in values], values.count(None))
    made = [
        column_from_arrow("c", pa.array(values)),
        column_from_arrow("c", pa.chunked_array([pa.array(values[:2]), pa.array(values[2:])]))
        if kind != "empty"
        else None,
        column_of("c", np.array(values, dtype=object)),
        column_from_arrow("c", pl.Series(values).to_arrow()),
        column_from_arrow("c", pa.Array.from_pandas(pd.Series(values, dtype=object))),
    ]
    for column in made:
        assert column is None or facts(column) == expected


def test_dictionary_columns_are_read_as_text():
    values = ["b", None, "a", "b"]
    plain = pa.array(values).dictionary_encode()
    chunked = pa.chunked_array([pa.array(["b", None]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()])
    views = pa.array(values, pa.large_string())
    for array in (plain, chunked, views):
        column = column_from_arrow("c", array)
        assert column.categories == ("a", "b")
        assert column.values.tolist() == [1, -1, 0, 1]
    numbers = column_from_arrow("c", pa.array([7, 5, 7]).dictionary_encode())
    assert facts(numbers) == ("number", [5, 7], [False] * 3, 0)


def test_declared_levels_without_rows_are_known_but_not_found():
    levels = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["b", "a"]))
    column = column_from_arrow("c", levels)
    assert column.categories == ("a", "b")
    assert column.distinct() == ["b"]
    assert column_from_arrow("c", levels, declared=False).categories == ("b",)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_is_missing_in_float_arrays(dtype):
    column = column_of("c", np.array([1, np.nan, 2], dtype=dtype))
    assert facts(column) == ("number", [1.0, 2.0], [False, True, False], 1)


def test_polars_nan_is_missing_too():
    column = column_from_arrow("c", pl.Series([1.0, float("nan"), None]).to_arrow())
    assert facts(column) == ("number", [1.0], [False, True, True], 2)


def test_large_integers_keep_their_last_digit():
    big = 2**62 + 1
    column = column_from_arrow("c", pa.array([big, None, big - 1]))
    assert column.distinct() == [big - 1, big]


def test_dates_of_every_kind():
    day = datetime.date(2024, 1, 31)
    for column in (
        column_from_arrow("c", pa.array([day, None])),
        column_from_arrow("c", pa.array([datetime.datetime(2024, 1, 31), None])),
        column_of("c", np.array(["2024-01-31", "NaT"], dtype="datetime64[D]")),
    ):
        assert column.kind == "date"
        assert column.distinct() == ["2024-01-31T00:00:00.000000"]
        assert column.n_missing == 1


def test_time_zones_become_utc():
    moment = datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    column = column_from_arrow("c", pa.array([moment], pa.timestamp("ms", tz="Europe/Helsinki")))
    assert column.distinct() == ["2024-01-31T10:00:00.000000"]


@pytest.mark.parametrize("values", [["a", 1], [1, "a"], [b"x", 2], [object(), 2]])
def test_mixed_or_strange_values_are_refused(values):
    items = np.empty(2, dtype=object)
    items[:] = values
    with pytest.raises(DataError, match="'c' mixes types or holds values"):
        column_of("c", items)


def test_nested_types_are_refused():
    with pytest.raises(DataError, match=r"'c' is of type list.*strings, numbers, booleans or dates"):
        column_from_arrow("c", pa.array([[1], [2]]))


def test_binary_columns():
    assert column_of("c", np.array([0, 1, 1])).is_binary
    assert column_of("c", np.array([0.0, np.nan])).is_binary
    assert column_of("c", np.array([True, False])).is_binary
    assert not column_of("c", np.array([0, 2])).is_binary
    assert not column_of("c", np.array(["0", "1"])).is_binary


def test_distinct_among_some_rows():
    column = column_of("c", np.array(["a", "b", None, "c"], dtype=object))
    assert column.distinct(np.array([True, False, True, True])) == ["a", "c"]
    assert column_of("c", np.array([3, 1, 2])).distinct(np.array([True, True, False])) == [1, 3]


def test_values_come_back_with_none_where_missing():
    assert column_of("c", np.array(["b", None, "a"], dtype=object)).to_values().tolist() == ["b", None, "a"]
    assert column_from_arrow("c", pa.array([2, None])).to_values().tolist() == [2, None]
    assert column_of("c", np.array([2, 1])).to_values().tolist() == [2, 1]


def test_empty_columns_have_no_rows_and_no_error():
    assert len(column_from_arrow("c", pa.array([], pa.string())).values) == 0
    assert len(column_from_arrow("c", pa.chunked_array([], pa.string())).values) == 0
    assert len(column_of("c", np.array([])).values) == 0


@pytest.mark.parametrize(
    ("wanted", "known", "found"),
    [("female", ["Female", "Male"], "'Female'"), (" Male ", ["Female", "Male"], "'Male'"), ("x", ["Female"], None)],
)
def test_close_match(wanted, known, found):
    assert close_match(wanted, known) == (f" Did you mean {found}?" if found else "")


def test_listing_is_cut_after_ten():
    assert listing([]) == "none"
    assert listing(["a", 1]) == "'a', 1"
    assert listing(list(range(12))).endswith("9 and 2 more")

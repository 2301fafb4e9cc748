"""Population tables: what is accepted, what is refused, and where a column is looked up."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from widemargin.exceptions import DataError, GoalError
from widemargin.goals.binding.tables import PopulationTable, column_of
from widemargin.rows import is_frame

DATA = {"sex": ["F", "M", None], "age": [30, 40, 50]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_frames_of_every_library(make):
    table = PopulationTable.build(make(DATA), n_rows=3)
    assert table.columns == ("sex", "age")
    assert table.column("sex").distinct() == ["F", "M"]
    assert table.column("sex").n_missing == 1
    assert table.column("age").values.tolist() == [30, 40, 50]
    assert "sex" in table.columns
    assert "height" not in table.columns
    assert list(table.columns) == ["sex", "age"]


def test_the_last_columns_are_kept():
    table = PopulationTable.build(pd.DataFrame({f"c{j}": [f"a{j}"] for j in range(9)}))
    first, second = table.column("c0"), table.column("c1")
    assert table.column("c0") is first
    for j in range(2, table.kept_columns + 1):
        table.column(f"c{j}")
    assert table.column("c0") is first  # asked for later than c1
    again = table.column("c1")
    assert again is not second
    assert again.categories == second.categories == ("a1",)


def test_arrays_have_positions():
    table = PopulationTable.build(np.array([[1.0, 2.0], [3.0, np.nan]]), n_rows=2)
    assert table.columns == (0, 1)
    assert table.column(1).n_missing == 1
    objects = PopulationTable.build(np.array([["F", 1], ["M", 2]], dtype=object))
    assert objects.column(0).kind == "string"
    assert objects.column(1).kind == "number"


def test_pandas_integer_names_are_names():
    assert PopulationTable.build(pd.DataFrame(np.arange(4).reshape(2, 2))).column(1).values.tolist() == [1, 3]


def test_lookup_goes_to_populations_first_then_to_a_frame_of_features():
    populations, X = pd.DataFrame({"sex": ["F", "M"]}), pl.DataFrame({"sex": ["x", "y"], "age": [1, 2]})
    table = PopulationTable.build(populations, X, n_rows=2)
    assert table.column("sex").distinct() == ["F", "M"]
    assert table.column("age").values.tolist() == [1, 2]
    assert table.columns == ("sex", "age")
    assert table.own_column("sex") is not None
    assert table.own_column("age") is None  # a baseline may not stand among the features
    assert PopulationTable.build(None, X).own_column("sex") is None


@pytest.mark.parametrize("X", [np.zeros((2, 2)), sp.csr_array(np.eye(2)), None])
def test_features_that_are_no_frame_are_no_table(X):
    assert PopulationTable.build(None, X) is None
    assert not is_frame(X)


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        ({"women": np.zeros(3, bool), "men": np.ones(3, bool)}, "dict of 2 entries"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((3, 1, 1)), r"shape \(3, 1, 1\)"),
        ([1, 2, 3], "list of length 3"),
        (pd.Series([1, 2, 3]), "Series of length 3"),
        (pl.Series([1, 2, 3]), "Series of length 3"),
        (pl.LazyFrame({"a": [1]}), "Collect a lazy frame first"),
        ("sex", "cannot be used as a table"),
    ],
)
def test_what_is_no_table_is_refused_with_the_cure(data, fact):
    with pytest.raises(DataError, match=rf"(?s){fact}.*one row per example.*cross-validation"):
        PopulationTable.build(data)


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        pa.Table.from_arrays([pa.array([1])] * 3, names=["a", "b", "a"]),
    ],
)
def test_two_columns_of_one_name_are_named(data):
    with pytest.raises(DataError, match=r"^populations has more than one column 'a'; rename them"):
        PopulationTable.build(data)


def test_wrong_length_names_both():
    with pytest.raises(DataError, match=r"populations has 3 rows and the data 15.*one row per example"):
        PopulationTable.build(pd.DataFrame(DATA), n_rows=15)


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (
            pd.DataFrame(DATA),
            "Sex",
            r"column 'Sex' is in no table given; there are 'sex', 'age'\. Did you mean 'sex'\?",
        ),
        (pd.DataFrame(DATA), 0, "a position in a 2-D array; name the columns of a data frame"),
        (np.zeros((2, 3)), "sex", r"These are numbers: write col\(0\)"),
        (pd.DataFrame({5: ["f", "m"]}), "sex", r"there are 5\. These are numbers: write col\(5\)"),
        (np.zeros((2, 3)), 3, "there are 0, 1, 2"),
    ],
)
def test_unknown_columns_are_named(data, name, message):
    with pytest.raises(GoalError, match=message):
        PopulationTable.build(data).column(name)


def test_where_only_features_were_given_the_table_is_asked_for():
    with pytest.raises(GoalError, match=r"there are 'sex', 'age'\. These are the features: give populations=table"):
        PopulationTable.build(None, pd.DataFrame(DATA)).column("height")


def test_polars_categories_of_other_frames_are_unknown():
    pl.Series(["z", "q"], dtype=pl.Categorical)
    table = PopulationTable.build(pl.DataFrame({"c": pl.Series(["a", "b"], dtype=pl.Categorical)}))
    assert table.column("c").categories == ("a", "b")


def test_declared_categories_of_pandas_and_enum():
    kind = pd.CategoricalDtype(["b", "a", "c"])
    assert PopulationTable.build(pd.DataFrame({"c": pd.Series(["a"], dtype=kind)})).column("c").categories == tuple(
        "abc"
    )
    frame = pl.DataFrame({"c": pl.Series(["a"], dtype=pl.Enum(["b", "a", "c"]))})
    assert PopulationTable.build(frame).column("c").categories == tuple("abc")


def test_intervals_of_pandas_are_text():
    bands = pd.cut(pd.Series([20, 30, None, 31]), [0, 25, 40, 100])
    for column in (PopulationTable.build(pd.DataFrame({"age": bands})).column("age"), column_of("age", bands)):
        assert column.to_values().tolist() == ["(0, 25]", "(25, 40]", None, "(25, 40]"]


def test_a_mixed_column_is_refused_only_when_it_is_used():
    table = PopulationTable.build(pd.DataFrame({"bad": pd.Series(["x", 1], dtype=object), "good": [1, 2]}))
    assert table.column("good").kind == "number"
    with pytest.raises(DataError, match="'bad' mixes types"):
        table.column("bad")

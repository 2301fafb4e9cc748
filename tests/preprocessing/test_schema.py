import copy
import datetime
import decimal
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from widemargin.exceptions import DataError, TableWarning
from widemargin.preprocessing import TableSchema

DATA = {
    "age": [20, 30, None, 50],
    "rate": [0.5, None, 1.5, 2.0],
    "work": ["own", None, "state", "own"],
    "citizen": [True, False, None, True],
}


def tables():
    pandas = pd.DataFrame({**DATA, "age": pd.array(DATA["age"], dtype="Int64"), "citizen": pd.Series(DATA["citizen"])})
    return {
        "pyarrow": pa.table(DATA),
        "polars": pl.DataFrame(DATA),
        "pandas": pandas,
        "pandas-objects": pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in DATA.items()}),
        "pandas-pyarrow": pa.table(DATA).to_pandas(types_mapper=pd.ArrowDtype),
    }


@pytest.mark.parametrize("library", tables())
def test_every_library_gives_the_same_schema_and_contents(library):
    expected = TableSchema.of(pa.table(DATA))
    table = tables()[library]
    schema = TableSchema.of(table)
    assert schema == expected
    contents = schema.read(table)
    np.testing.assert_array_equal(contents.numbers, [[20, 0.5], [30, np.nan], [np.nan, 1.5], [50, 2.0]])
    assert contents.words.tolist() == [["own", "true"], [None, "false"], ["state", None], ["own", "true"]]
    assert contents.deviations == ()


def test_kinds_values_and_missing_are_learned():
    schema = TableSchema.of(pa.table(DATA), columns=["work", "age"])
    assert [(c.name, c.kind, c.has_missing, c.values) for c in schema.columns] == [
        ("work", "word", True, ("own", "state")),
        ("age", "number", True, ()),
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["own", "state"]).dictionary_encode(),
        pd.Series(["own", "state"], dtype="category"),
        pl.Series(["own", "state"], dtype=pl.Enum(["own", "state", "other"])),
    ],
    ids=["dictionary", "categorical", "enum"],
)
def test_categorical_types_are_words(column):
    library = {"pyarrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame}
    table = library[type(column).__module__.split(".")[0]]({"work": column})
    assert TableSchema.of(table).columns[0].values == ("own", "state")


def test_numbers_forced_to_be_words_have_one_spelling():
    schema = TableSchema.of(pa.table({"zip": [5, 10, 5]}), words=["zip"])
    assert schema.columns[0].values == ("10", "5")
    for column in (
        pa.array([5.0, 10.0]),
        pa.array(["5", "10"]),
        pa.array([decimal.Decimal("5"), decimal.Decimal("10")]),
    ):
        assert schema.read(pa.table({"zip": column})).words.tolist() == [["5"], ["10"]]
    assert TableSchema.of(pa.table({"share": [0.5, None]}), words=["share"]).columns[0].values == ("0.5",)


def test_a_few_texts_in_a_column_of_numbers_are_pointed_out():
    table = pa.table({"age": [*map(str, range(20)), "4o", "unknown"]})
    with pytest.warns(TableWarning, match=r"'age' is read as words, but 20 of its 22 .*are '4o', 'unknown'"):
        TableSchema.of(table)
    TableSchema.of(table, words=["age"])  # asked for: no warning
    TableSchema.of(pa.table({"code": ["1", "2", "3"]}))  # texts of digits throughout are meant as words
    TableSchema.of(pa.table({"size": ["1", "2", "large"]}))


def test_not_a_number_in_a_column_of_words_is_missing():
    assert TableSchema.of(pl.DataFrame({"code": [1.0, float("nan")]}), words=["code"]).columns[0].has_missing


def test_decimals_are_numbers():
    table = pa.table({"price": [decimal.Decimal("1.5"), None]})
    np.testing.assert_array_equal(TableSchema.of(table).read(table).numbers, [[1.5], [np.nan]])


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (np.eye(2), {}, "a table is needed .*got ndarray"),
        (pa.table({"a": pa.array([], pa.int64())}), {}, "0 rows"),
        (pa.table(DATA), {"columns": ["agee"]}, r"lacks 1 column\(s\): 'agee' \(is it 'age'\?\)"),
        (pa.table(DATA), {"columns": ["AGE"]}, r"lacks 1 column\(s\): 'AGE' \(is it 'age'\?\)"),
        (pa.table(DATA), {"columns": ["age", "age"]}, "more than once"),
        (pa.table(DATA), {"columns": []}, "no feature column is left"),
        (pa.table(DATA), {"columns": ["age"], "words": ["work"]}, "lacks 1 column.*'work'"),
        (pa.table({"a": pa.nulls(3)}), {}, "'a' holds no value at all"),
        (pa.table({"a": [float("nan")] * 2}), {}, "'a' holds no value at all"),
        (pa.table({"a": pa.array([None, None], pa.string())}), {}, "'a' holds no value at all"),
        (pd.DataFrame({"a": [None, None]}), {}, "'a' holds no value at all"),
        (
            pa.table({"a": [1.0, float("-inf"), float("inf")]}),
            {},
            r"'a' holds 2 infinite number\(s\), the first in row 1",
        ),
        (pa.table({"a": [datetime.date(2020, 1, 1)]}), {}, "'a' has type Date"),
        (pa.table({"a": [[1], [2]]}), {}, "'a' has type List"),
        (pa.table({"a": [b"x", b"\xe4"]}), {}, "'a' holds bytes that are no UTF-8 text"),
        (pd.DataFrame({"a": pd.Series(["x", 1], dtype=object)}), {}, "'a' mixes types .*first value: 'x'"),
        (pd.DataFrame({"a": pd.Series([{}, {}], dtype=object)}), {}, "'a' mixes types or holds something else"),
        (pa.table({"a": [f"id{i}" for i in range(11)]}), {"max_words": 10}, "'a' has 11 distinct words, more than 10"),
    ],
)
def test_tables_without_a_usable_schema_are_refused(table, options, message):
    with pytest.raises(DataError, match=message):
        TableSchema.of(table, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": ["1", "2.5", None, "n.a."]}, "'age' held numbers .* holds words now .in 1 of 3 cells; first: 'n.a.'"),
        ({"age": ["a", "b", None, "d"]}, "'age' held numbers in training but holds words now .*first: 'a'"),
        ({"age": [True, False, True, None]}, "'age' held numbers in training but holds true/false values now"),
        ({"age": [1.0, None, None, float("inf")]}, "'age' holds 1 infinite number"),
        ({"citizen": ["yes", "no", "no", "no"]}, "'citizen' held true/false values in training but holds words now"),
        ({"citizen": [1, 0, 1, 0]}, "'citizen' held true/false values in training but holds numbers now"),
        ({"work": [True, False, True, None]}, "'work' held words in training but holds true/false values now"),
        ({"work": [1, 2, 3, 4]}, "not one value of column 'work' was known in training .*'1', '2', '3'; known: 'own'"),
        ({"work": None}, r"lacks 1 column\(s\): 'work'"),
    ],
)
def test_tables_that_do_not_fit_are_refused(change, message):
    schema = TableSchema.of(pa.table(DATA))
    changed = {name: values for name, values in {**DATA, **change}.items() if values is not None}
    with pytest.raises(DataError, match=message):
        schema.read(pa.table(changed))


def test_up_to_three_rows_may_be_the_first_of_their_kind():
    schema = TableSchema.of(pa.table({"age": [1, 2], "work": ["own", "state"]}))
    for rows in (1, 3):
        contents = schema.read(pa.table({"age": [1] * rows, "work": ["pilot"] * rows}))
        assert [(d.column, d.n_rows, d.what) for d in contents.deviations] == [("work", rows, "unknown")]


def test_a_few_rows_of_a_column_of_names_may_all_have_new_ones():
    schema = TableSchema.of(pa.table({"age": range(30), "author": [f"{row}" * 3 for row in range(30)]}))
    contents = schema.read(pa.table({"age": range(9), "author": list("abcdefghi")}))
    assert [(d.column, d.n_rows, d.what) for d in contents.deviations] == [("author", 9, "unknown")]


@pytest.mark.parametrize("known, later", [(["1", "2", "07"], ["1.0", "2.0", None, "07", "2.0"]),
                                          (["1.0", "2.0", "07"], ["1", "2", None, "07", "2"])])  # fmt: skip
def test_a_code_that_a_csv_file_writes_as_a_number_is_the_same_word(known, later):
    """A table with a missing value of a column of integers is written with 1.0 for 1 by pandas."""
    schema = TableSchema.of(pa.table({"state": [*known, None]}), words={"state"})
    contents = schema.read(pa.table({"state": later}))
    assert contents.deviations == ()
    assert contents.words[:, 0].tolist() == [known[0], known[1], None, "07", known[1]]
    (differs,) = schema.read(pa.table({"state": ["1", "1.0", "7", "v2.0", "3.0"]})).deviations
    assert (differs.n_rows, differs.examples) == (3, ("'3.0'", "'7'", "'v2.0'"))


def test_many_absent_columns_are_summed_up():
    schema = TableSchema.of(pa.table({f"c{i}": [1] for i in range(8)}))
    with pytest.raises(DataError, match=r"lacks 8 column\(s\): .* and 3 more"):
        schema.read(pa.table({"zzz": [1]}))


def test_a_table_without_rows_is_refused():
    with pytest.raises(DataError, match="0 rows"):
        TableSchema.of(pa.table({"a": [1]})).read(pa.table({"a": pa.array([], pa.int64())}))


def test_unknown_words_and_new_missing_values_are_counted():
    schema = TableSchema.of(pa.table({"age": [1, 2], "work": ["own", "state"]}))
    contents = schema.read(pa.table({"age": [None, 3, None], "work": ["robot", "own", None], "more": [1, 2, 3]}))
    assert [(d.column, d.n_rows, d.what, d.examples) for d in contents.deviations] == [
        ("age", 2, "missing", ()),
        ("work", 1, "unknown", ("'robot'",)),
        ("work", 1, "missing", ()),
    ]


@pytest.mark.parametrize("column", [pa.nulls(4), [None, None, None, 5]])
def test_a_column_that_lost_all_its_values_differs_where_training_knew_missing_ones(column):
    schema = TableSchema.of(pa.table({"age": [1, None]}))
    differs = [(d.n_rows, d.what) for d in schema.read(pa.table({"age": column})).deviations]
    assert differs == ([(4, "missing")] if isinstance(column, pa.Array) else [])
    assert schema.read(pa.table({"age": pa.nulls(3)})).deviations == ()  # so few rows may well be alike


def test_a_column_of_nulls_is_missing_everywhere():
    schema = TableSchema.of(pa.table(DATA))
    contents = schema.read(pa.table({**DATA, "age": pa.nulls(4), "work": pa.nulls(4)}))
    assert np.isnan(contents.numbers[:, 0]).all()
    assert contents.words[:, 0].tolist() == [None] * 4


def test_values_in_messages_cannot_write_control_characters():
    schema = TableSchema.of(pa.table({"work": ["own"] * 4}))
    with pytest.raises(DataError) as caught:
        schema.read(pa.table({"work": ["\x1b[31mred" + "x" * 100] * 4}))
    assert "\x1b" not in str(caught.value)
    assert "x" * 50 not in str(caught.value)


def test_a_schema_is_saved_as_one_text():
    schema = TableSchema.of(pd.DataFrame({"age": [1.0, None], "job": ["a", "ü'\""], "own": [True, False]}))
    state = schema.__getstate__()
    assert set(state) == {"columns"} and isinstance(state["columns"], str)
    assert copy.copy(schema) == schema == pickle.loads(pickle.dumps(schema))
    earlier = object.__new__(TableSchema)
    earlier.__setstate__({"columns": schema.columns})  # a file that held an object a column
    assert earlier == schema


@pytest.mark.parametrize(
    "spoil", ['[["age", "sum", false, []]]', '[[1, "number", false, []]]', '[["a", "word", 1, ["x"]]]']
)
def test_a_text_that_is_no_schema_is_refused(spoil):
    with pytest.raises(ValueError, match="holds no column but"):
        object.__new__(TableSchema).__setstate__({"columns": spoil})

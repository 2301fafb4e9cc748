"""Tables written block by block: whole or not at all, and harmless in a spreadsheet."""

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from widemargin.cli.tables.table_writing import TableWriter, plain_text, safe_table
from widemargin.exceptions import DataError

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"]
HARMLESS = ["a=1", " =1", "1-1", "", None, "'x", "x@y"]


def test_texts_that_a_spreadsheet_would_run_get_an_apostrophe():
    table = pa.table({"t": [*FORMULAS, *HARMLESS], "=n": range(-3, 10)})
    safe = safe_table(table)
    assert safe["t"].to_pylist() == [f"'{text}" for text in FORMULAS] + HARMLESS
    assert safe.column_names == ["t", "'=n"] and safe["'=n"].to_pylist() == list(range(-3, 10))  # numbers stay numbers
    assert plain_text(safe["t"]).to_pylist() == [*FORMULAS, *HARMLESS]
    words = pa.table({"t": pa.array(["=1", "b"]).dictionary_encode()})
    assert safe_table(words)["t"].to_pylist() == ["'=1", "b"]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_blocks_are_joined(name, tmp_path):
    with TableWriter(tmp_path / "new" / name) as writer:
        writer.write(pa.table({"a": [1, 2], "b": ["x", "=y"]}))
        writer.write(pa.table({"a": [3], "b": ["z"]}))
        assert not (tmp_path / "new" / name).exists()
    read = pyarrow.csv.read_csv if name == "t.csv" else pq.read_table
    mark = "'" if name == "t.csv" else ""
    assert read(tmp_path / "new" / name).to_pydict() == {"a": [1, 2, 3], "b": ["x", f"{mark}=y", "z"]}
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), TableWriter(path) as writer:
        writer.write(pa.table({"a": [1]}))
        raise ZeroDivisionError
    assert path.read_text() == "before" and [item.name for item in tmp_path.iterdir()] == ["t.csv"]


def test_blocks_of_another_kind_are_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be written"), TableWriter(tmp_path / "t.parquet") as writer:
        writer.write(pa.table({"a": [1]}))
        writer.write(pa.table({"b": ["x"]}))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="a table is written as"):
        TableWriter(tmp_path / "t.xlsx")

import csv
import gzip
import os
import re

import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.cli.tables.csv_reading import likely_numbers
from widemargin.cli.tables.table_files import TableBlocks, read_table
from widemargin.cli.tables.table_writing import write_table
from widemargin.exceptions import DataError

TABLE = pa.table({"n": [1, 2, None], "word": ["a", None, "c"], "flag": [True, False, True]})


def write_stream(table, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "t.feather": pyarrow.feather.write_feather,
    "t.arrow": lambda table, path: pyarrow.feather.write_feather(table, path, compression="uncompressed"),
    "t.ipc": write_stream,
    "t.parquet": pyarrow.parquet.write_table,
}


@pytest.mark.parametrize("name", WRITERS)
def test_arrow_and_parquet_files_are_read(tmp_path, name):
    WRITERS[name](TABLE, tmp_path / name)
    assert read_table(tmp_path / name).equals(TABLE)


def test_parts_are_joined_in_the_order_given_whatever_the_order_of_their_columns(tmp_path):
    pyarrow.parquet.write_table(TABLE, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("flag,word,n\ntrue,d,2.5\n")
    table = read_table((tmp_path / "b.csv", tmp_path / "a.parquet"))
    assert table.column_names == ["flag", "word", "n"]
    assert table["n"].to_pylist() == [2.5, 1, 2, None]
    assert table["word"].to_pylist() == ["d", "a", None, "c"]


def test_a_folder_is_its_parquet_files_by_name(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in (10, 2, 1):
        pyarrow.parquet.write_table(pa.table({"n": [number]}), folder / f"part-{number:03}.parquet")
    (folder / "README.txt").write_text("not a part")
    assert read_table(folder)["n"].to_pylist() == [1, 2, 10]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: the folder holds no Parquet file"):
        read_table(tmp_path / "empty")


def test_parts_that_do_not_fit_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("x,z\n1,2\n")
    with pytest.raises(DataError, match=r"b\.csv: its columns differ from those of .*a\.csv: 'y', 'z' are in one of"):
        read_table((tmp_path / "a.csv", tmp_path / "b.csv"))
    (tmp_path / "b.csv").write_text("x,y\n1,word\n")
    with pytest.raises(DataError, match=r"a\.csv and 1 more: a column has different types in them"):
        read_table((tmp_path / "a.csv", tmp_path / "b.csv"))
    assert read_table((tmp_path / "a.csv", tmp_path / "b.csv"), words=["y"])["y"].to_pylist() == ["2", "word"]


def test_pipes_and_devices_are_no_tables(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"it is no file but a device or pipe"):
        read_table(tmp_path / "t.csv")


@given(st.lists(st.text("=+-@\t\r\n,\"'ab", max_size=6), min_size=1, max_size=5))
def test_no_cell_of_a_written_file_is_a_formula(tmp_path_factory, words):
    path = tmp_path_factory.mktemp("out") / "t.csv"
    write_table(pa.table({"=name": words, "n": [-1.5] * len(words)}), path)
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["'=name", "n"]
    assert [line[0].removeprefix("'") for line in lines[1:]] == [word.removeprefix("'") for word in words]
    assert not any(line[0].startswith(("=", "+", "-", "@", "\t", "\r")) for line in lines)
    assert all(line[1] == "-1.5" for line in lines[1:])  # numbers are no formulas


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_written_tables_are_read_again(tmp_path, name):
    path = tmp_path / "sub" / name
    write_table(TABLE, path)
    assert read_table(path).equals(TABLE)
    first = path.read_bytes()
    write_table(TABLE, path)
    assert path.read_bytes() == first
    if name.endswith("gz"):
        assert gzip.decompress(first).startswith(b"n,word,flag\n1,a,true\n")


def test_tables_that_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match=r"t\.xlsx: a table is written as \.csv"):
        write_table(TABLE, tmp_path / "t.xlsx")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"the table cannot be written"):
        write_table(TABLE, tmp_path / "file" / "t.csv")


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_another_separator_is_named_and_can_be_said(tmp_path, name, separator):
    opened = gzip.open if name.endswith("gz") else open
    with opened(tmp_path / name, "wt") as file:
        file.write(separator.join(["a", '"b,c"']) + "\n" + separator.join(["1,5", "x"]) + "\n")
    said = {";": "semicolon", "\t": "tab", "|": "vertical bar"}[separator]
    with pytest.raises(DataError, match=rf"{name}: the first line has no comma.*separated by {said}.*--separator"):
        read_table(tmp_path / name)
    table = read_table(tmp_path / name, separator=separator)
    assert table.to_pydict() == {"a": ["1,5"], "b,c": ["x"]}


QUOTED = b'"n","when","word"\n' + b"".join(
    f'"{number}","2024-01-{number:02}","{"NA" if number == 3 else "x"}"\n'.encode() for number in range(1, 30)
)


@pytest.mark.parametrize("gap", ["", "NA", "?"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("block", [None, 200])
def test_gaps_in_quotes_leave_columns_of_numbers_and_days_and_words_keep_theirs(
    tmp_path, monkeypatch, gap, name, block
):
    content = QUOTED.replace(b'"2"', f'"{gap}"'.encode()).replace(b'"2024-01-04"', f'"{gap}"'.encode())
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    monkeypatch.setattr("widemargin.cli.tables.csv_reading.CSV_BLOCK", block or len(content))
    blocks = [block.table for block in TableBlocks(tmp_path / name, missing=["?"]).read(["n", "when", "word"])]
    assert (len(blocks) > 1) == (block is not None)
    table = pa.concat_tables(blocks)
    assert table.schema.types == [pa.int64(), pa.date32(), pa.string()]
    assert table["n"].to_pylist() == [1, None, *range(3, 30)]
    assert table["when"].null_count == 1 and table["word"].to_pylist()[2] == "NA"
    as_words = read_table(tmp_path / name, words=["n"])
    assert as_words["n"].to_pylist()[:3] == ["1", gap, "3"]


@pytest.mark.parametrize("block", [None, 60])
def test_texts_that_are_named_as_missing_are_so_in_quotes_too(tmp_path, monkeypatch, block):
    # Some programs put every field in quotes, so that nothing else says which words stand for no value.
    words = ["White", "Unknown", "", "NA"] * 10
    (tmp_path / "t.csv").write_text("\n".join(['"n","race"', *(f'"1","{word}"' for word in words), ""]))
    monkeypatch.setattr("widemargin.cli.tables.csv_reading.CSV_BLOCK", block or 10_000)
    for named in (["Unknown"], ["Unknown", ""]):
        table = pa.concat_tables(part.table for part in TableBlocks(tmp_path / "t.csv", missing=named).read())
        assert table["race"].to_pylist() == [None if word in named else word for word in words]


def test_a_gap_among_words_of_a_later_block_is_found_there(tmp_path, monkeypatch):
    rows = [f'"{number}","{"NA" if number in (30, 50) else "word"}"' for number in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(['"n","word"', *rows, ""]))
    whole = read_table(tmp_path / "t.csv")
    monkeypatch.setattr("widemargin.cli.tables.csv_reading.CSV_BLOCK", 100)
    blocks = [block.table for block in TableBlocks(tmp_path / "t.csv").read()]
    assert len(blocks) > 5 and pa.concat_tables(blocks).to_pydict() == whole.to_pydict()
    assert whole["word"].to_pylist()[30] == whole["word"].to_pylist()[50] == "NA"


@pytest.mark.parametrize(("share", "sign", "is_gap"), [(3, "?", True), (3, "no", False), (12, "no", True)])
def test_signs_are_gaps_among_numbers_however_often_and_words_where_they_are_few(share, sign, is_gap):
    column = pa.array([sign if row % share == 0 else str(row) for row in range(120)])
    assert likely_numbers(pa.table({"n": column}))["missing"] == ((sign,) if is_gap else ())


@pytest.mark.parametrize(("extra", "decimal"), [("999", "."), ("0,250", ","), ("1,5", ","), ("1000,250", ",")])
def test_a_comma_between_thousands_is_no_decimal_comma(extra, decimal):
    """Nothing but a zero before it, or another number of digits around it, tells them apart."""
    column = [f"{1000 + 7919 * row:,}" for row in range(100)] + [extra]
    assert likely_numbers(pa.table({"n": column}))["decimal"] == decimal


def test_a_table_of_one_column_is_one(tmp_path):
    (tmp_path / "t.csv").write_text("prediction\nyes\n")
    assert read_table(tmp_path / "t.csv").to_pydict() == {"prediction": ["yes"]}
    (tmp_path / "t.tsv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"no tab.*separated by comma"):
        read_table(tmp_path / "t.tsv")


ROWS = b"sex,age,paid\n" + b"F,30,yes\nM,41,no\n" * 50
FAULTS = {
    "no line end": ("t.csv", b"sex,age,paid", "it is a single line"),
    "header only": ("t.csv", b"sex,age,paid\n", "has 0 rows"),
    "nothing": ("t.csv", b"\xef\xbb\xbf\n", "the file is empty"),
    "UTF-16": ("t.csv", ROWS.decode().encode("utf-16"), "it is UTF-16 or UTF-32 text"),
    "Latin-1": ("t.csv", ROWS.replace(b"age", b"gr\xf6\xdfe"), "line 1 is no UTF-8 text, by byte 0xf6"),
    "gzip": ("t.csv", gzip.compress(ROWS), "packed by gzip). End its name in .csv.gz"),
    "no gzip": ("t.csv.gz", ROWS, "is not packed by gzip, as .gz says"),
    "gzip cut off": ("t.csv.gz", gzip.compress(ROWS)[:-20], "write the file again"),
    "Parquet": ("t.csv", b"PAR1\0\0", "it is Parquet). End its name in .parquet"),
    "no Parquet": ("t.parquet", ROWS, "write the file again"),
    "spreadsheet": ("t.csv", b"PK\x03\x04\0\0", 'save the sheet as "CSV UTF-8"'),
    "title before the names": ("t.csv", b"Report of 2024\n" + ROWS, "If lines stand before the names of the columns"),
    "quote not closed": ("t.csv", ROWS + b'"F,30,yes\n', "row 102.*a quote not closed"),
    "no names": ("t.csv", ROWS.replace(b"sex,age", b","), "2 columns have no name: 1, 2, counted from 1"),
    "names twice": ("t.csv", ROWS.replace(b"sex", b"age"), "stand twice: 'age'"),
}
"""Name and bytes of a file, and what is said of it."""


@pytest.mark.parametrize("fault", FAULTS)
def test_files_that_are_no_tables_are_named_with_a_cure(tmp_path, fault):
    name, content, said = FAULTS[fault]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"(?s)^{tmp_path / name}: .*{re.escape(said).replace(re.escape('.*'), '.*')}"):
        read_table(tmp_path / name)

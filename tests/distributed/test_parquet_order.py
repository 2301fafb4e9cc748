"""Folders of Parquet files: which files, in which order, with which columns."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.dummy import DummyClassifier

from widemargin._files import neighbour_of, parquet_files
from widemargin.cli.tables.table_files import table_files
from widemargin.distributed import SerialMap, labelled_parquet, parquet_rows, predict_files
from widemargin.exceptions import DataError


def write(folder, name, **columns):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def test_numbers_in_names_are_numbers(tmp_path):
    for number in (0, 1, 2, 9, 10, 11, 100):
        write(tmp_path, f"part.{number}.parquet", x=[float(number)])
    firsts = SerialMap(parquet_rows(tmp_path)).map(lambda block, _: block.data["x"][0].as_py())
    assert firsts == [0.0, 1.0, 2.0, 9.0, 10.0, 11.0, 100.0]
    assert [path.name for path in table_files(tmp_path)] == [f"part.{int(number)}.parquet" for number in firsts]


def test_predictions_come_in_the_order_of_the_rows(tmp_path):
    for number in range(12):
        write(tmp_path / "in", f"part.{number}.parquet", x=[float(number)], row=[number])
    model = DummyClassifier(strategy="constant", constant=1).fit(np.zeros((2, 1)), [0, 1])
    parts = predict_files(model, tmp_path / "in", tmp_path / "out", methods=["predict"], keep=["row"])
    assert [pq.read_table(part)["row"][0].as_py() for part in parts] == list(range(12))
    assert [path.name for path in parquet_files(tmp_path / "out")] == [part.name for part in parts]


def test_folders_within_come_in_their_order_too(tmp_path):
    names = ["day=2/b.parquet", "day=2/a.pq", "day=10/a.PARQ", "day=10/x/c.Parquet"]
    for name in names:
        write(tmp_path, name, x=[1.0])
    found = [path.relative_to(tmp_path).as_posix() for path in parquet_files(tmp_path, deep=True)]
    assert found == ["day=2/a.pq", "day=2/b.parquet", "day=10/a.PARQ", "day=10/x/c.Parquet"]


def test_hidden_and_unfinished_files_are_left_out(tmp_path):
    write(tmp_path, "a.parquet", x=[1.0])
    for name in (".part-000.parquet", "_common.parquet", "_temporary/0.parquet", ".old/0.parquet"):
        write(tmp_path, name, x=[2.0])
    (tmp_path / "b.parquet.tmp").write_text("half")
    assert len(parquet_rows(tmp_path)) == 1
    assert [path.name for path in table_files(tmp_path)] == ["a.parquet"]


def test_files_of_a_folder_have_the_same_columns(tmp_path):
    first = write(tmp_path, "1.parquet", x=[1.0], y=[0])
    second = write(tmp_path, "2.parquet", y=[1], x=[2.0])  # another order
    tables = SerialMap(parquet_rows(tmp_path)).map(lambda block, _: block.data)
    assert [table.column_names for table in tables] == [["x", "y"]] * 2
    assert (
        SerialMap(parquet_rows(tmp_path, columns=["y", "x"])).map(lambda block, _: block.data.column_names)
        == [["y", "x"]] * 2
    )
    write(tmp_path, "2.parquet", x=[1.0], z=[2.0])
    with pytest.raises(DataError) as caught:
        labelled_parquet(tmp_path, "y", features=["x"])
    assert f"{second} has other columns than {first}: 'y' is in that one only, 'z' is in this one only" in str(
        caught.value
    )
    assert len(parquet_rows(tmp_path, columns=["x"])) == 2
    with pytest.raises(DataError, match=r"2\.parquet has no column 'y'"):
        parquet_rows(tmp_path, columns=["y"])


def test_unfinished_files_have_names_of_their_own(tmp_path):
    """Two workers on different machines may have the same process number."""
    names = {neighbour_of(tmp_path / "part-000001.parquet").name for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith(".part-000001.parquet.") and name.endswith(".tmp") for name in names)

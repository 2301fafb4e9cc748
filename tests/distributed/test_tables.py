"""Recipes for training rows: the same rows whatever they come from."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from widemargin.distributed import labelled_parquet, labelled_rows
from widemargin.distributed.tables import as_rows
from widemargin.exceptions import DataError

X, Y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_rows_in_memory_are_cut_alike(table):
    groups = table({"sex": ["f", "m"] * 5})
    parts = [recipe.load() for recipe in labelled_rows(sp.csr_matrix(X), list(Y), populations=groups, block_rows=4)]
    assert [part.X.shape[0] for part in parts] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), Y)
    np.testing.assert_array_equal(sp.vstack([part.X for part in parts]).toarray(), X)
    assert [list(part.populations["sex"].to_numpy()) for part in parts][2] == ["f", "m"]
    assert parts[0].sample_weight is None


def test_dask_collections_keep_their_partitions():
    dd, da = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.array")
    groups = dd.from_pandas(pd.DataFrame({"sex": ["f", "m"] * 5}), npartitions=2)
    rows = labelled_rows(da.from_array(X, chunks=(5, 2)), da.from_array(Y, chunks=5), populations=groups)
    parts = [recipe.load() for recipe in rows]
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), X)
    assert [len(part.populations) for part in parts] == [5, 5]
    with pytest.raises(DataError, match="y is not"):
        labelled_rows(da.from_array(X), Y)
    with pytest.raises(DataError, match="differ in their partitions"):
        labelled_rows(da.from_array(X, chunks=(5, 2)), da.from_array(Y, chunks=2))
    with pytest.raises(DataError, match="2 parts along its columns"):
        labelled_rows(da.from_array(X, chunks=(10, 1)), da.from_array(Y))


def test_parts_of_other_lengths_are_refused():
    with pytest.raises(DataError, match="differ in length"):
        labelled_rows(X, Y[:-1])
    with pytest.raises(DataError, match="0 rows"):
        labelled_rows(X[:0], Y[:0])
    with pytest.raises(DataError, match="block_rows is 0"):
        labelled_rows(X, Y, block_rows=0)


def test_parquet_columns(tmp_path):
    table = pa.table(
        {"a": pa.array(X[:, 0], pa.float32()), "b": Y.astype(np.int8), "w": X[:, 1], "s": ["x"] * 10, "y": Y}
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=3)
    parts = [recipe.load() for recipe in labelled_parquet(tmp_path, "y", sample_weight="w", block_rows=6)]
    assert [part.X.shape for part in parts] == [(6, 2), (4, 2)]
    assert parts[0].X.dtype == np.float32  # it holds all of these numbers
    assert parts[0].feature_names == ("a", "b")
    np.testing.assert_array_equal(np.concatenate([part.sample_weight for part in parts]), X[:, 1])
    wide = [recipe.load() for recipe in labelled_parquet(tmp_path, "y", features=["w"])]
    assert wide[0].X.dtype == np.float64
    with pytest.raises(DataError, match="no column 'z'"):
        labelled_parquet(tmp_path, "y", features=["z"])
    pq.write_table(table.select(["s", "y"]), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="no columns of numbers"):
        labelled_parquet(tmp_path, "y")
    pq.write_table(pa.table({"a": [1.0, None], "y": [0, 1]}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="1 missing"):
        labelled_parquet(tmp_path, "y")[0].load()


def test_recipes_of_users_may_load_a_dict():
    rows = as_rows({"X": X, "y": Y, "sample_weight": None, "populations": None})
    assert as_rows(rows) is rows
    assert (rows.n_rows, rows.y is Y) == (10, True)

"""The record of rows: its parts are cut together, whatever they are made of, and the data sets beside it never."""

import copy
import pickle

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from widemargin.exceptions import DataError
from widemargin.goals import External
from widemargin.rows import Rows, length_of, take

N = 7
NUMBERS = np.arange(N, dtype=float)
TABLE = {"a": list(range(N)), "b": [str(i) for i in range(N)]}


class Says:
    """A fitted model."""

    def predict(self, X):
        return np.ones(len(X))


KINDS = {
    "array": np.column_stack([NUMBERS, -NUMBERS]),
    "csr": sp.csr_matrix(np.column_stack([NUMBERS, -NUMBERS])),
    "csr array": sp.csr_array(np.column_stack([NUMBERS, -NUMBERS])),
    "pandas": pd.DataFrame(TABLE, index=range(10, 10 + N)),
    "polars": pl.DataFrame(TABLE),
    "pyarrow": pa.table(TABLE),
    "list": [[i, -i] for i in range(N)],
    "series": pd.Series(NUMBERS, index=range(10, 10 + N)),
    "polars series": pl.Series(NUMBERS),
    "chunks": pa.chunked_array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0, 6.0]]),
}


def plain(part):
    """As nested lists, to compare."""
    if sp.issparse(part):
        return part.toarray().tolist()
    if isinstance(part, pd.DataFrame):
        return part.to_numpy(dtype=object).tolist()
    if isinstance(part, pl.DataFrame):
        return [list(row) for row in part.rows()]
    if isinstance(part, pa.Table):
        return [list(row.values()) for row in part.to_pylist()]
    return part.tolist() if hasattr(part, "tolist") else part.to_pylist() if hasattr(part, "to_pylist") else list(part)


def rows(**more):
    return Rows(
        KINDS["csr"], TABLE["a"], NUMBERS + 1.0, KINDS["pandas"], baselines={"old": KINDS["series"], "model": Says()},
        **more,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@given(numbers=st.lists(st.integers(0, N - 1), max_size=2 * N), ends=st.tuples(st.integers(0, N), st.integers(0, N)))
def test_every_kind_is_cut_by_position(kind, numbers, ends):
    part, whole = KINDS[kind], plain(KINDS[kind])
    assert length_of(part) == N
    index = np.array(numbers, dtype=np.intp)
    assert plain(take(part, index)) == [whole[i] for i in numbers]
    assert plain(take(part, slice(*ends))) == whole[slice(*ends)]
    if not isinstance(part, list):
        assert type(take(part, index)) is type(part)


def test_nothing_stays_nothing():
    assert take(None, slice(2)) is None
    cut = Rows(y=[0, 1, 0]).take(np.array([2, 0]))
    assert (cut.X, cut.sample_weight, cut.populations, plain(cut.y)) == (None, None, None, [0, 0])


@given(st.lists(st.integers(0, N - 1), min_size=1, max_size=2 * N))
def test_all_parts_are_cut_together(numbers):
    cut = rows().take(np.array(numbers, dtype=np.intp))
    assert cut.n_rows == len(numbers)
    assert cut.X[:, 0].toarray().ravel().tolist() == numbers == plain(cut.y) == plain(cut.baselines["old"])
    assert cut.populations["a"].tolist() == numbers == (cut.sample_weight - 1.0).tolist()
    assert isinstance(cut.baselines["model"], Says)  # a model is asked about whatever rows are there


@given(st.integers(1, N + 2))
def test_blocks_are_runs_of_all_rows(block_rows):
    blocks = list(rows(source="s").blocks(block_rows))
    assert [i for block in blocks for i in plain(block.y)] == TABLE["a"]
    assert all(0 < block.n_rows <= block_rows and block.source == "s" for block in blocks)
    assert len(blocks) == -(-N // block_rows)


def test_external_data_sets_are_never_cut():
    traffic = External(KINDS["polars"], old=KINDS["list"])
    whole = rows(external={"traffic": traffic})
    assert whole.take(slice(2)).external["traffic"] is traffic
    assert all(not block.external for block in whole.blocks(3))


def test_an_external_data_set_is_a_record_of_rows():
    traffic = External(KINDS["array"], [1] * N, sample_weight=NUMBERS, old=TABLE["a"])
    cut = traffic.take(np.array([3, 1]))
    assert isinstance(cut, External) and repr(cut) == "External(2 rows, labelled, baselines: 'old')"
    for same in (copy.deepcopy(traffic), pickle.loads(pickle.dumps(traffic))):
        assert (same.n_rows, plain(same.baselines["old"])) == (N, TABLE["a"])
    assert traffic.replaced(source="traffic").title == "external 'traffic'" and traffic.source is None


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"X": np.zeros((3, 1)), "y": [0, 1]}, "y has length 2 and the data 3 rows; give one value per row"),
        ({"y": [0, 1], "sample_weight": [1.0], "source": "s"}, "sample_weight has length 1 and external 's' 2 rows"),
        ({"y": [0, 1], "sample_weight": [[1.0, 1.0]]}, r"sample_weight has shape \(1, 2\)"),
        ({"y": [0, 1], "populations": pd.DataFrame({"a": [1]})}, "populations has 1 rows and the data 2"),
        ({"y": [0, 1], "baselines": {"h": [0, 1, 1]}}, "baseline 'h' has length 3 and the data 2 rows"),
        ({"populations": {"a": [1]}}, "a dict of 1 entries was given in place of a table"),
        ({"populations": iter([1])}, "a list_iterator has no number of rows; give an array, a list or a table"),
    ],
)
def test_parts_of_different_lengths_are_refused(parts, message):
    with pytest.raises(DataError, match=message):
        Rows(**parts)


def test_rows_without_any_part_have_no_number():
    nothing = Rows(baselines={"model": Says()}, source="s")
    with pytest.raises(DataError, match="there are no rows in external 's'"):
        assert not nothing.n_rows


def test_the_length_of_a_collection_is_not_asked_for():
    assert Rows(da.zeros((4, 2), chunks=(2, 2)), [0, 1]).n_rows == 2

"""One set of laws for all back ends: what is computed, in which order it is added, what survives a loss."""

import os
import threading
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from joblib import parallel_config

from clusters import kill_a_worker, small_cluster
from widemargin.distributed import (
    DaskMap,
    JoblibMap,
    SerialMap,
    array_rows,
    block_map,
    frame_partitions,
    npy_rows,
    parquet_rows,
    spool,
)
from widemargin.distributed.backends import JoinedMap
from widemargin.distributed.blocks import bytes_of
from widemargin.exceptions import DataError, MissingDataError, WorkerLostError

N = 5003
VALUES = np.random.default_rng(0).normal(size=N)
BLOCKS = 20  # more than one run of summands


class Sums(NamedTuple):
    total: float
    square: np.ndarray
    rows: int


def sums(block, message):
    x = block.data["x"]
    return Sums(x.sum() * message, np.outer(x[:2], x[:2]), x.size)


def states_sum(block, message):
    return {"state": 0.0 if block.state is None else float(block.state.sum()), "steps": block.n_advances}


def moved(block, message):
    before = 0.0 if block.state is None else block.state
    return 0.5 * before + block.data["x"] * message


def index(block, message):
    return block.index, None if message is None else message["add"]


def noted(block, message):
    """How often this block has been seen, as its notes say; and a product with the message, noted if it may be."""
    block.scratch["seen"] = block.scratch.get("seen", 0) + 1
    if block.scratch.get("serial") != message["serial"]:
        block.scratch["product"] = block.data["x"] * message["by"]
        block.scratch["serial"] = message["serial"]
    return float(block.scratch["product"].sum())


def cut(data, message):
    return {"x": data["x"][data["x"] > message]}


def broken(block, message):
    if block.index == 3:
        raise ZeroDivisionError("the third")


def deadly(block, message):
    if block.index == 1:
        os._exit(1)


def of_two_kinds(block, message):
    return np.zeros(3 if block.index else 4)


@pytest.fixture
def blocks(make):
    made = make(array_rows({"x": VALUES}, block_rows=257))
    assert made.n_blocks == BLOCKS
    yield made
    made.close()


def test_map_answers_in_the_order_of_the_blocks(blocks):
    assert blocks.map(index, {"add": 2}) == [(i, 2) for i in range(BLOCKS)]


def test_sums_are_the_same_to_the_last_bit(blocks):
    """By runs of sixteen blocks, then runs of their sums, each from left to right."""
    parts = [VALUES[i : i + 257] for i in range(0, N, 257)]
    totals = [part.sum() * 3.0 for part in parts]
    runs = [sum(totals[i + 1 : i + 16], totals[i]) for i in range(0, BLOCKS, 16)]
    found = blocks.sum(sums, 3.0)
    assert isinstance(found, Sums)
    assert found.total == sum(runs[1:], runs[0])
    assert found.rows == N
    np.testing.assert_allclose(found.square, sum(np.outer(part[:2], part[:2]) for part in parts), rtol=1e-14)


def test_states_live_with_their_blocks(blocks):
    assert blocks.sum(states_sum) == {"state": 0.0, "steps": 0}
    for step in (1.0, 2.0, 4.0):
        blocks.advance(moved, step)
    found = blocks.sum(states_sum)
    assert found["steps"] == 3 * BLOCKS
    assert found["state"] == pytest.approx(VALUES.sum() * (4.0 + 0.5 * (2.0 + 0.5)), rel=1e-12)
    blocks.advance(moved, 1.0, restart=True)
    assert blocks.sum(states_sum)["steps"] == BLOCKS


def test_a_restart_does_not_see_the_state_before(blocks):
    blocks.advance(moved, 1.0)
    blocks.advance(moved, 1.0, restart=True)
    assert blocks.sum(states_sum)["state"] == pytest.approx(VALUES.sum(), rel=1e-12)


def test_notes_are_kept_where_they_can_and_never_needed(blocks):
    first = blocks.sum(noted, {"serial": 1, "by": 2.0})
    again = blocks.sum(noted, {"serial": 1, "by": 2.0})
    other = blocks.sum(noted, {"serial": 2, "by": 3.0})
    assert first == again == pytest.approx(2.0 * VALUES.sum(), rel=1e-12)
    assert other == pytest.approx(3.0 * VALUES.sum(), rel=1e-12)


def test_large_messages_arrive(blocks):
    large = np.arange(20_000.0)
    assert blocks.map(lambda block, message: float(message[-1] + block.index), large)[5] == 20_004.0


def test_prepared_blocks_have_other_data_and_no_state(blocks):
    blocks.advance(moved, 1.0)
    fewer = blocks.prepared(cut, 0.0).prepared(cut, 1.0)
    assert fewer.sum(sums, 1.0).rows == int((VALUES > 1.0).sum())
    assert fewer.sum(states_sum)["steps"] == 0
    assert blocks.sum(states_sum)["steps"] == BLOCKS


@pytest.mark.parametrize("hold", [True, False])
def test_few_rows_come_near_and_many_do_not(make, hold):
    far = make(array_rows({"x": VALUES}, block_rows=257), hold=hold).prepared(cut, 0.0)
    rows = far.sum(sums, 1.0)
    near = far.near(8 * rows.rows)
    assert not isinstance(near, DaskMap)
    assert near.n_blocks == BLOCKS
    assert near.sum(sums, 1.0).total == rows.total
    assert np.array_equal(near.sum(sums, 1.0).square, rows.square)
    assert far.near(8 * rows.rows - 1) is far
    joined = JoinedMap([far, far])
    assert joined.near(8 * rows.rows).sum(sums, 1.0).total == joined.sum(sums, 1.0).total


@pytest.mark.parametrize("kind", ["numpy", "sparse", "pandas", "polars", "pyarrow", "column"])
def test_all_kinds_of_rows_have_their_size(kind):
    """A kind whose bytes are not counted would be fetched from a cluster whatever its size."""
    X = np.ones((1000, 3))
    rows = {
        "numpy": lambda: X,
        "sparse": lambda: sp.csr_matrix(X),
        "pandas": lambda: pd.DataFrame(X),
        "polars": lambda: pytest.importorskip("polars").DataFrame(dict.fromkeys("abc", X[:, 0])),
        "pyarrow": lambda: pa.table(dict.fromkeys("abc", X[:, 0])),
        "column": lambda: {"X": X[:, :2], "y": pd.Series(X[:, 2]), "sample_weight": None},
    }[kind]()
    assert 24_000 <= bytes_of(rows) <= 50_000


def test_errors_of_functions_come_through(blocks):
    with pytest.raises(ZeroDivisionError, match="the third"):
        blocks.sum(broken)
    with pytest.raises(ZeroDivisionError, match="the third"):
        blocks.advance(broken)
    assert blocks.sum(sums, 1.0).rows == N


def test_results_of_two_kinds_are_refused(blocks):
    with pytest.raises(DataError, match=r"an array of shape \(4,\) and an array of shape \(3,\)"):
        blocks.sum(of_two_kinds)


def test_rows_that_are_not_held_are_read_again(make, tmp_path):
    recipes = spool({"x": VALUES}, tmp_path, block_rows=1000)
    blocks = make(recipes, hold=False)
    blocks.advance(moved, 1.0)
    assert blocks.sum(sums, 1.0).rows == N
    np.save(tmp_path / "x.npy", np.ones(N))
    assert blocks.sum(sums, 1.0).total == N
    assert blocks.sum(states_sum)["state"] == pytest.approx(VALUES.sum(), rel=1e-12)


def test_sparse_rows(make):
    X = sp.random_array((100, 7), density=0.3, format="csr", random_state=0)
    found = make(array_rows({"X": X}, block_rows=30)).sum(
        lambda block, w: block.data["X"].T @ (block.data["X"] @ w), np.ones(7)
    )
    np.testing.assert_allclose(found, X.T @ (X @ np.ones(7)), rtol=1e-12)


def test_parquet_folders(make, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "year=1").mkdir()
    pq.write_table(
        pa.table({"x": VALUES[:3000], "y": np.zeros(3000)}), tmp_path / "year=1" / "a.parquet", row_group_size=700
    )
    pq.write_table(pa.table({"x": VALUES[3000:], "y": np.zeros(N - 3000)}), tmp_path / "b.parquet", row_group_size=700)
    recipes = parquet_rows(tmp_path, columns=["x"], block_rows=1500)
    assert [recipe.n_rows for recipe in recipes] == [
        1400,
        603,
        1400,
        1400,
        200,
    ]  # in order of name, joined within a file
    blocks = make(recipes)
    assert blocks.sum(lambda block, _: block.data.num_rows) == N
    assert blocks.map(lambda block, _: block.data.column_names) == [["x"]] * 5


def test_partitions_of_dask_frames(make):
    import dask.dataframe as dd
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame({"x": VALUES}), npartitions=5)
    found = make(frame_partitions(frame[frame.x > 0.0])).sum(lambda block, _: float(block.data["x"].sum()))
    assert found == pytest.approx(VALUES[VALUES > 0.0].sum(), rel=1e-12)


def test_threads_work_side_by_side_and_without_a_new_pool_of_joblib_for_every_call(monkeypatch):
    monkeypatch.setattr("widemargin.distributed.backends.Parallel", None)
    meeting = threading.Barrier(2, timeout=60)  # each of two blocks waits until the other is worked on, too
    blocks = JoblibMap(array_rows({"x": VALUES}, block_rows=-(-N // 2)), 2)
    assert blocks.map(lambda block, _: (meeting.wait() >= 0, block.index)) == [(True, 0), (True, 1)]
    with pytest.raises(ZeroDivisionError):
        blocks.sum(lambda block, _: 1 // block.index)


def test_joblib_processes_give_the_same():
    recipes = array_rows({"x": VALUES}, block_rows=1000)
    blocks, serial = JoblibMap(recipes), SerialMap(recipes)
    with parallel_config(backend="loky", n_jobs=2):
        for each in (blocks, serial):
            each.advance(moved, 1.0 / 3.0)
        assert blocks.sum(states_sum) == serial.sum(states_sum)


def test_killed_workers_change_nothing(dask_client, tmp_path):
    """Between calls and while they run; blocks in memory and in files."""
    serial = SerialMap(array_rows({"x": VALUES}, block_rows=500))
    kinds = (array_rows({"x": VALUES}, block_rows=500), spool({"x": VALUES}, tmp_path, block_rows=500))
    clusters = [DaskMap(recipes, dask_client) for recipes in kinds]
    for step in (1.0, 1.0 / 3.0):
        for each in (serial, *clusters):
            each.advance(moved, step)
    wanted = serial.sum(states_sum)
    for each in clusters:
        kill_a_worker(dask_client)
        assert each.sum(states_sum) == wanted
    dask_client.wait_for_workers(2)


@pytest.mark.parametrize("connects", [True, False])
def test_many_rows_in_memory_are_sent_to_the_workers_and_again_after_a_loss(dask_client, monkeypatch, connects):
    monkeypatch.setattr("widemargin.distributed.dask_map._connects", lambda *_: connects)
    recipes = array_rows({"x": np.resize(VALUES, 400_000)}, block_rows=200_000)
    scatter, sent = dask_client.scatter, []
    monkeypatch.setattr(dask_client, "scatter", lambda *given, **how: sent.append(given) or scatter(*given, **how))
    maps = [each.prepared(cut, 0.0) for each in (SerialMap(recipes), DaskMap(recipes, dask_client))]
    for each in maps:
        each.advance(moved, 1.0 / 3.0)
    totals = [each.sum(states_sum) for each in maps]
    assert totals[0] == totals[1] and len(sent) == 2 * connects
    kill_a_worker(dask_client)
    assert maps[1].sum(states_sum) == totals[0]
    assert len(sent) == 3 * connects
    dask_client.wait_for_workers(2)


def test_tasks_whose_workers_die_again_and_again_end_with_an_error(dask_client, monkeypatch):
    monkeypatch.setattr(dask_client.cluster.scheduler, "allowed_failures", 0)
    blocks = DaskMap(array_rows({"x": VALUES}, block_rows=3000), dask_client, attempts=2)
    with pytest.raises(WorkerLostError, match="deadly lost its workers 2 times in a row on 2 blocks"):
        blocks.sum(deadly)
    dask_client.wait_for_workers(2)
    assert blocks.sum(sums, 1.0).rows == N


def test_a_cluster_without_workers_is_not_waited_for_in_vain():
    with small_cluster(0) as client, pytest.raises(WorkerLostError, match=r"has had no worker for 0\.1 s"):
        DaskMap(array_rows({"x": VALUES}), client, patience=0.1).sum(sums, 1.0)


def test_a_call_is_no_task_and_else_one_a_thread_however_many_blocks(dask_client, monkeypatch):
    blocks = DaskMap(array_rows({"x": VALUES}, block_rows=50), dask_client)
    blocks.advance(moved, 1.0)
    submit, sent = dask_client.submit, []
    monkeypatch.setattr(dask_client, "submit", lambda *given, **named: sent.append(given[0]) or submit(*given, **named))

    def called():
        total, numbers = blocks.sum(sums, 1.0), blocks.map(index)
        assert len(numbers) == blocks.n_blocks > 100
        return total, numbers, len(sent)

    asked = called()
    monkeypatch.setattr(dask_client, "run", lambda *given, **named: {})  # as if no worker held a block
    as_tasks = called()
    assert (asked[2], as_tasks[2]) == (0, 2 * sum(dask_client.nthreads().values()))
    np.testing.assert_equal(asked[:2], as_tasks[:2])


@pytest.mark.parametrize("hold", [False, True])
def test_prepared_rows_stay_in_the_bundles_of_their_source(dask_client, monkeypatch, hold):
    """Bundles were counted anew: with a worker more or less, or rows not held, there was none to a number."""
    blocks = DaskMap(array_rows({"x": VALUES}, block_rows=50), dask_client)
    monkeypatch.setattr(dask_client, "nthreads", lambda: {"of a new worker": 7})
    other = blocks.prepared(lambda data, _: {"x": data["x"] + 1.0}, hold=hold)
    assert [number for number, _ in other.map(index)] == list(range(blocks.n_blocks))
    assert other.sum(sums, 1.0).total == pytest.approx(VALUES.sum() + N)


def test_which_back_end(dask_client):
    recipes = array_rows({"x": VALUES})
    assert type(block_map(recipes)) is SerialMap
    assert type(block_map(recipes, 1)) is SerialMap
    assert type(block_map(recipes, -1)) is JoblibMap
    assert type(block_map(recipes, dask_client)) is DaskMap
    for wrong, text in ((0, "workers is 0"), ("dask", "workers is a str"), (True, "workers is a bool")):
        with pytest.raises(DataError, match=text):
            block_map(recipes, wrong)


def test_recipes_that_cannot_be_followed_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"differ in their number of rows: \{'x': 3, 'y': 2\}"):
        array_rows({"x": np.zeros(3), "y": np.zeros(2)})
    with pytest.raises(DataError, match="no rows"):
        array_rows({"x": np.zeros(0)})
    with pytest.raises(DataError, match="block_rows is 0"):
        array_rows({"x": np.zeros(3)}, block_rows=0)
    with pytest.raises(MissingDataError, match=r"x\.npy"):
        npy_rows({"x": tmp_path / "x.npy"})
    with pytest.raises(MissingDataError, match=r"no Parquet file .*\*\.parquet"):
        parquet_rows(tmp_path)
    (tmp_path / "a.parquet").write_text("no table")
    with pytest.raises(DataError, match=r"a\.parquet is no Parquet file"):
        parquet_rows(tmp_path)
    with pytest.raises(DataError, match="'y' is a sparse matrix"):
        spool({"y": sp.csr_array((3, 3))}, tmp_path)
    with pytest.raises(DataError, match="a list is no Dask collection"):
        frame_partitions([1])
    with pytest.raises(DataError, match="no blocks"):
        SerialMap([])


def test_array_parts_along_columns_are_refused():
    import dask.array as da

    with pytest.raises(DataError, match="2 parts along its columns"):
        frame_partitions(da.zeros((4, 4), chunks=(2, 2)))

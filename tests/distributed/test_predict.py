"""Predictions in blocks are those of the model."""

import threading

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from clusters import kill_a_worker
from widemargin import KernelSVC
from widemargin.distributed import predict_files, predict_in_blocks
from widemargin.exceptions import CapabilityError, DataError

X, Y = make_blobs(300, centers=3, n_features=2, cluster_std=3.0, random_state=0)
NAMES = np.array(["a", "b", "c"])[Y]
FRAME = pd.DataFrame(X, columns=["u", "v"]).assign(who=np.arange(300))
THREE = LogisticRegression().fit(FRAME[["u", "v"]], NAMES)


@pytest.fixture(scope="module")
def two():
    """A kernel model of two classes; made here, as every process of the suite imports this file, and it compiles."""
    return KernelSVC(random_state=0).fit(X[Y < 2], NAMES[Y < 2])


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_arrays(two, method):
    lazy = predict_in_blocks(two, da.from_array(X, chunks=(70, 2)), method=method)
    assert lazy.shape == (300,)
    assert lazy.chunks == ((70, 70, 70, 70, 20),)
    found, wanted = lazy.compute(scheduler=dask.get), getattr(two, method)(X)
    if method == "predict":
        assert found.tolist() == wanted.tolist()
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
def test_frames_on_a_cluster(dask_client, method):
    frame = dd.from_pandas(FRAME, npartitions=4)
    lazy = predict_in_blocks(THREE, frame, method=method)
    wanted = getattr(THREE, method)(FRAME[["u", "v"]])
    assert lazy.dtype == wanted.dtype
    if method == "predict":
        assert lazy.compute().tolist() == wanted.tolist()
    else:
        np.testing.assert_allclose(lazy.compute(), wanted, rtol=1e-10)


@pytest.mark.parametrize("workers", [None, "dask"])
def test_files_into_files(tmp_path, workers, request):
    client = request.getfixturevalue("dask_client") if workers == "dask" else None
    pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "all.parquet", row_group_size=40)
    killer = threading.Timer(0.05, kill_a_worker, (client,)) if client else threading.Timer(0.0, int)
    killer.start()
    methods = ("predict", "decision_function", "predict_proba")
    parts = predict_files(
        THREE, tmp_path / "all.parquet", tmp_path / "out", methods=methods, keep=["who"], workers=client
    )
    killer.join()
    assert [part.name for part in parts] == [f"part-{k:06d}.parquet" for k in range(8)]
    assert sorted((tmp_path / "out").iterdir()) == parts
    found = pq.read_table(tmp_path / "out").to_pandas()
    assert found.who.tolist() == FRAME.who.tolist()
    assert found.prediction.tolist() == THREE.predict(FRAME[["u", "v"]]).tolist()
    scores = found[[f"score {name}" for name in "abc"]].to_numpy()
    np.testing.assert_allclose(scores, THREE.decision_function(FRAME[["u", "v"]]), rtol=1e-12)
    if client:
        client.wait_for_workers(2)


def test_what_cannot_be_done_is_said(two, tmp_path):
    with pytest.raises(DataError, match="X is a ndarray; give a Dask"):
        predict_in_blocks(two, X)
    with pytest.raises(CapabilityError, match="cannot be asked by 'score'; it offers predict, decision_function"):
        predict_in_blocks(THREE, da.from_array(X), method="score")
    with pytest.raises(DataError, match="2 parts along its columns"):
        predict_in_blocks(two, da.from_array(X, chunks=(100, 1)))
    pq.write_table(pa.Table.from_pandas(FRAME), tmp_path / "all.parquet")
    with pytest.raises(DataError, match="is no empty folder"):
        predict_files(THREE, tmp_path / "all.parquet", tmp_path)
    with pytest.raises(DataError, match="has no column 'nobody'"):
        predict_files(THREE, tmp_path / "all.parquet", tmp_path / "out", keep=["nobody"])

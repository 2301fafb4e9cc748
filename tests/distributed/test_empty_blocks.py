"""Partitions that a filter has emptied change nothing."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

from widemargin import RateConstrainedClassifier, audit, margin_report
from widemargin.distributed import (
    JoinedMap,
    SerialMap,
    array_rows,
    frame_partitions,
    labelled_rows,
    predict_files,
    predict_in_blocks,
)
from widemargin.estimators.rate_constrained.ramp_model import gathered
from widemargin.exceptions import DataError

N, NAMES = 600, ["a", "b", "c"]
GOAL = """
women = population(sex == "f")
minimize error_rate()
subject to floor: recall() >= 0.6
subject to cap: positive_rate(women) <= 0.5
"""
PLAN = {"max_steps": 2, "enforce": "randomized", "tol": 1e-2, "step_tol": 1e-2}


def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((N, 3)), columns=NAMES)
    frame["sex"] = rng.choice(["f", "m"], N)
    frame["y"] = np.where(frame["a"] + 0.5 * rng.standard_normal(N) > 0.4, "yes", "no")
    return frame.assign(k=np.arange(N))


FRAME = table()
KEPT = FRAME[(FRAME.k < 150) | (FRAME.k >= 400)]
MODEL = LogisticRegression().fit(FRAME[NAMES], FRAME["y"])


def filtered():
    """The rows kept, in six partitions: 100, 50, 0, 0, 100, 100."""
    rows = dd.from_pandas(FRAME, npartitions=6)
    return rows[(rows.k < 150) | (rows.k >= 400)]


def length(block, _):
    return block.index, len(block.data)


@pytest.mark.parametrize("hold", [True, False])
def test_filled_maps_hold_the_other_blocks_numbered_anew(make, hold):
    blocks = make(frame_partitions(filtered()), hold=hold)
    assert blocks.filled().map(length) == [(0, 100), (1, 50), (2, 100), (3, 100)]
    assert blocks.n_blocks == 6
    with pytest.raises(DataError, match=r"none of 6 block\(s\) holds rows"):
        make(frame_partitions(filtered()[filtered().k < 0]), hold=hold).filled()


def test_partitions_of_parts_count_their_rows(make):
    """Their data are dicts, whose length is no number of rows."""
    frame = filtered()
    blocks = make(labelled_rows(frame[NAMES], frame.y)).filled()
    assert blocks.n_blocks == 4


def test_full_maps_stay_themselves(make):
    blocks = make(array_rows({"x": np.ones(10)}, block_rows=3))
    assert blocks.filled() is blocks
    assert JoinedMap([blocks, blocks]).filled().n_blocks == 8


@pytest.mark.parametrize("cluster", [False, True])
def test_training_is_that_without_them(request, cluster):
    if cluster:
        request.getfixturevalue("dask_client")
    full = [KEPT[KEPT.k // 100 == part] for part in (0, 1, 4, 5)]
    recipes = [labelled_rows(part[NAMES], part.y, populations=part[["sex"]])[0] for part in full]
    here = RateConstrainedClassifier(GOAL, **gathered(PLAN)).fit_blocks(SerialMap(recipes))
    rows = filtered()
    model = RateConstrainedClassifier(GOAL, **gathered(PLAN)).fit(rows[NAMES], rows.y, populations=rows[["sex"]])
    assert np.array_equal(model.coef_, here.coef_)
    assert model.goal_report_.objective == here.goal_report_.objective
    nothing = rows[rows.k < 0]
    with pytest.raises(DataError, match="none of 6"):
        RateConstrainedClassifier(GOAL).fit(nothing[NAMES], nothing.y, populations=nothing[["sex"]])


def test_audits_and_margin_reports():
    rows = filtered()
    here = audit(MODEL, GOAL, KEPT[NAMES], KEPT["y"], populations=KEPT)
    said = rows.assign(said=rows.map_partitions(lambda part: part.y, meta=("said", "object")))
    assert audit(MODEL, GOAL, rows, "y")["cap"].rate == here["cap"].rate
    assert audit("said", GOAL, said, "y")["floor"].rate == 1.0
    margins, wanted = margin_report(MODEL, rows, "y").overall, margin_report(MODEL, KEPT[NAMES], KEPT["y"]).overall
    assert margins.n_rows == wanted.n_rows
    assert margins.mean == pytest.approx(wanted.mean, rel=1e-12)
    nothing = rows[rows.k < 0]
    for measured in (lambda: audit(MODEL, GOAL, nothing, "y"), lambda: margin_report(MODEL, nothing, "y")):
        with pytest.raises(DataError, match="no rows"):
            measured()


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_proba"])
def test_predictions(method):
    wanted = getattr(MODEL, method)(KEPT[NAMES])
    rows = filtered()
    found = predict_in_blocks(MODEL, rows[NAMES], method=method).compute()
    assert found.dtype == wanted.dtype
    # A BLAS product of a part of the rows may differ in the last bits from that of all of them.
    assert (found == wanted).all() if method == "predict" else np.allclose(found, wanted, rtol=1e-12, atol=1e-15)
    assert predict_in_blocks(MODEL, rows[rows.k < 0][NAMES], method=method).compute().shape == (0, *wanted.shape[1:])


def test_array_chunks_without_rows():
    clf = LogisticRegression().fit(FRAME[NAMES].to_numpy(), FRAME["y"])
    X = da.from_array(KEPT[NAMES].to_numpy(), chunks=((0, 100, 0, 250), 3))
    np.testing.assert_array_equal(predict_in_blocks(clf, X).compute(), clf.predict(KEPT[NAMES].to_numpy()))


def test_files_without_rows(tmp_path):
    folder, names = tmp_path / "in", ["part.0", "part.1", "part.2"]
    folder.mkdir()
    for name, part in zip(names, (KEPT[:0], KEPT, KEPT[:0]), strict=True):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), folder / f"{name}.parquet")
    here = audit(MODEL, GOAL, KEPT[NAMES], KEPT["y"], populations=KEPT)
    assert audit(MODEL, GOAL, folder, "y", workers=2)["cap"].rate == here["cap"].rate
    assert margin_report(MODEL, folder, "y").overall.n_rows == len(KEPT)
    parts = predict_files(MODEL, folder, tmp_path / "out", methods=["predict"])
    assert [pq.read_metadata(part).num_rows for part in parts] == [len(KEPT)]

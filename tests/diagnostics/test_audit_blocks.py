"""Rows in blocks give the report of all rows at once, wherever the blocks are."""

import threading

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

from clusters import kill_a_worker
from widemargin import External, RateConstrainedClassifier, audit
from widemargin.exceptions import DataError, MissingDataError
from widemargin.goals import Goal, Population, churn, col, error_rate, positive_rate, recall

N = 3000


def people(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "sex": rng.choice(["f", "m"], n)})
    frame["paid"] = np.where(frame.a + rng.normal(size=n) > 0.5, "yes", "no")
    frame["deployed"] = np.where(frame.b > 0, "yes", "no")
    frame["w"] = rng.choice([0.5, 1.0, 2.0], n)
    return frame


FRAME = people(N, 0)
OTHER = people(500, 1)
X = FRAME[["a", "b"]]
women, men = (Population(name, where=col("sex") == letter) for name, letter in (("women", "f"), ("men", "m")))
GOAL = Goal(
    error_rate(),
    [
        positive_rate(women) >= 0.8 * positive_rate(men),
        recall() >= 0.3,
        churn("deployed") <= 0.6,
        churn("deployed", on=Population.external("traffic")) <= 0.5,
    ],
)
EXTERNAL = {"traffic": External(OTHER[["a", "b"]], deployed=OTHER.deployed)}
MODEL = LogisticRegression().fit(X, FRAME.paid)


@pytest.fixture(scope="module")
def wanted():
    return audit(MODEL, GOAL, X, FRAME.paid, populations=FRAME, external=EXTERNAL, sample_weight=FRAME.w).to_dict()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("parts")
    for i in range(3):
        part = FRAME.assign(predicted=MODEL.predict(X), unused=0.0).iloc[1000 * i : 1000 * (i + 1)]
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), place / f"{i}.parquet", row_group_size=400)
    return place


@pytest.mark.parametrize("workers", [None, 2, "dask"])
def test_parquet_folders(folder, wanted, workers, request):
    workers = request.getfixturevalue("dask_client") if workers == "dask" else workers
    found = audit(MODEL, GOAL, folder, "paid", external=EXTERNAL, sample_weight="w", workers=workers)
    assert found.to_dict() == wanted


def test_dask_frames_whose_columns_are_named(dask_client, wanted):
    frame = dd.from_pandas(FRAME, npartitions=4)
    traffic = dd.from_pandas(OTHER, npartitions=2)
    external = {"traffic": External(traffic[["a", "b"]], deployed=traffic.deployed)}
    assert audit(MODEL, GOAL, frame, "paid", external=external, sample_weight="w").to_dict() == wanted


def test_dask_collections_side_by_side(wanted):
    """Predictions, labels, weights, populations: partition by partition; no client is in force here."""
    frame = dd.from_pandas(FRAME, npartitions=3)
    said = {None: frame.a.map_partitions(predicted, meta=("p", object)), "traffic": MODEL.predict(OTHER[["a", "b"]])}
    found = audit(said, GOAL, y=frame.paid, populations=frame, external=EXTERNAL, sample_weight=frame.w, workers=1)
    assert found.to_dict() == wanted


def predicted(a):
    return pd.Series(MODEL.predict(X.loc[a.index]), index=a.index)


def test_predictions_in_a_column(folder):
    in_memory = audit(MODEL.predict(X), "subject to floor: recall() >= 0.3", y=FRAME.paid)
    found = audit("predicted", "subject to floor: recall() >= 0.3", folder, "paid")
    assert found.to_dict() == in_memory.to_dict()
    # which class is positive is known: one pass, in which the negative one shows itself
    found = audit("predicted", "subject to floor: recall() >= 0.3", folder, "paid", pos_label="yes")
    assert found.to_dict() == in_memory.to_dict()


def test_randomised_classifiers_and_models_as_baselines(folder):
    goal = "minimize error_rate(); subject to floor: recall() >= 0.5; subject to near: churn('old') <= 0.9"
    clf = RateConstrainedClassifier(goal, max_steps=2, random_state=0).fit(
        X, FRAME.paid, populations=pd.DataFrame({"old": MODEL.predict(X)})
    )
    in_memory = audit(clf, goal, X, FRAME.paid, baselines={"old": MODEL})
    found = audit(clf, goal, dd.from_pandas(FRAME[["a", "b", "paid"]], npartitions=3), "paid", baselines={"old": MODEL})
    left, right = in_memory.to_dict(), found.to_dict()
    for one, other in zip(left["constraints"], right["constraints"], strict=True):
        for key in ("ramp_rate", "ramp_slack"):  # sums of probabilities, in another order
            assert one.pop(key) == pytest.approx(other.pop(key), rel=1e-12)
    assert left["constraints"] == right["constraints"]


def test_a_worker_killed_during_the_audit_changes_nothing(dask_client, wanted):
    frame = dd.from_pandas(FRAME, npartitions=12)
    killer = threading.Timer(0.2, kill_a_worker, (dask_client,))
    killer.start()
    try:
        for _ in range(3):
            assert audit(MODEL, GOAL, frame, "paid", external=EXTERNAL, sample_weight="w").to_dict() == wanted
    finally:
        killer.join()
    dask_client.wait_for_workers(2)


def test_what_does_not_fit_is_named(folder, tmp_path):
    floor = "subject to floor: recall() >= 0.3"
    frame = dd.from_pandas(FRAME, npartitions=3)
    with pytest.raises(DataError, match=r"X has no column 'income' \(y\)"):
        audit(MODEL, floor, frame, "income", workers=1)
    with pytest.raises(DataError, match=r"has no column 'income'"):
        audit(MODEL, floor, folder, "income")
    with pytest.raises(DataError, match="y is a Series, beside rows in blocks"):
        audit(MODEL, floor, frame, FRAME.paid)
    with pytest.raises(DataError, match=r"numbers of partitions differ: \{'X': 3, 'y': 2\}"):
        audit(MODEL, floor, frame[["a", "b"]], frame.paid.repartition(npartitions=2))
    with pytest.raises(DataError, match=r"X lacks 1 column\(s\) of the model: 'b'"):
        audit(MODEL, floor, frame[["a", "paid"]], "paid", workers=1)
    with pytest.raises(MissingDataError, match="no Parquet file"):
        audit(MODEL, floor, tmp_path, "paid")
    with pytest.raises(DataError, match="needs rows to classify"):
        audit(MODEL, floor, None, frame.paid)
    with pytest.raises(DataError, match="no predictions for external 'traffic'"):
        audit({None: frame.paid}, GOAL, y=frame.paid, populations=frame, external=EXTERNAL, workers=1)

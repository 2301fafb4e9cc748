"""Margin reports of rows in blocks: sums exactly, quantiles up to the sketch."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from widemargin import margin_report
from widemargin.diagnostics.margin_sketch import MarginCounts, MarginSketch
from widemargin.exceptions import DataError

N = 4000
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.standard_t(2, size=N), "age": RNG.choice([9, 10, 11], N)})
FRAME["paid"] = np.where(FRAME.a + RNG.normal(size=N) > 0.5, "yes", "no")
FRAME["w"] = RNG.choice([0.0, 0.5, 1.0, 2.0], N)
X = FRAME[["a", "b"]]
MODEL = LogisticRegression().fit(X, FRAME.paid)

EXACT = {"n_rows": 0.0, "weight": 1e-14, "mean": 1e-12, "sd": 1e-12, "skewness": 1e-9, "minimum": 1e-14, "below": 1e-13}


def check(found, wanted, *, unit_off=0.0):
    """Every number of two reports, to what is promised; `unit_off`: what they are divided by is off by as much."""
    assert (found.source, found.unit, found.n_missing) == (wanted.source, wanted.unit, wanted.n_missing)
    assert [item.name for item in found.groups] == [item.name for item in wanted.groups]
    for one, other in zip((found.overall, *found.groups), (wanted.overall, *wanted.groups), strict=True):
        for name, bound in EXACT.items():
            off = bound + unit_off if name in ("mean", "sd", "minimum") else bound
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=off, abs=1e-300), name
        assert one.catoni_radius == pytest.approx(other.catoni_radius, rel=1e-12 + unit_off)
        for name in ("median", "catoni", "quantiles"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1.0 / 4096.0 + unit_off), name
        low, high = other.quantiles[1:3]
        assert abs(one.iqr - other.iqr) <= (abs(low) + abs(high)) * (1.0 / 4096.0 + unit_off)


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize(
    "how", [{}, {"level": 0.3}, {"normalize": "median"}, {"normalize": "max"}, {"normalize": "norm"}]
)
def test_reports_of_blocks(how, weight):
    wanted = margin_report(
        MODEL, X, FRAME.paid, FRAME.age, sample_weight=None if weight is None else FRAME[weight], **how
    )
    frame = dd.from_pandas(FRAME, npartitions=7)
    found = margin_report(MODEL, frame, "paid", "age", sample_weight=weight, workers=1, **how)
    check(found, wanted, unit_off=1.0 / 4096.0 if how.get("normalize") == "median" else 0.0)


def test_a_cluster_and_files_give_the_same_bits(dask_client, tmp_path):
    one = margin_report(MODEL, dd.from_pandas(FRAME, npartitions=5), "paid", "age", workers=1)
    other = margin_report(MODEL, dd.from_pandas(FRAME, npartitions=5), "paid", "age", workers=dask_client)
    assert one == other
    FRAME.to_parquet(tmp_path / "all.parquet", row_group_size=900)
    check(margin_report(MODEL, tmp_path, "paid", "age"), margin_report(MODEL, X, FRAME.paid, FRAME.age))


def test_scores_in_blocks():
    scores = MODEL.decision_function(X)
    found = margin_report(
        da.from_array(scores, chunks=1500), y=da.from_array(FRAME.paid.to_numpy(dtype=object), chunks=1500),
        classes=["no", "yes"], workers=1,
    )  # fmt: skip
    check(found, margin_report(scores, y=FRAME.paid))


def test_the_sketch_is_small_and_merges_in_any_order():
    margins = np.random.default_rng(1).lognormal(sigma=3.0, size=200_000)
    ones = np.ones_like(margins)
    sketch = MarginSketch.of(margins, ones, 1.0)
    assert sketch.keys.shape[0] < 70_000
    parts = [MarginSketch.of(part, np.ones_like(part), 1.0) for part in np.array_split(margins, 9)]
    there, back = parts[0], parts[-1]
    for one, other in zip(parts[1:], parts[-2::-1], strict=True):
        there, back = there.joined(one), back.joined(other)
    for joined in (there, back):
        np.testing.assert_array_equal(joined.keys, sketch.keys)
        np.testing.assert_allclose(joined.sums, sketch.sums, rtol=1e-12)
        np.testing.assert_allclose(joined.moments, sketch.moments, rtol=1e-8)
        assert (joined.n_rows, joined.below, joined.minimum) == (sketch.n_rows, sketch.below, sketch.minimum)
    values, _ = sketch.buckets
    nearest = values[np.abs(values[:, None] - margins[:50]).argmin(axis=0)]
    assert (np.abs(nearest / margins[:50] - 1.0) <= 1.0 / 4096.0).all()


def test_what_cannot_be_counted_is_refused():
    frame = dd.from_pandas(FRAME, npartitions=2)
    with pytest.raises(DataError, match=r"level=0.3 with normalize='median' needs the size"):
        margin_report(MODEL, frame, "paid", normalize="median", level=0.3)
    with pytest.raises(DataError, match="give classes="):
        margin_report(da.zeros(4), y=da.zeros(4))
    with pytest.raises(DataError, match="two kinds or two levels"):
        one, other = MarginCounts(0.0), MarginCounts(0.0)
        for counts, level in ((one, 0.0), (other, 1.0)):
            counts.level, counts.overall = level, MarginSketch.of(np.ones(2), np.ones(2), level)
        one.merge(other)
    with pytest.raises(DataError, match="divides by 0"):
        margin_report(da.zeros(4), y=da.from_array([0, 1, 0, 1]), classes=[0, 1], normalize="max", workers=1)

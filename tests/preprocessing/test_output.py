"""`set_output` on every transformer: the same numbers, in a frame with the names of the columns."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.pipeline import make_pipeline

from widemargin import RateConstrainedClassifier
from widemargin.preprocessing import QuantileBins, TablePreprocessor, ThermometerEncoder

NUMBERS = pd.DataFrame({"age": [20.0, 40.0, np.nan, 33.0, 20.0], "gain": [0.0, 0.0, 5.0, 0.0, 1.0]})
WORDS = NUMBERS.assign(work=["own", None, "state", "own", "own"])
CASES = [
    (TablePreprocessor(), WORDS), (TablePreprocessor(numbers="bins", n_bins=3), WORDS),
    (QuantileBins(3), NUMBERS), (ThermometerEncoder(3), NUMBERS),
]  # fmt: skip


@pytest.mark.parametrize(("step", "table"), CASES, ids=["table", "bins in table", "bins", "thermometer"])
@pytest.mark.parametrize("given", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("asked", ["pandas", "polars"])
def test_frames_hold_the_same_numbers(step, table, given, asked):
    table = {"pandas": table, "polars": pl.from_pandas(table), "pyarrow": pa.Table.from_pandas(table)}[given]
    plain = sklearn.clone(step).fit(table)
    frame = sklearn.clone(step).set_output(transform=asked).fit_transform(table)
    assert isinstance(frame, pd.DataFrame if asked == "pandas" else pl.DataFrame)
    assert list(frame.columns) == plain.get_feature_names_out().tolist()
    assert any("age" in name for name in frame.columns)
    np.testing.assert_array_equal(frame.to_numpy(), plain.transform(table).toarray())


def test_the_setting_for_everything_works_as_well():
    for step, table in CASES:
        expected = sklearn.clone(step).fit_transform(table).toarray()
        with sklearn.config_context(transform_output="pandas"):
            frame = sklearn.clone(step).fit_transform(table)
        np.testing.assert_array_equal(frame.to_numpy(), expected)


def test_a_dense_step_gives_a_frame_as_well():
    step = TablePreprocessor(sparse_output=False)
    expected = sklearn.clone(step).fit_transform(WORDS)
    frame = step.set_output(transform="pandas").fit_transform(WORDS)
    assert list(frame.columns) == step.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), expected)


def test_models_behind_a_frame_know_its_names():
    y = [0, 1, 0, 1, 0]
    model = make_pipeline(TablePreprocessor(), RateConstrainedClassifier()).set_output(transform="pandas")
    model.fit(WORDS, y)
    assert model[-1].feature_names_in_.tolist() == model[0].get_feature_names_out().tolist()
    plain = make_pipeline(TablePreprocessor(), RateConstrainedClassifier()).fit(WORDS, y)
    np.testing.assert_allclose(model.decision_function(WORDS), plain.decision_function(WORDS), atol=1e-6)

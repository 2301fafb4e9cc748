import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline

from widemargin.exceptions import DataError, TableWarning
from widemargin.preprocessing import TablePreprocessor, make_preprocessor

TABLE = pa.table({"age": [20, 40, None, 60], "work": ["own", None, "state", "own"], "sex": ["F", "M", "F", "M"]})


@pytest.mark.parametrize("numbers", ["scale", "bins"])
@pytest.mark.parametrize("library", [pl.from_arrow, pa.Table.to_pandas], ids=["polars", "pandas"])
def test_every_library_gives_the_same_matrix(numbers, library):
    step = make_preprocessor(["age", "work"], numbers=numbers).fit(TABLE)
    other = make_preprocessor(["age", "work"], numbers=numbers).fit(library(TABLE))
    encoded = step.transform(TABLE)
    assert sparse.issparse(encoded) and encoded.format == "csr"
    assert encoded.shape == (4, len(step.get_feature_names_out()))
    np.testing.assert_array_equal(encoded.toarray(), other.transform(library(TABLE)).toarray())


def test_scaled_numbers_have_mean_0_and_missing_ones_the_median_and_a_mark():
    encoded = make_preprocessor(["age"]).fit_transform(TABLE).toarray()
    scale = np.std([20, 40, 60])
    np.testing.assert_allclose(encoded, [[-20 / scale, 0], [0, 0], [0, 1], [20 / scale, 0]])


def test_only_the_features_are_used_and_the_order_is_theirs():
    step = make_preprocessor(["work", "age"]).fit(TABLE)
    assert step.feature_names_in_.tolist() == ["work", "age"]
    assert step.n_features_in_ == 2
    assert not any("sex" in name for name in step.get_feature_names_out())
    shuffled = TABLE.select(["sex", "age", "work"])
    np.testing.assert_array_equal(step.transform(shuffled).toarray(), step.transform(TABLE).toarray())


def test_tables_of_one_kind_work():
    assert make_preprocessor(["age"]).fit_transform(TABLE).shape == (4, 2)
    assert make_preprocessor(["work"]).fit_transform(TABLE).shape == (4, 3)


def test_fallbacks_are_counted_in_one_warning():
    step = make_preprocessor(["age", "work"]).fit(TABLE.slice(0, 2))
    later = pa.table({"age": [None, 30, 30], "work": ["robot", "own", "robot"]})
    with pytest.warns(TableWarning) as caught:
        encoded = step.transform(later).toarray()
    assert len(caught) == 1
    assert "'age' is missing in 1 of 3 rows (never in training)" in str(caught[0].message)
    assert "'work' holds unknown words in 2 of 3 rows ('robot')" in str(caught[0].message)
    names = step.get_feature_names_out().tolist()
    assert names == ["age", "work = own", "work missing"]
    np.testing.assert_array_equal(encoded, [[0, 0, 0], [0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize("numbers", ["scale", "bins"])
def test_a_pipeline_is_cloned_and_cross_validated(numbers):
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 60, 200)
    table = pd.DataFrame({"age": age, "work": rng.choice(["own", "state"], 200)})
    y = (age > 40).astype(int)
    model = Pipeline([("table", make_preprocessor(numbers=numbers)), ("model", LogisticRegression())])
    assert cross_val_score(clone(model), table, y, cv=3).min() > 0.9


def test_input_and_parameters_are_left_alone():
    columns = ["age", "work"]
    step = TablePreprocessor(columns, words=("work",))
    before = step.get_params()
    table = pd.DataFrame({"age": [1.0, np.nan], "work": ["a", "b"]})
    copy = table.copy()
    step.fit(table).transform(table)
    assert step.get_params() == before and columns == ["age", "work"]
    pd.testing.assert_frame_equal(table, copy)


def test_bad_options_are_named():
    with pytest.raises(DataError, match="'scale' or 'bins'; got 'log'"):
        TablePreprocessor(numbers="log").fit(TABLE)
    with pytest.raises(DataError, match="a table is needed"):
        make_preprocessor().fit(np.eye(3))
    with pytest.raises(DataError, match="2 distinct words, more than 1"):
        TablePreprocessor(max_words=1).fit(TABLE)

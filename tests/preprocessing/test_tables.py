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
from widemargin.persistence import load_model, save_model
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
    assert "'age' is missing in 1 of 3 rows (unlike in training)" in str(caught[0].message)
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


def test_numbers_that_cannot_be_scaled_are_named():
    with pytest.raises(DataError, match="column 'b' holds numbers whose squares overflow"):
        make_preprocessor().fit(pd.DataFrame({"a": [1.0, None, 3.0], "b": [1e200, 0.0, None]}))


def test_bad_options_are_named():
    with pytest.raises(DataError, match="'scale' or 'bins'; got 'log'"):
        TablePreprocessor(numbers="log").fit(TABLE)
    with pytest.raises(DataError, match="a table is needed"):
        make_preprocessor().fit(np.eye(3))
    with pytest.raises(DataError, match="2 distinct words, more than 1"):
        TablePreprocessor(max_words=1).fit(TABLE)


def test_rare_words_share_a_column_which_unknown_ones_get_too(tmp_path):
    words = ["own"] * 5 + ["state"] * 4 + ["robot", "clerk", None]
    flags = [True] * 8 + [False] * 4
    table = pa.table({"work": words, "flag": flags})
    step = make_preprocessor(rare_words=4).fit(table)
    assert step.get_feature_names_out().tolist() == [
        "work = own", "work = state", "work rare", "flag = false", "flag = true",
    ]  # fmt: skip
    encoded = step.transform(table).toarray()
    assert encoded[:, 2].tolist() == [0] * 9 + [1] * 3
    assert (encoded.sum(axis=1) == 2).all()
    with pytest.warns(TableWarning, match=r"unknown words in 1 of 2 rows \('pilot'\).*Unknown words count as rare"):
        later = step.transform(pa.table({"work": ["own", "pilot"], "flag": [True, False]})).toarray()
    np.testing.assert_array_equal(later, [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0]])
    path = tmp_path / "m.skops"
    labels = [0, 1] * 6
    model = Pipeline([("table", step), ("model", LogisticRegression())]).fit(table, labels)
    save_model(model, path)
    np.testing.assert_array_equal(load_model(path)[0].transform(table).toarray(), encoded)


@pytest.mark.parametrize("rare_words", [1, 2])
def test_codes_of_words_go_by_how_many_rows_have_them(tmp_path, rare_words):
    words = ["b", "a", "a", None, None, None, "c", "b", "a", "a"]
    table = pa.table({"age": range(10), "work": words, "flag": [True] * 8 + [False] * 2})
    step = make_preprocessor(rare_words=rare_words, word_codes=True).fit(table)
    assert step.get_feature_names_out().tolist() == ["age", "work", "flag"]
    by_hand = {"a": 1, None: 2, "b": 3, "c": 4}
    encoded = step.transform(table).toarray()
    np.testing.assert_array_equal(encoded[:, 1:], [[by_hand[word], 1 + (i > 7)] for i, word in enumerate(words)])
    with pytest.warns(TableWarning, match="unknown words in 1 of 2 rows"):
        later = step.transform(pa.table({"age": [1, 2], "work": ["c", "new"], "flag": [True, True]})).toarray()
    assert later[:, 1].tolist() == [4, 0 if rare_words == 1 else 4]
    path = tmp_path / "m.skops"
    save_model(Pipeline([("table", step), ("model", LogisticRegression())]).fit(table, [0, 1] * 5), path)
    np.testing.assert_array_equal(load_model(path)[0].transform(table).toarray(), encoded)


def test_without_rare_words_nothing_is_shared():
    step = make_preprocessor(rare_words=2).fit(pa.table({"work": ["a", "a", "b", "b"]}))
    assert step.get_feature_names_out().tolist() == ["work = a", "work = b"]
    with pytest.warns(TableWarning):
        assert step.transform(pa.table({"work": ["a", "c"]})).toarray().tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("value", [0, -1, 2.5, "2", True])
def test_a_strange_number_of_rare_words_is_refused(value):
    with pytest.raises(DataError, match="rare_words must be a whole number above 0; got"):
        make_preprocessor(rare_words=value).fit(TABLE)


@pytest.mark.parametrize("numbers", ["scale", "bins"])
def test_months_and_weekdays_of_dates_are_features_where_they_are_asked_for(numbers):
    # the first is before 1970, where numbers of days are negative
    days = pd.to_datetime(pd.Series(["1969-12-31 23:00", "2024-02-29", None, "2024-07-01 12:30"]), format="ISO8601")
    frame = pd.DataFrame({"opened": days, "sum": [1.0, 2.0, 3.0, 5.0]})
    plain = TablePreprocessor(dates=["opened"], numbers=numbers).fit(frame)
    step = TablePreprocessor(dates=["opened"], date_parts=["month", "weekday"], numbers=numbers).fit(frame)
    names, before = step.get_feature_names_out().tolist(), plain.get_feature_names_out().tolist()
    X = step.transform(frame).toarray()
    assert names[: len(before)] == before and len(names) == X.shape[1] == len(before) + 12 + 7
    assert np.array_equal(X[:, : len(before)], plain.transform(frame).toarray())
    said = [[name for name, value in zip(names, row, strict=True) if value and " = " in name] for row in X]
    wanted = [("December", "Wednesday"), ("February", "Thursday"), None, ("July", "Monday")]
    assert said == [
        [] if pair is None else [f"opened month = {pair[0]}", f"opened weekday = {pair[1]}"] for pair in wanted
    ]
    with pytest.raises(DataError, match="date_parts holds 'year'"):
        TablePreprocessor(dates=["opened"], date_parts=["year"]).fit(frame)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_texts_of_days_are_dates_where_they_are_asked_for(make):
    texts = ["31.1.2024", None, "01.02.2024 12:00", "2024-02-01T14:00:00+02:00"]
    step = TablePreprocessor(dates=["opened"]).fit(make({"opened": texts}))
    days = pd.Series(["2024-01-31", None, *2 * ["2024-02-01 12:00"]])
    wanted = step.transform(pd.DataFrame({"opened": pd.to_datetime(days, format="ISO8601")}))
    assert np.array_equal(step.transform(make({"opened": texts})).toarray(), wanted.toarray())
    said = r"column 'opened' is to hold dates and holds '31/01/2024' in row 2. Write days as 2024-01-31 or 31"
    for use in (step.transform, TablePreprocessor(dates=["opened"]).fit):
        with pytest.raises(DataError, match=said):
            use(make({"opened": ["2024-01-31", None, "31/01/2024"]}))


def test_a_step_that_was_saved_before_dates_had_parts_still_transforms():
    frame = pd.DataFrame({"opened": pd.to_datetime(["2024-02-29", "2024-07-01"])})
    step = TablePreprocessor(dates=["opened"]).fit(frame)
    del step.__dict__["date_parts"]
    assert step.transform(frame).shape == (2, 1)

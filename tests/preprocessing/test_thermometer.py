import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import RateConstrainedClassifier, ThermometerEncoder, load_model, save_model
from widemargin.exceptions import ModelFileError


@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.floats(-1e6, 1e6) | st.just(0.0)),
    st.integers(1, 12),
)
def test_columns_are_the_comparisons_they_are_named_after(X, n_thresholds):
    encoder = ThermometerEncoder(n_thresholds).fit(X)
    expected = [X[:, [j]] >= thresholds[None, :] for j, thresholds in enumerate(encoder.thresholds_)]
    np.testing.assert_array_equal(encoder.transform(X).toarray(), np.hstack(expected))
    for column, thresholds in zip(X.T, encoder.thresholds_, strict=True):
        assert len(thresholds) <= n_thresholds + 2
        assert (np.diff(thresholds) > 0).all()
        assert np.isin(thresholds, column).all()
        assert (thresholds > column.min()).all()  # a column that is 1 everywhere says nothing


def test_thresholds_are_quantiles():
    X = np.random.default_rng(0).normal(size=(1001, 1))
    (thresholds,) = ThermometerEncoder(9).fit(X).thresholds_
    np.testing.assert_allclose(thresholds, np.quantile(X, np.arange(1, 10) / 10), atol=0.02)


def test_a_dominant_value_does_not_use_up_the_thresholds():
    X = np.concatenate([np.zeros(90), np.arange(1, 11)])[:, None]
    (thresholds,) = ThermometerEncoder(4).fit(X).thresholds_
    np.testing.assert_array_equal(thresholds, [1, 3, 5, 7, 9])


def test_missing_values_reach_nothing_and_have_an_indicator_where_training_had_some():
    X = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [1.0, 2.0, 3.0]})
    encoder = ThermometerEncoder(2).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["a >= 2", "a missing", "b >= 2", "b >= 3"]
    later = encoder.transform(pd.DataFrame({"a": [np.nan, 5.0], "b": [np.nan, 2.5]}))
    np.testing.assert_array_equal(later.toarray(), [[0, 1, 0, 0], [1, 0, 1, 0]])


def test_constant_columns_make_no_column():
    encoder = ThermometerEncoder().fit([[5.0, 1.0], [5.0, 2.0]])
    np.testing.assert_array_equal(encoder.transform([[7.0, 2.0], [5.0, 0.0]]).toarray(), [[1], [0]])


def test_indices_are_32_bit_and_sorted():
    encoded = ThermometerEncoder().fit_transform(np.arange(40.0).reshape(20, 2))
    assert encoded.indices.dtype == encoded.indptr.dtype == np.int32
    assert encoded.has_sorted_indices


def test_a_linear_model_learns_a_step_that_is_not_linear():
    x = np.linspace(0.0, 1.0, 200)[:, None]
    y = (x[:, 0] > 0.3) & (x[:, 0] < 0.6)
    model = make_pipeline(ThermometerEncoder(20), RateConstrainedClassifier(C=10.0)).fit(x, y)
    assert (model.predict(x) == y).mean() > 0.95


def test_a_saved_pipeline_decides_as_before(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = make_pipeline(ThermometerEncoder(3), RateConstrainedClassifier()).fit(X, X[:, 0] > 0)
    save_model(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").decision_function(X), model.decision_function(X))
    with pytest.raises(ModelFileError, match="a ThermometerEncoder predicts nothing"):
        save_model(model[0], tmp_path / "m.skops")


def test_no_thresholds_are_refused():
    with pytest.raises(ValueError, match="n_thresholds"):
        ThermometerEncoder(0).fit([[1.0]])


@parametrize_with_checks([ThermometerEncoder(n_thresholds=3)])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)

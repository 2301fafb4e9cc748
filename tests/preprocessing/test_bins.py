import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.preprocessing import QuantileBins


@given(
    arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.floats(-1e6, 1e6) | st.just(0.0)),
    st.integers(2, 12),
)
def test_every_known_number_is_in_exactly_one_bin_and_the_order_is_kept(X, n_bins):
    bins = QuantileBins(n_bins).fit(X)
    encoded = bins.transform(X).toarray()
    assert encoded.shape[1] == len(bins.get_feature_names_out())
    start = 0
    for j, edges in enumerate(bins.edges_):
        block = encoded[:, start : start + len(edges) + 1]
        start += len(edges) + 1
        np.testing.assert_array_equal(block.sum(axis=1), 1)
        number = block.argmax(axis=1)
        order = np.argsort(X[:, j], kind="stable")
        assert (np.diff(number[order]) >= 0).all()
        assert len(edges) <= n_bins + 1


def test_a_spike_has_its_own_bin_and_the_rest_keeps_its_resolution():
    X = np.concatenate([np.zeros(90), np.arange(1, 11)])[:, None]
    bins = QuantileBins(5).fit(X)
    np.testing.assert_array_equal(bins.edges_[0], [1, 3, 5, 7, 9])
    counts = bins.transform(X).toarray().sum(axis=0)
    np.testing.assert_array_equal(counts, [90, 2, 2, 2, 2, 2])


def test_a_spike_between_other_values_is_cut_off_on_both_sides():
    X = np.concatenate([[-2.0, -1.0], np.zeros(20), [1.0, 2.0]])[:, None]
    counts = QuantileBins(2).fit(X).transform(X).toarray().sum(axis=0)
    assert 20 in counts


def test_bins_hold_about_equally_many_rows_without_ties():
    X = np.random.default_rng(0).normal(size=(1000, 1))
    counts = QuantileBins(10).fit(X).transform(X).toarray().sum(axis=0)
    np.testing.assert_allclose(counts, 100, atol=1)


def test_missing_numbers_have_a_bin_where_training_had_some_and_none_elsewhere():
    X = np.array([[1.0, 1.0], [2.0, 2.0], [np.nan, 3.0]])
    bins = QuantileBins(2).fit(X)
    names = bins.get_feature_names_out(["a", "b"]).tolist()
    assert names == ["a < 2", "a >= 2", "a missing", "b < 2", "b >= 2"]
    later = bins.transform([[np.nan, np.nan]]).toarray()
    np.testing.assert_array_equal(later, [[0, 0, 1, 0, 0]])


def test_constant_and_empty_columns_make_one_bin():
    bins = QuantileBins().fit([[5.0, np.nan], [5.0, np.nan]])
    assert bins.get_feature_names_out(["a", "b"]).tolist() == ["a known", "b known", "b missing"]
    np.testing.assert_array_equal(bins.transform([[7.0, 1.0]]).toarray(), [[1, 1, 0]])


def test_indices_are_32_bit():
    encoded = QuantileBins().fit_transform(np.arange(20.0)[:, None])
    assert encoded.indices.dtype == encoded.indptr.dtype == np.int32


def test_too_few_bins_are_refused():
    with pytest.raises(ValueError, match=r"n_bins must be at least 2\. Got 1"):
        QuantileBins(1).fit([[1.0]])


@parametrize_with_checks([QuantileBins(n_bins=3)])
def test_scikit_learn_conformance(estimator, check):
    check(estimator)

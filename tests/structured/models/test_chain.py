"""Sequences: features, states of any kind, lengths, empty sequences."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin.exceptions import DataError
from widemargin.structured.models import ChainModel


def two():
    return [np.ones((3, 2)), np.ones((1, 2))], [["a", "b", "a"], ["c"]]


@given(seed=st.integers(0, 10**6), T=st.integers(1, 4), S=st.integers(1, 3), weight=st.sampled_from(cases.WEIGHTS))
def test_features_and_losses(seed, T, S, weight):
    model, truth, u, theta, brute = cases.chain(seed, T, S, weight)
    own = model.features(None, truth)
    for y, h, g in zip(brute.labels, brute.h, brute.g, strict=True):
        A, b = model.features(None, y)
        assert ((A - own.A) * u).sum() + (b - own.b) @ theta == pytest.approx(h - 1.0, abs=1e-9)
        assert model.loss(y, truth) == pytest.approx(g)


def test_states_may_be_strings():
    X, Y = two()
    model = ChainModel(weights={"b": 2.0})
    assert model.prepare(X, Y) == (2, 3, 9)
    assert model.states.tolist() == ["a", "b", "c"]
    assert model.encode(["c", "a"]).tolist() == [2, 0]
    assert model.loss(["a", "a", "b"], ["a", "b", "a"]) == 3.0
    u = np.array([[0.0, 0.0, 5.0], [1.0, 0.0, 0.0]])
    assert model.decode(None, u, np.zeros(9)).tolist() == ["c", "a"]


def test_sparse_sequences_are_stacked():
    X, Y = two()
    model = ChainModel()
    model.prepare([sp.csr_array(x) for x in X], Y)
    rows, start = model.stack([sp.csr_array(x) for x in X])
    assert rows.shape == (4, 2)
    assert start.tolist() == [0, 3, 4]


def test_a_longer_sequence_after_a_shorter_one():
    """The workspace grows with the sequences."""
    for T in (1, 3, 2, 5):
        model, truth, u, theta, brute = cases.chain(T, T, 2)
        long = model.oracle(None, truth, u, theta)
        assert long.direct().h * long.direct().g == pytest.approx(brute.best_product())
    model, truth, u, theta, _ = cases.chain(0, 2, 2)
    first = model.oracle(None, truth, u, theta)
    H = first.levels()
    model.decode(None, np.zeros((50, 2)), theta)
    assert (first.levels()[:3] == H[:3]).all()
    assert first.level(1) is not None


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([np.ones((0, 2))], [[]], "example 0: a sequence is empty"),
        ([np.ones((2, 2))], [["a"]], "example 0 has 2 steps, its label 1"),
        ([np.ones((1, 2)), np.ones((1, 3))], [["a"], ["a"]], "example 1 has 3 columns"),
        ([np.ones(2)], [["a", "b"]], "give a matrix with one step per row"),
        ([np.ones((1, 2))], [["a"], ["b"]], "there are 1 examples and 2 labels"),
        ([], [], "there are no examples"),
        ([np.ones((2, 2))], [np.array([["a"], ["b"]])], r"label 0 has the shape \(2, 1\): give a sequence of states"),
        ([np.ones((2, 2))], [[(1, 2), (1, 3)]], r"label 0 has the shape \(2, 2\)"),
        ([np.ones((2, 2))], ["ab"], r"label 0 has the shape \(\)"),
        ([np.ones((2, 2))] * 2, [[1, 2], ["a", "b"]], "some labels are numbers, others strings"),
        ([np.ones((2, 2))], [[1, None]], "states cannot be sorted.*numbers only, or strings only"),
        ([np.ones((2, 2))], [[1.0, np.nan]], "a state is nan"),
    ],
)
def test_bad_sequences(X, Y, message):
    with pytest.raises(DataError, match=message):
        ChainModel().prepare(X, Y)


def test_labels_outside_the_model():
    model = ChainModel()
    model.prepare(*two())
    with pytest.raises(DataError, match=r"step 1 has the state .*z"):
        model.encode(["a", "z"])
    with pytest.raises(DataError, match="empty sequence"):
        model.encode([])
    with pytest.raises(DataError, match="names 'z'"):
        ChainModel(weights={"z": 1.0}).prepare(*two())
    with pytest.raises(DataError, match="3 finite numbers"):
        ChainModel(weights=[1.0]).prepare(*two())

"""`ChainSVC`: lists of sequences in, lists of states out."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_predict

from widemargin import ChainSVC, StructuralSVM
from widemargin.exceptions import DataError
from widemargin.structured.models import ChainModel

OPTIONS = {"C": 0.5, "tol": 0.05, "max_iter": 2000, "random_state": 0}


def sequences(n=30, seed=0):
    """A state that lasts three steps, and noisy sight of it."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        states = np.repeat(rng.integers(0, 3, 2), 3)[: rng.integers(3, 7)]
        X.append(np.eye(3)[states] + 0.6 * rng.normal(size=(states.shape[0], 3)))
        Y.append(np.array(["a", "b", "c"])[states])
    return X, Y


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_it_is_the_structural_svm_of_its_model(rescaling):
    X, Y = sequences()
    clf = ChainSVC(rescaling=rescaling, **OPTIONS).fit(X, Y)
    wide = [np.hstack([x, np.ones((x.shape[0], 1))]) for x in X]
    svm = StructuralSVM(ChainModel(), rescaling=rescaling, **OPTIONS).fit(wide, Y)
    np.testing.assert_array_equal(clf.coef_, svm.coef_[:-1].T)
    np.testing.assert_array_equal(clf.theta_, svm.theta_)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.n_features_in_ == 3
    assert clf.certified_
    assert clf.score(X, Y) == pytest.approx(np.mean(np.concatenate(clf.predict(X)) == np.concatenate(Y)))
    assert clf.score(X, Y) > 0.8
    theta = clf.theta_.reshape(3, 3)
    assert np.trace(theta) > theta.sum() - np.trace(theta)  # states last


def test_predictions_of_folds_are_joined():
    """Lists of sequences that differ in length could not be, and those of equal length became a matrix."""
    X, Y = sequences()
    for sizes in ([len(x) for x in X], [3] * len(X)):
        x, y = ([one[:size] for one, size in zip(part, sizes, strict=True)] for part in (X, Y))
        found = cross_val_predict(ChainSVC(**OPTIONS), x, y, cv=KFold(3))
        fold = ChainSVC(**OPTIONS).fit(x[10:], y[10:]).predict(x[:10])
        assert found.shape == (len(x),)
        assert [states.tolist() for states in found[:10]] == [states.tolist() for states in fold]
        assert [len(states) for states in found] == sizes


def test_long_sequences_are_trained_with_margin_rescaling():
    """With slack rescaling this ended with a gap of 39% after 1000 passes."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(160, 4)) for _ in range(20)]
    Y = [(x[:, 0] + 0.3 * rng.normal(size=160) > 0.0).astype(int) for x in X]
    clf = ChainSVC(C=0.05, random_state=0).fit(X, Y)
    assert (clf.search_, clf.status_) == ("margin", "converged")
    assert clf.score(X, Y) > 0.9
    short = ChainSVC(C=0.05, random_state=0).fit([x[:32] for x in X], [y[:32] for y in Y])
    assert short.search_ != "margin"


def test_predictions_have_the_largest_score():
    X, Y = sequences(10)
    clf = ChainSVC(**OPTIONS).fit(X, Y)
    theta = clf.theta_.reshape(3, 3)
    for x, found in zip(X, clf.predict(X), strict=True):
        u = x @ clf.coef_.T + clf.intercept_
        best = max(
            itertools.product(range(3), repeat=len(x)),
            key=lambda y: sum(u[t, s] for t, s in enumerate(y)) + sum(theta[a, b] for a, b in itertools.pairwise(y)),
        )
        assert found.tolist() == clf.classes_[list(best)].tolist()


def test_sparse_sequences_and_no_intercept():
    X, Y = sequences(10)
    dense = ChainSVC(**OPTIONS).fit(X, Y)
    sparse = ChainSVC(**OPTIONS).fit([sp.csr_matrix(x) for x in X], Y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
    assert sparse.score([sp.csr_array(x) for x in X], Y) == dense.score(X, Y)
    assert not clone(dense).set_params(solver_options={"fit_intercept": False}).fit(X, Y).intercept_.any()


def test_bad_input():
    X, Y = sequences(5)
    with pytest.raises(DataError, match="sequence 1 has shape"):
        ChainSVC().fit([X[0], X[1][:0], *X[2:]], Y)
    with pytest.raises(DataError, match=r"sequence 0 has shape \(3,\): give a matrix"):
        ChainSVC().fit(pd.DataFrame(X[0], columns=["a", "b", "c"]), Y[0])
    with pytest.raises(DataError, match="sequence 0 holds NaN"):
        ChainSVC().fit([X[0] * np.nan, *X[1:]], Y)
    with pytest.raises(DataError, match=r"example 2 has . steps, its label"):
        ChainSVC().fit(X, [*Y[:2], Y[2][:-1], *Y[3:]])
    with pytest.raises(DataError, match="5 examples and 4 labels"):
        ChainSVC().fit(X, Y[:-1])
    with pytest.raises(DataError, match="the target y is None"):
        ChainSVC().fit(X, None)
    clf = ChainSVC(**OPTIONS).fit(X, Y)
    with pytest.raises(DataError, match="has 2 columns; the model knows 3"):
        clf.predict([X[0][:, :2]])
    with pytest.raises(DataError, match="other lengths"):
        clf.score(X, Y[::-1] + Y[:1])
    with pytest.raises(NotFittedError):
        ChainSVC().predict(X)


def test_a_score_with_weights_repeats_sequences():
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(length, 2)) for length in (3, 5, 4, 6, 2)]
    Y = [(x[:, 0] + rng.normal(size=len(x)) > 0.0).astype(int) for x in X]
    svm = ChainSVC(C=1.0, random_state=0).fit(X, Y)
    some = [0, 0, 2, 3, 3, 3]
    assert svm.score(X, Y, [2, 0, 1, 3, 0]) == pytest.approx(svm.score([X[i] for i in some], [Y[i] for i in some]))


def test_sequences_are_cut_where_nobody_has_looked():
    X, Y = sequences()
    marked = [[None if t == 2 else state for t, state in enumerate(own)] for own in Y]
    marked[0][0] = np.nan  # beside texts, which NumPy would take for one more text
    clf = ChainSVC(**OPTIONS).fit(X, marked, sample_weight=np.arange(1.0, 31.0))
    parts = [(i, first, last) for i, x in enumerate(X) for first, last in ((i == 0, 2), (3, len(x))) if last > first]
    cut = ChainSVC(**OPTIONS).fit(
        [X[i][first:last] for i, first, last in parts], [Y[i][first:last] for i, first, last in parts],
        sample_weight=[i + 1.0 for i, _, _ in parts],
    )  # fmt: skip
    np.testing.assert_array_equal(clf.coef_, cut.coef_)
    np.testing.assert_array_equal(clf.theta_, cut.theta_)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    known = [np.array([state == state and state is not None for state in own]) for own in marked]
    right = [
        found[there] == own[there] for found, own, there in zip(clf.predict(X), map(np.array, Y), known, strict=True)
    ]
    assert clf.score(X, marked) == pytest.approx(np.mean(np.concatenate(right)))
    with pytest.raises(DataError, match="nothing but NaN or None"):
        ChainSVC(**OPTIONS).fit(X[:2], [[None] * len(x) for x in X[:2]])
    with pytest.raises(DataError, match="other lengths"):
        ChainSVC(**OPTIONS).fit(X, [marked[0][:-1], *marked[1:]])


def test_labels_by_name_are_taken_by_their_place():
    X, Y = sequences()
    by_name = pd.Series(Y, index=np.random.default_rng(0).permutation(len(Y)))  # as after sampling or grouping
    for marked in (by_name, by_name.map(lambda own: [None, *own[1:]])):
        clf, places = ChainSVC(**OPTIONS).fit(X, marked), marked.tolist()
        np.testing.assert_array_equal(clf.coef_, ChainSVC(**OPTIONS).fit(X, places).coef_)
        assert clf.score(X, marked) == clf.score(X, places)
    np.testing.assert_array_equal(clf.margins(X, by_name), clf.margins(X, Y))


def test_states_may_be_any_numbers():
    X, Y = sequences()
    clf = ChainSVC(random_state=0).fit(X, [np.searchsorted(["a", "b", "c"], own) / 2.0 for own in Y])
    assert clf.classes_.tolist() == [0.0, 0.5, 1.0]
    assert clf.score(X, clf.predict(X)) == 1.0


def test_unknown_steps_are_completed():
    X, Y = sequences(200)
    marked = [np.where(np.arange(len(own)) % 3 == 1, np.nan, np.searchsorted(["a", "b", "c"], own)) for own in Y]
    marked[3][:] = np.nan
    clf = ChainSVC(solver_options={"unknown": "completed"}, **OPTIONS).fit(X, marked)
    first = ChainSVC(**OPTIONS).fit(X, marked)
    # Of all labellings that agree with what is known, the one of largest score.
    completed = []
    for x, own in zip(X, marked, strict=True):
        options = [range(3) if np.isnan(state) else [int(state)] for state in own]
        score = partial(first.model_.score, potentials=x @ first.coef_.T + first.intercept_, theta=first.theta_)
        completed.append(max(map(list, itertools.product(*options)), key=score))
    again = ChainSVC(**OPTIONS).fit(X, np.array([np.array(y, dtype=float) for y in completed], dtype=object))
    np.testing.assert_allclose(clf.coef_, again.coef_)


def test_neither_unit_nor_offset_of_the_features_matters_where_c_is_chosen():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(40)]
    y = [(x[:, 0] + 0.5 * x[:, 1] > 0.3).astype(int) for x in X]
    moved = [1000.0 * (x + 50.0) for x in X]
    plain, other = (ChainSVC(random_state=0).fit(rows, y) for rows in (X, moved))
    assert np.mean(np.concatenate(plain.predict(X)) == np.concatenate(y)) > 0.9
    assert np.mean(np.concatenate(plain.predict(X)) == np.concatenate(other.predict(moved))) > 0.97

"""The multi-label model: features against scores, edges, weights, which argmax, bad labels."""

import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score
from testing import structured_cases as cases

from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.compiled import ENUMERATION, GREEDY, TREE, UNARY
from widemargin.structured.models import MultiLabelModel
from widemargin.structured.models.multilabel import mutual_information, spanning_tree
from widemargin.structured.oracles.lp_relaxation import Relaxed

X = np.arange(12.0).reshape(6, 2)


def labels(k, n=6, seed=0):
    return (np.random.default_rng(seed).random((n, k)) < 0.4).astype(int)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6), weight=st.sampled_from(cases.WEIGHTS))
def test_features_times_weights_is_the_score(seed, k, weight):
    model, truth, u, theta, brute = cases.multi_label(seed, k, "full", weight)
    for y, h, g in zip(brute.labels, brute.h, brute.g, strict=True):
        A, b = model.features(None, y)
        own = model.features(None, truth)
        assert (A * u).sum() + b @ theta - (own.A * u).sum() - own.b @ theta == pytest.approx(h - 1.0, abs=1e-9)
        assert model.loss(y, truth) == pytest.approx(g)


def test_sizes_and_rows():
    model = MultiLabelModel("full")
    assert model.prepare(X, labels(4)) == (2, 4, 6)
    assert model.prepare(sp.csr_array(X), sp.csr_array(labels(4))) == (2, 4, 6)
    assert (model.rows(X[1]) == [[2.0, 3.0]]).all()
    assert (model.rows(sp.csr_matrix(X)[1]).toarray() == [[2.0, 3.0]]).all()
    rows, start = model.stack(X)
    assert rows.shape == (6, 2)
    assert (start == np.arange(7)).all()
    rows, _ = model.stack([sp.csr_matrix(x) for x in X])
    assert (rows.toarray() == X).all()


def test_a_column_of_a_wider_matrix_is_no_other_kind_of_array():
    """For which the loops would be compiled once more."""
    model = MultiLabelModel()
    model.prepare(X, labels(3)[:, :1])
    assert model.encode_all(labels(3)[:, :1])[0].flags.c_contiguous


@pytest.mark.parametrize(
    ("edges", "k", "kind", "P"),
    [
        (None, 5, UNARY, 0),
        ("tree", 30, TREE, 29),
        ([(0, 1), (3, 2)], 5, TREE, 2),
        ("full", 2, TREE, 1),
        ("full", 14, ENUMERATION, 91),
        ([(0, 1), (1, 2), (0, 2)], 18, ENUMERATION, 3),
        ("full", 19, GREEDY, 171),
    ],
)
def test_the_cheapest_exact_argmax(edges, k, kind, P):
    model = MultiLabelModel(edges)
    assert model.prepare(X, labels(k)) == (2, k, P)
    assert model.structure.kind == kind
    assert model.exact == (kind != GREEDY)
    assert model.compiles(slack=True)


def test_weights_without_a_unit_are_enumerated_where_that_is_possible():
    model = MultiLabelModel("tree", weights=[0.3, 0.7, 0.2**0.5])
    model.prepare(X, labels(3))
    assert model.structure.kind == ENUMERATION
    model = MultiLabelModel("tree", weights=[0.5, 1.0, 1.5])
    model.prepare(X, labels(3))
    assert (model.structure.kind, model.structure.unit) == (TREE, 0.5)
    assert (model.structure.cost == [[1, 2, 3]]).all()


def test_mutual_information_and_its_tree():
    """Against scikit-learn on smoothed counts, and Kruskal's algorithm."""
    Y = labels(7, 40, 3)
    information = mutual_information(Y)
    for p in range(7):
        for q in range(7):
            if p != q:
                table = np.array([[((Y[:, p] == a) & (Y[:, q] == b)).sum() + 0.25 for b in (0, 1)] for a in (0, 1)])
                expected = mutual_info_score(None, None, contingency=(4 * table).astype(int))
                assert information[p, q] == pytest.approx(expected, abs=1e-12)
    part, expected = list(range(7)), []
    for _, p, q in sorted(((information[a, b], a, b) for b in range(7) for a in range(b)), reverse=True):
        if part[p] != part[q]:
            part = [part[p] if other == part[q] else other for other in part]
            expected.append([p, q])
    assert spanning_tree(Y).tolist() == sorted(expected)


def test_relaxed_labels_have_features_score_and_loss():
    model = MultiLabelModel("full")
    model.prepare(X, labels(3))
    y = Relaxed(np.array([0.5, 1.0, 0.0]), np.array([0.5, 0.0, 0.0]))
    A, b = model.features(None, y)
    u, theta = np.array([[2.0, 3.0, 5.0]]), np.array([10.0, 1.0, 1.0])
    assert (A * u).sum() + b @ theta == model.score(y, u, theta) == 9.0
    assert model.loss(y, [1, 0, 0]) == 1.5


def test_pickles_and_serves_threads():
    model, truth, u, theta, brute = cases.multi_label(0, 7, "tree")
    model.oracle(None, truth, u, theta).levels()
    again = pickle.loads(pickle.dumps(model))
    assert (again.decode(None, u, theta) == model.decode(None, u, theta)).all()
    wrong = []

    def ask():
        for _ in range(50):
            oracle = model.oracle(None, truth, u, theta)
            oracle.levels()
            if not brute.holds(oracle.level(3)):
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.array([[0, 2]] * 6), r"Y\[0, 1\] is .*2.*: entries must be 0 or 1"),
        (np.zeros(6), "give a 0/1 matrix"),
        (np.zeros((6, 0)), "give a 0/1 matrix"),
        (np.zeros((5, 2)), "there are 6 examples and 5 labels"),
        (np.full((6, 2), np.nan), "entries must be 0 or 1"),
        (np.array([["1", "0"]] * 6), r"Y\[0, 0\] is '1': entries must be 0 or 1"),
        (np.array([["1", 0]] * 6, dtype=object), r"Y\[0, 0\] is '1': entries must be 0 or 1"),
        (np.array([[1, None]] * 6, dtype=object), r"Y\[0, 1\] is None: entries must be 0 or 1"),
    ],
)
def test_bad_labels(Y, message):
    with pytest.raises(DataError, match=message):
        MultiLabelModel().prepare(X, Y)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"edges": "ring"}, DataError, "'full', 'tree', None or a list"),
        ({"edges": [(0, 3)]}, DataError, "out of 0 to 2"),
        ({"edges": [(1, 1)]}, DataError, "two different labels"),
        ({"edges": [(0, 1), (1, 0)]}, DataError, "a pair twice"),
        ({"weights": [1.0, 2.0]}, DataError, r"weights have the shape \(2,\): give 3 numbers"),
        ({"weights": [1.0, -1.0, 0.0]}, DataError, "not all zero; that of label 1 is -1"),
        ({"weights": [1.0, 1.0, np.nan]}, DataError, "not all zero; that of label 2 is nan"),
        ({"weights": [0.0, 0.0, 0.0]}, DataError, "all are zero"),
        ({"weights": [0.0, 0.0, 0.0]}, DataError, "not all zero"),
        ({"oracle": "tree"}, CapabilityError, "cannot serve 3 labels with 3 edges .with cycles."),
        ({"oracle": "magic"}, CapabilityError, "'magic' is not one of"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        MultiLabelModel(**options).prepare(X, labels(3))


def test_labels_outside_the_model():
    model = MultiLabelModel()
    model.prepare(X, labels(3))
    with pytest.raises(DataError, match="2 entries, the model 3 labels"):
        model.encode([0, 1])
    with pytest.raises(DataError, match="other than 0 and 1"):
        model.loss([0, 1, 1], [0, 1, 2])


def test_the_empty_label_set():
    model, _, u, theta, _ = cases.multi_label(1, 4, "tree")
    empty = np.zeros(4, dtype=int)
    A, b = model.features(None, empty)
    assert not A.any()
    assert not b.any()
    answer = model.oracle(None, empty, -10 - np.abs(u), 0 * theta).direct()
    assert (answer.y == empty).all()


@pytest.mark.parametrize("edges", [[(0.5, 1)], [("a", "b")], [(0, 1, 2)], 3])
def test_edges_that_are_no_pairs_of_numbers(edges):
    with pytest.raises(DataError, match="edges must be pairs of numbers of labels"):
        MultiLabelModel(edges).prepare(np.zeros((2, 1)), np.zeros((2, 3), dtype=int))

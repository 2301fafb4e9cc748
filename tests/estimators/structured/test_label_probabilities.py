"""Calibrated probabilities of labels and nodes, and the sets that are likely by them."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge

from widemargin import HierarchicalSVC, MultiLabelSVC, StructuralOptions, label_set_scorers, load_model, save_model
from widemargin.estimators.structured.label_names import example_jaccard
from widemargin.estimators.structured.label_probabilities import (
    _Chosen,
    _of_all_rows,
    _Ridge,
    fit_probabilities,
    likely_sets,
)
from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.models.label_graph import LabelGraph

FIXED = {"C": 0.1, "max_iter": 5, "tol": 1.0, "random_state": 0, "calibration": "sigmoid"}
PATHS = ["a", "a/x", "a/y", "b", "b/z"]


def sets(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    Y = (X[:, :3] + 0.5 * rng.normal(size=(n, 3)) > 0.3).astype(int)
    return X, Y


def nodes(n=80, seed=0):
    X, low = sets(n, seed)
    return X, np.stack([low[:, :2].max(axis=1), low[:, 0], low[:, 1], low[:, 2], low[:, 2] * (X[:, 3] > 0)], axis=1)


def fitted(X, Y, missing=None, weight=None, **more):
    weight = np.ones(X.shape[0]) if weight is None else weight
    return fit_probabilities(X, Y, missing, weight, np.random.RandomState(0), _Chosen(**more))[0]


def test_scores_without_a_row_are_those_of_a_fit_without_it():
    X, Y = sets(25)
    ones, known = np.ones(25), np.ones(Y.shape, dtype=bool)
    ridge = _Ridge.of(X, Y, known, ones, np.arange(25), 0.5)
    found = ridge.left_out(0.3)
    # Least squares over the landmarks with a constant that no regulariser touches, solved as they stand.
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    for row in range(0, 25, 6):
        rest = np.arange(25) != row
        centred, target = K[rest] - K[rest].mean(axis=0), Y[rest] - Y[rest].mean(axis=0)
        B = np.linalg.solve(centred.T @ centred + 0.3 * (K + 25e-8 * np.eye(25)), centred.T @ target)
        alone = Y[rest].mean(axis=0) + (K[row] - K[rest].mean(axis=0)) @ B
        np.testing.assert_allclose(found[row], alone, atol=1e-7)


def test_rows_in_single_precision_that_are_nearly_equal():
    """Kernel values were as exact as the rows, which left the matrix between landmarks no factor."""
    X = np.random.default_rng(0).integers(0, 24, (48, 1)).astype(np.float32)
    X, Y = 1e-4 * X.astype(np.float32), np.column_stack([X[:, 0] > 11, X[:, 0] % 3 == 0]).astype(int)
    single, double = (fitted(rows, Y)(rows) for rows in (X, X.astype(np.float64)))
    np.testing.assert_allclose(single, double, atol=1e-3)


def test_least_squares_are_kernel_ridge_regression_of_centred_rows():
    X, Y = sets(30)
    ridge = _Ridge.of(X, Y, np.ones(Y.shape, dtype=bool), np.ones(30), np.arange(30), 0.5)
    coef, intercept = ridge.fitted(0.3)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    scores = K @ coef + intercept
    # In features whose products are K, centring the features centres both sides of K.
    middle = np.eye(30) - 1.0 / 30.0
    other = KernelRidge(alpha=0.3, kernel="precomputed").fit(middle @ K @ middle, Y - Y.mean(axis=0))
    np.testing.assert_allclose(scores, Y.mean(axis=0) + other.predict(middle @ K @ middle), atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_all_rows_as_landmarks_by_one_factor_are_those_by_directions(weighted):
    X, Y = sets(60)
    weight = np.random.default_rng(1).integers(1, 4, 60) * 1.0 if weighted else np.ones(60)
    ridge = _Ridge.of(X, Y, np.ones(Y.shape, dtype=bool), weight, np.arange(60), 0.5)
    for lam in (0.3, 0.01):
        only = _Chosen(strengths=(lam,))
        coef, intercept, scores = _of_all_rows(X, ridge.target, weight, 0.5, lam, only)
        as_directions = ridge.fitted(lam)
        np.testing.assert_allclose(coef, as_directions[0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(intercept + ridge.share, as_directions[1], atol=1e-4)
        np.testing.assert_allclose(scores + ridge.share, ridge.left_out(lam), atol=1e-4)
    # Of several strengths the one whose left-out errors are least.
    lam, error = ridge.strength(_Chosen())
    found = _of_all_rows(X, ridge.target, weight, 0.5, 10.0, _Chosen())[2]
    assert weight @ ((ridge.target - found) ** 2).sum(axis=1) == pytest.approx(error, rel=1e-5)


def test_more_rows_have_some_as_landmarks():
    X, Y = sets(300)
    whole, some = fitted(X, Y), fitted(X, Y, exact=200, landmarks=150)
    assert (len(whole.landmarks), len(some.landmarks)) == (300, 150)
    assert np.abs(whole(X) - some(X)).mean() < 0.03


def test_weights_are_repetitions():
    X, Y = sets(40)
    times = np.random.default_rng(1).integers(0, 4, 40)
    again, kept = np.repeat(np.arange(40), times), np.flatnonzero(times)

    def ridge(rows, weight, landmarks):
        return _Ridge.of(X[rows], Y[rows], np.ones((len(rows), 3), dtype=bool), weight, landmarks, 0.5)

    once = ridge(kept, times[kept].astype(float), np.arange(len(kept)))
    repeated = ridge(again, np.ones(len(again)), np.unique(again, return_index=True)[1])
    np.testing.assert_allclose(once.left_out(0.1)[np.searchsorted(kept, again)], repeated.left_out(0.1), atol=1e-8)
    # Rows without weight are as good as absent.
    weight = times.astype(float)
    found, without = fitted(X, Y, weight=weight), fitted(X[kept], Y[kept], weight=weight[kept])
    np.testing.assert_array_equal(found(X), without(X))


def test_dense_rows_are_sparse_rows_and_files_keep_them(tmp_path):
    X, Y = nodes()
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = (HierarchicalSVC(PATHS, **FIXED).fit(rows, Y) for rows in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(dense.predict_proba(X), sparse.predict_proba(sp.csr_matrix(X)), atol=1e-8)
    for model in (dense, sparse):
        save_model(model, tmp_path / "model.wm")
        np.testing.assert_array_equal(load_model(tmp_path / "model.wm").predict_proba(X), model.predict_proba(X))


def test_probabilities_are_calibrated_and_rank():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    chance = 1.0 / (1.0 + np.exp(-3.0 * np.stack([X[:, 0] - 1.0, X[:, 1] * X[:, 0], np.zeros(1500) - 0.7], axis=1)))
    Y = (rng.random(chance.shape) < chance).astype(int)
    found = fitted(X[:500], Y[:500])(X[500:])
    # The third label has nothing to do with the rows: its probability hardly moves.
    assert found[:, 2].std() < 0.03
    assert np.abs(found - chance[500:]).mean() < 0.06
    for label in range(2):
        for low, high in itertools.pairwise((0.0, 0.2, 0.5, 0.8, 1.0)):
            here = (found[:, label] >= low) & (found[:, label] < high)
            assert abs(Y[500:][here, label].mean() - found[here, label].mean()) < 0.08


@pytest.mark.parametrize("hierarchy", [PATHS, LabelGraph(tuple("vwxyz"), np.array([[0, 1], [0, 2], [0, 4], [3, 4]]))])
def test_nodes_are_coherent(hierarchy):
    X, Y = nodes()
    Y[:, 4] = Y[:, 4] * Y[:, 0]
    clf = HierarchicalSVC(hierarchy, rescaling="margin", solver_options={"decode": "expected"}, **FIXED).fit(X, Y)
    probability, found = clf.predict_proba(X), clf.predict(X)
    arcs = [(0, 1), (0, 2), (3, 4)] + ([] if hierarchy is PATHS else [(0, 4)])
    for above, below in arcs:
        assert (probability[:, above] >= probability[:, below]).all()
        assert (found[:, above] >= found[:, below]).all()
    assert label_set_scorers["au_prc"](clf, X, Y) > 0.8


def test_likely_paths_are_those_that_end_as_a_training_row_does():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    rows = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 1, 0]])  # none ends at the first or the last node
    Y = rows[np.argmax(X + 0.5 * rng.normal(size=X.shape), axis=1)]
    scores = {}
    for decode in ("best", "expected"):
        clf = HierarchicalSVC(PATHS, labels="path", solver_options={"decode": decode}, **FIXED).fit(X[:300], Y[:300])
        found = clf.predict(X[300:])
        assert {*map(tuple, found.tolist())} == {*map(tuple, rows.tolist())}
        scores[decode] = clf.score(X[300:], Y[300:])
    assert scores["expected"] > scores["best"] - 0.05 and scores["expected"] > 0.7


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]), min_size=1, max_size=5), st.randoms())
def test_the_likely_set_is_the_best_of_all(chances, rng):
    order = list(range(len(chances)))
    rng.shuffle(order)
    p = np.array(chances)

    def worth(chosen):
        inside = p[list(chosen)].sum()
        return inside / (len(chosen) + p.sum() - inside) if chosen else np.prod(1.0 - p)

    every = [chosen for size in range(len(p) + 1) for chosen in itertools.combinations(range(len(p)), size)]
    (found,) = likely_sets(p[None], np.array(order))
    assert worth(tuple(np.flatnonzero(found))) == pytest.approx(max(map(worth, every)))
    some = [chosen for chosen in every if chosen and rng.random() < 0.5] or [(0,)]
    table = np.array([np.isin(np.arange(len(p)), chosen) for chosen in some]).astype(int)
    (found,) = likely_sets(p[None], np.array(order), table)
    assert worth(tuple(np.flatnonzero(found))) == pytest.approx(max(map(worth, some)))


def test_labels_that_nobody_has_looked_at():
    X, Y = sets(300)
    missing = np.random.default_rng(1).random(Y.shape) < 0.3
    whole = MultiLabelSVC(**FIXED).fit(X, Y).predict_proba(X)
    partly = MultiLabelSVC(**FIXED).fit(X, np.where(missing, -1, Y)).predict_proba(X)
    as_off = MultiLabelSVC(**FIXED).fit(X, np.where(missing, 0, Y)).predict_proba(X)
    assert np.abs(partly.mean(axis=0) - Y.mean(axis=0)).max() < 0.05
    assert np.abs(partly - whole).mean() < 0.5 * np.abs(as_off - whole).mean()


def test_a_label_that_is_never_there():
    X, Y = sets(40)
    Y[:, 1] = 0
    found = fitted(X, Y)(X)
    assert 0.0 < found[:, 1].max() < 0.05


def test_what_is_refused():
    X, Y = nodes()
    plain = HierarchicalSVC(PATHS, **FIXED | {"calibration": None}).fit(X, Y)
    assert not hasattr(plain, "predict_proba")
    with pytest.raises(AttributeError) as said:
        _ = plain.predict_proba
    assert "calibration='sigmoid'" in str(said.value.__cause__)
    with pytest.raises(CapabilityError, match="goes by probabilities"):
        plain.set_params(solver_options={"decode": "expected"}).predict(X)
    with pytest.raises(CapabilityError, match="fitted without calibration"):
        plain.set_params(calibration="sigmoid", solver_options=None).predict_proba(X)
    with pytest.raises(CapabilityError, match="set calibration='sigmoid'"):
        MultiLabelSVC(solver_options={"decode": "expected"}).fit(X, Y)
    with pytest.raises(DataError, match="needs 10 rows of positive weight; there are 9"):
        MultiLabelSVC(**FIXED).fit(X[:9], Y[:9])
    with pytest.raises(CapabilityError, match="no largest score"):
        options = StructuralOptions(decode="expected")
        MultiLabelSVC(solver_options=options, **FIXED).fit(X, Y).decode_certified(X)


def test_scores_that_rank_are_probabilities_where_there_are_some():
    X, Y = sets()
    plain = MultiLabelSVC(**(FIXED | {"calibration": None})).fit(X, Y)
    np.testing.assert_array_equal(plain.predict_scores(X), plain.decision_function(X))
    clf = MultiLabelSVC(**FIXED).fit(X, Y)
    np.testing.assert_array_equal(clf.predict_scores(X), clf.predict_proba(X))


def test_calibrated_models_predict_what_is_ahead_on_rows_left_out():
    """Rare labels with noise: the largest score seldom has one. Without noise the scores leave nothing to gain."""
    rng = np.random.default_rng(3)
    X, W = rng.normal(size=(600, 4)), rng.normal(size=(4, 15))
    chosen, train, test = [], slice(0, 200), slice(200, 600)
    for noise, shift in ((0.0, 0.0), (3.0, 3.0)):
        Y = (X @ W + noise * rng.normal(size=(600, 15)) > shift).astype(int)
        clf = MultiLabelSVC(None, calibration="sigmoid", random_state=0).fit(X[train], Y[train])
        automatic, found = clf.predict(X[test]), clf.decode_
        of_each = {
            decode: clf.set_params(solver_options={"decode": decode}).predict(X[test])
            for decode in ("best", "expected")
        }
        jaccard = {decode: example_jaccard(Y[test], sets) for decode, sets in of_each.items()}
        np.testing.assert_array_equal(automatic, of_each[found])
        assert jaccard[found] == max(jaccard.values()) > min(jaccard.values()) + 0.02
        chosen.append(found)
    assert chosen == ["best", "expected"]
    fixed = MultiLabelSVC(None, C=1.0, calibration="sigmoid", random_state=0).fit(X[train], Y[train])
    assert fixed.decode_ == MultiLabelSVC(None, C=1.0, random_state=0).fit(X[train], Y[train]).decode_ == "best"


def test_hierarchies_are_calibrated_where_they_choose():
    X, Y = nodes()
    chosen = HierarchicalSVC(PATHS, random_state=0)
    assert hasattr(chosen, "predict_proba")  # nothing is known yet
    asked = HierarchicalSVC(PATHS, calibration="sigmoid", random_state=0).fit(X, Y)
    np.testing.assert_array_equal(chosen.fit(X, Y).predict_proba(X), asked.predict_proba(X))
    assert chosen.decode_ == asked.decode_
    for known in ({"C": 0.1}, {"calibration": None}):
        assert not hasattr(HierarchicalSVC(PATHS, random_state=0, **known).fit(X, Y), "predict_proba")
    expected = HierarchicalSVC(PATHS, C=0.1, solver_options={"decode": "expected"}, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(expected.predict_proba(X), asked.predict_proba(X))

"""`MulticlassSVC`: scikit-learn's contract, and the joint problem of all classes behind it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import MulticlassSVC, StructuralSVM
from widemargin.estimators.structured.automatic import Automatic, choose
from widemargin.exceptions import DataError
from widemargin.structured.models import MulticlassModel

OPTIONS = {"C": 0.1, "tol": 1e-3, "max_iter": 5000, "random_state": 0}


EXPECTED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "training ends within a gap; test_weights_and_searches.py has what holds",
)


@parametrize_with_checks(
    [MulticlassSVC(C=1e-3, tol=0.5, max_iter=5000)], expected_failed_checks=lambda estimator: EXPECTED
)
def test_sklearn_contract(estimator, check):
    check(estimator)


def three(n=120, seed=0):
    X, y = make_blobs(n, centers=3, n_features=4, cluster_std=4.0, random_state=seed)
    return X, np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_it_is_the_structural_svm_of_its_model(rescaling):
    X, y = three()
    clf = MulticlassSVC(rescaling=rescaling, **OPTIONS).fit(X, y)
    wide = np.hstack([X, np.ones((120, 1))])
    svm = StructuralSVM(MulticlassModel(), rescaling=rescaling, **OPTIONS).fit(wide, y)
    np.testing.assert_array_equal(np.c_[clf.coef_, clf.intercept_], svm.coef_.T)
    assert clf.predict(X).tolist() == svm.predict(wide)
    np.testing.assert_allclose(clf.decision_function(X), wide @ svm.coef_, rtol=1e-12)
    assert clf.certified_
    assert clf.proved_gap_ == clf.gap_ <= 1e-3


def test_without_costs_it_is_crammer_and_singer():
    X, y = three()
    clf = MulticlassSVC(solver_options={"fit_intercept": False}, **OPTIONS).fit(X, y)
    peer = LinearSVC(multi_class="crammer_singer", C=0.1, fit_intercept=False, tol=1e-6, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(clf.coef_, peer.coef_, atol=0.04 * np.abs(peer.coef_).max())


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_dear_mistakes_become_rare(rescaling):
    X, y = three(600)
    cost = [[0, 1, 1], [20, 0, 1], [20, 1, 0]]  # taking another class for a
    plain = MulticlassSVC(rescaling=rescaling, C=0.01, tol=0.05, max_iter=1000, random_state=0).fit(X, y)
    clf = MulticlassSVC(cost, rescaling=rescaling, C=0.01, tol=0.05, max_iter=1000, random_state=0).fit(X, y)
    index = np.searchsorted(clf.classes_, y)
    spent = [np.array(cost)[index, np.searchsorted(clf.classes_, model.predict(X))].mean() for model in (plain, clf)]
    assert spent[1] < 0.8 * spent[0]
    assert (clf.predict(X) == "a").mean() < (plain.predict(X) == "a").mean()


def test_sparse_rows_and_two_classes():
    X, y = three()
    dense, sparse = MulticlassSVC(**OPTIONS).fit(X, y), MulticlassSVC(**OPTIONS).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-9)
    two = MulticlassSVC(**OPTIONS).fit(X[y != "c"], y[y != "c"])
    assert two.decision_function(X).shape == (120,)
    np.testing.assert_array_equal(two.predict(X), np.where(two.decision_function(X) > 0, "b", "a"))


def test_what_does_not_fit_is_refused():
    X, y = three()
    with pytest.raises(DataError, match=r"cost has shape \(2, 2\), Y has 3 classes"):
        MulticlassSVC([[0, 1], [1, 0]]).fit(X, y)
    with pytest.raises(DataError, match="of rows with a weight above 0, y holds one class only, 'b'"):
        MulticlassSVC().fit(X, y, sample_weight=(y == "b").astype(float))
    with pytest.raises(DataError, match="weight"):
        MulticlassSVC().fit(X, y, sample_weight=np.zeros(120))
    with pytest.raises(DataError, match="0 on the diagonal"):
        MulticlassSVC(np.ones((3, 3))).fit(X, y)
    with pytest.raises(DataError, match="one class only, 'a'"):
        MulticlassSVC().fit(X, np.repeat("a", 120))


def test_c_is_chosen_by_the_costs_on_rows_held_out():
    """More rows of a dear class are found than by the share of right classes."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [140, 140, 20])
    X = rng.normal(size=(300, 4)) + 1.2 * np.eye(3, 4)[np.searchsorted(["a", "b", "c"], y)]
    cost = np.array([[0, 1, 1], [1, 0, 1], [20, 20, 0.0]])
    clf = MulticlassSVC(cost, random_state=0).fit(X, y)
    assert clf.C_ != 1.0 and clf.gap_ <= 0.05
    plain = MulticlassSVC(random_state=0).fit(X, y)
    assert (clf.predict(X)[y == "c"] == "c").mean() > (plain.predict(X)[y == "c"] == "c").mean()


@pytest.mark.parametrize("unit", [1e-4, 1e3])
def test_the_unit_of_sparse_features_does_not_matter_where_c_is_chosen(unit):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 150)
    X = sp.csr_matrix(np.eye(3)[y] + np.where(rng.random((150, 3)) < 0.5, rng.normal(size=(150, 3)), 0.0))
    plain, other = (MulticlassSVC(random_state=0).fit(rows, y) for rows in (X, unit * X))
    np.testing.assert_allclose(other.coef_ * unit, plain.coef_, rtol=0.05, atol=0.01)
    assert other.C_ * unit**2 == pytest.approx(plain.C_, rel=1e-6)
    assert plain.score(X, y) > 0.6 and abs(other.score(unit * X, y) - plain.score(X, y)) < 0.03


def test_neither_unit_nor_offset_of_the_features_matters_where_c_is_chosen():
    """Years beside lengths had left all rows but the most frequent class in one."""
    X, y = load_iris(return_X_y=True)
    X = np.c_[X, np.random.default_rng(0).normal(size=150)]
    plain = MulticlassSVC(random_state=0).fit(X, y)
    assert plain.score(X, y) > 0.95
    for unit, offset in ((1.0, 2000.0), (1e-9, 0.0), (1e12, 1e6)):
        moved = MulticlassSVC(random_state=0).fit(unit * (X + offset), y)
        np.testing.assert_allclose(moved.coef_ * unit, plain.coef_, rtol=0.05, atol=0.01)
        assert (moved.predict(unit * (X + offset)) == plain.predict(X)).mean() > 0.98
        assert moved.C_ * unit**2 == pytest.approx(plain.C_, rel=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_columns_of_unlike_units_are_all_seen_where_c_is_chosen(kind):
    """Wine has a column in hundreds beside those below 1; a constant column is nothing but the rounding of its mean."""
    X, y = load_wine(return_X_y=True)
    X = np.column_stack([X, np.full(len(X), 0.1)]) * np.where(np.arange(14) % 3, 1.0, 1e3)
    clf = MulticlassSVC(random_state=0).fit(kind(X[::2]), y[::2])
    assert clf.score(kind(X[1::2]), y[1::2]) > 0.95
    assert clf.gap_ <= 0.05
    assert sp.issparse(kind(X)) or abs(clf.coef_[:, 13]).max() < 1e-12


def test_a_warm_start_where_c_is_chosen_begins_at_a_point_of_the_same_problem():
    """It was scaled by the square of the unit of the rows: beyond C for large rows, which proves nothing."""
    X, y = make_blobs(90, 3, random_state=0, cluster_std=3.0)
    clf = MulticlassSVC(warm_start=True, random_state=0)
    fits = [(clf.fit(100.0 * X, y).dual_, clf.primal_, clf.n_iter_) for _ in range(3)]
    assert all(dual <= fits[0][1] for dual, _, _ in fits)
    assert fits[1][2] < fits[0][2]


def test_every_fold_of_the_choice_of_c_has_all_classes():
    """A class of two rows is in all folds, so that the costs fit; too few rows or classes beside it leave C at 1."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], [60, 60, 2])
    X = rng.normal(size=(122, 4)) + 1.2 * np.eye(3, 4)[np.searchsorted(["a", "b", "c"], y)]
    cost = [[0, 1, 1], [1, 0, 1], [20, 20, 0.0]]
    clf = MulticlassSVC(cost, random_state=0).fit(X, y)
    assert clf.C_ != 1.0 and clf.gap_ <= 0.05
    for some in (y != "b", np.arange(122) >= 110):  # one class of three rows or more; twelve rows
        assert MulticlassSVC(random_state=0).fit(X[some], y[some]).C_ == 1.0
    rare = choose(
        MulticlassSVC(cost, random_state=0), "auto", 0.0, MulticlassModel(cost), X, y, by_class=True,
        how=Automatic(slack_from=5, most=40, many=30),
    )  # fmt: skip
    assert np.isfinite(rare.score)  # of forty rows that are drawn, which have all classes

"""`HierarchicalSVC`: hierarchies in all forms, sets that end at inner nodes, both losses."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import HierarchicalSVC, MultiLabelSVC, StructuralSVM
from widemargin.exceptions import CapabilityError, DataError, OracleWarning
from widemargin.structured.models import HierarchyModel

PATHS = ["animal", "animal/cat", "animal/dog", "plant"]
PARENTS = [-1, 0, 0, -1]
OPTIONS = {"C": 0.5, "tol": 0.1, "max_iter": 2000, "random_state": 0}


def sets(n=80, seed=0):
    """Animals that are cats, dogs or neither; plants."""
    X = np.random.default_rng(seed).normal(size=(n, 4))
    animal = X[:, 0] > 0
    return X, np.stack([animal, animal & (X[:, 1] > 0.3), animal & (X[:, 1] < -0.3), X[:, 2] > 0], axis=1).astype(int)


@pytest.mark.parametrize("loss", ["nodes", "leaves"])
@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_it_is_the_structural_svm_of_its_model(loss, rescaling):
    X, Y = sets()
    clf = HierarchicalSVC(PATHS, loss=loss, rescaling=rescaling, **OPTIONS).fit(X, Y)
    svm = StructuralSVM(HierarchyModel(PARENTS, loss=loss), rescaling=rescaling, **OPTIONS)
    svm.fit(np.hstack([X, np.ones((80, 1))]), Y)
    np.testing.assert_array_equal(clf.coef_, svm.coef_[:-1].T)
    np.testing.assert_array_equal(clf.intercept_, svm.coef_[-1])
    assert clf.certified_
    assert clf.score(X, Y) > 0.6


def test_predicted_sets_are_closed_and_may_end_inside():
    X, Y = sets()
    clf = HierarchicalSVC(PARENTS, **OPTIONS).fit(sp.csr_matrix(X), Y)
    found = clf.predict(X)
    np.testing.assert_array_equal(found, clf.closed(found))
    assert ((found[:, 0] == 1) & (found[:, 1:3].sum(axis=1) == 0)).any()
    flat = MultiLabelSVC(None, **OPTIONS).fit(X, Y).predict(X)
    assert (flat != clf.closed(flat)).any()


def test_sets_that_are_not_closed_are_refused_and_can_be_closed():
    X, Y = sets()
    open_sets = Y.copy()
    open_sets[Y[:, 1:3].any(axis=1), 0] = 0
    with pytest.raises(DataError, match=r"has node 'animal/.*' but not its parent 'animal'"):
        HierarchicalSVC(PATHS).fit(X, open_sets)
    np.testing.assert_array_equal(HierarchicalSVC(PATHS).closed(open_sets), Y)


def test_a_graph_with_two_parents():
    networkx = pytest.importorskip("networkx", reason="an optional library that users may bring")
    graph = networkx.DiGraph([("root", "a"), ("root", "b"), ("a", "both"), ("b", "both")])
    X, _ = sets()
    a, b = X[:, 0] > 0, X[:, 1] > 0
    Y = np.stack([np.ones(80), a, b, a & b], axis=1).astype(int)
    clf = HierarchicalSVC(graph, rescaling="margin", **OPTIONS).fit(X, Y)
    assert clf.certified_
    np.testing.assert_array_equal(clf.predict(X), clf.closed(clf.predict(X)))
    with pytest.warns(OracleWarning, match="heuristic"):
        HierarchicalSVC(graph, **OPTIONS | {"C": 0.1, "tol": 0.9}).fit(X[:20], Y[:20])
    with pytest.raises(CapabilityError, match="several parents"):
        HierarchicalSVC(graph, loss="leaves").fit(X, Y)


def test_bad_hierarchies():
    X, Y = sets()
    with pytest.raises(DataError, match="cycle"):
        HierarchicalSVC([1, 2, 0, -1]).fit(X, Y)
    with pytest.raises(DataError, match="Y has 4 columns, the hierarchy 3 nodes"):
        HierarchicalSVC(PATHS[:3]).fit(X, Y)
    with pytest.raises(ValueError, match="'loss' parameter"):
        HierarchicalSVC(PATHS, loss="paths").fit(X, Y)


def test_two_parents_exactly_by_integer_programming():
    networkx = pytest.importorskip("networkx", reason="an optional library that users may bring")
    graph = networkx.DiGraph([("root", "a"), ("root", "b"), ("a", "both"), ("b", "both")])
    X, _ = sets(12)
    a, b = X[:, 0] > 0, X[:, 1] > 0
    Y = np.stack([np.ones(12), a, b, a & b], axis=1).astype(int)
    clf = HierarchicalSVC(graph, oracle="milp", C=0.1, tol=0.2, random_state=0).fit(X, Y)
    assert clf.search_ == "level"
    assert clf.certified_
    labels, proved = clf.decode_certified(X)
    np.testing.assert_array_equal(labels, clf.closed(labels))
    assert proved.all()
    np.testing.assert_array_equal(clf.decision_function(X) > 0.0, labels == 1)


def test_decision_function_is_positive_where_the_label_is_predicted():
    X, Y = sets()
    clf = HierarchicalSVC(PARENTS, **OPTIONS).fit(X, Y)
    scores = clf.decision_function(X)
    np.testing.assert_array_equal(scores > 0.0, clf.predict(X) == 1)
    assert (scores[:, 0] >= scores[:, 1]).all()  # a node is wanted no less than what needs it

"""`HierarchicalSVC`: hierarchies in all forms, sets that end at inner nodes, both losses."""

import numpy as np
import pytest
import scipy.sparse as sp

from widemargin import HierarchicalSVC, MultiLabelSVC, StructuralSVM, structural_search
from widemargin.exceptions import CapabilityError, DataError, MarginConvergenceWarning, OracleWarning
from widemargin.structured.models import HierarchyModel
from widemargin.structured.models.label_graph import LabelGraph

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


def test_columns_in_another_order_than_the_nodes_are_refused():
    """They would be closed sets of other nodes here, and nothing else would tell."""
    pandas = pytest.importorskip("pandas", reason="an optional library that users may bring")
    networkx = pytest.importorskip("networkx", reason="an optional library that users may bring")
    X, Y = sets()
    paths = ["animal", "animal/cat", "animal/dog", "plant"]
    frame = pandas.DataFrame(Y, columns=paths)
    clf = HierarchicalSVC(paths, **OPTIONS).fit(X, frame)
    assert clf.classes_.tolist() == paths
    swapped = frame[["animal", "animal/dog", "animal/cat", "plant"]]
    for use in (lambda: HierarchicalSVC(paths).fit(X, swapped), lambda: clf.closed(swapped)):
        with pytest.raises(
            DataError, match="column 1 of y is 'animal/dog', but node 1 of the hierarchy is 'animal/cat'"
        ):
            use()
    numbers = networkx.DiGraph([(0, 2), (0, 1)])  # its nodes are 0, 2, 1, 3
    numbers.add_node(3)
    with pytest.raises(DataError, match="column 1 of y is 1, but node 1 of the hierarchy is 2"):
        HierarchicalSVC(numbers).fit(X, Y)
    other = frame.set_axis(["a", "b", "c", "d"], axis=1)
    assert HierarchicalSVC(PARENTS, **OPTIONS).fit(X, other).classes_.tolist() == ["a", "b", "c", "d"]


def test_an_arc_twice_makes_no_second_parent():
    networkx = pytest.importorskip("networkx", reason="an optional library that users may bring")
    graph = networkx.MultiDiGraph()
    graph.add_nodes_from(range(4))
    graph.add_edges_from([(0, 1), (0, 1), (0, 2)])
    X, Y = sets()
    clf = HierarchicalSVC(graph, loss="leaves", **OPTIONS).fit(X, Y)
    assert clf.search_ == "direct"
    np.testing.assert_array_equal(clf.coef_, HierarchicalSVC(PARENTS, loss="leaves", **OPTIONS).fit(X, Y).coef_)


def test_two_parents_exactly_by_integer_programming():
    networkx = pytest.importorskip("networkx", reason="an optional library that users may bring")
    graph = networkx.DiGraph([("root", "a"), ("root", "b"), ("a", "both"), ("b", "both")])
    X, _ = sets(12)
    a, b = X[:, 0] > 0, X[:, 1] > 0
    Y = np.stack([np.ones(12), a, b, a & b], axis=1).astype(int)
    clf = HierarchicalSVC(graph, solver_options={"oracle": "milp"}, C=0.1, tol=0.2, random_state=0).fit(X, Y)
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


def single_paths(n=90):
    """Cats, dogs, animals of no kind, and plants."""
    X = np.random.default_rng(1).normal(size=(n, 4))
    kinds = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    return X, kinds[np.argmax(X, axis=1)]


@pytest.mark.parametrize("loss", ["nodes", "leaves"])
@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_single_paths_are_what_several_classes_are(loss, rescaling):
    """The objective against its definition over all paths; dense rows are sparse rows."""
    X, Y = single_paths()
    options = OPTIONS | {"tol": 1e-3, "rescaling": rescaling, "loss": loss}
    clf = HierarchicalSVC(PATHS, labels="path", **options).fit(X, Y)
    paths = np.unique(Y, axis=0)
    ends = paths * (1 - np.stack([paths[:, 1] | paths[:, 2], *np.zeros((3, 4), dtype=int)], axis=1))
    counted = paths if loss == "nodes" else ends
    u = X @ clf.coef_.T + clf.intercept_
    scores, own = u @ paths.T, (u * Y).sum(axis=1)
    true = (paths[None] == Y[:, None]).all(axis=2).argmax(axis=1)
    g = (counted[None] != counted[true][:, None]).sum(axis=2)
    h = 1.0 + scores - own[:, None]
    hinge = (h * g if rescaling == "slack" else h + g - 1.0).max(axis=1).clip(0.0)
    norm = (clf.coef_**2).sum() + (clf.intercept_**2).sum()
    assert clf.primal_ == pytest.approx(0.5 * norm + clf.C * hinge.sum(), rel=1e-9)
    assert clf.certified_
    assert clf.gap_ <= 1e-3
    np.testing.assert_array_equal(clf.predict(X), paths[np.argmax(scores, axis=1)])
    wanted = clf.decision_function(X)
    np.testing.assert_array_equal(wanted > 0.0, clf.predict(X) == 1)
    assert np.isfinite(wanted).all()
    sparse = HierarchicalSVC(PATHS, labels="path", **options).fit(sp.csr_matrix(X), Y)
    np.testing.assert_allclose(sparse.coef_, clf.coef_, rtol=1e-9, atol=1e-12)
    assert clf.score(X, Y) > HierarchicalSVC(PATHS, **options).fit(X, Y).score(X, Y)


def test_what_is_not_one_path_is_refused():
    X, Y = single_paths()
    clf = HierarchicalSVC(PATHS, labels="path")
    for row, what in (([0, 0, 0, 0], "is empty"), ([1, 1, 1, 0], "has 2 paths")):
        wrong = Y.copy()
        wrong[7] = row
        with pytest.raises(DataError, match=f"row 7 of Y {what}.*use labels='sets'"):
            clf.fit(X, wrong)
    with pytest.raises(ValueError, match="'labels' parameter"):
        HierarchicalSVC(PATHS, labels="paths").fit(X, Y)


def test_one_path_only_is_always_predicted():
    X, Y = single_paths()
    clf = HierarchicalSVC(PATHS, labels="path", **OPTIONS).fit(X, np.tile(Y[:1], (90, 1)))
    np.testing.assert_array_equal(clf.predict(X), np.tile(Y[:1], (90, 1)))
    assert (clf.status_, clf.gap_) == ("converged", 0.0)
    assert (clf.decision_function(X) == np.where(Y[0], np.inf, -np.inf)).all()


def test_a_warm_start_knows_sets_from_paths():
    """The dual point of one is none of the other."""
    X, Y = single_paths()
    clf = HierarchicalSVC(PATHS, warm_start=True, **OPTIONS | {"max_iter": 3, "tol": 1e-6})
    with pytest.warns(MarginConvergenceWarning):
        clf.fit(X, Y)
        clf.set_params(labels="path").fit(X, Y)
        cold = HierarchicalSVC(PATHS, labels="path", **OPTIONS | {"max_iter": 3, "tol": 1e-6}).fit(X, Y)
        np.testing.assert_array_equal(clf.coef_, cold.coef_)
        assert clf.fit(X, Y).dual_ > cold.dual_


def test_a_search_for_single_paths():
    X, Y = single_paths(60)
    model = HierarchicalSVC(PATHS, labels="path", max_iter=50, random_state=0)
    found = structural_search(model, X, Y, Cs=[1e-3, 0.1], random_state=0)
    assert found.best_estimator.labels == "path"
    assert set(map(tuple, found.best_estimator.fit(X, Y).predict(X))) <= set(map(tuple, Y))


def test_slack_rescaling_is_automatic_where_its_search_is_exact():
    two_parents = LabelGraph(("a", "b", "c"), np.array([[0, 2], [1, 2]]))
    X = np.random.default_rng(0).normal(size=(8, 2))
    on = (X @ [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]] > 0.5).astype(int)
    searches = {}
    for name, hierarchy, oracle in (
        ("cuts", two_parents, "auto"), ("programmes", two_parents, "milp"), ("tree", [-1, 0, 0], "auto"),
    ):  # fmt: skip
        clf = HierarchicalSVC(hierarchy, solver_options={"oracle": oracle}, C=0.1, tol=0.2, random_state=0)
        searches[name] = clf.fit(X, clf.closed(on)).search_
    assert searches == {"cuts": "margin", "programmes": "level", "tree": "direct"}

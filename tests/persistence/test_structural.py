"""Structural SVMs in model files."""

import numpy as np
import pytest

import widemargin as wm
from widemargin.exceptions import ModelFileError
from widemargin.persistence.model_files import model_info
from widemargin.structured.models import MulticlassModel

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = (X[:, :3] > 0).astype(int)
SEQUENCES = [RNG.normal(size=(length, 2)) for length in (3, 5, 4, 6, 1)]
STATES = [np.where(x[:, 0] > 0, "up", "down") for x in SEQUENCES]
OPTIONS = {"C": 0.3, "tol": 0.5, "max_iter": 1000, "random_state": 0}
CASES = {
    "pairs": (wm.MultiLabelSVC(**OPTIONS), X, Y),
    "seen sets": (wm.MultiLabelSVC("tree", **{**OPTIONS, "solver_options": {"decode": "seen"}}), X, Y),
    "tree, warm": (wm.MultiLabelSVC("tree", warm_start=True, **OPTIONS), X, Y),
    "edges, no intercept": (wm.MultiLabelSVC([(0, 1)], solver_options={"fit_intercept": False}, **OPTIONS), X, Y),
    "greedy": (wm.MultiLabelSVC(**OPTIONS), X, np.hstack([Y] * 7)),
    "powerset": (wm.MultiLabelSVC(powerset=True, **OPTIONS), X, Y),
    "paths": (wm.HierarchicalSVC(["a", "a/b", "c"], **OPTIONS), X, Y * [[1, 0, 1]]),
    "one path": (
        wm.HierarchicalSVC(["a", "a/b", "c"], labels="path", loss="leaves", **OPTIONS),
        X,
        np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]])[X[:, :3].argmax(axis=1)],
    ),
    "sequences": (wm.ChainSVC(weights={"up": 2.0}, **OPTIONS), SEQUENCES, STATES),
    "costs": (wm.MulticlassSVC([[0, 1, 2], [1, 0, 1], [2, 1, 0]], **OPTIONS), X, X[:, :3].argmax(axis=1)),
    "classes": (wm.StructuralSVM(MulticlassModel(), **OPTIONS), X, X.argmax(axis=1)),
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_loaded_model_predicts_the_same(case, tmp_path):
    model, rows, labels = CASES[case]
    model.fit(rows, labels)
    wm.save_model(model, tmp_path / "m.skops")
    loaded = wm.load_model(tmp_path / "m.skops")
    for a, b in zip(model.predict(rows), loaded.predict(rows), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.gap_ == model.gap_
    assert loaded.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert type(loaded.model_.structure) is type(model.model_.structure)
    assert model_info(tmp_path / "m.skops").model == type(model).__name__
    if case == "tree, warm":
        assert loaded.fit(rows, labels).n_iter_ <= model.n_iter_


def test_a_graph_is_stored_as_its_nodes_and_arcs(tmp_path):
    networkx = pytest.importorskip("networkx", reason="an optional library that users may bring")
    numbered = networkx.DiGraph()
    numbered.add_nodes_from(range(3))  # in the order of the columns
    numbered.add_edges_from([(0, 2), (1, 2)])
    for graph in (networkx.DiGraph([("root", "a"), ("root", "b")]), numbered):
        model = wm.HierarchicalSVC(graph, rescaling="margin", **OPTIONS)
        labels = model.closed(Y)
        model.fit(X, labels)
        wm.save_model(model, tmp_path / "m.skops")
        loaded = wm.load_model(tmp_path / "m.skops")
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert model.hierarchy is graph
        assert loaded.hierarchy.names == tuple(graph.nodes)
        np.testing.assert_array_equal(loaded.fit(X, labels).coef_, model.coef_)


def test_a_graph_of_strange_nodes_is_refused(tmp_path):
    networkx = pytest.importorskip("networkx", reason="an optional library that users may bring")
    model = wm.HierarchicalSVC(networkx.DiGraph([(0, 1j), (0, 2)]), **OPTIONS).fit(X, Y * 0)
    with pytest.raises(ModelFileError, match="the model cannot be stored"):
        wm.save_model(model, tmp_path / "m.skops")

"""Hierarchies: how they are given, closed sets, losses, cycles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.models import HierarchyModel
from widemargin.structured.models.label_graph import read_hierarchy

X = np.zeros((2, 1))


@given(seed=st.integers(0, 10**6), k=st.integers(1, 7), over=st.sampled_from(["nodes", "leaves"]))
def test_features_and_losses(seed, k, over):
    model, truth, u, _, brute = cases.hierarchy(seed, k, over)
    own = (model.features(None, truth).A * u).sum()
    for y, h, g in zip(brute.labels, brute.h, brute.g, strict=True):
        assert (model.features(None, y).A * u).sum() - own == pytest.approx(h - 1.0, abs=1e-9)
        assert model.loss(y, truth) == g


def test_three_ways_to_give_one_tree():
    paths = ["01", "01/02", "01/02/07", "01/03", "05"]
    graph = cases.Graph([("01", "01/02"), ("01/02", "01/02/07"), ("01", "01/03")], nodes=paths)
    given = [read_hierarchy(hierarchy) for hierarchy in (paths, graph, np.array([-1, 0, 1, 0, -1]))]
    for read in given:
        assert sorted(map(tuple, read.arcs.tolist())) == [(0, 1), (0, 3), (1, 2)]
        assert read.is_forest
        assert (read.parent() == [5, 0, 1, 0, 5]).all()
    assert given[0].names == given[1].names == tuple(paths)


def test_a_missing_inner_path_is_skipped():
    read = read_hierarchy(["a", "a.b.c", "a.b.c.d"], separator=".")
    assert read.arcs.tolist() == [[0, 1], [1, 2]]


def test_leaves_are_where_paths_stop():
    """Stopping above the true leaf: the stop is wrong, and the leaf is missing."""
    model = HierarchyModel([-1, 0, 1], loss="leaves")
    model.prepare(X, [[1, 1, 1], [1, 0, 0]])
    assert model.loss([1, 1, 0], [1, 1, 1]) == 2.0
    assert model.loss([0, 0, 0], [1, 1, 1]) == 1.0
    assert model.loss([1, 1, 1], [1, 1, 1]) == 0.0


def test_closing_label_sets():
    model = HierarchyModel([-1, 0, 1, 0])
    assert (model.closed([[0, 0, 1, 0], [0, 0, 0, 0]]) == [[1, 1, 1, 0], [0, 0, 0, 0]]).all()
    with pytest.raises(DataError, match="row 1 of Y has node 2 but not its parent 1"):
        model.prepare(X, [[1, 0, 0, 0], [1, 0, 1, 0]])
    model.prepare(X, [[1, 0, 0, 0], [1, 1, 1, 0]])
    with pytest.raises(DataError, match="a label has node 1 but not its parent 0"):
        model.encode([0, 1, 0, 0])


@pytest.mark.parametrize(
    ("hierarchy", "message"),
    [
        ([1, 2, 0, -1], "has a cycle: 3 nodes"),
        (cases.Graph([("a", "b"), ("b", "a")]), "cycle.*'a'"),
        ([-1, 7], "node 1 has the parent 7: there are 2 nodes"),
        ([-2, 0], "node 0 has the parent -2"),
        (["a", "b", "a"], "the path 'a' twice"),
        ([], "no nodes"),
        ([0.5, 1.0], "as parents of the nodes"),
        (cases.Graph([("a", "b")], directed=False), "undirected"),
    ],
)
def test_bad_hierarchies(hierarchy, message):
    with pytest.raises(DataError, match=message):
        read_hierarchy(hierarchy)


def test_bad_labels_and_options():
    with pytest.raises(DataError, match="Y has 3 columns, the hierarchy 2 nodes"):
        HierarchyModel([-1, 0]).prepare(X, np.zeros((2, 3)))
    with pytest.raises(DataError, match="'nodes' or 'leaves'"):
        HierarchyModel([-1, 0], loss="depth").prepare(X, np.zeros((2, 2)))


def test_a_graph_of_networkx():
    networkx = pytest.importorskip("networkx", reason="an optional library that users may bring")
    graph = networkx.DiGraph([("root", "a"), ("root", "b"), ("a", "both"), ("b", "both")])
    read = read_hierarchy(graph)
    assert read.names == ("root", "a", "b", "both")
    assert sorted(map(tuple, read.arcs.tolist())) == [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert not read.is_forest


def test_paths_among_parents_are_refused():
    with pytest.raises(DataError, match="mixes 2 paths with 1 other"):
        HierarchyModel(["a", 3, "b"]).prepare(np.zeros((2, 1)), np.zeros((2, 3), dtype=int))


def test_single_paths_end_where_training_labels_end():
    model = HierarchyModel([-1, 0, 1, 0, -1], labels="path")
    model.prepare(np.zeros((3, 1)), [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 1]])
    assert model.structure.ends.tolist() == [0, 1, 1, 0, 1]
    assert model.decode(None, np.array([[5.0, -9.0, -9.0, 7.0, -5.0]]), np.zeros(0)).tolist() == [1, 1, 0, 0, 0]
    assert model.encode([1, 0, 0, 1, 0]).tolist() == [1, 0, 0, 1, 0]  # a path, if none that is predicted


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0, 0, 0, 0], "row 1 of Y is empty: labels='path' wants one path; leave it out, or use labels='sets'"),
        ([1, 1, 1, 0], "row 1 of Y has 2 paths, which end at 'a/b' and 'a/c': .* keep one, or use labels='sets'"),
        ([1, 1, 0, 1], "row 1 of Y has 2 paths, which end at 'a/b' and 'd'"),
        ([0, 1, 0, 0], "row 1 of Y has node 'a/b' but not its parent 'a'"),
    ],
)
def test_what_is_not_one_path_is_refused(row, message):
    model = HierarchyModel(["a", "a/b", "a/c", "d"], labels="path")
    with pytest.raises(DataError, match=message):
        model.prepare(X, [[1, 1, 0, 0], row])
    model.prepare(X, [[1, 1, 0, 0], [0, 0, 0, 1]])
    with pytest.raises(DataError, match=message.replace("row 1 of Y", "a label")):
        model.encode(row)


def test_single_paths_are_for_forests():
    graph = cases.Graph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    with pytest.raises(CapabilityError, match="node 'd' has several parents: labels='path' is for trees"):
        HierarchyModel(graph, labels="path").prepare(X, [[1, 1, 0, 0], [1, 0, 0, 0]])
    with pytest.raises(DataError, match="'sets' or 'path'"):
        HierarchyModel([-1, 0], labels="paths").prepare(X, [[1, 1], [1, 0]])

"""Max-marginals against all label sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing import structured_cases as cases

from widemargin.structured.models import HierarchyModel, MultiLabelModel

seeds = st.integers(0, 10**6)


def brute_force(labels, scores):
    """Best score with each label on, minus the best with it off."""
    labels = np.array(labels)
    return np.array([scores[y == 1].max(initial=-np.inf) - scores[y == 0].max(initial=-np.inf) for y in labels.T])


@given(seed=seeds, k=st.integers(1, 6), edges=st.sampled_from([None, "tree", "full"]))
def test_pairs_of_labels(seed, k, edges):
    model, _, u, theta, brute = cases.multi_label(seed, k, edges)
    np.testing.assert_allclose(model.max_marginals(u, theta)[0], brute_force(brute.labels, brute.h), atol=1e-9)


@pytest.mark.parametrize(
    "hierarchy",
    [[-1, 0, 0, 1, -1], [-1, -1], [2, -1, 1], [-1, 0, 0, (1, 2)]],
    ids=["forest", "roots", "path", "two parents"],
)
def test_closed_label_sets(hierarchy):
    k = len(hierarchy)
    arcs = [(p, q) for q, above in enumerate(hierarchy) for p in np.atleast_1d(above).tolist() if p >= 0]

    class Graph:
        nodes = tuple(range(k))

        def edges(self):
            return arcs

    model = HierarchyModel(Graph())
    model.prepare(np.zeros((1, 1)), np.zeros((1, k), dtype=int))
    every = np.array(np.meshgrid(*[[0, 1]] * k)).reshape(k, -1).T
    closed = every[[all(y[p] >= y[q] for p, q in arcs) for y in every]]
    u = np.random.default_rng(0).normal(size=(30, k))
    found = model.max_marginals(u, np.zeros(0))
    for row, gain in zip(found, u, strict=True):
        np.testing.assert_allclose(row, brute_force(closed, closed @ gain), atol=1e-9)


def test_local_search_keeps_the_others():
    rng = np.random.default_rng(0)
    model = MultiLabelModel("full", oracle="greedy")
    model.prepare(np.zeros((1, 1)), np.zeros((1, 6), dtype=int))
    u, theta = rng.normal(size=(20, 6)), rng.normal(size=15)
    margins = model.max_marginals(u, theta)
    for row, gain in zip(margins, u, strict=True):
        y = model.decode(None, gain[None, :], theta)
        for q in range(6):
            on, off = (np.where(np.arange(6) == q, bit, y) for bit in (1, 0))
            difference = model.score(on, gain[None, :], theta) - model.score(off, gain[None, :], theta)
            assert row[q] == pytest.approx(difference, abs=1e-9)
        np.testing.assert_array_equal(row > 0.0, y == 1)


@given(seed=seeds, k=st.integers(1, 8))
def test_single_paths(seed, k):
    """Infinite where all paths, or none, have the label."""
    model, _, u, theta, brute = cases.paths(seed, k)
    np.testing.assert_allclose(model.max_marginals(u, theta)[0], brute_force(brute.labels, brute.h), atol=1e-9)

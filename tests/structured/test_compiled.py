"""Structures: integer costs, orders of forests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.structured.compiled import forest, integer_costs


@given(seed=st.integers(0, 10**6), k=st.integers(1, 12))
def test_children_come_before_parents(seed, k):
    rng = np.random.default_rng(seed)
    renamed = rng.permutation(k)
    parent = np.empty(k, dtype=np.int64)
    for q in range(k):
        above = int(rng.integers(-1, q))
        parent[renamed[q]] = k if above < 0 else renamed[above]
    order, start, child = forest(parent)
    place = np.empty(k, dtype=int)
    place[order] = np.arange(k)
    assert sorted(order.tolist()) == list(range(k))
    assert all(parent[q] == k or place[q] < place[parent[q]] for q in range(k))
    for p in range(k + 1):
        own = child[start[p] : start[p + 1]]
        assert sorted(own.tolist()) == np.flatnonzero(parent == p).tolist()
        assert (np.diff(place[own]) > 0).all()


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="2 nodes are not below a root"):
        forest(np.array([1, 0, 3]))


@pytest.mark.parametrize(
    ("weight", "cost", "unit"),
    [
        ([1.0, 1.0], [1, 1], 1.0),
        ([0.1, 0.3, 0.0], [1, 3, 0], 0.1),
        ([2.0, 3.0], [2, 3], 1.0),
        ([0.3, 0.7], [3, 7], 0.3 / 3),
        ([1.0, 1.1], [10, 11], 0.1),
        ([1.0, 2.0**0.5], [0, 0], 0.0),
        ([1e-9, 1.0], [0, 0], 0.0),
    ],
)
def test_units(weight, cost, unit):
    found, step = integer_costs(np.array(weight))
    assert found.tolist() == cost
    assert step == unit


def test_weights_without_a_unit_are_rounded_up_by_a_hundredth():
    rng = np.random.default_rng(0)
    for k in (1, 2, 5, 40):
        weight = rng.random(k) + 0.1
        cost, unit = integer_costs(weight, rounded=True)
        assert (cost * unit >= weight * (1.0 - 1e-12)).all()
        assert (cost * unit <= weight * 1.0201).all()
    cost, unit = integer_costs(np.array([1.0, 0.0, 2.0**0.5]), rounded=True)
    assert cost.tolist() == [12, 0, 17]  # 17 / 12 = 1.4167; 7 / 5 = 1.4 is more than 1% off
    assert unit == pytest.approx(1.0 / 12)
    assert integer_costs(np.array([1e-9, 1.0]), rounded=True)[1] == 0.0
    assert integer_costs(np.zeros(3), rounded=True)[1] == 0.0

"""Rows that decide softly: slopes, and offsets that single moves do not find."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad

from widemargin.solvers.thresholds import soft_offsets as module
from widemargin.solvers.thresholds.class_costs import ClassCosts, improved
from widemargin.solvers.thresholds.offset_search import OPTIONS
from widemargin.solvers.thresholds.soft_offsets import soft_offsets, soft_slopes, soft_totals

TEMPERATURES = OPTIONS.temperatures


def planted(seed, n, n_classes, n_groups=1):
    """The error, and a floor on the recall of every class that some offsets just reach."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    scores = rng.normal(size=(n, n_classes)) + 2.0 * np.eye(n_classes)[y]
    cost = np.zeros((n, n_classes, 1 + n_classes))
    cost[:, :, 0] = (np.arange(n_classes) != y[:, None]) / n
    for j in range(n_classes):
        cost[y == j, j, 1 + j] = -1.0 / (y == j).sum()
    costs = ClassCosts(scores, cost, np.zeros(n_classes), rng.integers(0, n_groups, n), n_groups)
    return replace(costs, bound=costs.totals(rng.normal(scale=0.7, size=(n_groups, n_classes)))[1:])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bounds_that_some_offsets_just_meet_are_met_with_twenty_classes(seed):
    costs = planted(seed, 1000, 20)
    single = improved(costs, np.zeros((1, 20)), 20)
    found = soft_offsets(costs, single, 20, TEMPERATURES)
    assert costs.rank(costs.totals(found))[0] == 0.0
    if seed != 3:  # where single moves end above a bound
        assert costs.rank(costs.totals(single))[0] > 0.0


def test_the_start_is_kept_where_nothing_is_better():
    costs = planted(0, 60, 3)
    best = soft_offsets(costs, np.zeros((1, 3)), 20, TEMPERATURES)
    assert soft_offsets(costs, best, 20, TEMPERATURES) is best


def test_a_sample_gives_offsets_that_serve_all_rows(monkeypatch):
    costs = planted(5, 3000, 6, n_groups=2)
    loose = replace(costs, bound=costs.bound + 0.02)
    monkeypatch.setattr(module, "MOST_READ", costs.cost.size / 3)
    found = soft_offsets(loose, np.zeros((2, 6)), 20, TEMPERATURES)
    assert loose.rank(loose.totals(found))[0] == 0.0


@pytest.mark.parametrize("plain", [False, True])
def test_slopes_are_those_of_the_totals_and_cold_rows_decide_as_they_are(plain):
    totals_of, slopes_of = (getattr(f, "py_func", f) if plain else f for f in (soft_totals, soft_slopes))
    costs, prices, temperature = planted(4, 40, 4, n_groups=2), np.array([0.3, 0.0, 1.0, 2.0]), 0.4

    def value(flat):
        totals, _ = totals_of(costs.scores, costs.cost, costs.group, flat.reshape(2, 4), temperature)
        return totals[0] + prices @ totals[1:]

    def slope(flat):
        _, likely = totals_of(costs.scores, costs.cost, costs.group, flat.reshape(2, 4), temperature)
        return slopes_of(likely, costs.cost, costs.group, prices, 2).ravel() / temperature

    assert check_grad(value, slope, np.random.default_rng(0).normal(size=8)) < 1e-6
    cold, _ = totals_of(costs.scores, costs.cost, costs.group, np.zeros((2, 4)), 1e-6)
    np.testing.assert_allclose(cold, costs.totals(np.zeros((2, 4))), atol=1e-9)

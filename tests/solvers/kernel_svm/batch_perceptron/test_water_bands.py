"""The water level from a band of rows around the last one: the same level as from all rows, bit by bit.

Scores are multiples of 1/8 and weights whole numbers, so every sum is exact and no order of addition matters.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing.water import newton

from widemargin.solvers.kernel_svm.batch_perceptron import water_level as module
from widemargin.solvers.kernel_svm.batch_perceptron.water_level import Level, WaterLevel

volumes = st.sampled_from([0.0, 0.25, 1.0, 7.0, 60.0])
squares = st.sampled_from([0.0, 0.25, 2.0, 30.0, 500.0])


def walk(seed, n_steps=4):
    """Labels, weights, and scores that drift by little, by some and by much."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    y = np.where(rng.random(n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weight = rng.integers(0, 4, n).astype(float)
    weight[:2] = np.maximum(weight[:2], 1.0)
    scores = rng.integers(-16, 32, n) / 8.0
    steps = [scores]
    for size in rng.choice([0, 1, 3, 40], n_steps):
        steps.append(steps[-1] + rng.integers(-size, size + 1, n) / 8.0 + rng.choice([0, 0, size]) / 8.0)
    return y, weight, steps


@pytest.mark.parametrize(("level", "sizes"), [("of_volume", volumes), ("of_norm", squares)])
@given(data=st.data(), seed=st.integers(0, 100_000), two=st.booleans(), near=st.integers(1, 6))
def test_from_step_to_step(level, sizes, data, seed, two, near):
    """A band around the last level, however narrow, finds what a search from nothing finds."""
    y, weight, steps = walk(seed)
    water = WaterLevel(y, weight, two, near)
    for scores in steps:
        size = data.draw(sizes)
        assert getattr(water, level)(scores, size) == getattr(WaterLevel(y, weight, two), level)(scores, size)


class Passes:
    """Keeps how far from the last level each pass looks."""

    def __init__(self, monkeypatch):
        self.reaches, collect = [], module.collect

        def kept(*arguments):
            low, high = arguments[4:6]
            assert (low < high).all()
            self.reaches.append(0.5 * float(high[0] - low[0]))
            return collect(*arguments)

        monkeypatch.setattr(module, "collect", kept)


def test_the_next_pass_looks_as_far_as_64_rows_on_either_side(monkeypatch):
    """Rows 0, 1, 2, ..., 999 and a level of 299.5: the 64th row below and the 65th above are 64.5 away."""
    passes = Passes(monkeypatch)
    scores = np.arange(1000.0)
    volume = 300 * 299.5 - scores[:300].sum()
    water = WaterLevel(np.ones(1000), np.ones(1000), False)
    assert water.of_volume(scores, volume).gamma == 299.5
    assert water.of_volume(scores + 0.25, volume).gamma == 299.75
    assert passes.reaches == [math.inf, 64.5]
    # that band ended before the 65th row above, so it is doubled; 299.75 away needs eight times as much
    assert water.of_volume(scores + 300.0, volume).gamma == 599.5
    assert passes.reaches[2:] == [129.0, 8 * 129.0]
    water.of_volume(scores, 0.0)
    assert passes.reaches[4:] == [64.5, 8 * 64.5, math.inf]
    assert water.of_volume(scores, 0.0).gamma == 0.0
    assert passes.reaches[7:] == [64.0]  # nothing below 0, row 64 above


def test_the_farther_basin_decides_how_far_to_look(monkeypatch):
    passes = Passes(monkeypatch)
    y = np.repeat([1.0, -1.0], 500)
    scores = np.concatenate([np.arange(500.0), -2.0 * np.arange(500.0)])
    water = WaterLevel(y, np.ones(1000), True)
    volume = 20_000.0
    level = water.of_volume(scores, volume)
    far = []
    for rows, height in ((np.arange(500.0), level.positive), (2.0 * np.arange(500.0), level.negative)):
        k = np.searchsorted(rows, height)
        far += [height - rows[k - 64], rows[k + 64] - height]
    assert len(set(far)) > 2
    water.of_volume(scores, volume)
    assert passes.reaches == [math.inf, max(far)]


def test_a_band_of_too_few_rows_is_doubled(monkeypatch):
    passes = Passes(monkeypatch)
    scores = np.arange(1000.0) / 8.0
    water = WaterLevel(np.ones(1000), np.ones(1000), False)
    volume = 500 * 62.5 - scores[:500].sum()
    water.of_volume(scores, volume)
    wide = 4.0 * (scores - 62.5) + 62.5  # the same level but for rounding, a quarter of the rows around it
    for _ in range(4):
        water.of_volume(wide, 500 * 62.5 - wide[:500].sum())
    assert passes.reaches == [math.inf, 8.0, 16.0, 32.0, 32.0]


def test_where_scale_0_is_best_everything_is_looked_at_the_next_time(monkeypatch):
    passes = Passes(monkeypatch)
    y, scores = np.array([1.0, 1.0, -1.0]), np.array([-1.0, -2.0, 3.0])
    water = WaterLevel(y, np.ones(3), False)
    nothing = water.of_norm(scores, 1.0)
    assert nothing[:3] == (math.inf, math.inf, 3.0)
    assert (nothing.gamma, nothing.bias) == (math.inf, 0.0)
    assert water.of_norm(-scores, 2.0) == WaterLevel(y, np.ones(3), False).of_norm(-scores, 2.0)
    assert passes.reaches[:2] == [math.inf, math.inf]


def test_a_share_of_the_rows_at_the_level():
    """Four rows at 1, and gamma S = 2: half of them is covered; with a bias, half of each class."""
    y, ones = np.array([1.0, 1.0, -1.0, -1.0]), np.ones(4)
    assert WaterLevel(y, ones, False).of_norm(y, 2.0) == Level(1.0, 1.0, 2.0, 0.5, 0.5)
    assert WaterLevel(y, ones, True).of_norm(y, 2.0) == Level(1.0, 1.0, 1.0, 0.5, 0.5)
    assert WaterLevel(y, np.array([1.0, 1.0, 4.0, 1.0]), True).of_norm(y, 2.0) == Level(1.0, 1.0, 1.0, 0.5, 0.2)


def test_covered_weight_of_some_rows():
    y, weight = np.array([1.0, -1.0, 1.0, -1.0, 1.0]), np.array([2.0, 1.0, 4.0, 3.0, 0.0])
    scores = np.array([0.0, -1.0, 1.0, 0.0, -5.0])
    level = Level(1.0, 1.0, 2.0, 0.25, 0.5)
    expected = np.array([2.0, 0.5, 1.0, 3.0, 0.0])  # basins: 0 and 1 of the first class, 1 and 0 of the second
    water = WaterLevel(y, weight, True)
    np.testing.assert_array_equal(water.covered(scores, level), expected)
    np.testing.assert_array_equal(water.covered(scores, level, np.array([3, 1])), expected[[3, 1]])
    np.testing.assert_array_equal(water.covered(scores, level._replace(negative=0.5)), [2.0, 0.0, 1.0, 3.0, 0.0])


def merged(first, second, base, two=True):
    """Ends, totals and levels of the pieces; None where there is no common weight."""
    size = len(first) + len(second) + 2
    end, total, level = np.empty(size), np.empty(size), np.empty((2, size))
    columns = [np.array(rows, dtype=float).reshape(-1, 2).T.copy() for rows in (first, second)]
    m = module.merge(*columns[0], *columns[1], np.array(base), two, end, total, level)
    return None if m < 0 else (end[:m].tolist(), total[:m].tolist(), level[:, : m + 1].tolist())


def test_pieces_of_two_basins():
    """Weight 3 lies below one band and 2 below the other: the pieces begin where both have 3."""
    inf = math.inf
    pieces = merged([(1.0, 2.0), (2.0, 1.0)], [(5.0, 2.0), (6.0, 4.0)], [[3.0, -4.0, 9.0], [2.0, 1.0, 8.0]])
    ends, totals = [3.0, 4.0, 5.0, 6.0], [2.0, 8.0, 15.0, 23.0]
    assert pieces == (ends, totals, [[-inf, 1.0, 1.0, 2.0, 9.0], [-inf, 5.0, 6.0, 6.0, 6.0]])
    assert merged([(1.0, 1.0)], [(5.0, 2.0)], [[0.0, 0.0, inf], [3.0, 1.0, 8.0]]) is None
    assert merged([(1.0, 2.0)], [(5.0, 1.0)], [[3.0, 1.0, 8.0], [0.0, 0.0, inf]]) is None
    just = merged([(1.0, 3.0)], [(5.0, 2.0)], [[0.0, 0.0, 7.0], [3.0, 1.0, 8.0]])
    assert just == ([3.0], [4.0], [[-inf, 7.0], [-inf, 5.0]])
    just = merged([(5.0, 2.0)], [(1.0, 3.0)], [[3.0, 1.0, 8.0], [0.0, 0.0, 7.0]])
    assert just == ([3.0], [4.0], [[-inf, 5.0], [-inf, 7.0]])


def test_pieces_of_one_basin():
    pieces = merged([(1.0, 2.0), (4.0, 1.0)], [], [[3.0, -4.0, 9.0], [0.0, 0.0, math.inf]], two=False)
    assert pieces == ([3.0, 5.0, 6.0], [-4.0, -2.0, 2.0], [[-math.inf, 1.0, 4.0, 9.0], [-math.inf, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize(("volume", "level"), [(0.0, -1.0), (0.5, -0.5), (3.0, 1.0), (5.75, 2.25)])
def test_newton_from_the_lowest_row_and_below(volume, level):
    responses = np.array([2.0, -1.0, 0.0])
    for start in (None, -1.0, -7.0, 0.0, 100.0):
        assert newton(responses, volume, start=start) == pytest.approx(level)

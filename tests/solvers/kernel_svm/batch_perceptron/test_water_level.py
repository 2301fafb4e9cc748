"""The water level against closed forms, linear programmes and brute force."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize_scalar
from testing.water import newton

from widemargin.solvers.kernel_svm.batch_perceptron.water_level import WaterLevel, collect, divide_and_conquer, merge

volumes = st.sampled_from([0.0, 1e-12, 1e-3, 0.3, 1.0, 7.0, 1e3, 1e9])


def case(seed, *, ties=False, weighted=False, largest=30):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, largest))
    y = np.where(rng.random(n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    scores = rng.integers(-2, 3, n).astype(float) if ties else rng.normal(size=n) + rng.normal()
    weight = rng.integers(0, 4, n).astype(float) if weighted else np.ones(n)
    weight[:2] = np.maximum(weight[:2], 1.0)
    return y, scores, weight


def closed(y, scores, volume, two):
    """`min_k (V + S_k) / k`, or `/ 2k` with S_k the k lowest of each class (Cotter et al. 2012)."""
    c = y * scores
    parts = [c[y > 0], c[y < 0]] if two else [c]
    m = min(map(len, parts))
    lowest = sum(np.cumsum(np.sort(part)[:m]) for part in parts)
    return float(np.min((volume + lowest) / (len(parts) * np.arange(1, m + 1))))


def programme(y, scores, weight, volume, two):
    """max gamma: c_i + y_i b + xi_i >= gamma, sum u_i xi_i <= V."""
    n = y.shape[0]
    rows = np.flatnonzero(weight > 0)
    A = np.zeros((rows.shape[0] + 1, n + 2))
    for k, i in enumerate(rows):
        A[k, i], A[k, n], A[k, n + 1] = -1.0, -y[i] * two, 1.0
    A[-1, :n] = weight
    b = np.append((y * scores)[rows], volume)
    free = [(None, None)] * 2
    return -linprog(np.r_[np.zeros(n + 1), -1.0], A, b, bounds=[(0, None)] * n + free).fun


def spent(y, scores, weight, level):
    c = y * scores
    return float(weight @ np.maximum(0.0, np.where(y > 0, level.positive, level.negative) - c))


@given(st.integers(0, 100_000), st.booleans(), volumes, st.floats(-1e3, 1e3))
def test_newton_gives_the_closed_form_from_any_start(seed, ties, volume, start):
    y, scores, _ = case(seed, ties=ties)
    best = closed(y, scores, volume, two=False)
    assert newton(y * scores, volume) == pytest.approx(best, rel=1e-12, abs=1e-12)
    assert newton(y * scores, volume, start=start) == pytest.approx(best, rel=1e-12, abs=1e-12)


@given(st.integers(0, 100_000), volumes)
def test_newton_with_weights(seed, volume):
    y, scores, weight = case(seed, weighted=True)
    kept = weight > 0.0
    level = newton((y * scores)[kept], volume, weight=weight[kept])
    warm = WaterLevel(y, weight, False).of_volume(scores, volume)
    assert level == pytest.approx(warm.gamma, rel=1e-9, abs=1e-9)


@given(st.integers(0, 100_000), st.booleans(), st.booleans(), volumes)
@example(0, True, True, 0.0)
def test_all_ways_give_the_closed_form(seed, ties, two, volume):
    y, scores, weight = case(seed, ties=ties)
    best = closed(y, scores, volume, two)
    c = y * scores
    halved = divide_and_conquer(c[y > 0], c[y < 0], volume) if two else divide_and_conquer(c, None, volume)
    water = WaterLevel(y, weight, two)
    rng = np.random.default_rng(seed)
    sort = water.of_volume(scores, volume)  # the first one sorts everything
    for _ in range(4):  # from a level nearby, with moving rows
        scores = scores + 0.1 * rng.normal(size=scores.shape[0])
        near = water.of_volume(scores, volume)
        assert near.gamma == pytest.approx(closed(y, scores, volume, two), rel=1e-9, abs=1e-9)
    scale = 1e-9 * max(1.0, volume)
    assert sort.gamma == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert halved.gamma == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert halved.positive == pytest.approx(sort.positive, abs=scale)
    assert halved.negative == pytest.approx(sort.negative, abs=scale)


@given(st.integers(0, 100_000), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.01, 1.0, 50.0]))
def test_weights_ties_and_rows_left_out_against_the_linear_programme(seed, ties, two, volume):
    y, scores, weight = case(seed, ties=ties, weighted=True, largest=12)
    water = WaterLevel(y, weight, two)
    level = water.of_volume(scores, volume)
    assert level.gamma == pytest.approx(programme(y, scores, weight, volume, two), abs=1e-7)
    assert spent(y, scores, weight, level) == pytest.approx(volume, abs=1e-9)
    p = water.covered(scores, level)
    assert (p[weight == 0] == 0).all()
    if two:  # half of the mass on each class, and it is a supergradient: the value is the dual value
        assert p[y > 0].sum() == pytest.approx(p[y < 0].sum())
        assert p[y > 0].sum() == pytest.approx(level.covered)
    mass = p / p.sum()
    share = np.divide(mass, weight, out=np.zeros_like(mass), where=weight > 0)
    assert mass @ (y * scores) + volume * share.max() == pytest.approx(level.gamma, abs=1e-7)


def test_the_middle_of_a_range_is_taken():
    y, scores = np.array([1.0, 1.0, -1.0, -1.0]), np.array([0.0, 10.0, -1.0, -3.0])
    level = WaterLevel(y, np.ones(4), True).of_volume(scores, 1.0)  # one of each class, 0 + 1 + 1 = G+ + G-
    assert (level.positive, level.negative) == (0.5, 1.5)
    assert (level.gamma, level.bias, level.covered) == (1.0, 0.5, 1.0)
    assert divide_and_conquer(np.array([0.0, 10.0]), np.array([1.0, 3.0]), 1.0)[:3] == level[:3]


def test_without_a_bias_both_shares_are_the_one_of_the_only_basin():
    """Rows 0 and 2, 2, 2: a volume of 2 lifts the level to 2 exactly, and none of the rows there is needed."""
    y, scores = np.array([1.0, -1.0, 1.0, -1.0]), np.array([0.0, -2.0, 2.0, -2.0])
    level = WaterLevel(y, np.ones(4), False).of_volume(scores, 2.0)
    assert level.positive == level.negative == 2.0
    assert level.share_positive == level.share_negative
    covered = WaterLevel(y, np.ones(4), False).covered(scores, level)
    assert covered.sum() == pytest.approx(level.covered)


@pytest.mark.parametrize("k", [0, 1])
def test_the_ends_of_a_band_belong_to_it(k):
    y, scores = np.ones(4), np.array([-1.0, 0.0, 1.0, 2.0])
    value, mass, count, base = np.zeros((2, 4)), np.zeros((2, 4)), np.zeros(2, int), np.zeros((2, 3))
    basin = np.full(4, k, np.int8)
    collect(scores, y, basin, np.ones(4), np.zeros(2), np.ones(2), value, mass, count, base)
    assert (count[k], count[1 - k]) == (2, 0)
    assert sorted(value[k, :2]) == [0.0, 1.0]
    assert (base[k].tolist(), base[1 - k].tolist()) == ([1.0, -1.0, 2.0], [0.0, 0.0, math.inf])


def objective(y, scores, weight, square, gamma, b):
    return 0.5 * square / gamma**2 + weight @ np.maximum(0.0, 1.0 - (y * scores + y * b) / gamma)


def best_scale(y, scores, weight, square, two):
    """Least C-form objective over scale and bias: every optimal bias of a scale is at a kink."""
    rows = weight > 0

    def at(t):
        kinks = np.append((y - t * scores)[rows], 0.0) if two else np.zeros(1)
        return min(0.5 * square * t * t + weight @ np.maximum(0.0, 1.0 - y * (t * scores + b)) for b in kinks)

    grid = np.concatenate(([0.0], np.geomspace(1e-6, 1e6, 120)))
    k = int(np.argmin([at(t) for t in grid]))
    low, high = grid[max(0, k - 1)], grid[min(k + 1, grid.shape[0] - 1)]
    return min(at(0.0), minimize_scalar(at, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).fun)


@given(st.integers(0, 100_000), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1e-4, 0.1, 1.0, 30.0]))
def test_the_C_form_is_an_exact_line_search(seed, ties, two, weighted, square):
    y, scores, weight = case(seed, ties=ties, weighted=weighted, largest=14)
    water = WaterLevel(y, weight, two)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        level = water.of_norm(scores, square)
        best = best_scale(y, scores, weight, square, two)
        if math.isinf(level.gamma):
            found = (weight[y > 0].sum(), weight[y < 0].sum())
            assert best == pytest.approx(2.0 * min(found) if two else weight.sum(), rel=1e-9)
        else:
            assert level.gamma > 0.0
            found = objective(y, scores, weight, square, level.gamma, level.bias)
            assert best * (1 - 1e-6) - 1e-9 <= found <= best * (1 + 1e-6) + 1e-9
            p = water.covered(scores, level)
            if two:
                assert p[y > 0].sum() == pytest.approx(p[y < 0].sum())
        scores = scores + 0.05 * rng.normal(size=scores.shape[0])


@pytest.mark.compiled
def test_many_rows_take_one_pass_once_the_level_is_known():
    rng = np.random.default_rng(0)
    y, scores = np.where(rng.random(100_000) < 0.3, 1.0, -1.0), rng.normal(size=100_000)
    water = WaterLevel(y, np.ones(100_000), True)
    for _ in range(5):
        scores += 1e-4 * rng.normal(size=100_000)
        level = water.of_volume(scores, 100.0)
    c = y * scores
    assert water._pieces(scores, water._reach).rows[0].shape[0] < 1000
    assert level.gamma == pytest.approx(divide_and_conquer(c[y > 0], c[y < 0], 100.0).gamma, abs=1e-12)


def test_compiled_loops_are_their_python():
    y, scores, weight = case(3, weighted=True)
    basin = WaterLevel(y, weight, True).basin
    n = y.shape[0]
    ends = []
    for fill, join in ((collect, merge), (collect.py_func, merge.py_func)):
        value, mass, count, base = np.zeros((2, n)), np.zeros((2, n)), np.zeros(2, int), np.zeros((2, 3))
        fill(scores, y, basin, weight, np.full(2, -0.5), np.full(2, 1.0), value, mass, count, base)
        rows = [np.sort(value[k, : count[k]]) for k in range(2)]
        end, total, level = np.zeros(n + 2), np.zeros(n + 2), np.zeros((2, n + 2))
        masses = [mass[k, : count[k]] for k in range(2)]
        m = join(rows[0], masses[0], rows[1], masses[1], base, True, end, total, level)
        ends.append((count, base, m, end, total, level))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other)

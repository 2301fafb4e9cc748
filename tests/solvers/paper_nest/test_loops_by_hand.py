"""The loops of coordinate ascent on cases small enough to work by hand, or against one line of NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.solvers.paper_nest import sdca
from widemargin.solvers.paper_nest import weighted_hinges as hinges

quarters = st.integers(-8, 8).map(lambda k: k / 4.0)  # scores that fall on the kinks -1/2 and 1/2, exactly


def losses(z, plus, minus):
    return float(plus @ np.maximum(0.0, 0.5 + z) + minus @ np.maximum(0.0, 0.5 - z))


@pytest.mark.parametrize(
    ("z", "q", "xi", "expected"),
    [
        # rows without features, plus = 2 and minus = 1: the kink 1 is best for all scores in [-1/2, 1/2]
        (-0.75, 0.0, 0.3, -1.0), (-0.5, 0.0, 0.3, 1.0), (0.0, 0.0, 0.3, 1.0), (0.5, 0.0, 0.3, 1.0),
        (0.75, 0.0, 0.3, 2.0),
        # xi + (z -+ 1/2) / q, between the kink and the end of the box
        (1.0, 2.0, 1.0, 1.25), (1.0, 0.25, 1.0, 2.0), (-1.0, 2.0, 1.0, 0.75), (-1.0, 0.125, 1.0, -1.0),
        (0.5, 2.0, 1.0, 1.0), (-0.5, 2.0, 1.0, 1.0), (0.25, 0.5, 1.25, 1.0), (-0.25, 0.5, 0.75, 1.0),
        (0.5, 2.0, 1.5, 1.5), (-0.5, 2.0, 0.5, 0.5),
    ],
)  # fmt: skip
def test_the_step_in_one_variable(z, q, xi, expected):
    assert sdca.coordinate_step(z, xi, 2.0, 1.0, q) == expected


@given(st.lists(quarters, min_size=1, max_size=6), quarters, st.integers(0, 1000))
def test_the_sum_of_the_losses(s, b, seed):
    s = np.array(s)
    plus, minus = np.random.default_rng(seed).integers(0, 4, (2, s.shape[0])).astype(float)
    assert hinges.hinge_sum(s, b, plus, minus) == losses(s - b, plus, minus)


def test_a_side_that_is_not_kept_has_no_weight():
    plus, minus = np.empty(4), np.empty(4)
    weight, cell, keep = np.array([2.0, 3.0, 4.0, 5.0]), np.array([1, 0, 1, 0]), np.array([0, 1, 2, 3])
    hinges.side_weights(weight, cell, keep, np.array([0.5, 0.25]), np.array([3.0, 7.0]), plus, minus)
    np.testing.assert_array_equal(plus, [0.0, 1.5, 0.0, 2.5])
    np.testing.assert_array_equal(minus, [0.0, 0.0, 28.0, 15.0])


def test_the_dual_value_is_least_at_the_ends_of_the_box():
    xi, plus, minus = np.array([1.0, 2.0, -1.0, 1.5]), np.full(4, 2.0), np.full(4, 1.0)
    assert hinges.dual_sums(xi, plus, minus) == (1.5 + 1.0 + 0.5 + 1.25, 3.5)


def test_shares_and_back():
    """A side of weight 0 gets the share of its hinge: 1 where the score is on its side."""
    plus, minus = np.array([2.0, 2.0, 2.0, 0.0, 0.0, 2.0, 2.0]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    xi = np.array([1.0, 1.5, -0.5, -0.25, -1.0, 2.0, 0.5])
    up, um, back = np.empty(7), np.empty(7), np.empty(7)
    hinges.shares(xi, plus, minus, up, um)
    np.testing.assert_array_equal(up, [1.0, 1.0, 0.25, 1.0, 0.0, 1.0, 0.25])
    np.testing.assert_array_equal(um, [1.0, 0.5, 1.0, 0.25, 1.0, 0.0, 1.0])
    hinges.xi_from_shares(up, um, plus, minus, back)
    np.testing.assert_array_equal(back, xi)
    hinges.xi_from_shares(np.full(7, 1.5), np.zeros(7), plus, minus, back)
    np.testing.assert_array_equal(back, plus)
    hinges.xi_from_shares(np.zeros(7), np.full(7, 1.5), plus, minus, back)
    np.testing.assert_array_equal(back, -minus)


def test_rows_that_move_come_first_and_the_others_rest():
    """Rows 4 and 1 would move, 2 and 0 stay, 3 and 5 rest."""
    rows = np.array([3, 2, 4, 5, 0, 1])
    rest, delay = np.array([0, 0, 0, 2, 0, 1], np.uint8), np.array([3, 1, 1, 7, 3, 1], np.uint8)
    plus, minus, norms2, xi = np.full(6, 2.0), np.full(6, 1.0), np.full(6, 4.0), np.full(6, 1.0)
    s = np.array([0.25, 1.0, -0.25, 9.0, -1.0, 9.0])
    dual = sdca.DualRows(plus, minus, 0.5 * norms2, xi, rest, delay)
    assert sdca.pick_moving(rows, dual, 5, s, 0.0) == (4, 2)
    assert rows[:2].tolist() == [4, 1]
    assert sorted(rows) == list(range(6))
    np.testing.assert_array_equal(rest, [5, 0, 3, 1, 0, 0])  # 2 * 3 + 1 is cut to 5
    np.testing.assert_array_equal(delay, [5, 0, 3, 7, 0, 1])
    rows, rest, delay = np.arange(6), np.zeros(6, np.uint8), np.zeros(6, np.uint8)
    s = np.full(6, 0.75)  # the bias makes 1/4 of it
    assert sdca.pick_moving(rows, dual._replace(rest=rest, delay=delay), 5, s, 0.5) == (6, 0)


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_steps_on_kernel_rows_keep_the_scores(scale):
    """`s = K c` and `c = -scale xi` stay true, and each row gets the exact maximiser at the scores of its turn."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6, 6))
    K, rows = X @ X.T, np.array([4, 0, 5])
    plus, minus = np.full(6, 2.0), np.full(6, 1.0)
    xi = rng.uniform(-1.0, 2.0, 6)
    c = -scale * xi
    s = K @ c
    expected = xi.copy()
    for i in rows:
        z = -scale * K[i] @ expected - 0.25
        expected[i] = sdca.coordinate_step(z, expected[i], 2.0, 1.0, K[i, i] * scale)
    held = K[rows[::-1]]  # in another order: `slot` says where
    dual = sdca.DualRows(plus, minus, scale * np.diag(K), xi, np.zeros(6, np.uint8), np.zeros(6, np.uint8))
    sdca.ascend_kernel(held, np.array([2, 1, 0]), rows, dual, c, s, 0.25, scale)
    np.testing.assert_allclose(xi, expected, atol=1e-12)
    np.testing.assert_allclose(c, -scale * xi, atol=1e-12)
    np.testing.assert_allclose(s, K @ c, atol=1e-10)


@pytest.mark.parametrize(
    ("xi", "x", "target", "expected"),
    [
        ([1.0, 2.0, -1.0], [1.0, 1.0, 1.0], 1.0, [2 / 3, 4 / 3, -1.0]),
        ([1.0, -2.0, 0.5], [1.0, 1.0, 0.0], 0.0, [1.0, -1.0, 0.5]),  # a row that is 0 in the column stays
        ([1.0, -2.0], [1.0, -1.0], 4.0, [1.0, -2.0]),  # out of reach, and no term that could be smaller
        ([-1.0, -2.0], [1.0, 1.0], -4.0, [-1.0, -2.0]),
        ([1.0, -2.0], [1.0, 1.0], 2.0, [1.0, 0.0]),
        ([1.0, -2.0], [1.0, 1.0], -3.0, [0.0, -2.0]),
    ],
)
def test_balancing_a_column(xi, x, target, expected):
    xi = np.array(xi)
    hinges.balance_column(xi, np.array(x), target)
    np.testing.assert_allclose(xi, expected, atol=1e-15)


@pytest.mark.parametrize("dense", [False, True])
def test_an_epoch_visits_chunks_and_lets_rows_rest(dense):
    """Five rows in chunks of two, the last chunk first, against the step applied one row after the other."""
    rng = np.random.default_rng(13)
    X, row_of, scale = rng.normal(size=(5, 3)), np.array([2, 0, 1, 4, 3]), np.array([0.5, 1.0, 2.0])
    plus, minus, b = np.full(5, 2.0), np.full(5, 1.0), 0.3
    q = (X[row_of] ** 2) @ scale
    xi = np.array([1.0, 0.0, 0.5, 2.0, 1.0])
    rest, delay = np.array([0, 0, 2, 0, 0], np.uint8), np.array([3, 7, 3, 0, 0], np.uint8)
    w = rng.normal(size=3)
    mine, v, still = xi.copy(), w.copy(), set()
    for i in (4, 0, 1, 3):
        new = sdca.coordinate_step(float(X[row_of[i]] @ v) - b, mine[i], 2.0, 1.0, q[i])
        still |= {i} if new == mine[i] else set()
        v -= (new - mine[i]) * scale * X[row_of[i]]
        mine[i] = new
    block = (X, row_of)
    if not dense:
        block = (X.ravel(), np.tile(np.arange(3, dtype=np.uint32), 5), np.arange(0, 16, 3, dtype=np.uint32), row_of)
    epoch = sdca.epoch_dense if dense else sdca.epoch_csr
    dual = sdca.DualRows(plus, minus, q, xi, rest, delay)
    visits = epoch(*block, np.array([2, 0, 1]), 2, dual, 5, w, b, scale)
    assert visits == 4
    np.testing.assert_allclose(xi, mine, atol=1e-14)
    np.testing.assert_allclose(w, v, atol=1e-14)
    assert still == {0, 4}
    before = [3, 7, 3, 0, 0]
    after = [3 if i == 2 else min(5, 2 * before[i] + 1) if i in still else 0 for i in range(5)]
    assert delay.tolist() == after
    assert rest.tolist() == [1 if i == 2 else after[i] for i in range(5)]

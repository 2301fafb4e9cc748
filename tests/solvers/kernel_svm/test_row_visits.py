"""Going through rows with kernel rows fetched ahead."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from widemargin.solvers.kernel_svm.stochastic import visit


class Rows:
    """A matrix that writes down which rows it is asked for."""

    def __init__(self, K, capacity):
        self.K, self.capacity, self.n_rows, self.dtype, self.asked = K, capacity, K.shape[0], K.dtype, []

    def cached(self, rows):
        assert len(set(rows.tolist())) == rows.shape[0] <= self.capacity
        self.asked += rows.tolist()
        return self.K[rows], np.arange(rows.shape[0])


@given(seed=st.integers(0, 500), ahead=st.integers(1, 9), capacity=st.integers(1, 9), stubborn=st.booleans())
def test_the_steps_are_those_of_one_row_after_the_other(seed, ahead, capacity, stubborn):
    """Rows move where their score is below 1; with `stubborn` the prediction of that is useless."""
    rng = np.random.default_rng(seed)
    K = rng.normal(size=(20, 20))
    draws = rng.integers(20, size=200)
    expected = np.zeros(20)
    for i in draws:
        if expected[i] < 1.0:
            expected += K[i]
    rows, scores = Rows(K, capacity), np.zeros(20)

    def advance(draws, first, last, place, buffer):
        for k in range(first, last):
            if scores[draws[k]] < 1.0:
                if place[draws[k]] < 0:
                    return k
                scores[:] += buffer[place[draws[k]]]
        return last

    def moves(some):
        return np.zeros(some.shape[0], bool) if stubborn else scores[some] < 1.0

    done = list(visit(rows, draws, moves, advance, ahead))
    np.testing.assert_allclose(scores, expected)
    assert done[-1] == 200
    assert np.all(np.diff(done) > 0)


def test_one_row_ahead_asks_for_no_row_in_vain_and_none_for_none():
    rows, moved = Rows(np.eye(5), 5), []

    def advance(draws, first, last, place, buffer):
        for k in range(first, last):
            if draws[k] == 3:
                if place[3] < 0:
                    return k
                moved.append(k)
        return last

    list(visit(rows, np.array([0, 3, 1, 3, 2]), lambda some: some == 3, advance, 1))
    assert moved == [1, 3]
    assert set(rows.asked) == {3}
    assert list(visit(rows, np.array([], dtype=np.int64), lambda some: some == 3, advance, 1)) == []

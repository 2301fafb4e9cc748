"""The stopping rule on rows held out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm.problem import KernelProblem
from widemargin.solvers.kernel_svm.stopping import HoldOut, HoldOutOptions, choose_rows

M = 400


def problem(m=M):
    """`m` positive rows held out after two training rows."""
    n = m + 2
    y = np.ones(n)
    y[0] = -1.0
    upper = np.r_[1.0, 1.0, np.zeros(m)]
    return KernelProblem(KernelRows(Kernel("linear"), np.zeros((n, 1))), y, upper)


def missing(*rows):
    """Scores that miss these of the rows held out."""
    scores = np.ones(M + 2)
    scores[np.asarray(rows, dtype=int) + 2] = -1.0
    scores[0] = 5.0  # a training row on the wrong side: not looked at
    return scores


def run(watch, errors, start=100.0):
    """Looks with these rows missed, the work growing by RATIO; the number of looks until the rule ends the run."""
    work = start
    for k, rows in enumerate(errors):
        assert watch.due(work)
        if watch.look(work, np.full(M + 2, float(k)), missing(*rows), 0.0):
            return k
        assert not watch.due(work)
        work *= HoldOutOptions.ratio * 1.0001
    return None


def test_looks_only_at_rows_held_out_and_counts_the_boundary_as_missed():
    watch = HoldOut(problem())
    assert watch.rows.shape == (M,)
    assert watch.error(missing(1, 2), 0.0) == 2 / M
    assert watch.error(missing(), -1.0) == 1.0
    assert watch.error(missing(0), 3.0) == 0.0


def test_it_ends_when_the_work_has_doubled_without_improvement():
    patience = int(np.ceil(np.log(HoldOutOptions.patience) / np.log(HoldOutOptions.ratio * 1.0001)))
    assert run(HoldOut(problem()), [range(50)] * 50) == patience
    improving = [range(200 - 20 * k) for k in range(10)]
    assert run(HoldOut(problem()), improving + [range(20)] * 50) == 9 + patience


def test_noise_is_no_improvement_but_small_steps_add_up():
    rng = np.random.default_rng(0)
    noise = [rng.permutation(M)[:50] for _ in range(60)]  # each misses fifty other rows
    ended = run(HoldOut(problem()), noise)
    assert ended is not None and ended < 20
    steady = [range(50 - k) for k in range(50)]  # one row better at every look
    assert run(HoldOut(problem()), steady) is None


def test_the_best_iterate_is_kept_and_the_later_of_equals():
    watch = HoldOut(problem())
    run(watch, [range(9), range(4), range(4, 8), range(30), range(30)])
    assert (watch.best.coef == 2.0).all()
    assert watch.best.error == 4 / M
    scores = missing(*range(3))
    watch.look(1e9, np.zeros(M + 2), scores, 0.5)
    scores[:] = 7.0
    assert watch.best.scores[2] == -1.0
    assert (watch.best.intercept, watch.best.work) == (0.5, 1e9)


def test_there_is_no_look_before_the_least_work():
    watch = HoldOut(problem(), least=50.0)
    assert not watch.due(49.0) and watch.due(50.0)


def test_without_rows_held_out_it_says_so():
    with pytest.raises(CapabilityError, match="there are 0; hold some out"):
        HoldOut(problem(0))


@given(st.lists(st.integers(1, 40), min_size=2, max_size=4), st.floats(0.01, 0.99), st.integers(0, 99))
def test_every_class_gives_its_share_and_keeps_a_row(sizes, share, seed):
    y = np.random.default_rng(seed).permutation(np.repeat([f"c{k}" for k in range(len(sizes))], sizes))
    rows = choose_rows(y, share, np.random.default_rng(seed))
    assert (np.diff(rows) > 0).all()
    for k, size in enumerate(sizes):
        taken = int((y[rows] == f"c{k}").sum())
        assert abs(taken - share * size) <= 1.0
        assert taken < size
        assert taken > 0 or size == 1
    np.testing.assert_array_equal(rows, choose_rows(y, share, np.random.default_rng(seed)))

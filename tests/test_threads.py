"""Loops shared among threads: every row once, sums in order, no threads within threads, bounds by the environment."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from scipy import sparse

import widemargin as wm
from widemargin import _threads
from widemargin._threads import add_in_threads, in_threads, limit_threads, threads_in_force
from widemargin.linalg import matrix_blocks
from widemargin.linalg.matrix_blocks import RowBlocks


def test_answers_come_in_order_and_parts_find_no_thread_free() -> None:
    with limit_threads(3):
        answers = in_threads(100, 1, lambda first, last: (first, last, threads_in_force(), threading.get_ident()))
        assert threads_in_force() == 3
    assert [first for first, *_ in answers] == [0] + [last for _, last, *_ in answers[:-1]]
    assert answers[-1][1] == 100
    assert {inner for _, _, inner, _ in answers} == {1}


def test_little_work_stays_with_the_caller() -> None:
    with limit_threads(4):
        assert in_threads(99, 50, lambda first, last: (first, last)) == [(0, 99)]
        assert len(in_threads(100, 50, lambda first, last: (first, last), pieces=1)) == 2


@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_are_added_to_what_is_there(order: str) -> None:
    values, total = np.arange(40.0).reshape(20, 2), np.asarray([[1.0, 2.0], [3.0, 4.0]], order=order)

    def part(first: int, last: int, own: np.ndarray) -> None:
        assert own.flags.f_contiguous if order == "F" else own.flags.c_contiguous
        own[0] += values[first:last].sum(axis=0)

    with limit_threads(3):
        add_in_threads(20, 1, part, total)
    expected = np.array([[1.0, 2.0], [3.0, 4.0]])
    expected[0] += values.sum(axis=0)
    np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize("where", [0, 99])
def test_an_error_of_a_part_reaches_the_caller_after_all_parts_have_ended(where: int) -> None:
    running: list[int] = []

    def part(first: int, last: int) -> None:
        running.append(first)
        if first <= where < last:
            raise ValueError("this one")
        running.remove(first)

    with limit_threads(2), pytest.raises(ValueError, match="this one"):
        in_threads(100, 1, part, pieces=1)
    assert len(running) == 1


def test_an_interrupt_while_the_others_work_waits_for_them() -> None:
    """Whoever catches it goes on with arrays that nobody else writes to."""
    done, caller, began, interrupted = list[int](), threading.get_ident(), threading.Event(), threading.Event()

    def interrupt() -> None:
        signal.pthread_kill(caller, signal.SIGINT)  # to the caller, as it waits for the others by then
        interrupted.set()

    def part(first: int, last: int) -> None:
        if threading.get_ident() == caller:
            assert began.wait(60.0)  # else the caller may do both parts before the other wakes up
            threading.Timer(0.1, interrupt).start()
        else:
            began.set()
            assert interrupted.wait(60.0)  # however late the timer is
            time.sleep(0.2)
            done.append(first)

    allowed = threads_in_force()
    # An event loop of an earlier test may have a handler of its own.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with limit_threads(2), pytest.raises(KeyboardInterrupt):
            in_threads(2, 1, part, pieces=1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(done) == 1
    assert threads_in_force() == allowed


def test_limits_hold_inside_each_other_and_end() -> None:
    before = threads_in_force()
    with limit_threads(3):
        with limit_threads(None) as inner:
            assert inner == 3
        with limit_threads(2) as inner:
            assert inner == threads_in_force() == 2
        assert threads_in_force() == 3
    assert threads_in_force() == before


TWO_FITS = """
import threading
import scipy.linalg
from threadpoolctl import threadpool_info
from widemargin._threads import limit_threads

def blas():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

first_inside, second_inside, first_out = threading.Event(), threading.Event(), threading.Event()

def first():
    with limit_threads(1):
        first_inside.set()
        second_inside.wait(10.0)
    first_out.set()
    leave.wait(10.0)

def second():
    first_inside.wait(10.0)
    with limit_threads(1):
        second_inside.set()
        first_out.wait(10.0)
        print(set(blas()))

leave, before = threading.Event(), blas()
parts = [threading.Thread(target=part) for part in (first, second)]
for part in parts:
    part.start()
parts[1].join()
print(blas() == before, before)
leave.set()
"""


def test_fits_in_threads_of_the_user_leave_blas_as_it_was() -> None:
    """They end in another order than they began in: the second to begin is the last to end."""
    free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    told = subprocess.run(
        [sys.executable, "-c", TWO_FITS], env=free | {"OPENBLAS_NUM_THREADS": "2"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    inside, after = told.stdout.splitlines()
    assert inside == "{1}"
    assert after.startswith("True")


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"])
def test_the_environment_bounds_the_default(name: str) -> None:
    free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    code = "from widemargin._threads import limit_threads\nwith limit_threads(None) as n: print(n)"
    told = subprocess.run(
        [sys.executable, "-c", code], env=free | {name: "1"}, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "1"


@pytest.mark.parametrize("kind", ["dense", "float32", "csr"])
@pytest.mark.parametrize("d", [3, 12])
def test_products_with_rows_are_those_of_one_thread(kind: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, d)) * (rng.random((60, d)) < 0.7)
    given = sparse.csr_matrix(X) if kind == "csr" else X.astype(np.float32 if kind == "float32" else np.float64)
    w, g, cell = rng.normal(size=d), rng.normal(size=60), rng.integers(0, 4, 60).astype(np.int32)

    def answers() -> list[np.ndarray]:
        rows, sums = RowBlocks([(given, None), (given, np.arange(10, 50))]), np.zeros((2, 4, d))
        twice = np.concatenate([np.arange(60), np.arange(10, 50)])
        rows.add_cell_sums(cell[twice], g[twice], g[twice[::-1]], *sums)
        gram, total = rows.moments(g[twice], centred=True)
        return [rows.dot(w), rows.tdot(g[twice]), sums, np.tril(gram), total, rows.norms2(), *rows.diagonal(g[twice])]

    with limit_threads(1):
        alone = answers()
    monkeypatch.setattr(matrix_blocks, "NUMBERS_PER_THREAD", 1)
    monkeypatch.setattr(matrix_blocks, "_STRIPE", 2)
    with limit_threads(3):
        for shared, one in zip(answers(), alone, strict=True):
            np.testing.assert_allclose(shared, one, rtol=1e-6 if kind == "float32" else 1e-11, atol=1e-6)


def test_threads_that_share_rows_get_their_own_products() -> None:
    """The last product is remembered; a thread must not be given what another has put there in the meantime."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 2))
    rows, weights = RowBlocks([(X, None)]), rng.normal(size=(4, 2))
    wrong, before = list[int](), sys.getswitchinterval()

    def ask(k: int) -> None:
        wrong.append(sum(not np.allclose(rows.dot(weights[k]), X @ weights[k]) for _ in range(1500)))

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == [0] * 4


def test_a_fit_meets_its_goal_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "ROWS_PER_THREAD", 100)
    monkeypatch.setattr(matrix_blocks, "NUMBERS_PER_THREAD", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = (X @ [1.0, 0.5, 0.0, 0.0] + 0.7 * rng.normal(size=1500) > 0.3).astype(int)
    goal = "minimize error_rate()\nsubject to recall() >= 0.9\n"
    fits = [wm.RateConstrainedClassifier(goal, n_jobs=n).fit(X, y) for n in (1, 3, 3)]
    np.testing.assert_array_equal(fits[1].coef_, fits[2].coef_)
    assert all(fit.goal_report_.passed for fit in fits)
    errors = [fit.goal_report_.objective for fit in fits]
    assert errors[1] == pytest.approx(errors[0], abs=2e-3)

"""Threads: how many a fit may use, and how its loops over rows are shared among them.

Loops are cut into ranges of rows, which compiled code and NumPy work on side by side. BLAS runs with one thread inside
of these ranges, because its own threads would spin between its many small calls; a product that is worth them gets them
by `blas_threads`. The ranges depend on the number of threads alone, so the same number gives the same bits.
"""

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from operator import attrgetter
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

import numpy as np
from joblib import cpu_count, effective_n_jobs
from threadpoolctl import ThreadpoolController

from widemargin._typing import Cells, Flags, Floats, Ints, Reals

Answer = TypeVar("Answer")
ByRow: TypeAlias = Reals | Ints | Cells | Flags

ROWS_PER_THREAD = 20_000
"""Rows that are worth a thread where each costs some nanoseconds: together about the time that calling it takes."""
NUMBERS_PER_THREAD = 200_000
"""Numbers whose products are worth a thread: a tenth of a millisecond."""


class _Limit(threading.local):
    """How many threads this thread may use; None: nobody has said."""

    threads: int | None = None


_LIMIT = _Limit()


class _OneBlasThread:
    """BLAS with one thread from the first to enter until the last has left, as its number belongs to the process.

    Fits in several threads of the user end in any order, and each alone would give back what it has found.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: AbstractContextManager[object] = nullcontext()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _blas(len(sys.modules)).limit(limits=1, user_api="blas")
                self._limit.__enter__()
            self._inside += 1

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                # Newer threadpoolctl lets only the thread that has set a limit take it back, and it may have ended.
                for library in _blas(len(sys.modules)).lib_controllers:
                    if hasattr(library, "clear_controlling_thread"):
                        library.clear_controlling_thread(force=True)
                self._limit.__exit__(None, None, None)


_ONE_BLAS_THREAD = _OneBlasThread()


def threads_in_force() -> int:
    """Number of threads that `limit_threads` allows; outside of it all that the environment does.

    Those are as many as there are cores for this process, and as BLAS has (`OMP_NUM_THREADS`, threadpoolctl) and numba.
    """
    if _LIMIT.threads:
        return _LIMIT.threads
    of_libraries = map(attrgetter("num_threads"), _blas(len(sys.modules)).lib_controllers)
    return max(1, min([_cores(), *map(int, of_libraries)]))


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[int]:
    """Bound the threads of loops to `n_jobs` and those of BLAS to one, and restore them afterwards.

    Parameters
    ----------
    n_jobs : int or None
        None: `threads_in_force`, as the environment or a limit around this one says; -1: all cores.

    Yields
    ------
    int
        The number of threads in force.
    """
    before = _LIMIT.threads
    threads = threads_in_force() if n_jobs is None else effective_n_jobs(n_jobs)
    with _ONE_BLAS_THREAD:
        _LIMIT.threads = threads
        try:
            yield threads
        finally:
            _LIMIT.threads = before


def blas_threads(operations: float) -> AbstractContextManager[object]:
    """Give BLAS the threads in force for so many operations, if these take it tens of milliseconds."""
    if operations < 1e9 or (threads := threads_in_force()) == 1:
        return nullcontext()
    raised: AbstractContextManager[object] = _blas(len(sys.modules)).limit(limits=threads, user_api="blas")
    return raised


def in_threads(n: int, least: int, part: Callable[[int, int], Answer], pieces: int = 4) -> list[Answer]:
    """Call `part(first, last)` for ranges that make up range(n), side by side in the threads in force.

    Parameters
    ----------
    n : int
    least : int
        Smallest range that is worth a thread: fewer threads are used where there is less to do.
    part : callable
        Compiled loops run side by side; they must not write to the same place.
    pieces : int, default=4
        Ranges for each thread: several where they take unequal time.

    Returns
    -------
    list
        What the calls returned, in order.
    """
    shares = n // max(least, 1)
    threads = min(threads_in_force(), shares) if shares > 1 else 1
    if threads == 1:
        return [part(0, n)]
    ranges = min(pieces * threads, shares)
    cuts = [n * k // ranges for k in range(ranges + 1)]
    answers: list[Answer | None] = [None] * ranges
    turn = itertools.count()

    def work() -> None:
        while (k := next(turn)) < ranges:
            answers[k] = part(cuts[k], cuts[k + 1])

    endings: list[BaseException | None] = []
    ended: SimpleQueue[None] = SimpleQueue()

    def help_out() -> None:
        try:
            work()
            endings.append(None)
        except BaseException as error:  # it is the caller's
            endings.append(error)
        ended.put(None)

    for _ in range(threads - 1):
        _pool().put(help_out)
    before, _LIMIT.threads = _LIMIT.threads, 1  # what a part calls finds no thread free
    stop: KeyboardInterrupt | None = None
    try:
        work()
    finally:  # also where the caller is interrupted, once or again: the others still write to its arrays
        while len(endings) < threads - 1:
            try:
                ended.get()
            except KeyboardInterrupt as again:
                stop = again
        _LIMIT.threads = before
    for error in (stop, *endings):
        if error is not None:
            raise error
    return answers  # type: ignore[return-value]


def add_in_threads(n: int, least: int, part: Callable[..., object], *sums: Reals) -> None:
    """Call `part(first, last, *sums)` as `in_threads` does, each with sums of its own, and add these up in order."""
    if n < 2 * least or threads_in_force() == 1:
        part(0, n, *sums)
        return

    def own(first: int, last: int) -> tuple[Reals, ...]:
        mine = tuple(_apart(total) for total in sums)
        part(first, last, *mine)
        return mine

    for answer in in_threads(n, least, own, pieces=1):
        for total, mine in zip(sums, answer, strict=True):
            total += mine


def loop_over_rows(
    loop: Callable[..., None], by_row: Sequence[ByRow], *given: object, least: int | None = None
) -> None:
    """Call `loop(*by_row, *given)` on ranges of the rows side by side.

    `least` rows are worth a thread; None: `ROWS_PER_THREAD`, of loops that take some nanoseconds a row.
    """
    n, least = by_row[0].shape[0], ROWS_PER_THREAD if least is None else least
    if n < 2 * least:  # most calls are about few rows, and slices would take longer than their loops
        loop(*by_row, *given)
    else:
        in_threads(n, least, lambda first, last: loop(*(rows[first:last] for rows in by_row), *given))


def sums_over_rows(
    loop: Callable[..., None], by_row: Sequence[ByRow], *sums: Floats, given: Sequence[float | Floats] = (),
    least: int | None = None,
) -> None:  # fmt: skip
    """Call `loop(*by_row, *given, *sums)`, which adds to the sums, in the same way."""
    n, least = by_row[0].shape[0], ROWS_PER_THREAD if least is None else least
    if n < 2 * least:
        loop(*by_row, *given, *sums)
        return

    def part(first: int, last: int, *own: Reals) -> None:
        loop(*(rows[first:last] for rows in by_row), *given, *own)

    add_in_threads(n, least, part, *sums)


def _apart(like: Reals) -> Reals:
    """Zeros in cache lines of their own: two threads that add to one line wait for each other at every row."""
    line = 128 // like.itemsize
    zeros = np.zeros(like.size + 2 * line, dtype=like.dtype)[line : line + like.size]
    return zeros.reshape(like.shape, order="F" if like.flags.f_contiguous else "C")


@lru_cache(maxsize=1)
def _cores() -> int:
    """Cores of this process, or fewer by `NUMBA_NUM_THREADS`; asked once, because containers are slow to answer."""
    of_numba = os.environ.get("NUMBA_NUM_THREADS", "")
    cores = int(cpu_count())
    return min(cores, int(of_numba)) if of_numba.isdigit() else cores


@lru_cache(maxsize=1)
def _pool() -> "SimpleQueue[Callable[[], None]]":
    """What threads that stay are to call: starting them takes longer than many a loop.

    A queue in place of an executor, whose futures take a call of sixteen threads a tenth of a millisecond more.
    """
    tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def serve() -> None:
        _LIMIT.threads = 1  # each is the only thread to what it calls
        while True:
            task = tasks.get()
            task()
            del task  # its arrays would else live until the next one

    for k in range(_cores()):
        threading.Thread(target=serve, name=f"widemargin_{k}", daemon=True).start()
    return tasks


if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


@lru_cache(maxsize=1)
def _blas(n_modules: int) -> ThreadpoolController:
    """BLAS and its like, with threads of their own; looked for again (milliseconds) where modules were imported."""
    return ThreadpoolController()

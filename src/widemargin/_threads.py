"""Threads of compiled loops and BLAS, bounded for the time of a fit."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController


def threads_in_force() -> int:
    """Number of threads that `limit_threads` allows; all cores outside of it."""
    return int(numba.get_num_threads())


def in_threads(n: int, least: int, part: Callable[[int, int], Any]) -> list[Any]:
    """Call `part(first, last)` for ranges that make up range(n), side by side in the threads in force.

    Parameters
    ----------
    n : int
    least : int
        Smallest range that is worth a thread: fewer threads are used where there is less to do.
    part : callable
        Compiled loops run side by side; they must not write to the same place.

    Returns
    -------
    list
        What the calls returned, in order.
    """
    threads = min(threads_in_force(), n // max(least, 1))
    if threads <= 1:
        return [part(0, n)]
    cuts = np.linspace(0, n, 4 * threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(part, cuts[:-1], cuts[1:]))


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[int]:
    """Bound numba's and BLAS's threads to `n_jobs` (None: 1; -1: all cores) and restore them afterwards.

    Yields
    ------
    int
        The number of threads in force.
    """
    threads = 1 if n_jobs is None else effective_n_jobs(n_jobs)
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    try:
        with _libraries(len(sys.modules)).limit(limits=threads):
            yield threads
    finally:
        numba.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """Libraries with threads of their own; looked for again (milliseconds) where modules were imported meanwhile."""
    return ThreadpoolController()

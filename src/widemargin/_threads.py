"""Threads of compiled loops and BLAS, bounded for the time of a fit."""

from collections.abc import Iterator
from contextlib import contextmanager

import numba
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

__all__ = ["limit_threads", "threads_in_force"]


def threads_in_force() -> int:
    """Number of threads that `limit_threads` allows; all cores outside of it."""
    return int(numba.get_num_threads())


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
        with threadpool_limits(limits=threads):
            yield threads
    finally:
        numba.set_num_threads(before)

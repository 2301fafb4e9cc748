"""A small Dask cluster for tests, and the loss of its workers."""

import contextlib
import logging
import os
import signal
import warnings

__all__ = ["kill_a_worker", "small_cluster"]


@contextlib.contextmanager
def small_cluster(n_workers=2):
    """A client of worker processes with one thread each."""
    from distributed import Client, LocalCluster

    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")  # of Dask and its event loop, about themselves
        cluster = stack.enter_context(
            LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        )
        yield stack.enter_context(Client(cluster))


def kill_a_worker(client, which=0):
    """End one worker process at once, as a machine that is switched off; the cluster starts another."""
    processes = sorted(client.run(os.getpid).values())
    os.kill(processes[which % len(processes)], signal.SIGKILL)

"""A small Dask cluster for tests, and the loss of its workers."""

import contextlib
import logging
import os
import signal
import warnings

__all__ = ["kill_a_worker", "small_cluster"]

PRELOADED = [
    "distributed", "pandas", "pytest", "widemargin.cli.models_and_rows",
    "widemargin.estimators.kernel_svm.kernel_search", "widemargin.estimators.rate_constrained.classifier",
]  # fmt: skip
"""What the tasks of the tests take seconds to import, in every worker anew."""


@contextlib.contextmanager
def small_cluster(n_workers=2):
    """A client of worker processes with one thread each; warnings of Dask about its own start and end are muted."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.utils import get_mp_context

    settings = {
        # A nanny's worker that comes late, on a machine with other work, is forgotten after 15 s otherwise, for ever.
        "distributed.deploy.lost-worker-timeout": "1h",
        # A cluster of a session is idle nearly always; watching itself took a tenth of a core from the other tests.
        "distributed.worker.profile.enabled": False,
        # Workers are forked from a process that has imported what they need: tests start and kill some twenty of them.
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.admin.system-monitor.interval": "10s",
        "distributed.admin.tick.interval": "1s",
    }
    options = {
        "n_workers": n_workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None,
        "memory_limit": 0,  # not limited, so not looked at ten times a second
    }  # fmt: skip
    with dask.config.set(settings):
        get_mp_context().set_forkserver_preload(PRELOADED)
        with _muted():
            cluster = LocalCluster(**options, silence_logs=logging.CRITICAL)
            client = Client(cluster)
        try:
            yield client
        finally:
            with _muted():
                client.close()
                cluster.close()


@contextlib.contextmanager
def _muted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def kill_a_worker(client, which=0):
    """End one worker process at once, as a machine that is switched off; the cluster starts another."""
    processes = sorted(client.run(os.getpid).values())
    os.kill(processes[which % len(processes)], signal.SIGKILL)

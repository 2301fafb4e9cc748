"""A client that is closed, a scheduler that is gone, workers without the library: an error that says so, and soon."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from clusters import small_cluster
from widemargin.distributed import DaskMap, array_rows, side_by_side
from widemargin.distributed import dask_map as module
from widemargin.exceptions import MissingLibraryError, WorkerLostError

RECIPES = array_rows({"x": np.ones(100)}, block_rows=10)


def slow(block, seconds):
    time.sleep(seconds)
    return block.data["x"].sum()


def unreadable(block, _):
    raise FileNotFoundError("no such rows")


def test_a_client_that_is_closed_while_blocks_are_worked_on():
    with small_cluster(1) as client:
        blocks = DaskMap(RECIPES, client)
        threading.Timer(0.5, client.close).start()
        with pytest.raises(WorkerLostError, match="slow cannot go on: the Dask client is closed"):
            blocks.sum(slow, 0.3)
        for late in (blocks.sum, blocks.advance, blocks.map):
            with pytest.raises(WorkerLostError, match="client is closed"):
                late(slow, 0.0)
        with pytest.raises(WorkerLostError, match="client is closed"):
            list(side_by_side(abs, [1, 2], client))


def test_a_scheduler_that_is_lost():
    from distributed import Client

    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        address = next(line.split()[-1] for line in scheduler.stderr if "Scheduler at:" in line)
        threading.Thread(target=scheduler.stderr.read, daemon=True).start()
        # A call that finds no scheduler any more asks for it again until then.
        client = Client(address, timeout="10s", set_as_default=False)
        blocks = DaskMap(RECIPES, client)
        threading.Timer(0.5, scheduler.kill).start()
        began = time.monotonic()
        with pytest.raises(WorkerLostError, match="has lost its scheduler"):
            blocks.sum(slow, 0.0)  # there is no worker: it waits
        assert time.monotonic() - began < 60
        client.close(timeout=1)
    finally:
        scheduler.kill()
        scheduler.communicate()


def test_errors_of_the_system_in_a_function_are_its_own(dask_client):
    with pytest.raises(FileNotFoundError, match="no such rows"):
        DaskMap(RECIPES, dask_client).sum(unreadable)


def test_workers_without_the_library_are_named(dask_client, monkeypatch):
    monkeypatch.setattr(module, "_able", module.weakref.WeakKeyDictionary())
    monkeypatch.setattr(module, "find_spec", nothing)
    with pytest.raises(MissingLibraryError, match=r"2 of 2 Dask worker\(s\) cannot import widemargin: tcp://"):
        DaskMap(RECIPES, dask_client)


def nothing(name):
    """As `find_spec` where the library is missing."""
    assert name == "widemargin"

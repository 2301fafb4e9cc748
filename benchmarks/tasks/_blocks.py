"""Rows, limits and losses for the benchmark of training over blocks."""

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from benchmarks.machine import status
from widemargin.distributed import ParquetRows, Recipe, parquet_rows
from widemargin_papers.data import Adult

GOAL = """
women = population(sex == 1)
men = population(sex == 0)
minimize error_rate()
subject to rule: positive_rate(women) >= 0.8 * positive_rate(men)
subject to floor: recall() >= 0.6
"""

GROUPS = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 41)
"""Binary columns of a9a that stand for one column of Adult each."""

_STARTS = np.cumsum((0, *GROUPS[:-1]))
_SEX = 9  # number of that group
_MIXED = 0.15  # share of the values that are drawn from another person
_CHUNK = 500_000


def codes_of(adult: Adult) -> np.ndarray:
    """Value of each of Adult's 14 columns, shape (n, 14); the number of values where it is missing."""
    bits = sp.csr_matrix(adult.X)[:, : sum(GROUPS)].toarray() > 0
    columns = np.split(bits, _STARTS[1:], axis=1)
    codes = [np.where(part.any(axis=1), part.argmax(axis=1), part.shape[1]) for part in columns]
    return np.column_stack(codes).astype(np.uint8)


def write_synthetic(adult: Adult, n: int, folder: Path, *, block_rows: int = 250_000, seed: int = 0) -> None:
    """Parquet files of n rows: people of a9a, a sixth of whose values are those of other people; sex is theirs."""
    codes, rng = codes_of(adult), np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part, low in enumerate(range(0, n, _CHUNK)):
        size = min(_CHUNK, n - low)
        who = rng.integers(codes.shape[0], size=size)
        others = codes[rng.integers(codes.shape[0], size=(size, len(GROUPS))), np.arange(len(GROUPS))]
        rows = np.where(rng.random(others.shape) < _MIXED, others, codes[who])
        label = np.where(rng.random(size) < 0.05, rng.random(size) < 0.24, adult.y[who] > 0)
        sex = (rows[:, _SEX] == 0).astype(np.uint8)
        table = pa.table({**{f"c{j}": rows[:, j] for j in range(rows.shape[1])}, "sex": sex,
                          "y": label.astype(np.uint8)})  # fmt: skip
        pq.write_table(table, folder / f"part{part:04d}.parquet", row_group_size=block_rows)


@dataclass(frozen=True)
class AdultColumns:
    """A recipe: Parquet rows of Adult's columns, each of which becomes its binary columns: 123 columns, 14 ones."""

    rows: ParquetRows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    def load(self) -> dict[str, Any]:
        """Training rows as `labelled_rows` gives them."""
        table = self.rows.load()
        codes = np.stack([table[f"c{j}"].to_numpy() for j in range(len(GROUPS))], axis=1).astype(np.int32)
        present = codes < np.array(GROUPS)
        indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
        indices = (codes + _STARTS.astype(np.int32))[present]
        X = sp.csr_matrix((np.ones(indices.shape[0], np.float32), indices, indptr), shape=(len(codes), sum(GROUPS)))
        return {"X": X, "y": table["y"].to_numpy(), "sample_weight": None, "populations": table.select(["sex"])}


def adult_columns(folder: Path, *, block_rows: int = 250_000) -> list[Recipe]:
    """Recipes for what `write_synthetic` wrote."""
    return [AdultColumns(rows) for rows in parquet_rows(folder, block_rows=block_rows)]


@contextmanager
def cluster(n_workers: int = 2) -> Iterator[Any]:
    """A client of worker processes of one thread each on this machine."""
    import logging

    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),  # else a dead one is not started again
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as made,
        Client(made) as client,
    ):
        yield client


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run something in a thread beside the block; its event tells that the block has ended."""
    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def watch(peak: dict[str, int], done: threading.Event) -> None:
    """Note the largest bytes, looked at ten times a second: resident, and of that private."""
    while not done.wait(0.1):
        for name, field in {"resident": "VmRSS", "private": "RssAnon"}.items():
            peak[name] = max(peak.get(name, 0), status(field))


def kill(client: Any, rng: random.Random, killed: list[int], most: int, done: threading.Event) -> None:
    """Kill a worker every other second on average, and note its process, until there are so many."""
    while len(killed) < most and not done.wait(rng.uniform(0.0, 4.0)):
        pids = [pid for worker in client.cluster.workers.values() if (pid := getattr(worker, "pid", None))]
        with suppress(ProcessLookupError, IndexError):  # all are dead already
            os.kill(chosen := rng.choice(pids), signal.SIGKILL)
            killed.append(chosen)

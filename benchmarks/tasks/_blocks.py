"""Rows, limits and losses for the benchmark of training over blocks."""

import os
import random
import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from widemargin.distributed import DaskMap, ParquetRows, Recipe, parquet_rows
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
    codes = np.empty((bits.shape[0], len(GROUPS)), np.uint8)
    for j, (start, size) in enumerate(zip(_STARTS, GROUPS, strict=True)):
        part = bits[:, start : start + size]
        codes[:, j] = np.where(part.any(axis=1), part.argmax(axis=1), size)
    return codes


def write_synthetic(adult: Adult, n: int, folder: Path, *, block_rows: int = 250_000, seed: int = 0) -> None:
    """Parquet files of n rows: people of a9a, a sixth of whose values are those of other people; sex is theirs."""
    codes, rng = codes_of(adult), np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part, low in enumerate(range(0, n, _CHUNK)):
        size = min(_CHUNK, n - low)
        who = rng.integers(codes.shape[0], size=size)
        rows = codes[who]
        for j in range(rows.shape[1]):
            some = np.flatnonzero(rng.random(size) < _MIXED)
            rows[some, j] = codes[rng.integers(codes.shape[0], size=some.shape[0]), j]
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
            n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as made,
        Client(made) as client,
    ):
        yield client


def limited(n_bytes: int) -> None:
    """Refuse this process more private memory than that; rows in mapped files are not private."""
    resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))


@contextmanager
def watched(every: float = 0.1) -> Iterator[dict[str, int]]:
    """Largest bytes so far, looked at ten times a second: resident, of that private, and what the limit is on."""
    names = {"resident": "VmRSS", "private": "RssAnon", "limited": "VmData"}
    peak, done = dict.fromkeys(names, 0), threading.Event()

    def look() -> None:
        while not done.wait(every):
            lines = Path("/proc/self/status").read_text().splitlines()
            status = dict(line.split(":", 1) for line in lines if ":" in line)
            for name, key in names.items():
                peak[name] = max(peak[name], int(status[key].split()[0]) * 1024)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


@dataclass
class Kills:
    """Workers to be killed in the course of a run.

    Attributes
    ----------
    every : int
        Mean number of calls between two of them.
    most : int
    """

    client: Any
    rng: random.Random
    every: int
    most: int
    done: int = 0
    calls: int = 0
    next: int = field(init=False)

    def __post_init__(self) -> None:
        self.next = self.rng.randint(1, self.every)

    def call(self) -> None:
        """Told of every call; sometimes a worker dies while it is made."""
        self.calls += 1
        if self.calls < self.next or self.done >= self.most:
            return
        self.next = self.calls + self.rng.randint(1, 2 * self.every)
        self.done += 1
        threading.Thread(target=self._kill, args=(self.rng.uniform(0.0, 0.05),), daemon=True).start()

    def _kill(self, after: float) -> None:
        time.sleep(after)
        workers = [worker for worker in self.client.cluster.workers.values() if getattr(worker, "pid", None)]
        if workers:
            try:
                os.kill(self.rng.choice(workers).pid, signal.SIGKILL)
            except ProcessLookupError:  # it is dead already
                self.done -= 1


class KilledMap(DaskMap):
    """Blocks on a cluster whose workers are killed at random."""

    kills: Kills

    def _sure(self, *args: Any, **more: Any) -> list[Any]:
        self.kills.call()
        return super()._sure(*args, **more)

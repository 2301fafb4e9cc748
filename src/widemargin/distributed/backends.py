"""Blocks in this process, in the workers of joblib, and several block maps as one."""

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import ThreadingBackend, get_active_backend

from widemargin.distributed.blocks import Block, BlockFunction, BlockMap, Step, combined, filled_blocks, summed
from widemargin.distributed.recipes import Recipe
from widemargin.exceptions import DataError


class SerialMap:
    """Blocks in this process, one after the other: the reference that all other back ends must agree with.

    Parameters
    ----------
    recipes : sequence of Recipe
        How the rows of every block are read.
    hold : bool, default=True
        Whether rows stay in memory between two calls. False is out-of-core work: one block at a time is in memory (and
        the state of all), and every call reads its rows again.

    Raises
    ------
    DataError
        If there is no recipe.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.distributed import SerialMap, array_rows
    >>> blocks = SerialMap(array_rows({"x": np.arange(10.0)}, block_rows=4))
    >>> blocks.sum(lambda block, power: (block.data["x"] ** power).sum(), 2)
    np.float64(285.0)
    """

    def __init__(self, recipes: Sequence[Recipe], *, hold: bool = True) -> None:
        self._take(recipes, (), hold)

    def _take(self, recipes: Sequence[Recipe], steps: Sequence[Step], hold: bool) -> None:
        self._recipes, self._steps, self._hold = list(recipes), tuple(steps), hold
        if not self._recipes:
            raise DataError("there are no blocks. Give one recipe at least.")
        self._blocks = [Block(i, recipe, steps, hold=hold) for i, recipe in enumerate(self._recipes)]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self._blocks)

    def map(self, function: BlockFunction, message: object = None) -> list[Any]:
        """See `BlockMap`."""
        return list(self.stream(function, message))

    def sum(self, function: BlockFunction, message: object = None) -> Any:
        """See `BlockMap`."""
        return summed(self.stream(function, message))

    def advance(self, function: BlockFunction, message: object = None, *, restart: bool = False) -> None:
        """See `BlockMap`; blocks in this process are not lost, so there is no log."""
        if restart:
            for block in self._blocks:
                block.state, block.n_advances = None, 0
        for block, state in zip(self._blocks, self.stream(function, message), strict=True):
            block.state, block.n_advances = state, block.n_advances + 1

    def prepared(
        self, function: Callable[[Any, Any], Any], message: object = None, *, hold: bool | None = None
    ) -> "SerialMap":
        """See `BlockMap`."""
        other = copy.copy(self)
        other._take(self._recipes, (*self._steps, Step(function, message)), self._hold if hold is None else hold)
        return other

    def near(self, n_bytes: int) -> "SerialMap":
        """See `BlockMap`; the rows are here already."""
        return self

    def filled(self) -> "SerialMap":
        """See `BlockMap`."""
        filled = filled_blocks(self, self._recipes)
        if len(filled) == self.n_blocks:
            return self
        other = copy.copy(self)
        other._recipes = [self._recipes[i] for i in filled]
        other._blocks = [self._blocks[i].numbered(n) for n, i in enumerate(filled)]
        return other

    def close(self) -> None:
        """See `BlockMap`."""
        self._blocks = []

    def stream(self, function: BlockFunction, message: object = None) -> Iterator[Any]:
        """See `BlockMap`."""
        return (called(function, block, message) for block in self._blocks)


class JoblibMap(SerialMap):
    """Blocks on this machine, side by side in joblib's workers.

    Parameters
    ----------
    recipes : sequence of Recipe
    n_jobs : int, default=None
        Blocks worked on at a time; -1: as many as there are cores; None: what `joblib.parallel_config` says, else 1.
    hold : bool, default=True
        As in `SerialMap`.
    prefer : {"threads", "processes"}, default="threads"
        What joblib is to use, unless `joblib.parallel_config` names a backend.

    Notes
    -----
    Threads share rows and caches, and run side by side, because compiled loops and BLAS release the interpreter's lock.
    To other processes (or machines, by joblib's backend "dask") recipes and states are sent at every call.
    """

    def __init__(
        self, recipes: Sequence[Recipe], n_jobs: int | None = None, *, hold: bool = True, prefer: str = "threads"
    ) -> None:
        super().__init__(recipes, hold=hold)
        self._n_jobs, self._prefer = n_jobs, prefer

    def stream(self, function: BlockFunction, message: object = None) -> Iterator[Any]:
        """See `BlockMap`; where the backend cannot do it, all results come at once."""
        backend, n_jobs = get_active_backend(prefer=self._prefer)
        if isinstance(backend, ThreadingBackend):
            # joblib would make a pool of threads at every call and look every 10 ms whether a result is there: 15 ms a
            # call, and a fit makes hundreds, each of less than one.
            n_threads = backend.effective_n_jobs(n_jobs if self._n_jobs is None else self._n_jobs)
            with ThreadPoolExecutor(n_threads) as pool:
                yield from pool.map(called, repeat(function), self._blocks, repeat(message))
            return
        calls = (delayed(called)(function, block, message) for block in self._blocks)
        one_by_one = backend.supports_return_generator
        kind = "generator" if one_by_one else "list"
        results = Parallel(n_jobs=self._n_jobs, prefer=self._prefer, return_as=kind)(calls)
        try:
            for result in results:  # noqa: UP028  `yield from` would close the results before warnings are silenced
                yield result
        finally:
            # If the caller stops early, after an error for instance, joblib would warn of unused results.
            if one_by_one:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    results.close()


def called(function: BlockFunction, block: Block, message: object) -> Any:
    """The function's result; rows that are not to be held are dropped afterwards."""
    try:
        return function(block, message)
    finally:
        block.release()


class JoinedMap:
    """All blocks of some block maps, the first ones first.

    Parameters
    ----------
    maps : sequence of BlockMap
    """

    def __init__(self, maps: Sequence[BlockMap]) -> None:
        self._maps = tuple(maps)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return sum(one.n_blocks for one in self._maps)

    def map(self, function: BlockFunction, message: object = None) -> list[Any]:
        """See `BlockMap`."""
        return [result for one in self._maps for result in one.map(function, message)]

    def stream(self, function: BlockFunction, message: object = None) -> Iterator[Any]:
        """See `BlockMap`."""
        for one in self._maps:
            yield from one.stream(function, message)

    def sum(self, function: BlockFunction, message: object = None) -> Any:
        """See `BlockMap`; first each of the maps by itself."""
        return combined([one.sum(function, message) for one in self._maps])

    def advance(self, function: BlockFunction, message: object = None, *, restart: bool = False) -> None:
        """See `BlockMap`."""
        for one in self._maps:
            one.advance(function, message, restart=restart)

    def prepared(
        self, function: Callable[[Any, Any], Any], message: object = None, *, hold: bool | None = None
    ) -> "JoinedMap":
        """See `BlockMap`."""
        return JoinedMap([one.prepared(function, message, hold=hold) for one in self._maps])

    def near(self, n_bytes: int) -> "JoinedMap":
        """See `BlockMap`; each of the maps by itself."""
        return JoinedMap([one.near(n_bytes) for one in self._maps])

    def filled(self) -> "JoinedMap":
        """See `BlockMap`; every one of the maps must hold rows."""
        return JoinedMap([one.filled() for one in self._maps])

    def close(self) -> None:
        """See `BlockMap`."""
        for one in self._maps:
            one.close()

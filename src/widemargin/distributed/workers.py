"""Which back end the argument `workers=` chooses, for blocks of rows and for independent calls."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from joblib import effective_n_jobs

from widemargin._threads import limit_threads
from widemargin.distributed.backends import JoblibMap, SerialMap
from widemargin.distributed.blocks import Block, BlockMap
from widemargin.distributed.dask_map import DaskMap
from widemargin.distributed.recipes import FramePartition, HeldRows, Recipe
from widemargin.exceptions import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")


def block_map(recipes: Sequence[Recipe], workers: object = None, *, hold: bool = True) -> BlockMap:
    """Blocks on the given workers.

    Parameters
    ----------
    recipes : sequence of Recipe
    workers : None, int or distributed.Client, default=None
        None: one block after the other in this process (partitions of a Dask frame: on the current client, if there is
        one). An integer: so many blocks at a time on this machine, -1 for one a core. A client: its cluster.
    hold : bool, default=True
        Whether rows stay in memory between two calls.

    Returns
    -------
    BlockMap

    Raises
    ------
    DataError
        If `workers` is something else, or there is no recipe.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.distributed import array_rows, block_map
    >>> blocks = block_map(array_rows({"x": np.ones(100)}, block_rows=30), workers=2)
    >>> blocks.sum(lambda block, message: block.data["x"].size)
    100
    """
    if workers is None:
        client = client_in_force() if any(isinstance(recipe, FramePartition) for recipe in recipes) else None
        return SerialMap(recipes, hold=hold) if client is None else DaskMap(recipes, client, hold=hold)
    if isinstance(workers, int) and not isinstance(workers, bool):
        if workers == 0 or workers < -1:
            raise DataError(f"workers is {workers}; give a number of at least 1, or -1 for all cores.")
        return SerialMap(recipes, hold=hold) if workers == 1 else JoblibMap(recipes, workers, hold=hold)
    if hasattr(workers, "submit") and hasattr(workers, "scatter"):
        return DaskMap(recipes, workers, hold=hold)
    raise DataError(f"workers is a {type(workers).__name__}; give None, a number or a distributed.Client.")


def client_in_force() -> Any:
    """The current Dask client, or None; without importing Dask, since who has a client has imported it.

    None, too, inside a task of Dask: the task would occupy its worker while it waits for tasks that need a worker.
    """
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with contextlib.suppress(ValueError):  # this is no task
            distributed.get_worker()
            return None
        with contextlib.suppress(ValueError):  # there is no client
            return distributed.get_client()
    return None


def is_serial(workers: object = None) -> bool:
    """Whether `side_by_side` would call in this process, one item after the other."""
    return bool(workers == 1) if workers is not None else int(effective_n_jobs(None)) == 1


def side_by_side(
    function: Callable[[Item], Result], items: Iterable[Item], workers: object = None, *, n_jobs: int | None = None
) -> Iterator[Result]:
    """Call a function on every item, on the given workers; results in the order of the items.

    Parameters
    ----------
    function : callable
        Of one item; picklable, with the object it is bound to. Results must not depend on the order of the calls.
    items : iterable
    workers : None, int or distributed.Client, default=None
        None: as `joblib.parallel_config` says, which may name any backend of joblib, also "dask"; else one after the
        other in this process. An integer: so many processes of this machine. A client: its cluster; calls of a lost
        worker are repeated.
    n_jobs : int, default=None
        Threads of each call by a worker; None means 1.

    Yields
    ------
    any
        The results. If the caller stops early, calls that have not begun are not made.

    Raises
    ------
    DataError
        If `workers` is something else.
    WorkerLostError
        If workers are lost again and again.

    Examples
    --------
    >>> from widemargin.distributed import side_by_side
    >>> list(side_by_side(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    values = list(items)
    if not values:
        return
    if is_serial(workers):
        yield from map(function, values)
        return
    recipes = [HeldRows(value) for value in values]
    n_workers = workers if isinstance(workers, int) and not isinstance(workers, bool) else None
    blocks: BlockMap
    if workers is None or (n_workers is not None and (n_workers > 0 or n_workers == -1)):
        blocks = JoblibMap(recipes, n_workers, prefer="processes")
    else:
        blocks = block_map(recipes, workers, hold=False)  # calls that take unequal time go to workers that are free
    try:
        yield from blocks.stream(_called_with_threads, (function, n_jobs))
    finally:
        blocks.close()


class Deadline(NamedTuple):
    """When calls on other machines must end, in wall-clock time, the only clock that machines share.

    Attributes
    ----------
    time : float or None
        Seconds since the epoch; None: no limit.
    """

    time: float | None

    @classmethod
    def after(cls, seconds: float | None) -> "Deadline":
        """So many seconds from now."""
        return cls(None if seconds is None else time.time() + seconds)

    @property
    def left(self) -> float | None:
        """Seconds from now, at least 1 ms; None: no limit."""
        return None if self.time is None else max(1e-3, self.time - time.time())


def _called_with_threads(block: Block, message: tuple[Callable[[Item], Result], int | None]) -> Result:
    function, n_jobs = message
    # The workers of one machine share its cores; with all threads of BLAS in each they would slow each other down.
    with limit_threads(1 if n_jobs is None else n_jobs):
        return function(block.data)

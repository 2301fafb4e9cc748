"""Independent fits side by side: folds, settings, runs. One rule for every function that sweeps."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from joblib import effective_n_jobs

from widemargin._threads import limit_threads
from widemargin.distributed.backends import JoblibMap
from widemargin.distributed.blocks import Block, BlockMap
from widemargin.distributed.recipes import HeldRows
from widemargin.distributed.workers import block_map

Item = TypeVar("Item")
Result = TypeVar("Result")

__all__ = ["Deadline", "is_serial", "side_by_side"]


def is_serial(workers: object = None) -> bool:
    """Whether `side_by_side` would call in this process, one item after the other."""
    return bool(workers == 1) if workers is not None else int(effective_n_jobs(None)) == 1


def side_by_side(
    function: Callable[[Item], Result], items: Iterable[Item], workers: object = None, *, n_jobs: int | None = None
) -> Iterator[Result]:
    """Call a function on every item, on the workers that are asked for; results in the order of the items.

    Parameters
    ----------
    function : callable
        Of one item; can be pickled (also what it is bound to). Results must not depend on the order of the calls.
    items : iterable
    workers : None, int or distributed.Client, default=None
        None: as `joblib.parallel_config` says, which may name any backend of joblib, also "dask"; else one after the
        other in this process. An integer: so many processes of this machine. A client: its cluster; what a lost worker
        had is done again.
    n_jobs : int, default=None
        Threads of each call by a worker; None means 1.

    Yields
    ------
    any
        Results are handed out as they come. Who stops asking spares the calls that were not begun.

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
        blocks = block_map(recipes, workers)
    try:
        yield from blocks.stream(_on_item, (function, n_jobs))
    finally:
        blocks.close()


class Deadline(NamedTuple):
    """When calls that run elsewhere must end: by the clock, which machines share.

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


def _on_item(block: Block, message: tuple[Callable[[Item], Result], int | None]) -> Result:
    function, n_jobs = message
    with limit_threads(n_jobs):
        return function(block.data)

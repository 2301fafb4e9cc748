"""Which workers: what a function with `workers=` makes of its argument."""

import sys
from collections.abc import Sequence
from typing import Any

from widemargin.distributed.backends import JoblibMap, SerialMap
from widemargin.distributed.blocks import BlockMap
from widemargin.distributed.dask_map import DaskMap
from widemargin.distributed.recipes import FramePartition, Recipe
from widemargin.exceptions import DataError

__all__ = ["block_map", "client_in_force"]


def block_map(recipes: Sequence[Recipe], workers: object = None, *, hold: bool = True) -> BlockMap:
    """Blocks on the workers that are asked for.

    Parameters
    ----------
    recipes : sequence of Recipe
    workers : None, int or distributed.Client, default=None
        None: one block after the other in this process (partitions of a Dask frame: the client in force, if there is
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
    """The Dask client that the user has made, or None; Dask is not imported for that.

    None, too, in a task of Dask: it would wait for other tasks on the worker that it keeps busy.
    """
    if "distributed" not in sys.modules:
        return None
    distributed = sys.modules["distributed"]
    try:
        distributed.get_worker()
    except ValueError:  # this is no task
        pass
    else:
        return None
    try:
        return distributed.get_client()
    except ValueError:  # there is none
        return None

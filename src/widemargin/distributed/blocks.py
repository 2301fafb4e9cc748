"""The interface of a back end: blocks of rows that can be rebuilt, functions called on all of them, sums.

Sums are taken in one order by all back ends. `BlockedRows` is the view that solvers have of rows in blocks.
"""

import copy
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any, NamedTuple, Protocol, Self

import narwhals as nw
import numpy as np

from widemargin._typing import Floats
from widemargin.distributed.recipes import Recipe, rows_of
from widemargin.exceptions import DataError
from widemargin.rows import Rows

FAN_IN = 16
"""Summands of one addition; a worker holds that many in memory at a time."""

BlockFunction = Callable[["Block", Any], Any]
"""A function of a block and of the message sent to all blocks. Importable by name wherever it is to run."""


class Step(NamedTuple):
    """A function and the message it is called with, so that the call can be repeated on a rebuilt block."""

    function: Callable[[Any, Any], Any]
    message: Any


class Block:
    """Some rows, with the state of an algorithm on them.

    Parameters
    ----------
    index : int
        Number of the block, from 0.
    recipe : Recipe
        How the rows are read.
    steps : sequence of Step
        Transformations of the rows after reading, see `BlockMap.prepared`.
    hold : bool, default=True
        Whether the rows stay in memory between two calls. False: they are read again for every call.

    Attributes
    ----------
    state : any
        What the last `BlockMap.advance` returned for this block; None before the first one. Not to be changed in place.
    n_advances : int
        How often the block was advanced.
    scratch : dict
        A cache in which functions keep values for later calls on the same block, for example products with the last
        message. It is empty after the block was rebuilt elsewhere, so a function must be able to compute a value again,
        and must store beside it what it depends on (`n_advances`, a number in the message).
    """

    def __init__(self, index: int, recipe: Recipe, steps: Sequence[Step] = (), *, hold: bool = True) -> None:
        self.index, self.recipe, self.steps, self.hold = index, recipe, tuple(steps), hold
        self.state: Any = None
        self.n_advances = 0
        self.scratch: dict[str, Any] = {}
        self._data: Any = None
        self._is_read = False

    @property
    def title(self) -> str:
        """The block in messages: its number, and the file of its rows where there is one."""
        path = getattr(self.recipe, "path", None)
        return f"block {self.index} ({path})" if isinstance(path, str) else f"block {self.index}"

    @property
    def data(self) -> Any:
        """The rows as the recipe reads them, after all steps; read at the first use."""
        if self._is_read:
            return self._data
        data = self.recipe.load()
        for function, message in self.steps:
            data = function(data, message)
        self._data, self._is_read = data, True
        return data

    def release(self) -> None:
        """Forget rows that are not to be held; called after every function."""
        if not self.hold:
            self._data, self._is_read = None, False

    def with_state(self, state: object, n_advances: int) -> Self:
        """This block in another state; it shares the rows and the cache."""
        if self.hold:
            self.data  # noqa: B018  read here, so that both share it
        other = object.__new__(type(self))
        vars(other).update(vars(self), state=state, n_advances=n_advances)
        return other

    def numbered(self, index: int) -> Self:
        """This block under another number and without state; it shares the rows."""
        other = self.with_state(None, 0)
        other.index, other.scratch = index, {}
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Rows and cache are not pickled: they are read and computed again where the block arrives."""
        return vars(self) | {"_data": None, "_is_read": False, "scratch": {}}

    def __sizeof__(self) -> int:
        """Approximate bytes of the rows in memory; the memory management of Dask asks for them."""
        return 1000 + (bytes_of(self._data) if self._is_read and self.hold else 0) + bytes_of(self.recipe)


def bytes_of(value: object) -> int:
    """Approximate bytes of a value: of arrays, tables, sparse matrices, and of containers of them."""
    nbytes = getattr(value, "nbytes", None)
    if isinstance(nbytes, int):
        return nbytes
    if isinstance(value, Rows):
        return sum(map(bytes_of, vars(value).values()))
    if isinstance(value, dict):
        return sum(map(bytes_of, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(bytes_of, value))
    frame = nw.from_native(value, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return int(frame.estimated_size())
    parts = [getattr(value, name, None) for name in ("data", "indices", "indptr", "arrays")]
    return sum(bytes_of(part) for part in parts if part is not None and part is not value)


class BlockMap(Protocol):
    """Blocks of rows, in this process or elsewhere, and the operations on all of them: map, sum, and advance.

    All functions are called as `function(block, message)` with a `Block`, where the block is. They must be importable
    or picklable, must not change `block.state` or `block.data`, and may cache values in `block.scratch`.

    Floating-point sums depend on the order of their summands. The order is fixed (runs of `FAN_IN` blocks, then runs of
    their sums), so a sum is the same to the last bit for every back end and every number of workers.
    """

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""

    def map(self, function: BlockFunction, message: object = None) -> list[Any]:
        """What the function returns for every block, in the order of the blocks."""

    def stream(self, function: BlockFunction, message: object = None) -> Iterator[Any]:
        """As `map`, but results are yielded one after the other, each as soon as it and those before it are known."""

    def sum(self, function: BlockFunction, message: object = None) -> Any:
        """The sum of what the function returns for every block.

        Summands are numbers, arrays, None, objects with `merge`, or tuples, lists, NamedTuples and dicts of them.
        """

    def advance(self, function: BlockFunction, message: object = None, *, restart: bool = False) -> None:
        """Set every block's `state` to what the function returns; the function may read the previous state.

        Functions and messages are logged: a block that was lost is rebuilt from its recipe and advanced by all of them.
        With `restart` all blocks begin without a state, and the log is cleared before.
        """

    def prepared(
        self, function: Callable[[Any, Any], Any], message: object = None, *, hold: bool | None = None
    ) -> "BlockMap":
        """The same blocks with `function(data, message)` in place of their data, and without state.

        `hold` says whether these data stay in memory between two calls; None: as before.
        """

    def near(self, n_bytes: int) -> "BlockMap":
        """The same blocks in the memory of this process if their rows take no more than `n_bytes`; else as they are.

        A call on a cluster costs some milliseconds, in which this process passes over a few rows itself.
        """

    def filled(self) -> "BlockMap":
        """The blocks that hold rows, numbered anew and without state; this map where all of them do.

        Partitions of a Dask frame may have been emptied by a filter. Where a recipe does not say how many rows it has,
        they are read.

        Raises
        ------
        DataError
            If no block holds rows.
        """

    def close(self) -> None:
        """Drop blocks and states, so that their memory can be freed."""


def filled_blocks(blocks: BlockMap, recipes: Sequence[Recipe]) -> list[int]:
    """Numbers of the blocks that hold rows, see `BlockMap.filled`."""
    counts: Sequence[int | None] = [getattr(recipe, "n_rows", None) for recipe in recipes]
    if None in counts:
        counts = blocks.map(_n_rows)
    filled = [i for i, count in enumerate(counts) if count]
    if not filled:
        raise DataError(f"none of {len(counts)} block(s) holds rows. Give some, or look at the filter before.")
    return filled


def _n_rows(block: Block, _: None) -> int:
    # Blocks that say their number, also 0, are not read for it.
    n_rows: int | None = getattr(block.recipe, "n_rows", None)
    return rows_of(block.data) if n_rows is None else n_rows


# Sums of what functions return for blocks.


def combined(values: Sequence[Any]) -> Any:
    """The sum of values from left to right; none of them is changed.

    Raises
    ------
    DataError
        If two of them differ in kind, length, keys or shape, or cannot be added.
    """
    first, *others = values
    for other in others:
        if not _can_be_added(first, other):
            raise DataError(
                f"blocks gave {_kind(first)} and {_kind(other)}, which cannot be added. Return one kind for all."
            )
    if first is None:
        return None
    if isinstance(first, dict):
        return {key: combined([value[key] for value in values]) for key in first}
    if isinstance(first, (list, tuple)):
        items = [combined(parts) for parts in zip(*values, strict=True)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if isinstance(first, np.ndarray):
        # Booleans and small integers become 64-bit integers, so that sums of them count and do not overflow.
        total = first.astype(np.result_type(first, np.int64)) if first.dtype.kind in "biu" else first.copy()
        for other in others:
            # In place, unless the total is of a kind that cannot hold the sum, as integers cannot hold fractions.
            if np.can_cast(other.dtype, total.dtype, "same_kind"):
                total += other
            else:
                total = total + other
        return total
    if isinstance(first, (bool, np.bool_)):
        return sum(others, int(first))
    if hasattr(first, "merge"):
        return functools.reduce(lambda total, other: total.merge(other), others, copy.deepcopy(first))
    return functools.reduce(operator.add, others, first if isinstance(first, Number) else copy.deepcopy(first))


def _can_be_added(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and other.shape == one.shape
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys()
    if isinstance(one, (list, tuple)):
        return isinstance(other, type(one)) and len(one) == len(other)
    return (one is None) == (other is None)


def summed(values: Iterable[object]) -> Any:
    """The sum of values that come one by one, in the order of a tree: runs of `FAN_IN` values, runs of their sums, ...

    Examples
    --------
    >>> summed(range(1000))
    499500
    """
    # levels[k] holds fewer than FAN_IN sums of FAN_IN^k values each, so of n values only about FAN_IN log n sums are in
    # memory at a time; the digits of a counter to the base FAN_IN carry over in the same way.
    levels: list[list[Any]] = [[]]
    for value in values:
        levels[0].append(value)
        for level, waiting in enumerate(levels):
            if len(waiting) < FAN_IN:
                break
            if level + 1 == len(levels):
                levels.append([])
            levels[level + 1].append(combined(waiting))
            waiting.clear()
    # Incomplete runs, from the shortest sums to the longest: exactly the tree that `DaskMap.sum` builds level by level.
    carried: list[Any] = []
    for waiting in levels:
        run = [*waiting, *carried]
        carried = [combined(run)] if run else []
    if not carried:
        raise DataError("there is no block to sum over. Give some rows.")
    return carried[0]


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, dict):
        return f"a dict with keys {sorted(map(str, value))[:6]}"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"


# The view that solvers have of rows in blocks.

Variant = tuple[tuple[str, tuple[Any, ...]], ...]
"""Methods of a problem with their arguments; called in order on the problem of a block they give the one to solve."""


class BlockedPoint(NamedTuple):
    """A model (w, b); it stands in the place of the array of scores that a problem in memory passes around."""

    w: Floats
    b: float
    n_rows: int

    @property
    def shape(self) -> tuple[int]:
        """That of the scores."""
        return (self.n_rows,)


@dataclass
class BlockedRows:
    """n rows of d features in blocks.

    Attributes
    ----------
    blocks : BlockMap
    n_rows, n_features : int
    n_stored : int
        Numbers stored in the rows.
    centre : ndarray of shape (d,)
        Mean of the rows.
    n_passes : int
        How often the features of all rows have been read so far.
    """

    blocks: BlockMap
    n_rows: int
    n_features: int
    n_stored: int
    centre: Floats
    n_passes: int = 0
    _last: tuple[BlockedPoint, Floats] | None = None

    def square(self, w: Floats) -> float:
        """`|w|^2`."""
        return float(w @ w)

    def sums_at(self, function: Callable[[Block, BlockedPoint], Floats], at: BlockedPoint) -> Floats:
        """The sum of a function over the blocks at a model, always the same function; the last sum is cached, as a
        solver asks for the objective and the gradient at one model in turn."""
        if self._last is None or self._last[0].b != at.b or not np.array_equal(self._last[0].w, at.w):
            self._last = at._replace(w=at.w.copy()), np.asarray(self.blocks.sum(function, at))
            self.n_passes += 1
        return self._last[1]


def block_scores(block: Block, w: Floats, b: float) -> Floats:
    """Scores `X w - b` of a block's rows; those of the last model are cached. Not to be changed in place."""
    known: tuple[Floats, float, Floats] | None = block.scratch.get("scores")
    if known is None or known[1] != b or not np.array_equal(known[0], w):
        rows = block.data.rows
        z = rows.dot(w, out=np.empty(rows.n_rows))
        z -= b
        known = block.scratch["scores"] = w.copy(), b, z
    return known[2]

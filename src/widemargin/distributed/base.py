"""What a back end offers: blocks of rows that can be built again, functions called on all of them, sums."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self

import narwhals as nw

from widemargin.distributed.recipes import Recipe, rows_of
from widemargin.exceptions import DataError

__all__ = ["Block", "BlockFunction", "BlockMap", "Step", "filled_blocks"]

BlockFunction = Callable[["Block", Any], Any]
"""A function of a block and of the message sent to all blocks. Importable by name wherever it is to run."""


class Step(NamedTuple):
    """A function and the message it is called with: what must be remembered to do it again."""

    function: Callable[[Any, Any], Any]
    message: Any


class Block:
    """Some rows, and what lives with them.

    Parameters
    ----------
    index : int
        Number of the block, from 0.
    recipe : Recipe
        How the rows are read.
    steps : sequence of Step
        What is made of them after reading, see `BlockMap.prepared`.
    hold : bool, default=True
        Whether the rows stay in memory between two calls. False: they are read again for every call.

    Attributes
    ----------
    state : any
        What the last `BlockMap.advance` returned for this block; None before the first one. Not to be changed in place.
    n_advances : int
        How often the block was advanced.
    scratch : dict
        Notes of a function to its next call on the same block: products with the last message, say. It may be found
        empty at any time, as it is where the block had to be built again elsewhere; whoever reads it must be able to do
        without, and must write beside a note what it depends on (`n_advances`, a number in the message).
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
        """The rows, as the recipe reads them and the steps make them; read when first asked for."""
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

    def with_state(self, state: Any, n_advances: int) -> Self:
        """This block in another state; it shares the rows and the notes."""
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
        """Rows and notes do not travel: they are made again where the block arrives."""
        return vars(self) | {"_data": None, "_is_read": False, "scratch": {}}

    def __sizeof__(self) -> int:
        """Bytes of the rows in memory, as far as they say; for the memory management of Dask."""
        return 1000 + (bytes_of(self._data) if self._is_read and self.hold else 0) + bytes_of(self.recipe)


def bytes_of(value: Any) -> int:
    """Bytes of the arrays in a value, roughly: those of arrays, tables, and of what holds them."""
    nbytes = getattr(value, "nbytes", None)
    if isinstance(nbytes, int):
        return nbytes
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
    """Blocks of rows somewhere, and the three operations on them: map, sum, and a message sent to all.

    All functions are called as `function(block, message)` with a `Block`, wherever the block is. They must be
    importable or picklable, must not change `block.state` or `block.data`, and may keep notes in `block.scratch`.

    Sums are made in one fixed order (runs of `sums.FAN_IN` blocks, then runs of their sums), so they do not depend on
    the back end or on the number of workers, to the last bit.
    """

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""

    def map(self, function: BlockFunction, message: Any = None) -> list[Any]:
        """What the function returns for every block, in the order of the blocks."""

    def stream(self, function: BlockFunction, message: Any = None) -> Iterator[Any]:
        """As `map`, but one result after the other, as soon as it and those before it are there."""

    def sum(self, function: BlockFunction, message: Any = None) -> Any:
        """The sum of what the function returns for every block.

        Summands are numbers, arrays, None, objects with `merge`, or tuples, lists, NamedTuples and dicts of them.
        """

    def advance(self, function: BlockFunction, message: Any = None, *, restart: bool = False) -> None:
        """Let every block's `state` be what the function returns; it may look at the state before.

        Function and message are remembered: a block that was lost is built again by its recipe and advanced by all of
        them. With `restart` the new state does not look at the old one, and what was remembered is forgotten.
        """

    def prepared(
        self, function: Callable[[Any, Any], Any], message: Any = None, *, hold: bool | None = None
    ) -> "BlockMap":
        """The same blocks with `function(data, message)` for data, and no state.

        With `hold` these data stay in memory between two calls, or do not; None: as before.
        """

    def near(self, n_bytes: int) -> "BlockMap":
        """The same blocks in the memory of this process if their rows take no more than `n_bytes`; else as they are.

        A call on a cluster costs some milliseconds: few rows are worked on sooner than they are asked about.
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
        """Let go of blocks and states."""


def filled_blocks(blocks: BlockMap, recipes: Sequence[Recipe]) -> list[int]:
    """Numbers of the blocks that hold rows, see `BlockMap.filled`."""
    counts: Sequence[int | None] = [getattr(recipe, "n_rows", None) for recipe in recipes]
    if None in counts:
        counts = blocks.map(_n_rows)
    kept = [i for i, count in enumerate(counts) if count]
    if not kept:
        raise DataError(f"none of {len(counts)} block(s) holds rows. Give some, or look at the filter before.")
    return kept


def _n_rows(block: Block, _: None) -> int:
    known: int | None = getattr(block.recipe, "n_rows", None)
    return rows_of(block.data) if known is None else known

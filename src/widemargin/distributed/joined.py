"""Blocks of several back ends as one: rows of a cluster, say, with a few that this process holds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from widemargin.distributed.base import BlockFunction, BlockMap
from widemargin.distributed.sums import combined

__all__ = ["JoinedMap"]


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

    def map(self, function: BlockFunction, message: Any = None) -> list[Any]:
        """See `BlockMap`."""
        return [result for one in self._maps for result in one.map(function, message)]

    def stream(self, function: BlockFunction, message: Any = None) -> Iterator[Any]:
        """See `BlockMap`."""
        for one in self._maps:
            yield from one.stream(function, message)

    def sum(self, function: BlockFunction, message: Any = None) -> Any:
        """See `BlockMap`; first each of the maps by itself."""
        return combined([one.sum(function, message) for one in self._maps])

    def advance(self, function: BlockFunction, message: Any = None, *, restart: bool = False) -> None:
        """See `BlockMap`."""
        for one in self._maps:
            one.advance(function, message, restart=restart)

    def prepared(
        self, function: Callable[[Any, Any], Any], message: Any = None, *, hold: bool | None = None
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

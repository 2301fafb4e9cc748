"""`--workers N` or `--workers tcp://HOST:PORT`: pieces of a table side by side, here or on a Dask cluster."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from widemargin.cli.tables.table_files import TableBlocks
from widemargin.distributed.dask_map import dask_client
from widemargin.exceptions import DataError

__all__ = ["by_pieces", "connected", "in_pieces"]

_PATIENCE = 20  # seconds


def in_pieces(blocks: TableBlocks, workers: str | None) -> bool:
    """Whether workers were asked for.

    Raises
    ------
    DataError
        The table cannot be cut.
    """
    if workers is None or workers == "1":
        return False
    if not blocks.cut():
        raise DataError(f"{blocks.title}: --workers needs Parquet, whose row groups are read one by one. Convert it")
    return True


def by_pieces(function: Callable[[Any], Any], blocks: TableBlocks, workers: str) -> Iterator[Any]:
    """What a function says of every piece of the table, in order."""
    from widemargin.distributed.workers import side_by_side

    with connected(workers) as found:
        yield from side_by_side(function, blocks.cut(), found)


@contextmanager
def connected(text: str) -> Iterator[Any]:
    """What `side_by_side` takes for workers: a number, or a client that is closed in the end.

    Raises
    ------
    DataError
        The text is neither a number nor an address, or nobody answers there.
    MissingLibraryError
        Dask is not installed.
    """
    if text.isdecimal() and int(text) > 0:
        yield int(text)
    elif "://" in text:
        client = _client(text)
        try:
            yield client
        finally:
            client.close()
    else:
        raise DataError(f"--workers {text}: give a number of at least 1, or an address such as tcp://127.0.0.1:8786")


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        return dask_client()  # which says what to install
    try:
        place = urlsplit(address)
        if place.scheme in ("tcp", "tls") and place.hostname and place.port:
            socket.create_connection((place.hostname, place.port), timeout=_PATIENCE).close()  # else it tries for long
        return Client(address, timeout=_PATIENCE, set_as_default=False)
    except Exception as error:  # who is no scheduler may answer anything
        raise DataError(
            f"--workers {address}: no Dask scheduler answers there ({error}). Correct the address"
        ) from error

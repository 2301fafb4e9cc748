"""`--workers N` or `--workers tcp://HOST:PORT`: pieces of a table side by side, here or on a Dask cluster."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from widemargin.cli.tables.table_files import TableBlocks
from widemargin.distributed.dask_map import dask_client
from widemargin.exceptions import DataError

Result = TypeVar("Result")


def by_pieces(
    function: Callable[[TableBlocks], Result], blocks: TableBlocks, workers: str | None
) -> Iterator[Result] | None:
    """The results of a function for every piece of the table, in order; None without `--workers`.

    Raises
    ------
    DataError
        The table cannot be cut.
    """
    if workers is None or workers == "1":
        return None
    pieces = blocks.cut()
    if not pieces:
        raise DataError(f"{blocks.title}: --workers needs Parquet, whose row groups are read one by one. Convert it")

    def results() -> Iterator[Result]:
        from widemargin.distributed.workers import side_by_side

        with connected(workers) as given:
            yield from side_by_side(function, pieces, given)

    return results()


@contextmanager
def connected(text: str, patience: float = 20) -> Iterator[Any]:
    """What `side_by_side` takes for workers: a number, or a client that is closed in the end.

    Parameters
    ----------
    text : str
    patience : float, default=20
        Seconds to wait for a scheduler.

    Raises
    ------
    DataError
        The text is neither a number nor an address, or nobody answers there.
    MissingLibraryError
        Dask is not installed.
    """
    if text.isdecimal() and int(text) > 0:
        yield int(text)
        return
    if "://" not in text:
        raise DataError(f"--workers {text}: give a number of at least 1, or an address such as tcp://127.0.0.1:8786")
    try:
        from distributed import Client

        place = urlsplit(text)
        if place.scheme in ("tcp", "tls") and place.hostname and place.port:  # else Dask tries for long
            socket.create_connection((place.hostname, place.port), timeout=patience).close()
        client = Client(text, timeout=patience, set_as_default=False)
    except ImportError:
        client = dask_client()  # which says what to install
    except Exception as error:  # who is no scheduler may answer anything
        raise DataError(f"--workers {text}: no Dask scheduler answers there ({error}). Correct the address") from error
    try:
        yield client
    finally:
        client.close()

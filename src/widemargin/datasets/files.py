"""Where the files of the data sets are."""

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

from widemargin.exceptions import MissingDataError

__all__ = ["DATA_VARIABLE", "Folder", "data_folder", "find", "get_it", "text_of"]

Folder = str | os.PathLike[str] | None

DATA_VARIABLE = "WIDEMARGIN_DATA"
"""Environment variable that names the folder of the data."""


def data_folder(option: Folder) -> Path | None:
    """Folder of the data: as given, else that of the environment variable, else None."""
    named = os.environ.get(DATA_VARIABLE) if option is None else option
    return Path(named) if named else None


def get_it(what: str, source: str) -> str:
    """The cure of messages about missing or wrong files."""
    return f"Get {what} from {source} and name the folder by --data or ${DATA_VARIABLE}."


def find(folder: Folder, below: str, names: Sequence[str], data: str, cure: str) -> Path:
    """The first of some files that is in a folder or in its subfolder `below`.

    Parameters
    ----------
    folder : path-like or None
    below : str
    names : sequence of str
        Names that one file may have, packed or not; the first one stands in messages.
    data : str
        What the data set is called.
    cure : str
        End of the messages, see `get_it`.

    Raises
    ------
    MissingDataError
    """
    if folder is None:
        raise MissingDataError(f"the data set {data} is needed, and no folder of data was named. {cure}")
    folder = Path(folder)
    places = [place / name for place in (folder, folder / below) for name in names]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise MissingDataError(f"{names[0]} is not in {folder} nor in {folder / below}. {cure}")
    return path


def text_of(path: Path) -> str:
    """Content of a text file, packed or not."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8", errors="replace")

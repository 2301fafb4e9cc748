"""Files that are written whole or not at all; the files of a folder in their order."""

import contextlib
import hashlib
import itertools
import os
import re
from pathlib import Path

PARQUET_ENDINGS = (".parquet", ".pq", ".parq")
"""Of names in any case."""
PREDICTION_ENDINGS = (".csv", ".parquet", ".pq")
"""Of files that are written block by block, in any case."""


def neighbour_of(path: Path) -> Path:
    """A name beside a file for what is not whole yet: nobody else has it, on this machine or on others."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")


def free_name(path: Path, word: str) -> Path:
    """A name beside a file for an unfinished one, which no file has: `p.csv` gives `p.WORD.csv`, `p.WORD2.csv`, ..."""
    numbers = itertools.chain([""], map(str, itertools.count(2)))
    candidates = (path.with_name(f"{path.stem}.{word}{number}{path.suffix}") for number in numbers)
    return next(candidate for candidate in candidates if not candidate.exists())


class UnfinishedFile:
    """The one door by which files are written: what is not whole yet stands beside its place under another name.

    Parameters
    ----------
    path : Path
        Where it shall stand in the end.

    Attributes
    ----------
    stream : binary file
        Takes the bytes.

    Raises
    ------
    OSError
        Here and by every method.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._neighbour = path, neighbour_of(path)
        self.stream = self._neighbour.open("xb")

    def keep(self, path: Path | None = None) -> None:
        """Force it to the disk, then give it its name, or another one; a file that has this name is replaced."""
        target = path or self._path
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        self._neighbour.replace(target)
        with contextlib.suppress(OSError):  # not every system can open a folder, or force it to the disk
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def drop(self) -> None:
        """Remove what is left under the other name."""
        with contextlib.suppress(OSError):  # the error that led here is the one to be told
            self.stream.close()
        with contextlib.suppress(OSError):
            self._neighbour.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; one that is there is replaced.

    Raises
    ------
    OSError
    """
    file = UnfinishedFile(path)
    try:
        file.stream.write(data)
        file.keep()
    finally:
        file.drop()


def file_sha256(file: Path) -> str:
    """The SHA-256 of the bytes of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def parquet_files(folder: Path, *, deep: bool = False) -> list[Path]:
    """The Parquet files of a folder by name, numbers as numbers: part.2 before part.10.

    Names that begin with a dot or an underscore (hidden files, `_metadata`, parts that are being written) are left out.

    Parameters
    ----------
    folder : Path
    deep : bool, default=False
        Whether to look into its folders, too.
    """
    found = folder.rglob("*") if deep else folder.iterdir()
    inside = [path.relative_to(folder) for path in found if path.name.lower().endswith(PARQUET_ENDINGS)]
    seen = [path for path in inside if not any(part.startswith((".", "_")) for part in path.parts)]
    return [folder / path for path in sorted(seen, key=_natural) if (folder / path).is_file()]


def _natural(path: Path) -> tuple[list[list[str | int]], str]:
    """What sorts names with numbers by these numbers."""
    return [
        [int(piece) if place % 2 else piece for place, piece in enumerate(re.split(r"([0-9]+)", part))]
        for part in path.parts
    ], str(path)

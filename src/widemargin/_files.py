"""Files that are written whole or not at all."""

import contextlib
import os
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(path: Path, data: bytes) -> None:
    """Write into a neighbour first, forced to the disk, then rename it over the target.

    Raises
    ------
    OSError
    """
    neighbour = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with neighbour.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        neighbour.replace(path)
    finally:
        neighbour.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not every system can open a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

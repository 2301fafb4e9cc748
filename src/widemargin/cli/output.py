"""The way to stdout and stderr: no control characters, and no error where the reader has left."""

import os
import sys
from typing import TextIO

from widemargin._text import printable

__all__ = ["finish", "printable", "put"]


def put(text: str, stream: TextIO | None = None) -> None:
    """Print lines to stdout or another stream, as they are."""
    stream = stream or sys.stdout
    try:
        print(text, file=stream)
    except BrokenPipeError:
        _to_nowhere(stream)


def finish() -> None:
    """Hand everything printed to the readers, as far as they are still there."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _to_nowhere(stream)


def _to_nowhere(stream: TextIO) -> None:
    """The reader, `head` for instance, has seen enough: what is still to be said, and what waits, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)

"""Why a CSV file cannot be read: the line, and what to do about it."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, cast

import pyarrow as pa
import pyarrow.csv

__all__ = ["Fault", "csv_fault", "no_text", "opened"]

_CURE = 'Save it as UTF-8 (in spreadsheets "CSV UTF-8")'
_HEAD = 1 << 12
_FIELDS = re.compile(r"Expected (\d+) columns, got (\d+)(?:: (.{0,40}))?")
_ROW = re.compile(r"Row #(\d+)")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Fault(NamedTuple):
    """What is wrong with a file, and what to do about it."""

    fact: str
    cure: str


def no_text(path: Path) -> Fault | None:
    """The fact and the cure where the start of a CSV file is no UTF-8 text at all; None where it may be."""
    with opened(path) as file:
        head = file.read(_HEAD)
    if not head.strip(b"\xef\xbb\xbf\r\n\t "):
        return Fault("the file is empty", "Give a line with the columns' names, and rows")
    if head.startswith(_UTF16):
        return Fault("it is UTF-16 text", _CURE)
    if b"\0" in head:
        return Fault("it holds bytes 0 and is no text", "Give a CSV file in UTF-8")
    return None


def csv_fault(path: Path, separator: str, error: BaseException) -> Fault:
    """The fact and the cure for what pyarrow says of a CSV file.

    Parameters
    ----------
    path : Path
    separator : str
    error : BaseException

    Returns
    -------
    Fault
    """
    text = str(getattr(error, "strerror", None) or error)[:300]
    if isinstance(error, OSError):
        return Fault(text, "Check the path")
    if "UTF8" in text or "UTF-8" in text:
        return Fault(_not_utf8(path), _CURE)
    fields = _FIELDS.search(text)
    if fields is None:
        return Fault(text, "Correct that place")
    wanted, got, begins = int(fields[1]), int(fields[2]), fields[3] or ""
    row = _ROW.search(_said_by_one_thread(path, separator))
    where = "a row" if row is None else f"row {row[1]}"
    cure = "Put fields that hold the separator in quotes" if got > wanted else "Is it cut off, or a quote not closed?"
    return Fault(f"{where}, {begins!r}, has {got} fields, and row 1, the names, {wanted}", cure)


def opened(path: Path) -> IO[bytes]:
    """A CSV file, packed or not, as bytes."""
    return cast(IO[bytes], gzip.open(path, "rb")) if path.name.lower().endswith(".gz") else path.open("rb")


def _not_utf8(path: Path) -> str:
    for number, line in _lines(path):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"line {number} is no UTF-8 text, by byte {line[error.start]:#04x}"
    return "it is no UTF-8 text"


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with opened(path) as file:
        yield from enumerate(file, 1)


def _said_by_one_thread(path: Path, separator: str) -> str:
    """What pyarrow says where it can count the rows."""
    try:
        for _ in pyarrow.csv.open_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        ):
            pass
    except (pa.ArrowException, OSError, ValueError) as error:
        return str(error)
    return ""

"""Where a CSV file is read: its separator, its texts and numbers, and, where it cannot be read, why and what to do."""

import gzip
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.csv

from widemargin.exceptions import DataError

__all__ = [
    "CSV_ENDINGS",
    "Fault",
    "csv_fault",
    "likely_separator",
    "open_csv",
    "read_csv",
    "separator_of",
    "usual_separator",
]

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
# Types are guessed from the first block; most tables fit into one this large.
CSV_BLOCK = 1 << 26
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
"""What commonly separates the fields of CSV files."""
_FIRST_LINE = 1 << 20
_HEAD = 1 << 12
_UTF8 = 'Save it as UTF-8 (in spreadsheets "CSV UTF-8")'
_FIELDS = re.compile(r"Expected (\d+) columns, got (\d+)(?:: (.{0,40}))?")
_ROW = re.compile(r"Row #(\d+)")


class Fault(NamedTuple):
    """What is wrong with a file, and what to do about it."""

    fact: str
    cure: str


def read_csv(path: Path, *, words: Collection[str], separator: str | None) -> pa.Table:
    """A whole CSV file.

    Missing are empty fields and the usual spellings (NA, NaN, null, ...), unless they stand in quotes.

    Raises
    ------
    DataError
        As `separator_of`.
    OSError, pyarrow.ArrowException, ValueError
        What pyarrow says of a faulty file; `csv_fault` explains it.
    """
    return pyarrow.csv.read_csv(path, **_options(separator_of(path, separator), words))


def open_csv(
    path: Path, *, words: Collection[str], separator: str | None, columns: Collection[str] | None
) -> pyarrow.csv.CSVStreamingReader:
    """The same a block at a time: the first block decides the types of the columns."""
    return pyarrow.csv.open_csv(path, **_options(separator_of(path, separator), words, columns))


def _options(separator: str, words: Collection[str], columns: Collection[str] | None = None) -> dict[str, Any]:
    """How pyarrow is to read: the same types and missing values, whether whole or in blocks."""
    return {
        "read_options": pyarrow.csv.ReadOptions(block_size=CSV_BLOCK),
        "parse_options": pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, include_columns=columns,
            column_types=dict.fromkeys(words, pa.string()),
        ),
    }  # fmt: skip


def separator_of(path: Path, said: str | None) -> str:
    """What separates the fields of a CSV file: as said, else a comma, or a tab in .tsv files.

    Raises
    ------
    DataError
        The file is empty or no text; or the separator does not occur in the first line, and another common one does.
    """
    fault = _no_text(path)
    if fault is not None:
        raise DataError(f"{path}: the table cannot be read ({fault.fact}). {fault.cure}")
    separator = said or usual_separator(path)
    seen = likely_separator(path, separator)
    if seen != separator:
        raise DataError(
            f"{path}: the first line has no {SEPARATORS.get(separator, repr(separator))}, and is all one column; it "
            f"seems to be separated by {SEPARATORS[seen]}. Say so: [data] separator = {json.dumps(seen)} in the goals "
            "file, or --separator"
        )
    return separator


def likely_separator(path: Path, expected: str | None = None) -> str:
    """The expected (or usual) separator of a CSV file, unless only another common one occurs in its first line."""
    expected = expected or usual_separator(path)
    with _opened(path) as file:
        line = re.sub(rb'"[^"]*"', b"", file.readline(_FIRST_LINE).lstrip(b"\xef\xbb\xbf"))
    commonest = max(SEPARATORS, key=lambda other: line.count(other.encode()))
    return expected if expected.encode() in line or commonest.encode() not in line else commonest


def usual_separator(path: Path) -> str:
    """A comma, or in .tsv files a tab."""
    return "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","


def csv_fault(path: Path, separator: str | None, error: BaseException) -> Fault:
    """The fact and the cure for what pyarrow says of a CSV file."""
    text = str(getattr(error, "strerror", None) or error)[:300]
    if isinstance(error, OSError):
        return Fault(text, "Check the path")
    if "UTF8" in text or "UTF-8" in text:
        return Fault(_not_utf8(path), _UTF8)
    fields = _FIELDS.search(text)
    if fields is None:
        return Fault(text, "Correct that place")
    wanted, got, begins = int(fields[1]), int(fields[2]), fields[3] or ""
    row = _ROW.search(_told_by_one_thread(path, separator or usual_separator(path)))
    where = "a row" if row is None else f"row {row[1]}"
    cure = "Put fields that hold the separator in quotes" if got > wanted else "Is it cut off, or a quote not closed?"
    return Fault(f"{where}, {begins!r}, has {got} fields, and row 1, the names, {wanted}", cure)


def _not_utf8(path: Path) -> str:
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return f"line {number} is no UTF-8 text, by byte {line[error.start]:#04x}"
    return "it is no UTF-8 text"


def _no_text(path: Path) -> Fault | None:
    """The fact and the cure where the start of a CSV file is no UTF-8 text at all; None where it may be."""
    with _opened(path) as file:
        head = file.read(_HEAD)
    if not head.strip(b"\xef\xbb\xbf\r\n\t "):
        return Fault("the file is empty", "Give a line with the columns' names, and rows")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Fault("it is UTF-16 text", _UTF8)
    if b"\0" in head:
        return Fault("it holds bytes 0 and is no text", "Give a CSV file in UTF-8")
    return None


def _told_by_one_thread(path: Path, separator: str) -> str:
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


def _opened(path: Path) -> IO[bytes]:
    """A CSV file, packed or not, as bytes."""
    return cast(IO[bytes], gzip.open(path, "rb")) if path.name.lower().endswith(".gz") else path.open("rb")

"""Where a CSV file is read: its separator, its texts and numbers, and, where it cannot be read, why and what to do."""

import gzip
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any, TypedDict, Unpack, cast

import pyarrow as pa
import pyarrow.csv

from widemargin.exceptions import DataError

CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
# Types are guessed from the first block; most tables fit into one this large.
CSV_BLOCK = 1 << 26
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
"""What commonly separates the fields of CSV files."""
DECIMALS = {".": "point", ",": "comma"}
"""What may stand before the decimals of a number."""


class CsvFormat(TypedDict, total=False):
    """How CSV files are written; other files say it themselves.

    Attributes
    ----------
    words : collection of str
        Columns that are text even if they look like numbers.
    separator : str or None
        What stands between the fields; None: a comma, in .tsv files a tab.
    decimal : {".", ","}
        What stands before the decimals of a number.
    missing : collection of str
        Texts that stand for no value, beside empty fields and the usual spellings (NA, NaN, null, ...).
    """

    words: Collection[str]
    separator: str | None
    decimal: str
    missing: Collection[str]


_UTF8 = 'Save it as UTF-8 (in spreadsheets "CSV UTF-8")'


def reading_options(path: Path, columns: Collection[str] | None = None, **how: Unpack[CsvFormat]) -> dict[str, Any]:
    """How pyarrow is to read a CSV file: the same types and missing values, whether whole or in blocks.

    Texts that stand for no value do so only where they are not in quotes.

    Raises
    ------
    DataError
        The file is empty or no text; or the separator does not occur in the first line, and another common one does.
    """
    with _opened(path) as file:
        head = file.read(1 << 12)  # the first lines tell what is no text at all
    fault = None
    if not head.strip(b"\xef\xbb\xbf\r\n\t "):
        fault = "(the file is empty). Give a line with the columns' names, and rows"
    elif head.startswith((b"\xff\xfe", b"\xfe\xff")):
        fault = f"(it is UTF-16 text). {_UTF8}"
    elif b"\0" in head:
        fault = "(it holds bytes 0 and is no text). Give a CSV file in UTF-8"
    if fault is not None:
        raise DataError(f"{path}: the table cannot be read {fault}")
    usual, likely = likely_separator(path, how.get("separator"))
    if likely != usual:
        raise DataError(
            f"{path}: the first line has no {SEPARATORS.get(usual, repr(usual))}, and is all one column; it "
            f"seems to be separated by {SEPARATORS[likely]}. Say so: [data] separator = {json.dumps(likely)} in the "
            "goals file, or --separator"
        )
    return {
        "read_options": pyarrow.csv.ReadOptions(block_size=CSV_BLOCK),
        "parse_options": pyarrow.csv.ParseOptions(delimiter=usual, newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, include_columns=columns,
            column_types=dict.fromkeys(how.get("words", ()), pa.string()), decimal_point=how.get("decimal", "."),
            null_values=[*pyarrow.csv.ConvertOptions().null_values, *how.get("missing", ())],
        ),
    }  # fmt: skip


def likely_separator(path: Path, separator: str | None = None) -> tuple[str, str]:
    """The separator of a CSV file as said or as its name says, and the same unless only another common one occurs in
    its first line."""
    usual = separator or ("\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ",")
    with _opened(path) as file:
        line = re.sub(rb'"[^"]*"', b"", file.readline(1 << 20).lstrip(b"\xef\xbb\xbf"))  # no names are longer
    commonest = max(SEPARATORS, key=lambda other: line.count(other.encode()))
    return usual, usual if usual.encode() in line or commonest.encode() not in line else commonest


def likely_numbers(table: pa.Table) -> CsvFormat:
    """What stands before decimals, and which texts stand for no value, as its columns of nearly only numbers show.

    A column of texts is one where nine rows of ten hold numbers, of ten values at least, beside three texts at most.
    """
    decimal, missing = ".", dict[str, None]()
    for column in table.columns:
        if not pa.types.is_string(column.type):
            continue
        counts = {item["values"]: item["counts"] for item in column.value_counts().to_pylist()}
        counts.pop(None, None)
        for point in DECIMALS:
            number = re.compile(rf"[+-]?\d+({re.escape(point)}\d+)?")
            others = [text for text in counts if number.fullmatch(text.strip()) is None]
            rows = sum(counts[text] for text in others)
            if len(others) <= 3 and len(counts) >= len(others) + 10 and rows <= 0.1 * sum(counts.values()):
                missing |= dict.fromkeys(others)
                decimal = point if any(point in text for text in {*counts} - {*others}) else decimal
                break
    return {"decimal": decimal, "missing": tuple(missing)}


def csv_fault(path: Path, separator: str | None, error: BaseException) -> tuple[str, str]:
    """The fact and the cure for what pyarrow says of a CSV file."""
    text = str(getattr(error, "strerror", None) or error)[:300]
    if isinstance(error, OSError):
        return text, "Check the path"
    if "UTF8" in text or "UTF-8" in text:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as problem:
                    return f"line {number} is no UTF-8 text, by byte {line[problem.start]:#04x}", _UTF8
        return "it is no UTF-8 text", _UTF8
    fields = re.search(r"Expected (\d+) columns, got (\d+)(?:: (.{0,40}))?", text)
    if fields is None:
        return text, "Correct that place"
    where = "a row"
    try:  # pyarrow counts the rows only where one thread reads them
        for _ in pyarrow.csv.open_csv(
            path, read_options=pyarrow.csv.ReadOptions(use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=likely_separator(path, separator)[0], newlines_in_values=True
            ),
        ):  # fmt: skip
            pass
    except (pa.ArrowException, OSError, ValueError) as problem:
        row = re.search(r"Row #(\d+)", str(problem))
        where = where if row is None else f"row {row[1]}"
    wanted, got = int(fields[1]), int(fields[2])
    cure = "Put fields that hold the separator in quotes" if got > wanted else "Is it cut off, or a quote not closed?"
    return f"{where}, {fields[3] or ''!r}, has {got} fields, and row 1, the names, {wanted}", cure


def _opened(path: Path) -> IO[bytes]:
    """A CSV file, packed or not, as bytes."""
    return cast(IO[bytes], gzip.open(path, "rb")) if path.name.lower().endswith(".gz") else path.open("rb")

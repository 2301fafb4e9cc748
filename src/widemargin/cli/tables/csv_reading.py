"""Where a CSV file is read: its separator, its texts and numbers, and, where it cannot be read, why and what to do."""

import csv
import gzip
import json
import re
import zlib
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
_OTHERS = {
    b"\x1f\x8b": ("it is packed by gzip", "End its name in .csv.gz"),
    b"PAR1": ("it is Parquet", "End its name in .parquet"),
    b"ARROW1": ("it is Arrow", "End its name in .arrow"),
    b"PK\x03\x04": ("it is a ZIP archive or a spreadsheet", 'Unpack it, or save the sheet as "CSV UTF-8"'),
    b"\xd0\xcf\x11\xe0": ("it is a spreadsheet", 'Save it as "CSV UTF-8"'),
}
"""What files that are no CSV begin with, what they are, and what to do."""
_HEAD = 1 << 20
"""Bytes at the beginning that are looked at; no line of names is longer."""


def reading_options(
    path: Path, columns: Collection[str] | None = None, *, quoted: bool, **how: Unpack[CsvFormat]
) -> dict[str, Any]:
    """How pyarrow is to read a CSV file: the same types and missing values, whether whole or in blocks.

    `quoted` says whether texts that stand for no value do so in quotes, too. Many programs put every field in quotes,
    the empty ones of a column of numbers, too; among words, quotes say that a word is meant.

    Raises
    ------
    DataError
        The file cannot be opened, is empty or no text; or the separator does not occur in the first line, and another
        common one does.
    """
    head = _head(path)
    fault, cure = next((said for begin, said in _OTHERS.items() if head.startswith(begin)), ("", ""))
    if not head.strip(b"\xef\xbb\xbf\r\n\t "):
        fault, cure = "the file is empty", "Give a line with the columns' names, and rows"
    elif head.startswith((b"\xff\xfe", b"\xfe\xff")):
        fault, cure = "it is UTF-16 or UTF-32 text", _UTF8
    elif not fault and b"\0" in head[: 1 << 12]:  # the first lines tell what is no text at all
        fault, cure = "it holds bytes 0 and is no text", "Give a CSV file in UTF-8"
    if fault:
        raise DataError(f"{path}: the table cannot be read ({fault}). {cure}")
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
            strings_can_be_null=True, quoted_strings_can_be_null=quoted, include_columns=columns,
            column_types=dict.fromkeys(how.get("words", ()), pa.string()), decimal_point=how.get("decimal", "."),
            null_values=[*pyarrow.csv.ConvertOptions().null_values, *how.get("missing", ())],
        ),
    }  # fmt: skip


def likely_separator(path: Path, separator: str | None = None) -> tuple[str, str]:
    """The separator of a CSV file as said or as its name says, and the same unless only another common one occurs in
    its first line.

    Raises
    ------
    DataError
        The file cannot be opened.
    """
    usual = separator or ("\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ",")
    line = re.sub(rb'"[^"]*"', b"", _head(path).lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0])
    commonest = max(SEPARATORS, key=lambda other: line.count(other.encode()))
    return usual, usual if usual.encode() in line or commonest.encode() not in line else commonest


def likely_numbers(table: pa.Table) -> CsvFormat:
    """What stands before decimals, and which texts stand for no value, as its columns of nearly only numbers show.

    A column of texts is one where nine rows of ten hold numbers, of ten values at least, beside three texts at most.
    Texts without a letter or a digit, such as a question mark, may stand in more rows. Where every comma has three
    digits behind it and no zero before it, thousands may stand apart, so such a column tells nothing.
    """
    decimal, missing = ".", dict[str, None]()
    for column in table.columns:
        if not pa.types.is_string(column.type):
            continue
        counts = {item["values"]: item["counts"] for item in column.value_counts().to_pylist()}
        counts.pop(None, None)
        for point in DECIMALS:
            thousands = re.compile(r"\s*[+-]?[1-9]\d{0,2}(,\d{3})+\s*")
            if point == "," and all(map(thousands.fullmatch, (text for text in counts if point in text))):
                continue
            number = re.compile(rf"[+-]?\d+({re.escape(point)}\d+)?")
            others = [text for text in counts if number.fullmatch(text.strip()) is None]
            rows = sum(counts[text] for text in others if any(map(str.isalnum, text)))
            if len(others) <= 3 and len(counts) >= len(others) + 10 and rows <= 0.1 * sum(counts.values()):
                missing |= dict.fromkeys(others)
                decimal = point if any(point in text for text in {*counts} - {*others}) else decimal
                break
    return {"decimal": decimal, "missing": tuple(missing)}


def csv_fault(path: Path, separator: str | None, error: BaseException) -> tuple[str, str]:
    """Cause and remedy of an error of pyarrow in a CSV file."""
    text = str(getattr(error, "strerror", None) or error)[:300]
    if isinstance(error, OSError):
        return text, "Check the path, or write the file again"
    if "utf8" in text.lower() or "utf-8" in text.lower():
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as problem:
                    return f"line {number} is no UTF-8 text, by byte {line[problem.start]:#04x}", _UTF8
        return "it is no UTF-8 text", _UTF8
    if "Empty CSV" in text:  # so says pyarrow where no line ends
        return "it is a single line", "Give a line with the columns' names, and rows below it"
    usual = likely_separator(path, separator)[0]
    wrong = re.search(r"In CSV column #(\d+): (Row #\d+: )?CSV conversion error to \w+: invalid value '(.*)'", text)
    if wrong is not None:
        # In a large file the first block decides the type of a column, and a later block holds something else.
        lines = _head(path).decode("utf-8-sig", "replace").splitlines(keepends=True)
        name = next(csv.reader(lines, delimiter=usual))[int(wrong[1])]
        cure = "Correct it, or name the text in data.missing, or the column in data.words"
        return f"column {name!r} begins with values of another kind and holds {wrong[3]!r}", cure
    fields = re.search(r"Expected (\d+) columns, got (\d+)(?:: (.{0,40}))?", text)
    if fields is None:
        return text, "Correct that place"
    where = "a row"
    try:  # pyarrow counts the rows only where one thread reads them
        for _ in pyarrow.csv.open_csv(
            path, read_options=pyarrow.csv.ReadOptions(use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(delimiter=usual, newlines_in_values=True),
        ):  # fmt: skip
            pass
    except (pa.ArrowException, OSError, ValueError) as problem:
        row = re.search(r"Row #(\d+)", str(problem))
        where = where if row is None else f"row {row[1]}"
    wanted, got = int(fields[1]), int(fields[2])
    cure = "Put fields that hold the separator in quotes" if got > wanted else "Is it cut off, or a quote not closed?"
    if got > wanted and where == "row 2":
        cure = f"If lines stand before the names of the columns, remove them. Else p{cure[1:]}"
    return f"{where}, {fields[3] or ''!r}, has {got} fields, and row 1, the names, {wanted}", cure


def _head(path: Path) -> bytes:
    """The beginning of a CSV file, unpacked.

    Raises
    ------
    DataError
        The file cannot be opened or unpacked.
    """
    try:
        with _opened(path) as file:
            return file.read(_HEAD)
    except gzip.BadGzipFile as error:
        raise DataError(
            f"{path}: the table cannot be read (it is not packed by gzip, as .gz says). Name it .csv, or pack it"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        why, cure = getattr(error, "strerror", None) or error, "Check the path, or write the file again"
        raise DataError(f"{path}: the table cannot be read ({why}). {cure}") from error


def _opened(path: Path) -> IO[bytes]:
    """A CSV file, packed or not, as bytes."""
    return cast(IO[bytes], gzip.open(path, "rb")) if path.name.lower().endswith(".gz") else path.open("rb")

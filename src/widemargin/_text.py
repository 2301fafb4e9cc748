"""Text from anybody's data, made safe to print; tables as lines, HTML and data frames; the format of stored reports."""

import difflib
import functools
import html
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from widemargin.exceptions import DataError, MissingLibraryError

Entry = TypeVar("Entry")
Report = TypeVar("Report")


def printable(text: str) -> str:
    """A text of one line with every control character replaced."""
    return "".join(character if character.isprintable() else "?" for character in text)


def printable_name(name: str) -> str:
    """The name of a group on one line, in quotes where blanks at its ends tell it from another one."""
    return printable(name if name == name.strip() else repr(name))


def listing(values: Sequence[object], limit: int = 10) -> str:
    """The first values as they are written in code, and how many more there are."""
    shown = ", ".join(map(repr, values[:limit]))
    rest = len(values) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown or "none"


def column_names(names: Collection[str], most: int = 50, length: int = 80) -> str:
    """Columns on one line, whatever is in their names: the first ones, both ends of long ones, and how many more."""
    shown = [printable(name) or "(column without a name)" for name in [*names][:most]]
    # Long names are often questions that begin alike.
    half = length // 2
    told = ", ".join(name if len(name) <= length else f"{name[:half]}...{name[-half:]}" for name in shown)
    return f"{told} and {len(names) - most} more" if len(names) > most else told


def folded(text: str) -> str:
    """A text without what other spellings of it differ in: case, and blanks at its ends or several in a row."""
    return " ".join(text.split()).casefold()


def time_of(text: str) -> datetime | None:
    """The day of a text, and its time of day if it has one: 2024-01-31 and all else of ISO 8601, or 31.01.2024.

    Dots stand behind a day that comes first wherever they are written; of 1/2/2024 nobody knows. None for other texts.
    """
    dotted = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(.*)", text)
    if dotted is not None:
        day, month, year, time = dotted.groups()
        text = f"{year}-{month:0>2}-{day:0>2}{time}"
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def close_match(wanted: object, present: Sequence[object], *, cutoff: float = 0.6) -> str:
    """`" Did you mean 'age'?"` for the value closest to a wanted one, else an empty string.

    Parameters
    ----------
    cutoff : float, default=0.6
        Least similarity, from 0 to 1. Male and Female, words of their own, have 0.8.
    """
    by_text = {str(value): value for value in present}
    by_folded = {text.strip().casefold(): text for text in by_text}
    matches = difflib.get_close_matches(str(wanted), by_text, n=1, cutoff=cutoff) or [
        by_folded[text]
        for text in difflib.get_close_matches(str(wanted).strip().casefold(), by_folded, n=1, cutoff=cutoff)
    ]
    return f" Did you mean {by_text[matches[0]]!r}?" if matches else ""


def wrapped(text: str, indent: str = "", *, width: int = 100) -> list[str]:
    """A text as lines, the first with an indent and all others two places further in; an empty text is one line."""
    return textwrap.wrap(
        printable(text), width, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False,
        replace_whitespace=False,
    ) or [""]  # fmt: skip


def aligned(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Rows of a table as lines: the first `left` columns begin in one column, all others end in one."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if j < left else text.rjust(width)
            for j, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str] = ()) -> str:
    """A table as HTML, every text escaped, each row on its colour where colours are given."""
    styles = [f' style="background:{colour}"' for colour in colours] or [""] * len(rows)
    body = "".join(
        f"<tr{style}>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>"
        for style, row in zip(styles, rows, strict=True)
    )
    cells = "".join(f"<th>{html.escape(text)}</th>" for text in head)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def html_report(
    headline: str, tables: Iterable[Sequence[Sequence[str]]], notes: Iterable[str] = (), colours: Sequence[str] = ()
) -> str:
    """A headline, tables whose first rows are their heads, and notes as one fragment of HTML, every text escaped.

    Each row of every table on its colour where colours are given.
    """
    shown = [f"<p><strong>{html.escape(headline)}</strong></p>"]
    shown += [html_table(table[0], table[1:], colours) for table in tables]
    return f"<div>{''.join([*shown, *(f'<p>{html.escape(note)}</p>' for note in notes)])}</div>"


def digits(value: float | None, sign: Literal["", "+"] = "") -> str:
    """A rate with four digits; None is a dash, and large counts have six digits in all."""
    if value is None:
        return "-"
    return f"{value + 0.0:{sign}.4f}" if abs(value) < 100 else f"{value:{sign}.6g}"  # + 0.0 makes 0 of -0


def with_lists(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """For `dataclasses.asdict`: lists in the place of tuples, as JSON has them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in items}


def stored_report(record: type[Report], plain: dict[str, Any], what: str, newest: int) -> Report:
    """A report from what its `to_dict` returned (also after JSON); `what` it is, for messages: "comparison", say.

    Raises
    ------
    DataError
        If it is none, or of a newer format than this version reads.
    """
    values = dict(plain)
    version = values.pop("format", None)
    if not isinstance(version, int) or version > newest:
        raise DataError(f"a {what} of format {version!r} cannot be read; this version reads format {newest}.")
    try:
        return record(**fields_of(record, values))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"this is no {what}: {error}.") from None


def fields_of(record: type, plain: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record from the plain dicts and lists of `dataclasses.asdict`, by their types."""
    values = dict(plain)
    return values | {name: read(values[name]) for name, read in _readers(record).items() if name in values}


@functools.cache
def _readers(record: type) -> dict[str, Callable[[Any], Any]]:
    """What reads those fields that are not plain."""
    readers = {name: _reader(kind) for name, kind in get_type_hints(record).items()}
    return {name: read for name, read in readers.items() if read is not None}


def _reader(kind: Any) -> Callable[[Any], Any] | None:
    if isinstance(kind, type) and is_dataclass(kind):
        return getattr(kind, "from_dict", lambda plain: kind(**fields_of(kind, plain)))
    inside = _reader(get_args(kind)[0]) if get_args(kind) else None
    if get_origin(kind) is tuple:  # of things of one kind
        return tuple if inside is None else lambda plain: tuple(map(inside, plain))
    if inside is not None and isinstance(kind, UnionType):  # of something and None
        return lambda plain: None if plain is None else inside(plain)
    return None


def entry_named(entries: Sequence[Entry], names: Sequence[str], name: str, what: str) -> Entry:
    """The first entry of a report that has a name; `what` it is, for the message of the KeyError."""
    if name in names:
        return entries[names.index(name)]
    raise KeyError(f"no {what} {name!r}; there are {names}")


def pandas_for_frames() -> Any:
    """The module pandas, for `to_frame`.

    Raises
    ------
    MissingLibraryError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise MissingLibraryError.of("to_frame needs pandas (to_dict() does not)", "frame") from None
    return pd

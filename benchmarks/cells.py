"""Tables of rows in Markdown, made by a line of headings and formats."""

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Content = Mapping[str, Any]


class MissingPartError(KeyError):
    """A part that was not measured yet."""


class Parts(dict[str, Any]):
    """The content of a result file, which says so where a part was not measured."""

    def __missing__(self, name: str) -> Any:
        raise MissingPartError(name)


class _Cells(string.Formatter):
    """Cells of tables: "-" for what is missing or NaN, "yes" and "NO" for truth, `:±.3f` for a mean with its error."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        """A field by its keys: names, and places in lists, such as `path[median_s]` or `to_1[0]`."""
        value: Any = kwargs
        for key in re.findall(r"[^\[\]]+", field_name):
            try:
                value = value[int(key) if isinstance(value, list | tuple) else key]
            except (KeyError, TypeError, IndexError):
                return None, field_name
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None or value != value:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "NO"
        if format_spec.startswith("±"):
            mean, error = (format(part, format_spec[1:]) for part in value)
            return mean if error.endswith("nan") else f"{mean} ± {error.lstrip('+')}"
        if isinstance(value, list | tuple):
            return ", ".join(format(part, format_spec) for part in value)
        return str(value) if isinstance(value, str) else format(value, format_spec)


@dataclass(frozen=True)
class Table:
    """A table of the result page, and of any document that asks for it."""

    title: str
    # The part whose rows it shows, or what makes them of the whole content.
    rows: str | Callable[[Content], Iterable[Mapping[str, Any]]]
    # Headings between bars, each with how its cell is made of a row: `n | seconds: {median_s:.2f}`. A heading alone
    # shows the field of its name. Empty: every field of the rows.
    columns: str = ""

    def markdown(self, content: Content) -> str:
        """The table itself, without its title; nothing where there are no rows."""
        try:
            rows = list(content.get(self.rows, []) if isinstance(self.rows, str) else self.rows(content))
        except MissingPartError:
            return ""
        if not rows:
            return ""
        wanted = self.columns or " | ".join(f"{name}: {{{name}:.4g}}" for name in rows[0])
        columns = [cell.strip().partition(": ") for cell in wanted.split(" | ")]
        cells = [[name for name, _, _ in columns]]
        cells += [[_Cells().format(form or f"{{{name}}}", **row) for name, _, form in columns] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [" | ".join(map(str.ljust, line, widths)) for line in cells]
        rule = "|".join("-" * (width + 2) for width in widths)
        return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])]) + "\n"


def table_of(rows: Sequence[Row], columns: str) -> str:
    """A table of rows that are at hand."""
    return Table("", lambda _: rows, columns).markdown({})

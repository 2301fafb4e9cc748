"""Text that comes from anybody's data, made safe to print; tables of texts as lines and as HTML."""

import html
from collections.abc import Sequence

__all__ = ["aligned", "html_table", "printable"]


def printable(text: str) -> str:
    """A text of one line with every control character replaced."""
    return "".join(character if character.isprintable() else "?" for character in text)


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

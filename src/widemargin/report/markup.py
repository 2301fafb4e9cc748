"""HTML and SVG out of elements whose texts are always escaped: the only place of the report that writes a `<`."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence


class Html(str):
    """Text that is HTML already. Every other text is escaped where it enters an element."""

    __slots__ = ()


Child = str | int | Html | None


def element(name: str, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element.

    Parameters
    ----------
    name : str
        Tag; written by this package, never by data.
    *children : str, int, Html or None
        Texts are escaped, and control characters in them (also those that turn the direction of writing) replaced; None
        is left out.
    **attributes
        `class_` for `class`, `_` for `-`; None and False are left out, True has no value. Values are escaped.
    """
    head = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")
        text = value if isinstance(value, str) else f"{value:.6g}"
        head += f" {label}" if value is True else f' {label}="{_text(text)}"'
    if name in ("br", "input", "link", "meta"):
        return Html(f"<{head}>")
    if name in ("circle", "line", "path", "polygon", "polyline", "rect"):
        return Html(f"<{head}/>")
    return Html(f"<{head}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Html:
    """Children one after the other, texts escaped."""
    return Html(
        "".join(child if isinstance(child, Html) else _text(str(child)) for child in children if child is not None)
    )


def embedded_json(content: Mapping[str, object], identifier: str) -> Html:
    """A data block that scripts can read and that nothing in `content` can end or execute.

    `<`, `>`, `&` and the line separators U+2028 and U+2029 are written as escapes of JSON.
    """
    text = json.dumps(content, allow_nan=False, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{_text(identifier)}">{text}</script>')


def fingerprint(code: str) -> str:
    """The hash by which a content security policy allows a script or style sheet inside the page."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() + "'"


def _text(text: str) -> str:
    """Escaped, on one line, without control characters."""
    # spaces that do not break stand between a number and its unit, and between thousands
    shown = (c if c.isprintable() or c in "\u00a0\u202f" else " " if c in "\n\t\r" else "\ufffd" for c in text)
    return html.escape("".join(shown))


def section(identifier: str, title: str, *children: Child) -> Html:
    """A section with its heading."""
    heading = element("h2", title, id=f"{identifier}-title")
    return element("section", heading, *children, id=identifier, aria_labelledby=f"{identifier}-title")


def terms(entries: Iterable[tuple[str, Child]], class_: str) -> Html:
    """A list of terms, each with its description."""
    items = (joined(element("dt", name), element("dd", meaning)) for name, meaning in entries)
    return element("dl", *items, class_=class_)


def table(caption: str, head: Sequence[Child], rows: Sequence[Sequence[Child]], *, class_: str | None = None) -> Html:
    """A table with a head, the first cell of each row its header; it scrolls by itself where a screen is narrow."""
    top = element("tr", *(element("th", cell, scope="col") for cell in head))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    content = element(
        "table", element("caption", caption), element("thead", top), element("tbody", *body), class_=class_
    )
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption)

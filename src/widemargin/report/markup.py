"""HTML and SVG out of elements whose texts are always escaped: the only place of the report that writes a `<`.

A page is self-contained: its style sheet and script are inside, and a policy lets nothing else run."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path

from widemargin._files import replace_file
from widemargin.exceptions import DataError


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


@dataclass(frozen=True, repr=False)
class HtmlPage:
    """A page. `save` writes it; notebooks show it in a frame.

    Attributes
    ----------
    text : str
        The HTML file.
    title : str
    """

    text: str
    title: str

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        target = Path(path)
        try:
            replace_file(target, self.text.encode("utf-8"))
        except OSError as error:
            raise DataError(
                f"{target}: the report cannot be written ({error.strerror}). Choose another place"
            ) from error
        return target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.title!r}, {len(self.text)} characters>"

    def _repr_html_(self) -> str:
        """A frame of its own, so that neither page changes the other."""
        title, page_text = html.escape(self.title), html.escape(self.text)
        style = "width:100%;height:640px;border:1px solid #ccc"
        return f'<iframe sandbox="allow-scripts" title="{title}" srcdoc="{page_text}" style="{style}"></iframe>'


def whole_page(title: str, header: Html, *sections: Html | None, skip: Html) -> str:
    """The whole HTML file, which loads nothing from elsewhere.

    Parameters
    ----------
    header : Html
        Above the sections.
    *sections : Html or None
        None is left out.
    skip : Html
        The link that lets a keyboard user jump to the main result.
    """
    style, script = (files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    end = "Made by widemargin. This file holds everything it shows and asks the network for nothing."
    footer = element("footer", element("p", end))
    main = element("main", *sections, id="main")
    body = element("body", skip, header, main, footer, Html(f"<script>{script}</script>"))
    policy = (
        f"default-src 'none'; style-src {fingerprint(style)}; script-src {fingerprint(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    # The page holds text from data; should any of it come through unescaped, the policy still keeps it from running.
    named = {"viewport": "width=device-width, initial-scale=1", "color-scheme": "light dark", "generator": "widemargin"}
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        *(element("meta", name_=name, content=value) for name, value in named.items()),
        element("title", title),
        Html(f"<style>{style}</style>"),
    )
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"

"""A self-contained page: its style sheet and script are inside, and a policy lets nothing else run."""

import html
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path

from widemargin._files import replace_file
from widemargin.exceptions import DataError
from widemargin.report.markup import Html, element, fingerprint


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
    title : str
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

"""A headless Chromium for tests of pages: what it shows, says and fetches, what axe finds, what the keyboard reaches.

Without the dependency group "browser", or without a Chromium, these tests are skipped with the reason.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: `make test-browser` installs it")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe: `make test-browser` installs it")

__all__ = ["SIZES", "Tab", "browser_of_tests"]

SIZES = ((1280, 900), (768, 1024), (390, 844))
"""A desk, a tablet and a phone."""

FOCUSED = """() => {
  const all = [...document.querySelectorAll("*")], part = document.activeElement, box = part.getBoundingClientRect();
  return [all.indexOf(part), part === document.body ? "" : part.outerHTML.slice(0, 80), box.top + scrollY];
}"""


@contextmanager
def browser_of_tests() -> Iterator[sync_api.Browser]:
    """Chromium of the variable CHROMIUM, of the PATH, or playwright's own; skips the tests where there is none."""
    place = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_api.sync_playwright() as play:
        if place is None and not Path(play.chromium.executable_path).exists():
            pytest.skip("no Chromium: install it, set CHROMIUM to its place, or run `playwright install chromium`")
        started = play.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield started
        started.close()


class Tab:
    """An open page, what its console said, and what it asked for."""

    def __init__(self, browser, file, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        self.quiet = lambda: self.said == [] and self.asked == [file.as_uri()]

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.context.close()

    def picture(self, name):
        """Keep a picture of the whole page, where the variable WIDEMARGIN_PICTURES names a folder for them."""
        if folder := os.environ.get("WIDEMARGIN_PICTURES"):
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    def width(self):
        """Pixels that the page takes from left to right; more than the window has makes it scroll sideways."""
        return self.page.evaluate("document.documentElement.scrollWidth")

    def violations(self):
        """What axe finds against WCAG A and AA and its own rules: each rule with the first element that breaks it."""
        found = axe.Axe().run(self.page).response["violations"]
        return [(rule["id"], rule["nodes"][0]["html"][:200], rule["nodes"][0]["failureSummary"]) for rule in found]

    def keyboard_walk(self, most=400):
        """Each element that Tab reaches from the top: its number in the document, its beginning, its place."""
        walk = []
        while len(walk) < most:
            self.page.keyboard.press("Tab")
            number, text, top = self.page.evaluate(FOCUSED)
            if not text:
                break
            walk.append((number, text, top))
        return walk

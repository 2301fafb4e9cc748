"""The documentation site in headless Chromium, where `make docs` has built it: it fits, and axe finds nothing."""

from pathlib import Path

import pytest
from testing.browsers import Tab, browser_of_tests

SITE = Path(__file__).parents[1] / "docs" / "_build" / "html"
PAGES = (
    "index", "install", "guide/recall-floor", "guide/any-model", "goals-file", "report", "comparison", "kernel-svm",
    "theory/slack-rescaling", "notebooks/audit-a-model", "notebooks/train-to-a-goal", "notebooks/replace-svc",
    "gallery/index", "api", "generated/widemargin.RateConstrainedClassifier",
)  # fmt: skip

pytestmark = pytest.mark.skipif(not SITE.exists(), reason="the site is not built: `make docs`")


@pytest.fixture(scope="module")
def browser():
    with browser_of_tests() as started:
        yield started


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_fits_the_screen_and_axe_finds_nothing(browser, page, width):
    with Tab(browser, SITE / f"{page}.html", viewport={"width": width, "height": 900}) as tab:
        tab.picture(f"site-{page.replace('/', '-')}-{width}")
        assert tab.said == [] and all(url.startswith("file:") for url in tab.asked)
        assert tab.width() <= width
        assert tab.violations() == []


def test_the_first_page_has_logo_copy_buttons_versions_and_when_not_to_use_it(browser):
    with Tab(browser, SITE / "index.html", viewport={"width": 1280, "height": 900}) as tab:
        assert tab.page.locator("img.sidebar-logo").evaluate("picture => picture.naturalWidth") > 0
        assert tab.page.locator("#versions").is_visible()
        assert tab.page.get_by_role("heading", name="When not to use this").is_visible()
    with Tab(browser, SITE / "install.html") as tab:
        blocks, buttons = (tab.page.locator(part).count() for part in ("div.highlight pre", "button.copybtn"))
        assert blocks == buttons > 0


@pytest.mark.parametrize("name", ["audit-a-model", "train-to-a-goal", "replace-svc"])
def test_notebooks_are_shown_with_what_they_print(browser, name):
    with Tab(browser, SITE / "notebooks" / f"{name}.html") as tab:
        assert tab.page.locator(".cell_input").count() > 3
        assert tab.page.locator(".cell_output").count() > 3

"""The site names everything that is public, and its pages exist."""

import re
from pathlib import Path

import pytest

import widemargin
from widemargin import baselines

DOCS = Path(__file__).parents[1] / "docs"


def listed(section):
    """Names in the lists of the API page that follow a `currentmodule` line."""
    text = (DOCS / "api.rst").read_text()
    parts = re.findall(r"\.\. currentmodule:: (\S+)\n(.*?)(?=\.\. currentmodule|\Z)", text, re.DOTALL)
    return {
        name for module, body in parts if module == section for name in re.findall(r"^   (\w+)$", body, re.MULTILINE)
    }


def test_every_public_name_has_a_page():
    own = {name for name in widemargin.__all__ if name not in ("__version__", "goals")}
    assert own <= listed("widemargin")
    assert {name for name in baselines.__all__ if name[0].isupper()} <= listed("widemargin.baselines")


def test_no_page_is_about_a_name_that_is_gone():
    assert listed("widemargin") <= set(widemargin.__all__)
    assert listed("widemargin.baselines") <= set(baselines.__all__)


@pytest.mark.parametrize("page", ["index.md", *sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))])
def test_links_between_pages_lead_somewhere(page):
    text = (DOCS / page).read_text()
    for target in re.findall(r"\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)", text):
        assert ((DOCS / page).parent / target).exists(), target


def test_every_page_is_in_the_contents():
    index = (DOCS / "index.md").read_text()
    pages = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")} - {"index.md"}
    contents = {f"{line.strip()}.md" for line in index.splitlines()} | {"api.md"}
    assert pages - contents == set()

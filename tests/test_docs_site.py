"""The site names everything that is public, and its pages exist."""

import re
from pathlib import Path

import pytest

import widemargin
from widemargin import diagnostics, goals, losses, persistence, plotting, preprocessing
from widemargin.goals.language import rates
from widemargin.structured import models
from widemargin_papers import baselines

DOCS = Path(__file__).parents[1] / "docs"


def listed(section):
    """Names in the lists of the API page that follow a `currentmodule` line, and those of `autofunction` lines."""
    text = (DOCS / "api.rst").read_text()
    parts = re.findall(r"\.\. currentmodule:: (\S+)\n(.*?)(?=\.\. currentmodule|\Z)", text, re.DOTALL)
    return {
        name
        for module, body in parts
        if module == section
        for name in re.findall(r"^(?:   |\.\. autofunction:: )(\w+)$", body, re.MULTILINE)
    }


PARTS = {
    "widemargin": {name for name in widemargin.__all__ if name not in ("__version__", "goals")},
    "widemargin_papers.baselines": set(baselines.__all__),
    "widemargin.diagnostics": set(diagnostics.__all__)
    - {"audit", "label_suspects", "margin_changes", "margin_report"},  # public by shorter names
    "widemargin.goals": set(goals.__all__) - set(rates.__all__) - {"External"},
    "widemargin.losses": set(losses.__all__),
    "widemargin.persistence": set(persistence.__all__) - {"FORMAT", "load_model", "save_model"},
    "widemargin.plotting": set(plotting.__all__),
    "widemargin.preprocessing": set(preprocessing.__all__) - {"ThermometerEncoder"},
    "widemargin.structured.models": set(models.__all__),
}


@pytest.mark.parametrize("section", PARTS)
def test_every_public_name_has_a_page_and_no_other_has(section):
    assert listed(section) == PARTS[section]


def test_rates_are_listed_as_a_whole():
    assert ".. automodule:: widemargin.goals.language.rates\n   :members:" in (DOCS / "api.rst").read_text()


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


@pytest.mark.parametrize("page", sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")))
def test_files_that_pages_name_exist(page):
    named = re.findall(r"`((?:\w+/)+\w+\.(?:py|md|toml))`", (DOCS / page).read_text())
    roots = DOCS.parent, DOCS.parent / "src" / "widemargin"
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_the_gallery_is_what_the_examples_are():
    linked = set(re.findall(r"<(?:\.\./)*gallery/(\w+)>", "".join(p.read_text() for p in DOCS.rglob("*.md"))))
    assert linked <= {path.stem for path in (DOCS.parent / "examples" / "gallery").glob("*.py")}

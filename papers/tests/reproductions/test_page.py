"""`docs/reproductions.md` shows what is stored: its tables are those of the stored summaries, its images exist."""

import importlib
import json
import re
from pathlib import Path

import pytest

from widemargin_papers.reproductions import FIGURES

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", FIGURES)
def test_tables_are_those_of_the_stored_results(name):
    stored = json.loads((DOCS / "reproductions" / f"{name}.json").read_text())
    module = importlib.import_module(f"widemargin_papers.reproductions.{FIGURES[name].module}")
    assert stored["settings"] == module.settings(False)
    page = (DOCS / "reproductions.md").read_text()
    assert module.table(stored["summary"]).rstrip() in page
    assert f"widemargin reproduce {name}" in page


def test_images_are_there_and_small():
    images = re.findall(r"!\[[^\]]+\]\((images/[\w.-]+)\)", (DOCS / "reproductions.md").read_text())
    assert len(images) == len(FIGURES)
    for image in images:
        content = (DOCS / image).read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) < 200_000

"""Results that are put into the documentation replace what was there, and nothing else."""

import copy
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

import store_reproductions
from widemargin_papers.reproductions import FIGURES, slack_rescaling_table2

DOCS = Path(__file__).parents[3] / "docs"
NAME = "margin-pursuit-fig2"


@pytest.fixture
def docs(tmp_path):
    """A copy of what the tool changes."""
    made = tmp_path / "docs"
    (made / "images").mkdir(parents=True)
    shutil.copytree(DOCS / "reproductions", made / "reproductions")
    shutil.copyfile(DOCS / "reproductions.md", made / "reproductions.md")
    return made


def record(**changed):
    stored = json.loads((DOCS / "reproductions" / f"{NAME}.json").read_text())
    stored.pop("processor_seconds", None)
    return stored | {"code": "abc", "runs": {"one": {"seconds": 12.3}, "two": {"seconds": 1.0}}} | changed


def test_a_record_is_stored_without_its_runs(docs, tmp_path):
    (tmp_path / f"{NAME}.json").write_text(json.dumps(record()))
    Image.new("RGB", (2600, 300), "navy").save(tmp_path / f"{NAME}.png")
    left = store_reproductions.store(tmp_path, docs)
    assert {line.split(":")[0] for line in left} >= set(FIGURES) - {NAME}  # the others are not in the folder
    stored = json.loads((docs / "reproductions" / f"{NAME}.json").read_text())
    assert "runs" not in stored and (stored["code"], stored["processor_seconds"]) == ("abc", 13.3)
    with Image.open(docs / "images" / f"{NAME}.png") as picture:
        assert picture.size == (1300, 150)
    assert "the table of claims is not on the page" not in left
    page, before = (docs / "reproductions.md").read_text(), (DOCS / "reproductions.md").read_text()
    assert len(page.splitlines()) == len(before.splitlines())


def test_another_table_and_other_seconds_replace_the_old_ones(docs, tmp_path):
    name = "slack-rescaling-table2"
    old = json.loads((DOCS / "reproductions" / f"{name}.json").read_text())
    new = copy.deepcopy(old) | {"runs": {"one": {"seconds": 77.0}}}
    assert _raise_first_number(new["summary"])
    (tmp_path / f"{name}.json").write_text(json.dumps(new))
    Image.new("RGB", (30, 30)).save(tmp_path / f"{name}.png")
    store_reproductions.store(tmp_path, docs)
    page = (docs / "reproductions.md").read_text()
    assert slack_rescaling_table2.table(new["summary"]).rstrip() in page
    assert slack_rescaling_table2.table(old["summary"]).rstrip() not in page
    assert "(77 processor seconds for 3 splits" in page


def _raise_first_number(found):
    """Adds 1 to the first float in a nest of dicts and lists."""
    for key, value in found.items() if isinstance(found, dict) else enumerate(found):
        if isinstance(value, float):
            found[key] = value + 1.0
            return True
        if isinstance(value, dict | list) and _raise_first_number(value):
            return True
    return False


def test_quick_runs_are_refused(docs, tmp_path):
    (tmp_path / f"{NAME}.json").write_text(json.dumps(record(settings={"quick": True})))
    good = "slack-rescaling-table2"
    shutil.copyfile(DOCS / "reproductions" / f"{good}.json", tmp_path / f"{good}.json")
    with pytest.raises(ValueError, match="other settings"):
        store_reproductions.store(tmp_path, docs)
    for name in FIGURES:  # nothing is written, of the others neither
        stored = Path("reproductions") / f"{name}.json"
        assert (docs / stored).read_bytes() == (DOCS / stored).read_bytes()

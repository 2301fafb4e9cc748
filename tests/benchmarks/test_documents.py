"""README.md and the documentation say what the result files say, with the command that measures it, and it exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import claims, recorded, tables
from benchmarks.data.halves import BlindDataError
from benchmarks.task import Task, all_tasks

from widemargin_papers.reproductions import FIGURES

ROOT = Path(__file__).parents[2]
TASKS = all_tasks()
MEASURED = re.compile(r"^[-+]?[\d,]*\.?\d+( ?(s|ms|%|MB|GB|points))?( ± .*)?( \(.*\))?$")
NOT_MEASURED = {
    "docs/thresholds.md": "margins by a formula",
    "docs/reproductions.md": "made of docs/reproductions/*.json by testing/store_reproductions.py, and tested there",
}
"""Documents whose tables of numbers come from elsewhere, and from where."""

DOCUMENTS = [ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md", *tables.documents()]


def typed(text: str) -> Iterator[str]:
    """First lines of tables that look measured, a third of their cells being numbers, and are not made here."""
    rest = tables.REGION.sub("", text)
    for block in re.findall(r"(?:^\|.*\n)+", rest, re.MULTILINE):
        lines = block.splitlines()
        cells = [cell.strip() for line in lines[2:] for cell in line.strip("|").split("|")[1:] if cell.strip()]
        if cells and sum(bool(MEASURED.match(cell)) for cell in cells) > len(cells) / 3:
            yield lines[0]


def test_the_sentences_are_those_of_the_results():
    assert not any(claims.claims(TASKS).values()), "".join(claims.claims(TASKS).values())


@pytest.mark.parametrize("path", tables.documents(), ids=lambda path: path.name)
def test_the_tables_are_those_of_the_results(path):
    text = path.read_text()
    assert tables.made(text) == text, "run: python -m benchmarks.tables --write"
    if not any(str(path.relative_to(ROOT)).startswith(place) for place in NOT_MEASURED):
        assert list(typed(text)) == [], "numbers of a table come from result files: see benchmarks/tables.py"


def test_a_typed_table_of_numbers_is_found():
    words = "| a | b |\n|---|---|\n| fast | slow |\n"
    assert list(typed(words + "\n| rows | s |\n|---|---|\n| 10 | 0.5 s |\n| 20 | 1.5 s |\n")) == ["| rows | s |"]


def test_a_table_is_made_anew_between_its_marks():
    old = "Before.\n\n<!-- table scaling_blind.fits -->\nold numbers\n<!-- end of table -->\n\nAfter.\n"
    new = tables.made(old)
    assert new.startswith("Before.") and new.endswith("After.\n") and "old numbers" not in new
    assert "| rows |" in re.sub(" +", " ", new) and "`python -m benchmarks scaling_blind` on" in new
    assert tables.made(new) == new
    with pytest.raises(LookupError, match=r"no table scaling_blind.nonsense"):
        tables.made(old.replace("fits", "nonsense"))


def test_another_number_another_machine_and_a_missing_command_are_found(tmp_path):
    class Takes(Task):
        document = "page.md"

        def sentences(self, content):
            yield f"takes {content['s']} s"

    class Tuned(Takes):
        half = "tuning"

    about = {"processor": "P", "cores": 1, "threads": 1, "load_average_at_start": 0}
    recorded.keep(tmp_path, "p", "some", {"machine": about | {"date": "2030"}, "s": 5})
    page = tmp_path / "page.md"

    def wrong(text):
        page.write_text(text)
        return any(claims.claims({"some": Takes()}, tmp_path, tmp_path).values())

    assert not wrong("It takes 5\ns (`python -m benchmarks some`).")
    assert wrong("It takes 6 s (`python -m benchmarks some`).")
    assert wrong("It takes 5 s.")
    recorded.keep(tmp_path, "q", "some", {"machine": about | {"processor": "Q", "date": "2029"}, "s": 7})
    assert wrong("It takes 5 s (`python -m benchmarks some`).")
    assert not wrong("It takes 5 s on P (`python -m benchmarks some`).".replace("on P", "(P)"))
    with pytest.raises(BlindDataError, match="nothing may be claimed from it"):
        claims.claims({"some": Tuned()}, tmp_path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_that_are_named_are_there(path):
    text = path.read_text()
    assert set(re.findall(r"python -m benchmarks\.(\w+)", text)) <= {"claims", "tables", "regression"}
    for word in re.findall(r"python -m benchmarks ([a-z][\w:]*)", text):
        name, _, part = word.partition(":")
        assert name in TASKS, word
        assert not part or part in TASKS[name].parts, word
    for words in re.findall(r"ARGS=\"((?:\w+ ?)+)\"", text):
        assert set(words.split()) <= set(TASKS)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE))
    assert named <= targets, named - targets
    for figure in re.findall(r"widemargin reproduce ([a-z][\w-]+)", text):
        assert figure in FIGURES, figure


def test_every_task_is_described():
    for name, task in TASKS.items():
        assert len(task.question) > 20 and task.parts, name

"""README.md and the documentation say what the result files say, with the command that measures it, and it exists."""

import importlib.util
import re
from pathlib import Path

import pytest
from benchmarks import claims, runner

from widemargin_papers.reproductions import FIGURES

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]  # fmt: skip


def test_the_documents_say_what_the_results_say():
    wrong = claims.differing(claims.claims())
    assert not wrong, "\n".join(f"{said.document}: {said.text}" for said in wrong)


def test_another_number_is_found(tmp_path):
    (said,) = [said for said in claims.claims() if said.script == "scaling"]
    text = (ROOT / said.document).read_text()
    (tmp_path / "docs").mkdir()
    (tmp_path / said.document).write_text(text)
    assert claims.differing([said], tmp_path) == []
    (tmp_path / said.document).write_text(re.sub(r"take [\d.]+ s, a million", "take 0.1 s, a million", text))
    assert claims.differing([said], tmp_path) == [said]
    (tmp_path / said.document).write_text(text.replace("benchmarks.scaling", ""))
    assert claims.differing([said], tmp_path) == [said]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_that_are_named_are_there(path):
    text = path.read_text()
    for script in re.findall(r"python -m benchmarks\.(\w+)", text):
        assert script in runner.SCRIPTS or script in ("claims", "regression"), script
    for script in re.findall(r"--only ((?:\w+ ?)+)\"", text):
        assert set(script.split()) <= set(runner.SCRIPTS)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.MULTILINE))
    assert named <= targets, named - targets
    for figure in re.findall(r"widemargin reproduce ([a-z][\w-]+)", text):
        assert figure in FIGURES, figure


def test_every_script_named_in_a_table_of_results_can_be_run():
    for script in runner.SCRIPTS:
        assert importlib.util.find_spec(f"benchmarks.{script}") is not None
        assert f"## {script}:" in (ROOT / "benchmarks" / "README.md").read_text(), f"benchmarks/README.md: {script}"

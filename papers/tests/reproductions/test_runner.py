"""All figures by one command: what is there is kept, other code and `again` make it anew, failures end nothing."""

import json
import sys
from types import SimpleNamespace

import pytest

from widemargin.exceptions import DataError
from widemargin_papers.reproductions import experiment, runner
from widemargin_papers.reproductions.claims import Claim
from widemargin_papers.reproductions.figures import FigureEntry

DONE = []


class Picture:
    """Stands for a figure of matplotlib."""

    def savefig(self, file, dpi, format):
        file.write(b"PNG")


def _toy(name):
    def run(data, settings, key):
        DONE.append((name, key))
        if name == "broken":
            raise ZeroDivisionError("no rows")
        return {"value": 1, "seconds": 2.5}

    return SimpleNamespace(
        settings=lambda quick: {"C": 1.0}, load=lambda folder, quick: SimpleNamespace(name="some rows"),
        keys=lambda runs: [f"seed {k}" for k in range(runs)], run=run,
        summarise=lambda settings, runs: {"total": sum(run["value"] for run in runs.values())},
        table=lambda summary: f"| total {summary['total']} |", draw=lambda summary: Picture(),
    )  # fmt: skip


@pytest.fixture
def toys(monkeypatch):
    """Two figures, of which one breaks."""
    DONE.clear()
    entries = {name: FigureEntry(f"Paper, {name}: toy", name, "nothing", 2, 1) for name in ("broken", "works")}
    for name in entries:
        monkeypatch.setitem(sys.modules, f"widemargin_papers.reproductions.{name}", _toy(name))
    monkeypatch.setattr(runner, "FIGURES", entries)
    monkeypatch.setattr("widemargin_papers.reproductions.claims.FIGURES", entries)
    made = {
        name: lambda summary: iter([Claim("more than 1", str(summary["total"]), summary["total"] > 1)])
        for name in entries
    }
    for place in ("widemargin_papers.reproductions.runner.CLAIMS", "widemargin_papers.reproductions.claims.CLAIMS"):
        monkeypatch.setattr(place, made)


def all_of(asked):
    told = []
    runner.reproduce_all(asked, lambda step: None, told.append)
    return {outcome.figure: outcome for outcome in told}


def test_a_figure_that_fails_does_not_end_the_others(toys, tmp_path):
    found = all_of(runner.Asked(tmp_path))
    assert found["broken"].status == "failed"
    assert found["broken"].verdict == "ZeroDivisionError: no rows"
    works = found["works"]
    assert (works.status, works.runs, works.seconds, works.verdict) == ("done", 2, 5.0, "as in the paper")
    page = runner.write_page(list(found.values()), runner.Asked(tmp_path)).read_text()
    assert "| works | done | 2 | 5 | as in the paper |" in page
    assert "| broken | failed |" in page
    assert "| Paper, works (`works`) | **as in the paper** | more than 1 | 2 | yes |" in page
    assert "![works](works.png)" in page


def test_what_is_there_is_kept_until_it_is_asked_for_again(toys, tmp_path):
    all_of(runner.Asked(tmp_path))
    DONE.clear()
    assert all_of(runner.Asked(tmp_path))["works"].status == "kept"
    assert ("works", "seed 0") not in DONE
    assert all_of(runner.Asked(tmp_path, runs=3))["works"].status == "done"
    assert [key for name, key in DONE if name == "works"] == ["seed 2"]
    DONE.clear()
    assert all_of(runner.Asked(tmp_path, again=True))["works"].runs == 2
    assert [key for name, key in DONE if name == "works"] == ["seed 0", "seed 1"]
    (tmp_path / "works.png").unlink()
    assert all_of(runner.Asked(tmp_path))["works"].status == "done"  # drawn again


def test_runs_of_other_code_are_not_mixed_in(toys, tmp_path, monkeypatch):
    all_of(runner.Asked(tmp_path))
    DONE.clear()
    monkeypatch.setattr(experiment, "code_hash", lambda: "other")
    with pytest.raises(DataError, match=r"holds 2 runs of other code .*, now other\).* --again"):
        runner.reproduce("works", runner.Asked(tmp_path), lambda step: None)
    assert all_of(runner.Asked(tmp_path))["works"].status == "done"
    assert [key for name, key in DONE if name == "works"] == ["seed 0", "seed 1"]
    assert json.loads((tmp_path / "works.json").read_text())["code"] == "other"


def test_a_quick_run_has_no_verdict(toys, tmp_path):
    found = all_of(runner.Asked(tmp_path, quick=True))
    assert found["works"].verdict == "-"
    page = runner.write_page(list(found.values()), runner.Asked(tmp_path, quick=True)).read_text()
    assert "Paper and ours" not in page

"""The summary of the benchmarks is that of the results, and says what is missed."""

import json
from pathlib import Path

from benchmarks import findings, history, runner, summary
from benchmarks.common import RESULTS

ABOUT = {"processor": "P", "cores": 2, "threads": 1, "load_average_at_start": 0.5}


def test_the_stored_summary_is_that_of_the_stored_results():
    made = summary.text(RESULTS, runner.SCRIPTS)
    stored = (RESULTS / "summary.md").read_text()
    for part in ("## Times beside peers", "## Other targets"):  # what follows names peers of this machine
        begin = made.index(part)
        end = made.index("\n## ", begin + 1)
        assert made[begin:end] in stored, "make it again by: python -m benchmarks --summary-only"
    assert (RESULTS / "summary.png").read_bytes().startswith(b"\x89PNG")


def test_every_stored_ratio_and_limit_is_found():
    found = {script: findings.read(RESULTS, script) for script in findings.READERS}
    assert all(some.ratios or some.limits for some in found.values())
    assert {item.peer for some in found.values() for item in some.ratios} >= {"fairlearn", "LIBSVM", "Cooper"}


def test_a_summary_names_what_is_missed_and_left_out(tmp_path):
    content = {
        "machine": ABOUT, "gradients_ms": {"margin pursuit": 2.0, "LogisticRegression": 1.0}, "to_the_optimum": {},
        "stochastic_per_s": {"margin pursuit": 8.0, "SGDClassifier, hinge": 4.0},
    }  # fmt: skip
    (tmp_path / "margin_speed.json").write_text(json.dumps(content))
    history.append(tmp_path, {
        "script": "margin_speed", "date": "2030-01-01", "commit": "abc", "status": "done", "seconds": 7.2
    })  # fmt: skip
    summary.write(tmp_path, ["margin_speed", "memory"], missing=["hiclass"])
    text = (tmp_path / "summary.md").read_text()
    assert "| `margin_speed` | gradient, a9a | margin pursuit | LogisticRegression | 0.50 | 1 | **no** |" in text
    assert "| 2.00 | 1 | yes |" in text
    assert "Drawn without hiclass: results that need them" in text
    assert "| `margin_speed` | P, 2 cores, 1 thread used, load 0.5 at the start | 2030-01-01 | abc | done | 7 |" in text
    assert "| `memory` | no results |" in text
    assert (tmp_path / "summary.png").read_bytes().startswith(b"\x89PNG")


def test_a_quick_summary_judges_nothing(tmp_path: Path):
    content = {
        "machine": ABOUT, "gradients_ms": {"margin pursuit": 2.0, "LogisticRegression": 1.0}, "to_the_optimum": {},
        "stochastic_per_s": {},
    }  # fmt: skip
    (tmp_path / "margin_speed.json").write_text(json.dumps(content))
    text = summary.text(tmp_path, ["margin_speed"], quick=True)
    assert "**no**" not in text
    assert "Its ratios mean nothing" in text


def test_cases_of_one_peer_have_one_colour():
    assert summary.colour("LinearSVC, neighbours") == summary.colour("LinearSVC, a letter")
    shown = [summary.colour(peer) for peer in summary.PEER_COLOURS]
    assert len(set(shown)) == len(shown)
    assert summary.colour("scikit-learn-intelex")[0] == "scikit-learn-intelex"
    assert summary.colour("fairlearn, LR") == summary.colour("fairlearn")

"""The runner of the benchmarks: scripts in processes, history, what is kept, failures, and the list of scripts."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from benchmarks import findings, history, install_peers, machine, runner

ROOT = Path(__file__).parents[2]

SCRIPT = """
import argparse, json, pathlib, sys
made = argparse.ArgumentParser()
made.add_argument("--out", type=pathlib.Path)
made.add_argument("--quick", action="store_true")
made.add_argument("--no-peers", action="store_true")
made.add_argument("--repeats", type=int)
options = made.parse_args()
{body}
(options.out / "{name}.json").write_text(json.dumps({{"machine": {{}}, "repeats": options.repeats}}))
"""


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """A repository with three scripts: one that works, one that fails, one without data."""
    folder = tmp_path / "repository" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    bodies = {
        "good": "print('ran')",
        "bad": "sys.exit('it broke')",
        "dataless": "print('skipped: no data'); sys.exit()",
    }
    for name, body in bodies.items():
        (folder / f"{name}.py").write_text(SCRIPT.format(name=name, body=body))
    monkeypatch.setattr(runner, "ROOT", tmp_path / "repository")
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "SCRIPTS", tuple(bodies))
    monkeypatch.setattr(history, "code_version", lambda: "abc")
    monkeypatch.setattr(
        runner, "machine", lambda: {"processor": "P", "cores": 2, "threads": 1, "load_average_at_start": 0}
    )
    monkeypatch.setattr(runner.summary, "write", lambda *given, **named: None)
    return tmp_path / "results"


def test_a_script_that_fails_does_not_end_the_others(scripts, capsys):
    assert runner.main([]) == 1
    said = capsys.readouterr().out
    assert "good: done" in said
    assert "bad: failed" in said and "it broke" in said
    assert "dataless: skipped" in said and "no data" in said
    assert json.loads((scripts / "good.json").read_text()) == {"machine": {}, "repeats": None}


def test_every_run_is_a_line_of_the_history(scripts):
    runner.main(["--repeats", "2"])
    (line,) = history.lines(scripts, "good")
    assert line["commit"] == "abc" and line["status"] == "done" and line["exit_code"] == 0
    assert line["settings"]["repeats"] == 2 and line["machine"]["cores"] == 2
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", line["date"])
    assert line["ratios"] == line["limits"] == []
    assert history.lines(scripts, "bad")[0]["status"] == "failed"


def test_what_is_done_is_kept_until_settings_or_code_change(scripts, capsys, monkeypatch):
    for arguments, status in ([], "done"), ([], "kept"), (["--again"], "done"), (["--repeats", "1"], "done"):
        runner.main(["--only", "good", *arguments])
        assert f"good: {status}" in capsys.readouterr().out
    monkeypatch.setattr(history, "code_version", lambda: "def")
    runner.main(["--only", "good"])
    assert "good: done" in capsys.readouterr().out
    (scripts / "good.json").unlink()
    runner.main(["--only", "good"])
    assert "good: done" in capsys.readouterr().out
    runner.main(["--only", "bad"])
    runner.main(["--only", "bad"])  # what failed is tried again
    assert len(history.lines(scripts, "bad")) == 2


def test_only_and_skip_choose(scripts, capsys):
    runner.main(["--skip", "bad", "dataless"])
    assert "bad" not in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no benchmark nonsense"):
        runner.main(["--only", "nonsense"])
    with pytest.raises(SystemExit, match="disturb"):
        runner.main(["--jobs", "2"])


def test_a_script_out_of_time_is_ended(scripts, tmp_path):
    (tmp_path / "repository" / "benchmarks" / "good.py").write_text("import time\ntime.sleep(60)")
    assert runner.main(["--only", "good", "--timeout", "0.3"]) == 1
    (line,) = history.lines(scripts, "good")
    assert line["exit_code"] == 124 and line["seconds"] < 20
    assert "out of time" in line["message"]


def test_the_list_is_that_of_the_files():
    programs = {
        path.stem for path in (ROOT / "benchmarks").glob("*.py")
        if " = parser(" in path.read_text() and "def main(" in path.read_text()
    }  # fmt: skip
    assert programs == {*runner.SCRIPTS, "option_ablations"}  # which compares no peers, and takes an hour by itself


def test_a_line_cut_off_by_an_interrupt_is_left_out(tmp_path):
    history.append(tmp_path, {"script": "a", "commit": "1"})
    with (tmp_path / "history" / "a.jsonl").open("a") as file:
        file.write('{"script": "a", "com')
    assert [line["commit"] for line in history.lines(tmp_path, "a")] == ["1"]


def test_code_version_is_the_last_commit_of_the_code(tmp_path):
    def git(*arguments):
        told = subprocess.run(["git", "-C", tmp_path, *arguments], check=True, capture_output=True, text=True)
        return told.stdout.strip()

    git("init", "--quiet")
    git("config", "user.email", "a@b.c")
    git("config", "user.name", "A")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    assert history.code_version(tmp_path).startswith("no-commit+")
    git("add", ".")
    git("commit", "--quiet", "-m", "code")
    code = git("log", "-1", "--format=%h", "--abbrev=10")
    (tmp_path / "results.json").write_text("{}")
    git("add", ".")
    git("commit", "--quiet", "-m", "results")
    assert history.code_version(tmp_path) == code
    (tmp_path / "src" / "a.py").write_text("a = 2\n")
    changed = history.code_version(tmp_path)
    assert changed.startswith(f"{code}+")
    (tmp_path / "src" / "a.py").write_text("a = 3\n")
    assert history.code_version(tmp_path) != changed


def test_a_peer_that_cannot_be_installed_leaves_the_others():
    asked = []

    def pip(requirements):
        asked.append(list(requirements))
        return "bad" not in requirements

    assert install_peers.install(["good", "bad", "fine"], pip) == ["bad"]
    assert asked == [["good", "bad", "fine"], ["good"], ["bad"], ["fine"]]
    assert install_peers.install(["good"], pip) == []


def test_the_peers_named_are_those_of_the_group():
    group = {re.split(r"[<>=\[ ]", name)[0] for name in install_peers.wanted()}
    assert set(machine.PEERS) - {"scikit-learn"} <= group


def test_findings_of_times_and_limits(tmp_path):
    content = {
        "gradients_ms": {"margin pursuit": 2.0, "LogisticRegression": 3.0}, "to_the_optimum": {
            "margin pursuit": {"ms": 10.0}, "LogisticRegression": {"ms": 5.0}},
        "stochastic_per_s": {"margin pursuit": 8.0, "SGDClassifier, hinge": 4.0},
    }  # fmt: skip
    (tmp_path / "margin_speed.json").write_text(json.dumps(content))
    gradient, fit, step = findings.read(tmp_path, "margin_speed").ratios
    assert (gradient.value, gradient.reached) == (1.5, True)
    assert (fit.value, fit.reached) == (0.5, False)
    assert (step.value, step.peer) == (2.0, "SGDClassifier, hinge")
    assert findings.read(tmp_path, "no_such_script") == findings.Findings()
    at_most, at_least = findings.Limit("a", 3.0, 2.0, "s"), findings.Limit("b", 3.0, 2.0, "%", at_least=True)
    assert (at_most.share, at_most.reached) == (1.5, False)
    assert (at_least.share, at_least.reached) == (pytest.approx(2 / 3), True)

"""The runner of the benchmarks: tasks in processes, what is kept, failures, peers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import install_peers, machine, recorded, runner, task

ROOT = Path(__file__).parents[2]

MODULE = '''
import sys
from benchmarks.task import Task
from widemargin.exceptions import MissingDataError

def works(ctx):
    return [{"repeats": ctx.repeats}]

def breaks(ctx):
    raise ValueError("it broke")

def lacks(ctx):
    raise MissingDataError("no data")

class good(Task):
    """It works."""
    half, parts = "neutral", {"rows": works, "more": works}

class bad(Task):
    """It fails."""
    parts = {"first": works, "second": breaks}

class dataless(Task):
    """Nothing is there."""
    parts = {"rows": lacks}
'''


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """A folder of results, and a module of tasks: one that works, one that fails, one without data."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "tasks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "all_tasks", lambda: task.tasks_of("toy.tasks"))
    yield tmp_path / "results"
    for name in ("toy", "toy.tasks"):
        sys.modules.pop(name, None)


def run(*arguments):
    return runner.main([*arguments])


def test_a_task_that_fails_does_not_end_the_others(tasks, capsys):
    assert run() == 1
    said = capsys.readouterr().out
    assert "good: done" in said
    assert "bad: failed" in said and "it broke" in said
    assert "dataless: skipped" in said and "no data" in said
    (content,) = recorded.machines("good", tasks).values()
    assert content["rows"] == [{"repeats": 5}]
    (content,) = recorded.machines("bad", tasks).values()
    assert content["first"] and "second" not in content  # what is done stays
    assert "| good" in (tasks / "summary.md").read_text()


def test_what_is_done_is_kept_until_the_code_changes(tasks, capsys):
    for arguments, status in ([], "done"), ([], "kept"), (["--again"], "done"):
        run("good:rows", *arguments)
        assert f"good: {status}" in capsys.readouterr().out
    (path,) = tasks.glob("*/good.json")
    path.write_text(re.sub(r'"code": "', '"code": "other', path.read_text()).replace("5", "7"))
    run("good:more")  # the part that was done before stays
    (content,) = recorded.machines("good", tasks).values()
    assert content["rows"] == [{"repeats": 7}] and content["more"] == [{"repeats": 5}]
    run("good:rows")
    assert "good: done" in capsys.readouterr().out
    (content,) = recorded.machines("good", tasks).values()
    assert content["rows"] == [{"repeats": 5}]


def test_names_and_parts_choose(tasks, capsys):
    run("--list")
    assert "good (rows, more): It works." in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no benchmark nonsense"):
        run("nonsense")
    with pytest.raises(SystemExit, match="good has no part nonsense"):
        run("good:nonsense")
    with pytest.raises(SystemExit, match="disturb"):
        run("--jobs", "2")


def test_what_is_recorded_beside_peers_is_not_replaced_by_a_run_without(tasks, capsys):
    run("good:rows")
    assert "good: done" in capsys.readouterr().out
    module = sys.modules["toy.tasks"]
    module.good.peers = ("no-such-peer",)
    run("good:more")
    said = capsys.readouterr().out
    assert "good: skipped" in said and "recorded beside no-such-peer" in said
    module.good.peers = ("numpy",)
    run("good:more")
    assert "good: done" in capsys.readouterr().out


def test_code_version_is_the_last_commit_of_the_code(tmp_path):
    def git(*arguments):
        told = subprocess.run(["git", "-C", tmp_path, *arguments], check=True, capture_output=True, text=True)
        return told.stdout.strip()

    git("init", "--quiet")
    git("config", "user.email", "a@b.c")
    git("config", "user.name", "A")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("a = 1\n")
    assert machine.code_version(tmp_path).startswith("no-commit+")
    git("add", ".")
    git("commit", "--quiet", "-m", "code")
    code = git("log", "-1", "--format=%h", "--abbrev=10")
    (tmp_path / "results.json").write_text("{}")
    git("add", ".")
    git("commit", "--quiet", "-m", "results")
    assert machine.code_version(tmp_path) == code
    (tmp_path / "src" / "a.py").write_text("a = 2\n")
    changed = machine.code_version(tmp_path)
    assert changed.startswith(f"{code}+")
    (tmp_path / "src" / "a.py").write_text("a = 3\n")
    assert machine.code_version(tmp_path) != changed


def test_a_peer_that_cannot_be_installed_leaves_the_others():
    asked = []

    def pip(requirements):
        asked.append(list(requirements))
        return "bad" not in requirements

    assert install_peers.install(["good", "bad", "fine"], pip) == ["bad"]
    assert asked == [["good", "bad", "fine"], ["good"], ["bad"], ["fine"], ["--upgrade", *install_peers.PINNED]]
    asked.clear()
    assert install_peers.install(["good"], pip) == []
    assert asked == [["good"], ["--upgrade", *install_peers.PINNED]]  # all at once they bring old versions, too


def test_the_peers_named_are_those_of_the_group():
    group = {re.split(r"[<>=\[ ]", name)[0] for name in install_peers.wanted()}
    for one in task.all_tasks().values():
        assert set(one.peers) <= group

"""The comparison of two commits, on toy ones: what is slower is flagged, what is equal is not, what is new left out."""

import subprocess

import numpy as np
import pytest
from benchmarks import regression
from benchmarks.hot_kernels import KERNELS

TOY = '''"""Kernels of a toy package, whose clock counts their rounds: a busy machine changes no sample."""
import time
def toy(name):
    def prepare():
        import widemargin
        time.process_time = lambda: widemargin.rounds_done * 1e-7
        return getattr(widemargin, name)
    return prepare
KERNELS = {"hot": toy("hot"), "same": toy("same"), "new": toy("new")}
'''

SOURCE = """
rounds_done = 0
def work(rounds):
    global rounds_done
    rounds_done += rounds
def hot():
    work({hot})
def same():
    work(20000)
{more}
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A repository of two commits with the same kernels: `hot` takes three times as long in the second."""
    root = tmp_path / "repository"

    def git(*arguments):
        subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True)

    package = root / "src" / "widemargin"
    package.mkdir(parents=True)
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "hot_kernels.py").write_text(TOY)
    git("init", "--quiet")
    git("config", "user.email", "a@b.c")
    git("config", "user.name", "A")
    for rounds, more in ((10_000, ""), (30_000, "def new():\n    return 1\n")):
        (package / "__init__.py").write_text(SOURCE.format(hot=rounds, more=more))
        git("add", ".")
        git("commit", "--quiet", "-m", f"hot takes {rounds}")
    real = regression.sources
    monkeypatch.setattr(regression, "sources", lambda commit: real(commit, root))
    monkeypatch.setattr(regression, "PAIRS", 1)


def test_a_kernel_that_became_slower_is_flagged(toy, capsys):
    assert regression.main(["HEAD~1", "HEAD"]) == 1
    said = capsys.readouterr().out
    rows = {
        cells[1].strip(): cells for line in said.splitlines() if line.startswith("|") for cells in [line.split("|")]
    }
    assert float(rows["hot"][4]) == 3.0
    assert rows["hot"][7].strip() == "SLOWER"
    assert float(rows["same"][4]) == 1.0
    assert rows["same"][7].strip() == ""
    assert "not in old: AttributeError" in said
    assert "1 of 3 kernels are slower by more than 10%: hot." in said


def test_the_other_way_round_it_is_quicker(toy, capsys):
    assert regression.main(["HEAD", "HEAD~1"]) == 0
    said = capsys.readouterr().out
    assert "quicker" in said


def test_a_commit_that_is_not_there(toy):
    with pytest.raises(SystemExit, match="cannot read 'nonsense'"):
        regression.main(["nonsense", "HEAD"])


def test_equal_kernels_are_hardly_ever_flagged_and_slower_ones_nearly_always():
    rng = np.random.default_rng(0)
    said = [regression.verdict_of(rng.lognormal(0.0, 0.1, 5)) for _ in range(500)]
    assert said.count("SLOWER") < 15 and said.count("quicker") < 15
    assert [regression.verdict_of(1.3 * rng.lognormal(0.0, 0.1, 5)) for _ in range(500)].count("SLOWER") > 450


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((1.3, 1.2, 1.4), "SLOWER"),
        ((1.05, 1.02, 1.08), ""),
        ((1.3, 0.9, 1.6), ""),
        ((0.8, 0.7, 0.9), "quicker"),
        ((0.8, 0.7, 1.1), ""),
    ],
)
def test_verdicts_need_the_threshold_and_every_pair(ratios, verdict):
    assert regression.verdict_of(ratios) == verdict


@pytest.mark.filterwarnings("ignore")  # that it did not converge
@pytest.mark.parametrize("name", KERNELS)
def test_every_hot_kernel_runs_on_these_sources(name):
    KERNELS[name]()()

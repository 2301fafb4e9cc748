"""Spoilt goals files, tables and goals: a message, never anything else, and nothing is written or run."""

import random
import warnings

import pytest

from command_line import GOALS, people, write_csv
from mutations import mutated, random_goal
from widemargin.cli.checks.guesses import guess_roles
from widemargin.cli.main import main
from widemargin.cli.tables.table_files import read_table
from widemargin.exceptions import GoalParseError, WidemarginError
from widemargin.goals import Goal

TOML_WORDS = [
    "[data]", "[external.x]", "[baselines.old]", '[baselines.f]\nfunction = "os:getcwd"', "[validation]",
    "[goal.audit]",
    "[]", "{}", 'model = "m.skops"', "confidence = 0.9", "folds = 3", "fraction = 0.5", '["sex"]', '["age", "work"]',
    '"people.csv"', 'protected_as_features = ["sex"]', '"income"', "table", "words", "features", "ignore",
    '"subject to recall() >= 0.5"',
]  # fmt: skip
CSV_WORDS = ["F", "M", "NA", "null", "1", "1.5", "true", "2024-01-01", ",", ",,,", '"a,b"', "high", "train", "1e400"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_csv(tmp_path / "people.csv", people(200))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spoil_toml(folder, capsys, number, seed):
    """Check so many spoilt goals files, and their table."""
    rng, files = random.Random(seed), {path.name for path in folder.iterdir()}
    codes = set()
    for _ in range(number):
        text = mutated(GOALS, rng, TOML_WORDS)
        (folder / "goals.toml").write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        code = main(["check", "goals.toml", "--data"])
        printed = capsys.readouterr()
        assert code in (0, 2), text
        assert "defect" not in printed.err and "\x1b" not in printed.out + printed.err, text
        codes.add(code)
    assert codes == {0, 2}
    assert {path.name for path in folder.iterdir()} == files | {"goals.toml"}


def spoil_csv(folder, capsys, number, seed):
    """Look at so many spoilt tables in every way that reads them before training."""
    rng, good = random.Random(seed), (folder / "people.csv").read_text()
    (folder / "goals.toml").write_text(GOALS)
    codes, guessed = set(), 0
    for _ in range(number):
        content = mutated(good, rng, CSV_WORDS).encode("utf-8", errors="replace")
        if rng.random() < 0.2:
            at = rng.randrange(len(content) + 1)
            content = content[:at] + bytes(rng.randrange(256) for _ in range(rng.randint(1, 8))) + content[at:]
        (folder / "people.csv").write_bytes(content)
        code = main(["check", "goals.toml", "--data"])
        printed = capsys.readouterr()
        assert code in (0, 2), content
        assert "defect" not in printed.err and "\x1b" not in printed.out + printed.err, content
        codes.add(code)
        try:
            guess_roles(read_table(folder / "people.csv"), None, "people.csv")
            guessed += 1
        except WidemarginError:
            pass
    assert codes == {0, 2} and guessed > 0


def spoil_goals(number, seed):
    """Parse so many texts; those that are goals print as goals."""
    rng, read = random.Random(seed), 0
    for _ in range(number):
        text = random_goal(rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                goal = Goal.parse(text)
        except GoalParseError as error:
            assert error.line is None or 1 <= error.line <= text.count("\n") + text.count("\r") + 1, text
            continue
        assert Goal.parse(str(goal)) == goal, text
        read += 1
    assert read


def test_spoilt_goals_files_end_in_a_message(folder, capsys):
    spoil_toml(folder, capsys, 100, seed=0)


def test_spoilt_tables_end_in_a_message(folder, capsys):
    spoil_csv(folder, capsys, 40, seed=0)


def test_random_goals_end_in_a_message():
    spoil_goals(1000, seed=0)


@pytest.mark.slow
def test_two_thousand_spoilt_goals_files(folder, capsys):
    spoil_toml(folder, capsys, 2000, seed=1)


@pytest.mark.slow
def test_five_hundred_spoilt_tables(folder, capsys):
    spoil_csv(folder, capsys, 500, seed=1)


@pytest.mark.slow
def test_a_hundred_thousand_random_goals():
    spoil_goals(100_000, seed=1)

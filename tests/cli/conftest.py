import pytest

from command_line import GOALS, people, write_csv


@pytest.fixture
def project(tmp_path):
    """A folder with `goals.toml` and `people.csv`."""
    (tmp_path / "goals.toml").write_text(GOALS)
    write_csv(tmp_path / "people.csv", people())
    return tmp_path

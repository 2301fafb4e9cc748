import pytest

from command_line import write_project


@pytest.fixture
def project(tmp_path):
    """A folder with `goals.toml` and `people.csv`."""
    return write_project(tmp_path)

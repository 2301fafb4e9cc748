import shutil

import pytest

from command_line import write_project
from widemargin.cli.main import main


@pytest.fixture
def project(tmp_path):
    """A folder with `goals.toml` and `people.csv`."""
    return write_project(tmp_path)


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    """What `train` saves for the project, which is the same for every test."""
    folder = write_project(tmp_path_factory.mktemp("trained"))
    assert main(["train", str(folder / "goals.toml")]) == 0
    return folder / "out" / "people.skops"


@pytest.fixture
def trained(project, model_file, capsys):
    """The project with its model."""
    (project / "out").mkdir()
    shutil.copy(model_file, project / "out")
    capsys.readouterr()  # what training said, if this test is the first to ask
    return project

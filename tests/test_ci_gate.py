"""The CI examples of the documents are YAML, and the commands in them run."""

import json
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier

from any_models import GOALS, frame, linear_pipeline
from widemargin.cli.main import main

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "ci-gate.md").read_text()
YAML = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def commands():
    """Every call of widemargin in the document, with its folded lines joined."""
    found = re.findall(r"^ +(?:- )?(widemargin (?:audit|predict|compare) [^\n]*(?:\n +--[^\n]*)*)", TEXT, re.MULTILINE)
    return [" ".join(command.split()) for command in found]


@pytest.fixture
def project(tmp_path, monkeypatch):
    rows = frame(300)
    (tmp_path / "goals.toml").write_text(GOALS.replace('"people.csv"', '"holdout.csv"'))
    rows.to_csv(tmp_path / "holdout.csv", index=False)
    skops.io.dump(linear_pipeline(rows), tmp_path / "model.skops")
    skops.io.dump(linear_pipeline(rows, DecisionTreeClassifier(max_depth=2)), tmp_path / "candidate.skops")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_document_run(project, capsys):
    found = commands()
    assert len(found) == 6 and sum("--junit" in command for command in found) == 3
    for command in found:
        assert main(shlex.split(command)[1:]) == 0, command
    assert capsys.readouterr().err == ""
    jsonschema.validate(
        json.loads(Path("audit.json").read_text()), json.loads((ROOT / "docs/report.schema.json").read_text())
    )


def test_a_broken_goal_stops_the_pipeline(project, capsys):
    text = (project / "goals.toml").read_text()
    (project / "goals.toml").write_text(text.replace("recall() >= 0.4", "recall() >= 0.9999"))
    gates = [command for command in commands() if "--junit" in command]
    assert [main(shlex.split(command)[1:]) for command in gates] == [1, 1, 1]
    assert 'failures="1"' in Path("audit.xml").read_text()


def test_the_examples_are_yaml_with_these_commands():
    yaml = pytest.importorskip("yaml")
    github, gitlab = (yaml.safe_load(text) for text in YAML)
    steps = github["jobs"]["audit"]["steps"]
    runs = [step["run"] for step in steps if "run" in step] + gitlab["audit"]["script"]
    assert sum(run in commands() for run in (" ".join(run.split()) for run in runs)) == 2
    assert all(run.startswith(("pip install", "widemargin ")) for run in runs)
    assert gitlab["audit"]["artifacts"]["reports"]["junit"] == "audit.xml"


def test_the_schema_is_valid_and_closed():
    schema = json.loads((ROOT / "docs/report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"command": "audit"}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"command": "train"}, schema)

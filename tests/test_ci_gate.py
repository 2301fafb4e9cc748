"""What the page on gates shows runs, and so do the steps of the GitHub action and of the GitLab component."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import jsonschema
import pytest
import skops.io
import yaml
from sklearn.tree import DecisionTreeClassifier

from any_models import GOALS, frame, linear_pipeline
from command_server import command_on_path
from widemargin.cli.main import main

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "ci-gate.md").read_text()
YAML = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
SPEC, JOBS = yaml.safe_load_all((ROOT / "templates/audit.yml").read_text())
JOB = JOBS["widemargin-audit"]


def commands():
    """Every call of widemargin in the document."""
    return re.findall(r"^    (widemargin (?:check|audit|predict|compare) .*)", TEXT, re.MULTILINE)


@pytest.fixture
def project(tmp_path, monkeypatch):
    rows = frame(300)
    (tmp_path / "goals.toml").write_text(GOALS.replace('"people.csv"', '"holdout.csv"'))
    rows.to_csv(tmp_path / "holdout.csv", index=False)
    skops.io.dump(linear_pipeline(rows), tmp_path / "model.skops")
    skops.io.dump(linear_pipeline(rows, DecisionTreeClassifier(max_depth=2)), tmp_path / "candidate.skops")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def break_goal(project):
    text = (project / "goals.toml").read_text()
    (project / "goals.toml").write_text(text.replace("recall() >= 0.4", "recall() >= 0.9999"))


def test_the_commands_of_the_document_run(project, capsys):
    found = commands()
    assert len(found) == 6 and sum("--junit" in command for command in found) == 2
    for command in found:
        assert main(shlex.split(command)[1:]) == 0, command
    assert capsys.readouterr().err == ""
    schema = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/report.schema.json").read_text()))
    schema.validate(json.loads(Path("audit.json").read_text()))


def test_a_broken_goal_stops_the_pipeline(project, capsys):
    break_goal(project)
    gates = [command for command in commands() if "--junit" in command]
    assert [main(shlex.split(command)[1:]) for command in gates] == [1, 1]
    assert 'failures="1"' in Path("audit.xml").read_text()


def github_steps(inputs):
    """Scripts of the action's steps with their environments, as the runner makes them of inputs."""
    values = {name: inputs.get(name, entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
    assert inputs.keys() <= ACTION["inputs"].keys()

    def filled(text):
        text = re.sub(
            r"\$\{\{ inputs\.(\w+) \|\| github\.action_path \}\}", lambda found: values[found[1]] or "SOURCES", text
        )
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: values[found[1]], text)

    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash" and "${{" not in step["run"]  # an input is never a part of a script
        is_left_out = step.get("if") == "${{ inputs.package != 'none' }}" and values["package"] == "none"
        if not is_left_out:
            yield step["run"], {name: filled(text) for name, text in step["env"].items()}, step.get("if") == "always()"


def gitlab_steps(inputs):
    """The same of the component: one shell runs all lines."""
    values = {name: inputs.get(name, entry.get("default")) for name, entry in SPEC["spec"]["inputs"].items()}
    assert inputs.keys() <= SPEC["spec"]["inputs"].keys()

    def filled(text):
        return re.sub(
            r"\$\[\[ inputs\.(\w+) \]\]",
            lambda found: str(values[found[1]]).lower() if isinstance(values[found[1]], bool) else values[found[1]],
            text,
        )

    yield "\n".join(JOB["script"]), {name: filled(text) for name, text in JOB["variables"].items()}, False


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """A folder of the commands that steps call."""
    folder = tmp_path_factory.mktemp("tools")
    # pip is not to reach an index here: what it would install is noted
    (folder / "python").write_text('#!/bin/sh\necho "$@" >> pip.txt\n')
    (folder / "python").chmod(0o755)
    with command_on_path(folder):
        yield folder


def run(steps, folder, tools):
    """Run steps until one fails, then those that always run; the exit code and what was printed."""
    code, printed = 0, ""
    for script, variables, is_always in steps:
        if code and not is_always:
            continue
        environment = (
            os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": "page.md"} | variables
        )
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        code, printed = code or done.returncode, printed + done.stdout + done.stderr
    return code, printed


EXAMPLE = yaml.safe_load(YAML[0])["jobs"]["audit"]["steps"][2]["with"], yaml.safe_load(YAML[1])["include"][0]["inputs"]


@pytest.mark.parametrize(("steps", "inputs"), [(github_steps, EXAMPLE[0]), (gitlab_steps, EXAMPLE[1])])
def test_the_steps_pass_a_good_model_and_stop_a_broken_goal(project, tools, steps, inputs):
    code, printed = run(steps(inputs), project, tools)
    assert code == 0 and "no problems" in printed and "PASSED" in printed, printed
    results = project / "widemargin-audit"
    assert {"audit.json", "audit.xml", "model-card.md", "in-toto.json"} <= {path.name for path in results.iterdir()}
    assert json.loads((results / "audit.json").read_text())["report"]["decide"] == "confident", printed
    assert (project / "pip.txt").read_text().split()[-1] == ("SOURCES" if steps is github_steps else "./widemargin")
    if steps is github_steps:
        break_goal(project)
        code, printed = run(steps({**inputs, "package": "none"}), project, tools)
        assert code == 1 and "NOT PASSED" in printed, printed
        assert len((project / "pip.txt").read_text().splitlines()) == 1
        page = (project / "page.md").read_text()
        assert re.findall(r"^.*PASSED:", page, re.MULTILINE) == ["PASSED:", "NOT PASSED:"]


@pytest.mark.parametrize("steps", [github_steps, gitlab_steps])
def test_a_warning_stops_the_steps_if_strict(project, tools, steps):
    text = (project / "goals.toml").read_text()
    (project / "goals.toml").write_text(
        text.replace('ignore = ["id"]', "ignore = []").replace('features = ["age"', 'features = ["id", "age"')
    )
    inputs = {"model": "model.skops", "arguments": "--workers 1", "package": "none"}
    code, printed = run(steps(inputs), project, tools)
    assert code == 2 and "--strict" in printed and "audit.xml" not in printed
    assert not (project / "widemargin-audit").exists()


def test_the_example_uses_what_the_action_and_the_component_take():
    assert YAML[0].count("uses: ./widemargin") == 1 and EXAMPLE[0].keys() == EXAMPLE[1].keys()
    table = TEXT.partition("## What both take")[2].partition("##")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert set(listed) == ACTION["inputs"].keys() == SPEC["spec"]["inputs"].keys() - {"image", "stage"}
    assert JOB["artifacts"]["reports"]["junit"] == "$[[ inputs.results ]]/audit.xml"


def test_the_schema_is_valid_and_closed():
    schema = json.loads((ROOT / "docs/report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for command in ("audit", "train"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema).validate({"command": command})

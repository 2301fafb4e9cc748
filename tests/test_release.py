"""What is published: versions agree, a wheel holds the package alone, and workflows run what there is."""

import ast
import inspect
import json
import re
import runpy
import subprocess
import zipfile
from pathlib import Path

import hatch_build
import pytest
import yaml
from testing.release_check import LARGEST, NEEDED, ROOT, faults_of_code, faults_of_versions, faults_of_wheel, statements

import widemargin


def test_versions_agree() -> None:
    assert faults_of_versions() == []


def test_a_forgotten_version_is_named(tmp_path: Path) -> None:
    names = ["pyproject.toml", "src/widemargin/__init__.py", "papers/src/widemargin_papers/__init__.py"]
    for name in [*names, "papers/pyproject.toml", "CITATION.cff", "CHANGELOG.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    path = tmp_path / "pyproject.toml"
    path.write_text(re.sub(r'^version = ".*"$', 'version = "9.9.9"', path.read_text(), count=1, flags=re.MULTILINE))
    found = faults_of_versions(tmp_path)
    assert [fault.split()[0] for fault in found] == [
        "src/widemargin/__init__.py", "papers/src/widemargin_papers/__init__.py", "papers/pyproject.toml",
        "CITATION.cff", "CHANGELOG.md", "papers",
    ]  # fmt: skip


def test_the_documentation_of_every_release_gets_a_folder(tmp_path: Path) -> None:
    def git(*command: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *command], cwd=tmp_path / "repo", check=True, capture_output=True)

    (tmp_path / "repo").mkdir()
    git("init")
    for tag in ("v0.9.0", "v0.10.0", None):
        made = "docs/_build/html/index.html"
        (tmp_path / "repo/Makefile").write_text(f"docs:\n\t@mkdir -p docs/_build/html && echo {tag} > {made}\n")
        git("add", "Makefile")
        git("commit", "-m", "a version")
        if tag:
            git("tag", tag)
    runpy.run_path(str(ROOT / "docs/build_versions.py"))["main"](tmp_path / "site", tmp_path / "repo")
    folders = json.loads((tmp_path / "site/versions.json").read_text())
    assert folders == ["latest", "v0.10.0", "v0.9.0"]
    assert [(tmp_path / "site" / name / "index.html").read_text().strip() for name in folders] == ["None", *folders[1:]]
    assert "latest/index.html" in (tmp_path / "site/index.html").read_text()


WHOLE = {"widemargin/__init__.py", "widemargin-1.dist-info/licenses/LICENSE", *NEEDED}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (WHOLE, []),
        (WHOLE - {"widemargin/py.typed"}, ["widemargin/py.typed is missing"]),
        (WHOLE | {"tests/test_a.py"}, ["tests/test_a.py does not belong there"]),
        (WHOLE | {"widemargin/datasets/rows.npz"}, ["widemargin/datasets/rows.npz is data"]),
        (WHOLE - {"widemargin-1.dist-info/licenses/LICENSE"}, ["no licence"]),
    ],
)
def test_what_does_not_belong_into_a_wheel_is_named(names: set[str], said: list[str], tmp_path: Path) -> None:
    wheel = tmp_path / "widemargin-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in sorted(names):
            archive.writestr(name, "")
    assert faults_of_wheel(wheel) == said


def test_a_wheel_that_is_too_large_is_named(tmp_path: Path) -> None:
    wheel = tmp_path / "widemargin-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in WHOLE:
            archive.writestr(name, b"x" * (LARGEST // len(WHOLE) + 1))
    (said,) = faults_of_wheel(wheel)
    assert said.endswith("bytes, more than 1,000,000")


MODULE = '''"""A module."""

__all__ = ["Model"]
LEVEL = 1
"""What is said of a constant."""


class Ground:
    """What models share."""

    def fit(self):
        """Fit it."""  # a comment
        return self


class Model(Ground):
    """A model."""

    def predict(self) -> Answer:
        """Say it."""
        return _inner("# no comment")  # a comment

    def _hidden(self):
        """Of several
        lines.
        """
        return 1


class Answer(NamedTuple):
    """What users receive."""

    value: int


def _inner(text):
    # a comment
    """Nobody sees it."""
    return text
'''


def test_a_wheel_keeps_the_statements_and_the_docstrings_of_public_names() -> None:
    module = ast.parse(MODULE)
    public = {"Model"} | hatch_build.classes_named(module, {"Model"})
    inherited = hatch_build.with_bases(public, [module])
    assert inherited - public == {"Ground", "NamedTuple"} and "Answer" in public
    short = hatch_build.shortened(MODULE, public, inherited, is_public=True)
    assert statements(short) == statements(MODULE)
    for text in ("A module.", "Fit it", "A model", "Say it", "users receive", "of a constant", '"# no comment"'):
        assert text in short
    for text in ("a comment", "What models share", "Of several", "Nobody"):
        assert text not in short
    inner = hatch_build.shortened(MODULE, set(), set(), is_public=False)
    assert statements(inner) == statements(MODULE) and '"""' not in inner
    assert hatch_build.is_public(Path("widemargin/goals/__init__.py"), ())
    path = Path("widemargin/solvers/convex/newton.py")
    assert not hatch_build.is_public(path, ()) and hatch_build.is_public(path, ["widemargin.solvers.convex.newton"])


def test_a_wheel_knows_the_public_names_however_they_are_listed() -> None:
    module = ast.parse(inspect.getsource(widemargin))
    assert hatch_build.exported_names(module) >= {*widemargin.__all__}
    assert hatch_build.exported_names(ast.parse("_AT = 3")) == set()


def test_a_module_that_a_wheel_changes_is_named(tmp_path: Path) -> None:
    (tmp_path / "widemargin").mkdir()
    (tmp_path / "widemargin/model.py").write_text(MODULE)
    wheel = tmp_path / "widemargin-1-py3-none-any.whl"
    for text, is_same in (
        (hatch_build.shortened(MODULE, set(), set(), is_public=False), True),
        (MODULE.replace("return 1", "return 2"), False),
    ):
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("widemargin/model.py", text)
        assert (faults_of_code(wheel, tmp_path) == []) is is_same


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_run_targets_and_scripts_that_exist(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [step["run"].split() for step in steps if "run" in step]
    assert commands or path.name == "none.yml"
    for command in commands:
        assert command[1] in targets if command[0] == "make" else (ROOT / command[0]).is_file(), command
    # only the job that a person lets go on may publish
    may = [name for name, job in workflow["jobs"].items() if "id-token" in job.get("permissions", {})]
    assert all(workflow["jobs"][name].get("environment") for name in may)

"""The shape of the code base: who may import whom, how long a file may be, and whether the map of it is true."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "widemargin"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 600

GROUND = {
    "_byte_dots",
    "_files",
    "_numba",
    "_text",
    "_threads",
    "_typing",
    "distributed",
    "exceptions",
    "linalg",
    "rows",
}
LEARNING = GROUND | {"goals", "kernels", "losses", "problems", "solvers", "structured"}
EXPLAINING = GROUND | {"goals", "diagnostics", "plotting", "report"}
EVERYTHING = LEARNING | EXPLAINING | {"baselines", "cli", "datasets", "estimators", "persistence", "preprocessing"}

# What each part of the package may import of it. A part may always import itself.
MAY_IMPORT = {
    "__main__": {"cli"},
    "_files": set(),
    "_numba": set(),
    "_text": set(),
    "_threads": set(),
    "_byte_dots": set(),
    "_typing": set(),
    "rows": {"_typing", "exceptions"},
    "exceptions": set(),
    "linalg": {"exceptions", "_numba", "_threads", "_typing", "rows"},
    "distributed": GROUND - {"linalg"},  # back ends of blocks of rows; knows no solver, so both wings may use it
    "goals": GROUND,
    "kernels": GROUND,
    "losses": GROUND,
    "datasets": GROUND,
    "solvers": GROUND | {"losses"},  # a solver knows a protocol, not a problem; never goals, never an estimator
    "preprocessing": GROUND,
    "structured": GROUND | {"losses", "problems", "solvers"},
    "problems": GROUND | {"goals", "losses"},  # the only place where goals and losses meet
    "estimators": LEARNING,
    "diagnostics": GROUND | {"goals", "losses"},  # works for any classifier, so it knows no estimator
    "plotting": GROUND | {"goals", "diagnostics"},
    "report": EXPLAINING,  # numbers and stored paths; like diagnostics it works for any classifier
    "persistence": EVERYTHING - {"cli"},
    "cli": EVERYTHING,
    "__init__": EVERYTHING,
}

# Optional libraries, and those that are slow to import: only inside functions.
NEVER_AT_MODULE_LEVEL = {
    "pandas",
    "polars",
    "matplotlib",
    "dask",
    "distributed",
    "torch",
    "onnx",
    "skl2onnx",
    "clarabel",
    "cvxpy",
}


def part_of(path):
    """Part of the package that a file belongs to: its top folder, or its own name."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(path, *, module_level_only=False):
    """Full names of what a file imports, types only included."""
    tree = ast.parse(path.read_text())
    inside = {id(node) for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef) for node in ast.walk(outer)}
    for node in ast.walk(tree):
        if module_level_only and id(node) in inside:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import in line {node.lineno}"
            yield node.module
            if node.module == "widemargin":
                yield from (f"widemargin.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_the_right_way(path):
    part = part_of(path)
    assert part in MAY_IMPORT, f"{part} is new: say in MAY_IMPORT what it may import, and in docs/architecture.md why"
    parts = {name.split(".")[1] for name in imported(path) if name.startswith("widemargin.")}
    assert parts - MAY_IMPORT[part] - {part, "__version__"} == set()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_optional_libraries_are_imported_where_they_are_used(path):
    tops = {name.split(".")[0] for name in imported(path, module_level_only=True)}
    assert not tops & NEVER_AT_MODULE_LEVEL


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_loops_reach_numba_through_one_decorator(path):
    if part_of(path) not in ("_byte_dots", "_numba", "_threads"):
        assert "numba" not in {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_short(path):
    assert len(path.read_text().splitlines()) <= LONGEST


def test_the_rules_bite():
    """The parser of imports sees every form of an import."""
    example = ROOT / "tests" / "test_architecture.py"
    assert {"ast", "re", "pathlib", "pytest"} <= set(imported(example))


def test_every_path_in_the_map_exists():
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"`([\w./-]+(?:/|\.py|\.md|\.toml)|Makefile)`", text)
    assert len(named) > 50
    # A path starts at the repository or, where it starts with one of its folders, at the package.
    assert sorted(name for name in named if not (ROOT / name).exists() and not (PACKAGE / name).exists()) == []


def test_every_folder_of_the_package_is_on_the_map():
    text = (ROOT / "docs" / "architecture.md").read_text()
    folders = {path.parent.relative_to(PACKAGE).parts[0] for path in SOURCES if path.parent != PACKAGE}
    assert {folder for folder in folders if f"`{folder}/" not in text} == set()

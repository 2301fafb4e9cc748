"""The shape of the code base: who may import whom, how long a file may be, which words name what; and its map."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "widemargin"
PAPERS = ROOT / "papers" / "src" / "widemargin_papers"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ALL_SOURCES = SOURCES + sorted(PAPERS.rglob("*.py"))
MAP = ROOT / "docs" / "architecture.md"
LONGEST = 600

GROUND = {
    "_byte_dots", "_files", "_numba", "_papers", "_text", "_threads", "_typing", "distributed", "exceptions", "linalg",
    "rows",
}  # fmt: skip
LEARNING = GROUND | {"goals", "kernels", "losses", "problems", "solvers", "structured"}
EXPLAINING = GROUND | {"goals", "diagnostics", "plotting", "report"}
EVERYTHING = LEARNING | EXPLAINING | {"cli", "datasets", "estimators", "persistence", "preprocessing"}

# What each part of the package may import of it. A part may always import itself.
MAY_IMPORT = {
    "__main__": {"cli"},
    "_byte_dots": {"_typing"},
    "_files": set(),
    "_numba": set(),
    "_papers": {"exceptions"},  # the one door to the second distribution
    "_text": {"exceptions"},
    "_threads": {"_typing"},
    "_typing": set(),
    "exceptions": set(),
    "rows": {"_text", "_typing", "exceptions"},
    "extending": EVERYTHING,  # what code outside the library may use; the library itself never imports it
    "linalg": {"exceptions", "rows", "_numba", "_threads", "_typing"},
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
    "torch": EVERYTHING - {"cli"},  # the door to networks and their files; the library itself never imports it
    "__init__": EVERYTHING,
}

# Optional libraries, and those that are slow to import: only inside functions. What `widemargin.torch` is the door to
# is written in PyTorch, and imported by that door alone.
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


def statements(node):
    """A statement and all within it; expressions, most of a file, neither import nor define anything."""
    yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, block, ()):
            yield from statements(inner)


@cache
def nodes_of(path):
    """All statements of a file that import or define something, or hold what does."""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If)
    return [node for node in statements(ast.parse(path.read_text())) if isinstance(node, kinds)]


def runs_later(node):
    """Whether what a node holds is not run when its module is imported: functions, and imports for types alone."""
    types_only = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef) or types_only


def imported(path, *, module_level_only=False):
    """Full names of what a file imports, types only included."""
    nodes = nodes_of(path)
    inside = {id(node) for outer in nodes if module_level_only and runs_later(outer) for node in statements(outer)}
    for node in nodes:
        if module_level_only and id(node) in inside:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import in line {node.lineno}"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_go_the_right_way():
    wrong = []
    for path in SOURCES:
        part = part_of(path)
        assert part in MAY_IMPORT, f"{part} is new: say in MAY_IMPORT what it may import, and in {MAP.name} why"
        parts = {name.split(".")[1] for name in imported(path) if name.startswith("widemargin.")}
        parts &= MAY_IMPORT.keys()  # the others are names that `widemargin` itself defines
        wrong += [f"{path.relative_to(PACKAGE)} -> {other}" for other in parts - MAY_IMPORT[part] - {part, "__init__"}]
    assert wrong == []


def test_no_module_imports_itself_through_others():
    """Imports inside functions and for types count, too: a circle is one idea cut into two files."""
    modules = {
        ".".join(("widemargin", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in SOURCES
    }
    # A package's __init__ hands out names of its modules; a circle through it alone says nothing about the files.
    inner = {name: path for name, path in modules.items() if path.name != "__init__.py"}
    graph = {name: {other for other in imported(path) if other in inner} for name, path in inner.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the modules of a circle


def in_torch(path):
    files = PACKAGE / "torch.py", PACKAGE / "kernels" / "gpu_sums.py"
    return path in files or path.parent == PACKAGE / "estimators" / "networks"


def test_only_the_door_leads_to_networks():
    rooms = "widemargin.estimators.networks.", "widemargin.kernels.gpu_sums"
    doors = [path for path in SOURCES if any(name.startswith(rooms) for name in imported(path))]
    assert [path for path in doors if not in_torch(path)] == []


def test_optional_libraries_are_imported_where_they_are_used():
    tops = {
        str(path.relative_to(PACKAGE)): {name.split(".")[0] for name in imported(path, module_level_only=True)}
        for path in SOURCES
        if not in_torch(path)
    }
    assert {
        place: names & NEVER_AT_MODULE_LEVEL for place, names in tops.items() if names & NEVER_AT_MODULE_LEVEL
    } == {}


def test_loops_reach_numba_through_one_decorator():
    direct = {part_of(path) for path in SOURCES if "numba" in {name.split(".")[0] for name in imported(path)}}
    assert direct <= {"_byte_dots", "_numba", "_threads"}


def test_files_are_short():
    assert [str(path) for path in ALL_SOURCES if len(path.read_text().splitlines()) > LONGEST] == []


def test_the_rules_bite():
    """The parser of imports sees every form of an import."""
    example = ROOT / "tests" / "test_architecture.py"
    assert {"ast", "re", "pathlib", "pytest"} <= set(imported(example))


# Words that the glossary keeps for one idea, and the folders where they may name files or definitions.
KEPT_FOR = {
    "bundle": ("goals", "cli", "report"),  # a set of fairness constraints
    "choice": (),  # says nothing of what is chosen
}


def defined_names(path):
    """Names that a file defines: functions, classes, arguments are left out on purpose."""
    for node in nodes_of(path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


@pytest.mark.parametrize("word", KEPT_FOR)
def test_a_word_names_one_idea(word):
    places = []
    for path in SOURCES:
        if part_of(path) in KEPT_FOR[word]:
            continue
        if word in path.stem.lower().split("_"):
            places.append(f"file {path.relative_to(PACKAGE)}")
        for name in defined_names(path):
            words = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")
            if word in words or f"{word}s" in words:
                places.append(f"{path.relative_to(PACKAGE)}: {name}")
    assert places == []


def test_the_glossary_names_these_words():
    text = MAP.read_text()
    words = (*KEPT_FOR, "bound", "level", "solver", "search", "rows", "cells")
    assert [word for word in words if f"*{word}*" not in text] == []


def test_two_files_differ_in_more_than_a_suffix():
    """`newton.py` beside `newton_rows.py` makes a reader open both; only parts of one family may share a stem."""
    places = []
    for folder in {path.parent for path in SOURCES}:
        stems = sorted(path.stem.strip("_") for path in folder.glob("*.py") if path.stem != "__init__")
        places += [
            f"{folder.relative_to(PACKAGE)}: {first} and {second}"
            for first in stems for second in stems if second.startswith(f"{first}_")
        ]  # fmt: skip
    assert places == []


def test_every_path_in_the_map_exists():
    named = re.findall(r"`([\w./-]+(?:/|\.py|\.md|\.toml)|Makefile)`", MAP.read_text())
    assert len(named) > 50
    # A path starts at the repository or, where it starts with one of its folders, at the package or at the papers.
    roots = (ROOT, PACKAGE, PAPERS)
    assert sorted(name for name in named if not any((root / name).exists() for root in roots)) == []


def test_every_folder_of_the_package_is_on_the_map():
    text = MAP.read_text()
    folders = {path.parent.relative_to(PACKAGE).parts[0] for path in SOURCES if path.parent != PACKAGE}
    assert {folder for folder in folders if f"`{folder}/" not in text} == set()


def test_features_come_in_by_one_door():
    """scikit-learn's checks do not look at the indices of sparse matrices; `checked_rows` does."""
    doors = {ROOT / "src/widemargin/estimators/_binary.py", ROOT / "src/widemargin/preprocessing/bins.py"}  # dense only
    checks = re.compile(r"import .*\b(validate_data|check_array|check_X_y)\b")
    assert {path for path in ALL_SOURCES if checks.search(path.read_text())} == doors

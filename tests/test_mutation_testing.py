"""The tools of `make mutation`: what a mutant is, and that a changed module is the one that is imported."""

import ast
import importlib
import sys
import tomllib

import pytest

from code_mutants import mutants
from mutation_testing import EQUIVALENT, GROUPS, ROOT, SOURCE, Changed, Outcome, share

CODE = '''"""Text 1."""

__all__ = ["f"]


@kernel(cache=True)
def f(a: "x < 1", b: int = 3) -> "int | None":
    """Text 2."""
    if not a < 1 and b:
        raise ValueError("at least " + str(1))
    while True:
        a += -b
        break
    return f"{a + 1}" if a is None else a
'''


def test_every_change_of_a_small_file():
    assert [mutant.name.removeprefix("f: ") for mutant in mutants(CODE)] == [
        "3 -> 4",
        "not a < 1 and b -> not a < 1 or b",
        "not a < 1 -> not not a < 1",
        "a < 1 -> a <= 1",
        "a < 1 -> a >= 1",
        "1 -> 2",
        "True -> False",
        "a += -b -> a -= -b",
        "-b -> +b",
        "break -> continue",
        "f'{a + 1}' if a is None else a -> f'{a + 1}' if not a is None else a",
        "a is None -> a is not None",
    ]


def test_a_mutant_is_one_change_of_the_whole_file():
    original = ast.unparse(ast.parse(CODE))
    for mutant in mutants(CODE):
        changed = ast.unparse(mutant.tree(CODE))
        differ = [i for i, (a, b) in enumerate(zip(original.split("\n"), changed.split("\n"), strict=True)) if a != b]
        assert len(differ) == 1, mutant.name


def test_a_changed_module_is_imported_in_place_of_its_file(monkeypatch):
    name = "widemargin.solvers.convex.level_method"
    tree = ast.parse("answer = 42")
    monkeypatch.setattr(sys, "meta_path", [Changed("solvers/convex/level_method.py", tree), *sys.meta_path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    parent = importlib.import_module("widemargin.solvers.convex")
    monkeypatch.setattr(parent, "level_method", None, raising=False)
    try:
        assert importlib.import_module(name).answer == 42
    finally:
        sys.modules.pop(name, None)


def test_listed_files_tests_and_equivalent_mutants_exist():
    files = {file: tests for group in GROUPS.values() for file, tests in group.items()}
    for file, tests in files.items():
        assert (SOURCE / file).is_file()
        assert all((ROOT / test).exists() for test in tests), file
    for file, listed in tomllib.loads(EQUIVALENT.read_text()).items():
        names = {mutant.name for mutant in mutants((SOURCE / file).read_text())}
        assert listed.keys() <= names, file
        assert all(reason.strip() for reason in listed.values())


@pytest.mark.parametrize(("fates", "expected"), [(["noticed", "survived", "equivalent"], (1, 2)), ([], (0, 0))])
def test_equivalent_mutants_leave_the_count(fates, expected):
    assert share([Outcome("file", 1, "name", fate) for fate in fates]) == expected

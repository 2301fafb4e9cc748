"""widemargin-papers uses public names of the library, and the seams that `docs/extending.md` lists; nothing else."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "papers" / "src").rglob("*.py"))
PUBLIC = {
    "widemargin", "widemargin.datasets", "widemargin.exceptions", "widemargin.extending", "widemargin.goals",
    "widemargin.losses",
}  # fmt: skip


def seams():
    """The modules of the table in docs/extending.md."""
    text = (ROOT / "docs" / "extending.md").read_text()
    table = text.partition("## What other packages may import")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(widemargin\.[\w.]+)`", table, re.MULTILINE))


def module_file(name):
    place = ROOT / "src" / Path(*name.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def imported(text):
    """Modules of the library that a source imports, with the names; `from package import module` is the module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.partition(".")[0] == "widemargin")
        elif isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "widemargin":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = node.module not in PUBLIC and module_file(inner) is not None
                yield (inner, None) if is_module else (node.module, alias.name)


def allowed(module):
    """Whether a module is public or lies in one of the seams."""
    return module in PUBLIC or any(f"{module}.".startswith(f"{seam}.") for seam in seams())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "papers" / "src")))
def test_only_public_names_and_seams_are_imported(path):
    used = list(imported(path.read_text()))
    assert [module for module, _ in used if "._" in module or not allowed(module)] == []
    hidden = [
        f"{module}.{name}" for module, name in used
        if name is not None and name not in vars(importlib.import_module(module)).get("__all__", ())
    ]  # fmt: skip
    assert hidden == []


def test_every_seam_exists_and_is_used():
    used = {module for path in SOURCES for module, _ in imported(path.read_text())}
    assert [seam for seam in sorted(seams()) if module_file(seam) is None] == []
    assert [seam for seam in sorted(seams()) if not any(f"{name}.".startswith(f"{seam}.") for name in used)] == []
    assert len(seams()) <= 16


def test_the_rule_bites():
    text = "from widemargin._numba import kernel\nfrom widemargin.solvers.smooth import lbfgs\nimport widemargin.cli"
    found = {module for module, _ in imported(text)}
    assert found == {"widemargin._numba", "widemargin.solvers.smooth.lbfgs", "widemargin.cli"}
    assert [module for module in sorted(found) if allowed(module)] == ["widemargin.solvers.smooth.lbfgs"]

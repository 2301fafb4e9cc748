"""What the wheel leaves out of its modules: comments, and docstrings of what is not public.

Public is what packages export, and the modules that `docs/extending.md` lists. Who reads code reads the repository or
the source archive, which hold every word. In the wheel a comment is an empty line, so that tracebacks name the lines of
the repository, and `help` of a public name says all that it says there.
"""

import ast
import io
import re
import tempfile
import tokenize
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

Definition: TypeAlias = ast.FunctionDef | ast.ClassDef


class WheelSources(BuildHookInterface):  # type: ignore[misc, type-arg]
    """Hands shorter copies of all modules to the wheel; an editable installation runs the sources themselves."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the copies, and name them as what takes the place of the sources."""
        if version == "editable":
            return
        self.copies = tempfile.TemporaryDirectory()
        source = Path(self.root) / "src"
        texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.glob("widemargin/**/*.py"))}
        modules = {path.relative_to(source): ast.parse(text) for path, text in texts.items()}
        guide = (Path(self.root) / "docs/extending.md").read_text(encoding="utf-8")
        offered = re.findall(r"widemargin(?:\.\w+)+", guide)
        offered += re.findall(r"(?m)^from (widemargin\S+) import \*", "\n".join(texts.values()))
        public = [module for path, module in modules.items() if is_public(path, offered)]
        shown = set().union(*map(exported_names, public), *map(base_classes, modules.values()))
        for number, (path, text) in enumerate(texts.items()):
            copy = Path(self.copies.name) / f"{number}.py"
            copy.write_text(shortened(text, shown), encoding="utf-8")
            build_data["force_include"][str(copy)] = path.relative_to(source).as_posix()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        if version != "editable":
            self.copies.cleanup()


def is_public(path: Path, offered: Collection[str]) -> bool:
    """Whether what a module exports is public: a package, a module beside the packages, or one that is offered."""
    return path.name == "__init__.py" or len(path.parts) == 2 or ".".join(path.with_suffix("").parts) in offered


def exported_names(module: ast.Module) -> set[str]:
    """The names in a module's `__all__`."""
    lists = [
        node.value for node in module.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return {item.value for names in lists for item in ast.walk(names) if isinstance(item, ast.Constant)}


def base_classes(module: ast.Module) -> set[str]:
    """Classes that a class of a module inherits from: `help` of that one shows their methods."""
    bases = [base for node in ast.walk(module) if isinstance(node, ast.ClassDef) for base in node.bases]
    return {item.id for base in bases for item in ast.walk(base) if isinstance(item, ast.Name)}


def shortened(text: str, shown: set[str]) -> str:
    """A module's text without comments and inner docstrings; all else stays on its line."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    for node in inner_definitions(ast.parse(text), shown):
        docstring = node.body[0]
        lines[docstring.lineno - 1 : docstring.end_lineno] = ["\n"] * (docstring.end_lineno - docstring.lineno + 1)
    return "".join(lines)


def inner_definitions(module: ast.Module, shown: set[str]) -> Iterator[ast.Module | Definition]:
    """What has a docstring that `help` of no public name shows: modules that show nothing, functions and classes.

    Decorated classes keep theirs: those are records, whose first lines describe them in the schemas of files.
    """
    kept: set[ast.AST] = {module} if exported_names(module) & shown else set()
    for node in module.body:
        if isinstance(node, Definition) and node.name in shown:
            methods = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            kept |= {node, *(item for item in methods if isinstance(node, ast.ClassDef) and item.name[0] != "_")}
    for node in ast.walk(module):
        if isinstance(node, ast.Module | Definition) and node not in kept and ast.get_docstring(node):
            is_record = isinstance(node, ast.ClassDef) and node.decorator_list
            if len(node.body) > 1 and not is_record:
                yield node

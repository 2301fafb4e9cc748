"""What the wheel leaves out of its modules: comments, and docstrings of what is not public.

Public is what packages export, the classes that its docstrings and signatures name, which users receive or hand over,
and what the modules export that `docs/extending.md` lists. Who reads code reads the repository or the source
archive, which hold every word. In the wheel a comment is an empty line, so that tracebacks name the lines of the
repository, and `help` of a public name says all that it says there.
"""

import ast
import io
import re
import tempfile
import tokenize
import zipfile
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
        exported = set().union(
            *(exported_names(module) for path, module in modules.items() if is_public(path, offered))
        )
        public = exported.union(*(classes_named(module, exported) for module in modules.values()))
        inherited = with_bases(public, modules.values())
        for number, (path, text) in enumerate(texts.items()):
            copy, name = Path(self.copies.name) / f"{number}.py", path.relative_to(source)
            copy.write_text(shortened(text, public, inherited, is_public=is_public(name, offered)), encoding="utf-8")
            build_data["force_include"][str(copy)] = name.as_posix()

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies, and compress the archive as far as zlib does, which hatchling does not."""
        if version == "editable":
            return
        self.copies.cleanup()
        wheel = Path(artifact_path)
        with zipfile.ZipFile(wheel) as archive:
            contents = [(info, archive.read(info)) for info in archive.infolist()]
        with zipfile.ZipFile(wheel, "w") as archive:
            for info, content in contents:
                archive.writestr(info, content, zipfile.ZIP_DEFLATED, 9)


def is_public(path: Path, offered: Collection[str]) -> bool:
    """Whether what a module exports is public: a package, a module beside the packages, or one that is offered."""
    beside_packages = len(path.parts) == 2 and (path.name[0] != "_" or path.name == "__main__.py")
    return path.name == "__init__.py" or beside_packages or ".".join(path.with_suffix("").parts) in offered


def exported_names(module: ast.Module) -> set[str]:
    """The names in a module's `__all__`, those of a table that it is made of among them."""
    assigned = {ast.unparse(node.targets[0]): node.value for node in module.body if isinstance(node, ast.Assign)}
    named = [*ast.walk(assigned["__all__"])] if "__all__" in assigned else []
    tables = [assigned[part.id] for part in named if isinstance(part, ast.Name) and part.id in assigned]
    parts = [*named, *(part for table in tables for part in ast.walk(table))]
    texts = {str(part.value) for part in parts if isinstance(part, ast.Constant)}
    return {text for text in texts if text.isidentifier()}


def classes_named(module: ast.Module, exported: Collection[str]) -> set[str]:
    """Words that may name a class, in docstrings and signatures of what a module exports."""
    nodes = [node for node in module.body if isinstance(node, Definition) and node.name in exported]
    nodes += [method for node in nodes if isinstance(node, ast.ClassDef) for method in public_methods(node)]
    texts = [ast.get_docstring(node) or "" for node in nodes]
    texts += [
        f": {ast.unparse(node.args)} : {ast.unparse(node.returns or ast.Constant(None))}"
        for node in nodes
        if isinstance(node, ast.FunctionDef)
    ]
    return set(re.findall(r"(?:[`:|\[] ?|or )([A-Z]\w+)", " ".join(texts)))


def public_methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods of a class that `help` shows."""
    return [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name[0] != "_"]


def with_bases(public: Collection[str], modules: Collection[ast.Module]) -> set[str]:
    """Public classes and those that they inherit from, whose methods `help` of a public class shows."""
    classes = [node for module in modules for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    found: set[str] = set()
    new = set(public)
    while new:
        found |= new
        parts = [part for node in classes if node.name in new for base in node.bases for part in ast.walk(base)]
        new = {part.id for part in parts if isinstance(part, ast.Name)} - found
    return found


def shortened(text: str, public: Collection[str], inherited: Collection[str], *, is_public: bool) -> str:
    """A module's text without comments and inner docstrings; all else stays on its line."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    for string in inner_strings(ast.parse(text), public, inherited, is_public):
        lines[string.lineno - 1 : string.end_lineno] = ["\n"] * ((string.end_lineno or 0) - string.lineno + 1)
    return "".join(lines)


def inner_strings(
    module: ast.Module, public: Collection[str], inherited: Collection[str], is_public: bool
) -> Iterator[ast.Expr]:
    """Docstrings that `help` of no public name shows, and what is said of inner constants.

    Sections of goals files keep theirs, which describe them in the schema.
    """
    kept: set[ast.AST] = {module} if is_public else set()
    for node in module.body:
        if isinstance(node, Definition) and node.name in public:
            kept.add(node)
        if isinstance(node, ast.ClassDef) and node.name in inherited:
            kept |= set(public_methods(node))
        if isinstance(node, ast.ClassDef) and "_section" in map(ast.unparse, node.decorator_list):
            kept.add(node)
    for inner in ast.walk(module):
        if isinstance(inner, ast.Module | Definition) and inner not in kept and len(inner.body) > 1:
            for item in inner.body:
                if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and item.value.value is not ...:
                    yield item

"""Small errors made on purpose in source code: what a test suite should notice.

A mutant is one change of one place: a comparison, an operator, a constant, an "and", a sign, a loop's end. Texts,
annotations, decorators, messages of errors and names in `__all__` are left alone.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["Mutant", "mutants"]

COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change.

    Attributes
    ----------
    name : str
        Function, the code before and after; without line numbers, so that a list of mutants outlives other edits.
    line : int
    place : tuple
        The way from the file to the changed node, by fields and indices.
    change : callable
        Changes that node.
    """

    name: str
    line: int
    place: "Place"
    change: Callable[[ast.AST], None]

    def tree(self, source: str) -> ast.Module:
        """The whole file, changed."""
        tree = ast.parse(source)
        self.change(_at(tree, self.place))
        return ast.fix_missing_locations(tree)


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines; equal names are numbered."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for place, function in _places(tree, (), ""):
        node = _at(tree, place)
        for change in _changes(node):
            other = copy.deepcopy(node)
            change(other)
            name = f"{function}: {ast.unparse(node)} -> {ast.unparse(other)}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            found.append(Mutant(name, node.lineno, place, change))
    return sorted(found, key=lambda mutant: mutant.line)


Place = tuple[tuple[str, int | None], ...]


def _at(tree: ast.AST, place: Place) -> ast.AST:
    for field, index in place:
        tree = getattr(tree, field) if index is None else getattr(tree, field)[index]
    return tree


def _places(node: ast.AST, place: Place, function: str) -> Iterator[tuple[Place, str]]:
    """Ways to the nodes that may be changed, each with the name of its function."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}" if function else node.name
    if place:
        yield place, function or "module"
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "keywords") and not isinstance(
            node, ast.Call
        ):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not _left_alone(child):
                yield from _places(child, (*place, (field, index)), function)


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "warn":
        return True
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _changes(node: ast.AST) -> Iterator[Callable[[ast.AST], None]]:
    """Every way to change this node in place."""
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                for kind in COMPARISONS[type(op)]:
                    yield lambda n, i=i, kind=kind: n.ops.__setitem__(i, kind())
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield _put("op", OPERATORS[type(op)]())
        case ast.BoolOp(op=ast.And()):
            yield _put("op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield _put("op", ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield lambda n: setattr(n, "operand", ast.UnaryOp(ast.Not(), n.operand))
        case ast.UnaryOp(op=ast.USub()):
            yield _put("op", ast.UAdd())
        case ast.IfExp():
            yield lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test))
        case ast.Constant(value=bool(value)):
            yield _put("value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield _put("value", value + 1)
        case ast.Break():
            yield _put("__class__", ast.Continue)
        case ast.Continue():
            yield _put("__class__", ast.Break)


def _put(field: str, value: object) -> Callable[[ast.AST], None]:
    return lambda node: setattr(node, field, value)

"""From Python syntax trees to the objects of the goal language, by a whitelist: whatever is not named here is refused.

Functions come from tables (`rates.RATES`, `bundles.BUNDLE_FUNCTIONS`), and their arguments are read by the *name* of
the parameter (`on` is a population, `baseline` a string, ...), so that a new rate needs no change here.
"""

import ast
import difflib
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from widemargin.exceptions import GoalError
from widemargin.goals.language import predicates
from widemargin.goals.language.bundles import BUNDLE_FUNCTIONS, Bundle
from widemargin.goals.language.constraints import Constraint, Expression
from widemargin.goals.language.populations import Population
from widemargin.goals.language.rates import RATES, MarginQuantile
from widemargin.goals.language.values import (
    ColumnName,
    Literal,
    checked_column,
    checked_literal,
    checked_number,
    literal_text,
    shown,
)

T = TypeVar("T")

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_SIGNS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "=="),
    ast.NotEq: ("!=", "!="),
    ast.Lt: ("<", ">"),
    ast.LtE: ("<=", ">="),
    ast.Gt: (">", "<"),
    ast.GtE: (">=", "<="),
}
"""Each comparison where the column stands on its left, and where it stands on its right."""
_PREDICATES: dict[str, Callable[..., predicates.Predicate]] = {
    name: getattr(predicates, name)
    for name in ("positive_label", "negative_label", "predicted_positive", "predicted_negative")
}

_READER_OF: dict[str, str] = {
    parameter: reader
    for reader, parameters in {
        "population": "on population",
        "string": "baseline on_small norm",
        "truth": "abstain",
        "number": "beta level q radius ratio difference share",
        "literal": "min_rows reference of actual predicted overall",
        "literals": "values",
        "column": "column",
    }.items()
    for parameter in parameters.split()
}
"""The method of `Converter` that reads an argument, by the name of the parameter."""


def suggestion(name: str, names: Iterable[str]) -> str:
    """` Did you mean 'recall'?`, or nothing."""
    close = difflib.get_close_matches(name[:50], list(names), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _spine(node: ast.expr) -> tuple[ast.expr, list[tuple[ast.operator, ast.expr]]]:
    """First operand of a chain of binary operators, and the rest in order; long sums must not recurse."""
    rest: list[tuple[ast.operator, ast.expr]] = []
    while isinstance(node, ast.BinOp):
        rest.append((node.op, node.right))
        node = node.left
    return node, rest[::-1]


def _form(name: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    """How a function is called: `equal_opportunity(column, *, difference=None, ...)`."""
    return f"{name}{inspect.Signature([item.replace(annotation=item.empty) for item in parameters.values()])}"


def _source(node: ast.AST) -> str:
    try:
        return shown(ast.unparse(node))
    except (RecursionError, ValueError):
        return type(node).__name__


class Converter:
    """Reads expressions, constraints, populations and predicates.

    Parameters
    ----------
    populations : dict of str to Population
        Names that may be used; the parser adds to it.

    Attributes
    ----------
    used : set of str
        Those that something else speaks of.
    """

    def __init__(self, populations: dict[str, Population]) -> None:
        self.populations, self.used = populations, set[str]()

    # -- constraints and expressions --------------------------------------------------------------------------------

    def constraint(self, node: ast.expr) -> Constraint | Bundle:
        """`expression <= expression`, `expression >= expression`, or a bundle."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUNDLE_FUNCTIONS:
            return self._call(node.func.id, BUNDLE_FUNCTIONS[node.func.id], node)
        if isinstance(node, ast.BoolOp):
            raise GoalError("a constraint is one comparison; write each on its own line.")
        if not isinstance(node, ast.Compare):
            value = self.expression(node)
            raise GoalError(f"{value} has no bound; a constraint compares, such as {value} <= 0.1.")
        if len(node.ops) > 1:
            raise GoalError("a constraint cannot be chained. Write two constraints, each on its own line.")
        sign = node.ops[0]
        if isinstance(sign, (ast.Lt, ast.Gt)):
            raise GoalError("strict inequalities are not supported, use <= or >=.")
        if not isinstance(sign, (ast.LtE, ast.GtE)):
            raise GoalError("a constraint uses <= or >=; for an equality write two inequalities.")
        left: Any = self.expression(node.left)
        right: Any = self.expression(node.comparators[0])
        if isinstance(left, float) and isinstance(right, float):
            raise GoalError("there is no rate in this constraint.")
        constraint = left <= right if isinstance(sign, ast.LtE) else left >= right
        assert isinstance(constraint, Constraint)
        return constraint

    def expression(self, node: ast.expr) -> Expression | MarginQuantile | float:
        """Rates, numbers, `+ - * /`."""
        if isinstance(node, ast.BinOp):
            first, rest = _spine(node)
            value = self.expression(first)
            for sign, right in rest:
                apply = _OPERATORS.get(type(sign))
                if apply is None:
                    raise GoalError(f"{_source(node)}: expressions use + - * / only.")
                other = self.expression(right)
                if isinstance(value, MarginQuantile) or isinstance(other, MarginQuantile):
                    raise GoalError("margin_quantile(...) stands alone: write margin_quantile(q) >= level.")
                if apply is operator.truediv and isinstance(other, float) and other == 0.0:
                    raise GoalError(f"{_source(node)}: division by zero.")
                value = apply(value, other)
                if isinstance(value, float):
                    value = checked_number(value, "a constant of an expression")
            return value
        if isinstance(node, ast.Constant):
            return checked_number(node.value, "a constant of an expression")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self.expression(node.operand)
            if isinstance(value, MarginQuantile):
                raise GoalError("margin_quantile(...) stands alone: write margin_quantile(q) >= level.")
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name in RATES:
                return self._call(name, RATES[name], node)
            if name in BUNDLE_FUNCTIONS:
                form = _form(name, inspect.signature(BUNDLE_FUNCTIONS[name]).parameters)
                raise GoalError(f"{name}(...) is a whole constraint, with its bound inside the brackets: {form}.")
            if name in ("population", "external"):
                raise GoalError(
                    f"{_source(node)} is a population, not a rate. Write positive_rate({_source(node)[1:-1]})."
                )
            two = " Write two constraints: a - b <= t and b - a <= t." if name == "abs" else ""
            raise GoalError(f"unknown function {shown(name)}.{two or suggestion(name, [*RATES, *BUNDLE_FUNCTIONS])}")
        if isinstance(node, ast.Name):
            if node.id in self.populations:
                raise GoalError(f"{node.id} is a population, not a rate. Write for example positive_rate({node.id}).")
            if node.id in RATES:
                raise GoalError(f"a rate is written with brackets: {node.id}().")
            raise GoalError(f"unknown name {shown(node.id)} in an expression.{suggestion(node.id, RATES)}")
        raise GoalError(f"{_source(node)} is no rate and no number.")

    def _call(self, name: str, function: Callable[..., T], node: ast.Call) -> T:
        """Call a function of the tables with arguments read by the names of its parameters."""
        parameters = inspect.signature(function).parameters
        positional = [p.name for p in parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        if len(node.args) > len(positional):
            raise GoalError(f"{name} takes at most {len(positional)} arguments without a name, got {len(node.args)}.")
        given: dict[str, ast.expr] = dict(zip(positional, node.args, strict=False))
        for argument in node.keywords:
            if argument.arg is None or argument.arg not in parameters:
                close = suggestion(argument.arg or "", parameters) or f" It is {_form(name, parameters)}."
                raise GoalError(f"{name} has no argument {shown(argument.arg)}.{close}")
            if argument.arg in given:
                raise GoalError(f"{name} got the argument {argument.arg} twice.")
            given[argument.arg] = argument.value
        for parameter in parameters.values():
            if parameter.default is parameter.empty and parameter.name not in given:
                raise GoalError(f"{name} needs the argument {parameter.name}: {_form(name, parameters)}.")
        return function(**{name: getattr(self, _READER_OF[name])(value) for name, value in given.items()})

    # -- populations ------------------------------------------------------------------------------------------------

    def population(self, node: ast.expr, source: str | None = None) -> Population:
        """A name, a quoted name, `population(...)`, `external("name", ...)`, or the `&` of these.

        `source` is the name of the data set where `external()` stands first and has none: the left-hand side of `=`.
        """
        if isinstance(node, ast.BinOp):
            first, rest = _spine(node)
            value = self.population(first, source)
            for sign, right in rest:
                if not isinstance(sign, ast.BitAnd):
                    raise GoalError(f"{_source(node)}: populations are combined by & only.")
                value = value & self.population(right)
            return value
        if isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            name = node.id if isinstance(node, ast.Name) else str(node.value)
            if name not in self.populations:
                raise GoalError(
                    f"unknown population {shown(name)}.{suggestion(name, self.populations)}"
                    f" Define it: {name if name.isidentifier() else 'name'} = population(...)."
                )
            self.used.add(name)
            return self.populations[name]
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            raise GoalError(f'{_source(node)} is no population. Write a name, or population(sex == "Female").')
        kind, arguments = node.func.id, list(node.args)
        if kind not in ("population", "external"):
            raise GoalError(f"{kind}(...) is no population; use population(...) or external(...).")
        for argument in node.keywords:
            if argument.arg == "where":
                raise GoalError(f"{kind} takes no named arguments; write the condition alone, without where=.")
            text = literal_text(argument.value.value) if isinstance(argument.value, ast.Constant) else "..."
            raise GoalError(f"{kind} takes a condition, no {argument.arg}=; use ==: {argument.arg} == {text}.")
        if kind == "population":
            source = None
        elif arguments and isinstance(arguments[0], ast.Constant):
            source = self.string(arguments.pop(0))
        elif source is None:
            raise GoalError('external needs the name of its data set here: external("traffic").')
        if len(arguments) > 1:
            raise GoalError(f"{kind} takes one condition; join several with and.")
        return Population(None, source, self.predicate(arguments[0]) if arguments else None)

    # -- predicates -------------------------------------------------------------------------------------------------

    def predicate(self, node: ast.expr) -> predicates.Predicate:
        """A condition on a row."""
        if isinstance(node, ast.BoolOp):
            parts = tuple(map(self.predicate, node.values))
            return (predicates.And if isinstance(node.op, ast.And) else predicates.Or)(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
            return predicates.Not(self.predicate(node.operand))
        if isinstance(node, ast.BinOp):
            first, rest = _spine(node)
            value = self.predicate(first)
            for sign, right in rest:
                if not isinstance(sign, (ast.BitAnd, ast.BitOr)):
                    raise GoalError(f"{_source(node)}: conditions are joined by and, or, &, | only.")
                value = (predicates.And if isinstance(sign, ast.BitAnd) else predicates.Or)(
                    (value, self.predicate(right))
                )
            return value
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            parts = tuple(map(self._comparison, operands, node.ops, operands[1:]))
            return parts[0] if len(parts) == 1 else predicates.And(parts)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method != "is_null" or node.args or node.keywords:
                raise GoalError(f"{_source(node)}: the only method is .is_null().{suggestion(method, ['is_null'])}")
            return predicates.IsNull(self.column(node.func.value))
        if self._is_column(node):
            return predicates.IsTrue(self.column(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name in _PREDICATES:
                return self._call(name, _PREDICATES[name], node)
            raise GoalError(f"unknown predicate {shown(name)}.{suggestion(name, [*_PREDICATES, 'col'])}")
        raise GoalError(f'{_source(node)} is no condition. Write for example age >= 30, or sex == "Female".')

    def _comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> predicates.Predicate:
        if isinstance(sign, (ast.In, ast.NotIn)):
            member = predicates.IsIn(self.column(left), self.literals(right))
            return member if isinstance(sign, ast.In) else predicates.Not(member)
        if type(sign) not in _SIGNS:
            raise GoalError("conditions compare by == != < <= > >= in.")
        if isinstance(left, ast.BinOp) or isinstance(right, ast.BinOp):
            raise GoalError("& and | bind tighter than comparisons: put each comparison in brackets, or use and, or.")
        column_left, column_right = _SIGNS[type(sign)]
        if not self._is_column(right):
            return predicates.Compare(self.column(left), column_left, self.literal(right))
        if not self._is_column(left):
            value = self.literal(left)
            return predicates.Compare(self.column(right), column_right, value)
        name = right.id if isinstance(right, ast.Name) else _source(right)
        raise GoalError(f'a column is compared with a value, not with a column. Quote a text: "{name}".')

    @staticmethod
    def _is_column(node: ast.expr) -> bool:
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "col"
        return called or isinstance(node, ast.Name)

    # -- values -----------------------------------------------------------------------------------------------------

    def column(self, node: ast.expr) -> ColumnName:
        """`age`, `col("any name")`, `col(0)`; a quoted name where only a column can stand."""
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Constant):
            return checked_column(node.value)
        if isinstance(node, ast.Call) and self._is_column(node):
            if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Constant):
                raise GoalError('col takes one name or position: col("any name"), col(0).')
            return checked_column(node.args[0].value)
        raise GoalError(f'{_source(node)} is no column. Write its name, or col("any name").')

    def literal(self, node: ast.expr) -> Literal:
        """A string, a number, True or False."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self.literal(node.operand)
            if isinstance(value, (bool, str)):
                raise GoalError(f"{_source(node)} is no number.")
            return checked_literal(-value if isinstance(node.op, ast.USub) else value)
        if isinstance(node, ast.Constant):
            return checked_literal(node.value)
        raise GoalError(f"{_source(node)} is no value; use a quoted text, a number, True or False.")

    def literals(self, node: ast.expr) -> tuple[Literal, ...]:
        """Values in square brackets."""
        if not isinstance(node, (ast.List, ast.Tuple)):
            raise GoalError(f"{_source(node)} is no list of values; write [1, 2].")
        return tuple(map(self.literal, node.elts))

    def number(self, node: ast.expr) -> float:
        """A number, with signs and arithmetic of numbers allowed."""
        value = self.expression(node)
        if not isinstance(value, float):
            raise GoalError(f"{_source(node)} is no number.")
        return value

    def truth(self, node: ast.expr) -> bool:
        """True or False."""
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        raise GoalError(f"{_source(node)} must be True or False.")

    def string(self, node: ast.expr) -> str:
        """A quoted text."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        if isinstance(node, ast.Name):
            raise GoalError(f'{node.id} must be quoted here: "{node.id}".')
        raise GoalError(f"{_source(node)} must be a quoted text.")

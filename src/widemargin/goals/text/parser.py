"""Reads the text of a goal: statements, one a line.

>>> from widemargin.goals import Goal
>>> print(Goal.parse('''
... women = population(sex == "Female")    # a comment
... subject to fair: positive_rate(women) >= 0.8 * positive_rate()
... '''))
women = population(sex == "Female")
minimize error_rate()
subject to fair: positive_rate(women) >= 0.8 * positive_rate()

The text is scanned token by token (`scanner`), each statement goes through `ast.parse`, and the tree is read by a
whitelist (`convert`). Nothing is evaluated, and no text raises anything but `GoalParseError`.
"""

import ast
import keyword
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from widemargin.exceptions import GoalError, GoalParseError
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.checks import LIMITS, checked_min_rows, checked_name, checked_on_small, shown
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.expressions import Expression
from widemargin.goals.language.populations import Population
from widemargin.goals.text.conversion import Converter, suggestion, too_deep
from widemargin.goals.text.printing import normal_name
from widemargin.goals.text.scanner import Statement, statements

__all__ = ["parse_goal"]

G = TypeVar("G")

_MINIMIZE = ("minimize", "minimise")
_FORMS = 'name = population(...), name = external(), minimize ..., subject to ..., min_rows = 30, on_small = "drop"'


def parse_goal(
    text: str,
    populations: Mapping[str, Population] | None = None,
    *,
    build: Callable[..., G],
    max_characters: int = LIMITS.characters,
) -> G:
    """Read a goal; the public door is `Goal.parse`, which describes the parameters.

    Parameters
    ----------
    build : callable
        `Goal`, which is called as `build(minimize, subject_to, min_rows=, on_small=)`.

    Raises
    ------
    GoalParseError
        If the text is no goal. It names the line and shows the statement.
    GoalError
        If `populations` is not a mapping of names to populations.
    """
    known = _outside_names(populations)
    try:
        return _Reader(known, build).read(statements(text, max_characters))
    except GoalParseError:
        raise
    except (GoalError, ValueError, SyntaxError, MemoryError, RecursionError, OverflowError) as error:
        raise GoalParseError(f"the text is no goal: {_reason(error)}") from None


def _outside_names(populations: Mapping[str, Population] | None) -> dict[str, Population]:
    by_name: dict[str, Population] = {}
    if populations is not None and not isinstance(populations, Mapping):
        raise GoalError(f"populations must map names to populations, got {shown(populations)}.")
    for key, population in (populations or {}).items():
        name = checked_name(key, "a population's name")
        if not isinstance(population, Population):
            raise GoalError(f"populations[{shown(name)}] must be a Population, got {shown(population)}.")
        by_name[name] = population.named(name) if population.name is None else population
    return by_name


def _reason(error: BaseException) -> str:
    if isinstance(error, (MemoryError, RecursionError)):
        return "it is nested too deep."
    if isinstance(error, SyntaxError):
        return f"Python's parser says: {error.msg}."
    return str(error)


class _Reader(Generic[G]):
    """Collects what the statements say: populations first, so that they may be used above their definition."""

    def __init__(self, known: dict[str, Population], build: Callable[..., G]) -> None:
        self.build = build
        self.outside = frozenset(known)
        self.convert = Converter(known)
        self.objective: Expression | None = None
        self.objective_line = 0
        self.constraints: list[Constraint | Bundle] = []
        self.settings: dict[str, object] = {}

    def read(self, found: list[Statement]) -> G:
        for statement in sorted(found, key=lambda statement: not _is_definition(statement)):
            self._guarded(statement)
        min_rows, on_small = self.settings.get("min_rows"), self.settings.get("on_small", "error")
        return self.build(self.objective, self.constraints, min_rows=min_rows, on_small=on_small)

    def _guarded(self, statement: Statement) -> None:
        """Read one statement; every error gets its line."""
        try:
            self._statement(statement)
        except GoalParseError:
            raise
        except (GoalError, ValueError, SyntaxError, MemoryError, RecursionError, OverflowError) as error:
            raise statement.error(_reason(error)) from None

    def _statement(self, statement: Statement) -> None:
        tokens = statement.tokens
        words = [token.text if token.kind == "name" else "" for token in tokens[:2]]
        if len(tokens) > 1 and tokens[1].text == "=" and tokens[0].kind in ("name", "string"):
            self._assignment(statement)
        elif words[0] in _MINIMIZE:
            self._minimize(statement)
        elif words == ["subject", "to"]:
            self._subject_to(statement)
        else:
            raise GoalError(_unknown_statement(words[0]))

    def _minimize(self, statement: Statement) -> None:
        if self.objective_line:
            raise GoalError(f"a second objective; line {self.objective_line} has one. Add them up in one statement.")
        node = _only_argument(_body(statement, 1), "minimize takes one expression.")
        value = self.convert.expression(node)
        if not isinstance(value, Expression):
            raise GoalError(f"the objective {value} is constant, there is nothing to minimise.")
        self.build(value)  # refuses ratios here, where the line is known
        self.objective, self.objective_line = value, statement.line

    def _subject_to(self, statement: Statement) -> None:
        tokens, start, label = statement.tokens, 2, None
        if len(tokens) > 3 and tokens[3].text == ":" and tokens[2].kind in ("name", "string"):
            label, start = _plain(tokens[2].kind, tokens[2].text), 4
        _refuse_equality(statement, start)
        call = _body(statement, start)
        if len(call.args) != 1:
            raise GoalError("subject to takes one constraint.")
        constraint = self.convert.constraint(call.args[0])
        for option in call.keywords:
            value = self.convert.literal(option.value)
            if option.arg == "min_rows":
                constraint = constraint.with_options(min_rows=value)  # type: ignore[arg-type]  # it is checked there
            elif option.arg == "on_small":
                constraint = constraint.with_options(on_small=value)  # type: ignore[arg-type]
            else:
                known = suggestion(option.arg or "", ["min_rows", "on_small"])
                raise GoalError(f"unknown option {shown(option.arg)}; a constraint has min_rows and on_small.{known}")
        self.constraints.append(constraint if label is None else constraint.named(label))

    def _assignment(self, statement: Statement) -> None:
        token = statement.tokens[0]
        node = _only_argument(_body(statement, 2), "one value is expected after =.")
        if token.kind == "name" and token.text in ("min_rows", "on_small"):
            self._setting(token.text, self.convert.literal(node))
            return
        name = checked_name(_plain(token.kind, token.text), "a population's name")
        population = self.convert.definition(name, node)
        if self.convert.populations.get(name, population) != population or (
            name in self.convert.populations and name not in self.outside
        ):
            raise GoalError(f"the population {shown(name)} is defined twice.")
        self.convert.populations[name] = population

    def _setting(self, name: str, value: object) -> None:
        if name in self.settings:
            raise GoalError(f"{name} is set twice.")
        self.settings[name] = value
        if name == "on_small":
            checked_on_small(value)
        else:
            checked_min_rows(value)


def _is_definition(statement: Statement) -> bool:
    tokens = statement.tokens
    assigned = len(tokens) > 1 and tokens[1].text == "=" and tokens[0].kind in ("name", "string")
    return assigned and not (tokens[0].kind == "name" and tokens[0].text in ("min_rows", "on_small"))


def _body(statement: Statement, skip: int) -> ast.Call:
    """The rest of a statement as the arguments of a call, so that options may follow after a comma."""
    # the scanner has checked that brackets match, so the text cannot break out of this call
    rest = statement.after(skip)
    try:
        tree = ast.parse(f"_({rest}\n)", mode="eval").body
    except SyntaxError as error:
        raise statement.error(_reason(error), _place(error, rest, len(statement.text))) from None
    if not isinstance(tree, ast.Call):
        raise GoalError("no expression could be read.")
    if too_deep(tree, LIMITS.depth):
        raise GoalError(f"nested more than {LIMITS.depth} deep.")
    return tree


def _place(error: SyntaxError, rest: str, length: int) -> int:
    """Where in a statement of that length Python's parser stumbled, of which it saw `_(` and the rest."""
    lines, number = rest.split("\n"), (error.lineno or 1) - 1
    above = sum(len(line) + 1 for line in lines[:number])
    at = length - len(rest) + above + (error.offset or 1) - (3 if number == 0 else 1)
    return min(max(at, 0), max(length - 1, 0))


def _refuse_equality(statement: Statement, start: int) -> None:
    """Refuse `recall() = 0.5` before Python's parser, which would recommend ==."""
    depth = 0
    for token in statement.tokens[start:]:
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth == 0 and token.kind == "operator" and token.text in (",", "<=", ">=", "<", ">"):
            return
        if depth == 0 and token.kind == "operator" and token.text in ("=", "=="):
            raise GoalError(f"a constraint has no {token.text}; use >= or <= (for an equality write two inequalities).")


def _only_argument(call: ast.Call, message: str) -> ast.expr:
    if len(call.args) != 1 or call.keywords:
        raise GoalError(message)
    return call.args[0]


def _plain(kind: str, text: str) -> str:
    """A name as it is, a quoted one without its quotes and escapes."""
    if kind != "string":
        if keyword.iskeyword(text) or not text.isidentifier():
            raise GoalError(f"the name {shown(text)} must be quoted.")
        return normal_name(text)
    node = ast.parse(text, mode="eval").body
    return str(node.value) if isinstance(node, ast.Constant) else text


def _unknown_statement(word: str) -> str:
    if word in ("maximize", "maximise"):
        return "maximize is not known; minimize the complement, such as minimize 1 - recall()."
    if word and (word in ("subject", "subjectto", "s")):
        return "write subject to, as two words."
    close = suggestion(word, [*_MINIMIZE, "subject", "min_rows", "on_small"]) if word else ""
    return f"this is no statement.{close} Statements are: {_FORMS}."

"""Reads the text of a goal: statements, one a line.

>>> from widemargin.goals import Goal
>>> print(Goal.parse('''
... women = population(sex == "Female")    # a comment
... subject to fair: positive_rate(women) >= 0.8 * positive_rate()
... '''))
women = population(sex == "Female")
minimize error_rate()
subject to fair: positive_rate(women) >= 0.8 * positive_rate()

The text is split into statements of known tokens before Python's own parser sees any of it: only the tokens of the goal
language pass (names, plain numbers, plain strings, a few operators), brackets must match, and nothing may nest more
than `LIMITS.depth` deep, counting brackets and runs of prefix operators. What passes can therefore not make `ast.parse`
slow, deep, or noisy. Each statement then goes through `ast.parse`, and the tree is read by a whitelist (`conversion`).
Nothing is evaluated, and no text raises anything but `GoalParseError`.
"""

import ast
import keyword
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from widemargin.exceptions import GoalError, GoalParseError
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint, Expression
from widemargin.goals.language.populations import Population
from widemargin.goals.language.values import LIMITS, checked_min_rows, checked_name, checked_on_small, shown
from widemargin.goals.text.conversion import Converter, suggestion

G = TypeVar("G")

_ESCAPE = r"\\(?:[\\'\"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_FOREIGN_WORDS = set(keyword.kwlist) - {"and", "or", "not", "in", "True", "False", "None"}
_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\f]+)
    | (?P<newline>\n)
    | (?P<comment>\#[^\n]*)
    | (?P<string>"(?:[^"\\\n]|{_ESCAPE})*"|'(?:[^'\\\n]|{_ESCAPE})*')
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    | (?P<foreign_word>(?:{"|".join(sorted(_FOREIGN_WORDS))})(?!\w))
    | (?P<name>[^\W\d]\w*)
    | (?P<foreign>\*\*|//|(?:<<|>>|<>|:=)(?!=))
    | (?P<operator><=|>=|==|!=|[-+*/<>=&|~().,:;\[\]])
    | (?P<unclosed>["'])
    | (?P<digit>[0-9])
    | (?P<percent>%)
    | (?P<unknown>.)
    """,
    re.VERBOSE,
)
_NO_TOKENS = {
    "foreign_word": "{0!r} is not part of the goal language.",
    "foreign": "{0} is not part of the goal language.",
    "unclosed": 'this string is never closed on its line, or has an escape other than \\\\ \\" \\n \\t \\xhh \\uhhhh.',
    "digit": "this is no plain decimal number.",
    "percent": "unexpected character '%'. Write shares as numbers: 0.6 for 60%.",
    "unknown": "unexpected character {0!a}.",
}
_MINIMIZE = ("minimize", "minimise")
_MAXIMIZE = ("maximize", "maximise")
_HEADINGS = (["subject", "to"], ["subject", "to", ":"])  # the constraint stands on the next line
_SETTINGS: dict[str, Callable[[object], object]] = {"min_rows": checked_min_rows, "on_small": checked_on_small}


class Token(NamedTuple):
    """A piece of the text: kind (string, number, name, operator), its characters, where it starts and where it ends."""

    kind: str
    text: str
    start: int
    stop: int


@dataclass(frozen=True)
class Statement:
    """One statement: its tokens, its source from the first to the last of them, and its line and column (from 1)."""

    tokens: tuple[Token, ...]
    text: str
    line: int
    column: int = 1

    @property
    def is_assignment(self) -> bool:
        """Whether it is `name = ...`."""
        return self.tokens[0].kind in ("name", "string") and len(self.tokens) > 1 and self.tokens[1].text == "="

    def after(self, count: int) -> str:
        """Source after the first `count` tokens."""
        return self.text[self.tokens[count - 1].stop - self.tokens[0].start :] if count else self.text

    def error(self, message: str, at: int | None = None) -> GoalParseError:
        """The documented error, with line and statement; `at` is the place of the cause in `text`, if it is known.

        Otherwise the cause is the first token that the message puts between quotes.
        """
        if at is None:
            at = 0
            for token in reversed(self.tokens):
                name = token.text[1:-1] if token.kind == "string" else token.text
                if token.kind in ("name", "string") and (f"'{name}'" in message or f'"{name}"' in message):
                    at = token.start - self.tokens[0].start
        above = self.text.count("\n", 0, at)
        column = at - self.text.rfind("\n", 0, at) if above else self.column + at
        message_with_line = f"line {self.line}: {excerpt(self.text)}: {message}"
        return GoalParseError(message_with_line, line=self.line + above, column=column, reason=message)


def excerpt(text: str) -> str:
    """A text on one line, shortened and safe to print."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 120 else flat[:117] + "...")


def statements(text: str, max_characters: int = LIMITS.characters) -> list[Statement]:
    """The statements of a text.

    Raises
    ------
    GoalParseError
        If the text is too long, nests too deep, or holds anything that is not part of the language.
    """
    if not isinstance(text, str):
        raise GoalParseError(f"a goal is parsed from a text (str), got {type(text).__name__}.")
    if len(text) > max_characters:
        raise GoalParseError(f"the text has {len(text)} characters, at most {max_characters} are read.")
    text = text.replace("\r\n", "\n").replace("\r", "\n") + "\n"
    complete: list[Statement] = []
    tokens: list[Token] = []  # of the statement that is being read
    opened: list[Token] = []  # brackets that are not closed yet
    depths = [0]  # brackets and prefix operators around what stands in each of them, and outside
    depth = 0
    for token in _tokens(text):
        if token.kind == "newline" or token.text == ";":
            if opened and token.text == ";":
                raise _refusal(text, opened[-1].start, f"';' inside brackets; {opened[-1].text!r} is not closed.")
            if tokens and not opened and [item.text for item in tokens] not in _HEADINGS:
                complete.append(_statement(text, tokens))
                tokens, depth = [], 0
            continue
        before = tokens[-1] if tokens else Token("operator", "", token.start, token.start)
        if token.text == "to" and before.text == "subject" and len(tokens) > 1 and not opened:
            complete.append(_statement(text, tokens[:-1]))  # `minimize error_rate() subject to ...` on one line
            tokens, depth = [before], 0
        prefixed = before.kind == "name" and before.stop == token.start
        if token.kind == "string" and (prefixed or before.kind == "string"):
            raise _refusal(text, token.start, "prefixed and joined strings are not part of the goal language.")
        if token.text in ("(", "["):
            depth += 1
            opened.append(token)
            depths.append(depth)
        elif token.text in (")", "]"):
            if not opened or opened[-1].text + token.text not in ("()", "[]"):
                fault = f"{token.text!r} closes nothing."
                if opened:
                    line = text.count("\n", 0, opened[-1].start) + 1
                    fault += f" The bracket {opened[-1].text!r} of line {line} is open."
                raise _refusal(text, token.start, fault)
            opened.pop()
            depths.pop()
            depth = depths[-1]
        elif token.text in ("-", "+", "~", "not") and (
            before.text in ("and", "or", "not", "in") or (before.kind == "operator" and before.text not in (")", "]"))
        ):
            depth += 1  # a prefix, because an operand is expected here
        elif token.kind == "operator" or token.text in ("and", "or", "in"):
            depth = depths[-1]  # a binary operator ends the run of prefix operators
        if depth > LIMITS.depth:
            raise _refusal(text, token.start, f"nested more than {LIMITS.depth} deep.")
        tokens.append(token)
    if opened:
        raise _refusal(text, opened[-1].start, f"the bracket {opened[-1].text!r} is never closed.")
    if tokens:  # a heading above nothing
        complete.append(_statement(text, tokens))
    return complete


def _statement(text: str, tokens: list[Token]) -> Statement:
    first = tokens[0].start
    line, column = text.count("\n", 0, first) + 1, first - text.rfind("\n", 0, first)
    return Statement(tuple(tokens), text[first : tokens[-1].stop], line, column)


def _tokens(text: str) -> Iterator[Token]:
    """The tokens of a text but spaces and comments; a token that is not part of the language is refused."""
    for match in _TOKEN.finditer(text):  # every character is some token, so none is passed over
        token = Token(match.lastgroup or "", match.group(), *match.span())
        if token.kind in _NO_TOKENS:
            raise _refusal(text, token.start, _NO_TOKENS[token.kind].format(token.text))
        if token.kind in ("comment", "string") and not token.text.replace("\t", " ").isprintable():
            message = "there is a character that cannot be seen; in a string write \\xhh or \\uhhhh."
            raise _refusal(text, token.start, message)
        if token.kind == "number" and len(token.text) > LIMITS.digits:
            message = f"a number of {len(token.text)} characters (at most {LIMITS.digits})."
            raise _refusal(text, token.start, message)
        if token.kind not in ("space", "comment"):
            yield token


def _refusal(text: str, position: int, message: str) -> GoalParseError:
    """The documented error, with the line of a text that a position lies in."""
    start, stop = text.rfind("\n", 0, position) + 1, text.find("\n", position)
    line = text.count("\n", 0, position) + 1
    message_with_line = f"line {line}: {excerpt(text[start:stop])}: {message}"
    return GoalParseError(message_with_line, line=line, column=position - start + 1, reason=message)


def too_deep(tree: ast.expr, limit: int) -> bool:
    """Whether a tree nests deeper than `limit`; a chain `a + b + c ...` counts as one level."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > limit:
            return True
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.expr, ast.keyword)):
                chain = isinstance(node, ast.BinOp) and child is node.left and isinstance(child, ast.BinOp)
                waiting.append((child, depth if chain else depth + 1))
    return False


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
        `Goal`, which is called as `build(minimize, subject_to, min_rows=, on_small=, watched=)`.

    Raises
    ------
    GoalParseError
        If the text is no goal. It names the line and shows the statement.
    GoalError
        If `populations` is not a mapping of names to populations.
    """
    if populations is not None and not isinstance(populations, Mapping):
        raise GoalError(f"populations must map names to populations, got {shown(populations)}.")
    by_name: dict[str, Population] = {}
    for key, population in (populations or {}).items():
        name = checked_name(key, "a population's name")
        if not isinstance(population, Population):
            raise GoalError(f"populations[{shown(name)}] must be a Population, got {shown(population)}.")
        by_name[name] = population.named(name) if population.name is None else population
    statement = None
    try:
        reader = _Reader(build, by_name)
        # Populations come first, so that they may be used above their definition.
        for statement in sorted(statements(text, max_characters), key=lambda item: not item.is_assignment):
            reader.read(statement)
        statement = None
        # Those that are named for others to be made of are no groups of their own.
        left = reader.convert.populations.keys() - reader.outside - reader.convert.used
        watched = [item for name, item in reader.convert.populations.items() if name in left and item.is_of_columns]
        return build(reader.objective, reader.constraints, **reader.settings, watched=watched)
    except GoalParseError:
        raise
    except (GoalError, ValueError, SyntaxError, RecursionError, OverflowError) as error:
        reason = "it is nested too deep." if isinstance(error, RecursionError) else str(error)
        fault = GoalParseError(f"the text is no goal: {reason}") if statement is None else statement.error(reason)
        raise fault from None


class _Reader:
    """Collects what the statements say."""

    def __init__(self, build: Callable[..., object], populations: dict[str, Population]) -> None:
        self.build = build
        self.outside = frozenset(populations)
        self.convert = Converter(populations)
        self.objective: Expression | None = None
        self.objective_line = 0
        self.constraints: list[Constraint | Bundle] = []
        self.settings: dict[str, object] = {}

    def read(self, statement: Statement) -> None:
        """Take in one statement."""
        tokens = statement.tokens
        word = tokens[0].text if tokens[0].kind == "name" else ""
        if statement.is_assignment:
            node = _body(statement, 2, "one value is expected after =.").args[0]
            if (setting := tokens[0].text) in _SETTINGS:
                setting_value = self.convert.literal(node)
                if setting in self.settings:
                    raise GoalError(f"{setting} is set twice.")
                self.settings[setting] = _SETTINGS[setting](setting_value)
                return
            name = checked_name(_plain(tokens[0]), "a population's name")
            population = self.convert.population(node, name).named(name)
            before = self.convert.populations.get(name, population)
            if before != population or (name in self.convert.populations and name not in self.outside):
                raise GoalError(f"the population {shown(name)} is defined twice.")
            self.convert.populations[name] = population
        elif word in _MINIMIZE + _MAXIMIZE:
            if self.objective_line:
                line = self.objective_line
                raise GoalError(f"a second objective; line {line} has one. Add them up in one statement.")
            value = self.convert.expression(_body(statement, 1, f"{word} takes one expression.").args[0])
            if not isinstance(value, Expression):
                raise GoalError(f"the objective {value} is constant, there is nothing to {word}.")
            self.build(value)  # refuses ratios here, where the line is known
            # The largest recall is the smallest distance from what a recall can be at most, `1 - recall()`.
            self.objective = value.range[1] - value if word in _MAXIMIZE else value
            self.objective_line = statement.line
        elif word == "subject" and len(tokens) > 1 and tokens[1].text == "to":
            self._constrain(statement, 3 if tokens[2:] and tokens[2].text == ":" else 2)
        elif word in ("subject", "subjectto", "s"):
            raise GoalError("write subject to, as two words.")
        elif len(tokens) > 1 and tokens[1].kind == "operator":  # one more constraint below `subject to`
            self._constrain(statement, 0)
        else:
            close = suggestion(word, [*_MINIMIZE, *_MAXIMIZE, "subject", "min_rows", "on_small"]) if word else ""
            raise GoalError(
                f"this is no statement.{close} Statements are: name = population(...), name = external(), "
                'minimize ..., maximize ..., subject to ..., min_rows = 30, on_small = "drop".'
            )

    def _constrain(self, statement: Statement, start: int) -> None:
        tokens, label = statement.tokens, None
        if len(tokens) > start + 1 and tokens[start + 1].text == ":" and tokens[start].kind in ("name", "string"):
            label, start = _plain(tokens[start]), start + 2
        depth = 0
        for token in tokens[start:]:  # `recall() = 0.5` is refused before Python's parser, which would recommend ==
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
            if depth == 0 and token.text in (",", "<=", ">=", "<", ">"):
                break
            if depth == 0 and token.text in ("=", "=="):
                sign = token.text
                raise GoalError(f"a constraint has no {sign}; use >= or <= (for an equality write two inequalities).")
        call = _body(statement, start, "subject to takes one constraint; write each on its own line.", options=True)
        constraint = self.convert.constraint(call.args[0])
        for option in call.keywords:
            name, value = option.arg or "", self.convert.literal(option.value)
            if name not in _SETTINGS:
                close = suggestion(name, _SETTINGS)
                raise GoalError(f"unknown option {shown(option.arg)}; a constraint has min_rows and on_small.{close}")
            setting: dict[str, Any] = {name: value}
            constraint = constraint.with_options(**setting)
        self.constraints.append(constraint if label is None else constraint.named(label))


def _body(statement: Statement, skip: int, message: str, *, options: bool = False) -> ast.Call:
    """The rest of a statement as the one argument of a call, so that options may follow after a comma."""
    # the scan has checked that brackets match, so the text cannot break out of this call
    rest = statement.after(skip)
    try:
        call = ast.parse(f"_({rest}\n)", mode="eval").body
    except MemoryError:  # so the parser of Python 3.11 says that its stack is full
        raise GoalError("it is nested too deep.") from None
    except SyntaxError as error:
        # where Python's parser stumbled, which saw `_(` and the rest
        lines, number = rest.split("\n"), (error.lineno or 1) - 1
        at = sum(len(line) + 1 for line in lines[:number]) + (error.offset or 1) - (3 if number == 0 else 1)
        at = max(at + len(statement.text) - len(rest), 0)
        raise statement.error(f"Python's parser says: {error.msg}.", min(at, max(len(statement.text) - 1, 0))) from None
    if not isinstance(call, ast.Call):
        raise GoalError("no expression could be read.")
    if too_deep(call, LIMITS.depth):
        raise GoalError(f"nested more than {LIMITS.depth} deep.")
    if len(call.args) != 1 or (call.keywords and not options):
        # `0,8` is 0.8 in half the world; a line of its own for the 8 is no help.
        if comma := re.search(r"(?<![\w.])(\d+),(\d+)", rest):
            message += f" If {comma[0]} is one number, write {comma[1]}.{comma[2]}."
        raise GoalError(message)
    return call


def _plain(token: Token) -> str:
    """A name as Python's parser stores it, a quoted one without its quotes and escapes."""
    if token.kind == "string":
        return str(ast.literal_eval(token.text))
    if keyword.iskeyword(token.text) or not token.text.isidentifier():
        raise GoalError(f"the name {shown(token.text)} must be quoted.")
    return unicodedata.normalize("NFKC", token.text)

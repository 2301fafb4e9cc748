"""Everything that is wrong with the text of a goal, statement by statement: its parser ends at the first fault."""

import re

from widemargin.exceptions import GoalParseError
from widemargin.goals import Goal
from widemargin.goals.text.scanner import Statement, statements

__all__ = ["goal_faults"]

_MOST = 20
_DEFINITION = re.compile(r"\s*[\"']?(\w+)[\"']?\s*=(?!=)")


def goal_faults(text: str, first: GoalParseError) -> list[GoalParseError]:
    """The fault that the parser found, and those that it finds once each faulty statement is left out.

    Parameters
    ----------
    text : str
    first : GoalParseError
        What `Goal.parse(text)` raised.

    Returns
    -------
    list of GoalParseError
        Without faults that only follow from another one, such as the use of a population whose definition is faulty.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    faults, lost, error = [first], set[str](), first
    for _ in range(_MOST):
        place = None if error.line is None else _lines_of_statement(lines, error.line)
        if place is None:
            break
        defined = _DEFINITION.match(lines[place[0] - 1])
        lost |= {defined[1]} if defined else set()
        lines[place[0] - 1 : place[1]] = [""] * (place[1] - place[0] + 1)
        try:
            Goal.parse("\n".join(lines))
            break
        except GoalParseError as further:
            error = further
        if error.line is not None and not any(f"'{name}'" in error.reason for name in lost):
            faults.append(error)
    return faults


def _lines_of_statement(lines: list[str], line: int) -> tuple[int, int] | None:
    """First and last line of the statements that touch a line; None where they cannot be told apart."""
    try:
        found = [item for item in statements("\n".join(lines)) if item.line <= line <= _last_line(item)]
        return (min(item.line for item in found), max(map(_last_line, found))) if found else None
    except GoalParseError:  # no statements yet: this line alone, if it holds what it opens
        text = lines[line - 1]
        balanced = all(text.count(one) == text.count(other) for one, other in ("()", "[]"))
        return (line, line) if balanced and text.strip() else None


def _last_line(statement: Statement) -> int:
    return statement.line + statement.text.count("\n")

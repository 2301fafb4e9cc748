"""What people see: results on stdout, progress and warnings on stderr, several classifiers side by side."""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from widemargin.cli.output import printable, put
from widemargin.goals.measuring.goal_report import ConstraintReport, GoalReport

__all__ = ["Progress", "comparison", "printable", "say", "warnings_as_lines", "warnings_reworded"]

WIDTH = 100


class Progress:
    """One line on stderr that says what is being done; silent where stderr is no terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._text = ""

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if self._status is not None:
            self._status.stop()

    def step(self, text: str) -> None:
        """Say what comes next."""
        self._text = text
        self._show(text)

    def watch(self, progress: Any) -> None:
        """Callback for estimators: the numbers of an iteration behind the name of the step."""
        self._show(
            f"{self._text}: {progress.stage} {progress.iteration}, objective {progress.objective:.4f}, "
            f"gap {progress.gap:.0e}, {progress.seconds:.1f} s (Ctrl-C keeps it)"
        )

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(printable(text)))


@contextlib.contextmanager
def warnings_as_lines(stream: TextIO | None = None) -> Iterator[None]:
    """Show warnings on stderr without the place in the code, each text once."""
    seen: set[str] = set()

    def show(message: Warning | str, *place: object, **more: object) -> None:
        text = printable(str(message))
        if text not in seen:
            seen.add(text)
            put(f"widemargin: warning: {text}", stream or sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def warnings_reworded(reword: Callable[[Warning], str]) -> Iterator[None]:
    """Hand on the warnings of a step, also of one that fails, in other words."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
    finally:
        for item in caught:
            warning = item.message if isinstance(item.message, Warning) else item.category(item.message)
            warnings.warn(reword(warning), item.category, stacklevel=2)


def say(*lines: str) -> None:
    """Print lines to stdout; control characters in them cannot reach the terminal."""
    for line in lines:
        put("\n".join(printable(part) for part in line.split("\n")))


def comparison(title: str, reports: Mapping[str, GoalReport]) -> str:
    """Table of several classifiers measured on one goal and the same rows.

    Parameters
    ----------
    title : str
    reports : mapping of str to GoalReport
        By the classifier's name, in the order of the columns; all of the same goal.
    """
    first = next(iter(reports.values()))
    table = Table(box=None, pad_edge=False)
    table.add_column(Text(printable(title)))
    for name in reports:
        table.add_column(Text(printable(name)), no_wrap=True)
    values = (report.objective for report in reports.values())
    objectives = ("not measured" if value is None else f"{value:.4f}" for value in values)
    table.add_row(Text(printable(first.objective_text)), *objectives)
    for number, constraint in enumerate(first.constraints):
        cells = (_cell(report.constraints[number]) for report in reports.values())
        name = constraint.text if constraint.label.startswith("#") else constraint.label
        table.add_row(Text(printable(name)), *cells)
    console = Console(width=WIDTH, force_terminal=False, no_color=True, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _cell(item: ConstraintReport) -> str:
    if item.rate is None or item.bound is None:
        return "undefined"
    sign = item.sense if item.met else {">=": "<", "<=": ">"}[item.sense]
    return f"{item.rate:.4f} {sign} {item.bound:.4f} {'met' if item.met else 'NOT MET'}"

"""What people see: results on stdout, progress and warnings on stderr, several classifiers side by side, the time.

Nothing heavy is imported before something is shown, because `--help` goes this way too.
"""

import contextlib
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from widemargin._text import printable
from widemargin.exceptions import DataError, TimeBudgetError

if TYPE_CHECKING:
    from rich.status import Status

    from widemargin.goals.measuring.goal_report import GoalReport
    from widemargin.solvers.base import Progress as SolverProgress

CARD_KEYS = {
    "intended_use": "Intended use",
    "not_intended_for": "Not intended for",
    "rows_from": "Where the rows come from",
    "harm": "Harm of wrong decisions",
    "limits": "Further limits",
    "owner": "Owner and contact",
}
"""Keys of [card], and what the report calls them."""


def put(text: str, stream: TextIO | None = None) -> None:
    """Print lines to stdout or another stream, as they are."""
    stream = stream or sys.stdout
    with _as_far_as_it_goes(stream):
        print(text, file=stream)


def finish() -> None:
    """Hand everything printed to the readers, as far as they are still there.

    Raises
    ------
    DataError
        What was printed cannot be written: the disk is full, for instance.
    """
    for stream in (sys.stderr, sys.stdout):
        if stream is not None:  # it is None where it was closed before we began
            with _as_far_as_it_goes(stream):
                stream.flush()


@contextlib.contextmanager
def _as_far_as_it_goes(stream: TextIO) -> Iterator[None]:
    """Write to a stream whose reader may be gone; then its buffer and all later output are dropped."""
    try:
        yield
    except OSError as error:
        # The stream's file descriptor now leads nowhere, so that further output, and the flush at the end of the
        # program, does not fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        # A reader that has gone (`head`) has seen enough; of messages that cannot be written nobody can be told.
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise DataError(
                f"the output cannot be written ({error.strerror}). Make room, or send it elsewhere"
            ) from error


class Progress:
    """One line on stderr that says what is being done; silent where stderr is no terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        console = Console(stderr=True, highlight=False)
        self._status: Status | None = console.status("") if console.is_terminal else None
        self._text = ""

    def __enter__(self) -> "Progress":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __deepcopy__(self, memo: object) -> "Progress":
        """Itself: sweeps clone the estimators that it watches, and a terminal cannot be copied."""
        return self

    def step(self, text: str) -> None:
        """Say what comes next."""
        self._text = text
        self._show("")

    def watch(self, progress: "SolverProgress") -> None:
        """Callback for estimators: the numbers of an iteration behind the name of the step."""
        self._show(
            f": {progress.stage} {progress.iteration}, objective {progress.objective:.4f}, "
            f"gap {progress.gap:.0e}, {progress.seconds:.1f} s (Ctrl-C keeps it)"
        )

    def _show(self, numbers: str) -> None:
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(printable(self._text + numbers)))


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
def warnings_reworded(reword: Callable[[Warning], str | None]) -> Iterator[None]:
    """Hand on the warnings of a step, also of one that fails, in other words; None: not at all."""
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield
    finally:
        for item in caught:
            warning = item.message if isinstance(item.message, Warning) else item.category(item.message)
            text = reword(warning)
            if text is not None:
                warnings.warn(text, item.category, stacklevel=2)


def say(*lines: str) -> None:
    """Print lines to stdout; control characters in them cannot reach the terminal."""
    for line in lines:
        put("\n".join(printable(part) for part in line.split("\n")))


def comparison(title: str, reports: "Mapping[str, GoalReport]") -> str:
    """Table of several classifiers measured on one goal and the same rows.

    Parameters
    ----------
    reports : mapping of str to GoalReport
        By the classifier's name, in the order of the columns; all of the same goal.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    first = next(iter(reports.values()))
    table = Table(box=None, pad_edge=False)
    table.add_column(Text(printable(title)))
    for name in reports:
        table.add_column(Text(printable(name)), no_wrap=True)
    values = (report.objective for report in reports.values())
    objectives = ("not measured" if value is None else f"{value:.4f}" for value in values)
    table.add_row(Text(printable(first.objective_text)), *objectives)
    rules: dict[str, list[int]] = {}
    for j, item in enumerate(first.constraints):
        rules.setdefault(item.rule, []).append(j)
    for members in rules.values():
        cells = []
        for report in reports.values():
            # Of a rule the pair that came out worst, which need not be the same for all.
            item = min((report.constraints[j].as_ratio() for j in members), key=lambda item: item.badness)
            sign = item.sense if item.met else {">=": "<", "<=": ">"}[item.sense]
            verdict = "met" if item.met else "NOT MET"
            unknown = item.rate is None or item.bound is None
            cells.append("undefined" if unknown else f"{item.rate:.4f} {sign} {item.bound:.4f} {verdict}")
        item = first.constraints[members[0]]
        name = item.text if item.label.startswith("#") else item.label
        if len(members) > 1:
            name = f"{item.bundle or name}, worst of {len(members)}"
        table.add_row(Text(printable(name)), *cells)
    # Not captured from stdout: rich ends the program by exit code 1 where the reader of stdout has left.
    drawn = io.StringIO()
    Console(file=drawn, width=100, force_terminal=False, no_color=True, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines())


class Deadline:
    """The end of `--time-budget`, looked at between blocks of rows, or runs.

    Parameters
    ----------
    seconds : float or None
        From now on; None: as long as it takes.
    why : str
        What stopping means, and the cure, for the message.
    """

    def __init__(self, seconds: float | None, why: str) -> None:
        self._seconds, self._why = seconds, why
        self._end = None if seconds is None else time.perf_counter() + seconds

    def check(self, done: int, total: int, what: str) -> None:
        """Stop if the time is up before all is done; `what` are the things that are counted.

        Raises
        ------
        TimeBudgetError
        """
        if self._end is None or done >= total or time.perf_counter() < self._end:
            return
        raise TimeBudgetError(
            f"--time-budget of {self._seconds:g} s is used up after {done} of {total} {what}. {self._why}",
            done=done, total=total,
        )  # fmt: skip

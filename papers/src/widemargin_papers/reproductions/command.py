"""What `widemargin reproduce` does: run the papers' experiments; numbers, figures, and a page of verdicts."""

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from widemargin.datasets import data_folder
from widemargin.exceptions import DataError
from widemargin.extending import JSON, require_matplotlib
from widemargin_papers.reproductions.figures import FIGURES, FigureEntry
from widemargin_papers.reproductions.runner import (
    Asked,
    Check,
    Outcome,
    Step,
    Workers,
    reproduce,
    reproduce_all,
    summary_table,
    write_page,
)


class Shown(Protocol):
    """Progress on a terminal; `step` says what is being done."""

    @property
    def step(self) -> Step: ...


class Console(NamedTuple):
    """What the command line lends to this command.

    Attributes
    ----------
    say : callable
        Prints lines.
    progress : callable
        Opens a display of progress.
    check : callable
        Told before every run how many of how many are done, and what they are called; raises where the time is up.
    workers : callable
        Opens what `--workers` names.
    """

    say: Callable[..., None]
    progress: Callable[[], AbstractContextManager[Shown]]
    check: Callable[[int, int, str], None]
    workers: Callable[[str], AbstractContextManager[Workers]]


def run(options: argparse.Namespace, console: Console) -> tuple[int, dict[str, JSON]]:
    """Run what was asked; the exit code and the content for --json."""
    if options.json:
        console = console._replace(say=lambda *lines: None)
    if options.list:
        for name, entry in FIGURES.items():
            console.say(name, f"    {entry.title}", f"    {_cost(entry)}")
        return 0, {"figures": {name: entry._asdict() for name, entry in FIGURES.items()}}
    if options.all and (options.figure or options.rows):
        raise DataError(f"--all goes with neither a figure nor --rows; leave out {options.figure or '--rows'}.")
    if options.figure is None and not options.all:
        raise DataError(f"no figure was named. Name one of {', '.join(FIGURES)}, or ask for --all or --list.")
    if options.figure is not None and options.figure not in FIGURES:
        raise DataError(f"invalid choice: {options.figure!r} is no figure. Name one of {', '.join(FIGURES)}.")
    if options.runs is not None and options.runs < 1:
        raise DataError(f"--runs is {options.runs}; at least 1 is needed.")
    require_matplotlib()
    asked = Asked(options.out, data_folder(options.data), options.quick, options.runs, options.rows, options.again)

    def check(done: int, total: int) -> None:
        console.check(done, total, "runs")

    with console.workers(options.workers or "1") as workers:
        asked = asked._replace(workers=workers)
        return _all(asked, console, check) if options.all else _one(options.figure, asked, console, check)


def _one(figure: str, asked: Asked, console: Console, check: Check) -> tuple[int, dict[str, JSON]]:
    with console.progress() as progress:
        done = reproduce(figure, asked, progress.step, check)
    console.say(FIGURES[figure].title, f"Data: {done.data}", "", done.table)
    console.say(*(f"Saved {path}" for path in done.files.values()))
    return 0, {"figure": figure, "files": _paths(done)}


def _all(asked: Asked, console: Console, check: Check) -> tuple[int, dict[str, JSON]]:
    def told(outcome: Outcome) -> None:
        console.say(f"{outcome.figure}: {outcome.status}, {outcome.seconds:.0f} processor s, {outcome.verdict}")

    with console.progress() as progress:
        outcomes = reproduce_all(asked, progress.step, told, check)
    page = write_page(outcomes, asked)
    console.say("", summary_table(outcomes), f"Saved {page}")
    figures: dict[str, JSON] = {
        item.figure: {
            "status": item.status, "runs": item.runs, "processor_seconds": item.seconds, "verdict": item.verdict,
            "files": _paths(item),
        }
        for item in outcomes
    }  # fmt: skip
    failed = any(item.status == "failed" for item in outcomes)
    return (2 if failed else 0), {"figures": figures, "page": str(page)}


def _paths(outcome: Outcome) -> dict[str, JSON]:
    return {ending: str(path) for ending, path in outcome.files.items()}


def _cost(entry: FigureEntry) -> str:
    return f"needs {entry.needs}; {entry.runs} runs take about {entry.minutes:g} processor min"

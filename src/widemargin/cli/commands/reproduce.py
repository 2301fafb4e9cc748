"""`widemargin reproduce FIGURE` or `--all`: run the papers' experiments; numbers, figures, and a page of verdicts."""

import argparse
from typing import Any

from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.workers import connected
from widemargin.datasets import data_folder
from widemargin.exceptions import DataError
from widemargin.plotting._canvas import require_matplotlib
from widemargin_papers.reproductions.figures import FIGURES, FigureEntry
from widemargin_papers.reproductions.runner import (
    Asked,
    Check,
    Outcome,
    reproduce,
    reproduce_all,
    summary_table,
    write_page,
)

__all__ = ["run"]


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Run what was asked; the exit code and the content for --json."""
    if options.list:
        return _list(options.json)
    if options.all and (options.figure or options.rows):
        raise DataError(f"--all goes with neither a figure nor --rows; leave out {options.figure or '--rows'}.")
    if options.figure is None and not options.all:
        raise DataError(f"no figure was named. Name one of {', '.join(FIGURES)}, or ask for --all or --list.")
    if options.runs is not None and options.runs < 1:
        raise DataError(f"--runs is {options.runs}; at least 1 is needed.")
    require_matplotlib()
    folder = data_folder(options.data)
    asked = Asked(options.out, folder, options.quick, options.runs, options.rows, options.again)
    deadline = Deadline(options.time_budget, f"They are kept in {options.out}; the same command goes on from there")

    def check(done: int, total: int) -> None:
        deadline.check(done, total, "runs")

    with connected(options.workers or "1") as workers:
        asked = asked._replace(workers=workers)
        return _all(asked, options.json, check) if options.all else _one(options.figure, asked, options.json, check)


def _one(figure: str, asked: Asked, as_json: bool, check: Check) -> tuple[int, dict[str, Any]]:
    with Progress() as progress:
        done = reproduce(figure, asked, progress.step, check)
    if not as_json:
        say(FIGURES[figure].title, f"Data: {done.data}", "", done.table)
        say(*(f"Saved {path}" for path in done.files.values()))
    return 0, {"figure": figure, "files": _paths(done)}


def _all(asked: Asked, as_json: bool, check: Check) -> tuple[int, dict[str, Any]]:
    def told(outcome: Outcome) -> None:
        if not as_json:
            say(f"{outcome.figure}: {outcome.status}, {outcome.seconds:.0f} processor s, {outcome.verdict}")

    with Progress() as progress:
        outcomes = reproduce_all(asked, progress.step, told, check)
    page = write_page(outcomes, asked)
    if not as_json:
        say("", summary_table(outcomes), f"Saved {page}")
    figures = {
        item.figure: {
            "status": item.status, "runs": item.runs, "processor_seconds": item.seconds, "verdict": item.verdict,
            "files": _paths(item),
        }
        for item in outcomes
    }  # fmt: skip
    failed = any(item.status == "failed" for item in outcomes)
    return (2 if failed else 0), {"figures": figures, "page": str(page)}


def _paths(outcome: Outcome) -> dict[str, str]:
    return {ending: str(path) for ending, path in outcome.files.items()}


def _list(as_json: bool) -> tuple[int, dict[str, Any]]:
    if not as_json:
        for name, entry in FIGURES.items():
            say(name, f"    {entry.title}", f"    {_cost(entry)}")
    return 0, {"figures": {name: entry._asdict() for name, entry in FIGURES.items()}}


def _cost(entry: FigureEntry) -> str:
    return f"needs {entry.needs}; {entry.runs} runs take about {entry.minutes:g} processor minutes"

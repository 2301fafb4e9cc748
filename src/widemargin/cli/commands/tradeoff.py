"""`widemargin tradeoff GOALS.toml --constraint LABEL --from A --to B --points N`: what does this bound cost?"""

import argparse
import dataclasses
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.paths import Prepared, ended_by_hand, prepare, read_stored, stored, sweep
from widemargin.cli.report_files import write_json
from widemargin.estimators.rate_constrained.tradeoff_sweep import cut_short
from widemargin.exceptions import DataError, GoalError, TableWarning
from widemargin.goals.measuring.tiers import at_level, level_of
from widemargin.goals.measuring.tradeoff_path import TradeoffPath

__all__ = ["run"]

DPI = 150
INTERRUPTED = 130


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Sweep, print, draw and store; the exit code and the content for --json."""
    goals = goals_of(options)
    label, values = _asked(goals, options)
    if options.plot is not None:
        from widemargin.plotting._canvas import require_matplotlib

        require_matplotlib()
    with Progress() as progress:
        prepared = prepare(goals, progress)
        known = _kept(options.out, prepared, label, values)
        path, by_hand = known, False
        if path is None or len(path) < len(values):
            done = 0 if known is None else len(known)
            progress.step(f"training {len(values) - done} models (Ctrl-C keeps the points done)")
            began = time.perf_counter()
            path, known = _swept(prepared, label, values, progress, options, known)
            by_hand = ended_by_hand(path, options.time_budget, time.perf_counter() - began)
            if options.out is not None:
                write_json(stored(prepared, path), options.out)
        if options.plot is not None:
            progress.step("drawing")
            _draw(path, options.plot)
    if not options.json:
        say(*_lines(path, options, 0 if known is None else len(known)))
    files = {"out": options.out, "plot": options.plot}
    content = {"constraint": label, "path": path.to_dict(), "prices": [dataclasses.asdict(p) for p in _prices(path)]}
    return (INTERRUPTED if by_hand else _code(path)), content | {
        name: None if file is None else str(file) for name, file in files.items()
    }


def _asked(goals: GoalsFile, options: argparse.Namespace) -> tuple[str, list[float]]:
    """The constraint and the values of its bound, both checked before any row is read."""
    goal = goals.goal
    entry = goal.constraints[goal.place_of(options.constraint)]
    label = entry.label or entry.text
    if options.points < 2:
        raise DataError(f"--points is {options.points}; at least 2 are needed to see a trade-off")
    if not options.start != options.stop:
        raise DataError(f"--from and --to are both {options.start:g}; give two different bounds")
    values = np.linspace(options.start, options.stop, options.points)
    now = level_of(entry)
    for value in (values[0], values[-1]):
        try:
            at_level(entry, float(value))
        except GoalError as error:
            raise DataError(f"{label!r} cannot have the bound {value:g} (it is {now:g} now): {error}") from error
    return label, values.round(12).tolist()


def _kept(out: Path | None, prepared: Prepared, label: str, values: list[float]) -> TradeoffPath | None:
    """The path that an earlier run has stored, if the same was asked, and it is whole or holds models to go on from."""
    if out is None or not out.exists():
        return None
    try:
        path = read_stored(out, prepared)
    except DataError:
        return None
    same = path.name == label and path.n_asked == len(values) and path.values.tolist() == values[: len(path)]
    return path if same and (len(path) == len(values) or (path.models and not cut_short(path))) else None


def _swept(
    prepared: Prepared,
    label: str,
    values: list[float],
    progress: Progress,
    options: argparse.Namespace,
    known: TradeoffPath | None,
) -> tuple[TradeoffPath, TradeoffPath | None]:
    """The path, and the earlier one that it went on from; points that do not fit the rows are trained again."""
    if known is not None:
        try:
            return sweep(prepared, label, values, progress, budget=options.time_budget, resume=known), known
        except DataError as error:
            warnings.warn(f"{options.out}: {error}", TableWarning, stacklevel=2)
    return sweep(prepared, label, values, progress, budget=options.time_budget), None


def _draw(path: TradeoffPath, file: Path) -> None:
    from matplotlib.figure import Figure

    from widemargin.plotting.tradeoff import TradeoffDisplay

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    TradeoffDisplay.from_path(path, ax=figure.add_subplot())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=DPI)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file}: the picture cannot be written ({error}). Choose another file, such as frontier.png"
        ) from error


def _prices(path: TradeoffPath) -> Any:
    return () if path.held_out is None else path.prices()


def _lines(path: TradeoffPath, options: argparse.Namespace, known: int) -> list[str]:
    lines = [str(path), ""]
    if known == path.n_asked:
        lines.append(f"Nothing was trained: {options.out} holds this path already.")
    elif options.out is not None:
        if known:
            lines.append(f"Went on from the {known} points that {options.out} held already.")
        if len(path) < path.n_asked:
            lines.append("The same command goes on from these points.")
        lines.append(f"Stored as {options.out}; widemargin report --tradeoff {options.out} shows it.")
    if options.plot is not None:
        lines.append(f"Drawn as {options.plot}")
    return lines


def _code(path: TradeoffPath) -> int:
    """0 where every bound was met on the training rows, 1 where one was not or the sweep ended early."""
    return 0 if len(path) == path.n_asked and bool(path.met.all()) else 1

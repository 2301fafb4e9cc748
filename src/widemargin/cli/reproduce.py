"""`widemargin reproduce FIGURE`: run an experiment of the papers, keep every finished run, save numbers and figure."""

import argparse
import importlib
from functools import partial
from typing import Any, cast

from widemargin.cli.console import Progress, say
from widemargin.cli.workers import connected
from widemargin.datasets import data_folder
from widemargin.distributed import side_by_side
from widemargin.exceptions import DataError
from widemargin.plotting._canvas import require_matplotlib
from widemargin.reproduce.experiment import Experiment, Record
from widemargin.reproduce.figures import FIGURES, FigureEntry

__all__ = ["run"]

QUICK_RUNS = 1
DPI = 150


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Run what was asked; the exit code and the content for --json."""
    if options.list:
        return _list(options.json)
    if options.figure is None:
        raise DataError(f"no figure was named. Name one of {', '.join(FIGURES)}, or ask for --list.")
    if options.runs is not None and options.runs < 1:
        raise DataError(f"--runs is {options.runs}; at least 1 is needed.")
    require_matplotlib()
    entry = FIGURES[options.figure]
    experiment = cast(Experiment, importlib.import_module(f"widemargin.reproduce.{entry.module}"))
    name = f"{options.figure}-quick" if options.quick else options.figure
    settings = experiment.settings(options.quick)
    if options.rows is not None:
        if "train_rows" not in settings or options.rows < 1:
            raise DataError(f"--rows is {options.rows}; {options.figure} needs {_rows_it_takes(settings)}.")
        settings["train_rows"] = options.rows
    record = Record(options.out / f"{name}.json", options.figure, settings)
    runs = options.runs or (QUICK_RUNS if options.quick else entry.runs)
    with Progress() as progress:
        progress.step("reading the data")
        data = experiment.load(data_folder(options.data), options.quick)
        keys = experiment.keys(runs)
        _do(experiment, data, settings, record, keys, progress, options.workers)
        progress.step("drawing")
        summary = experiment.summarise(settings, {key: record.runs[key] for key in keys})
        record.write(summary)
        files = {ending: options.out / f"{name}.{ending}" for ending in ("json", "md", "png")}
        table = experiment.table(summary)
        files["md"].write_text(f"# {entry.title}\n\nData: {data.name}.\n\n{table}")
        experiment.draw(summary).savefig(files["png"], dpi=DPI)
    if not options.json:
        say(entry.title, f"Data: {data.name}", "", table)
        say(*(f"Saved {path}" for path in files.values()))
    return 0, {"figure": options.figure, "files": {ending: str(path) for ending, path in files.items()}}


def _do(
    experiment: Experiment,
    data: Any,
    settings: dict[str, Any],
    record: Record,
    keys: list[str],
    progress: Progress,
    workers: str | None,
) -> None:
    """The runs that are not in the record yet."""
    left = [key for key in keys if not record.runs.get(key)]  # an empty one had no data then
    one_run = partial(experiment.run, data, settings)
    try:
        with connected(workers or "1") as where:
            results = side_by_side(one_run, left, where)
            for key in left:
                progress.step(f"run {len(record.runs) + 1} of {len(keys)}: {key} (Ctrl-C keeps the finished ones)")
                record.add(key, next(results))
    except KeyboardInterrupt:
        done = sum(key in record.runs for key in keys)
        raise KeyboardInterrupt(
            f"{done} of {len(keys)} runs are kept in {record.path}; the same command goes on from there"
        ) from None


def _rows_it_takes(settings: dict[str, Any]) -> str:
    return "at least 1" if "train_rows" in settings else "all rows: leave the option out"


def _list(as_json: bool) -> tuple[int, dict[str, Any]]:
    if not as_json:
        for name, entry in FIGURES.items():
            say(name, f"    {entry.title}", f"    {_cost(entry)}")
    return 0, {"figures": {name: entry._asdict() for name, entry in FIGURES.items()}}


def _cost(entry: FigureEntry) -> str:
    return f"needs {entry.needs}; {entry.runs} runs take about {entry.minutes:g} processor minutes"

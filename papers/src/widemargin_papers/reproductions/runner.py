"""Run one figure, or all of them: what is there with the same settings and code is kept."""

import importlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from widemargin.exceptions import DataError, TimeBudgetError
from widemargin.extending import side_by_side
from widemargin_papers.reproductions.claims import CLAIMS, claims, page_table, verdict
from widemargin_papers.reproductions.experiment import Data, Experiment, Record, write_result
from widemargin_papers.reproductions.figures import FIGURES

if TYPE_CHECKING:
    from distributed import Client

QUICK_RUNS = 1
DPI = 150

Step = Callable[[str], None]
Workers: TypeAlias = "int | Client | None"
"""Who does the runs: so many processes, or a Dask cluster."""
Check = Callable[[int, int], None]
"""Told before every run how many are done, of how many; it may raise to end the command."""


class Asked(NamedTuple):
    """What a user asks of a figure.

    Attributes
    ----------
    out : Path
        Folder of the results.
    data : Path or None
        Folder of the data.
    quick : bool
        Small synthetic rows.
    runs, rows : int or None
        Runs to average; training rows, where a figure takes a part of them.
    again : bool
        Begin anew.
    workers : int, distributed.Client or None
        Who does the runs: so many processes, or a Dask cluster. Times are then those of a shared machine.
    """

    out: Path
    data: Path | None = None
    quick: bool = False
    runs: int | None = None
    rows: int | None = None
    again: bool = False
    workers: Workers = None


class Outcome(NamedTuple):
    """How a figure ended.

    Attributes
    ----------
    figure : str
    status : str
        "done", "kept" (it was there), or "failed".
    runs : int
    seconds : float
        Processor seconds of its runs, those of an earlier command included.
    verdict : str
        How many of the paper's claims hold; a dash after a quick run, and what went wrong after a failure.
    files : dict of Path
        By ending.
    data : str
        Name of the data.
    table : str
        Markdown.
    """

    figure: str
    status: str
    runs: int = 0
    seconds: float = 0.0
    verdict: str = "-"
    files: Mapping[str, Path] = {}
    data: str = ""
    table: str = ""


def _unlimited(done: int, total: int) -> None:
    """Time without end."""


def reproduce(figure: str, asked: Asked, step: Step, check: Check = _unlimited, *, keep: bool = False) -> Outcome:
    """Run what is missing of a figure, and write its numbers, its table and the figure itself.

    Parameters
    ----------
    figure : str
        One of FIGURES.
    asked : Asked
    step : callable
        Told what is being done.
    check : callable
        See `Check`.
    keep : bool, default=False
        Leave a figure alone that is complete; else it is drawn again from its runs.

    Raises
    ------
    DataError
        If data are missing, or the file of an earlier command has other settings or runs of other code.
    """
    entry = FIGURES[figure]
    experiment = cast(Experiment, importlib.import_module(f"widemargin_papers.reproductions.{entry.module}"))
    name = f"{figure}-quick" if asked.quick else figure
    files = {ending: asked.out / f"{name}.{ending}" for ending in ("json", "md", "png")}
    settings = _settings(figure, experiment, asked)
    record = Record(files["json"], figure, settings, again=asked.again)
    keys = experiment.keys(asked.runs or (QUICK_RUNS if asked.quick else entry.runs))
    complete = record.finished and all(record.runs.get(key) for key in keys) and files["png"].exists()
    if keep and complete:
        summary = json.loads(files["json"].read_text())["summary"]
        return _outcome(figure, "kept", asked, {key: record.runs[key] for key in keys}, summary, files)
    step(f"{figure}: reading the data")
    data = experiment.load(asked.data, asked.quick)
    _do(experiment, data, settings, record, keys, lambda text: step(f"{figure}: {text}"), check, asked.workers)
    step(f"{figure}: drawing")
    runs = {key: record.runs[key] for key in keys}
    summary = experiment.summarise(settings, runs)
    record.write(summary)
    table = experiment.table(summary)
    write_result(files["md"], f"# {entry.title}\n\nData: {data.name}.\n\n{table}".encode())
    drawn = BytesIO()
    experiment.draw(summary).savefig(drawn, dpi=DPI, format="png")
    write_result(files["png"], drawn.getvalue())
    return _outcome(figure, "done", asked, runs, summary, files)._replace(data=data.name, table=table)


def reproduce_all(
    asked: Asked, step: Step, told: Callable[[Outcome], None], check: Check = _unlimited
) -> list[Outcome]:
    """Every figure, one after the other; what was made by other settings or other code is made anew.

    A figure that fails, for its data are missing or anything else, does not end the others. `told` hears of each.
    """
    found = []
    for figure in CLAIMS:
        try:
            outcome = _latest(figure, asked, step, check)
        except TimeBudgetError:
            raise
        except Exception as error:
            outcome = Outcome(figure, "failed", verdict=f"{type(error).__name__}: {error}")
        found.append(outcome)
        told(outcome)
    return found


def _latest(figure: str, asked: Asked, step: Step, check: Check) -> Outcome:
    try:
        return reproduce(figure, asked, step, check, keep=True)
    except DataError:
        if asked.again or not (asked.out / f"{figure}{'-quick' if asked.quick else ''}.json").exists():
            raise
    return reproduce(figure, asked._replace(again=True), step, check, keep=True)


def write_page(outcomes: list[Outcome], asked: Asked) -> Path:
    """A page of what ran, of the papers' claims beside ours, and of the figures; its path."""
    lines = ["# Reproductions", "", summary_table(outcomes)]
    there = [outcome for outcome in outcomes if outcome.status != "failed"]
    if not asked.quick and there:
        stored = {outcome.figure: json.loads(outcome.files["json"].read_text())["summary"] for outcome in there}
        lines += ["## Paper and ours", "", page_table(stored)]
    for outcome in there:
        lines += [f"## {FIGURES[outcome.figure].title}", "", f"`widemargin reproduce {outcome.figure}`", ""]
        lines += [f"![{outcome.figure}]({outcome.files['png'].name})", ""]
        lines += [outcome.files["md"].read_text().partition("\n")[2].strip(), ""]
    path = asked.out / "index.md"
    write_result(path, "\n".join(lines).encode())
    return path


def summary_table(outcomes: list[Outcome]) -> str:
    """What ran, how long it took, and the verdict, as Markdown."""
    lines = ["| figure | status | runs | processor s | verdict |", "|---|---|---|---|---|"]
    lines += [
        f"| {item.figure} | {item.status} | {item.runs} | {item.seconds:.0f} | {item.verdict.replace('|', '/')} |"
        for item in outcomes
    ]
    lines.append(f"| all | | {sum(item.runs for item in outcomes)} | {sum(item.seconds for item in outcomes):.0f} | |")
    return "\n".join(lines) + "\n"


def _outcome(
    figure: str, status: str, asked: Asked, runs: Mapping[str, Any], summary: Mapping[str, Any],
    files: Mapping[str, Path],
) -> Outcome:  # fmt: skip
    seconds = sum(float(run.get("seconds", 0.0)) for run in runs.values())
    judged = "-" if asked.quick else verdict(claims(figure, summary))
    return Outcome(figure, status, len(runs), seconds, judged, files)


def _settings(figure: str, experiment: Experiment, asked: Asked) -> dict[str, Any]:
    settings = experiment.settings(asked.quick)
    if asked.rows is not None:
        if "train_rows" not in settings or asked.rows < 1:
            raise DataError(f"--rows is {asked.rows}; {figure} needs {_rows_it_takes(settings)}.")
        settings["train_rows"] = asked.rows
    return settings


def _rows_it_takes(settings: dict[str, Any]) -> str:
    return "at least 1" if "train_rows" in settings else "all rows: leave the option out"


def _do(
    experiment: Experiment,
    data: Data,
    settings: dict[str, Any],
    record: Record,
    keys: list[str],
    step: Step,
    check: Check,
    workers: Workers = None,
) -> None:
    """The runs that are not in the record yet."""
    left = [key for key in keys if not record.runs.get(key)]  # an empty one had no data then
    results = side_by_side(partial(experiment.run, data, settings), left, workers)
    try:
        for key in left:
            check(sum(key in record.runs for key in keys), len(keys))
            step(f"run {len(record.runs) + 1} of {len(keys)}: {key} (Ctrl-C keeps the finished ones)")
            record.add(key, next(results))
    except KeyboardInterrupt:
        done = sum(key in record.runs for key in keys)
        raise KeyboardInterrupt(
            f"{done} of {len(keys)} runs are kept in {record.path}; the same command goes on from there"
        ) from None

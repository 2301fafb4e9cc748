"""`widemargin tradeoff GOALS.toml --constraint LABEL --from A --to B --points N`: what does this bound cost?

`widemargin report` takes the sweeps from here.
"""

import argparse
import dataclasses
import json
import time
import warnings
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from widemargin import __version__
from widemargin._files import replace_file
from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.reports import write_json
from widemargin.cli.tables.training_data import as_external
from widemargin.cli.training import Prepared, prepare, table_name
from widemargin.estimators.rate_constrained.tradeoff_path import tradeoff_path
from widemargin.estimators.rate_constrained.tradeoff_sweep import cut_short, model_from_numbers, model_numbers
from widemargin.exceptions import DataError, GoalError, ModelFileError, TableWarning
from widemargin.goals import Goal
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.persistence.container import read_file

KIND, FORMAT = "widemargin tradeoff", 1
"""Of stored paths."""


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Sweep, print, draw and store; the exit code and the content for --json."""
    goals, out, budget = goals_of(options), options.out, options.time_budget
    label, values = _bounds(goals, options)
    if options.plot is not None:
        from widemargin.plotting._canvas import require_matplotlib

        require_matplotlib()
    with Progress() as progress:
        prepared = prepare(goals, progress)
        stored = None if out is None else _begun(out, prepared, label, values)
        path, by_hand, goes_on = stored, False, False
        if path is None or len(path) < len(values):
            done = 0 if stored is None else len(stored)
            progress.step(f"training {len(values) - done} models (Ctrl-C keeps the points done)")
            try:
                path, by_hand = sweep(prepared, label, values, progress, budget=budget, resume=stored)
            except DataError as error:
                if stored is None:
                    raise
                warnings.warn(f"{out}: {error}", TableWarning, stacklevel=2)  # points that do not fit the rows
                stored = None
                path, by_hand = sweep(prepared, label, values, progress, budget=budget)
            if out is not None:
                content = _to_store(prepared, path)
                goes_on = "models" in content
                write_json(content, out)
        if options.plot is not None:
            progress.step("drawing")
            _draw(path, options.plot)
    say(str(path), "")
    if stored is not None and len(stored) == path.n_asked:
        say(f"Nothing was trained: {out} holds this path already.")
    elif out is not None:
        if stored is not None:
            say(f"Went on from the {len(stored)} points that {out} held already.")
        if goes_on:
            say("The same command goes on from these points.")
        say(f"Stored as {out}; widemargin report --tradeoff {out} shows it.")
    if options.plot is not None:
        say(f"Drawn as {options.plot}")
    prices = () if path.held_out is None else path.prices()
    code = 130 if by_hand else int(len(path) < path.n_asked or not path.met.all())
    return code, {
        "constraint": label, "path": path.to_dict(), "prices": [dataclasses.asdict(price) for price in prices],
        "out": None if out is None else str(out), "plot": None if options.plot is None else str(options.plot),
    }  # fmt: skip


def _bounds(goals: GoalsFile, options: argparse.Namespace) -> tuple[str, list[float]]:
    """The constraint and the values of its bound, both checked before any row is read."""
    goal = goals.goal
    if goals.abstain is not None and options.time_budget is not None:
        raise DataError(
            "--time-budget is for models that are trained to their goal, and the goals file makes one that abstains. "
            "Leave it out; Ctrl-C keeps the points done"
        )
    entry = goal.constraints[goal.place_of(options.constraint)]
    label = entry.label or entry.text
    if options.points < 2:
        raise DataError(f"--points is {options.points}; at least 2 are needed to see a trade-off")
    if not options.start != options.stop:
        raise DataError(f"--from and --to are both {options.start:g}; give two different bounds")
    values = np.linspace(options.start, options.stop, options.points)
    now = entry.level
    for value in (values[0], values[-1]):
        try:
            entry.at_level(float(value))
        except GoalError as error:
            raise DataError(f"{label!r} cannot have the bound {value:g} (it is {now:g} now): {error}") from error
    return label, values.round(12).tolist()


def _begun(out: Path, prepared: Prepared, label: str, values: list[float]) -> TradeoffPath | None:
    """The path in a file if it is this one, and complete or with the models that the sweep can go on from."""
    if not out.exists():
        return None
    try:
        stored = read_stored(out, prepared)
    except (DataError, ModelFileError):
        return None
    same = (stored.name, stored.n_asked) == (label, len(values)) and stored.values.tolist() == values[: len(stored)]
    return stored if same and (len(stored) == len(values) or (stored.models and not cut_short(stored))) else None


def _draw(path: TradeoffPath, file: Path) -> None:
    from matplotlib.figure import Figure

    from widemargin.plotting.tradeoff import TradeoffDisplay

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    TradeoffDisplay.from_path(path, ax=figure.add_subplot())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn = BytesIO()
        figure.savefig(drawn, dpi=150, format=file.suffix.removeprefix(".") or None)
        replace_file(file, drawn.getvalue())
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file}: the picture cannot be written ({error}). Choose another file, such as frontier.png"
        ) from error


def sweep(
    prepared: Prepared,
    label: str,
    values: Sequence[float],
    progress: Progress,
    *,
    budget: float | None,
    resume: TradeoffPath | None = None,
) -> tuple[TradeoffPath, bool]:
    """The path of one constraint, measured on the held-out rows; from the points of an earlier one on, if given.

    Also whether it ended before its time, which only Ctrl-C does.
    """
    rows = prepared.data.rows
    train, test = rows["train"], rows.get("test")
    assert train.X is not None and train.y is not None  # a goals file names the target of its table
    held: dict[str, Any] = {"validation_fraction": 0.2}  # where the goals file holds out no rows
    if test is not None:
        held = {"validation": (test.X, test.y, test.populations, test.sample_weight)}
    began = time.perf_counter()
    if prepared.is_svm:
        model: Any = prepared.svm(progress, prepared.goals.goal, time_budget=budget, on_infeasible="warn")
    else:
        model = prepared.estimator(progress).set_params(confidence=None)
        if prepared.goals.abstain is None:  # thresholds have no time budget
            model.set_params(time_budget=budget)
    path = tradeoff_path(
        model, train.X, train.y, values=values, constraint=label, sample_weight=train.sample_weight,
        populations=train.populations, external=as_external(prepared.data.external), resume=resume, **held,
    )  # fmt: skip
    return path, len(path) < path.n_asked and (budget is None or time.perf_counter() - began < budget)


def short_values(goal: Goal, label: str) -> list[float] | None:
    """A few bounds around that of a constraint, from loose to strict; None where it has no single bound."""
    entry = goal.constraints[goal.place_of(label)]
    try:
        level, is_floor = entry.level, entry.is_floor
    except GoalError:
        return None
    size = 0.02 if abs(level) <= 1.0 else 0.05 * abs(level)  # a share, or another number
    values = []
    for steps in (-2, -1, 0, 1, 2):
        value = round(level + steps * size, 10)
        try:
            entry.at_level(value)
        except GoalError:  # no bound that it can have
            continue
        values.append(value)
    return values if is_floor else values[::-1]


def _to_store(prepared: Prepared, path: TradeoffPath) -> dict[str, Any]:
    """A path with its table, goal and settings, fit for JSON; also its models, as numbers, while points are missing."""
    goals = prepared.goals
    unfinished = len(path) < path.n_asked and len(path.models) == len(path) and prepared.is_svm
    return {
        "kind": KIND,
        "format": FORMAT,
        "widemargin": __version__,
        "goals_file": goals.path.name,
        "goal": str(goals.goal),
        "settings": prepared.settings,
        "table": {
            "name": table_name(goals.data.table),
            "sha256": prepared.digest,
            "rows": {part: content.n_rows for part, content in prepared.data.rows.items()},
        },
        "path": path.to_dict(),
        **({"models": [model_numbers(model) for model in path.models]} if unfinished else {}),
    }


def read_stored(file: Path, prepared: Prepared) -> TradeoffPath:
    """A stored path that was made from the same table, goal and settings.

    Raises
    ------
    DataError, ModelFileError
        The file cannot be read, holds no path, or one of something else.
    """
    raw = read_file(file)
    try:
        plain = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: no JSON text ({str(error)[:200]}). Make it again") from error
    if not isinstance(plain, dict) or plain.get("kind") != KIND:
        raise DataError(
            f"{file}: holds no trade-off of widemargin tradeoff. Make it by: widemargin tradeoff --out {file}"
        )
    if plain.get("format") != FORMAT:
        raise DataError(
            f"{file}: has format {plain.get('format')!r}; this version reads format {FORMAT}. Make it again"
        )
    goals, table = prepared.goals, plain.get("table")
    is_same = {
        "the goal": plain.get("goal") == str(goals.goal),
        "the model's settings": plain.get("settings") == prepared.settings,
        "the table": isinstance(table, dict) and table.get("sha256") == prepared.digest,
    }
    strange = [what for what, same in is_same.items() if not same]
    if strange:
        raise DataError(
            f"{file}: was made with {' and '.join(strange)} in another state than {goals.path} now has. "
            "Make it again by widemargin tradeoff"
        )
    try:
        path, models = TradeoffPath.from_dict(plain.get("path")), plain.get("models")
        if not isinstance(models, list) or len(models) != len(path):
            return path
        return dataclasses.replace(path, models=tuple(map(model_from_numbers, models)))
    except DataError as error:
        raise DataError(f"{file}: {error}") from None

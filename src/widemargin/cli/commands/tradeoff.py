"""`widemargin tradeoff GOALS.toml --constraint LABEL --from A --to B --points N`: what does this bound cost?

`widemargin report` takes the rows and the sweeps from here.
"""

import argparse
import dataclasses
import hashlib
import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from widemargin import __version__
from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file.keys import GoalsFile, TablePath
from widemargin.cli.goals_file.reader import goals_of
from widemargin.cli.reports import write_json
from widemargin.cli.tables.column_roles import as_external
from widemargin.cli.tables.table_files import table_files
from widemargin.cli.tables.training_data import Features, TrainingData, make_features, read_data
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.options import gathered
from widemargin.estimators.rate_constrained.tradeoff_path import tradeoff_path
from widemargin.estimators.rate_constrained.tradeoff_sweep import cut_short, model_from_numbers, model_numbers
from widemargin.exceptions import DataError, GoalError, TableWarning
from widemargin.goals import Goal
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.preprocessing import TablePreprocessor
from widemargin.solvers.base import Progress as SolverProgress

__all__ = [
    "HELD_OUT",
    "SEED",
    "Prepared",
    "ended_by_hand",
    "file_sha256",
    "prepare",
    "read_stored",
    "run",
    "sha256_of",
    "short_values",
    "stored",
    "sweep",
    "table_name",
]

DPI = 150
INTERRUPTED = 130


SEED = 0
HELD_OUT = 0.2
"""Share of the rows that is held out where the goals file names no split."""
MAX_BYTES = 1 << 26
KIND = "widemargin tradeoff"
FORMAT = 1
SHORT = (-2, -1, 0, 1, 2)
"""Steps of a short path around a bound."""
STEP = 0.02
"""Its step in shares; of another bound 5% of it."""


@dataclass(frozen=True)
class Prepared:
    """Rows of a goals file, what makes features of them, these features, and the SHA-256 of the main table."""

    goals: GoalsFile
    data: TrainingData
    step: TablePreprocessor
    matrices: Features
    digest: str

    def classifier(
        self, progress: Progress, goal: Goal | None, budget: float | None, *, on_interrupt: str = "return"
    ) -> RateConstrainedClassifier:
        """The estimator that the file describes, for a goal and a time."""
        model = self.goals.model

        # A function, because sweeps clone the estimator, and a terminal cannot be copied.
        def watch(told: SolverProgress) -> None:
            progress.watch(told)

        return RateConstrainedClassifier(
            goal, C=model.C, enforce=model.enforce, pos_label=self.goals.data.positive, time_budget=budget,
            on_infeasible="warn", callbacks=[watch], random_state=SEED,
            **gathered({"on_interrupt": on_interrupt, **model.kernel}),
        )  # fmt: skip


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
    return (INTERRUPTED if by_hand else int(len(path) < path.n_asked or not path.met.all())), content | {
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
    now = entry.level
    for value in (values[0], values[-1]):
        try:
            entry.at_level(float(value))
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


def prepare(goals: GoalsFile, progress: Progress) -> Prepared:
    """Read the tables of a goals file and make their features."""
    progress.step("reading the table")
    data = read_data(goals)
    progress.step("preparing the features")
    step, matrices = make_features(goals, data)
    return Prepared(goals, data, step, matrices, sha256_of(goals.data.table))


def sweep(
    prepared: Prepared,
    label: str,
    values: Sequence[float],
    progress: Progress,
    *,
    budget: float | None,
    resume: TradeoffPath | None = None,
) -> TradeoffPath:
    """The path of one constraint, measured on the held-out rows; from the points of an earlier one on, if given."""
    rows, matrices = prepared.data.rows, prepared.matrices.rows
    train = rows["train"]
    assert train.y is not None  # a goals file names the target of its table
    held: dict[str, Any] = {"validation_fraction": HELD_OUT}
    if "test" in rows:
        test = rows["test"]
        held = {"validation": (matrices["test"], test.y, test.populations, test.sample_weight)}
    return tradeoff_path(
        prepared.classifier(progress, prepared.goals.goal, budget), matrices["train"], train.y,
        values=values, constraint=label, sample_weight=train.sample_weight, populations=train.populations,
        external=as_external(prepared.data.external, prepared.matrices.external), resume=resume, **held,
    )  # fmt: skip


def ended_by_hand(path: TradeoffPath, budget: float | None, seconds: float) -> bool:
    """Whether a sweep that took so long ended before its time, which only Ctrl-C does."""
    return len(path) < path.n_asked and (budget is None or seconds < budget)


def short_values(goal: Goal, label: str) -> list[float] | None:
    """A few bounds around that of a constraint, from loose to strict; None where it has no single bound."""
    entry = goal.constraints[goal.place_of(label)]
    try:
        level = entry.level
        floor = entry.difference is None if isinstance(entry, Bundle) else entry.compared_with_level()[2]
    except GoalError:
        return None
    size = STEP if abs(level) <= 1.0 else 0.05 * abs(level)
    values = [round(level + number * size, 10) for number in SHORT]
    values = [value for value in values if _is_possible(entry, value)]
    return values if floor else values[::-1]


def _is_possible(entry: Constraint | Bundle, level: float) -> bool:
    try:
        entry.at_level(level)
    except GoalError:
        return False
    return True


def stored(prepared: Prepared, path: TradeoffPath) -> dict[str, Any]:
    """A path with what it was made from, fit for JSON; as long as points are missing also its models, as numbers."""
    goals = prepared.goals
    unfinished = len(path) < path.n_asked and len(path.models) == len(path)
    return {
        "kind": KIND,
        "format": FORMAT,
        "widemargin": __version__,
        "goals_file": goals.path.name,
        "goal": str(goals.goal),
        "settings": settings_of(goals),
        "table": {
            "name": table_name(goals.data.table),
            "sha256": prepared.digest,
            "rows": {part: content.n_rows for part, content in prepared.data.rows.items()},
        },
        "path": path.to_dict(),
        **({"models": [model_numbers(model) for model in path.models]} if unfinished else {}),
    }


def settings_of(goals: GoalsFile) -> dict[str, Any]:
    """What the models of a path were trained with besides the goal."""
    model = goals.model
    plain = {"C": model.C, "enforce": model.enforce, "numbers": model.numbers, "bins": model.bins, "seed": SEED}
    weight = {} if goals.data.weight is None else {"weight": goals.data.weight}
    return plain | {"rare_words": model.rare_words, "kernel": dict(model.kernel)} | weight


def read_stored(file: Path, prepared: Prepared) -> TradeoffPath:
    """A stored path that was made from the same table, goal and settings.

    Raises
    ------
    DataError
        The file cannot be read, holds no path, or one of something else.
    """
    plain = _read_json(file)
    if not isinstance(plain, dict) or plain.get("kind") != KIND:
        raise DataError(
            f"{file}: holds no trade-off of widemargin tradeoff. Make it by: widemargin tradeoff --out {file}"
        )
    if plain.get("format") != FORMAT:
        raise DataError(
            f"{file}: has format {plain.get('format')!r}; this version reads format {FORMAT}. Make it again"
        )
    goals, table = prepared.goals, plain.get("table")
    differing = {
        "the goal": plain.get("goal") == str(goals.goal),
        "the model's settings": plain.get("settings") == settings_of(goals),
        "the table": isinstance(table, dict) and table.get("sha256") == prepared.digest,
    }
    strange = [what for what, same in differing.items() if not same]
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


def _read_json(file: Path) -> Any:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise DataError(f"{file}: larger than {MAX_BYTES} bytes, which no stored path is. Make it again")
        return json.loads(raw.decode("utf-8"))
    except OSError as error:
        raise DataError(f"{file}: the file cannot be read ({error.strerror}). Check the path") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: no JSON text ({str(error)[:200]}). Make it again") from error


def sha256_of(table: TablePath) -> str:
    """Of the bytes of a file; of a table in several files, of their fingerprints in order."""
    found = [file_sha256(file) for file in table_files(table)]
    return found[0] if len(found) == 1 else hashlib.sha256("".join(found).encode()).hexdigest()


def file_sha256(file: Path) -> str:
    """Of the bytes of a file."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file}: the file cannot be read ({error.strerror}). Check the path") from error


def table_name(table: TablePath) -> str:
    """Names of its files, without their place."""
    return ", ".join(part.name for part in ((table,) if isinstance(table, Path) else table))

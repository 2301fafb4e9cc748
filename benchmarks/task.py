"""What a benchmark declares, with its tables and targets, and what its parts are handed while they run."""

import contextlib
import importlib
import inspect
import os
import re
import statistics
import string
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest.mock import patch

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from benchmarks.data.halves import HALVES, Half, check
from benchmarks.machine import ROOT

T = TypeVar("T")
Row = dict[str, Any]
Content = Mapping[str, Any]


class MissingPartError(KeyError):
    """A part that was not measured yet."""


class Parts(dict[str, Any]):
    """The content of a result file, which says so where a part was not measured."""

    def __missing__(self, name: str) -> Any:
        raise MissingPartError(name)


def made(make: Callable[[Content], Iterable[T]], content: Content) -> list[T]:
    """A list of what is made of a content; nothing where it is made of parts that were not measured yet."""
    with contextlib.suppress(MissingPartError):
        return list(make(content))
    return []


class _Cells(string.Formatter):
    """Cells of tables: "-" for what is missing or NaN, "yes" and "NO" for truth, `:±.3f` for a mean with its error."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        """A field by its keys: names, and places in lists, such as `path[median_s]` or `to_1[0]`."""
        value: Any = kwargs
        for key in re.findall(r"[^\[\]]+", field_name):
            try:
                value = value[int(key) if isinstance(value, list | tuple) else key]
            except (KeyError, TypeError, IndexError):
                return None, field_name
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None or value != value:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "NO"
        if format_spec.startswith("±"):
            mean, error = (format(part, format_spec[1:]) for part in value)
            return mean if error.endswith("nan") else f"{mean} ± {error.lstrip('+')}"
        if isinstance(value, list | tuple):
            return ", ".join(format(part, format_spec) for part in value)
        return str(value) if isinstance(value, str) else format(value, format_spec)


@dataclass(frozen=True)
class Table:
    """A table of the result page, and of any document that asks for it."""

    title: str
    # The part whose rows it shows, or what makes them of the whole content.
    rows: str | Callable[[Content], Iterable[Mapping[str, Any]]]
    # Columns between bars: a field with its format, whose name is the heading, or a heading and how its cells are made
    # of a row: `n:, | median_s:.2f | ratio to the peer: {times:.1f}`. Empty: every field of the rows.
    columns: str = ""

    def markdown(self, content: Content) -> str:
        """The table itself, without its title; nothing where there are no rows."""
        part = self.rows
        rows = list(content.get(part, [])) if isinstance(part, str) else made(part, content)
        if not rows:
            return ""
        wanted = " ".join(self.columns.split()).split(" | ") if self.columns else [f"{name}:.4g" for name in rows[0]]
        columns = [cell.partition(": ")[::2] for cell in wanted]
        cells = [[name if form else name.partition(":")[0].replace("_", " ") for name, form in columns]]
        cells += [[_Cells().format(form or f"{{{name}}}", **row) for name, form in columns] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [" | ".join(map(str.ljust, line, widths)) for line in cells]
        rule = "|".join("-" * (width + 2) for width in widths)
        return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])]) + "\n"


def table_of(rows: Sequence[Row], columns: str) -> str:
    """A table of rows that are at hand."""
    return Table("", lambda _: rows, columns).markdown({})


@dataclass(frozen=True)
class Limit:
    """A measurement beside its target, at most or at least; None where nothing was asked."""

    what: str
    measured: float
    limit: float | None
    unit: str = ""
    at_least: bool = False
    # Where a peer's seconds are divided by ours: what both do, and the peer.
    case: str = ""
    peer: str = ""

    def to_row(self) -> Row:
        """For tables."""
        row = {"what": self.what, "measured": f"{self.measured:.3g} {self.unit}".rstrip()}
        if self.limit is None:
            return row | {"target": None, "reached": None}
        how, reached = "at most", self.measured <= self.limit
        if self.at_least:
            how, reached = "at least", self.measured >= self.limit
        return row | {"target": f"{how} {self.limit:,.4g} {self.unit}".rstrip(), "reached": reached}


def ratios(
    case: str, seconds: Mapping[str, float | None], ours: str, peers: Mapping[str, float | None]
) -> Iterable[Limit]:
    """Every peer's seconds over ours, medians of one run, beside its target; above 1 ours is the quicker one."""
    for peer, target in peers.items():
        if (mine := seconds.get(ours)) and (its := seconds.get(peer)):
            what = f"{case}: seconds of {peer} over those of {ours}"
            yield Limit(what, its / mine, target, at_least=True, case=case, peer=peer)


@dataclass
class Timing:
    """Repeated runs of one case: wall and processor seconds of each, and what the last one returned."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    result: Any = None

    @classmethod
    def of(cls, run: Callable[[], Any], times: int = 1) -> "Timing":
        """So many runs, without their warnings."""
        timing = cls()
        with quietly():
            for _ in range(times):
                timing.add(run)
        return timing

    def add(self, run: Callable[[], Any], used: Callable[[], float] = time.process_time) -> "Timing":
        """One run more; `used` are the processor seconds so far."""
        processor, wall = used(), time.perf_counter()
        self.result = run()
        self.wall.append(time.perf_counter() - wall)
        self.processor.append(used() - processor)
        return self

    @property
    def median(self) -> float:
        """Median wall seconds."""
        return statistics.median(self.wall)

    @property
    def processor_median(self) -> float:
        """Median processor seconds, the steadier ones on a machine with other work."""
        return statistics.median(self.processor)


class Task:
    """One benchmark: a class of a module of `benchmarks.tasks`, by whose name it is called.

    Its docstring says what it answers, and on what: the first lines of its result page. Its attributes that are tables
    are shown there, and in any document that asks for them by name.
    """

    name: str
    # What measures, by the name under which the result file keeps the rows.
    parts: Mapping[str, Callable[["Context"], Any]] = {}
    # Which constants might have been chosen on the data, and which half of its data sets the task reads (see
    # `benchmarks.data.halves`). Only what is measured on the reporting half, or has nothing to do with chosen
    # constants ("neutral"), may be claimed in the documentation.
    subject = "goals"
    half: Half | Literal["neutral"] = "reporting"
    # Distributions that are not in every environment of this library. What was recorded beside them is not replaced
    # by a run without.
    peers: Sequence[str] = ()
    repeats = 5
    # Whether the parts themselves say how many threads are used; else it is one.
    threads = False
    processes = 1
    # Where its sentences stand.
    document = "docs/comparison.md"

    def __init_subclass__(cls, **settings: object) -> None:
        """These stand in the head of a class where they differ."""
        cls.name = cls.__name__
        for name, value in settings.items():
            if not hasattr(cls, name):
                raise TypeError(f"{cls.__name__}: a task has no setting {name!r}")
            setattr(cls, name, value)

    def targets(self, content: Content) -> Iterable[Limit]:
        """What was aimed at, beside what was measured."""
        return ()

    def sentences(self, content: Content) -> Iterable[str]:
        """Texts that the document has to say word for word."""
        return ()

    def picture(self, content: Content, path: Path) -> None:
        """Draw a content into a file."""

    @property
    def question(self) -> str:
        """The docstring on one line."""
        return " ".join((inspect.getdoc(type(self)) or "").split())

    def tables(self) -> dict[str, Table]:
        """Its tables by name, and "targets": what was asked for and what was measured."""
        classes = reversed(type(self).__mro__)
        own = {name: its for each in classes for name, its in vars(each).items() if isinstance(its, Table)}
        asked = Table(
            "Targets",
            lambda content: [item.to_row() for item in made(self.targets, content) if item.limit is not None],
            "what | measured | target | reached",
        )
        return own | {"targets": asked}


@dataclass(frozen=True)
class Context:
    """What a part may use; a quick run has small data that are drawn here."""

    task: Task
    quick: bool = False
    data: Path | None = None

    def pick(self, full: T, quick: T) -> T:
        """What a quick run has instead."""
        return quick if self.quick else full

    @property
    def repeats(self) -> int:
        """Timed repeats, or draws and splits."""
        return 1 if self.quick else self.task.repeats

    @property
    def folder(self) -> Path:
        """Folder of the data: as given, else $WIDEMARGIN_DATA, else `../shared/data` beside the repository."""
        from widemargin.datasets import data_folder  # with scikit-learn: a second of every process that needs no data

        return data_folder(self.data) or ROOT.parent / "shared" / "data"

    def load(self, name: str) -> Any:
        """A data set or a drawn family, if it is of this task's half; in a quick run rows that stand in for it."""
        check(name, self.task.subject, self.task.half)
        from benchmarks.data.sources import SOURCES  # with much that a process without data need not wait for

        read, stand_in = SOURCES[name]
        return stand_in() if self.quick else read(self.folder)

    def every(self, quick: slice) -> Iterator[tuple[str, Any]]:
        """The data sets of this task's half, by name; in a quick run some of them."""
        for name in HALVES[self.task.subject][self.task.half][self.pick(slice(None), quick)]:
            yield name, self.load(name)

    def peer(self, module: str) -> Any:
        """A module of a peer; None, with a message, where it is not installed."""
        try:
            return importlib.import_module(module)
        except ImportError as error:
            print(f"without {module}: {error} (install the dependency group `bench`)", file=sys.stderr)
            return None

    def clock(
        self, cases: Mapping[Any, Callable[[], Any]], *, warm_up: bool | None = None,
        used: Callable[[], float] = time.process_time,
    ) -> dict[Any, Timing]:  # fmt: skip
        """Run every case in turn, again and again, so that a slow minute of the machine hits all of them."""
        timings = {name: Timing() for name in cases}
        with quietly():
            if not self.quick if warm_up is None else warm_up:
                for run in cases.values():
                    run()
            for _ in range(self.repeats):
                for name, run in cases.items():
                    timings[name].add(run, used)
        return timings

    def side_by_side(self, function: Callable[..., T], cases: Iterable[tuple[Any, ...]]) -> list[T]:
        """What a function returns for each of some cases, on all cores; nothing is timed there."""
        return list(Parallel(n_jobs=self.pick(-1, 1))(delayed(function)(*case) for case in cases))

    def fresh(self, function: Callable[..., T], *arguments: Any, **environment: str) -> T:
        """What `function(context, *arguments)` returns in a process of its own (a quick run stays in this one)."""
        if self.quick and not environment:
            return function(self, *arguments)
        with patch.dict(os.environ, environment):
            return alone(_on_one_thread, function, self, *arguments)


def alone(function: Callable[..., T], *arguments: Any) -> T:
    """What a function returns in a process of its own, which imports no task but those that it is handed."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _on_one_thread(function: Callable[..., T], *arguments: Any) -> T:
    with threadpool_limits(1):
        return function(*arguments)


def each_fresh(function: Callable[..., Any], cases: Sequence[tuple[Any, ...]], quick: slice) -> Callable[..., Any]:
    """A part whose rows are what a function returns for each of some cases, each in a process of its own."""
    return lambda ctx: [ctx.fresh(function, *case) for case in ctx.pick(cases, cases[quick])]


def tasks_of(module: str) -> dict[str, Task]:
    """The tasks that a module declares, by name."""
    found = importlib.import_module(module)
    classes = (each for each in vars(found).values() if isinstance(each, type) and each.__module__ == module)
    return {each.name: each() for each in classes if issubclass(each, Task)}


def all_tasks() -> dict[str, Task]:
    """Every task by its name."""
    files = sorted((Path(__file__).parent / "tasks").glob("[!_]*.py"))
    return {name: task for file in files for name, task in tasks_of(f"benchmarks.tasks.{file.stem}").items()}


def grouped(rows: Iterable[Row], *keys: str) -> Iterator[tuple[Any, list[Row]]]:
    """Rows that agree in some fields, under the value of the one field or the tuple of several, in order."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        values = tuple(row.get(key) for key in keys)
        found.setdefault(values if len(keys) > 1 else values[0], []).append(row)
    yield from found.items()


def quietly() -> contextlib.AbstractContextManager[object]:
    """Without warnings."""
    return warnings.catch_warnings(action="ignore")


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error (NaN for one value)."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return statistics.fmean(values), error


def paired(ours: Iterable[float], theirs: Iterable[float]) -> tuple[float, float]:
    """By how much values lie above others of the same draws, and the standard error of that."""
    return mean_and_error([mine - other for mine, other in zip(ours, theirs, strict=True)])

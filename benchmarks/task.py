"""What a benchmark declares, and what its parts are handed while they run."""

import contextlib
import importlib
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest.mock import patch

from threadpoolctl import threadpool_limits

from benchmarks.cells import Content, MissingPartError, Parts, Row, Table
from benchmarks.data.halves import Half, check
from benchmarks.machine import ROOT, version_of

__all__ = [
    "Content", "Context", "Limit", "MissingPartError", "Parts", "Row", "Table", "Task", "Timing", "all_tasks",
    "each_fresh", "grouped", "mean_and_error", "modules", "paired", "quietly", "ratio", "ratios", "tasks_of",
]  # fmt: skip

T = TypeVar("T")


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
        how, missed = "at least" if self.at_least else "at most", None
        if self.limit is not None:
            missed = self.measured < self.limit if self.at_least else self.measured > self.limit
        return {
            "what": self.what, "measured": f"{self.measured:.3g} {self.unit}".rstrip(),
            "target": None if missed is None else f"{how} {self.limit:,.4g} {self.unit}".rstrip(),
            "reached": None if missed is None else not missed,
        }  # fmt: skip


def ratio(case: str, ours: str, peer: str, times: float, target: float | None = None) -> Limit:
    """A peer's seconds over ours, medians of one run; above 1 ours is the quicker one."""
    what = f"{case}: seconds of {peer} over those of {ours}"
    return Limit(what, times, target, at_least=True, case=case, peer=peer)


def ratios(
    case: str, seconds: Mapping[str, float | None], ours: str, peers: Mapping[str, float | None]
) -> Iterable[Limit]:
    """Of every peer (with its target) that was measured."""
    for peer, target in peers.items():
        if seconds.get(ours) and seconds.get(peer):
            yield ratio(case, ours, peer, seconds[peer] / seconds[ours], target)


@dataclass
class Timing:
    """Repeated runs of one case: wall and processor seconds of each, and what the last one returned."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    result: Any = None

    @classmethod
    def of(cls, run: Callable[[], Any]) -> "Timing":
        """One run, without its warnings."""
        with quietly():
            return cls().add(run)

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


@dataclass(frozen=True)
class Task:
    """One benchmark."""

    # What it answers, and on what; the first lines of its result page.
    question: str
    # What measures, by the name under which the result file keeps the rows.
    parts: Mapping[str, Callable[["Context"], Any]]
    # By the name that documents ask for.
    tables: Mapping[str, Table] = field(default_factory=dict)
    targets: Callable[[Content], Iterable[Limit]] = lambda content: ()
    # Pairs of a document and a text that it has to say word for word.
    sentences: Callable[[Content], Iterable[tuple[str, str]]] = lambda content: ()
    # Which constants might have been chosen on the data, and which half of its data sets the task reads (see
    # `benchmarks.data.halves`). Only what is measured on the reporting half, or has nothing to do with chosen
    # constants ("neutral"), may be claimed in the documentation.
    subject: str = "goals"
    half: Half | Literal["neutral"] = "reporting"
    # Distributions that are not in every environment of this library. What was recorded beside them is not replaced
    # by a run without.
    peers: tuple[str, ...] = ()
    repeats: int = 5
    # Whether the parts themselves say how many threads are used; else it is one.
    threads: bool = False
    processes: int = 1
    # Whether it is left out where no task is named.
    asked_only: bool = False
    # Draws a content into a file.
    picture: Callable[[Content, Path], None] | None = None

    def judged(self, content: Content) -> list[Limit]:
        """The targets; none where what they are about was not measured yet."""
        return _of_what_is_there(self.targets, content)

    def said(self, content: Content) -> list[tuple[str, str]]:
        """The sentences, likewise."""
        return _of_what_is_there(self.sentences, content)

    def table(self, name: str) -> Table:
        """A table by its name; "targets" is there for every task: what was asked for and what was measured."""
        if name != "targets":
            return self.tables[name]

        def asked(content: Content) -> list[Row]:
            return [item.to_row() for item in self.judged(content) if item.limit is not None]

        return Table("Targets", asked, "what | measured | target | reached")

    def lacking(self) -> list[str]:
        """Peers that are not installed here."""
        return [name for name in self.peers if version_of(name) is None]


def _of_what_is_there(make: Callable[[Content], Iterable[T]], content: Content) -> list[T]:
    with contextlib.suppress(MissingPartError):
        return list(make(content))
    return []


@dataclass(frozen=True)
class Context:
    """What a part may use; a quick run has small data that are drawn here."""

    task: Task
    quick: bool = False
    given_repeats: int | None = None
    data: Path | None = None

    def pick(self, full: T, quick: T) -> T:
        """What a quick run has instead."""
        return quick if self.quick else full

    @property
    def repeats(self) -> int:
        """Timed repeats."""
        return 1 if self.quick else self.given_repeats or self.task.repeats

    @property
    def folder(self) -> Path:
        """Folder of the data: as given, else $WIDEMARGIN_DATA, else `../shared/data` beside the repository."""
        from widemargin.datasets import data_folder  # with scikit-learn: a second of every process that needs no data

        return data_folder(self.data) or ROOT.parent / "shared" / "data"

    def load(self, name: str) -> Any:
        """A data set or a drawn family, if it is of this task's half; in a quick run rows that stand in for it."""
        check(name, self.task.subject, self.task.half)
        sources = importlib.import_module("benchmarks.data.sources").SOURCES
        return sources[name](None if self.quick else self.folder)

    def peer(self, module: str) -> Any:
        """A module of a peer; None, with a message, where it is not installed."""
        try:
            return importlib.import_module(module)
        except ImportError as error:
            print(f"without {module}: {error} (install the dependency group `bench`)", file=sys.stderr)
            return None

    def clock(
        self, cases: Mapping[Any, Callable[[], Any]], repeats: int | None = None, *, warm_up: bool | None = None,
        used: Callable[[], float] = time.process_time,
    ) -> dict[Any, Timing]:  # fmt: skip
        """Run every case in turn, again and again, so that a slow minute of the machine hits all of them."""
        timings = {name: Timing() for name in cases}
        with quietly():
            if not self.quick if warm_up is None else warm_up:
                for run in cases.values():
                    run()
            for _ in range(repeats or self.repeats):
                for name, run in cases.items():
                    timings[name].add(run, used)
        return timings

    def fresh(self, function: Callable[..., T], *arguments: Any, **environment: str) -> T:
        """What `function(context, *arguments)` returns in a process of its own (a quick run stays in this one).

        The function stands in the module that declares the task, and the process imports no other task.
        """
        if self.quick and not environment:
            return function(self, *arguments)
        tasks = sys.modules[function.__module__].TASKS
        name = next(name for name, task in tasks.items() if task is self.task)
        sent = replace(self, task=None)  # tasks hold functions that cannot be sent, so their name is
        with patch.dict(os.environ, environment), ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(_alone, function, name, sent, arguments).result()


def _alone(function: Callable[..., T], name: str, context: Context, arguments: Sequence[Any]) -> T:
    with threadpool_limits(1):
        return function(replace(context, task=sys.modules[function.__module__].TASKS[name]), *arguments)


def each_fresh(
    function: Callable[..., Any], cases: Sequence[tuple[Any, ...]], quick_cases: Sequence[tuple[Any, ...]]
) -> Callable[[Context], list[Any]]:
    """A part whose rows are what a function returns for each of some cases, each in a process of its own."""
    return lambda ctx: [ctx.fresh(function, *case) for case in ctx.pick(cases, quick_cases)]


def modules() -> list[str]:
    """The modules of `benchmarks.tasks` that declare tasks."""
    folder = Path(__file__).parent / "tasks"
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def tasks_of(module: str) -> dict[str, Task]:
    """The tasks of a module of `benchmarks.tasks`, or of one named in full, by name."""
    found: dict[str, Task] = importlib.import_module(module if "." in module else f"benchmarks.tasks.{module}").TASKS
    return found


def all_tasks() -> dict[str, Task]:
    """Every task by its name."""
    return {name: task for module in modules() for name, task in tasks_of(module).items()}


def grouped(rows: Iterable[Row], *keys: str) -> Iterator[tuple[Any, list[Row]]]:
    """Rows that agree in some fields, under the value of the one field or the tuple of several, in order."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        values = tuple(row.get(key) for key in keys)
        found.setdefault(values if len(keys) > 1 else values[0], []).append(row)
    yield from found.items()


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error (NaN for one value)."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return statistics.fmean(values), error


def paired(ours: Iterable[float], theirs: Iterable[float]) -> tuple[float, float]:
    """By how much values lie above others of the same draws, and the standard error of that."""
    return mean_and_error([mine - other for mine, other in zip(ours, theirs, strict=True)])

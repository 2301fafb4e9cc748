"""What each device of speed is worth on data that it was not tuned on; and each number among the options."""

import dataclasses
import gc
import importlib
import pkgutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import widemargin
import widemargin as wm
from benchmarks.data.families import Rows
from benchmarks.task import Content, Context, Row, Table, Task, quietly
from widemargin import KernelSVC, kernel_search
from widemargin._byte_dots import has_instruction
from widemargin.distributed.tables import labelled_rows
from widemargin.distributed.workers import block_map
from widemargin.estimators._options import SolverOptions

# --- devices of speed -------------------------------------------------------------------------------------------------

STAYS, WORTH = 1.1, 1.3
"""A device below the first gains less than 10% and goes; the second is what its authors asked of it."""


@contextmanager
def _products(zeros: bool, byte_rows: bool) -> Iterator[None]:
    """Products that leave entries out that are 0, and those of bytes, or neither: BLAS for all dense rows."""
    with ExitStack() as stack:
        if not zeros:
            stack.enter_context(patch("widemargin.kernels.packed_rows.is_mostly_zero", return_value=False))
        if not byte_rows:
            stack.enter_context(patch("widemargin.kernels.packed_rows.byte_rows_of", return_value=None))
        yield


def _kernel_fit(rows: Rows, *, zeros: bool = True, byte_rows: bool = True, **parameters: Any) -> KernelSVC:
    with quietly(), _products(zeros, byte_rows):
        return KernelSVC(random_state=0, **parameters).fit(*rows)


ZEROS, BYTES, NESTED, SPATIAL = "entries that are 0 left out", "rows of bytes", "nested subsamples", "spatial order"
WITHOUT: dict[str, Row] = {
    ZEROS: {"zeros": False},
    BYTES: {"byte_rows": False},
    NESTED: {"solver": "dual"},
    SPATIAL: {"solver": "nested-dual"},
}
"""The devices, and what a fit without one is given."""

NARROW: Row = {"C": 10.0, "gamma": 500.0}
KERNEL_CASES: tuple[tuple[str, str, Row | None], ...] = (
    (BYTES, "drawn: counts", None), (BYTES, "drawn: all shades", None), (BYTES, "drawn: textures", None),
    (ZEROS, "mushrooms", None), (ZEROS, "drawn: one-hot", None), (ZEROS, "drawn: counts", None),
    (ZEROS, "drawn: images", None), (NESTED, "drawn: board, 2 columns", None), (NESTED, "drawn: board, 3 columns",
        None),
    (NESTED, "drawn: spirals", None), (NESTED, "drawn: clusters", None), (NESTED, "letter", None),
    (SPATIAL, "drawn: blocks", NARROW), (SPATIAL, "drawn: towns", NARROW),
)  # fmt: skip
"""Device, data, and parameters (None: the defaults, and those of a search on 1,500 rows)."""


def _kernel_rows(ctx: Context, name: str) -> Rows:
    data = ctx.load(name)
    if name == "letter":
        return data[0] / 15.0, (data[1] <= 13).astype(int)
    if not callable(data):
        return data
    return ctx.pick(data, partial(data, 300))()


def kernel_devices(ctx: Context) -> list[Row]:
    """Processor seconds of the same fits with each device of KernelSVC and without it."""
    found = []
    for device, name, given in ctx.pick(KERNEL_CASES, KERNEL_CASES[4:5] + KERNEL_CASES[7:8]):
        if device == BYTES and not has_instruction():
            continue
        rows = _kernel_rows(ctx, name)
        settings = {"defaults": {}} if ctx.quick else {"given": given} if given else {
            "defaults": {}, "searched": kernel_search(KernelSVC(), *rows, n_rows=1500, random_state=0).best_params
        }  # fmt: skip
        for setting, parameters in settings.items():
            with_it, without = dict(parameters or {}), dict(parameters or {}) | WITHOUT[device]
            if device in (ZEROS, BYTES):  # the same solver on both sides
                with_it["solver"] = without["solver"] = "dual"
            if device == ZEROS:  # what is left of it where bytes are not multiplied
                with_it["byte_rows"] = without["byte_rows"] = False
            cases = {"with": partial(_kernel_fit, rows, **with_it), "without": partial(_kernel_fit, rows, **without)}
            found.append(_gain(ctx, device, name, setting, rows[0].shape, cases))
    return found


def _gain(
    ctx: Context, device: str, data: str, setting: str, shape: Sequence[int], cases: Mapping[str, Callable[[], Any]]
) -> Row:
    runs = ctx.clock(cases, warm_up=ctx.quick)
    seconds = {side: run.processor_median for side, run in runs.items()}
    return {
        "device": device, "data": data, "rows": shape[0], "columns": shape[1], "setting": setting,
        "with_s": seconds["with"], "without_s": seconds["without"], "times": seconds["without"] / seconds["with"],
    }  # fmt: skip


def by_device(content: Content) -> list[Row]:
    """Every device once: least, median and largest gain over its data, and whether it stays."""
    made = []
    rows = [row for part in ("cases", "goals", "structures") for row in content.get(part, [])]
    for device in dict.fromkeys(row["device"] for row in rows):
        gains = sorted(row["times"] for row in rows if row["device"] == device)
        made.append({
            "device": device, "cases": len(gains), "least": gains[0], "median": float(np.median(gains)),
            "most": gains[-1],
            "verdict": "stays" if np.median(gains) >= STAYS else "gains less than 10%: goes",
        })  # fmt: skip
    return made


def goal_devices(ctx: Context) -> list[Row]:
    """The same for fits to goals: each device is switched off in this process where the solver reads it."""
    from benchmarks.tasks._goal_devices import DEVICES

    found = []
    for device, (make, without) in DEVICES.items():
        for data, fit, shape in make(ctx):

            def off(fit: Callable[[], Any] = fit, without: Any = without) -> Any:
                with without():
                    return fit()

            fit()  # compiles
            found.append(_gain(ctx, device, data, "defaults", shape, {"with": fit, "without": off}))
    return found


# --- numbers among the options ----------------------------------------------------------------------------------------

Fit = tuple[Callable[[], Any], Callable[[Any], float]]
"""A fit, and the number that it is judged by."""

FACTORS = (0.25, 4.0)
OBJECTIVE, SECONDS = 1e-3, 1.2
PARITY = 'a = population(g == "a")\nb = population(g == "b")\nsubject to positive_rate(a) >= 0.8 * positive_rate(b)\n'
FLOOR = "subject to recall() >= 0.8"


def grouped(seed: int, n: int, d: int, noise: float) -> tuple[Any, Any, Any]:
    """Correlated columns, labels of a linear score with one product in it, a third positive; a table of two groups."""
    rng = np.random.default_rng([20, seed])
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / np.sqrt(d))
    score = X @ rng.normal(size=d) / np.sqrt(d) + 0.5 * X[:, 0] * X[:, 1] + noise * rng.logistic(size=n)
    y = (score > np.quantile(score, 2 / 3)).astype(int)
    return X, y, pa.table({"g": np.where(X[:, 2] + rng.normal(size=n) > 0.5, "a", "b")})


def _error(fitted: Any) -> float:
    return float(fitted.goal_report_.objective)


def goals() -> Iterator[Fit]:
    """Recall floor and the 80% rule: by Newton steps, the interior point and conjugate gradients, and in conflict."""
    goal = PARITY + "subject to recall() >= 0.7\n"
    hopeless = goal + "subject to precision() >= 0.97\nsubject to positive_rate() >= 0.5\n"
    shapes = ((1, 3000, 12, 0.3), (2, 1500, 40, 0.6), (3, 60000, 5, 1.0))
    wide = ((21, 200, 900, 0.3), (22, 300, 700, 0.6), (23, 250, 1600, 1.0))
    for text, of, options in (
        (goal, shapes, {}), (goal, shapes, {"solver": "interior-point"}), (hopeless, shapes[:2], {}), (goal, wide, {}),
    ):  # fmt: skip
        for seed, n, d, noise in of:
            X, y, table = grouped(seed, min(n, 2000) if options else n, d, noise)
            model = wm.RateConstrainedClassifier(text, on_infeasible="warn", solver_options=options)
            yield partial(model.fit, X, y, populations=table), _error
    for seed, n, d, noise in ((24, 500, 10, 0.3), (25, 400, 20, 0.6), (26, 500, 5, 1.0)):
        X, y, _ = grouped(seed, n, d, noise)
        yield partial(wm.RateConstrainedClassifier(FLOOR, kernel="rbf", C=1.0).fit, X, y), _error


def blocks() -> Iterator[Fit]:
    """Thin rows in blocks by the level method, as where they are too many to be gathered."""
    for seed, n, d, noise in ((27, 3000, 800, 0.3), (28, 2000, 1000, 0.6), (29, 4000, 800, 1.0)):
        rng, share = np.random.default_rng([20, seed]), 0.02
        X = sp.random_array((n, d), density=share, format="csr", rng=rng)
        score = X @ rng.normal(size=d) / np.sqrt(share * d) + noise * rng.logistic(size=n)
        rows = block_map(labelled_rows(X, (score > np.quantile(score, 2 / 3)).astype(int)), None)
        model = wm.RateConstrainedClassifier(FLOOR, solver_options={"solver": "bundle"})
        yield partial(model.fit_blocks, rows), _error


def paper() -> Iterator[Fit]:
    """The paper's nest on three drawn tables."""
    for seed, n, d, noise in ((4, 3000, 8, 0.3), (5, 2000, 30, 0.6), (6, 5000, 5, 1.0)):
        X, y, _ = grouped(seed, n, d, noise)
        model = wm.RateConstrainedClassifier(FLOOR, solver_options={"solver": "cutting-plane"})
        yield partial(model.fit, X, y), _error


def thresholds() -> Iterator[Fit]:
    """Thresholds by group, and drawn at random, for a scorer on three drawn tables."""
    for seed, n, d, noise in ((7, 6000, 8, 0.3), (8, 3000, 8, 0.5), (9, 12000, 8, 1.0)):
        X, y, table = grouped(seed, n, d, noise)
        scorer = FrozenEstimator(LogisticRegression().fit(X, y))
        for more in ({"randomize": True}, {"per_population": "g"}, {}):
            model = wm.GoalThresholdClassifier(scorer, PARITY, on_infeasible="warn", random_state=0, **more)
            yield partial(model.fit, X, y, populations=table), _error


def kernels(ctx: Context) -> Iterator[Fit]:
    """Each of the duals, hold-out stopping, LIBSVM's algorithm and the batch perceptron on three drawn families."""
    for name, n in (("drawn: clusters", 1500), ("drawn: one-hot", 1000), ("drawn: spirals", 1500)):
        X, y = ctx.load(name)(n)
        for options in ({"solver": "dual"}, {"solver": "nested-dual"}, {"solver": "spatial-dual"}, {"tol": None},
                        {"solver": "smo"}, {"solver": "sbp", "max_iter": 300}):  # fmt: skip
            model = wm.KernelSVC(C=10, random_state=0, **options)
            yield partial(model.fit, X, y), lambda fitted, X=X, y=y: 2.0 - float(fitted.score(X, y))


def structures() -> Iterator[Fit]:
    """Label sets of three drawn tables."""
    for seed, n, labels in ((10, 600, 6), (11, 400, 12), (12, 1000, 4)):
        rng = np.random.default_rng([20, seed])
        X = rng.normal(size=(n, 20))
        Y = (X @ rng.normal(size=(20, labels)) + rng.normal(size=(n, labels)) > 1.0).astype(int)
        for solver in ("bcfw", "cutting-plane", "one-slack", "sgd"):
            model = wm.MultiLabelSVC(edges="full", C=1.0, tol=0.01, max_iter=20, solver=solver, random_state=0)
            yield partial(model.fit, X, Y), lambda fitted: float(fitted.history_[-1]["primal"])


def records() -> list[type[Any]]:
    """The options records of solvers; those that users set have their reasons in their own documentation."""
    places = ("widemargin.solvers.", "widemargin.structured.", "widemargin.estimators.kernel_svm")
    for module in pkgutil.walk_packages(widemargin.__path__, "widemargin."):
        if module.name.startswith(places):
            importlib.import_module(module.name)
    modules = [module for name, module in sys.modules.items() if name.startswith("widemargin.")]
    kinds = {
        kind for module in modules for name, kind in vars(module).items()
        if name.endswith("Options") and dataclasses.is_dataclass(kind) and not issubclass(kind, SolverOptions)
    }  # fmt: skip
    return sorted(kinds, key=lambda kind: (kind.__module__, kind.__name__))


@contextmanager
def set_to(kind: type[Any], name: str, value: float) -> Iterator[None]:
    """A field of a record with another value: in every record there is, and in those that are made meanwhile."""
    before, defaults = getattr(kind, name), kind.__init__.__defaults__
    there = [one for one in gc.get_objects() if type(one) is kind]
    names = [item.name for item in dataclasses.fields(kind)]
    place = names.index(name) - len(names)
    for one in there:
        object.__setattr__(one, name, value)
    setattr(kind, name, value)
    kind.__init__.__defaults__ = (*defaults[:place], value, *defaults[place:][1:])
    try:
        yield
    finally:
        for one in there:
            object.__setattr__(one, name, before)
        setattr(kind, name, before)
        kind.__init__.__defaults__ = defaults


@contextmanager
def _reads(kinds: Sequence[type[Any]]) -> Iterator[set[tuple[type[Any], str]]]:
    """Which fields of which records are read meanwhile."""
    seen: set[tuple[type[Any], str]] = set()

    def noting(self: Any, name: str) -> Any:
        seen.add((type(self), name))
        return object.__getattribute__(self, name)

    for kind in kinds:
        kind.__getattribute__ = noting
    try:
        yield seen
    finally:
        for kind in kinds:
            del kind.__getattribute__


def _judged(fit: Callable[[], Any], objective: Callable[[Any], float]) -> tuple[float, float]:
    """Objective and processor seconds of a fit; the least of several times, as others may work beside."""
    seconds: list[float] = []
    while not seconds or (sum(seconds) < 0.15 and len(seconds) < 20):
        started = time.process_time()
        fitted = fit()
        seconds.append(time.process_time() - started)
    return objective(fitted), min(seconds)


def fields(fits: Callable[..., Iterator[Fit]], ctx: Context) -> list[Row]:
    """Every numeric field that some of the fits read, four times as large and a quarter, one at a time."""
    made, kinds = list(fits(ctx) if fits is kernels else fits())[: ctx.pick(None, 1)], records()
    numeric = {
        (kind, item.name)
        for kind in kinds
        for item in dataclasses.fields(kind)
        if isinstance(item.default, int | float) and not isinstance(item.default, bool)
    }
    readers: dict[tuple[type[Any], str], list[int]] = {}
    before, rows = [], []
    with quietly():
        for number, (fit, objective) in enumerate(made):
            with _reads(kinds) as seen:
                fit()  # compiles
            for read in seen & numeric:
                readers.setdefault(read, []).append(number)
            before.append(_judged(fit, objective))
        every = sorted(readers.items(), key=lambda item: (item[0][0].__name__, item[0][1]))
        for (kind, name), numbers in every[: ctx.pick(None, 2)]:
            value = getattr(kind, name)
            row: Row = {
                "record": kind.__name__,
                "field": name,
                "value": value,
                "read by": len(numbers),
                "matters": False,
            }
            for factor in FACTORS:
                other = max(1, round(value * factor)) if isinstance(value, int) else value * factor
                try:
                    with set_to(kind, name, other):
                        after = [_judged(*made[k]) for k in numbers]
                    pairs = [(before[k], there) for k, there in zip(numbers, after, strict=True)]
                    moved = max(abs(b - a) / max(abs(a), 1e-12) for (a, _), (b, _) in pairs)
                    times = sum(b for _, (_, b) in pairs) / sum(a for (_, a), _ in pairs)
                except Exception as fault:  # a value that the solver cannot work with makes a difference
                    moved = times = float("inf")
                    print(f"{kind.__name__}.{name}={other}: {fault}", file=sys.stderr)
                row |= {f"objective x{factor:g}": moved, f"time x{factor:g}": times}
                row["matters"] = row["matters"] or bool(moved > OBJECTIVE or not 1 / SECONDS < times < SECONDS)
            print(row, flush=True)
            rows.append(row)
    return rows


OPTION_FITS = {
    "goals": goals, "blocks": blocks, "paper": paper, "thresholds": thresholds, "kernels": kernels,
    "structures": structures,
}  # fmt: skip


def _fields_of_all(content: Content) -> Iterable[Row]:
    return [{"fits": part} | row for part in OPTION_FITS for row in content.get(part, []) if isinstance(row, dict)]


TASKS = {
    "kernel_ablations": Task(
        "What each device of `KernelSVC` is worth on drawn families and public data that played no part in its "
        "tuning: the same "
        "fit with and without it, processor seconds, medians of interleaved repeats. Rows of bytes need AVX-512 VNNI.",
        {"cases": kernel_devices},
        {
            "devices": Table(
                "Every device of the kernel solvers, its gain on the reporting half", by_device,
                "device | cases | least gain: {least:.2f} | median: {median:.2f} | largest: {most:.2f} | verdict",
            ),
            "cases": Table(
                f"Case by case (asked: {WORTH} on two of them)", "cases",
                "device | data | rows: {rows:,} | columns | setting | with, s: {with_s:.2f} | without, s: "
                "{without_s:.2f} | times: {times:.2f}",
            ),
        },
        subject="kernels", repeats=3,
    ),
    "goal_ablations": Task(
        "What each device of the fits to goals is worth on data that nothing was chosen on: the same fit with and "
        "without it, processor seconds, medians of interleaved repeats.",
        {"goals": goal_devices},
        {
            "devices": Table(
                "Every device of the fits to goals, its gain on the reporting half", by_device,
                "device | cases | least gain: {least:.2f} | median: {median:.2f} | largest: {most:.2f} | verdict",
            ),
            "cases": Table(
                "Case by case", "goals",
                "device | data | rows: {rows:,} | columns | with, s: {with_s:.3f} | without, s: {without_s:.3f} | "
                "times: {times:.2f}",
            ),
        },
        repeats=3,
    ),
    "option_ablations": Task(
        "What each number among the solvers' options is worth: whole fits with it four times as large, and a quarter, "
        "on drawn tables that nothing was chosen on. A field that moves no objective by a thousandth and no time by a "
        "fifth need not be one.",
        {part: partial(fields, fits) for part, fits in OPTION_FITS.items()},
        {
            "fields": Table(
                "Relative change of the objective and of the processor time, one field at a time", _fields_of_all,
                "fits | record | field | value: {value:g} | read by | objective /4: {objective x0.25:.1e} "
                "| time /4: {time x0.25:.2f} | objective x4: {objective x4:.1e} | time x4: {time x4:.2f} | matters",
            ),
        },
        subject="kernels", asked_only=True,
    ),
}  # fmt: skip

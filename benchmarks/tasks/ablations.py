"""What each device of speed is worth on data that it was not tuned on."""

import dataclasses
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from typing import Any
from unittest.mock import patch

import numpy as np

import widemargin as wm
from benchmarks.data.families import Rows
from benchmarks.data.goal_rows import GoalRows
from benchmarks.task import Content, Context, Row, Table, Task, quietly
from widemargin import KernelSVC, kernel_search
from widemargin._byte_dots import has_instruction
from widemargin.solvers.convex.linear_system import SystemOptions
from widemargin.solvers.convex.proximal import NewtonOptions
from widemargin.solvers.convex.subsample_start import SampleOptions

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


def _cases(content: Content) -> Iterable[Row]:
    return (row for part in content.values() if isinstance(part, list) for row in part)


def by_device(content: Content) -> list[Row]:
    """Every device once: least, median and largest gain over its data, and whether it stays."""
    made = []
    rows = list(_cases(content))
    for device in dict.fromkeys(row["device"] for row in rows):
        gains = sorted(row["times"] for row in rows if row["device"] == device)
        made.append({
            "device": device, "cases": len(gains), "least": gains[0], "median": float(np.median(gains)),
            "most": gains[-1],
            "verdict": "stays" if np.median(gains) >= STAYS else "gains less than 10%: goes",
        })  # fmt: skip
    return made


# --- fits to goals ----------------------------------------------------------------------------------------------------


@cache
def _records(kind: type[Any]) -> list[Any]:
    """The records of a kind that were there at the first call: to look for them takes as long as a small fit."""
    return [one for one in gc.get_objects() if type(one) is kind]


@contextmanager
def _set(kind: type[Any], **values: float) -> Iterator[None]:
    """Fields of a record with other values: in every record there is, and in those that are made meanwhile."""
    names, defaults = [item.name for item in dataclasses.fields(kind)], kind.__init__.__defaults__
    before = {name: getattr(kind, name) for name in values}
    records = _records(kind)

    def write(values: Mapping[str, float]) -> None:
        for record in records:
            for name, value in values.items():
                object.__setattr__(record, name, value)

    write(values)
    kind.__init__.__defaults__ = tuple(values.get(name, old) for name, old in zip(names, defaults, strict=True))
    try:
        yield
    finally:
        write(before)
        kind.__init__.__defaults__ = defaults


Case = tuple[str, Callable[[], Any], tuple[int, int]]
NEVER = 10**18


def _goal_fit(task: GoalRows) -> wm.RateConstrainedClassifier:
    with quietly():
        made = wm.RateConstrainedClassifier(task.goal, on_infeasible="warn")
        return made.fit(task.X, task.y, populations=task.populations)


def _on(*sizes: tuple[str, int, int]) -> Callable[[Context], Iterator[Case]]:
    """Whole fits on drawn families, each so many rows and columns (of the mixed ones: constraints)."""

    def cases(ctx: Context) -> Iterator[Case]:
        for name, n, second in ctx.pick(sizes, sizes[:1]):
            task = ctx.load(name)(ctx.pick(n, 800), ctx.pick(second, min(second, 20)))
            yield name, partial(_goal_fit, task), (task.X.shape[0], task.X.shape[1])

    return cases


MIXED, HEAVY = "drawn: mixed columns", "drawn: heavy columns"
GOAL_DEVICES: dict[str, tuple[Callable[[Context], Iterator[Case]], Callable[[], AbstractContextManager[None]]]] = {
    "a start on a sample of the rows": (
        _on((MIXED, 125_000, 4), (MIXED, 500_000, 4), (HEAVY, 120_000, 50)),
        partial(_set, SampleOptions, rows=NEVER, numbers=NEVER),
    ),
    "products of rows in float32 where rounding averages out": (
        _on((HEAVY, 32_000, 250), (HEAVY, 32_000, 500), (HEAVY, 16_000, 1000)),
        partial(_set, SystemOptions, single_rows=float(NEVER), rounding=float(NEVER)),
    ),
    "Newton's matrix corrected by the rows that changed": (
        _on((HEAVY, 4_000, 1000), (HEAVY, 16_000, 1000), (HEAVY, 4_000, 2000)),
        partial(_set, SystemOptions, corrected=float(NEVER)),
    ),
    "Newton's matrix factored up to 3,000 dense features": (
        _on((HEAVY, 4_000, 1600), (HEAVY, 2_000, 2000), (HEAVY, 4_000, 2000)),
        partial(_set, NewtonOptions, iterate_from=1500),
    ),
}


def goal_device(device: str, ctx: Context) -> list[Row]:
    """The same for fits to goals: the device is switched off in this process where the solver reads it."""
    found, (make, without) = [], GOAL_DEVICES[device]
    for data, fit, shape in make(ctx):

        def off(fit: Callable[[], Any] = fit) -> Any:
            with without():
                return fit()

        fit()  # compiles
        with without():  # finds the records that it writes to
            pass
        found.append(_gain(ctx, device, data, "defaults", shape, {"with": fit, "without": off}))
    return found


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
        {device: partial(goal_device, device) for device in GOAL_DEVICES},
        {
            "devices": Table(
                "Every device of the fits to goals, its gain on the reporting half", by_device,
                "device | cases | least gain: {least:.2f} | median: {median:.2f} | largest: {most:.2f} | verdict",
            ),
            "cases": Table(
                "Case by case", _cases,
                "device | data | rows: {rows:,} | columns | with, s: {with_s:.3f} | without, s: {without_s:.3f} | "
                "times: {times:.2f}",
            ),
        },
        repeats=3,
    ),
}  # fmt: skip

"""What each device of speed is worth on data that it was not tuned on."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

from benchmarks.data.families import Rows
from benchmarks.task import Content, Context, Row, Table, Task, Timing, grouped
from benchmarks.tasks.kernel_speed import rows_of
from widemargin import KernelSVC, kernel_search
from widemargin._byte_dots import has_instruction
from widemargin.solvers.convex import proximal, subsample_start

STAYS, WORTH = 1.1, 1.3
"""A device below the first gains less than 10% and goes; the second is what its authors asked of it."""


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


def by_device(content: Content) -> Iterable[Row]:
    """Every device once: least, median and largest gain over its data, and whether it stays."""
    for device, rows in grouped(_cases(content), "device"):
        gains = [row["times"] for row in rows]
        median = statistics.median(gains)
        verdict = "stays" if median >= STAYS else "gains less than 10%: goes"
        yield {"device": device, "cases": len(gains), "least": min(gains), "median": median, "most": max(gains),
               "verdict": verdict}  # fmt: skip


# --- kernel SVMs ------------------------------------------------------------------------------------------------------

ZEROS, BYTES, NESTED, SPATIAL = "entries that are 0 left out", "rows of bytes", "nested subsamples", "spatial order"
SIDES: dict[str, tuple[Row, Row]] = {
    ZEROS: ({"solver": "dual", "without": BYTES}, {"solver": "dual", "without": ZEROS}),
    BYTES: ({"solver": "dual"}, {"solver": "dual", "without": BYTES}),
    NESTED: ({"solver": "nested-dual"}, {"solver": "dual"}),
    SPATIAL: ({}, {"solver": "nested-dual"}),
}
"""What a fit with each device is given, and one without. Zeros are left out where bytes are not multiplied."""

NARROW: Row = {"C": 10.0, "gamma": 500.0}
KERNEL_CASES: tuple[tuple[str, str, Row | None], ...] = (
    *((BYTES, name, None) for name in ("drawn: counts", "drawn: textures")),
    *((ZEROS, name, None) for name in ("mushrooms", "drawn: one-hot", "drawn: counts")),
    *((NESTED, name, None) for name in ("drawn: board, 2 columns", "drawn: board, 3 columns", "letter")),
    *((SPATIAL, name, NARROW) for name in ("drawn: blocks", "drawn: towns")),
)  # fmt: skip
"""Device, data, and parameters (None: the defaults, and those of a search on 1,500 rows)."""

PACKED = "widemargin.kernels.packed_rows"
SWITCHED = {
    BYTES: lambda: patch(f"{PACKED}.byte_rows_of", return_value=None),
    # All dense rows are left to BLAS.
    ZEROS: lambda: patch.multiple(PACKED, byte_rows_of=lambda *_, **__: None, is_mostly_zero=lambda *_, **__: False),
}


def _kernel_fit(rows: Rows, without: str = "", **parameters: Any) -> KernelSVC:
    with SWITCHED.get(without, nullcontext)():
        return KernelSVC(random_state=0, **parameters).fit(*rows)


def kernel_devices(ctx: Context) -> list[Row]:
    """Processor seconds of the same fits with each device of KernelSVC and without it."""
    found = []
    for device, name, given in ctx.pick(KERNEL_CASES, KERNEL_CASES[3:4] + KERNEL_CASES[5:6]):
        if device == BYTES and not has_instruction():
            continue
        rows = rows_of(ctx, name)
        settings: dict[str, Row] = {"given": given} if given else {"defaults": {}}
        if given is None and not ctx.quick:
            settings["searched"] = kernel_search(KernelSVC(), *rows, n_rows=1500, random_state=0).best_params
        for setting, parameters in settings.items():
            sides = [partial(_kernel_fit, rows, **parameters | side) for side in SIDES[device]]
            cases = dict(zip(("with", "without"), sides, strict=True))
            found.append(_gain(ctx, device, name, setting, rows[0].shape, cases))
    return found


# --- fits to goals ----------------------------------------------------------------------------------------------------

NEVER = float(10**18)
MIXED, HEAVY = "drawn: mixed columns", "drawn: heavy columns"
GOAL_DEVICES: dict[str, tuple[Any, tuple[tuple[str, int, int], ...]]] = {
    "a start on a sample of the rows": (
        patch.dict(vars(subsample_start.DEFAULTS), rows=NEVER, numbers=NEVER),
        ((MIXED, 125_000, 4), (MIXED, 500_000, 4), (HEAVY, 120_000, 50)),
    ),
    "products of rows in float32 where rounding averages out": (
        patch.dict(vars(proximal.DEFAULTS.system), single_rows=NEVER, rounding=NEVER),
        ((HEAVY, 32_000, 250), (HEAVY, 32_000, 500), (HEAVY, 16_000, 1000)),
    ),
    "Newton's matrix corrected by the rows that changed": (
        patch.dict(vars(proximal.DEFAULTS.system), corrected=NEVER),
        ((HEAVY, 4_000, 1000), (HEAVY, 16_000, 1000), (HEAVY, 4_000, 2000)),
    ),
    "Newton's matrix factored up to 3,000 dense features": (
        patch.dict(vars(proximal.DEFAULTS), iterate_from=1500),
        ((HEAVY, 4_000, 1600), (HEAVY, 2_000, 2000), (HEAVY, 4_000, 2000)),
    ),
}
"""What leaves a device out, where the solver reads its options; data, rows, and columns or constraints."""


def goal_device(device: str, ctx: Context) -> list[Row]:
    """The same for fits to goals."""
    found, (left_out, sizes) = [], GOAL_DEVICES[device]
    for data, n, second in ctx.pick(sizes, sizes[:1]):
        task = ctx.load(data)(ctx.pick(n, 800), ctx.pick(second, min(second, 20)))
        Timing.of(task.fit)  # compiles
        cases = {"with": task.fit, "without": left_out(task.fit)}
        found.append(_gain(ctx, device, data, "defaults", task.X.shape, cases))
    return found


_DEVICES = "device | cases | least gain: {least:.2f} | median: {median:.2f} | largest: {most:.2f} | verdict"


class kernel_ablations(Task, subject="kernels", repeats=3):
    """What each device of `KernelSVC` is worth on drawn families and public data that played no part in its tuning: the
    same fit with and without it, processor seconds, medians of interleaved repeats. Rows of bytes need AVX-512 VNNI.
    """

    parts = {"cases": kernel_devices}
    devices = Table("Every device of the kernel solvers, its gain on the reporting half", by_device, _DEVICES)
    cases = Table(f"Case by case (asked: {WORTH} on two of them)", _cases, """
        device | data | rows:, | columns | setting | with, s: {with_s:.2f} | without, s: {without_s:.2f} | times:.2f
    """)  # fmt: skip


class goal_ablations(Task, repeats=3):
    """What each device of the fits to goals is worth on data that nothing was chosen on: the same fit with and without
    it, processor seconds, medians of interleaved repeats.
    """

    parts = {device: partial(goal_device, device) for device in GOAL_DEVICES}
    devices = Table("Every device of the fits to goals, its gain on the reporting half", by_device, _DEVICES)
    cases = Table("Case by case", _cases, """
        device | data | rows:, | columns | with, s: {with_s:.3f} | without, s: {without_s:.3f} | times:.2f
    """)  # fmt: skip

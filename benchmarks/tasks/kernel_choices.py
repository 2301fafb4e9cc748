"""The tables of docs/kernel-svm.md: searches, and what a small cache costs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from benchmarks.machine import resident_growth
from benchmarks.task import Context, Row, Table, Task, Timing, each_fresh
from benchmarks.tasks.kernel_speed import some, task
from widemargin import KernelSVC, SBPClassifier, kernel_search


def searches(ctx: Context) -> list[Row]:
    """25 cells of C (or nu) and gamma, five folds, on rows of a9a."""
    n = ctx.pick(2000, 200)
    of = some(task(ctx, "a9a"), n)
    Cs, gammas, nus = np.logspace(-1, 3, 5), np.logspace(-4, 0, 5), np.logspace(-3, -1, 5)
    shared: Row = {"gammas": gammas, "n_rows": n, "random_state": 0}
    cases: dict[str, Callable[[], Any]] = {
        "kernel_search, C": lambda: kernel_search(KernelSVC(), of.X, of.y, Cs=Cs, **shared),
        "kernel_search, nu": lambda: kernel_search(SBPClassifier(random_state=0), of.X, of.y, nus=nus, **shared),
        "GridSearchCV over SVC": lambda: GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=5).fit(of.X, of.y),
    }
    return [{"way": way, "processor_s": Timing.of(run).processor_median} for way, run in cases.items()]


def cached_fit(ctx: Context, size: float) -> Row:
    """A fit with the default C and width, with so many megabytes of kernel rows; memory as it grew at most."""
    of = some(task(ctx, "a9a"), ctx.pick(32_561, 400))._replace(C=1.0, gamma="scale")
    of._replace(X=of.X[:200], y=of.y[:200]).fit()  # compiles
    _, grown = resident_growth(partial(of.fit, cache_size=size))
    run = Timing.of(partial(of.fit, cache_size=size))
    return {
        "cache_size": size, "processor_s": run.processor_median, "grown_mb": grown,
        "kernel_rows": run.result.evaluations_ / len(of.y),
    }  # fmt: skip


class kernel_choices(Task, subject="kernels", half="tuning"):
    """The tables of docs/kernel-svm.md, processor seconds: `kernel_search` beside `GridSearchCV`, time and memory by
    size of the cache.
    """

    parts = {
        "memory": each_fresh(cached_fit, [(8.0,), (32.0,), (128.0,), (200.0,), (512.0,)], [(8.0,)]),
        "searches": searches,
    }
    searches = Table("25 cells on 2,000 rows of a9a", "searches", "way | processor s: {processor_s:.1f}")
    memory = Table(
        "a9a, 32,561 rows, C = 1, by the cache", "memory",
        "`cache_size`: {cache_size:.0f} | MB added: {grown_mb:.0f} | processor_s:.1f "
        "| kernel rows computed: {kernel_rows:,.0f}",
    )  # fmt: skip

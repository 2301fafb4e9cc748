"""The tables of docs/kernel-svm.md: searches, caches, classes, probabilities."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from benchmarks.machine import resident_growth
from benchmarks.task import Content, Context, Row, Table, Task, each_fresh, grouped
from benchmarks.tasks._kernels import KernelTask, fit, some, task
from widemargin import KernelSVC, SBPClassifier, kernel_search

SEEDS, DIGITS = 3, 6000


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
    runs = ctx.clock(cases, 1, warm_up=False)
    return [{"way": way, "processor_s": run.processor_median} for way, run in runs.items()]


def caches(ctx: Context) -> list[Row]:
    """Gap and kernel values of the batch perceptron by megabytes of cache, on 4,000 moons."""
    X, y = ctx.load("drawn: moons")(n=ctx.pick(4000, 400))
    of, rows = KernelTask(X, y, X, y, "scale", 1.0), []
    for size in (200.0, 20.0, 5.0):
        for solver in ("sbp", "sbp-unbiased"):
            model = fit(of, solver=solver, tol=None, cache_size=size)
            rows.append({
                "cache_size": size, "solver": solver, "gap": float(model.gap_),
                "values": model.evaluations_ / len(y) ** 2,
            })  # fmt: skip
    return rows


def cached_fit(ctx: Context, size: float) -> Row:
    """A fit with the default C and width, with so many megabytes of kernel rows; memory as it grew at most."""
    of = some(task(ctx, "a9a"), ctx.pick(32_561, 400))._replace(C=1.0, gamma="scale")
    fit(of._replace(X=of.X[:200], y=of.y[:200]))  # compiles
    _, grown = resident_growth(partial(fit, of, cache_size=size))
    run = ctx.clock({"fit": partial(fit, of, cache_size=size)}, 1, warm_up=False)["fit"]
    return {
        "cache_size": size, "processor_s": run.processor_median, "grown_mb": None if grown is None else grown / 1e6,
        "kernel_rows": run.result.evaluations_ / len(of.y),
    }  # fmt: skip


def classes(ctx: Context) -> list[Row]:
    """Ten digits: pairs and one against the rest."""
    digits, gamma = ctx.load("mnist"), 0.02
    rows = np.random.default_rng(0).permutation(digits.digit.shape[0])[: ctx.pick(DIGITS, 300)]
    X, y = digits.X[rows].astype(np.float64), digits.digit[rows]
    X_test, y_test = digits.X_test[:1000].astype(np.float64), digits.digit_test[:1000]
    single, rest = X.astype(np.float32), {"multi_class": "ovr"}
    ways: dict[str, tuple[Any, Any]] = {
        "SVC": (SVC(C=10, gamma=gamma), X),
        "pairs, float64, whole matrix": (KernelSVC(C=10, gamma=gamma, cache_size=1000), X),
        "pairs, float64, rows of pairs": (KernelSVC(C=10, gamma=gamma, cache_size=100), X),
        "pairs, float32, rows of pairs": (KernelSVC(C=10, gamma=gamma, cache_size=100), single),
        "against the rest, float32, whole matrix": (
            KernelSVC(C=10, gamma=gamma, cache_size=1000, solver_options=rest), single),
    }  # fmt: skip
    fits = ctx.clock({way: partial(model.fit, seen, y) for way, (model, seen) in ways.items()}, warm_up=False)
    found = []
    for way, run in fits.items():
        seen = X_test.astype(ways[way][1].dtype)
        predicted = ctx.clock({way: partial(run.result.predict, seen)}, warm_up=True)[way]
        values = getattr(run.result, "evaluations_", None)
        found.append({
            "way": way, "fit_s": run.processor_median, "predict_s": predicted.processor_median,
            "error": float(np.mean(predicted.result != y_test)),
            "values": None if values is None else float(np.sum(values)) / X.shape[0] ** 2,
        })  # fmt: skip
    return found


def probabilities(ctx: Context) -> list[Row]:
    """Mean log loss on 719 of scikit-learn's digits after training on 1,078, means of three splits."""
    X, y = load_digits(return_X_y=True)
    ways: dict[str, Callable[[], Any]] = {
        f"{how}, {title}": partial(KernelSVC, calibration=how, solver_options={"multi_class": classes}, random_state=0)
        for how in ("sigmoid", "isotonic") for title, classes in (("pairs", "ovo"), ("against the rest", "ovr"))
    }  # fmt: skip
    rows: list[Row] = []
    for seed, (way, make) in product(range(ctx.pick(SEEDS, 1)), ways.items()):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: ctx.pick(1078, 300)], order[1078:]
        model = make().fit(X[train], y[train])
        loss = log_loss(y[test], model.predict_proba(X[test]), labels=model.classes_)
        rows.append({"way": way, "log_loss": float(loss)})
    return pd.DataFrame(rows).groupby("way", sort=False).mean().reset_index().to_dict("records")


def _both(content: Content) -> Iterable[Row]:
    """One row for each size of the cache."""
    for size, found in sorted(grouped(content["caches"], "cache_size"), reverse=True):
        yield {"size": size} | {row["solver"]: row for row in found}


TASKS = {
    "kernel_choices": Task(
        "The tables of docs/kernel-svm.md, processor seconds: `kernel_search` beside `GridSearchCV`, time and memory "
        "by size of the cache, the batch perceptron by size of its cache, ten digits, and probabilities.",
        {
            "caches": caches,
            "memory": each_fresh(cached_fit, [(8.0,), (32.0,), (128.0,), (200.0,), (512.0,)], [(8.0,)]),
            "searches": searches, "classes": classes, "probabilities": probabilities,
        },
        {
            "searches": Table("25 cells on 2,000 rows of a9a", "searches",
                "way | processor s: {processor_s:.1f}"),
            "caches": Table(
                "The batch perceptron by its cache", _both,
                '`cache_size`: {size:.0f} | "sbp", gap: {sbp[gap]:.1%} | kernel values / n^2: {sbp[values]:.2f} '
                '| "sbp-unbiased", gap: {sbp-unbiased[gap]:.1%} | kernel values / n^2: {sbp-unbiased[values]:.2f}',
            ),
            "memory": Table(
                "a9a, 32,561 rows, C = 1, by the cache", "memory",
                "`cache_size`: {cache_size:.0f} | MB added: {grown_mb:.0f} | processor s: {processor_s:.1f} "
                "| kernel rows computed: {kernel_rows:,.0f}",
            ),
            "classes": Table(
                "Ten digits", "classes",
                "way | fit: {fit_s:.1f} | predict 1,000: {predict_s:.2f} | error: {error:.1%} | kernel values / n^2: "
                "{values:.2f}",
            ),
            "probabilities": Table("Mean log loss", "probabilities", "way | log loss: {log_loss:.3f}"),
        },
        subject="kernels", half="tuning",
    ),
}  # fmt: skip

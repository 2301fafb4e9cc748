"""The tables of docs/kernel-svm.md: solvers, stopping, searches, the batch perceptron's cache and algorithms, classes.

Processor seconds, medians of interleaved repeats, on one thread. Moons are scikit-learn's, drawn with seed 0.
Run as `python -m benchmarks.kernel_choices`; see README.md here.
"""

import argparse
import statistics
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.common import ROOT, MissingDataError, interleave, machine, one_thread, parser, show, skipped, write
from benchmarks.kernel_svm import Task, load
from widemargin import KernelSVC, SBPClassifier, kernel_search
from widemargin.datasets import data_folder, load_mnist

Row = dict[str, Any]

TEST_ROWS, STOP_TEST_ROWS = 5000, 9000
SEEDS = 3
DIGITS = 6000
MOONS = {"sbp": 4000, "published": 2000, "hard": 1000}


def some(task: Task, n: int, seed: int, n_test: int | None = None) -> Task:
    """n training rows drawn by a seed."""
    rows = np.random.default_rng(seed).permutation(task.y.shape[0])[:n]
    X_test, y_test = task.X_test[:n_test], task.y_test[:n_test]
    return Task(task.X[rows], task.y[rows], X_test, y_test, task.gamma, task.C, task.tol)


def noise(n: int) -> Task:
    """Labels that nothing tells, in ten columns, under a wide kernel."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 10)).astype(np.float32), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return Task(X, y, X[:0], y[:0], gamma=0.01, C=1.0)


def fit(task: Task, **options: Any) -> KernelSVC:
    """A whole fit, without its advice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = KernelSVC(**{"C": task.C, "gamma": task.gamma, "tol": task.tol, "random_state": 0} | options)
        return made.fit(task.X, task.y)


def timed(name: str, task: Task, ways: Mapping[str, Mapping[str, Any]], repeats: int) -> list[Row]:
    """Processor seconds and test error of several ways to fit a task."""
    small = Task(task.X[:200], task.y[:200], task.X_test, task.y_test, task.gamma, task.C, task.tol)
    for options in ways.values():
        fit(small, **options)  # compiles
    cases = {way: partial(fit, task, **options) for way, options in ways.items()}
    runs = interleave(cases, repeats, warm_up=False)
    return [
        {
            "data": name, "way": way, "processor_s": run.processor_median,
            "error": float(np.mean(run.result.predict(task.X_test) != task.y_test)) if len(task.y_test) else None,
        }
        for way, run in runs.items()
    ]  # fmt: skip


def solvers(options: argparse.Namespace) -> list[Row]:
    """Which solver when."""
    n = 400 if options.quick else None
    a9a, mnist, cover = (load(name, options) for name in ("adult", "mnist", "covtype"))
    dual, nested, spatial = ({"solver": name} for name in ("dual", "nested-dual", "spatial-dual"))
    both = {"dual": dual, "nested-dual": nested}
    rows = timed("a9a, 32,561 rows, C = 100", some(a9a, n or 32_561, 0, TEST_ROWS), both, options.repeats)
    rows += timed(
        "MNIST 8 against the rest, 16,000 rows", some(mnist, n or 16_000, 0, TEST_ROWS), both, options.repeats
    )  # fmt: skip
    rows += timed(
        "covtype, 8,000 rows, 10 columns, narrow kernel", some(cover, n or 8000, 0, TEST_ROWS),
        {"dual": dual, "spatial-dual": spatial}, options.repeats,
    )  # fmt: skip
    return rows + timed(
        "10,000 rows of noise in 10 columns, wide kernel", noise(n or 10_000), both | {"spatial-dual": spatial}, 1
    )


def stopping(options: argparse.Namespace) -> list[Row]:
    """`tol=1e-3` and `tol=None`, means over seeds."""
    ways = {"tol=1e-3": {}, "tol=None": {"tol": None}, "sbp, tol=None": {"solver": "sbp", "tol": None}}
    a9a, mnist = load("adult", options), load("mnist", options)
    rows = []
    for name, task, n in (
        ("Adult, 32,561 rows, C = 100", a9a, 32_561),
        ("Adult, 16,000 rows", a9a, 16_000),
        ("MNIST 8 against the rest, 16,000 rows", mnist, 16_000),
    ):
        n = 400 if options.quick else n
        every = [
            row for seed in range(1 if options.quick else SEEDS)
            for row in timed(name, some(task, n, seed, STOP_TEST_ROWS), _seeded(ways, seed), 1)
        ]  # fmt: skip
        for way in ways:
            mine = [row for row in every if row["way"] == way]
            rows.append({"data": name, "way": way} | {
                what: statistics.fmean(row[what] for row in mine) for what in ("processor_s", "error")
            })  # fmt: skip
    return rows


def _seeded(ways: Mapping[str, Mapping[str, Any]], seed: int) -> dict[str, dict[str, Any]]:
    return {way: {**options, "random_state": seed} for way, options in ways.items()}


def searches(options: argparse.Namespace) -> list[Row]:
    """25 cells of C (or nu) and gamma, five folds, on rows of a9a."""
    n = 200 if options.quick else 2000
    task = some(load("adult", options), n, 0)
    Cs, gammas, nus = np.logspace(-1, 3, 5), np.logspace(-4, 0, 5), np.logspace(-3, -1, 5)
    mine = {"gammas": gammas, "n_rows": n, "random_state": 0}
    grid = {"C": Cs, "gamma": gammas}
    cases: dict[str, Callable[[], Any]] = {
        "kernel_search, C": lambda: kernel_search(KernelSVC(), task.X, task.y, Cs=Cs, **mine),
        "kernel_search, nu": lambda: kernel_search(SBPClassifier(random_state=0), task.X, task.y, nus=nus, **mine),
        "GridSearchCV over SVC": lambda: GridSearchCV(SVC(), grid, cv=5).fit(task.X, task.y),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = interleave(cases, 1, warm_up=False)
    return [{"way": way, "processor_s": run.processor_median} for way, run in runs.items()]


def perceptron_caches(options: argparse.Namespace) -> list[Row]:
    """Gap and kernel values of the batch perceptron by megabytes of cache."""
    n = 400 if options.quick else MOONS["sbp"]
    X, y = make_moons(n, noise=0.3, random_state=0)
    task = Task(X, y, X, y, gamma="scale", C=1.0)  # type: ignore[arg-type]
    rows = []
    for size in (200.0, 20.0, 5.0):
        for solver in ("sbp", "sbp-unbiased"):
            model = fit(task, solver=solver, tol=None, cache_size=size)
            rows.append({
                "cache_size": size, "solver": solver, "gap": float(model.gap_), "values": model.evaluations_ / n**2,
                "accuracy": model.score(X, y),
            })  # fmt: skip
    return rows


def perceptron_algorithms(options: argparse.Namespace) -> list[Row]:
    """The default and the published algorithm at nu = .05, and hard margins."""
    n, hard = (200, 200) if options.quick else (MOONS["published"], MOONS["hard"])
    steps = 200 if options.quick else 10_000
    X, y = make_moons(n, noise=0.3, random_state=0)
    new, labels = make_moons(4000, noise=0.3, random_state=1)
    clean, classes = make_moons(hard, noise=0.1, random_state=0)
    cases = {
        "default, tol=.05": (X, y, {"nu": 0.05, "gamma": 1.0, "tol": 0.05}),
        "published, 10,000 steps": (X, y, {
            "nu": 0.05, "gamma": 1.0, "tol": 0.05, "solver_options": {"algorithm": "published"}, "max_iter": steps}),
        "nu = 0, gamma 2": (clean, classes, {"nu": 0.0, "gamma": 2.0, "tol": 0.01, "max_iter": steps}),
        "nu = 0, gamma 1": (clean, classes, {"nu": 0.0, "gamma": 1.0, "tol": 0.01, "max_iter": steps}),
    }  # fmt: skip
    rows = []
    for name, (rows_of, of, chosen) in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = interleave(
                {name: partial(SBPClassifier(random_state=0, **chosen).fit, rows_of, of)}, 1, warm_up=False
            )[name]
        model = run.result
        rows.append({
            "way": name, "gap": float(model.gap_), "steps": int(np.max(model.n_iter_)),
            "values": model.n_evaluations_ / rows_of.shape[0] ** 2, "processor_s": run.processor_median,
            "accuracy": model.score(rows_of, of),
            "error": 1 - model.score(new, labels) if chosen["nu"] else None,
        })  # fmt: skip
    return rows


def classes(options: argparse.Namespace) -> list[Row]:
    """Ten digits: pairs and one against the rest."""
    if options.quick:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 5))
        y = np.argmax(X[:, :4], axis=1)
        X_test, y_test, gamma = X, y, 0.2
    else:
        digits = load_mnist(data_folder(options.data) or ROOT.parent / "shared" / "data")
        rows = np.random.default_rng(0).permutation(digits.digit.shape[0])[:DIGITS]
        X, y, gamma = digits.X[rows].astype(np.float64), digits.digit[rows], 0.02
        X_test, y_test = digits.X_test[:1000].astype(np.float64), digits.digit_test[:1000]
    single = X.astype(np.float32)
    ways: dict[str, tuple[Any, Any]] = {
        "SVC": (SVC(C=10, gamma=gamma), X),
        "pairs, float64, whole matrix": (KernelSVC(C=10, gamma=gamma, cache_size=1000), X),
        "pairs, float64, rows of pairs": (KernelSVC(C=10, gamma=gamma, cache_size=100), X),
        "pairs, float32, rows of pairs": (KernelSVC(C=10, gamma=gamma, cache_size=100), single),
        "against the rest, float32, whole matrix": (
            KernelSVC(C=10, gamma=gamma, cache_size=1000, solver_options={"multi_class": "ovr"}), single),
    }  # fmt: skip
    fits = interleave(
        {way: partial(model.fit, rows_of, y) for way, (model, rows_of) in ways.items()}, options.repeats, warm_up=False
    )
    found = []
    for way, run in fits.items():
        seen = X_test.astype(ways[way][1].dtype)
        predicted = interleave({way: partial(run.result.predict, seen)}, 1)[way]
        values = getattr(run.result, "evaluations_", None)
        found.append({
            "way": way, "fit_s": run.processor_median, "predict_s": predicted.processor_median,
            "error": float(np.mean(predicted.result != y_test)),
            "values": None if values is None else float(np.sum(values)) / X.shape[0] ** 2,
        })  # fmt: skip
    return found


def unscaled(options: argparse.Namespace) -> list[Row]:
    """A linear kernel on features as they are, and scaled."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = (X[:150, :5], y[:150]) if options.quick else (X, y)
    ways = {"scaled": StandardScaler().fit_transform(X), "as they are": X}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = interleave({way: partial(KernelSVC(kernel="linear").fit, rows, y) for way, rows in ways.items()}, 1)
    return [{"way": way, "processor_s": run.processor_median} for way, run in runs.items()]


PARTS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "caches": perceptron_caches,
    "algorithms": perceptron_algorithms,
    "unscaled": unscaled,
    "searches": searches,
    "classes": classes,
    "solvers": solvers,
    "stopping": stopping,
}


def table(title: str, rows: Sequence[Row]) -> str:
    """Every field of the rows."""
    cells = [["-" if value is None else f"{value:.4g}" if isinstance(value, float) else value for value in row.values()]
             for row in rows]  # fmt: skip
    return show(title, list(rows[0]), cells)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--only", nargs="+", choices=tuple(PARTS), default=list(PARTS), help="parts")
    options = made.parse_args(arguments)
    options.repeats = 1 if options.quick else options.repeats
    about, found, sections = machine(), {}, []
    try:
        load("adult", options)  # to say at once where nothing can be done
        with one_thread():
            for name in options.only:
                found[name] = PARTS[name](options)
                sections.append(table(f"{name}: {PARTS[name].__doc__}", found[name]))
                write(options, "kernel_choices", {"machine": about, "parts": found}, sections)  # so far
    except MissingDataError as error:
        return skipped(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())

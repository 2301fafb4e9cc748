"""What each number among the solvers' options is worth: whole fits with it four times as large, and a quarter.

Every numeric field of an options record is changed in this process, one at a time, and those fits of its part of the
library that read it are repeated: three drawn tables for each solver, which nothing was chosen on. A field whose change
moves no objective by more than a thousandth and no processor time by more than a fifth makes no difference there: it
need not be an option. What guards against mistakes and hostile files never makes one, and stays; fields that no fit
read are listed as such, and nothing is said of them.

Run as `python -m benchmarks.option_ablations`; see README.md here.
"""

import dataclasses
import gc
import importlib
import pkgutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import widemargin
import widemargin as wm
from benchmarks.common import machine, one_thread, parser, show, write
from benchmarks.kernel_ablations import clusters, one_hot, spirals
from widemargin.distributed.tables import labelled_rows
from widemargin.distributed.workers import block_map
from widemargin.estimators._options import SolverOptions

Fit: TypeAlias = tuple[Callable[[], Any], Callable[[Any], float]]
"""A fit, and the number that it is judged by."""

FACTORS = (0.25, 4.0)
OBJECTIVE, SECONDS = 1e-3, 1.2


def scores(rng: np.random.Generator, n: int, d: int, noise: float) -> tuple[Any, Any]:
    """Correlated columns, a linear score with one product in it, and labels of which a third is positive."""
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / np.sqrt(d))
    score = X @ rng.normal(size=d) / np.sqrt(d) + 0.5 * X[:, 0] * X[:, 1] + noise * rng.logistic(size=n)
    return X, (score > np.quantile(score, 2 / 3)).astype(int)


PARITY = """
a = population(g == "a")
b = population(g == "b")
subject to positive_rate(a) >= 0.8 * positive_rate(b)
"""


def grouped(seed: int, n: int, d: int, noise: float) -> tuple[Any, Any, Any]:
    """Rows, labels, and a table with two groups."""
    rng = np.random.default_rng([20, seed])
    X, y = scores(rng, n, d, noise)
    return X, y, pa.table({"g": np.where(X[:, 2] + rng.normal(size=n) > 0.5, "a", "b")})


def error(fitted: Any) -> float:
    """The objective of a goal on the training rows."""
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
            yield partial(model.fit, X, y, populations=table), error
    for seed, n, d, noise in ((24, 500, 10, 0.3), (25, 400, 20, 0.6), (26, 500, 5, 1.0)):
        X, y, _ = grouped(seed, n, d, noise)
        model = wm.RateConstrainedClassifier("subject to recall() >= 0.8", kernel="rbf", C=1.0)
        yield partial(model.fit, X, y), error


def blocks() -> Iterator[Fit]:
    """Rows in blocks with so many columns that the level method takes them."""
    for seed, n, d, noise in ((27, 600, 1600, 0.3), (28, 500, 1700, 0.6), (29, 700, 1600, 1.0)):
        X, y, _ = grouped(seed, n, d, noise)
        rows = block_map(labelled_rows(X, y), None)
        yield partial(wm.RateConstrainedClassifier("subject to recall() >= 0.8").fit_blocks, rows), error


def paper() -> Iterator[Fit]:
    """The paper's nest on three drawn tables."""
    for seed, n, d, noise in ((4, 3000, 8, 0.3), (5, 2000, 30, 0.6), (6, 5000, 5, 1.0)):
        X, y, _ = grouped(seed, n, d, noise)
        model = wm.RateConstrainedClassifier("subject to recall() >= 0.8", solver_options={"solver": "cutting-plane"})
        yield partial(model.fit, X, y), error


def thresholds() -> Iterator[Fit]:
    """Thresholds by group, and drawn at random, for a scorer on three drawn tables."""
    for seed, n, d, noise in ((7, 6000, 8, 0.3), (8, 3000, 8, 0.5), (9, 12000, 8, 1.0)):
        X, y, table = grouped(seed, n, d, noise)
        scorer = FrozenEstimator(LogisticRegression().fit(X, y))
        for more in ({"randomize": True}, {"per_population": "g"}, {}):
            model = wm.GoalThresholdClassifier(scorer, PARITY, on_infeasible="warn", random_state=0, **more)
            yield partial(model.fit, X, y, populations=table), error


def kernels() -> Iterator[Fit]:
    """Each of the duals, hold-out stopping, LIBSVM's algorithm and the batch perceptron on three drawn families."""
    for make, n in ((clusters, 1500), (one_hot, 1000), (spirals, 1500)):
        X, y = make(n)
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


FITS = {
    "goals": goals, "blocks": blocks, "paper": paper, "thresholds": thresholds, "kernels": kernels,
    "structures": structures,
}  # fmt: skip


def records() -> list[type[Any]]:
    """The options records of solvers; those that users set have their reasons in their own documentation."""
    for module in pkgutil.walk_packages(widemargin.__path__, "widemargin."):
        if module.name.startswith(
            ("widemargin.solvers.", "widemargin.structured.", "widemargin.estimators.kernel_svm")
        ):
            importlib.import_module(module.name)
    kinds = {type(one) for one in gc.get_objects() if type(one).__name__.endswith("Options")}
    return sorted(
        (kind for kind in kinds if kind.__module__.startswith("widemargin.") and not issubclass(kind, SolverOptions)),
        key=lambda kind: (kind.__module__, kind.__name__),
    )


@contextmanager
def set_to(kind: type[Any], name: str, value: float) -> Iterator[None]:
    """A field of a record with another value: in every record there is, and in those that are made meanwhile."""
    before = getattr(kind, name)
    there = [one for one in gc.get_objects() if type(one) is kind]
    names = [item.name for item in dataclasses.fields(kind)]
    defaults = kind.__init__.__defaults__
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
def reads(kinds: Sequence[type[Any]]) -> Iterator[set[tuple[type[Any], str]]]:
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


def timed(fit: Callable[[], Any], objective: Callable[[Any], float]) -> tuple[float, float]:
    """Objective and processor seconds of a fit; the least of two times, as others may work beside."""
    seconds = []
    while not seconds or (sum(seconds) < 0.15 and len(seconds) < 20):
        started = time.process_time()
        fitted = fit()
        seconds.append(time.process_time() - started)
    return objective(fitted), min(seconds)


def effect(before: list[tuple[float, float]], after: list[tuple[float, float]]) -> tuple[float, float]:
    """Largest relative change of an objective, and how many times as long all fits take together."""
    moved = max(abs(b - a) / max(abs(a), 1e-12) for (a, _), (b, _) in zip(before, after, strict=True))
    return moved, sum(seconds for _, seconds in after) / sum(seconds for _, seconds in before)


def measured(families: Sequence[str]) -> Iterator[list[Any]]:
    """A row for every numeric field and family that reads it, and one for every field that none reads."""
    kinds = records()
    numeric = {
        (kind, item.name)
        for kind in kinds
        for item in dataclasses.fields(kind)
        if isinstance(item.default, int | float) and not isinstance(item.default, bool)
    }
    unread = set(numeric)
    for family in families:
        fits = list(FITS[family]())
        readers: dict[tuple[type[Any], str], list[int]] = {}
        before = []
        for number, (fit, objective) in enumerate(fits):
            with reads(kinds) as seen:
                fit()  # compiles
            for field in seen & numeric:
                readers.setdefault(field, []).append(number)
            before.append(timed(fit, objective))
        unread -= readers.keys()
        for (kind, name), numbers in sorted(readers.items(), key=lambda item: (item[0][0].__name__, item[0][1])):
            value, row, matters = getattr(kind, name), [family, kind.__name__, name], False
            row += [f"{value:g}", str(len(numbers))]
            for factor in FACTORS:
                other = max(1, round(value * factor)) if isinstance(value, int) else value * factor
                try:
                    with set_to(kind, name, other):
                        moved, times = effect([before[k] for k in numbers], [timed(*fits[k]) for k in numbers])
                except Exception as fault:  # a value that the solver cannot work with makes a difference
                    moved, times = np.inf, np.inf
                    print(f"{kind.__name__}.{name}={other}: {fault}", file=sys.stderr)
                row += [f"{moved:.1e}", f"{times:.2f}"]
                matters |= moved > OBJECTIVE or not 1 / SECONDS < times < SECONDS
            print(*row, matters, flush=True)
            yield [*row, "yes" if matters else "no"]
    for kind, name in sorted(unread, key=lambda item: (item[0].__name__, item[1])):
        yield ["-", kind.__name__, name, f"{getattr(kind, name):g}", "0", "", "", "", "", "not read"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every field."""
    given = parser(__doc__ or "")
    given.add_argument("--only", choices=FITS, help="the fits of this family only")
    options = given.parse_args(arguments)
    about = machine()
    families = ["paper"] if options.quick else [options.only] if options.only else list(FITS)
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = list(measured(families))
    heads = [
        "fits",
        "record",
        "field",
        "value",
        "read by",
        "objective /4",
        "time /4",
        "objective x4",
        "time x4",
        "matters",
    ]
    section = show("Relative change of the objective and of the processor time, one field at a time", heads, rows)
    write(options, "option_ablations", {"machine": about, "rows": rows}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())

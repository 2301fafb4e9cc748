"""What is chosen for kernel SVMs: parameters by searches, a cache, and the solver that "auto" takes on many tasks."""

import math
import signal
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.data.families import Rows, waves
from benchmarks.data.halves import half_of
from benchmarks.machine import resident_growth
from benchmarks.task import Content, Context, Row, Table, Task, Timing, each_fresh, quietly
from benchmarks.tasks.kernel_speed import rows_of, some, task
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
        "memory": each_fresh(cached_fit, [(8.0,), (32.0,), (128.0,), (200.0,), (512.0,)], slice(1)),
        "searches": searches,
    }
    searches = Table("25 cells on 2,000 rows of a9a", "searches", "way | processor s: {processor_s:.1f}")
    memory = Table("a9a, 32,561 rows, C = 1, by the cache", "memory", """
        `cache_size`: {cache_size:.0f} | MB added: {grown_mb:.0f} | processor_s:.1f
        | kernel rows computed: {kernel_rows:,.0f}
    """)  # fmt: skip


LIMIT, LONG = 60, 10
"""Seconds after which the fits of a solver are ended, and processor seconds from which a fit is not repeated."""

SOLVERS = ("dual", "nested-dual", "spatial-dual")
SPATIAL_COLUMNS = 32
SIZES = {"up to 1,000": (0, 1000), "up to 10,000": (1000, 10_000), "more": (10_000, math.inf)}


class Problem(NamedTuple):
    """What is drawn by what, or a data set, how many rows (and columns, and classes), and how they are trained on."""

    what: str
    draw: Callable[..., Rows] | str
    sizes: tuple[int, ...]
    C: float
    gamma: float | str = "scale"

    def rows(self, ctx: Context) -> Rows:
        """X and y; of a data set two classes, or MNIST's ten digits, or at most twenty letters."""
        if not isinstance(self.draw, str):
            return self.draw(*self.sizes)
        (n,) = self.sizes
        if "classes" in self.what:
            digits = ctx.load(self.draw)
            return digits.X[:n], digits.digit[:n]
        X, y = ctx.load(self.draw) if self.draw == "letter" else rows_of(ctx, self.draw)
        rows = np.random.default_rng(0).permutation(np.flatnonzero(np.isin(y, np.unique(y)[:20])))[:n]
        return X[rows], y[rows]


def moons(n: int, columns: int) -> Rows:
    """Two moons, beside columns of noise."""
    X, y = make_moons(n, noise=0.3, random_state=0)
    return np.hstack((X, 0.5 * np.random.default_rng(0).normal(size=(n, columns - 2)))), y


def clouds(n: int, columns: int, classes: int = 2, spread: float = 3.0) -> Rows:
    """A normal cloud for each class around a centre of norm about 1."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    centres = rng.normal(size=(classes, columns)) / math.sqrt(columns)
    return centres[y] + spread * rng.normal(size=(n, columns)) / math.sqrt(columns), y


def shells(n: int, columns: int) -> Rows:
    """A ball within a shell, far apart: few support vectors."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, columns)), np.arange(n) % 2
    radius = np.where(y == 1, rng.uniform(2.0, 3.0, n), rng.uniform(0.0, 1.0, n))
    return X * (radius / np.linalg.norm(X, axis=1))[:, None], y


def coins(n: int, columns: int) -> Rows:
    """Labels that nothing tells."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, columns)), rng.integers(0, 2, n)


def bundled(n: int, loader: Callable[..., Rows]) -> Rows:
    """A data set of scikit-learn, its columns scaled."""
    X, y = loader(return_X_y=True)
    return StandardScaler().fit_transform(X)[:n], y[:n]


KINDS: tuple[tuple[str, Callable[..., Rows] | str, float | str, tuple[tuple[float, ...], ...]], ...] = (
    ("moons, {1} columns", moons, "scale",
     ((50, 2, 1.0), (50, 2, 100.0), (200, 2, 1.0), (200, 2, 1e4), (1000, 2, 1.0), (1000, 2, 0.01), (3000, 2, 1e4),
      (3000, 2, 1.0), (10_000, 20, 1.0), (10_000, 20, 100.0), (30_000, 20, 1.0), (30_000, 20, 0.01))),
    ("shells, {1} columns", shells, "scale",
     ((10_000, 3, 1.0), (10_000, 5, 1.0), (30_000, 3, 1.0), (30_000, 8, 1.0), (100_000, 3, 1.0), (200_000, 5, 1.0))),
    ("clouds, {2} classes, {1} columns", partial(clouds, spread=0.5), "scale",
     ((1800, 20, 10, 10.0), (1800, 64, 10, 10.0), (4500, 20, 6, 10.0), (4500, 10, 6, 10.0), (2000, 50, 20, 10.0),
      (4000, 100, 20, 10.0), (500, 4, 4, 10.0), (900, 5, 3, 10.0))),
    ("clouds, {1} columns", clouds, "scale",
     ((2000, 1000, 1.0), (2000, 500, 100.0), (6000, 1000, 1.0), (6000, 1000, 100.0))),
    ("waves, {1} columns", waves, 1.0, ((5000, 3, 10.0), (5000, 6, 10.0), (20_000, 3, 10.0), (20_000, 10, 1.0))),
    ("coins, {1} columns", coins, "scale", ((1000, 10, 1.0), (1000, 10, 100.0), (5000, 5, 1.0), (5000, 30, 1.0))),
    ("a9a", "a9a", 1 / 200,
     ((1500, 1.0), (1500, 100.0), (8000, 100.0), (8000, 1.0), (32_561, 10.0), (32_561, 100.0))),
    ("MNIST 8", "mnist", 1 / 50, ((4000, 1.0), (4000, 10.0), (20_000, 1.0), (20_000, 10.0))),
    ("Forest, gamma 0.0001", "covtype", 1e-4, ((8000, 10.0),)),
    ("Forest, gamma 1e-06", "covtype", 1e-6, ((8000, 10.0),)),
    ("Forest, gamma 1e-05", "covtype", 1e-5, ((30_000, 10.0),)),
    ("Forest, gamma 0.0001", "covtype", 1e-4, ((30_000, 10.0),)),
    ("MNIST, 10 classes", "mnist", 1 / 50, ((3000, 10.0), (6000, 10.0))),
    ("mushrooms", "mushrooms", "scale", ((8000, 1.0), (4000, 100.0))),
    ("ijcnn1", "ijcnn1", "scale", ((10_000, 1.0), (40_000, 32.0))),
    ("letter", "letter", "scale", ((3000, 10.0), (10_000, 10.0))),
    *(
        (loader.__name__.removeprefix("load_"), partial(bundled, loader=loader), "scale", ((n, 1.0), (n, 100.0)))
        for loader, n in ((load_iris, 150), (load_wine, 178), (load_breast_cancer, 569), (load_digits, 1797))
    ),
)  # fmt: skip
"""What is drawn, by what or of which data set, gamma; and for each problem rows, columns, classes, and C."""

PROBLEMS = [
    Problem(what.format(*sizes), draw, tuple(map(int, sizes)), C, gamma)
    for what, draw, gamma, cases in KINDS
    for *sizes, C in cases
]
"""Alike ones one after the other: each half has some of every kind."""


def measured(ctx: Context, number: int, solver: str) -> Row:
    """Processor seconds of a fit, in a process of its own; nothing where the solver refused."""
    problem = PROBLEMS[number]
    X, y = problem.rows(ctx)
    given: Row = {"C": problem.C, "gamma": problem.gamma}
    made = SVC(**given) if solver == "LIBSVM" else KernelSVC(solver=solver, random_state=0, **given)
    timing = Timing()
    spent = timing.processor
    signal.alarm(0 if ctx.quick else LIMIT)  # ends the process
    try:
        # Short fits are repeated until their least time settles; long ones vary little. A first fit may compile.
        while len(spent) < 2 or (sum(spent[1:]) < 1.0 and (len(spent) < ctx.repeats or sum(spent[1:]) < 0.3)):
            if sum(spent) > LONG:
                break
            with quietly():
                timing.add(partial(made.fit, X, y))
    except ValueError:  # rows that the solver cannot put in spatial order
        return {}
    finally:
        signal.alarm(0)
    model = timing.result
    known = {"seconds": min(spent), "columns": X.shape[1], "classes": len(model.classes_)}
    known |= {"support": len(model.support_), "chosen": getattr(model, "solver_", solver)}
    if isinstance(model, KernelSVC):
        some = X[np.linspace(0, X.shape[0] - 1, min(X.shape[0], 256)).astype(int)]
        known["reach"] = float(np.mean(rbf_kernel(some, gamma=model.gamma_) > 2.0**-22))
    return known


def run(ctx: Context) -> list[Row]:
    """All problems of a half by all solvers; of drawn and bundled data those of odd number are to tune on."""
    rows = []
    for number, problem in enumerate(PROBLEMS):
        known = half_of(problem.draw, ctx.task.subject) if isinstance(problem.draw, str) else None
        n = problem.sizes[0]
        if (known or ("tuning" if number % 2 else "reporting")) != ctx.task.half or (ctx.quick and n > 100):
            continue
        row: Row = {"number": number, "problem": f"{problem.what}, {n:,} rows, C={problem.C:g}", "rows": n}
        for solver in ("auto", *SOLVERS, "LIBSVM"):
            if solver == "spatial-dual" and row.get("columns", 0) > SPATIAL_COLUMNS:
                continue  # spatial order leaves nothing out where columns are many
            try:
                found = ctx.fresh(measured, number, solver)
            except BrokenProcessPool:  # it took too long
                found = {}
            row[solver] = found.pop("seconds", None)
            row |= found if solver == "auto" else {}
        rows.append(row)
    return rows


def regret(rows: Sequence[Row], of: str, against: Sequence[str]) -> float:
    """Geometric mean of how many times as long as the best of some solvers that were not ended."""
    pairs = [(row[of], [row[name] for name in against if row.get(name) is not None]) for row in rows]
    times = [mine / min(others) for mine, others in pairs if others and mine is not None]
    return statistics.geometric_mean(times) if times else 1.0


def summary(content: Content) -> Iterator[Row]:
    """Regret of "auto", by the number of rows."""
    for size, (over, most) in SIZES.items():
        rows = [row for row in content["problems"] if over < row["rows"] <= most]
        slower = [row["auto"] / row["LIBSVM"] for row in rows if row["auto"] and row["LIBSVM"]]
        yield {
            "rows": size, "problems": len(rows), "times the best solver": regret(rows, "auto", SOLVERS),
            "times LIBSVM": regret(rows, "auto", ("LIBSVM",)), "worst against LIBSVM": max(slower, default=None),
            "slower than LIBSVM": sum(ratio > 1.0 for ratio in slower),
        }  # fmt: skip


_SECONDS = " | ".join(f"{name}: {{{name}:.4g}}" for name in ("auto", *SOLVERS, "LIBSVM"))


class kernel_problems(Task, subject="kernels"):
    """Synthetic and real problems of 50 to 200,000 rows, 2 to 1,000 columns, 2 to 20 classes, few and many support
    vectors, C from 0.01 to 1e4: the solver that "auto" takes against every solver, and against LIBSVM. Every fit runs
    in a process of its own, and is ended after a limit. Processor seconds, the least of some repeats.
    """

    parts = {"problems": run}
    regret = Table('Regret of "auto", geometric means', summary)
    problems = Table("Problems, processor seconds", "problems", f"""
        number | problem | columns | classes | support | reach: {{reach:.3f}} | chosen | {_SECONDS}
    """)  # fmt: skip


class kernel_problems_tuned(kernel_problems, half="tuning"):
    """What the thresholds of "auto" are chosen on: problems of 50 to 200,000 rows, 2 to 1,000 columns, 2 to 20 classes,
    few and many support vectors, C from 0.01 to 1e4: the solver that "auto" takes against every solver, and against
    LIBSVM. Every fit runs in a process of its own, and is ended after a limit. Processor seconds, the least of some
    repeats.
    """

"""Kernel SVMs beside LIBSVM and scikit-learn-intelex: time until LIBSVM's test error, and by number of threads.

Rows are float32 for all but LIBSVM.
"""

import importlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from joblib import cpu_count
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, grouped, mean_and_error, quietly, ratios
from widemargin import KernelSVC, kernel_search
from widemargin.exceptions import CapabilityError

Array = npt.NDArray[Any]
LIBSVM, INTELEX = "LIBSVM", "scikit-learn-intelex"


class KernelTask(NamedTuple):
    """Training and test rows with labels of -1 and +1, kernel width, C and tolerance."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    gamma: Any
    C: float
    tol: float = 1e-3

    def ours(self, **options: Any) -> KernelSVC:
        """To be fitted."""
        return KernelSVC(**{"C": self.C, "gamma": self.gamma, "tol": self.tol, "random_state": 0} | options)

    def fit(self, **options: Any) -> KernelSVC:
        """A whole fit, without its advice."""
        with quietly():
            return self.ours(**options).fit(self.X, self.y)

    def timed(self, model: Any) -> Row:
        """Seconds of a fit, its test error and support vectors."""
        timing = Timing.of(partial(model.fit, self.X, self.y))
        return {
            "wall_s": round(timing.median, 3), "processor_s": round(timing.processor_median, 3),
            "test_error": float(np.mean(model.predict(self.X_test) != self.y_test)),
            "support": int(model.support_.shape[0]), "rows": int(self.y.shape[0]),
        }  # fmt: skip


SETTINGS = {
    "a9a": (1 / 200, 100.0, 1e-3), "mnist": (1 / 50, 1.0, 1e-3), "covtype": (1e-4, 10.0, 0.5),
    "letter": (6.5, 100.0, 1e-3), "ijcnn1": (0.17, 100.0, 1e-3), "drawn: textures": (0.024, 1.0, 1e-3),
}  # fmt: skip
"""Width, C and tolerance: of the kernel paper's tasks, and of others by a `kernel_search` on 1,500 rows, rounded."""

FOREST = 522_910


def rows_of(ctx: Context, name: str) -> tuple[Array, Array]:
    """Rows and labels -1 and 1, as the kernel paper has them: Adult, an 8 or not, Forest's second kind; and A to M."""
    data = ctx.load(name)
    if name == "a9a":
        return data.X.toarray(), data.y
    if name == "mnist":
        X, positive = data.X, data.digit == 8
    elif name == "covtype":
        X, positive = data[0][:, :10], data[1] == 2
    elif name == "letter":
        X, positive = data[0] / 15.0, data[1] <= 13
    else:
        X, y = data(*ctx.pick((), (300,))) if callable(data) else data
        positive = y == y.max()
    return X, np.where(positive, 1.0, -1.0)


def task(ctx: Context, name: str) -> KernelTask:
    """The rows of a task, in float32."""
    X, y = rows_of(ctx, name)
    if name in ("a9a", "mnist"):
        data = ctx.load(name)
        X_test = data.X_test.toarray() if name == "a9a" else data.X_test
        y_test = data.y_test if name == "a9a" else np.where(data.digit_test == 8, 1.0, -1.0)
    else:
        n = FOREST if len(y) > FOREST else 2 * len(y) // 3
        order = np.random.default_rng(0).permutation(len(y))
        X, X_test, y, y_test = X[order[:n]], X[order[n:]], y[order[:n]], y[order[n:]]
    return KernelTask(X.astype(np.float32), y, X_test.astype(np.float32), y_test, *SETTINGS[name])


def some(whole: KernelTask, n: int, n_test: int | None = None) -> KernelTask:
    """n training rows, drawn, and the first test rows."""
    rows = np.random.default_rng(0).permutation(whole.y.shape[0])[:n]
    return whole._replace(X=whole.X[rows], y=whole.y[rows], X_test=whole.X_test[:n_test], y_test=whole.y_test[:n_test])


def peers(ctx: Context, *names: str) -> list[str]:
    """Those of the peers that can be asked."""
    return [name for name in names if name == LIBSVM or ctx.peer("sklearnex.svm") is not None]


def peer(name: str, of: KernelTask, threads: int = 1, **options: Any) -> Any:
    """LIBSVM (scikit-learn's SVC, which computes in float64) or scikit-learn-intelex's SVC, to be fitted."""
    maker: Any = SVC
    if name.startswith(INTELEX):
        importlib.import_module("daal4py").daalinit(threads)
        maker = importlib.import_module("sklearnex.svm").SVC
    return maker(C=of.C, gamma=of.gamma, **options)


# --- by threads and devices -------------------------------------------------------------------------------------------

COUNTS = (1, 2, 4, 8, 16)
ON_DEVICE = "torch:cuda"
TEN, GRID = "mnist, ten classes", "a9a, 16,100 rows, 50 C, 10 folds"


def _run(case: str, solver: str, of: KernelTask, count: int, make: Callable[[], Any]) -> Row:
    """A fit and predictions of 10,000 new rows; the second ones, as the first may pack the support vectors."""
    with threadpool_limits(count), quietly():
        fitted = of.timed(model := make())
        new = of.X_test[:10_000]
        predicted = [Timing.of(partial(model.predict, new)).median for _ in range(2)]
        one = min(Timing.of(partial(model.predict, new[:1])).median for _ in range(20))
    return {
        "case": case, "solver": solver, "threads": count, **fitted, "predict_s": round(predicted[1], 4),
        "one_row_ms": round(1000 * one, 2),
    }  # fmt: skip


def by_threads(ctx: Context, names: Sequence[str], counts: Sequence[int], *others: str) -> list[Row]:
    """Every number of threads up to the cores there are, ours and the peers in turn, all warm in one process."""
    rows = []
    for name in names:
        of = task(ctx, name)
        for precision in ("single", "double"):  # compiles
            some(of, 12_000).fit(solver_options={"precision": precision})
        for count in sorted({count for count in counts if count <= cpu_count()}):
            rows.append(_run(name, "KernelSVC", of, count, of.ours))
            for other in peers(ctx, *others):
                theirs = partial(peer, other, of, count, tol=of.tol, cache_size=2000.0)
                rows.append(_run(name, other, of, count, theirs))
    return rows


def on_device(ctx: Context) -> list[Row]:
    """The same fits on a GPU, the second of each, as the first loads its library; none where there is no GPU."""
    rows, device = list[Row](), "array-api" if ctx.quick else ON_DEVICE
    solver, options = f"KernelSVC, {device}", {"backend": device}
    digits = ctx.load("mnist")
    images = [digits.X.astype(np.float32), digits.digit, digits.X_test.astype(np.float32), digits.digit_test]
    tasks, threads = {name: task(ctx, name) for name in ("a9a", "mnist", "covtype")}, cpu_count()
    tasks[TEN] = KernelTask(*(part[: ctx.pick(None, 1000)] for part in images), 0.02, 10.0)
    for name, of in tasks.items():
        make = partial(of.ours, solver_options=options)
        try:
            _run(name, solver, some(of, 3000, n_test=100), threads, make)
        except CapabilityError as error:
            print(f"no fits on a GPU: {error}")
            return []
        rows.append(_run(name, solver, of, threads, make))
    adult = some(tasks["a9a"], ctx.pick(16_100, 300))
    timing = Timing.of(lambda: kernel_search(
        KernelSVC(solver_options=options), adult.X, adult.y, Cs=np.logspace(-2, 3, 50), gammas=[adult.gamma],
        n_rows=None, n_folds=10, refit=False, random_state=0,
    ))  # fmt: skip
    search = {"case": GRID, "solver": solver, "threads": threads, "predict_s": None}
    return [*rows, search | {"wall_s": timing.median, "processor_s": timing.processor_median}]


def _all_runs(content: Content) -> list[Row]:
    return [*content["threads"], *content.get("forest", ()), *content.get("device", ())]


def _by_cores(content: Content) -> Iterable[Row]:
    """Fits on a machine of many cores, a line for each solver; none of a smaller one."""
    rows = _all_runs(content)
    if max(row["threads"] for row in rows) < max(COUNTS):
        return
    for (case, solver), here in grouped(rows, "case", "solver"):
        best = min(row["predict_s"] for row in here)
        fits = {f"on_{row['threads']}": row["wall_s"] for row in here}
        yield {"case": case, "solver": solver, "predict_s": best} | fits


class kernel_threads(Task, subject="kernels", half="tuning", threads=True, peers=(INTELEX,)):
    """Fits and predictions of `KernelSVC` by number of threads, beside scikit-learn-intelex, and on a GPU: Adult
    (sigma^2 = 100, C = 100), MNIST's 8 against the rest (sigma^2 = 25, C = 1), to tol = 1e-3, and all rows of Forest to
    tol = .5; warm, in one process, 10,000 new rows. Our certificate is in double precision and part of the fit; the
    peer computes in single precision.
    """

    parts = {
        "threads": lambda ctx: by_threads(ctx, ("a9a", "mnist"), COUNTS, INTELEX),
        "device": on_device,
        "forest": lambda ctx: by_threads(ctx, ("covtype",), (1, cpu_count())),
    }
    seconds = Table("Seconds by number of threads and device", _all_runs, """
        data: {case} | solver | threads | fit s: {wall_s:.2f} | processor_s:.1f | predictions s: {predict_s:.3f}
        | one_row_ms:.1f | test_error:.4f | SVs: {support}
    """)  # fmt: skip
    cores = Table(
        "Seconds of a fit by threads, and of predictions of 10,000 rows by the best number of them", _by_cores,
        "data: {case} | solver | 1 thread: {on_1:.2f} | 2: {on_2:.2f} | 4: {on_4:.2f} | 8: {on_8:.2f} "
        "| 16: {on_16:.2f} | predictions: {predict_s:.3f}",
    )  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        rows = _all_runs(content)
        for (case, count), here in grouped(rows, "case", "threads"):
            wanted = {"a9a": 4.0, "mnist": 4.0}.get(case) if count == 1 else 3.0 if count == 2 else 2.0
            name = f"{case}, {count} thread{'s' * (count > 1)}"
            wall = {row["solver"]: row["wall_s"] for row in here}
            yield from ratios(name, wall, "KernelSVC", {INTELEX: wanted})
            seconds = {row["solver"]: row["predict_s"] for row in here}
            yield from ratios(f"{name}, predictions", seconds, "KernelSVC", {INTELEX: 1.0})
            if (case, count) == ("covtype", 1):
                yield Limit("KernelSVC: Forest", wall["KernelSVC"], 60.0, "s")
        on_gpu = {row["case"]: row["wall_s"] for row in rows if row["solver"] == f"KernelSVC, {ON_DEVICE}"}
        for case, limit in {"a9a": 0.6, "mnist": 0.2, "covtype": 6.0, TEN: 3.0, GRID: 40.0}.items():
            if case in on_gpu:
                yield Limit(f"{case} on a GPU", on_gpu[case], limit, "s")


# --- to LIBSVM's test error -------------------------------------------------------------------------------------------

OURS: dict[str, dict[str, Any]] = {
    "KernelSVC": {},
    "KernelSVC, tol=0.1": {"tol": 0.1},
    "KernelSVC, tol=1": {"tol": 1.0},
    "KernelSVC, tol=None": {"tol": None},
    "sbp, tol=None": {"tol": None, "solver": "sbp"},
}
PEERS: dict[str, dict[str, Any]] = {LIBSVM: {}, INTELEX: {}, f"{INTELEX}, tol=0.1": {"tol": 0.1}}
WANTED = {"a9a": {LIBSVM: 15.0, INTELEX: 4.0}, "mnist": {LIBSVM: 40.0, INTELEX: 6.0}}
NEAR = 0.1
"""Points."""


def split(ctx: Context, name: str, seed: int) -> KernelTask:
    """A task with its rows drawn anew into training and test rows, as many of each as before."""
    whole = task(ctx, name)
    X, y = np.concatenate((whole.X, whole.X_test)), np.concatenate((whole.y, whole.y_test))
    order, n = np.random.default_rng(seed).permutation(y.shape[0]), whole.y.shape[0]
    first, rest = np.sort(order[:n]), order[n:]
    return whole._replace(X=X[first], y=y[first], X_test=X[rest], y_test=y[rest])


def to_the_error(ctx: Context, name: str, seed: int, solver: str) -> Row:
    """A fit in this process: of ours the second one."""
    of = split(ctx, name, seed)
    about = {"case": name, "split": seed, "solver": solver}
    if solver not in OURS:
        return about | of.timed(peer(solver, of, cache_size=1000.0, **PEERS[solver]))
    of.fit(**OURS[solver])  # compiles whatever these rows need
    return about | of.timed(of.ours(**OURS[solver] | {"random_state": seed}))


def runs_of(ctx: Context, *names: str) -> list[Row]:
    """Every split, in turn over the solvers."""
    cases = product(names, range(ctx.repeats), (*OURS, *peers(ctx, *PEERS)))
    return [ctx.fresh(to_the_error, *case) for case in cases]


def by_solver(content: Content) -> list[Row]:
    """For each task and solver: median seconds, mean error, mean difference to LIBSVM paired by split, with errors."""
    made: list[Row] = []
    for case, here in grouped(content["runs"], "case"):
        runs = pd.DataFrame(here).sort_values("split", kind="stable")
        errors = 100 * runs.pivot(index="split", columns="solver", values="test_error")
        medians = runs.groupby("solver")[["wall_s", "processor_s"]].median()
        for solver, mine in runs.groupby("solver", sort=False):
            apart = mean_and_error(errors[solver] - errors[LIBSVM])
            times = (medians.processor_s / medians.processor_s[solver]).to_dict()
            made.append(medians.loc[solver].to_dict() | {
                "case": case, "solver": solver, "rows": here[0]["rows"], "error": mean_and_error(errors[solver]),
                "apart": apart, "near": apart[0] <= NEAR, "support": round(mine.support.mean()),
                "libsvm": times[LIBSVM], "intelex": times.get(INTELEX),
            })  # fmt: skip
    return made


class kernel_svc_accuracy(Task, subject="kernels", half="tuning", peers=(INTELEX,)):
    """Time to LIBSVM's test error on Adult and MNIST: training and test rows drawn anew for five splits, differences in
    test error paired by split. `KernelSVC` at several tolerances and by the hold-out rule, the batch perceptron, both
    peers.
    """

    parts = {"runs": lambda ctx: runs_of(ctx, "a9a", "mnist")}
    errors = Table(
        "Time to LIBSVM's test error, one thread, fresh processes; medians, means and standard errors", by_solver,
        "data: {case} | solver | wall_s:.2f | processor_s:.2f | test error, %: {error:±.2f} "
        "| minus LIBSVM's: {apart:±+.2f} | within 0.1: {near} | SVs: {support} | LIBSVM / this: {libsvm:.1f} "
        "| intelex / this: {intelex:.1f}",
    )  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        rows = by_solver(content)
        for row in rows:
            if row["solver"] in ("KernelSVC, tol=None", "sbp, tol=None") and row["rows"] > 1000:
                what = f"{row['case']}, {row['solver']}: test error above LIBSVM's"
                yield Limit(what, max(row["apart"][0], 0.0), 0.1, "%")
        for case, here in grouped(rows, "case"):
            seconds = {row["solver"]: row["processor_s"] for row in here}
            targets = WANTED.get(case, {LIBSVM: None, INTELEX: None})
            yield from ratios(f"{case}, to LIBSVM's error", seconds, "KernelSVC, tol=None", targets)
            yield from ratios(f"{case}, default tolerance", seconds, "KernelSVC", dict.fromkeys(targets))


class kernel_svc_blind(kernel_svc_accuracy, half="reporting", repeats=2):
    """The same on data that nothing was chosen on: letters A to M against N to Z, ijcnn1 and drawn textures; C and
    width by a search on 1,500 rows.
    """

    parts = {"runs": lambda ctx: runs_of(ctx, "letter", "ijcnn1", "drawn: textures")}

    def sentences(self, content: Content) -> Iterable[str]:
        rows = [row for row in by_solver(content) if row["solver"] == "KernelSVC, tol=None"]
        if rows and all(row["intelex"] for row in rows):
            spans = [
                f"{min(row[key] for row in rows):.1f} to {max(row[key] for row in rows):.1f}"
                for key in ("libsvm", "intelex")
            ]
            near = sum(row["near"] for row in rows)
            yield (
                f"with `tol=None` LIBSVM takes {spans[0]} times and scikit-learn-intelex {spans[1]} times as many "
                f"processor seconds as `KernelSVC`, whose test error is within .1 points of LIBSVM's on {near} of "
                f"{len(rows)}"
            )

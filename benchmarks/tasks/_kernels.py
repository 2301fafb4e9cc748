"""Kernel tasks: rows, widths and C; and one timed fit of KernelSVC or of a peer."""

import importlib
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.svm import SVC

from benchmarks.data.halves import check
from benchmarks.task import Context, Row, Timing, quietly
from widemargin import KernelSVC

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


PUBLISHED = {"a9a": (1 / 200, 100.0, 1e-3), "mnist": (1 / 50, 1.0, 1e-3), "covtype": (1e-4, 10.0, 0.5)}
"""Width, C and tolerance of the kernel paper's tasks."""

OWN_WIDTH = {
    "letter": (6.5, 100.0), "ijcnn1": (0.17, 100.0), "drawn: textures": (0.024, 1.0),
}  # fmt: skip
"""Width and C of reporting data, by a `kernel_search` on 1,500 rows, rounded."""

FOREST = 522_910


def rows_of(name: str, data: Any) -> tuple[Array, Array]:
    """Rows and labels -1 and 1, as the kernel paper has them: Adult, an 8 or not, Forest's second kind; and A to M."""
    if name == "a9a":
        return data.X.toarray(), data.y
    if name == "mnist":
        X, positive = data.X, data.digit == 8
    elif name == "covtype":
        X, positive = data[0][:, :10], data[1] == 2
    elif name == "letter":
        X, positive = data[0] / 15.0, data[1] <= 13
    else:
        X, y = data() if callable(data) else data
        positive = y == y.max()
    return X, np.where(positive, 1.0, -1.0)


def task(ctx: Context, name: str) -> KernelTask:
    """The rows of a task, in float32; a noisy checkerboard in a quick run."""
    if ctx.quick:
        check(name, ctx.task.subject, ctx.task.half)
        rng, n = np.random.default_rng(0), 600
        X = rng.uniform(-3, 3, (2 * n, 3)).astype(np.float32)
        y = np.where(np.sin(2 * X).sum(axis=1) + 0.3 * rng.normal(size=2 * n) > 0, 1.0, -1.0)
        return KernelTask(X[:n], y[:n], X[n:], y[n:], 1.0, 5.0)
    data = ctx.load(name)
    X, y = rows_of(name, data)
    if name == "a9a":
        X_test, y_test = data.X_test.toarray(), data.y_test
    elif name == "mnist":
        X_test, y_test = data.X_test, np.where(data.digit_test == 8, 1.0, -1.0)
    else:
        n = FOREST if name == "covtype" else 2 * len(y) // 3
        order = np.random.default_rng(0).permutation(len(y))
        X, X_test, y, y_test = X[order[:n]], X[order[n:]], y[order[:n]], y[order[n:]]
    width, C, tol = PUBLISHED[name] if name in PUBLISHED else (*OWN_WIDTH[name], 1e-3)
    return KernelTask(X.astype(np.float32), y, X_test.astype(np.float32), y_test, width, C, tol)


def some(whole: KernelTask, n: int, seed: int = 0, n_test: int | None = None) -> KernelTask:
    """n training rows drawn by a seed, and the first test rows."""
    rows = np.random.default_rng(seed).permutation(whole.y.shape[0])[:n]
    return whole._replace(X=whole.X[rows], y=whole.y[rows], X_test=whole.X_test[:n_test], y_test=whole.y_test[:n_test])


def fit(of: KernelTask, **options: Any) -> KernelSVC:
    """A whole fit, without its advice."""
    with quietly():
        made = KernelSVC(**{"C": of.C, "gamma": of.gamma, "tol": of.tol, "random_state": 0} | options)
        return made.fit(of.X, of.y)


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


def timed(model: Any, of: KernelTask) -> Row:
    """Seconds of a fit, its test error and support vectors."""
    timing = Timing.of(partial(model.fit, of.X, of.y))
    return {
        "wall_s": round(timing.median, 3), "processor_s": round(timing.processor_median, 3),
        "test_error": float(np.mean(model.predict(of.X_test) != of.y_test)), "support": int(model.support_.shape[0]),
        "rows": int(of.y.shape[0]),
    }  # fmt: skip

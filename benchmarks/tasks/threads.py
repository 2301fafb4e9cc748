"""What further threads gain: the same fits with one thread, two, four, up to the cores of the machine."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from joblib import cpu_count
from sklearn.datasets import make_classification, make_moons, make_multilabel_classification
from threadpoolctl import threadpool_limits

import widemargin as wm
from benchmarks.task import Content, Context, Limit, Row, Table, Task
from widemargin._threads import in_threads, limit_threads

GOAL = """a = population(g == "a")
b = population(g == "b")
minimize error_rate()
subject to positive_rate(a) >= 0.9 * positive_rate(b)
subject to recall() >= 0.8
"""


def _fits(share: float) -> Mapping[str, Callable[[int], Any]]:
    """The fits, on that share of their rows, by name; and a sum over a vector that no cache holds."""
    rng = np.random.default_rng(0)

    def rate_constrained(n: int, d: int) -> Callable[[int], Any]:
        X, group = rng.normal(size=(int(n * share), d)), np.where(rng.random(int(n * share)) < 0.3, "a", "b")
        noise, people = 1.2 * rng.normal(size=X.shape[0]), pa.table({"g": group})
        y = X[:, 0] + 0.5 * X[:, 1] - 0.5 * (group == "a") + noise > 0.3
        return lambda n_jobs: wm.RateConstrainedClassifier(GOAL, n_jobs=n_jobs).fit(X, y, populations=people)

    moons = make_moons(int(60_000 * share), noise=0.3, random_state=0)
    dense = make_classification(int(12_000 * share), 60, n_informative=20, flip_y=0.05, random_state=0)
    X, Y = make_multilabel_classification(int(4000 * share), 100, n_classes=14, n_labels=4, random_state=0)
    unit, options = (
        X / np.linalg.norm(X, axis=1, keepdims=True),
        {"edges": "full", "C": 1.0, "tol": 0.01, "max_iter": 20},
    )
    fitted, vector = wm.KernelSVC(gamma=1.0).fit(*moons), np.ones(int(50_000_000 * share))

    def read(n_jobs: int) -> None:
        with limit_threads(n_jobs):
            in_threads(len(vector), 1, lambda first, last: vector[first:last].sum())

    return {
        "rate-constrained, 500,000 x 30": rate_constrained(500_000, 30),
        "rate-constrained, 30,000 x 1,000": rate_constrained(30_000, int(1000 * share**0.5)),
        "kernel, 60,000 x 2": lambda n_jobs: wm.KernelSVC(gamma=1.0, n_jobs=n_jobs).fit(*moons),
        "kernel, 12,000 x 60": lambda n_jobs: wm.KernelSVC(gamma=1 / 60, n_jobs=n_jobs).fit(*dense),
        "kernel prediction, 60,000 x 2": lambda n_jobs: fitted.set_params(n_jobs=n_jobs).decision_function(moons[0]),
        "label sets, 4,000 x 100, 14 labels": lambda n_jobs: wm.MultiLabelSVC(n_jobs=n_jobs, **options).fit(unit, Y),
        "reading memory": read,
    }


def rows(ctx: Context) -> list[Row]:
    """In turn over the numbers of threads in one process, after a first fit that compiles."""
    cores, found = cpu_count(), []
    counts = [1, *(2**k for k in range(1, 8) if 2**k < cores), *([cores] if cores > 1 else [])]
    with threadpool_limits(cores), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of short fits and few rows
        for name, call in _fits(ctx.pick(1.0, 0.02)).items():
            timings = ctx.clock({str(k): lambda k=k, call=call: call(k) for k in counts}, warm_up=True)  # type: ignore[misc]
            for k in counts:
                ours, gain = timings[str(k)], timings["1"].median / timings[str(k)].median
                found.append(
                    {
                        "task": name,
                        "threads": k,
                        "wall_s": ours.median,
                        "processor_s": ours.processor_median,
                        "gain": gain,
                    }
                )
    return found


def _targets(content: Content) -> Iterable[Limit]:
    """No thread may make a fit slower by more than a tenth."""
    several = [row["gain"] for row in content["rows"] if row["threads"] > 1]
    if several:
        yield Limit("least gain of further threads", min(several), 0.9, at_least=True)


TASKS = {
    "threads": Task(
        "What further threads gain: rate-constrained, kernel and structural fits and kernel predictions with one "
        "thread, two,\n"
        "four, up to the cores of the machine, and how much faster they read a large vector, which bounds what loops "
        "can gain.",
        {"rows": rows},
        {
            "gains": Table(
                "Seconds by number of threads", "rows",
                "task | threads | wall s: {wall_s:.2f} | processor s: {processor_s:.2f} | gain: {gain:.2f}",
            ),
        },
        _targets, half="neutral", threads=True,
    ),
}  # fmt: skip

"""What further threads gain: the same fits with one thread, two, four, up to the cores of the machine.

The estimators take turns over the numbers of threads in one process, after a first fit that compiles. Wall seconds say
what a user waits for, processor seconds what the threads cost; a gain of 1 is no gain. Large tables are read at the
speed of the memory, which the cores share: what a sum over a large vector gains stands beside the fits.
Run as `python -m benchmarks.threads`.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from joblib import cpu_count
from sklearn.datasets import make_classification, make_moons, make_multilabel_classification
from threadpoolctl import threadpool_limits

import widemargin as wm
from benchmarks.common import compare, interleave, machine, parser, show, write
from widemargin._threads import in_threads, limit_threads

GOAL = """a = population(g == "a")
b = population(g == "b")
minimize error_rate()
subject to positive_rate(a) >= 0.9 * positive_rate(b)
subject to recall() >= 0.8
"""


def tasks(share: float) -> Mapping[str, Callable[[int], Any]]:
    """The fits, on that share of their rows, by name."""
    rng = np.random.default_rng(0)

    def rate_constrained(n: int, d: int) -> Callable[[int], Any]:
        X, group = rng.normal(size=(int(n * share), d)), np.where(rng.random(int(n * share)) < 0.3, "a", "b")
        noise = 1.2 * rng.normal(size=X.shape[0])
        people = pa.table({"g": group})
        y = X[:, 0] + 0.5 * X[:, 1] - 0.5 * (group == "a") + noise > 0.3
        return lambda n_jobs: wm.RateConstrainedClassifier(GOAL, n_jobs=n_jobs).fit(X, y, populations=people)

    moons = make_moons(int(60_000 * share), noise=0.3, random_state=0)
    dense = make_classification(int(12_000 * share), 60, n_informative=20, flip_y=0.05, random_state=0)
    X, Y = make_multilabel_classification(int(4000 * share), 100, n_classes=14, n_labels=4, random_state=0)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    fitted = wm.KernelSVC(gamma=1.0).fit(*moons)
    return {
        "rate-constrained, 500,000 x 30": rate_constrained(500_000, 30),
        "rate-constrained, 30,000 x 1,000": rate_constrained(30_000, int(1000 * share**0.5)),
        "kernel, 60,000 x 2": lambda n_jobs: wm.KernelSVC(gamma=1.0, n_jobs=n_jobs).fit(*moons),
        "kernel, 12,000 x 60": lambda n_jobs: wm.KernelSVC(gamma=1 / 60, n_jobs=n_jobs).fit(*dense),
        "kernel prediction, 60,000 x 2": lambda n_jobs: fitted.set_params(n_jobs=n_jobs).decision_function(moons[0]),
        "label sets, 4,000 x 100, 14 labels": lambda n_jobs: wm.MultiLabelSVC(
            edges="full", C=1.0, tol=0.01, max_iter=20, n_jobs=n_jobs
        ).fit(unit, Y),
    }


def memory(numbers: int) -> Callable[[int], Any]:
    """A sum over a vector that no cache holds."""
    vector = np.ones(numbers)

    def read(n_jobs: int) -> None:
        with limit_threads(n_jobs):
            in_threads(numbers, 1, lambda first, last: vector[first:last].sum())

    return read


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--only", default="", help="only tasks whose name contains this text")
    options = made.parse_args(arguments)
    cores = cpu_count()
    about = machine() | {"threads": cores}
    counts = [1, *(2**k for k in range(1, 8) if 2**k < cores), *([cores] if cores > 1 else [])]
    share = 0.02 if options.quick else 1.0
    cases = {**tasks(share), "reading memory": memory(int(50_000_000 * share))}
    rows, cells = [], []
    with threadpool_limits(cores), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of short fits and few rows
        for name, call in cases.items():
            if options.only not in name:
                continue
            timings = interleave({str(k): lambda k=k, call=call: call(k) for k in counts}, options.repeats)  # type: ignore[misc]
            one = timings["1"]
            for k in counts:
                ours, gain = timings[str(k)], compare(one, timings[str(k)])
                processor = float(np.median(ours.processor))
                rows.append({"task": name, "threads": k, "wall_s": ours.median, "processor_s": processor, "gain": gain})
                cells.append([name, k, f"{ours.median:.2f}", f"{processor:.2f}", f"{gain:.2f}"])
    section = show("Seconds by number of threads", ["task", "threads", "wall s", "processor s", "gain"], cells)
    write(options, "threads", {"machine": about, "rows": rows}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())

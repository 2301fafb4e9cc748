"""What the first call costs: import, compilation into an empty cache, a later process, a second call.

Each estimator is fitted twice on the same small rows in a process whose cache of compiled code is empty, and once more
in a new process that finds the cache filled. Processor seconds of one thread, as compiling is work, not waiting; wall
seconds stand beside them.
Run as `python -m benchmarks.first_call`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.common import ROOT, machine, one_thread, parser, show, write

STRUCTURAL = ("MulticlassSVC", "MultiLabelSVC", "HierarchicalSVC", "ChainSVC")
"""Structural models: each kind has loops of its own."""

ESTIMATORS = (
    "RateConstrainedClassifier",
    "GoalThresholdClassifier",
    "GoalReduction",
    "KernelSVC",
    "SBPClassifier",
    "KernelPerceptron",
    "MarginPursuitClassifier",
    *STRUCTURAL,
)

PARENTS = (-1, 0, 0, 1, 1)
"""A small hierarchy."""


def estimator(name: str) -> Any:
    """The estimator with its defaults, and what it cannot be made without."""
    import widemargin as wm
    from widemargin.goals import Goal, error_rate, recall

    goal = Goal(error_rate(), recall() >= 0.6)
    estimator_class = getattr(wm, name)
    if name in ("GoalThresholdClassifier", "GoalReduction"):
        from sklearn.linear_model import LogisticRegression

        return estimator_class(LogisticRegression(), goal)
    if name == "HierarchicalSVC":
        return estimator_class(PARENTS)
    return estimator_class(goal) if name == "RateConstrainedClassifier" else estimator_class()


def task(name: str, n: int) -> tuple[Any, Any]:
    """Small rows, and labels of the estimator's kind: classes, label sets, closed ones, or sequences of ten."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    Y = (X + 0.5 * rng.normal(size=(n, 5)) > 0.0).astype(int)
    if name == "ChainSVC":
        pieces = range(0, n, 10)
        return [X[first : first + 10] for first in pieces], [Y[first : first + 10, 0] for first in pieces]
    if name == "HierarchicalSVC":
        for node, parent in enumerate(PARENTS[1:], 1):
            Y[:, node] &= Y[:, parent]
    return X, Y if name in ("MultiLabelSVC", "HierarchicalSVC") else Y[:, 0]


def measure_case(name: str, n: int) -> dict[str, float]:
    """Processor seconds of import and of two fits, and wall seconds up to the end of the first, in this process."""
    began, start = time.perf_counter(), time.process_time()
    model = estimator(name)
    X, y = task(name, n)
    seconds = {"import": time.process_time() - start}
    for call in ("first", "second"):
        start = time.process_time()
        model.fit(X, y).predict(X)
        seconds[call] = time.process_time() - start
        seconds.setdefault("wall", time.perf_counter() - began)
    return seconds


def run_case(name: str, n: int) -> dict[str, Any]:
    """One estimator in two new processes, one after the other, with a cache folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.first_call", "--case", name, "--rows", str(n)]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        empty, filled = (
            json.loads(
                subprocess.run(
                    command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
                ).stdout.splitlines()[-1]
            )
            for _ in range(2)
        )
    return {"estimator": name, "empty": empty, "filled": filled}


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--case", default=None, help="measure this one estimator in this process and print it")
    made.add_argument("--rows", type=int, default=500, help="rows of five columns (default 500)")
    made.add_argument("--only", default="", help="only estimators whose name contains this text")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = options_of(arguments)
    if options.case is not None:
        with one_thread():
            print(json.dumps(measure_case(options.case, options.rows)))
        return 0
    about = machine()
    names = [name for name in ESTIMATORS if options.only in name][: 2 if options.quick else None]
    rows = [run_case(name, options.rows) for name in names]
    section = show(
        f"Processor seconds on {options.rows} rows; compiled code is kept between processes",
        ["estimator", "import", "first call, empty cache", "both, wall", "first call, filled cache", "second call"],
        [
            [
                row["estimator"],
                *(
                    f"{seconds:.2f}"
                    for seconds in (
                        row["filled"]["import"], row["empty"]["first"], row["empty"]["wall"], row["filled"]["first"],
                        row["empty"]["second"],
                    )
                ),
            ]
            for row in rows
        ],
    )  # fmt: skip
    write(options, "first_call", {"machine": about, "rows": rows}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())

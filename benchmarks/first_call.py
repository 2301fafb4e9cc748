"""What the first call costs: import, compilation into an empty cache, a later process, a second call.

Each estimator is fitted twice on the same small rows in a process whose cache of compiled code is empty, and once more
in a new process that finds the cache filled. Processor seconds of one thread: compiling is work, not waiting.
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

ESTIMATORS = (
    "RateConstrainedClassifier",
    "GoalThresholdClassifier",
    "KernelSVC",
    "SBPClassifier",
    "MarginPursuitClassifier",
    "MulticlassSVC",
)


def estimator(name: str) -> Any:
    """The estimator with its defaults, and what it cannot be made without."""
    import widemargin as wm
    from widemargin.goals import Goal, error_rate, recall

    goal = Goal(error_rate(), recall() >= 0.6)
    if name == "GoalThresholdClassifier":
        from sklearn.linear_model import LogisticRegression

        return wm.GoalThresholdClassifier(LogisticRegression(), goal)
    made = getattr(wm, name)
    return made(goal) if name == "RateConstrainedClassifier" else made()


def measure_case(name: str, n: int) -> dict[str, float]:
    """Processor seconds of import and of two fits, in this process."""
    start = time.process_time()
    model = estimator(name)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = (X[:, 0] + 0.5 * rng.normal(size=n) > 0.0).astype(int)
    seconds = {"import": time.process_time() - start}
    for call in ("first", "second"):
        start = time.process_time()
        model.fit(X, y).predict(X)
        seconds[call] = time.process_time() - start
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
        ["estimator", "import", "first call, empty cache", "first call, filled cache", "second call"],
        [
            [
                row["estimator"],
                *(
                    f"{seconds:.2f}"
                    for seconds in (
                        row["filled"]["import"], row["empty"]["first"], row["filled"]["first"], row["empty"]["second"],
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

"""Cost of KernelSVC: seconds against rows and columns, memory against `cache_size`, and the first fit ever.

Each case runs in a process of its own, on one thread: rows are made, a small fit compiles, then one fit is timed.
Memory is what the process grew by during the fit, at its peak.
Run as `python -m benchmarks.kernel_scaling`; see README.md here.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import RESULTS, ROOT, MissingDataError, machine, one_thread, parser, show, skipped, write
from benchmarks.kernel_svm import Task, load
from widemargin import KernelSVC

Case = dict[str, Any]

BY_ROWS: list[Case] = [
    *({"rows": "adult", "n": n} for n in (1000, 2000, 4000, 8000, 16_000, 32_561)),
    *({"rows": "mnist", "n": n} for n in (1000, 4000, 15_000, 60_000)),
    *({"rows": "covtype", "n": n} for n in (1000, 8000, 32_000, 130_000, 522_910)),
]
BY_COLUMNS: list[Case] = [{"rows": "normal", "n": 8000, "d": d} for d in (4, 16, 64, 256, 1024)]
BY_CACHE: list[Case] = [{"rows": "adult", "n": 32_561, "cache_size": size} for size in (8.0, 32.0, 128.0, 512.0)]
FIRST: list[Case] = [{"rows": "normal", "n": 300, "d": 5, "first": kind} for kind in ("float64", "float32")]
QUICK: list[Case] = [{"rows": "normal", "n": n, "d": 5} for n in (200, 400)]


def task_of(case: Case, options: argparse.Namespace) -> Task:
    """The rows of a case."""
    if case["rows"] == "normal":
        rng = np.random.default_rng(0)
        X = rng.normal(size=(case["n"], case["d"])).astype(case.get("first", "float32"))
        y = np.where(X[:, :4].sum(axis=1) + X[:, 0] * X[:, 1] + rng.normal(size=case["n"]) > 0, 1.0, -1.0)
        return Task(X, y, X, y, gamma=1.0 / case["d"], C=1.0)
    task = load(case["rows"], options)
    chosen = np.random.default_rng(0).permutation(task.y.shape[0])[: case["n"]]
    return Task(task.X[chosen], task.y[chosen], task.X_test, task.y_test, task.gamma, task.C, task.tol)


def fit(task: Task, cache_size: float) -> KernelSVC:
    """A whole fit."""
    made = KernelSVC(C=task.C, gamma=task.gamma, tol=task.tol, cache_size=cache_size, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on the scale of features
        return made.fit(task.X, task.y)


class Peak:
    """The most memory of this process while the block runs, in MB above what it was at the start."""

    def __enter__(self) -> "Peak":
        self.grown, self._done = 0.0, threading.Event()
        self._before = _resident()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.grown = max(self.grown, _resident() - self._before)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(case: Case, options: argparse.Namespace) -> Case:
    """Time a case in this process."""
    task, cache_size = task_of(case, options), case.get("cache_size", 200.0)
    if "first" not in case:
        small = slice(0, 200)
        fit(Task(task.X[small], task.y[small], task.X, task.y, task.gamma, task.C), cache_size)  # compiles
    seconds, used = time.perf_counter(), time.process_time()
    with Peak() as peak:
        model = fit(task, cache_size)
    seconds, used = time.perf_counter() - seconds, time.process_time() - used
    return {"d": task.X.shape[1], "cache_size": cache_size} | case | {
        "seconds": round(seconds, 3),
        "processor_s": round(used, 3),
        "grown_mb": round(peak.grown, 1),
        "solver": model.solver_,
        "evaluations": int(model.evaluations_),
        "support": int(model.support_.shape[0]),
    }  # fmt: skip


def run(case: Case, options: argparse.Namespace) -> Case:
    """Measure one case in a new process; a first fit with an empty cache of compiled code, then once more."""
    command = [sys.executable, "-m", "benchmarks.kernel_scaling", "--case", json.dumps(case)]
    command += ["--data", str(options.data.resolve())] if options.data is not None else []
    if "first" not in case:
        return _told(command, {})
    with tempfile.TemporaryDirectory() as folder:
        empty, again = (_told(command, {"NUMBA_CACHE_DIR": folder}) for _ in range(2))
    return empty | {"again_s": again["seconds"], "again_processor_s": again["processor_s"]}


def _told(command: Sequence[str], environment: dict[str, str]) -> Case:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | environment)
    if done.returncode:
        raise RuntimeError(f"{command[-1]}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    measured: Case = json.loads(done.stdout.splitlines()[-1])
    return measured


def table(title: str, rows: Sequence[Case]) -> str:
    """Table of cases."""
    return show(
        title,
        ["rows", "n", "d", "cache MB", "seconds", "processor s", "grown MB", "solver", "kernel rows", "SVs", "again s"],
        [
            [
                row["rows"], row["n"], row["d"], f"{row['cache_size']:g}", f"{row['seconds']:.2f}",
                f"{row['processor_s']:.2f}", f"{row['grown_mb']:.0f}", row["solver"],
                round(row["evaluations"] / row["n"]), row["support"], row.get("again_s", "-"),
            ]
            for row in rows
        ],
    )  # fmt: skip


def picture(parts: dict[str, list[Case]], path: Path) -> None:
    """Seconds against rows and columns, memory against the cache."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    for name in dict.fromkeys(row["rows"] for row in parts["rows"]):
        part = [row for row in parts["rows"] if row["rows"] == name]
        axes[0].plot([row["n"] for row in part], [row["processor_s"] for row in part], "o-", label=name)
    axes[0].set(xscale="log", yscale="log", xlabel="training rows", ylabel="processor seconds", title="time by rows")
    axes[0].legend()
    part = parts["columns"]
    axes[1].plot([row["d"] for row in part], [row["processor_s"] for row in part], "o-")
    axes[1].set(xscale="log", yscale="log", xlabel="columns", title=f"time by columns, {part[0]['n']} rows")
    part = parts["cache"]
    axes[2].plot(
        [row["cache_size"] for row in part], [row["grown_mb"] for row in part], "o-", label="memory of the fit"
    )
    axes[2].plot([row["cache_size"] for row in part], [row["cache_size"] for row in part], ":", label="cache_size")
    axes[2].set(xscale="log", yscale="log", xlabel="cache_size, MB", ylabel="MB", title="memory, adult")
    axes[2].legend()
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--case", default=None, help="measure this one case (JSON) in this process and print it")
    options = made.parse_args(arguments)
    with one_thread():
        if options.case is not None:
            print(json.dumps(measure(json.loads(options.case), options)))
            return 0
        about = machine()
        if options.quick:
            parts = {"rows": [measure(case, options) for case in QUICK]}
        else:
            groups = {"rows": BY_ROWS, "columns": BY_COLUMNS, "cache": BY_CACHE, "first": FIRST}
            try:
                load("adult", options)
                parts = {part: [run(case, options) for case in cases] for part, cases in groups.items()}
            except MissingDataError as error:
                return skipped(error)
    sections = [table(f"KernelSVC: {part}", rows) for part, rows in parts.items()]
    write(options, "kernel_scaling", {"machine": about, "cases": parts}, sections)
    if not options.quick:
        picture(parts, (options.out or RESULTS) / "kernel_scaling.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())

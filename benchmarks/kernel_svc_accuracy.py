"""KernelSVC to the test error of LIBSVM: how long it takes, over several splits, beside scikit-learn-intelex.

Training and test rows are drawn anew for every split from all rows of the data; every fit has a process of its own and
one thread. Rows are float32 for all but LIBSVM, which computes in float64. The difference to LIBSVM's error is paired
by split. Run as `python -m benchmarks.kernel_svc_accuracy`; see README.md here.
"""

import argparse
import importlib
import json
import statistics
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.svm import SVC

from benchmarks import kernel_svm
from benchmarks.common import (
    MissingDataError,
    fresh_process,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    targets,
    verdict,
    write,
)
from widemargin import KernelSVC

REFERENCE, INTELEX = "LIBSVM", "scikit-learn-intelex"
PEERS: dict[str, dict[str, Any]] = {REFERENCE: {}, INTELEX: {}, f"{INTELEX}, tol=0.1": {"tol": 0.1}}
OURS: dict[str, dict[str, Any]] = {
    "KernelSVC": {},
    "KernelSVC, tol=0.1": {"tol": 0.1},
    "KernelSVC, tol=1": {"tol": 1.0},
    "KernelSVC, tol=None": {"tol": None},
    "sbp, tol=None": {"tol": None, "solver": "sbp"},
}
TASKS = ("adult", "mnist")
TARGETS = {("adult", INTELEX): 4.0, ("adult", REFERENCE): 15.0, ("mnist", INTELEX): 6.0, ("mnist", REFERENCE): 40.0}
NEAR = 0.001
"""A tenth of a point."""

_CACHE = 1000.0  # MB for the peers; ours have their default, 200


def split(name: str, seed: int, options: argparse.Namespace) -> kernel_svm.Task:
    """A task with its rows drawn anew into training and test rows, as many of each as before."""
    task = kernel_svm.load(name, options)
    X, y = np.concatenate((task.X, task.X_test)), np.concatenate((task.y, task.y_test))
    order, n = np.random.default_rng(seed).permutation(y.shape[0]), task.y.shape[0]
    first, rest = np.sort(order[:n]), order[n:]
    return kernel_svm.Task(X[first], y[first], X[rest], y[rest], task.gamma, task.C)


def run(name: str, seed: int, solver: str, options: argparse.Namespace) -> dict[str, Any]:
    """One fit in this process."""
    task = split(name, seed, options)
    common = {"C": task.C, "gamma": task.gamma} | ({} if solver in OURS else {"cache_size": _CACHE})
    if solver in OURS:
        model: Any = KernelSVC(random_state=seed, **common, **OURS[solver])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a fit that only compiles, as the cache on disk does for all but one
            KernelSVC(random_state=0, **OURS[solver]).fit(task.X[:400], task.y[:400])
    elif solver == REFERENCE:
        model = SVC(**common)
    else:
        importlib.import_module("daal4py").daalinit(1)
        model = importlib.import_module("sklearnex.svm").SVC(**common, **PEERS[solver])
    with one_thread():
        wall, processor = time.perf_counter(), time.process_time()
        model.fit(task.X, task.y)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        error = float(np.mean(model.predict(task.X_test) != task.y_test))
    return {
        "case": name, "split": seed, "solver": solver, "wall_s": round(wall, 3), "processor_s": round(processor, 3),
        "test_error": error, "support": int(model.support_.shape[0]), "rows": int(task.y.shape[0]),
    }  # fmt: skip


def in_process(name: str, seed: int, solver: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """A run in a fresh process (a quick one in this); None where the peer is not installed."""
    if options.quick and not solver.startswith(INTELEX):
        return run(name, seed, solver, options)
    return fresh_process("benchmarks.kernel_svc_accuracy", [name, seed, solver], f"{solver} on {name}", options)


def summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each task and solver: median seconds, mean error, mean difference to LIBSVM, and their standard errors."""
    reference = {(row["case"], row["split"]): row["test_error"] for row in runs if row["solver"] == REFERENCE}
    made = []
    for case, solver in dict.fromkeys((row["case"], row["solver"]) for row in runs):
        mine = [row for row in runs if (row["case"], row["solver"]) == (case, solver)]
        apart = [row["test_error"] - reference[case, row["split"]] for row in mine]
        errors = [row["test_error"] for row in mine]
        made.append(
            {
                "case": case, "solver": solver, "splits": len(mine),
                "wall_s": statistics.median(row["wall_s"] for row in mine),
                "processor_s": statistics.median(row["processor_s"] for row in mine),
                "test_error": statistics.mean(errors), "test_error_se": standard_error(errors),
                "difference": statistics.mean(apart), "difference_se": standard_error(apart),
                "near": statistics.mean(apart) <= NEAR,
                "support": round(statistics.mean(row["support"] for row in mine)),
            }
        )  # fmt: skip
    return made


def standard_error(values: Sequence[float]) -> float:
    """Standard error of a mean."""
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")


def table(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """Print and return a table; the last columns are the peers' times over ours."""
    times = {(row["case"], row["solver"]): row["wall_s"] for row in rows}

    def ratio(row: Mapping[str, Any], peer: str) -> str:
        other = times.get((row["case"], peer))
        return "-" if other is None else f"{other / row['wall_s']:.1f}"

    return show(
        title,
        [
            "case", "solver", "wall s", "cpu s", "error %", "minus LIBSVM's", "within 0.1", "SVs", "LIBSVM / this",
            "intelex / this",
        ],
        [
            [
                row["case"], row["solver"], f"{row['wall_s']:.2f}", f"{row['processor_s']:.2f}",
                f"{100 * row['test_error']:.2f} ± {100 * row['test_error_se']:.2f}",
                f"{100 * row['difference']:+.2f} ± {100 * row['difference_se']:.2f}", verdict(row["near"]),
                row["support"], ratio(row, REFERENCE), ratio(row, INTELEX),
            ]
            for row in rows
        ],
    )  # fmt: skip


def reached(rows: Sequence[Mapping[str, Any]]) -> str:
    """The targets, by both clocks, for the fastest of ours within .1 points of LIBSVM's error."""
    lines = []
    for (case, peer), wanted in TARGETS.items():
        mine = [row for row in rows if row["case"] == case and row["solver"] in OURS and row["near"]]
        other = [row for row in rows if row["case"] == case and row["solver"] == peer]
        if mine and other:
            best = min(mine, key=lambda row: float(row["processor_s"]))
            what = f"{case}, {peer} / {best['solver']}"
            lines += [
                (f"{what}, {clock}", other[0][clock] / best[clock], wanted) for clock in ("wall_s", "processor_s")
            ]
    return targets(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    made = parser(__doc__ or "")
    made.add_argument("--case", default=None, help="run one case in this process (JSON: [task, split, solver])")
    made.add_argument("--only", nargs="*", default=list(TASKS), choices=TASKS, help="tasks to run")
    made.add_argument("--splits", type=int, default=5, help="splits of each task (default 5; a quick run has 2)")
    options = made.parse_args(arguments)
    if options.case is not None:
        print(json.dumps(run(*json.loads(options.case), options)))
        return 0
    about = machine()
    solvers = [REFERENCE, *OURS, *(name for name in PEERS if name != REFERENCE and not options.no_peers)]
    runs: list[dict[str, Any]] = []
    try:
        for name in options.only:
            kernel_svm.load(name, options)
            for seed in range(2 if options.quick else options.splits):
                for solver in solvers:
                    one = in_process(name, seed, solver, options)
                    if one is not None:
                        runs.append(one)
    except MissingDataError as error:
        return skipped(error)
    rows = summary(runs)
    text = table(rows, "Time to LIBSVM's test error, one thread, fresh processes; medians, means and standard errors")
    write(options, "kernel_svc_accuracy", {"machine": about, "summary": rows, "runs": runs}, [text, reached(rows)])
    return 0


if __name__ == "__main__":
    sys.exit(main())

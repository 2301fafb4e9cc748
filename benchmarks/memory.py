"""Memory of training: the peak over the data, in numbers of 8 bytes a row.

The bound to keep is 20 numbers a row and 2 for every constraint that touches a row (in the mean). Each case runs in a
process of its own on synthetic rows. Two things are measured there, in two fits: the growth of the resident set (all
that the process holds, the allocator's slack and Arrow's buffers too) and the peak of traced allocations (exact for
NumPy).
Run as `python -m benchmarks.memory`; see README.md here.
"""

import argparse
import gc
import json
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from benchmarks.common import ROOT, machine, one_thread, parser, show, verdict, write
from widemargin import RateConstrainedClassifier
from widemargin.goals import Goal, Population, col, error_rate, positive_rate, recall
from widemargin.goals.binding.bind import bind
from widemargin.goals.binding.sources import make_sources
from widemargin.rows import Rows

BASE, PER_TOUCH = 20, 2
N_SPARSE, NONZEROS, N_DENSE = 123, 14, 20
STATUS = Path("/proc/self/status")

CASES = [
    *(
        {"kind": kind, "goal": goal, "n": 200_000, "solver": "auto"}
        for kind in ("csr", "dense", "float32")
        for goal in ("2", "50 groups", "50 nested", "50 overlapping")
    ),
    *(
        {"kind": "csr", "goal": goal, "n": 200_000, "solver": "auto"}
        for goal in ("50 overlapping coverage", "50 rare overlapping coverage")
    ),
    *({"kind": "csr", "goal": goal, "n": 1_000_000, "solver": "auto"} for goal in ("2", "50 groups", "50 overlapping")),
    *(
        {"kind": kind, "goal": "2", "n": 200_000, "solver": solver}
        for solver in ("interior-point", "cutting-plane")
        for kind in ("csr", "dense")
    ),
    *(
        {"kind": "csr", "goal": "50 overlapping", "n": 200_000, "solver": solver}
        for solver in ("interior-point", "cutting-plane")
    ),
]
"""Kinds of features, goals and solvers; the cost a row does not depend on n, so two cases of a million do."""


def features(kind: str, n: int) -> Any:
    """CSR with 14 ones among 123 columns, or 20 dense columns of float64 or float32."""
    rng = np.random.default_rng(0)
    if kind == "csr":
        indices = rng.integers(0, N_SPARSE, (n, NONZEROS), dtype=np.int32)
        indices.sort(axis=1)
        indptr = np.arange(0, n * NONZEROS + 1, NONZEROS, dtype=np.int32)
        X = sp.csr_matrix((np.ones(n * NONZEROS), indices.ravel(), indptr), shape=(n, N_SPARSE))
        X.sum_duplicates()
        return X
    return rng.standard_normal((n, N_DENSE), dtype=np.float32 if kind == "float32" else np.float64)


def labels(X: Any) -> Any:
    """A noisy linear concept with about 30% positives."""
    rng = np.random.default_rng(1)
    score = X @ rng.normal(size=X.shape[1]) + rng.normal(size=X.shape[0])
    return np.where(score > np.quantile(score, 0.7), 1, -1).astype(np.int8)


def goal_and_table(name: str, n: int) -> tuple[Goal, pa.Table]:
    """Two constraints; or 50, one for each of 50 groups, nested populations, or populations that overlap at random.

    The last are the hardest there are: hardly two rows belong to the same populations, so every row is a cell of its
    own. A recall looks at positive rows only; a coverage at all of them, "rare" ones at a tenth for each constraint.
    """
    rng = np.random.default_rng(2)
    if name == "2":
        table = pa.table({"g": pa.array(rng.integers(0, 2, n).astype(np.int8))})
        a, b = (Population(part, where=col("g") == value) for part, value in (("a", 0), ("b", 1)))
        return Goal(error_rate(), [positive_rate(a) >= 0.9 * positive_rate(b), recall() >= 0.7]), table
    if name == "50 groups":
        table = pa.table({"g": pa.array(rng.integers(0, 50, n).astype(np.int8))})
        groups = [Population(f"g{j}", where=col("g") == j) for j in range(50)]
        return Goal(error_rate(), [recall(group) >= 0.6 for group in groups]), table
    if name == "50 nested":
        table = pa.table({"score": pa.array(rng.random(n))})
        nested = [Population(f"over {j}", where=col("score") >= j / 50) for j in range(50)]
        return Goal(error_rate(), [recall(part) >= 0.6 for part in nested]), table
    share = 0.1 if "rare" in name else 0.5
    table = pa.table({f"p{j}": pa.array(rng.random(n) < share) for j in range(50)})
    overlapping = [Population(f"p{j}", where=col(f"p{j}")) for j in range(50)]
    rate, bound = (positive_rate, 0.35) if "coverage" in name else (recall, 0.6)
    return Goal(error_rate(), [rate(part) >= bound for part in overlapping]), table


def touched(goal: Goal, X: Any, y: Any, table: pa.Table) -> tuple[float, int]:
    """Mean number of constraints that touch a row, and the number of cells."""
    tied = bind(goal, make_sources({None: ()}, Rows(X, y, populations=table), classes=(-1, 1)), warn_trivial=False)
    per_cell = np.diff(tied.coefficients.indptr)
    return float(per_cell @ tied.cell_count) / X.shape[0], len(per_cell)


def measure_case(kind: str, goal_name: str, n: int, solver: str) -> dict[str, Any]:
    """Measure one case in this process."""
    parts = {rows: (features(kind, rows), *goal_and_table(goal_name, rows)) for rows in (2000, n)}
    targets = {rows: labels(X) for rows, (X, _, _) in parts.items()}

    def train(rows: int) -> int:
        X, goal, table = parts[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = RateConstrainedClassifier(
                goal, max_steps=2, solver_options={"solver": solver, "tol": 0.001}, on_infeasible="warn"
            )
            return int(made.fit(X, targets[rows], populations=table).n_rounds_)

    train(2000)  # compiles
    gc.collect()
    resident = resident_growth(lambda: train(n))
    arrow = pa.default_memory_pool()
    arrow_before = arrow.bytes_allocated()
    tracemalloc.start()
    rounds = train(n)
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    X, goal, table = parts[n]
    touch, cells = touched(goal, X, targets[n], table)
    return {
        "kind": kind, "goal": goal_name, "solver": solver, "n": n, "touch": round(touch, 3), "cells": cells,
        "rounds": rounds, "allowed": round(BASE + PER_TOUCH * touch, 2),
        "resident_per_row": None if resident is None else round(resident / (8 * n), 2),
        "traced_per_row": round(traced / (8 * n), 2),
        "arrow_peak_per_row": round((arrow.max_memory() - arrow_before) / (8 * n), 2),
    }  # fmt: skip


def resident_growth(run: Callable[[], Any]) -> int | None:
    """Bytes by which the peak of the resident set exceeds its size before; None where the system does not tell."""
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        run()
        return None
    reset.write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    run()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise LookupError(field)


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """Measure one case in a new process."""
    command = [sys.executable, "-m", "benchmarks.memory", "--case", json.dumps(case)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--case", default=None, help="measure this one case (JSON) in this process and print it")
    made.add_argument("--only", default="", help="only cases whose `kind goal n solver` contains this text")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 unless it breaks (a target missed is shown, not an error)."""
    options = options_of(arguments)
    if options.case is not None:
        case = json.loads(options.case)
        with one_thread():
            print(json.dumps(measure_case(case["kind"], case["goal"], case["n"], case["solver"])))
        return 0
    about = machine()
    if options.quick:
        with one_thread():
            rows = [measure_case("csr", "2", 4000, "auto")]
    else:
        rows = [run_case(case) for case in CASES if options.only in "{kind} {goal} {n} {solver}".format(**case)]
    section = show(
        f"Peak over the data, numbers of 8 bytes a row (allowed: {BASE} + {PER_TOUCH} x constraints that touch a row)",
        [
            "features", "constraints", "solver", "rows", "cells", "touch a row", "rounds", "allowed",
            "resident", "traced", "Arrow", "within",
        ],
        [
            [
                row["kind"], row["goal"], row["solver"], row["n"], row["cells"], row["touch"], row["rounds"],
                row["allowed"], row["resident_per_row"], row["traced_per_row"], row["arrow_peak_per_row"],
                verdict(max(row["resident_per_row"] or 0.0, row["traced_per_row"]) <= row["allowed"]),
            ]
            for row in rows
        ],
    )  # fmt: skip
    write(options, "memory", {"machine": about, "rows": rows}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())

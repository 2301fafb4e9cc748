"""Time and memory of whole fits: against rows, features and constraints, and in numbers a row over the data."""

import gc
import resource
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from benchmarks.data.goal_rows import GoalRows
from benchmarks.machine import resident_growth
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, quietly
from widemargin import RateConstrainedClassifier
from widemargin.goals import Goal, Population, col, error_rate, positive_rate, recall
from widemargin.goals.binding.bind import bind
from widemargin.goals.binding.sources import make_sources
from widemargin.rows import Rows

PEOPLE, DENSE, WORDS = "drawn: people of a9a", "drawn: dense", "drawn: words"
MIXED, HEAVY = "drawn: mixed columns", "drawn: heavy columns"


def _cases(rows: str, n: int, d: int, m: int, **more: Any) -> Row:
    return {"rows": rows, "n": n, "d": d, "m": m, **more}


BY_ROWS = [_cases(PEOPLE, n, 142, 4) for n in (10_000, 30_000, 100_000, 300_000, 500_000, 1_000_000)]
BY_CONSTRAINTS = [
    *(_cases(PEOPLE, 100_000, 142, m) for m in (1, 50, 200, 500)),
    *(_cases(PEOPLE, 1_000_000, 142, m) for m in (50, 500)),
]
BY_FEATURES = [
    *(_cases(DENSE, 32_000, d, 2) for d in (100, 300, 1000)),
    *(_cases(WORDS, 20_000, d, 2) for d in (1000, 5000, 30_000)),
    *(_cases(WORDS, 20_000, 30_000, 4, solver=solver) for solver in ("auto", "newton", "cutting-plane")),
]
QUICK_ROWS = [_cases(PEOPLE, 3000, 142, 10), _cases(DENSE, 500, 10, 2), _cases(WORDS, 500, 2000, 2)]
BLIND = [
    *(_cases(MIXED, n, 138, 4) for n in (60_000, 125_000, 250_000, 500_000, 1_000_000)),
    _cases(MIXED, 1_000_000, 138, 50),
    *(_cases(HEAVY, 32_000, d, 2) for d in (125, 250, 500, 1000)),
]
QUICK_BLIND = [_cases(MIXED, 3000, 138, 10), _cases(HEAVY, 500, 10, 2)]


def _rows_of(ctx: Context, case: Row) -> GoalRows:
    make, n = ctx.load(case["rows"]), case["n"]
    sized = {PEOPLE: (n, case["m"]), MIXED: (n, case["m"]), WORDS: (n, case["d"], case["m"])}
    made: GoalRows = make(*sized.get(case["rows"], (n, case["d"])))
    return made


def whole_fit(ctx: Context, case: Row) -> Row:
    """A whole fit with the default parameters in this process: a small one compiles, then it is timed."""

    def fit(task: GoalRows) -> RateConstrainedClassifier:
        options = {"solver": case.get("solver", "auto")}
        made = RateConstrainedClassifier(task.goal, solver_options=options, on_infeasible="warn")
        return made.fit(task.X, task.y, populations=task.populations)

    small, task = _rows_of(ctx, case | {"n": min(case["n"], 2000), "m": min(case["m"], 4)}), _rows_of(ctx, case)
    Timing.of(lambda: fit(small))
    timing = ctx.clock({"fit": lambda: fit(task)}, warm_up=False)["fit"]
    model: RateConstrainedClassifier = timing.result
    return case | timing.to_dict() | {
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),  # kilobytes on Linux
        "stored": int(getattr(task.X, "nnz", task.X.size)), "solver": model.solver_, "iterations": model.n_iter_,
        "steps": model.n_steps_, "rounds": model.n_rounds_, "gap": model.subproblem_gap_,
        "met": model.goal_report_.all_met(), "objective": model.goal_report_.objective,
    }  # fmt: skip


def cases(ctx: Context) -> dict[str, list[Row]]:
    """By rows, constraints and features, each in a process of its own; the peak counts the data, too."""
    parts = ctx.pick({"rows": BY_ROWS, "constraints": BY_CONSTRAINTS, "features": BY_FEATURES}, {"all": QUICK_ROWS})
    return {part: [ctx.fresh(whole_fit, case) for case in some] for part, some in parts.items()}


def blind_cases(ctx: Context) -> list[Row]:
    """The same on families that nothing was chosen on."""
    return [ctx.fresh(whole_fit, case) for case in ctx.pick(BLIND, QUICK_BLIND)]


def _every(content: Content) -> list[Row]:
    return [row for rows in content["cases"].values() for row in rows]


def _limits(rows: list[Row], kinds: tuple[str, ...]) -> Iterable[Limit]:
    limits: tuple[tuple[Callable[[Row], bool], str, float], ...] = (
        (lambda row: row["n"] == 500_000 and row["m"] == 4, "500,000 rows, 4 constraints", 5.0),
        (lambda row: row["n"] == 1_000_000 and row["m"] == 50, "1,000,000 rows, 50 constraints", 30.0),
        (lambda row: row["rows"] in kinds and (row["n"], row["d"]) == (32_000, 1000), "dense, 32,000 x 1,000", 10.0),
    )
    for chosen, what, limit in limits:
        for row in [row for row in rows if chosen(row)][:1]:
            yield Limit(f"{what}, processor", row["median_processor_s"], limit, "s")
            if what.startswith("1,000,000"):
                yield Limit(f"{what}, memory", row["peak_gb"], 3.0, "GB")


def _blind_sentences(content: Content) -> Iterable[tuple[str, str]]:
    found = {(row["n"], row["m"]): row for row in content["cases"] if row["rows"] == MIXED}
    if {(500_000, 4), (1_000_000, 50)} <= found.keys():
        few, many = found[500_000, 4], found[1_000_000, 50]
        yield (
            "docs/comparison.md",
            (
                f"500,000 drawn rows under four constraints take {few['median_processor_s']:.0f} processor seconds, a "
                f"million rows with a recall floor in each of 50 countries {many['median_processor_s']:.0f} and "
                f"{many['peak_gb']:.1f} GB"
            ),
        )


# --- memory -----------------------------------------------------------------------------------------------------------

BASE, PER_TOUCH = 20, 2
N_SPARSE, NONZEROS, N_DENSE = 123, 14, 20
KINDS = ("csr", "dense", "float32")
FOUR = ("2", "50 groups", "50 nested", "50 overlapping")
MEMORY_CASES = [
    *((kind, goal, 200_000, "auto") for kind in KINDS for goal in FOUR),
    *(("csr", goal, 200_000, "auto") for goal in ("50 overlapping coverage", "50 rare overlapping coverage")),
    *(("csr", goal, 1_000_000, "auto") for goal in ("2", "50 groups", "50 overlapping")),
    *((kind, "2", 200_000, solver) for solver in ("interior-point", "cutting-plane") for kind in KINDS[:2]),
    *(("csr", "50 overlapping", 200_000, solver) for solver in ("interior-point", "cutting-plane")),
]
"""Kinds of features, goals, rows and solvers; the cost a row does not depend on n, so three cases of a million do."""


def features(kind: str, n: int) -> Any:
    """CSR with 14 ones among 123 columns, or 20 dense columns of float64 or float32."""
    rng = np.random.default_rng(0)
    if kind != "csr":
        return rng.standard_normal((n, N_DENSE), dtype=np.float32 if kind == "float32" else np.float64)
    indices = rng.integers(0, N_SPARSE, (n, NONZEROS), dtype=np.int32)
    indices.sort(axis=1)
    indptr = np.arange(0, n * NONZEROS + 1, NONZEROS, dtype=np.int32)
    X = sp.csr_matrix((np.ones(n * NONZEROS), indices.ravel(), indptr), shape=(n, N_SPARSE))
    X.sum_duplicates()
    return X


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
    elif name == "50 nested":
        table = pa.table({"score": pa.array(rng.random(n))})
        groups = [Population(f"over {j}", where=col("score") >= j / 50) for j in range(50)]
    else:
        share = 0.1 if "rare" in name else 0.5
        table = pa.table({f"p{j}": pa.array(rng.random(n) < share) for j in range(50)})
        groups = [Population(f"p{j}", where=col(f"p{j}")) for j in range(50)]
    rate, bound = (positive_rate, 0.35) if "coverage" in name else (recall, 0.6)
    return Goal(error_rate(), [rate(group) >= bound for group in groups]), table


def touched(goal: Goal, X: Any, y: Any, table: pa.Table) -> tuple[float, int]:
    """Mean number of constraints that touch a row, and the number of cells."""
    tied = bind(goal, make_sources({None: ()}, Rows(X, y, populations=table), classes=(-1, 1)), warn_trivial=False)
    per_cell = np.diff(tied.coefficients.indptr)
    return float(per_cell @ tied.cell_count) / X.shape[0], len(per_cell)


def memory_of(ctx: Context, kind: str, goal_name: str, n: int, solver: str) -> Row:
    """The peak over the data of a fit in this process, by the resident set, and of another by traced allocations."""
    parts = {rows: (features(kind, rows), *goal_and_table(goal_name, rows)) for rows in (2000, n)}
    targets = {rows: labels(X) for rows, (X, _, _) in parts.items()}

    def train(rows: int) -> int:
        X, goal, table = parts[rows]
        options = {"solver": solver, "tol": 0.001}
        made = RateConstrainedClassifier(goal, max_steps=2, solver_options=options, on_infeasible="warn")
        with quietly():
            return int(made.fit(X, targets[rows], populations=table).n_rounds_)

    train(2000)  # compiles
    gc.collect()
    _, resident = resident_growth(lambda: train(n))
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


def memory(ctx: Context) -> list[Row]:
    """Every case in a process of its own, on synthetic rows."""
    return [ctx.fresh(memory_of, *case) for case in ctx.pick(MEMORY_CASES, [("csr", "2", 4000, "auto")])]


def _memory_rows(content: Content) -> Iterable[Row]:
    for row in content["rows"]:
        yield row | {"within": max(row["resident_per_row"] or 0.0, row["traced_per_row"]) <= row["allowed"]}


def _memory_targets(content: Content) -> Iterable[Limit]:
    for how, name in (("traced_per_row", "traced"), ("resident_per_row", "resident")):
        shares = [row[how] / row["allowed"] for row in content["rows"] if row.get(how) is not None]
        if shares:
            yield Limit(f"memory of a fit, {name}, largest share of what is allowed", max(shares), 1.0)


_FITS = (
    "rows | n: {n:,} | d: {d:,} | m | median s: {median_s:.2f} | processor s: {median_processor_s:.2f} | peak GB: "
    "{peak_gb} | solver | iterations | rounds | gap: {gap:.0e} | met | objective: {objective:.4f}"
)

TASKS = {
    "scaling": Task(
        "Whole fits with the defaults against rows (people of a9a drawn with replacement, 19 columns more and 1% of "
        "the bits flipped), constraints (a recall floor in each of up to 500 countries) and features (dense columns, "
        "word counts).",
        {"cases": cases}, {"fits": Table("Whole fits", _every, _FITS)},
        lambda content: _limits(_every(content), (DENSE, "dense")), half="tuning", repeats=1,
    ),
    "scaling_blind": Task(
        "The same on two drawn families that nothing was chosen on: words and skewed numbers (138 columns, 16 stored a "
        "row), and dense columns with heavy tails. Each fit in a process of its own.",
        {"cases": blind_cases},
        {"fits": Table("Whole fits", "cases", _FITS)},
        lambda content: _limits(content["cases"], (HEAVY,)), _blind_sentences, repeats=1,
    ),
    "memory": Task(
        "Memory of training over the data, in numbers of 8 bytes a row: at most 20, and 2 for every constraint that "
        "touches a row. The resident set depends on the allocator; traced allocations are exact for NumPy.",
        {"rows": memory},
        {
            "peaks": Table(
                f"Peak over the data, numbers of 8 bytes a row (allowed: {BASE} + {PER_TOUCH} x constraints that "
                f"touch a row)",
                _memory_rows,
                "features: {kind} | constraints: {goal} | solver | rows: {n} | cells | touch a row: {touch} | rounds "
                "| allowed "
                "| resident: {resident_per_row} | traced: {traced_per_row} | Arrow: {arrow_peak_per_row} | within",
            ),
        },
        _memory_targets, half="neutral",
    ),
}  # fmt: skip

"""Time and memory of whole fits against rows, columns and constraints."""

import resource
from collections.abc import Iterable
from typing import Any, NamedTuple

from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, each_fresh
from widemargin import RateConstrainedClassifier

MIXED, HEAVY = "drawn: mixed columns", "drawn: heavy columns"


class Case(NamedTuple):
    """A drawn family, its rows, columns and constraints."""

    rows: str
    n: int
    d: int
    m: int


MANY_ROWS, MANY_RULES, WIDE = (
    Case(MIXED, 500_000, 138, 4),
    Case(MIXED, 1_000_000, 138, 50),
    Case(HEAVY, 32_000, 1000, 2),
)
CASES = (
    *(MANY_ROWS._replace(n=n) for n in (60_000, 125_000, 250_000)), MANY_ROWS, MANY_ROWS._replace(n=1_000_000),
    MANY_RULES, *(WIDE._replace(d=d) for d in (125, 250, 500)), WIDE,
)  # fmt: skip
FEW = (Case(MIXED, 3000, 138, 10), Case(HEAVY, 500, 10, 2))


def whole_fit(ctx: Context, *case: Any) -> Row:
    """A whole fit with the default parameters: a small one compiles, then it is timed. The peak counts the data."""
    this = Case(*case)

    def prepared(of: Case) -> Any:
        task = ctx.load(of.rows)(of.n, of.m if of.rows == MIXED else of.d)
        model = RateConstrainedClassifier(task.goal, on_infeasible="warn")
        return lambda: model.fit(task.X, task.y, populations=task.populations)

    Timing.of(prepared(this._replace(n=min(this.n, 2000), m=min(this.m, 4))))
    timing = ctx.clock({"fit": prepared(this)}, warm_up=False)["fit"]
    model: RateConstrainedClassifier = timing.result
    return this._asdict() | {
        "median_s": timing.median, "median_processor_s": timing.processor_median,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),  # kilobytes on Linux
        "solver": model.solver_, "iterations": model.n_iter_, "rounds": model.n_rounds_, "gap": model.subproblem_gap_,
        "met": model.goal_report_.all_met(), "objective": model.goal_report_.objective,
    }  # fmt: skip


def _measured(content: Content, case: Case) -> Row | None:
    return next((row for row in content["cases"] if Case(*(row[name] for name in Case._fields)) == case), None)


def _targets(content: Content) -> Iterable[Limit]:
    for case, what, seconds in (
        (MANY_ROWS, "500,000 rows, 4 constraints", 5.0), (MANY_RULES, "1,000,000 rows, 50 constraints", 30.0),
        (WIDE, "dense, 32,000 x 1,000", 10.0),
    ):  # fmt: skip
        if (row := _measured(content, case)) is not None:
            yield Limit(f"{what}, processor", row["median_processor_s"], seconds, "s")
            if case == MANY_RULES:
                yield Limit(f"{what}, memory", row["peak_gb"], 3.0, "GB")


def _sentences(content: Content) -> Iterable[tuple[str, str]]:
    few, many = (_measured(content, case) for case in (MANY_ROWS, MANY_RULES))
    if few and many:
        text = (
            f"500,000 drawn rows under four constraints take {few['median_processor_s']:.0f} processor seconds, a "
            f"million rows with a recall floor in each of 50 countries {many['median_processor_s']:.0f} and "
            f"{many['peak_gb']:.1f} GB"
        )
        yield "docs/comparison.md", text


TASKS = {
    "scaling_blind": Task(
        "Whole fits with the defaults against rows, columns and constraints, on two drawn families that nothing was "
        "chosen on: words and skewed numbers (138 columns, 16 stored a row) with a recall floor in each of up to 50 "
        "countries, and dense columns with heavy tails. Each fit in a process of its own.",
        {"cases": each_fresh(whole_fit, CASES, FEW)},
        {
            "fits": Table(
                "Whole fits", "cases",
                "rows | n: {n:,} | d: {d:,} | m | median s: {median_s:.2f} | processor s: {median_processor_s:.2f} "
                "| peak GB: {peak_gb} | solver | iterations | rounds | gap: {gap:.0e} | met "
                "| objective: {objective:.4f}",
            ),
        },
        _targets, _sentences, repeats=1,
    ),
}  # fmt: skip

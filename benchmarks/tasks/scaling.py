"""Time and memory of whole fits against rows, columns and constraints."""

import resource
from collections.abc import Iterable, Mapping

from benchmarks.data.families import GoalRows
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, each_fresh
from widemargin import RateConstrainedClassifier

MIXED, HEAVY = "drawn: mixed columns", "drawn: heavy columns"
Case = tuple[str, int, int, int]
"""A drawn family, its rows, columns and constraints."""

MANY_ROWS, MANY_RULES, WIDE = (MIXED, 500_000, 138, 4), (MIXED, 1_000_000, 138, 50), (HEAVY, 32_000, 1000, 2)
CASES = (
    *((MIXED, n, 138, 4) for n in (60_000, 125_000, 250_000, 500_000, 1_000_000)), MANY_RULES,
    *((HEAVY, 32_000, d, 2) for d in (125, 250, 500, 1000)),
)  # fmt: skip


def whole_fit(ctx: Context, rows: str, n: int, d: int, m: int) -> Row:
    """A whole fit with the default parameters: a small one compiles, then it is timed. The peak counts the data."""

    n, d = ctx.pick((n, d), (500, 10))

    def task(n: int, m: int) -> GoalRows:
        drawn: GoalRows = ctx.load(rows)(n, m if rows == MIXED else d)
        return drawn

    Timing.of(task(min(n, 2000), min(m, 4)).fit)
    timing = Timing.of(task(n, m).fit, ctx.repeats)
    model: RateConstrainedClassifier = timing.result
    return {
        "rows": rows, "n": n, "d": d, "m": m,
        "median_s": timing.median, "median_processor_s": timing.processor_median,
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),  # kilobytes on Linux
        "solver": model.solver_, "iterations": model.n_iter_, "rounds": model.n_rounds_, "gap": model.subproblem_gap_,
        "met": model.goal_report_.all_met(), "objective": model.goal_report_.objective,
    }  # fmt: skip


def _by_case(content: Content) -> Mapping[Case, Row]:
    return {(row["rows"], row["n"], row["d"], row["m"]): row for row in content["cases"]}


class scaling_blind(Task, repeats=1):
    """Whole fits with the defaults against rows, columns and constraints, on two drawn families that nothing was chosen
    on: words and skewed numbers (138 columns, 16 stored a row) with a recall floor in each of up to 50 countries, and
    dense columns with heavy tails. Each fit in a process of its own.
    """

    parts = {"cases": each_fresh(whole_fit, CASES, slice(None, None, 9))}
    fits = Table("Whole fits", "cases", """
        rows | n:, | d:, | m | median_s:.2f | processor s: {median_processor_s:.2f} | peak GB: {peak_gb} | solver
        | iterations | rounds | gap:.0e | met | objective:.4f
    """)  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        rows = _by_case(content)
        for case, what, seconds in (
            (MANY_ROWS, "500,000 rows, 4 constraints", 5.0), (MANY_RULES, "1,000,000 rows, 50 constraints", 30.0),
            (WIDE, "dense, 32,000 x 1,000", 10.0),
        ):  # fmt: skip
            if case in rows:
                yield Limit(f"{what}, processor", rows[case]["median_processor_s"], seconds, "s")
                if case == MANY_RULES:
                    yield Limit(f"{what}, memory", rows[case]["peak_gb"], 3.0, "GB")

    def sentences(self, content: Content) -> Iterable[str]:
        few, many = (_by_case(content).get(case) for case in (MANY_ROWS, MANY_RULES))
        if few and many:
            yield (
                f"500,000 drawn rows under four constraints take {few['median_processor_s']:.0f} processor seconds, a "
                f"million rows with a recall floor in each of 50 countries {many['median_processor_s']:.0f} and "
                f"{many['peak_gb']:.1f} GB"
            )

"""One convex step of constrained training beside a generic interior-point solver (clarabel).

The problem is a quadratic programme: goals of one, four and ten constraints on the first rows of a9a, majorised at
w = 0, lambda = 1/n; equal rows are one for both. Ours is solved to relative duality gaps of 1e-4 (that of a fit's last
step) and 1e-6, clarabel to its own tolerance of 1e-8. Shown beside the seconds is whether clarabel's optimum lies in
our certified bracket. Run as `python -m benchmarks.convex_step`; see README.md here.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import (
    Adult,
    MissingDataError,
    Timing,
    compare,
    interleave,
    load_adult,
    load_peers,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    verdict,
    write,
)
from benchmarks.cut_choosers import RHO, convex_step, ten_groups
from widemargin.goals import Goal, Population, col, error_rate, positive_rate, recall
from widemargin.problems.rate_constrained import ConvexSubproblem
from widemargin.solvers.base import Budget, ConvexResult
from widemargin.solvers.convex.convex_step import ConvexStep

ROWS = (2_000, 8_000, 32_561)
GAPS = (1e-4, 1e-6)
EXACT = 1e-8


def step(adult: Adult, rows: int, m: int) -> ConvexSubproblem:
    """The convex problem with m constraints on the first rows."""
    some = np.arange(min(rows, adult.X.shape[0]))
    table = adult.populations.take(some)
    if m == 10:
        goal, X, y, table = ten_groups(replace(adult, X=adult.X[some], y=adult.y[some]))
        return convex_step(goal, X, y, table)
    women, men = (Population(name, where=col("sex") == name) for name in ("Female", "Male"))
    asked = [positive_rate(women) >= 0.8 * positive_rate(men)]
    if m == 4:
        asked += [recall(women) >= 0.6, recall(men) >= 0.6, positive_rate(men) <= 0.3]
    return convex_step(Goal(error_rate(), asked), adult.X[some], adult.y[some], table)


def ours(sub: ConvexSubproblem, tol: float) -> ConvexResult:
    """By the solver that a fit chooses."""
    chosen = ConvexStep("auto", sub.rows.n_features)
    return chosen(sub, tol=tol, start=None, rho=RHO, budget=Budget())


def compared(sub: ConvexSubproblem, peer: Any, repeats: int) -> Mapping[str, Timing]:
    """Timings with results: ours by gap, and "clarabel"."""
    cases: dict[str, Any] = {f"{tol:g}": partial(ours, sub, tol) for tol in GAPS}
    if peer is not None:
        cases["clarabel"] = partial(peer.solve_exact, sub, EXACT)
    return interleave(cases, repeats)


def row_of(sub: ConvexSubproblem, rows: int, m: int, timings: Mapping[str, Timing]) -> dict[str, Any]:
    """Seconds, ratios, and how far the two optima are apart."""
    found: dict[str, Any] = {"rows": rows, "distinct": sub.rows.n_rows, "m": m}
    found |= {name: timing.to_dict() for name, timing in timings.items()}
    best: ConvexResult = timings[f"{GAPS[-1]:g}"].result
    found |= {"gap": best.gap, "status": str(best.status)}
    if "clarabel" in timings:
        exact = timings["clarabel"].result.objective
        room = EXACT * abs(exact)
        found["ratio"] = {f"{tol:g}": compare(timings["clarabel"], timings[f"{tol:g}"]) for tol in GAPS}
        found["above"] = (best.primal - exact) / abs(exact)
        found["inside"] = bool(best.dual - room <= exact <= best.primal + 10 * room)
    return found


def show_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every problem."""
    columns = ["rows", "distinct", "constraints", *(f"to {tol:g}, s" for tol in GAPS), "clarabel s"]
    columns += [*(f"clarabel / to {tol:g}" for tol in GAPS), "our optimum over clarabel's", "in our bracket"]
    return show("One convex step, medians", columns, [_cells(row) for row in rows])


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = [
        f"{row['rows']:,}",
        f"{row['distinct']:,}",
        str(row["m"]),
        *(f"{row[f'{tol:g}']['median_s']:.3f}" for tol in GAPS),
    ]
    if "clarabel" not in row:
        return [*cells, *["-"] * (3 + len(GAPS))]
    ratios = [f"{row['ratio'][f'{tol:g}']:.1f}" for tol in GAPS]
    return [*cells, f"{row['clarabel']['median_s']:.3f}", *ratios, f"1 {row['above']:+.0e}", verdict(row["inside"])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 unless it breaks."""
    options: argparse.Namespace = parser(__doc__.splitlines()[0]).parse_args(arguments)
    about = machine()
    try:
        adult = load_adult(options)
    except MissingDataError as error:
        return skipped(error)
    peer = load_peers(options, "testing.exact")
    rows = []
    with one_thread():
        for n in (400,) if options.quick else ROWS:
            for m in (1, 4, 10):
                sub = step(adult, n, m)
                rows.append(row_of(sub, n, m, compared(sub, peer, 1 if options.quick else options.repeats)))
    write(options, "convex_step", {"machine": about, "data": adult.name, "rows": rows}, [show_rows(rows)])
    return 0


if __name__ == "__main__":
    sys.exit(main())

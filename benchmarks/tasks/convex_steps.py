"""Convex steps of constrained training beside a generic interior-point solver."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data.sources import OUTCOMES, encoded
from benchmarks.task import Content, Context, Limit, Ratio, Row, Table, Task, ratios
from widemargin.goals import Goal, Population, col, error_rate, positive_rate, recall
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.problems.rate_constrained import ConvexSubproblem, build_problem
from widemargin.rows import Rows
from widemargin.solvers.base import Budget, ConvexResult
from widemargin.solvers.convex.convex_step import ConvexStep
from widemargin_papers.data import Adult

GAPS = (1e-4, 1e-6)
EXACT = 1e-8
RHO = 10.0


def convex_step(goal: Goal, X: Any, y: Any, table: pa.Table) -> ConvexSubproblem:
    """The convex problem of the majorisation step at w = 0, lambda = 1/n."""
    sources = make_sources(baselines_used(goal), Rows(X, y, populations=table), classes=(-1, 1))
    problem = build_problem(bind(goal, sources, warn_trivial=False), [X], 1.0 / X.shape[0], fit_intercept=True)
    return problem.majorise(problem.scores(np.zeros(X.shape[1]), 0.0))


def ten_groups(X: Any) -> tuple[Goal, pa.Table]:
    """Recall of at least .6 in the ten overlapping populations of the commonest columns below half of the rows."""
    share = np.asarray((X > 0).mean(axis=0)).ravel()
    columns = sorted(np.argsort(np.where(share < 0.5, -share, 0.0), kind="stable")[:10].tolist())
    table = pa.table({f"c{j}": np.asarray(X[:, [j]].todense()).ravel() > 0 for j in columns})
    groups = [Population(f"c{j}", where=col(f"c{j}")) for j in columns]
    return Goal(error_rate(), [recall(group) >= 0.6 for group in groups]), table


def _step(X: Any, y: Any, first: Any, n: int, m: int, least: float, most: float) -> ConvexSubproblem:
    """The convex problem with m constraints on the first n rows; `least` recalls and the `most` of a rate."""
    X, y = X[:n], y[:n]
    if m == 10:
        goal, table = ten_groups(X)
        return convex_step(goal, X, y, table)
    a, b = (Population(name, where=col("group") == name) for name in "ab")
    asked = [positive_rate(a) >= 0.8 * positive_rate(b)]
    asked += [recall(a) >= least, recall(b) >= least, positive_rate(b) <= most] if m == 4 else []
    return convex_step(Goal(error_rate(), asked), X, y, pa.table({"group": np.where(first[:n], "a", "b")}))


def _ours(sub: ConvexSubproblem, tol: float) -> ConvexResult:
    """By the solver that a fit chooses."""
    return ConvexStep("auto", sub.rows.n_features)(sub, tol=tol, start=None, rho=RHO, budget=Budget())


def beside_clarabel(
    ctx: Context, data: str, X: Any, y: Any, first: Any, sizes: Sequence[int], least: float, most: float
) -> list[Row]:
    """Seconds to our gaps and to clarabel's optimum, and whether that lies in our certified bracket."""
    peer, rows = ctx.peer("testing.exact"), []
    for n in ctx.pick(sizes, (400,)):
        for m in (1, 4, 10):
            sub = _step(X, y, first, n, m, least, most)
            cases: dict[str, Callable[[], Any]] = {f"{tol:g}": partial(_ours, sub, tol) for tol in GAPS}
            if peer is not None:
                cases["clarabel"] = partial(peer.solve_exact, sub, EXACT)
            timings = ctx.clock(cases)
            best: ConvexResult = timings[f"{GAPS[-1]:g}"].result
            row: Row = {"data": data, "rows": n, "distinct": sub.rows.n_rows, "m": m, "gap": best.gap}
            row |= {name: timing.to_dict() for name, timing in timings.items()} | {"status": str(best.status)}
            if peer is not None:
                exact = timings["clarabel"].result.objective
                room = EXACT * abs(exact)
                row["ratio"] = {f"{tol:g}": timings["clarabel"].median / timings[f"{tol:g}"].median for tol in GAPS}
                row["above"] = (best.primal - exact) / abs(exact)
                row["inside"] = bool(best.dual - room <= exact <= best.primal + 10 * room)
            rows.append(row)
    return rows


def on_a9a(ctx: Context) -> list[Row]:
    """The first rows of a9a, the 80% rule between the sexes."""
    data: Adult = ctx.load("a9a")
    return beside_clarabel(ctx, data.name, data.X, data.y, data.women, (2_000, 8_000, 32_561), 0.6, 0.3)


def on_people(ctx: Context) -> list[Row]:
    """Credit-card clients, by age, in a fixed order drawn at random."""
    table = ctx.load("credit-card")
    X, labels = encoded(table, OUTCOMES["credit-card"])
    order = np.random.default_rng(0).permutation(len(labels))
    y, first = np.where(labels > 0, 1.0, -1.0)[order], (np.asarray(table["AGE"]) < 30)[order]
    return beside_clarabel(ctx, "credit-card", X[order], y, first, (2_000, 8_000, 30_000), 0.3, 0.6)


def _clarabel_targets(content: Content) -> Iterable[Ratio | Limit]:
    for row in content["rows"]:
        seconds = {
            name: row[key]["median_s"] for name, key in {"ours": "0.0001", "clarabel": "clarabel"}.items() if key in row
        }
        case = f"a convex step, {row.get('data', 'a9a')}, {row['rows']:,} rows, {row['m']} constraints"
        yield from ratios(case, seconds, "ours", {"clarabel": None})
    above = [abs(row["above"]) for row in content["rows"] if "above" in row and row["rows"] >= 2000]
    if above:
        yield Limit("convex steps: our optimum beside clarabel's, relative", max(above), 1e-6)


def _clarabel_sentences(content: Content) -> Iterable[tuple[str, str]]:
    sizes = sorted({row["rows"] for row in content["rows"]})
    spans = [[row["ratio"]["0.0001"] for row in content["rows"] if row["rows"] == n and "ratio" in row] for n in sizes]
    if all(spans) and all(row["inside"] for row in content["rows"]):
        few, many = (f"{min(span):.0f} to {max(span):.0f} times" for span in (spans[0], spans[-1]))
        yield (
            "docs/comparison.md",
            (
                f"{few} sooner with {sizes[0]:,} rows of credit-card clients, {many} with {sizes[-1]:,}, to a "
                "certified gap of 1e-4; clarabel's optimum lies in the certified bracket"
            ),
        )


_BESIDE = Table(
    "One convex step, medians", "rows",
    "rows: {rows:,} | distinct: {distinct:,} | constraints: {m} | to 1e-4, s: {0.0001[median_s]:.3f} | to 1e-6, s: "
    "{1e-06[median_s]:.3f} | clarabel, s: {clarabel[median_s]:.3f} | clarabel / to 1e-4: {ratio[0.0001]:.1f} | "
    "clarabel / to 1e-6: {ratio[1e-06]:.1f} | our optimum over clarabel's, less 1: {above:+.0e} | in our bracket: "
    "{inside}",
)  # fmt: skip

TASKS = {
    "convex_step": Task(
        "One convex step of constrained training beside clarabel, an interior-point solver for any cone programme: "
        "goals of one, "
        "four and ten constraints on the first rows of a9a, ours to gaps of 1e-4 and 1e-6, clarabel to its own 1e-8.",
        {"rows": on_a9a}, {"times": _BESIDE}, _clarabel_targets, half="tuning", peers=("clarabel",),
    ),
    "convex_step_people": Task(
        "The same on credit-card clients, which nothing was chosen on.",
        {"rows": on_people}, {"times": _BESIDE}, _clarabel_targets, _clarabel_sentences, peers=("clarabel",),
    ),
}  # fmt: skip

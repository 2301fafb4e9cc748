"""The choosers of the paper's nest side by side: SVMs solved, epochs and seconds until a relative duality gap.

Convex steps (Problem 3 of the paper) of tasks on a9a with one to ten constraints, lambda = 1/n, the first step from
w = 0 and, where the task says so, the third. Every SVM adds a cut. Run as `python -m benchmarks.cut_choosers`; see
README.md here.
"""

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.common import (
    Adult,
    MissingDataError,
    interleave,
    load_adult,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    write,
)
from benchmarks.recall_task import draw, goal_of
from widemargin.goals import External, Goal, Population, col, error_rate, positive_rate, recall
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.problems.rate_constrained import ConvexSubproblem, build_problem
from widemargin.rows import Rows
from widemargin.solvers.base import ConvexResult
from widemargin.solvers.convex import newton
from widemargin.solvers.paper_nest import cutting_plane
from widemargin_papers.solvers.cut_choosers import bias_centre_of_mass, make_chooser

CASES: dict[str, dict[str, Any]] = {
    "level": {},
    "maximisation": {"chooser": "maximisation"},
    "centre of mass": {"chooser": "centre_of_mass"},
    "level, bias by centre of mass": {"bias_chooser": bias_centre_of_mass},
    "both by centre of mass": {"chooser": "centre_of_mass", "bias_chooser": bias_centre_of_mass},
}
"""Chooser of the multipliers; the bias is chosen by minimisation unless it is said."""

GAPS = (1e-2, 1e-3, 1e-4)
RHO = 10.0


def convex_step(
    goal: Goal,
    X: Any,
    y: Any,
    table: pa.Table,
    *,
    step: int = 1,
    fit_intercept: bool = True,
    external: Mapping[str, External] | None = None,
) -> ConvexSubproblem:
    """The convex problem of a majorisation step from w = 0; the steps before it are solved to 1e-2."""
    sources = make_sources(
        baselines_used(goal), Rows(X, y, populations=table, external=external or {}), classes=(-1, 1)
    )
    tied = bind(goal, sources, warn_trivial=False)
    matrices = [X, *(external[source.name].X for source in sources[1:] if external and source.name)]
    problem = build_problem(tied, matrices, 1.0 / rows_of(matrices), fit_intercept=fit_intercept)
    sub = problem.majorise(problem.scores(np.zeros(X.shape[1]), 0.0))
    for _ in range(step - 1):
        solved = newton.solve(sub, tol=1e-2, rho=RHO)
        sub = problem.majorise(problem.scores(solved.w, solved.b))
    return sub


def rows_of(matrices: Sequence[Any]) -> int:
    """Rows of all data sets."""
    return sum(X.shape[0] for X in matrices)


def tasks(adult: Adult) -> dict[str, Callable[[], ConvexSubproblem]]:
    """What makes the convex problems, by name; m is the number of constraints."""
    women, men = (Population(name, where=col("sex") == name) for name in ("Female", "Male"))
    on_adult = partial(convex_step, X=adult.X, y=adult.y, table=adult.populations)
    made: dict[str, Callable[[], ConvexSubproblem]] = {}
    for kappa in (0.4, 0.8, 1.0):
        goal = Goal(error_rate(), [positive_rate(women) >= kappa * positive_rate(men)])
        made[f"m=1, gender {kappa}, no bias, step 1"] = partial(on_adult, goal, fit_intercept=False)
        made[f"m=1, gender {kappa}, bias, step 3"] = partial(on_adult, goal, step=3)
    two = [recall(women) >= 0.6, positive_rate(women) >= 0.8 * positive_rate(men)]
    for chosen in (two, [*two, recall(men) >= 0.6, positive_rate(men) <= 0.3]):
        goal = Goal(error_rate(), chosen)
        for step in (1, 3):
            made[f"m={len(chosen)}, rates and recall, step {step}"] = partial(on_adult, goal, step=step)
    task = draw(adult, 0)
    made["m=2, recall and churn, step 3"] = partial(
        convex_step, goal_of(0.491, 0.04), task.X, task.y, task.populations, step=3, external=task.external
    )
    for step in (1, 3):
        made[f"m=10, recall in ten groups, step {step}"] = partial(convex_step, *ten_groups(adult), step=step)
    return made


def ten_groups(adult: Adult) -> tuple[Goal, Any, Any, pa.Table]:
    """Recall of at least .6 in the ten populations, overlapping, of the commonest columns below half of the rows."""
    share = np.asarray(adult.X.mean(axis=0)).ravel()
    columns = sorted(np.argsort(np.where(share < 0.5, -share, 0.0), kind="stable")[:10].tolist())
    table = pa.table({f"c{j}": np.asarray(adult.X[:, [j]].todense()).ravel() > 0 for j in columns})
    groups = [Population(f"c{j}", where=col(f"c{j}")) for j in columns]
    return Goal(error_rate(), [recall(group) >= 0.6 for group in groups]), adult.X, adult.y, table


def reached(result: ConvexResult, gap: float) -> tuple[int, int, float] | None:
    """SVMs solved, epochs and seconds until the gap; None where it was not reached."""
    for number, entry in enumerate(result.history, 1):
        if entry["primal"] - entry["dual"] <= gap * abs(entry["primal"]):
            return number, int(entry["epochs"]), entry["seconds"]
    return None


def run_task(name: str, sub: ConvexSubproblem, repeats: int) -> list[dict[str, Any]]:
    """Every case on one convex problem, solved to the smallest gap; medians of the seconds, a row for each case."""
    runs: dict[str, list[ConvexResult]] = {case: [] for case in CASES}

    def one(case: str) -> None:
        chosen = CASES[case] | {"chooser": make_chooser(CASES[case].get("chooser", "level"))}  # keeps state
        runs[case].append(cutting_plane.solve(sub, tol=GAPS[-1], rho=RHO, **chosen))

    timings = interleave({case: partial(one, case) for case in CASES}, repeats)
    rows = []
    for case, results in runs.items():
        row: dict[str, Any] = {"task": name, "m": sub.n_constraints, "case": case, "status": str(results[-1].status)}
        for gap in GAPS:
            times = [reached(result, gap) for result in results[1:]]  # the first one warmed up
            if times[0] is not None:
                seconds = statistics.median(entry[2] for entry in times if entry is not None)
                row[f"{gap:g}"] = {"svms": times[0][0], "epochs": times[0][1], "seconds": round(seconds, 4)}
        rows.append(row | timings[case].to_dict())
    return rows


def show_tasks(rows: Sequence[dict[str, Any]]) -> str:
    """Every task and case."""
    return show(
        "SVMs solved / epochs / seconds until a relative gap",
        ["convex problem", "choosers", *(f"{gap:g}" for gap in GAPS)],
        [[row["task"], row["case"], *(_cell(row.get(f"{gap:g}")) for gap in GAPS)] for row in rows],
    )


def _cell(entry: dict[str, Any] | None) -> str:
    return "-" if entry is None else f"{entry['svms']} / {entry['epochs']} / {entry['seconds']:.2f}"


def show_means(rows: Sequence[dict[str, Any]]) -> str:
    """Geometric means over the tasks with as many constraints: SVMs, epochs and processor seconds of the whole run."""
    constraints = sorted({row["m"] for row in rows})
    last = f"{GAPS[-1]:g}"
    lines = []
    for label, group in [*((f"m = {m}", [m]) for m in constraints), ("all", constraints)]:
        base = 0.0
        for case in CASES:
            found = [row for row in rows if row["m"] in group and row["case"] == case]
            if any(last not in row for row in found):
                lines.append([label, case, "-", "-", "-", "-"])
                continue
            counts = [[row[last]["svms"], row[last]["epochs"], row["median_processor_s"]] for row in found]
            svms, epochs, seconds = np.exp(np.log(np.maximum(counts, 1e-4)).mean(axis=0)).tolist()
            base = base or seconds
            lines.append([label, case, f"{svms:.1f}", f"{epochs:.0f}", f"{seconds:.2f}", f"{seconds / base:.2f}"])
    columns = ["constraints", "choosers", "SVMs", "epochs", "processor s", f"processor s / {next(iter(CASES))}"]
    return show(f"To a gap of {last}, geometric means over the problems", columns, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 unless it breaks."""
    options = parser(__doc__.splitlines()[0]).parse_args(arguments)
    about = machine()
    try:
        adult = load_adult(options)
    except MissingDataError as error:
        return skipped(error)
    with one_thread():
        problems = tasks(adult)
        if options.quick:
            problems = dict(list(problems.items())[:2])
        repeats = 1 if options.quick else options.repeats
        rows = [row for name, make in problems.items() for row in run_task(name, make(), repeats)]
    sections = [show_means(rows), show_tasks(rows)]
    write(options, "cut_choosers", {"machine": about, "data": adult.name, "rows": rows}, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())

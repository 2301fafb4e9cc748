"""Training over blocks: the same objective, rows that do not fit, passes, overhead of a cluster, killed workers.

Parts: same, overhead, passes, features, linear, large, kills. Two worker processes; everything else on one thread.
Run as `python -m benchmarks.distributed`; see README.md here.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import (
    RESULTS,
    ROOT,
    MissingDataError,
    data_folder,
    describe,
    load_adult,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    verdict,
    write,
)
from benchmarks.distributed_task import (
    GOAL,
    KilledMap,
    Kills,
    adult_columns,
    cluster,
    limited,
    watched,
    write_synthetic,
)
from benchmarks.scaling_task import dense_task, resampled_task, text_task
from widemargin import RateConstrainedClassifier
from widemargin.datasets import load_covtype
from widemargin.distributed import BlockMap, DaskMap, SerialMap, labelled_rows
from widemargin.estimators.rate_constrained.blocks import Labels, blocked_problem, counted_goal, survey
from widemargin.estimators.rate_constrained.options import gathered
from widemargin.goals import Goal
from widemargin.goals.binding.bind import bind
from widemargin.goals.binding.sources import make_source
from widemargin.problems.rate_constrained import build_problem
from widemargin.rows import Rows
from widemargin.solvers.convex import level_method, newton

Case = dict[str, Any]
PARTS = ("same", "overhead", "passes", "features", "linear", "large", "kills")
QUICK = ("passes", "features", "linear", "large")  # without a cluster
GAPS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
CONSTRAINTS = (1, 4, 20, 50)
WIDE = (("text", 1000, 4, 1e-4), ("text", 5000, 4, 1e-4), ("text", 30_000, 4, 1e-4), ("text", 5000, 20, 1e-3),
        ("text", 5000, 50, 1e-3), ("dense", 2000, 2, 1e-3))  # fmt: skip
"""Rows, features, constraints, smallest gap."""
LARGE, LIMIT = 20_000_000, 2 << 30
KILLS = 50
FOREST = "minimize error_rate()\nsubject to floor: recall() >= 0.7\nsubject to share: positive_rate() <= 0.5"


def fit(goal: Any, X: Any, y: Any, populations: Any = None, **options: Any) -> RateConstrainedClassifier:
    """In memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = RateConstrainedClassifier(goal, on_infeasible="warn", **gathered(options))
        return model.fit(X, y, populations=populations)


def fit_blocks(goal: Any, blocks: BlockMap, options: Case | None = None, **more: Any) -> RateConstrainedClassifier:
    """Over blocks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: RateConstrainedClassifier = RateConstrainedClassifier(
            goal, on_infeasible="warn", **gathered(options or {})
        )
        model.fit_blocks(blocks, **more)
        return model


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the seconds of the wall."""
    began = time.perf_counter()
    result = run()
    return result, time.perf_counter() - began


def tasks(options: argparse.Namespace) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Goal, features, labels, populations by name."""
    adult = load_adult(options)
    a9a = resampled_task(adult, 2000, 4) if options.quick else None
    sex = {"sex": adult.women.astype(np.uint8)}
    found = {"a9a": (GOAL, adult.X, adult.y, _table(sex)) if a9a is None else tuple(a9a[k] for k in (3, 0, 1, 2))}
    if not options.quick:
        forest = load_covtype(data_folder(options.data) or ROOT.parent / "shared" / "data")
        X = np.concatenate([forest.X, forest.X_test])
        y = np.concatenate([forest.y, forest.y_test])
        low, high = X.min(axis=0), X.max(axis=0)
        found["covtype"] = (FOREST, (X - low) / np.maximum(high - low, 1), y, None)
    return found


def _table(columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.table(columns)


def same(options: argparse.Namespace, client: Any) -> list[Case]:
    """The first convex step to 1e-6, in memory and over blocks: the optimum lies in both brackets [dual, primal]."""
    rows = []
    for name, (goal, X, y, table) in tasks(options).items():
        here = first_step(problem_in_memory(goal, X, y, table))
        recipes = labelled_rows(X, y, populations=table, block_rows=max(500, len(y) // 8))
        for place, blocks in (("serial", SerialMap(recipes)), ("dask", DaskMap(recipes, client))):
            there = first_step(problem_of(goal, blocks))
            apart = max(here.dual - there.primal, there.dual - here.primal, 0.0)
            rows.append({"data": name, "n": len(y), "where": place, "primal": there.primal, "dual": there.dual,
                         "gap": there.gap, "primal in memory": here.primal, "dual in memory": here.dual,
                         "gap in memory": here.gap, "brackets apart": apart})  # fmt: skip
    return rows


def first_step(problem: Any, gap: float = 1e-6, solver: Any = newton) -> Any:
    """The convex step from nothing."""
    at = problem.scores(np.zeros(problem.n_features), problem.constant_start(1.0))
    return solver.solve(problem.majorise(at), tol=gap)


def problem_in_memory(goal: str | Goal, X: Any, y: Any, populations: Any) -> Any:
    """The problem that `fit` solves, with the regulariser of `problem_of`."""
    goal = goal if isinstance(goal, Goal) else Goal.parse(goal)
    source = make_source(Rows(X, y, populations=populations), classes=(-1.0, 1.0))
    return build_problem(bind(goal, [source]), [X], 10.0 / len(y), fit_intercept=True)


def overhead(options: argparse.Namespace, client: Any) -> list[Case]:
    """Whole fits in memory, over blocks in this process, and by two workers, rows in memory; medians of the wall.

    By default rows of less than 256 MB are fetched from the workers; they are also timed where they are.
    """
    adult, rows = load_adult(options), []
    found: dict[str, tuple[Any, Any, Any, Any]] = tasks(options)
    for n in () if options.quick else (500_000, 2_000_000):
        large = resampled_task(adult, n, 4)
        found[f"a9a, {n:,} rows drawn"] = (large.goal, large.X, large.y, large.populations)
    for name, (goal, X, y, table) in found.items():
        recipes = labelled_rows(X, y, populations=table, block_rows=-(-len(y) // 4))
        cases: dict[str, Callable[[], Any]] = {
            "in memory": lambda goal=goal, X=X, y=y, table=table: fit(goal, X, y, table),
            "serial": lambda goal=goal, recipes=recipes: fit_blocks(goal, SerialMap(recipes)),
            "dask": lambda goal=goal, recipes=recipes: fit_blocks(goal, DaskMap(recipes, client)),
            "kept": lambda goal=goal, recipes=recipes: fit_blocks(goal, DaskMap(recipes, client), gather_below=0),
        }  # fmt: skip
        seconds: dict[str, list[float]] = {case: [] for case in cases}
        models = {}
        for turn in range(1 + max(1, options.repeats)):
            for case, run in cases.items():
                models[case], wall = timed(run)
                if turn:
                    seconds[case].append(wall)
        medians = {case: float(np.median(walls)) for case, walls in seconds.items()}
        rows.append({"data": name, "n": len(y), **{f"{case} s": medians[case] for case in cases},
                     "ratio": medians["dask"] / medians["in memory"],
                     "ratio kept": medians["kept"] / medians["in memory"], "passes": models["dask"].n_passes_,
                     "objective": models["dask"].goal_report_.objective,
                     "objective in memory": models["in memory"].goal_report_.objective})  # fmt: skip
    return rows


def passes(options: argparse.Namespace) -> list[Case]:
    """Looks at all rows by gap and by number of constraints: one convex step from nothing, and a whole fit."""
    adult, rows = load_adult(options), []
    n = 2000 if options.quick else 200_000
    for m in CONSTRAINTS[:2] if options.quick else CONSTRAINTS:
        task = resampled_task(adult, n, m)
        recipes = labelled_rows(task.X, task.y, populations=task.populations, block_rows=-(-n // 4))
        for gap in GAPS[1:3] if options.quick else GAPS:
            here = {"n": n, "m": m, "gap": gap}
            problem = problem_of(task.goal, SerialMap(recipes))
            step = first_step(problem, gap)
            rows.append({"what": "one step", **here, "reached": step.gap, "passes": problem.rows.n_passes,
                         "newton": step.n_iter})  # fmt: skip
            model = fit_blocks(task.goal, SerialMap(recipes), {"tol": gap})
            rows.append({"what": "fit", **here, "reached": model.subproblem_gap_, "passes": model.n_passes_,
                         "newton": model.n_iter_})  # fmt: skip
    return rows


def features(options: argparse.Namespace) -> list[Case]:
    """Looks at all rows of one convex step where features are many: the level method and Newton's, on 20,000 rows."""
    n, rows = 1000 if options.quick else 20_000, []
    for kind, d, m, least in WIDE[:1] if options.quick else WIDE:
        task = text_task(n, d, m) if kind == "text" else dense_task(n, d)
        recipes = labelled_rows(task.X, task.y, populations=task.populations, block_rows=-(-n // 4))
        for gap in (gap for gap in (1e-2, 1e-3, 1e-4) if gap >= least):
            row: Case = {"rows": kind, "n": n, "d": d, "m": m, "gap": gap}
            for name, solver in (("bundle", level_method), ("newton", newton)):
                problem = problem_of(task.goal, SerialMap(recipes))
                began = time.process_time()
                step = first_step(problem, gap, solver)
                row |= {name: problem.rows.n_passes, f"{name} gap": step.gap, f"{name} s": time.process_time() - began}
            rows.append(row)
    return rows


def problem_of(goal: str | Goal, blocks: BlockMap) -> Any:
    """The ramp problem over blocks of rows with the labels 1 and -1, with the default regulariser."""
    labels = Labels((-1.0, 1.0), goal if isinstance(goal, Goal) else Goal.parse(goal), {})
    found = survey(blocks)
    counts, tied = counted_goal(blocks, labels)
    return blocked_problem(
        blocks, labels, counts, tied, found, lam=10.0 / found.weight, fit_intercept=True, scratch=None
    )  # fmt: skip


def linear(options: argparse.Namespace, folder: Path) -> list[Case]:
    """Seconds of processor of a whole fit over mapped files, by look at all rows, against the number of rows."""
    adult, rows = load_adult(options), []
    for n in (2000, 4000) if options.quick else (1_000_000, 2_000_000, 4_000_000, 8_000_000):
        place = folder / f"linear{n}"
        write_synthetic(adult, n, place)
        blocks = CountedMap(adult_columns(place), hold=False)
        CountedMap.seconds, CountedMap.reads = 0.0, 0
        model = fit_blocks(GOAL, blocks, {"max_steps": 1, "enforce": "randomized"}, scratch=str(folder))
        rows.append({"n": n, "passes": model.n_passes_, "s a pass": CountedMap.seconds / max(CountedMap.reads, 1),
                     "ns a row and pass": 1e9 * CountedMap.seconds / max(CountedMap.reads, 1) / n})  # fmt: skip
    return rows


class CountedMap(SerialMap):
    """Notes the seconds of processor of the Newton passes that look at features."""

    seconds = 0.0
    reads = 0

    def stream(self, function: Any, message: Any = None) -> Any:
        """Also when it is asked."""
        began = time.process_time()
        results = list(super().stream(function, message))
        if getattr(getattr(message, "call", None), "name", "") in ("move", "slopes", "settle"):
            type(self).seconds += time.process_time() - began
            type(self).reads += 1
        return iter(results)


def large_case(case: Case) -> Case:
    """In a process of its own: synthetic rows from Parquet, under a limit of private memory."""
    limited(case["limit"])
    folder = Path(case["folder"])
    recipes = adult_columns(folder / "rows")
    blocks = SerialMap(recipes, hold=False)
    with watched() as peak:
        options = {"scratch": str(folder), "checkpoint": folder / "run.json"}
        model, seconds = timed(lambda: fit_blocks(GOAL, blocks, **options))
    report = model.goal_report_
    return {
        "n": case["n"], "seconds": seconds, "processor": time.process_time(), "passes": model.n_passes_,
        "gap": model.subproblem_gap_, "objective": report.objective, "met": report.all_met(),
        "slacks": [item.slack for item in report.constraints], "status": model.status_, **peak,
        "checkpoint": (folder / "run.json").stat().st_size, "coef": model.coef_[0].tolist(),
        "intercept": float(model.intercept_[0]),
    }  # fmt: skip


def large(options: argparse.Namespace, folder: Path) -> list[Case]:
    """More rows than the process may hold."""
    n = 4000 if options.quick else options.rows
    _, seconds = timed(lambda: write_synthetic(load_adult(options), n, folder / "rows"))
    case = {"n": n, "folder": str(folder), "limit": LIMIT}
    if options.quick:
        done = large_case({**case, "limit": -1})
    else:
        command = [sys.executable, "-m", "benchmarks.distributed", "--case", json.dumps(case)]
        own = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}  # else a gigabyte is set aside unused
        ended = subprocess.run(command, cwd=ROOT, env=os.environ | own, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise RuntimeError(f"large: exit code {ended.returncode}\n{ended.stderr[-3000:]}")
        done = json.loads(ended.stdout.splitlines()[-1])
    size = sum(path.stat().st_size for path in (folder / "rows").iterdir())
    w, b = np.array(done.pop("coef")), done.pop("intercept")
    wrong = sum(  # counted once more, by nothing but NumPy
        int(np.count_nonzero((part["X"] @ w + b > 0.0) != (part["y"] > 0)))
        for part in (recipe.load() for recipe in adult_columns(folder / "rows"))
    )
    return [{**done, "limit": LIMIT, "written s": seconds, "parquet": size, "counted": wrong / n}]


def kills(options: argparse.Namespace, client: Any) -> list[Case]:
    """Fits during which workers are killed: the model of an undisturbed run, to the last bit."""
    adult = load_adult(options)
    task = resampled_task(adult, 2000 if options.quick else 60_000, 4)
    recipes = labelled_rows(task.X, task.y, populations=task.populations, block_rows=-(-len(task.y) // 6))
    expected = fit_blocks(task.goal, SerialMap(recipes))
    _, undisturbed = timed(lambda: fit_blocks(task.goal, DaskMap(recipes, client), gather_below=0))
    most, rows = 2 if options.quick else KILLS, []
    rng = random.Random(0)
    while sum(row["kills"] for row in rows) < most and len(rows) < most:
        blocks = KilledMap(recipes, client)
        blocks.kills = Kills(client, rng, every=10, most=most - sum(row["kills"] for row in rows))
        model, seconds = timed(lambda blocks=blocks: fit_blocks(task.goal, blocks, gather_below=0))
        rows.append({"run": len(rows) + 1, "kills": blocks.kills.done, "calls": blocks.kills.calls, "seconds": seconds,
                     "undisturbed s": undisturbed, "gap": model.subproblem_gap_,
                     "same": bool(np.array_equal(model.coef_, expected.coef_))})  # fmt: skip
    return rows


def sections_of(found: dict[str, list[Case]]) -> list[str]:
    """Tables."""
    titles = {
        "same": "The first convex step to a gap of 1e-6 (target: brackets that overlap)",
        "overhead": "Whole fits, rows in memory, two workers (target: less than 2 times; kept: not fetched)",
        "passes": "Looks at all rows, by gap and number of constraints",
        "features": "Looks at all rows of one convex step with many features",
        "linear": "Processor seconds of a look at all rows (target: linear)",
        "large": f"More rows than fit: {LIMIT >> 30} GB of private memory at most",
        "kills": "Workers killed at random (target: the same bits as undisturbed)",
    }
    holds: dict[str, Callable[[Case], bool]] = {
        "same": lambda row: not row["brackets apart"] and max(row["gap"], row["gap in memory"]) <= 1e-6,
        "overhead": lambda row: bool(row["ratio"] < 2.0),
        "kills": lambda row: bool(row["same"]),
        "large": lambda row: bool(row["met"] and abs(row["counted"] - row["objective"]) < 1e-9),
    }
    sections = []
    for part, rows in found.items():
        names = [name for name in rows[0] if name != "slacks"]
        lines = [[_short(row[name]) for name in names] for row in rows]
        if part in holds:
            names.append("reached")
            lines = [[*line, verdict(holds[part](row))] for line, row in zip(lines, rows, strict=True)]
        sections.append(show(titles[part], names, lines))
    return sections


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e-3 or abs(value) >= 100 else f"{value:.6f}".rstrip("0")
    return str(value)


def picture(rows: Sequence[Case], path: Path) -> None:
    """Passes against gap, a line for each number of constraints."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, what in zip(figure.subplots(1, 2), ("one step", "fit"), strict=True):
        for m in sorted({row["m"] for row in rows}):
            part = [row for row in rows if row["what"] == what and row["m"] == m]
            axes.plot(
                [row["gap"] for row in part],
                [row["passes"] for row in part],
                "o-",
                label=f"{m} constraint{'s' * (m > 1)}",
            )
        axes.set(xscale="log", xlabel="relative gap asked for", ylabel="looks at all rows")
        axes.set_ylim(0)
        axes.set_title({"one step": "one convex step from nothing", "fit": "a whole fit"}[what])
        axes.invert_xaxis()
    axes.legend()
    figure.savefig(path, dpi=110)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    made = parser(__doc__.splitlines()[0])
    made.set_defaults(repeats=3)
    made.add_argument("--only", default="", help=f"only these parts, by comma: {', '.join(PARTS)}")
    made.add_argument("--rows", type=int, default=LARGE, help=f"rows of the part 'large' (default {LARGE})")
    made.add_argument("--folder", type=Path, default=None, help="where rows are written (default: a temporary folder)")
    made.add_argument("--case", default=None, help="train on these rows (JSON) in this process and print what it took")
    return made.parse_args(arguments)


def measured(options: argparse.Namespace, parts: Sequence[str], folder: Path) -> dict[str, list[Case]]:
    """All parts; those on a cluster first, with one cluster."""
    found: dict[str, list[Case]] = {}
    on_cluster: dict[str, Callable[[argparse.Namespace, Any], list[Case]]] = {
        "same": same, "overhead": overhead, "kills": kills,
    }  # fmt: skip
    if any(part in on_cluster for part in parts):
        os.environ["OMP_NUM_THREADS"] = "1"  # of the workers
        with cluster() as client:
            found |= {part: run(options, client) for part, run in on_cluster.items() if part in parts}
    if "passes" in parts:
        found["passes"] = passes(options)
    if "features" in parts:
        found["features"] = features(options)
    if "linear" in parts:
        found["linear"] = linear(options, folder)
    if "large" in parts:
        found["large"] = large(options, folder)
    return {part: found[part] for part in PARTS if part in found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 unless it breaks (a target missed is shown, not an error)."""
    options = options_of(arguments)
    if options.case is not None:
        with one_thread():
            print(json.dumps(large_case(json.loads(options.case))))
        return 0
    about = machine(processes=2)
    wanted = options.only.split(",") if options.only else QUICK if options.quick else PARTS
    parts = [part for part in PARTS if part in wanted]
    try:
        load_adult(options)
        with one_thread(), tempfile.TemporaryDirectory(dir=options.folder) as folder:
            found = measured(options, parts, Path(folder))
    except MissingDataError as error:
        return skipped(error)
    measured_on = dict.fromkeys(found, describe(about))
    if options.only:  # the other parts stay as they were measured
        path = (options.out or RESULTS) / "distributed.json"
        before = json.loads(path.read_text()) if path.is_file() else {}
        measured_on = before.get("measured on", {}) | measured_on
        found = {part: (before | found)[part] for part in PARTS if part in before or part in found}
    sections = sections_of(found)
    write(options, "distributed", {"machine": about, "measured on": measured_on, **found}, sections)
    if "passes" in found and not options.quick:
        picture(found["passes"], (options.out or RESULTS) / "distributed_passes.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())

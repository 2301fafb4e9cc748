"""Scaling of whole fits: time and memory against rows, features and constraints, with the targets.

Each case runs in a process of its own: data are made, a small fit compiles, then the fit is timed. The peak is that of
the whole process, the data included.
Run as `python -m benchmarks.scaling`; see README.md here.
"""

import argparse
import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from benchmarks.common import (
    ROOT,
    MissingDataError,
    interleave,
    load_adult,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    verdict,
    write,
)
from benchmarks.scaling_task import Task, dense_task, resampled_task, text_task
from widemargin import RateConstrainedClassifier

Case = dict[str, Any]

BY_ROWS: list[Case] = [
    {"rows": "a9a resampled", "n": n, "d": 142, "m": 4} for n in (10_000, 30_000, 100_000, 300_000, 500_000, 1_000_000)
]
BY_CONSTRAINTS: list[Case] = [
    *({"rows": "a9a resampled", "n": 100_000, "d": 142, "m": m} for m in (1, 50, 200, 500)),
    *({"rows": "a9a resampled", "n": 1_000_000, "d": 142, "m": m} for m in (50, 500)),
]
BY_FEATURES: list[Case] = [
    *({"rows": "dense", "n": 32_000, "d": d, "m": 2} for d in (100, 300, 1000)),
    *({"rows": "text", "n": 20_000, "d": d, "m": 2} for d in (1000, 5000, 30_000)),
    *(
        {"rows": "text", "n": 20_000, "d": 30_000, "m": 4, "solver": solver}
        for solver in ("auto", "newton", "cutting-plane")
    ),
]
QUICK: list[Case] = [
    {"rows": "a9a resampled", "n": 3000, "d": 142, "m": 10},
    {"rows": "dense", "n": 500, "d": 10, "m": 2},
    {"rows": "text", "n": 500, "d": 2000, "m": 2},
]
TARGETS: dict[tuple[str, int, int, int], tuple[float, float | None]] = {
    ("a9a resampled", 500_000, 142, 4): (5.0, None),
    ("a9a resampled", 1_000_000, 142, 50): (30.0, 3.0),
    ("dense", 32_000, 1000, 2): (10.0, None),
}
"""Seconds and gigabytes at most, by (rows, n, d, m)."""


def task_of(case: Case, options: argparse.Namespace) -> Task:
    """The rows and the goal of a case."""
    if case["rows"] == "dense":
        return dense_task(case["n"], case["d"])
    if case["rows"] == "text":
        return text_task(case["n"], case["d"], case["m"])
    return resampled_task(load_adult(options), case["n"], case["m"])


def fit(task: Task, solver: str) -> RateConstrainedClassifier:
    """A whole fit with the default parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a goal that is not met shows in the table
        made = RateConstrainedClassifier(task.goal, solver_options={"solver": solver}, on_infeasible="warn")
        return made.fit(task.X, task.y, populations=task.populations)


def measure_case(case: Case, options: argparse.Namespace) -> Case:
    """Time a case in this process."""
    solver = case.get("solver", "auto")
    small = case | {"n": min(case["n"], 2000), "m": min(case["m"], 4)}
    fit(task_of(small, options), solver)  # compiles
    task = task_of(case, options)
    timing = interleave({"fit": lambda: fit(task, solver)}, options.repeats, warm_up=False)["fit"]
    model: RateConstrainedClassifier = timing.result
    return case | timing.to_dict() | {
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),  # kilobytes on Linux
        "stored": int(getattr(task.X, "nnz", task.X.size)),
        "solver": model.solver_,
        "iterations": model.n_iter_,
        "steps": model.n_steps_,
        "rounds": model.n_rounds_,
        "gap": model.subproblem_gap_,
        "met": model.goal_report_.all_met(),
        "objective": model.goal_report_.objective,
    }  # fmt: skip


def run_case(case: Case, options: argparse.Namespace) -> Case:
    """Measure one case in a new process."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.scaling",
        "--case",
        json.dumps(case),
        "--repeats",
        str(options.repeats),
    ]
    if options.data is not None:
        command += ["--data", str(options.data.resolve())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    measured: Case = json.loads(done.stdout)
    return measured


def show_cases(title: str, rows: Sequence[Case]) -> str:
    """Table of cases."""
    return show(
        title,
        [
            "rows", "n", "d", "m", "median s", "processor s", "peak GB", "solver", "iterations", "rounds", "gap", "met",
            "objective",
        ],
        [
            [
                row["rows"], row["n"], row["d"], row["m"], f"{row['median_s']:.2f}", f"{row['median_processor_s']:.2f}",
                row["peak_gb"], row["solver"], row["iterations"], row["rounds"], f"{row['gap']:.0e}",
                verdict(row["met"]), f"{row['objective']:.4f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def targets(rows: Sequence[Case]) -> str:
    """Which targets are reached, by wall and by processor seconds."""
    lines = []
    for row in rows:
        limit = TARGETS.get((row["rows"], row["n"], row["d"], row["m"]))
        if limit is None:
            continue
        seconds, memory = limit
        text = (
            f"- {row['rows']}, n = {row['n']}, d = {row['d']}, m = {row['m']}: {row['median_s']:.1f} s "
            f"({row['median_processor_s']:.1f} s of processor), at most {seconds:g} s: "
            f"{verdict(row['median_s'] <= seconds)} ({verdict(row['median_processor_s'] <= seconds)})"
        )
        if memory is not None:
            text += f"; {row['peak_gb']} GB, at most {memory:g} GB: {verdict(row['peak_gb'] <= memory)}"
        lines.append(text)
    return "Targets (in brackets by processor seconds):\n\n" + "\n".join(lines) + "\n"


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    made = parser(__doc__.splitlines()[0])
    made.set_defaults(repeats=1)
    made.add_argument("--case", default=None, help="measure this one case (JSON) in this process and print it")
    made.add_argument("--only", default="", help="only cases whose `rows n d m` contains this text")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 unless it breaks (a target missed is shown, not an error)."""
    options = options_of(arguments)
    about = machine()
    try:
        load_adult(options)
    except MissingDataError as error:
        return skipped(error)
    with one_thread():
        if options.case is not None:
            print(json.dumps(measure_case(json.loads(options.case), options)))
            return 0
        parts = {"rows": BY_ROWS, "constraints": BY_CONSTRAINTS, "features": BY_FEATURES}
        if options.quick:
            measured = {"all": [measure_case(case, options) for case in QUICK]}
        else:
            measured = {
                part: [run_case(case, options) for case in cases if options.only in "{rows} {n} {d} {m}".format(**case)]
                for part, cases in parts.items()
            }
    sections = [show_cases(f"Whole fits by {part}", rows) for part, rows in measured.items()]
    sections.append(targets([row for rows in measured.values() for row in rows]))
    print(sections[-1])
    write(options, "scaling", {"machine": about, "cases": measured}, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())

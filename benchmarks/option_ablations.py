"""What each number among the solvers' options is worth: whole fits with it four times as large, and a quarter.

Every numeric field of an options record is changed in a copy of the sources, one at a time, and the fits of its part of
the library are repeated on three families that it was not chosen on. A field whose change moves no objective by more
than a thousandth and no processor time by more than a fifth makes no difference there: it need not be an option. What
guards against mistakes and hostile files never makes one, and stays.

Run as `python -m benchmarks.option_ablations`; see README.md here.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import widemargin as wm
from benchmarks.common import ROOT, machine, one_thread, parser, show, write

FACTORS = (0.25, 4.0)
OBJECTIVE, SECONDS = 1e-3, 1.2

FAMILIES = {
    "solvers/ramp": "goals", "solvers/convex": "goals", "solvers/thresholds": "thresholds",
    "estimators/rate_constrained": "goals", "solvers/paper_nest": "paper", "solvers/kernel_svm": "kernels",
    "estimators/kernel_svm": "kernels", "structured": "structures", "estimators/structured": "structures",
    "goals/measuring": "goals",
}  # fmt: skip
"""Which fits a record's folder belongs to."""


def scores(rng: np.random.Generator, n: int, d: int, noise: float) -> tuple[Any, Any]:
    """Correlated columns, a linear score with one product in it, and labels of which a third is positive."""
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / np.sqrt(d))
    score = X @ rng.normal(size=d) / np.sqrt(d) + 0.5 * X[:, 0] * X[:, 1] + noise * rng.logistic(size=n)
    return X, (score > np.quantile(score, 2 / 3)).astype(int)


def goals() -> Iterator[tuple[Callable[[], Any], Callable[[Any], float]]]:
    """Recall floor and the 80% rule on three drawn tables."""
    goal = 'a = population(g == "a")\nb = population(g == "b")\nsubject to positive_rate(a) >= 0.8 * positive_rate(b)\n'
    goal += "subject to recall() >= 0.7\n"
    for seed, n, d, noise in ((1, 8000, 12, 0.3), (2, 4000, 60, 0.6), (3, 15000, 6, 1.0)):
        rng = np.random.default_rng([20, seed])
        X, y = scores(rng, n, d, noise)
        table = {"g": np.where(X[:, 2] + rng.normal(size=n) > 0.5, "a", "b")}
        yield (
            lambda X=X, y=y, table=table: wm.RateConstrainedClassifier(goal).fit(X, y, populations=frame(table)),
            lambda fitted: float(fitted.goal_report_.objective),
        )


def frame(columns: dict[str, Any]) -> Any:
    """A table of these columns."""
    import pyarrow as pa

    return pa.table(columns)


def paper() -> Iterator[tuple[Callable[[], Any], Callable[[Any], float]]]:
    """The paper's nest on three drawn tables."""
    goal, options = "subject to recall() >= 0.8", {"solver": "cutting-plane"}
    for seed, n, d, noise in ((4, 3000, 8, 0.3), (5, 2000, 30, 0.6), (6, 5000, 5, 1.0)):
        X, y = scores(np.random.default_rng([20, seed]), n, d, noise)
        yield (
            lambda X=X, y=y: wm.RateConstrainedClassifier(goal, solver_options=options).fit(X, y),
            lambda fitted: float(fitted.goal_report_.objective),
        )


def thresholds() -> Iterator[tuple[Callable[[], Any], Callable[[Any], float]]]:
    """Thresholds by group, and drawn at random, for a scorer on three drawn tables."""
    from sklearn.frozen import FrozenEstimator
    from sklearn.linear_model import LogisticRegression

    goal = 'a = population(g == "a")\nb = population(g == "b")\nsubject to positive_rate(a) >= 0.8 * positive_rate(b)\n'
    for seed, n, mode in ((7, 6000, "exact"), (8, 3000, "randomized"), (9, 12000, "exact")):
        rng = np.random.default_rng([20, seed])
        X, y = scores(rng, n, 8, 0.5)
        table = {"g": np.where(X[:, 2] + rng.normal(size=n) > 0.5, "a", "b")}
        scorer = LogisticRegression().fit(X, y)
        more = {"randomize": True} if mode == "randomized" else {"per_population": "g"}
        yield (
            lambda X=X, y=y, table=table, scorer=scorer, more=more: wm.GoalThresholdClassifier(
                FrozenEstimator(scorer), goal, **more
            ).fit(X, y, populations=frame(table)),
            lambda fitted: float(fitted.goal_report_.objective),
        )


def kernels() -> Iterator[tuple[Callable[[], Any], Callable[[Any], float]]]:
    """Each of the duals, hold-out stopping, LIBSVM's algorithm and the batch perceptron on three drawn families."""
    from benchmarks.kernel_ablations import clusters, one_hot, spirals

    for make, n in ((clusters, 3000), (one_hot, 2000), (spirals, 3000)):
        X, y = make(n)
        for options in ({"solver": "dual"}, {"solver": "nested-dual"}, {"tol": None}, {"solver": "smo"},
                        {"solver": "sbp", "max_iter": 300}):  # fmt: skip
            yield (
                lambda X=X, y=y, options=options: wm.KernelSVC(C=10, random_state=0, **options).fit(X, y),
                lambda fitted, X=X, y=y: 1.0 - float(fitted.score(X, y)) + 1.0,
            )


def structures() -> Iterator[tuple[Callable[[], Any], Callable[[Any], float]]]:
    """Label sets of three drawn tables."""
    for seed, n, labels in ((10, 600, 6), (11, 400, 12), (12, 1000, 4)):
        rng = np.random.default_rng([20, seed])
        X = rng.normal(size=(n, 20))
        Y = (X @ rng.normal(size=(20, labels)) + rng.normal(size=(n, labels)) > 1.0).astype(int)
        yield (
            lambda X=X, Y=Y: wm.MultiLabelSVC(edges="full", max_iter=20).fit(X, Y),
            lambda fitted: float(fitted.history_[-1]["primal"]),
        )


FITS = {"goals": goals, "paper": paper, "thresholds": thresholds, "kernels": kernels, "structures": structures}


def run(family: str) -> None:
    """Print objective and processor seconds of every fit of a family; the first call compiles and is not counted."""
    measured = []
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fit, objective in FITS[family]():
            fitted, repeats, started = fit(), 0, time.process_time()
            while repeats < 2 or time.process_time() - started < 0.2:  # a single short fit cannot be timed
                fitted, repeats = fit(), repeats + 1
            measured.append((objective(fitted), (time.process_time() - started) / repeats))
    print(json.dumps(measured))


def fields(source: Path) -> Iterator[tuple[Path, str, str, ast.expr]]:
    """File, record, name and default of every numeric field of the options records."""
    for folder in FAMILIES:
        for path in sorted((source / "widemargin" / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
                for item in node.body if isinstance(node, ast.ClassDef) and node.name.endswith("Options") else ():
                    if isinstance(item, ast.AnnAssign) and item.value is not None and number(item.value):
                        yield path, node.name, ast.unparse(item.target), item.value


def number(node: ast.expr) -> float | int | None:
    """A number that is written as one; None for anything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def changed(path: Path, node: ast.expr, factor: float) -> str:
    """The text of a file with one default multiplied."""
    value = number(node)
    assert value is not None
    other = max(1, round(value * factor)) if isinstance(value, int) else value * factor
    lines = path.read_text(encoding="utf8").splitlines(keepends=True)
    line = lines[node.lineno - 1]
    lines[node.lineno - 1] = line[: node.col_offset] + repr(other) + line[node.end_col_offset :]
    return "".join(lines)


def fits_in(source: Path, family: str) -> list[tuple[float, float]] | None:
    """What a family's fits give with the sources of a folder; None where they fail or do not end."""
    command = [sys.executable, "-m", "benchmarks.option_ablations", "--family", family]
    paths = os.pathsep.join([str(source), str(ROOT)])
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=300, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(source / "cache")},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        print(error.stderr.strip().splitlines()[-1], file=sys.stderr)
        return None
    return [(float(objective), float(seconds)) for objective, seconds in json.loads(ended.stdout.splitlines()[-1])]


def compared(before: list[tuple[float, float]], after: list[tuple[float, float]] | None) -> tuple[float, float]:
    """Largest relative change of an objective, and how many times as long all fits take together."""
    if after is None:
        return float("inf"), float("inf")
    moved = max(abs(b - a) / max(abs(a), 1e-12) for (a, _), (b, _) in zip(before, after, strict=True))
    return moved, sum(seconds for _, seconds in after) / sum(seconds for _, seconds in before)


def measured(source: Path, only: str | None) -> list[list[Any]]:
    """A row for every field."""
    rows: list[list[Any]] = []
    before: dict[str, list[tuple[float, float]]] = {}
    for path, record, name, node in list(fields(source)):
        place = path.relative_to(source / "widemargin").as_posix()
        family = next(name for folder, name in FAMILIES.items() if place.startswith(folder))
        if only not in (None, family):
            continue
        if family not in before:
            fits_in(source, family)  # compiles
            before[family] = fits_in(source, family) or []
        text, row, matters = path.read_text(encoding="utf8"), [place, record, name, number(node)], False
        for factor in FACTORS:
            path.write_text(changed(path, node, factor), encoding="utf8")
            moved, times = compared(before[family], fits_in(source, family))
            row += [f"{moved:.1e}", f"{times:.2f}"]
            matters |= moved > OBJECTIVE or not 1 / SECONDS < times < SECONDS
        path.write_text(text, encoding="utf8")
        rows.append([*row, "yes" if matters else "no"])
        print(*rows[-1], flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every field, or run the fits of one family in this process."""
    given = parser(__doc__ or "")
    given.add_argument("--family", choices=FITS, help="run these fits and print what they give")
    given.add_argument("--only", choices=FITS, help="fields of this family only")
    options = given.parse_args(arguments)
    if options.family:
        run(options.family)
        return 0
    about = machine()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        rows = measured(source, "paper" if options.quick else options.only)
    heads = ["file", "record", "field", "value", "objective /4", "time /4", "objective x4", "time x4", "matters"]
    section = show("Relative change of the objective and of the processor time, one field at a time", heads, rows)
    write(options, "option_ablations", {"machine": about, "rows": rows}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The frontier of a9a: 32 points in seconds, and the test points with lambda chosen on validation rows only.

Minimise the error rate subject to `positive_rate(a) >= kappa * positive_rate(b)`, for a = women, b = men and for the
rows without and with column 38. Run as `python -m benchmarks.frontier_a9a`; see README.md here.
"""

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.common import (
    FEMALE,
    Adult,
    MissingDataError,
    describe,
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
from widemargin import RateConstrainedClassifier, RateConstrainedClassifierCV, tradeoff_path
from widemargin.estimators.rate_constrained.options import gathered
from widemargin.goals import Goal, Population, col, error_rate, positive_rate
from widemargin.goals.measuring.tradeoff_path import TradeoffPath

COLUMN_38 = 38
RATIOS = tuple(np.linspace(1.0, 6.5, 32))
"""b / a, the inverse of kappa."""

PEERS = ((1.0, 0.1700), (1.25, 0.1640), (1.65, 0.1580), (1.94, 0.1555), (2.4, 0.1522))
"""Best peers on gender: test ratio men / women and error."""

STUDY_38 = ((0.95, 0.1941), (1.22, 0.1859), (1.65, 0.1762), (2.45, 0.1657), (3.99, 0.1554), (5.53, 0.1504))
"""An earlier study's own points on column 38, at lambda = 30 / n."""

SECONDS, TEST_ERROR_SE = 2.0, 0.0028
GROUPINGS = ("gender", "column 38")


def goal_of(kappa: float) -> Goal:
    """Group a is called positive at least kappa times as often as group b."""
    a, b = (Population(name, where=col("group") == name) for name in "ab")
    return Goal(error_rate(), (positive_rate(a) >= kappa * positive_rate(b)).named("parity"))


def is_a(X: Any, grouping: str) -> np.ndarray:
    """Rows of group a: women, or those without column 38."""
    has = np.asarray(X[:, [FEMALE if grouping == "gender" else COLUMN_38]].todense()).ravel() > 0
    return has if grouping == "gender" else ~has


def table(X: Any, grouping: str) -> pa.Table:
    """The populations."""
    return pa.table({"group": np.where(is_a(X, grouping), "a", "b")})


def path_of(data: Adult, grouping: str, enforce: str, ratios: Sequence[float]) -> TradeoffPath:
    """The warm path; its held-out measures are those of the test rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points that are not met are shown below
        return tradeoff_path(
            RateConstrainedClassifier(goal_of(1.0), enforce=enforce), data.X, data.y,
            values=1.0 / np.asarray(ratios), constraint="parity", populations=table(data.X, grouping),
            validation=(data.X_test, data.y_test, table(data.X_test, grouping)),
        )  # fmt: skip


def cold_fits(data: Adult, grouping: str, enforce: str, ratios: Sequence[float]) -> list[Any]:
    """The same points, each fitted from nothing."""
    populations = table(data.X, grouping)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            RateConstrainedClassifier(goal_of(1.0 / ratio), enforce=enforce, on_infeasible="warn").fit(
                data.X, data.y, populations=populations
            )
            for ratio in ratios
        ]


def path_rows(data: Adult, ratios: Sequence[float], repeats: int, *, warm_up: bool) -> list[dict[str, Any]]:
    """Times and ends of the paths and of the cold fits."""
    cases: dict[str, Callable[[], Any]] = {}
    settings = [(grouping, enforce) for grouping in GROUPINGS for enforce in ("deterministic", "randomized")]
    for grouping, enforce in settings:
        cases[f"path|{grouping}|{enforce}"] = partial(path_of, data, grouping, enforce, ratios)
        cases[f"cold|{grouping}|{enforce}"] = partial(cold_fits, data, grouping, enforce, ratios)
    timings = interleave(cases, repeats, warm_up=warm_up)
    rows = []
    for grouping, enforce in settings:
        warm, cold = (timings[f"{what}|{grouping}|{enforce}"] for what in ("path", "cold"))
        path, lam = warm.result, 10.0 / data.X.shape[0]
        ramp = [model.goal_report_.ramp_objective for model in cold.result]
        rows.append(
            {
                "grouping": grouping,
                "enforce": enforce,
                "points": len(path),
                "path": warm.to_dict(),
                "cold": cold.to_dict(),
                "cold_time_ratio": round(cold.processor_median / warm.processor_median, 2),
                "met": int(path.met.sum()),
                "newton_steps": int(path.n_iter.sum()),
                "cold_newton_steps": int(sum(model.n_iter_ for model in cold.result)),
                "largest_gap": float(path.gap.max()),
                "mean_train_error": float(path.training.objective.mean()),
                "cold_mean_train_error": float(np.mean([model.goal_report_.objective for model in cold.result])),
                "mean_objective": float(np.mean(path.training.ramp_objective + _norms(path.coef, lam))),
                "cold_mean_objective": float(
                    np.mean(np.array(ramp) + _norms(np.concatenate([model.coef_ for model in cold.result]), lam))
                ),
                "test_points": [
                    [1.0 / float(reached), float(error)]
                    for reached, error in zip(path.held_out.reached, path.held_out.objective, strict=True)
                ],
                "prices": [str(price) for price in path.prices()],
            }
        )
    return rows


def _norms(coef: np.ndarray, lam: float) -> np.ndarray:
    return 0.5 * lam * (coef**2).sum(axis=1)


def show_paths(rows: Sequence[dict[str, Any]]) -> str:
    """Table of the paths."""
    return show(
        "32 points, warm, beside the same points each fitted from nothing (interleaved; ratio of processor seconds)",
        [
            "grouping", "enforce", "path s", "path processor s", f"<= {SECONDS:g} s", "cold / path",
            "Newton steps (cold)",
            "largest gap", "met", "mean train error (cold)", "mean ramp objective (cold)",
        ],
        [
            [
                row["grouping"], row["enforce"], f"{row['path']['median_s']:.2f}",
                f"{row['path']['median_processor_s']:.2f}", verdict(row["path"]["median_processor_s"] <= SECONDS),
                f"{row['cold_time_ratio']:.1f}", f"{row['newton_steps']} ({row['cold_newton_steps']})",
                f"{row['largest_gap']:.0e}", f"{row['met']} of {row['points']}",
                f"{row['mean_train_error']:.4f} ({row['cold_mean_train_error']:.4f})",
                f"{row['mean_objective']:.5f} ({row['cold_mean_objective']:.5f})",
            ]
            for row in rows
        ],
    )  # fmt: skip


def frontier_rows(data: Adult, grouping: str, known: Sequence[tuple[float, float]], **options: Any) -> list[dict]:
    """Test points with C and steps chosen on folds of the training rows, at the ratios of known points.

    One validation serves both rules: the best setting, and the simplest within one standard error of it.
    """
    rows = []
    populations = table(data.X, grouping)
    for ratio, error in known:
        goal, began = goal_of(1.0 / ratio), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = RateConstrainedClassifierCV(goal, random_state=0, on_infeasible="warn", **gathered(options))
            model.fit(data.X, data.y, populations=populations)
            seconds = time.process_time() - began
            found = model.cv_results_
            limit = found["mean_objective"][model.best_index_] + found["objective_error"][model.best_index_]
            place = int(np.flatnonzero(found["admissible"] & (found["mean_objective"] <= limit))[0])
            C, steps = float(found["C"][place]), int(found["max_steps"][place])
            simplest = RateConstrainedClassifier(goal, C=C, max_steps=steps, on_infeasible="warn")
            simplest.fit(data.X, data.y, populations=populations)
        about = {"grouping": grouping, "asked": ratio, "processor_s": round(seconds, 2), "known_error": error}
        chosen = (("best", model.best_estimator_), ("one-standard-error", simplest))
        rows += [about | {"rule": rule} | _test_point(data, grouping, fitted, known) for rule, fitted in chosen]
    return rows


def _test_point(data: Adult, grouping: str, model: Any, known: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Where a model lands on the test rows."""
    said, a = model.predict(data.X_test) > 0, is_a(data.X_test, grouping)
    reached = float(said[~a].mean() / said[a].mean())
    return {
        "C": model.C,
        "max_steps": model.max_steps,
        "train_error": model.goal_report_.objective,
        "test_ratio": reached,
        "test_error": float((said != (data.y_test > 0)).mean()),
        "known_error_at_ratio": _along(known, reached),
    }


def _along(points: Sequence[tuple[float, float]], ratio: float) -> float:
    """Error of a frontier at a ratio: linear between its points, the end pieces going on beyond."""
    x, y = np.array(points).T
    j = int(np.clip(np.searchsorted(x, ratio) - 1, 0, len(x) - 2))
    return float(y[j] + (ratio - x[j]) * (y[j + 1] - y[j]) / (x[j + 1] - x[j]))


def show_frontier(rows: Sequence[dict[str, Any]]) -> str:
    """Table of the test points."""
    return show(
        f"Test points, C and steps chosen by 5 folds of the training rows (standard error {TEST_ERROR_SE})",
        [
            "grouping", "asked ratio", "rule", "C", "steps", "test ratio", "test error", "known, asked",
            "known, same ratio", "difference", "not worse", "processor s",
        ],
        [
            [
                row["grouping"], f"{row['asked']:.2f}", row["rule"], f"{row['C']:.3g}", row["max_steps"],
                f"{row['test_ratio']:.3f}", f"{row['test_error']:.4f}", f"{row['known_error']:.4f}",
                f"{row['known_error_at_ratio']:.4f}", f"{row['test_error'] - row['known_error_at_ratio']:+.4f}",
                verdict(row["test_error"] <= row["known_error_at_ratio"] + 5e-5), f"{row['processor_s']:.1f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 unless it breaks."""
    options = parser(__doc__.splitlines()[0]).parse_args(arguments)
    about = machine()
    try:
        data = load_adult(options)
    except MissingDataError as error:
        return skipped(error)
    quick = options.quick
    print(f"{data.name}: {data.X.shape[0]} training rows; {describe(about)}\n")
    with one_thread():
        paths = path_rows(data, RATIOS[::8] if quick else RATIOS, 1 if quick else options.repeats, warm_up=not quick)
        sections = [show_paths(paths)]
        few: dict[str, Any] = {"Cs": 2, "max_steps": 3, "cv": 2} if quick else {}
        frontier = frontier_rows(data, "gender", PEERS[1::2] if quick else PEERS, **few)
        frontier += [] if quick else frontier_rows(data, "column 38", STUDY_38)
        sections.append(show_frontier(frontier))
    results = {"machine": about, "data": data.name, "paths": paths, "frontier": frontier}
    write(options, "frontier_a9a", results, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The frontier of a9a: 32 points in seconds, and test points with lambda chosen on validation rows only."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing
from benchmarks.tasks._people import TEST_ERROR_SE, People, along, fit, of_a9a, ratio_goal, reached
from widemargin import RateConstrainedClassifier, RateConstrainedClassifierCV, tradeoff_path
from widemargin.estimators.rate_constrained.options import gathered
from widemargin.goals.measuring.tradeoff_path import TradeoffPath

RATIOS = tuple(np.linspace(1.0, 6.5, 32))
"""Positive rate of the second group over that of the first, the inverse of kappa."""

GROUPINGS: dict[str, int | None] = {"gender": None, "column 38": 38}
KNOWN = {
    "gender": ((1.0, 0.1700), (1.25, 0.1640), (1.65, 0.1580), (1.94, 0.1555), (2.4, 0.1522)),
    "column 38": ((0.95, 0.1941), (1.22, 0.1859), (1.65, 0.1762), (2.45, 0.1657), (3.99, 0.1554), (5.53, 0.1504)),
}
"""Test ratio and error of the best peers on gender, and of an earlier study at lambda = 30 / n on column 38."""


def _path(data: People, enforce: str, ratios: Sequence[float]) -> TradeoffPath:
    """The warm path; its held-out measures are those of the test rows."""
    test = (data.X_test, data.y_test, pa.table({"group": np.where(data.first_test, "a", "b")}))
    return tradeoff_path(
        RateConstrainedClassifier(ratio_goal(1.0), enforce=enforce), data.X, data.y,
        values=1.0 / np.asarray(ratios), constraint="parity", populations=data.table, validation=test,
    )  # fmt: skip


def _cold(data: People, enforce: str, ratios: Sequence[float]) -> list[Any]:
    """The same points, each fitted from nothing."""
    return [fit(data, 1.0 / ratio, enforce=enforce) for ratio in ratios]


def paths(ctx: Context) -> list[Row]:
    """Times and ends of the paths and of the cold fits."""
    adult, points, cases = ctx.load("a9a"), ctx.pick(RATIOS, RATIOS[::8]), {}
    settings = [(grouping, enforce) for grouping in GROUPINGS for enforce in ("deterministic", "randomized")]
    for grouping, enforce in settings:
        data = of_a9a(adult, GROUPINGS[grouping])
        cases[f"path|{grouping}|{enforce}"] = partial(_path, data, enforce, points)
        cases[f"cold|{grouping}|{enforce}"] = partial(_cold, data, enforce, points)
    timings, rows = ctx.clock(cases), []
    for grouping, enforce in settings:
        warm, cold = (timings[f"{what}|{grouping}|{enforce}"] for what in ("path", "cold"))
        path, reports = warm.result, [model.goal_report_ for model in cold.result]
        half_lambda = 5.0 / adult.X.shape[0]
        norms = np.array([(model.coef_**2).sum() for model in cold.result])
        ramp = np.array([report.ramp_objective for report in reports])
        rows.append({
            "grouping": grouping, "enforce": enforce, "points": len(path), "path": warm.to_dict(),
            "cold": cold.to_dict(),
            "cold_time_ratio": round(cold.processor_median / warm.processor_median, 2), "met": int(path.met.sum()),
            "newton_steps": int(path.n_iter.sum()), "cold_newton_steps": int(sum(model.n_iter_
            for model in cold.result)),
            "largest_gap": float(path.gap.max()), "mean_train_error": float(path.training.objective.mean()),
            "cold_mean_train_error": float(np.mean([report.objective for report in reports])),
            "mean_objective": float(np.mean(path.training.ramp_objective + half_lambda * (path.coef**2).sum(axis=1))),
            "cold_mean_objective": float(np.mean(ramp + half_lambda * norms)),
        })  # fmt: skip
    return rows


def test_points(ctx: Context) -> list[Row]:
    """C and steps chosen on folds of the training rows, at the ratios of known points.

    One validation serves both rules: the best setting, and the simplest within one standard error of it.
    """
    adult, rows = ctx.load("a9a"), []
    few: Row = ctx.pick({}, {"Cs": 2, "max_steps": 3, "cv": 2})
    for grouping in ctx.pick(tuple(GROUPINGS), ("gender",)):
        data, known = of_a9a(adult, GROUPINGS[grouping]), KNOWN[grouping]
        for ratio, error in ctx.pick(known, known[1::2]):
            goal = ratio_goal(1.0 / ratio)
            model = RateConstrainedClassifierCV(goal, random_state=0, on_infeasible="warn", **gathered(few))
            timing = Timing.of(partial(model.fit, data.X, data.y, populations=data.table))
            found = model.cv_results_
            limit = found["mean_objective"][model.best_index_] + found["objective_error"][model.best_index_]
            place = int(np.flatnonzero(found["admissible"] & (found["mean_objective"] <= limit))[0])
            simplest = fit(data, 1.0 / ratio, C=float(found["C"][place]), max_steps=int(found["max_steps"][place]))
            for rule, chosen in (("best", model.best_estimator_), ("one-standard-error", simplest)):
                point = reached(data, chosen)
                rows.append({
                    "grouping": grouping, "asked": ratio, "known_error": error,
                    "processor_s": round(timing.processor_median, 2), "rule": rule,
                    "C": chosen.C, "max_steps": chosen.max_steps, **point,
                    "known_error_at_ratio": along(known, point["test_ratio"]),
                })  # fmt: skip
    return rows


def _targets(content: Content) -> Iterable[Limit]:
    for row in content["paths"]:
        seconds = row["path"]["median_processor_s"]
        yield Limit(f"{row['points']} points, {row['grouping']}, {row['enforce']}, processor", seconds, 2.0, "s")
    chosen = [row for row in content["frontier"] if row["rule"] == "best"]
    level = sum(row["test_error"] <= row["known_error_at_ratio"] for row in chosen)
    yield Limit("test points no worse than the best known", level, len(chosen), at_least=True)


def _compared(content: Content) -> Iterable[Row]:
    for row in content["frontier"]:
        difference = row["test_error"] - row["known_error_at_ratio"]
        yield row | {"difference": difference, "not worse": difference <= 5e-5}


TASKS = {
    "frontier_a9a": Task(
        "A path over 32 ratios on a9a, warm from point to point, beside the same points each fitted from nothing; then "
        "test points whose C and steps are chosen by five folds of the training rows, against the best published or "
        "measured ones.",
        {"paths": paths, "frontier": test_points},
        {
            "paths": Table(
                "32 points, warm, beside the same points each fitted from nothing (ratio of processor seconds)",
                "paths",
                "grouping | enforce | path s: {path[median_s]:.2f} | path processor s: {path[median_processor_s]:.2f} "
                "| cold / path: {cold_time_ratio:.1f} | Newton steps (cold): {newton_steps} ({cold_newton_steps}) "
                "| largest gap: {largest_gap:.0e} | met: {met} of {points} "
                "| mean train error (cold): {mean_train_error:.4f} ({cold_mean_train_error:.4f}) "
                "| mean ramp objective (cold): {mean_objective:.5f} ({cold_mean_objective:.5f})",
            ),
            "points": Table(
                f"Test points, C and steps chosen by 5 folds of the training rows (standard error {TEST_ERROR_SE})",
                _compared,
                "grouping | asked ratio: {asked:.2f} | rule | C: {C:.3g} | steps: {max_steps} | test ratio: "
                "{test_ratio:.3f} | test error: {test_error:.4f} | known, asked: {known_error:.4f} | known, same "
                "ratio: {known_error_at_ratio:.4f} | difference: {difference:+.4f} | not worse | processor s: "
                "{processor_s:.1f}",
            ),
        },
        _targets, half="tuning",
    ),
}  # fmt: skip

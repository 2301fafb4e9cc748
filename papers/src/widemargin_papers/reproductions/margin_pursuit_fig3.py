"""Figures 3 and 4 of Holland 2019: error and margin distribution against the number of gradients, beside Pegasos."""

import time
from collections.abc import Mapping
from typing import Any

from widemargin.extending import limit_threads
from widemargin_papers.reproductions import margin_pursuit_study as study
from widemargin_papers.reproductions.margin_pursuit_study import (
    STATISTICS,
    TITLES,
    Study,
    best_lambda,
    keys,
    load,
    settings,
)
from widemargin_papers.reproductions.pictures.margin_pursuit_pictures import course_figure
from widemargin_papers.reproductions.summary import markdown, mean_and_sd, percent

__all__ = ["METHODS", "draw", "keys", "load", "run", "settings", "summarise", "table"]

METHODS = {"pursuit": "margin pursuit", "pegasos": "Pegasos"}


def run(data: Study, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The course of both methods for every lambda, on one draw of the rows."""
    began = time.process_time()
    name, _, seed = key.partition(", seed ")
    trial = study.draw_trial(data.tasks[name], settings["rows_per_feature"], settings["test_rows"], int(seed))
    n = trial.y.shape[0]
    looks = study.costs(settings, n)
    with limit_threads(1):
        found = {
            method: {str(lam): study.curves(method, trial, lam, looks, int(seed)) for lam in settings["lambdas"]}
            for method in METHODS
        }
    return {"n": n, "n_test": trial.y_test.shape[0], **found, "seconds": round(time.process_time() - began, 2)}


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By data set and method, at its best lambda: mean and sd over the runs of every statistic at every cost."""
    found: dict[str, Any] = {}
    for name in TITLES:
        several = [result for key, result in runs.items() if key.startswith(f"{name},")]
        n = several[0]["n"]
        content: dict[str, Any] = {
            "title": study.title(settings, name), "runs": len(several), "n": n, "n_test": several[0]["n_test"],
            "cost": study.costs(settings, n),
        }  # fmt: skip
        for method in METHODS:
            lam = best_lambda(several, method, settings["lambdas"])
            content[method] = {"lambda": lam} | {
                part: {
                    item: mean_and_sd([result[method][str(lam)][part][item] for result in several])
                    for item in STATISTICS
                }
                for part in ("train", "test")
            }
        found[name] = content
    return found


def table(summary: Mapping[str, Any]) -> str:
    """The test rows: the lowest mean error, and the last look."""
    rows = []
    for content in summary.values():
        for method, label in METHODS.items():
            test = content[method]["test"]
            errors, medians = test["error"]["mean"], test["median"]["mean"]
            best = errors.index(min(errors))
            rows.append(
                [
                    content["title"], content["n"], label, f"{content[method]['lambda']:g}",
                    f"{percent(test['error'], best)} at {content['cost'][best]}", percent(test["error"], -1),
                    f"{test['mean']['mean'][-1]:.3f}", f"{medians[-1]:.3f}", f"{max(medians):.3f}",
                    f"{test['sd']['mean'][-1]:.3f}", f"{test['skewness']['mean'][-1]:+.2f}",
                ]
            )  # fmt: skip
    columns = [
        "data", "n", "method", "lambda", "lowest test error % (gradients)", "last test error %", "mean margin",
        "median margin", "largest median on the way", "sd of margins", "skewness",
    ]  # fmt: skip
    runs = next(iter(summary.values()))["runs"]
    return f"{runs} trials, mean ± sd; margins of the test rows at the last look.\n\n" + markdown(columns, rows)


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: a row for each data set."""
    return course_figure(summary, METHODS)

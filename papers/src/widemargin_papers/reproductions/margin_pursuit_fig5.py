"""Figure 5 of Holland 2019: a hundredth of the best lambda, with the scale fixed and with one data-driven rescaling."""

import time
from collections.abc import Mapping
from typing import Any

from widemargin.extending import limit_threads
from widemargin_papers.reproductions import margin_pursuit_study as study
from widemargin_papers.reproductions.margin_pursuit_study import STATISTICS, TITLES, Study, best_lambda, keys, load
from widemargin_papers.reproductions.pictures.margin_pursuit_pictures import rescaling_figure
from widemargin_papers.reproductions.summary import markdown, mean_and_sd, percent

__all__ = ["METHODS", "draw", "keys", "load", "run", "settings", "summarise", "table"]

METHODS = {
    "best": "best lambda, scale 1",
    "fixed": "lambda / 100, scale 1",
    "rescaled": "lambda / 100, rescaled once, loss s² rho",
    "plain": "lambda / 100, rescaled once, loss rho",
}

LAMBDAS = (3e-3, 1e-2)
"""Those that are best for margin pursuit in Figure 3."""


def settings(quick: bool) -> dict[str, Any]:
    """As of Figure 3, but fewer lambda, and when the scale is set: early."""
    return study.settings(quick) | {"lambdas": list(LAMBDAS), "under_regularised": 100.0, "rescale_after_epochs": 0.03}


def run(data: Study, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Every lambda, and a hundredth of it with the scale fixed and set once, on one draw of the rows."""
    began = time.process_time()
    name, _, seed = key.partition(", seed ")
    trial = study.draw_trial(data.tasks[name], settings["rows_per_feature"], settings["test_rows"], int(seed))
    n = trial.y.shape[0]
    looks, after = study.costs(settings, n), round(settings["rescale_after_epochs"] * n)
    found: dict[str, dict[str, Any]] = {method: {} for method in METHODS}
    with limit_threads(1):
        for lam in settings["lambdas"]:
            low = lam / settings["under_regularised"]
            found["best"][str(lam)] = study.curves("pursuit", trial, lam, looks, int(seed))
            found["fixed"][str(lam)] = study.curves("pursuit", trial, low, looks, int(seed))
            for method, squared in (("rescaled", True), ("plain", False)):
                found[method][str(lam)] = study.curves(
                    "pursuit", trial, low, looks, int(seed), rescale_after=after, squared=squared
                )
    return {"n": n, **found, "seconds": round(time.process_time() - began, 2)}


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By data set: the four courses for the lambda that is best at scale 1."""
    found: dict[str, Any] = {}
    for name in TITLES:
        several = [result for key, result in runs.items() if key.startswith(f"{name},")]
        n = several[0]["n"]
        lam = best_lambda(several, "best", settings["lambdas"])
        content: dict[str, Any] = {
            "title": study.title(settings, name), "runs": len(several), "n": n, "lambda": lam,
            "cost": study.costs(settings, n), "rescaled_at": round(settings["rescale_after_epochs"] * n),
        }  # fmt: skip
        for method in METHODS:
            content[method] = {
                "test": {
                    item: mean_and_sd([result[method][str(lam)]["test"][item] for result in several])
                    for item in STATISTICS
                }
            }
        found[name] = content
    return found


def table(summary: Mapping[str, Any]) -> str:
    """Test errors just before the rescaling, and at the last look."""
    rows = []
    for content in summary.values():
        before = max(k for k, cost in enumerate(content["cost"]) if k == 0 or cost <= content["rescaled_at"])
        for method, label in METHODS.items():
            test = content[method]["test"]
            rows.append(
                [
                    content["title"], content["n"], f"{content['lambda']:g}", label, percent(test["error"], before),
                    percent(test["error"], -1), f"{test['median']['mean'][-1]:.3g}", f"{test['sd']['mean'][-1]:.3g}",
                ]
            )  # fmt: skip
    columns = [
        "data", "n", "best lambda", "run", "test error % before the rescaling", "last test error %", "median margin",
        "sd of margins",
    ]  # fmt: skip
    runs = next(iter(summary.values()))["runs"]
    return f"{runs} trials, mean ± sd; margins of the test rows at the last look.\n\n" + markdown(columns, rows)


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: a row for each data set."""
    return rescaling_figure(summary, METHODS)

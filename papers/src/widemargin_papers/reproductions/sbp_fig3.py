"""Figure 3 of Cotter, Shalev-Shwartz and Srebro 2012: the batch perceptron against random Fourier features.

The cost of both is counted in inner products of rows: one for a value of the Gaussian kernel, one for a pair of
features of a row, so k n for k pairs. The time to solve the linear problem on the features is not counted, and its
error is that of the optimum (to a relative gap of 1e-3). Both SVMs are without a bias, lambda = 1/n (C = 1).
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from widemargin.extending import limit_threads
from widemargin_papers.baselines import FourierSVC
from widemargin_papers.reproductions.kernel_study import (
    TITLES,
    Study,
    about,
    drawn_rows,
    kernel_rows,
    load,
    reference,
    titles,
)
from widemargin_papers.reproductions.pictures.constraint_and_kernel_pictures import features_figure
from widemargin_papers.reproductions.sbp_fig2 import averaged_curves, grid
from widemargin_papers.reproductions.summary import markdown, mean_and_sd, percent

__all__ = ["METHODS", "draw", "keys", "load", "run", "settings", "summarise", "table"]

METHODS = {"sbp": "SBP, as published", "fourier": "random Fourier features, optimum"}

MOST_PAIRS = 1024


def settings(quick: bool) -> dict[str, Any]:
    """sigma^2 and lambda of Table 2; k = 1, 2, 4, ... pairs."""
    epochs, most = (1, 64) if quick else (2, MOST_PAIRS)
    return {
        "sigma2": {"adult": 10.0, "mnist": 25.0},
        "C": 1.0,
        "fit_intercept": False,
        "epochs": epochs,
        "train_rows": 200 if quick else None,
        "pairs": [2**k for k in range(int(np.log2(most)) + 1)],
        "tol": 1e-3,
        "data": "synthetic" if quick else "a9a, mnist",
    }


def keys(runs: int) -> list[str]:
    """A task and a seed, which draws the training rows, the steps and the features."""
    return [f"{task}, seed {seed}" for seed in range(runs) for task in TITLES]


def run(data: Study, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The error of both methods, on one draw of training rows."""
    began = time.process_time()
    name, _, seed = key.partition(", seed ")
    task = drawn_rows(data.tasks[name], settings["train_rows"], int(seed))
    with limit_threads(1):
        values = kernel_rows(task, settings["sigma2"][name])
        best = reference(task, values, settings["C"])
        n, epochs = task.y.shape[0], settings["epochs"]
        sbp, _ = averaged_curves("sbp", task, values, best.nu, epochs, grid(epochs, n), int(seed))
        fourier = []
        for pairs in settings["pairs"]:
            clf = FourierSVC(
                pairs, C=settings["C"], gamma=0.5 / settings["sigma2"][name], tol=settings["tol"],
                random_state=int(seed),
            ).fit(task.X, task.y)  # fmt: skip
            fourier.append(round(float((clf.predict(task.X_test) != task.y_test).mean()), 6))
    return {
        "n": n,
        "optimum": round(best.error, 6),
        "error": {"sbp": sbp, "fourier": fourier},
        "seconds": round(time.process_time() - began, 1),
    }


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By task and method: costs in units of n, mean and sd of the error."""
    found: dict[str, Any] = {}
    for name in TITLES:
        several = [result for key, result in runs.items() if key.startswith(f"{name},")]
        n = several[0]["n"]
        found[name] = {
            **about(settings),
            "runs": len(several),
            "n": n,
            "rows": {"sbp": grid(settings["epochs"], n), "fourier": settings["pairs"]},
            "optimum": mean_and_sd([[result["optimum"]] for result in several]),
            "error": {method: mean_and_sd([result["error"][method] for result in several]) for method in METHODS},
        }
    return found


def table(summary: Mapping[str, Any]) -> str:
    """Test errors at equal cost."""
    text = []
    for name, title in titles(summary).items():
        content = summary[name]
        sbp_rows, runs = np.array(content["rows"]["sbp"]), content["runs"]
        rows = []
        for place, pairs in enumerate(content["rows"]["fourier"]):
            near = int(np.argmin(np.abs(np.log(sbp_rows / pairs))))
            shown = {"sbp": near, "fourier": place}
            rows.append([pairs, *(percent(content["error"][method], at, runs) for method, at in shown.items())])
        text.append(
            f"**{title}**, n = {content['n']}, {runs} run{'s' * (runs > 1)}; the optimum has "
            f"{percent(content['optimum'], 0, runs)}%. Test error in % at a cost of k n inner products:\n"
        )
        text.append(markdown(["k", *METHODS.values()], rows))
    return "\n".join(text)


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: a panel for each task."""
    return features_figure(summary, titles(summary), METHODS)

"""Figure 2 of Cotter, Shalev-Shwartz and Srebro 2012: test error against kernel evaluations.

SVMs without a bias, lambda = 1/n (C = 1). The paper's methods compute every kernel row they use, n evaluations a row;
the batch perceptron is the published one, with the nu of the optimum. What averages its iterates is shown with the
plain average and with the weights t, as that may decide more than the method does. Beside them two of this library that
keep the rows they have computed: the mini-batch form of the batch perceptron for C, and the working-set dual.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from widemargin.extending import limit_threads
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.kernel_svm import smo
from widemargin.solvers.kernel_svm.batch_perceptron import c_form as sbp_c_form
from widemargin.solvers.kernel_svm.batch_perceptron.c_form import CFormOptions
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.smo import SMOOptions
from widemargin_papers.reproductions.kernel_study import (
    TITLES,
    CountedRows,
    Study,
    Task,
    about,
    drawn_rows,
    kernel_rows,
    load,
    reference,
    steps,
    titles,
)  # fmt: skip
from widemargin_papers.reproductions.pictures.constraint_and_kernel_pictures import evaluations_figure
from widemargin_papers.reproductions.summary import markdown, mean_and_sd, percent
from widemargin_papers.solvers import kernel_averages, kernel_sdca

__all__ = [
    "AVERAGED",
    "METHODS",
    "averaged_curves",
    "draw",
    "grid",
    "keys",
    "load",
    "run",
    "settings",
    "summarise",
    "table",
]

AVERAGED = {"sbp": "SBP", "pegasos": "Pegasos", "perceptron": "Perceptron"}
METHODS = {
    "sbp": "SBP, plain average (as published)",
    "sbp weighted": "SBP, weights t",
    "pegasos": "Pegasos, plain average",
    "pegasos weighted": "Pegasos, weights t",
    "perceptron": "Perceptron, plain average",
    "perceptron weighted": "Perceptron, weights t",
    "sdca": "SDCA",
    "smo": "SMO",
    "cached sbp": "SBP for C, batches of 64, rows kept",
    "dual": "working-set dual, rows kept",
}

EPOCHS = 10
DUAL_TOLS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3)
BATCH = 64
POINTS = 12  # of the grid, a decade


def settings(quick: bool) -> dict[str, Any]:
    """sigma^2 and lambda of Table 2; a grid of kernel evaluations in units of n, up to ten epochs."""
    epochs = 2 if quick else EPOCHS
    return {
        "sigma2": {"adult": 10.0, "mnist": 25.0},
        "C": 1.0,
        "fit_intercept": False,
        "epochs": epochs,
        "perceptron_epochs": {"adult": 10 * epochs, "mnist": epochs},
        "train_rows": 200 if quick else None,
        "points_a_decade": POINTS,
        "dual_tols": list(DUAL_TOLS),
        "batch": BATCH,
        "data": "synthetic" if quick else "a9a, mnist",
    }


def keys(runs: int) -> list[str]:
    """A task and a seed, which draws the training rows and all that the methods draw."""
    return [f"{task}, seed {seed}" for seed in range(runs) for task in TITLES]


def run(data: Study, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The error of every method on the grid, on one draw of training rows."""
    began = time.process_time()
    name, _, seed = key.partition(", seed ")
    task = drawn_rows(data.tasks[name], settings["train_rows"], int(seed))
    n = task.y.shape[0]
    with limit_threads(1):
        values = kernel_rows(task, settings["sigma2"][name])
        best = reference(task, values, settings["C"])
        rows = grid(_longest(settings, name), n)
        curves = {
            method: steps(history, [n * at for at in rows])
            for method, history in _histories(task, values, settings, int(seed)).items()
        }
        for method in AVERAGED:
            most = settings["perceptron_epochs"][name] if method == "perceptron" else settings["epochs"]
            plain, weighted = averaged_curves(method, task, values, best.nu, most, rows, int(seed))
            curves |= {method: plain, f"{method} weighted": weighted}
    return {
        "n": n,
        "optimum": round(best.error, 6),
        "nu": float(f"{best.nu:.4g}"),
        "error": curves,
        "seconds": round(time.process_time() - began, 1),
    }


def grid(epochs: float, n: int) -> list[float]:
    """Kernel rows from one to so many epochs of n, on a logarithmic scale."""
    count = int(np.ceil(POINTS * np.log10(epochs * n))) + 1
    return [float(round(rows, 3)) for rows in np.geomspace(1.0, epochs * n, count)]


def _longest(settings: Mapping[str, Any], name: str) -> float:
    """Epochs of the longest run."""
    return float(max(settings["epochs"], settings["perceptron_epochs"][name]))


def averaged_curves(
    method: str, task: Task, values: KernelRows, nu: float, epochs: int, rows: Sequence[float], seed: int
) -> tuple[list[float | None], list[float | None]]:
    """Test errors of a method's plain and weighted average at each number of kernel rows; after its end the last."""
    n, y, rng = task.y.shape[0], np.concatenate((task.y, task.y_test)), np.random.default_rng(seed)
    looks = kernel_averages.looks_of(np.minimum(rows, epochs * n))
    methods: dict[str, tuple[Callable[..., Iterator[int]], tuple[float, ...]]] = {
        "sbp": (kernel_averages.batch_perceptron, (nu,)),
        "pegasos": (kernel_averages.pegasos, (1.0 / n, epochs * n)),
        "perceptron": (kernel_averages.perceptron, (epochs,)),
    }
    steps, own = methods[method]
    found = kernel_averages.errors(steps, values, n, y, looks, *own, rng)
    at = np.searchsorted(looks, np.floor(rows), side="right") - 1
    plain, weighted = found[1:, at].round(6).tolist()
    return plain, weighted


def _histories(
    task: Task, values: KernelRows, settings: Mapping[str, Any], seed: int
) -> dict[str, Sequence[Mapping[str, float]]]:
    """What the other methods looked at: evaluations and test error."""
    n, C, epochs = task.y.shape[0], settings["C"], settings["epochs"]
    once: dict[str, Any] = {"tol": 0.0, "seed": seed}
    found: dict[str, Sequence[Mapping[str, float]]] = {}
    plain = CountedRows(values, n).problem(task, C)
    found["sdca"] = kernel_sdca.solve(plain, ahead=1, max_iter=epochs, **once).history
    one_row, plain = SMOOptions(single=True), CountedRows(values, n).problem(task, C)
    found["smo"] = smo.solve(plain, tol=1e-3, shrinking=False, options=one_row, max_iter=epochs * n).history
    kept = CountedRows(values, n, free=True).problem(task, C)
    batches = CFormOptions(batch=settings["batch"])
    found["cached sbp"] = sbp_c_form.solve(
        kept, options=batches, max_iter=epochs * n // settings["batch"], **once
    ).history
    found["dual"] = _dual_history(task, values, C, settings["dual_tols"])
    return found


def _dual_history(task: Task, values: KernelRows, C: float, tols: list[float]) -> tuple[Mapping[str, float], ...]:
    """The working-set dual to ever smaller tolerances, each from the solution before."""
    problem = CountedRows(values, task.y.shape[0], free=True).problem(task, C)
    scores, coef = np.zeros(problem.n_rows), np.zeros(problem.n_rows)
    found = []
    held = problem.upper == 0.0
    for tol in tols:
        result = working_set.solve(problem, tol=tol, start=coef, scores=scores)
        coef = result.coef
        wrong = problem.y[held] * scores[held] <= 0.0
        found.append({"evaluations": float(problem.rows.evaluations), "held_out_error": float(wrong.mean())})
    return tuple(found)


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By task: the grid of evaluations, and mean and sd of each method's error; the epoch is n^2 evaluations."""
    found: dict[str, Any] = {}
    for name in TITLES:
        several = [result for key, result in runs.items() if key.startswith(f"{name},")]
        n = several[0]["n"]
        found[name] = {
            **about(settings),
            "runs": len(several),
            "n": n,
            "rows": grid(_longest(settings, name), n),
            "nu": mean_and_sd([[result["nu"]] for result in several]),
            "optimum": mean_and_sd([[result["optimum"]] for result in several]),
            "error": {method: mean_and_sd([result["error"][method] for result in several]) for method in METHODS},
        }
    return found


def table(summary: Mapping[str, Any]) -> str:
    """Test errors after some parts of an epoch."""
    text = []
    for name, title in titles(summary).items():
        content = summary[name]
        n, grid_rows, runs = content["n"], np.array(content["rows"]), content["runs"]
        shares = [share for share in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0) if share * n <= grid_rows[-1] * 1.001]
        places = [int(np.argmin(np.abs(np.log(grid_rows / (share * n))))) for share in shares]
        rows = [
            [label, *(percent(content["error"][method], place, runs) for place in places)]
            for method, label in METHODS.items()
        ]
        text.append(
            f"**{title}**, n = {n}, {runs} run{'s' * (runs > 1)}; the optimum has "
            f"{percent(content['optimum'], 0, runs)}%. Test error in % after so many epochs (n² evaluations):\n"
        )
        text.append(markdown(["method", *(f"{share:g}" for share in shares)], rows))
    return "\n".join(text)


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: a panel for each task."""
    return evaluations_figure(summary, titles(summary), METHODS)

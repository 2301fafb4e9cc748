"""The comparison with LIBSVM of Cotter, Shalev-Shwartz and Srebro 2012: what the batch perceptron has in a quarter of
its time (section 5; SVMs with an unregularised bias, Table 2).

LIBSVM runs to its default tolerance. The batch perceptron gets the nu of the optimum and a quarter of LIBSVM's time:
as published (one row a step), and this library's form for C (batches, rows kept). The working-set dual of this library
runs to LIBSVM's tolerance. Times are processor seconds on one thread, reading and checking of the data left out.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC

from widemargin.extending import limit_threads
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import KernelRows
from widemargin.solvers.base import Budget, Progress
from widemargin.solvers.kernel_svm.batch_perceptron import c_form as sbp_c_form
from widemargin.solvers.kernel_svm.batch_perceptron import nu_form as sbp
from widemargin.solvers.kernel_svm.batch_perceptron.direction import BatchOptions
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult
from widemargin_papers.reproductions.kernel_study import FOREST, TITLES, Study, Task, about, drawn_rows, titles
from widemargin_papers.reproductions.kernel_study import load_with_forest as load
from widemargin_papers.reproductions.pictures.constraint_and_kernel_pictures import quarter_figure
from widemargin_papers.reproductions.summary import markdown, mean_and_sd, percent

__all__ = ["METHODS", "draw", "keys", "load", "run", "settings", "summarise", "table"]

METHODS = {
    "libsvm": "LIBSVM",
    "sbp": "SBP, as published, 1/4 of the time",
    "cached sbp": "SBP for C, rows kept, 1/4 of the time",
    "dual": "working-set dual",
}
PUBLISHED = {
    "adult": ("14.9% in 195 s", "15.0%"),
    "mnist": ("0.44% in 1980 s", "0.46%"),
    "forest": ("1.8% in 35 h", "1.6%"),
}

CACHE = 2000.0  # megabytes, for both
_FEW = 500


def settings(quick: bool) -> dict[str, Any]:
    """sigma^2 and lambda of Table 2: lambda = 1/(100 n), 1/(1000 n) and 1/(10000 n)."""
    return {
        "sigma2": {"adult": 100.0, "mnist": 25.0, "forest": 5000.0},
        "C": {"adult": 100.0, "mnist": 1000.0, "forest": 10_000.0},
        "fit_intercept": True,
        "tol": 1e-3,
        "share_of_time": 0.25,
        "train_rows": 300 if quick else 60_000,
        "forest_rows": 300 if quick else 20_000,  # LIBSVM's time grows with n^2.5 there: hours for all rows
        "data": "synthetic" if quick else "a9a, mnist, covtype",
    }


def keys(runs: int) -> list[str]:
    """A task and a seed, which draws the training rows and the steps."""
    return [f"{task}, seed {seed}" for seed in range(runs) for task in TITLES | FOREST]


def run(data: Study, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Seconds and test errors of all methods, on one draw of training rows; nothing where the data are not there."""
    name, _, seed = key.partition(", seed ")
    if name not in data.tasks:
        return {}
    most = min(settings["train_rows"], settings["forest_rows"] if name in FOREST else np.inf)
    task = drawn_rows(data.tasks[name], int(most), int(seed))
    C, gamma, tol = settings["C"][name], 0.5 / settings["sigma2"][name], settings["tol"]
    found = {}
    with limit_threads(1):
        _compile(task, gamma)
        found["libsvm"] = _libsvm(task, C, gamma, tol)
        limit = settings["share_of_time"] * found["libsvm"]["seconds"]
        dual, found["dual"] = _timed(task, C, gamma, lambda p: working_set.solve(p, tol=tol))
        scores = _rows(task, gamma).products(task.X, dual.coef)
        hinge = np.maximum(0.0, 1.0 - task.y * (scores + dual.intercept)).mean()
        nu = float(hinge / np.sqrt(dual.coef @ scores))
        once: dict[str, Any] = {"tol": 0.0, "max_iter": 10**9, "seed": int(seed)}
        _, found["sbp"] = _timed(
            task,
            C,
            gamma,
            lambda p: sbp.solve(p, nu=nu, options=BatchOptions(batch=1, power=0), budget=_until(limit), **once),
        )
        _, found["cached sbp"] = _timed(task, C, gamma, lambda p: sbp_c_form.solve(p, budget=_until(limit), **once))
    return {"n": task.y.shape[0], "nu": float(f"{nu:.4g}"), "methods": found}


def _compile(task: Task, gamma: float) -> None:
    """Load the compiled loops, by a part of the task, before anything is timed."""
    few = drawn_rows(task, _FEW, 0)
    for solve in (working_set.solve, sbp_c_form.solve):
        _timed(few, 1.0, gamma, lambda p, solve=solve: solve(p))  # type: ignore[misc]
    _timed(few, 1.0, gamma, lambda p: sbp.solve(p, nu=0.1, options=BatchOptions(batch=1), max_iter=20))


def _rows(task: Task, gamma: float) -> KernelRows:
    return KernelRows(Kernel("rbf", gamma), task.X, cache_size=CACHE, dtype=np.float32)


def _until(seconds: float) -> Budget:
    """A budget of processor seconds; it is looked at when the solver looks at its iterate."""
    end = time.process_time() + seconds

    def over(progress: Progress) -> bool:
        return time.process_time() >= end

    return Budget(callbacks=(over,))


def _libsvm(task: Task, C: float, gamma: float, tol: float) -> dict[str, float]:
    """scikit-learn's SVC, on sparse rows where most entries are 0."""
    few = np.count_nonzero(task.X) < 0.25 * task.X.size
    X, X_test = (sp.csr_matrix(part, dtype=np.float64) if few else part.astype(np.float64) for part in task[::2])
    began = time.process_time()
    model = SVC(C=C, gamma=gamma, tol=tol, cache_size=CACHE).fit(X, task.y)
    seconds = time.process_time() - began
    return {"seconds": round(seconds, 3), "error": round(float((model.predict(X_test) != task.y_test).mean()), 6)}


def _timed(
    task: Task, C: float, gamma: float, solve: Callable[[KernelProblem], KernelResult]
) -> tuple[KernelResult, dict[str, float]]:
    began = time.process_time()
    problem = KernelProblem(_rows(task, gamma), task.y, np.full(task.y.shape[0], C), True)
    result = solve(problem)
    seconds = time.process_time() - began
    scores = _rows(task, gamma).products(task.X_test, result.coef) + result.intercept
    error = float((task.y_test * scores <= 0.0).mean())
    return result, {"seconds": round(seconds, 3), "error": round(error, 6)}


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By task and method: mean and sd of seconds and of errors."""
    found: dict[str, Any] = {}
    for name in TITLES | FOREST:
        several = [result for key, result in runs.items() if key.startswith(f"{name},") and result]
        if not several:
            continue
        found[name] = {
            **about(settings),
            "runs": len(several),
            "n": several[0]["n"],
            "nu": mean_and_sd([[result["nu"]] for result in several]),
            "methods": {
                method: {
                    what: mean_and_sd([[result["methods"][method][what]] for result in several])
                    for what in ("seconds", "error")
                }
                for method in METHODS
            },
        }
    return found


def table(summary: Mapping[str, Any]) -> str:
    """Seconds and errors, and what the paper has for all rows."""
    rows, several = [], summary[next(iter(TITLES))]["runs"]
    for name, title in titles(summary).items():
        content = summary[name]
        for method, label in METHODS.items():
            at = content["methods"][method]
            known = {} if "synthetic" in content else {"libsvm": PUBLISHED[name][0], "sbp": PUBLISHED[name][1]}
            seconds, error = at["seconds"], at["error"]
            rows.append(
                [
                    f"{title}, n = {content['n']}", label,
                    f"{seconds['mean'][0]:.2f}" + (f" ± {seconds['sd'][0]:.2f}" if several > 1 else ""),
                    percent(error, 0, several), known.get(method, ""),
                ]
            )  # fmt: skip
    how = f"{several} runs, mean ± sd" if several > 1 else "One run"
    head = f"{how}; the last column is the paper's, on all rows and its own machine.\n\n"
    return head + markdown(["data", "method", "processor seconds", "test error (%)", "paper"], rows)


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: a panel for each task, error against seconds."""
    return quarter_figure(summary, titles(summary), METHODS)

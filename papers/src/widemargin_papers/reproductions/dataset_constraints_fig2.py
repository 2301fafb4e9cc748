"""Figure 2 of Goh et al. 2016: error against the fairness ratio on a9a.

Minimise the error subject to `s_p(A) <= s_p(B) / kappa`, without a bias, by 8 majorisation steps from w = 0, for 32
values of 1/kappa from 1 to 6.5; beside it Zafar's constraint for 32 values of c, and the unconstrained SVM.

The paper speaks of men and women (columns 72 and 71, counted from 0); the authors' published code compares, under the
same names, people with 13 or more years of education and the others (column 38). Both are run.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widemargin.extending import Floats, Table, limit_threads
from widemargin.goals import Goal, Population, col, error_rate, positive_rate
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.problems.rate_constrained import build_problem
from widemargin.rows import Rows
from widemargin.solvers.convex.convex_step import ConvexStep
from widemargin.solvers.ramp.majorization import MajorizeOptions, minimise_ramp
from widemargin_papers.baselines import ZafarClassifier
from widemargin_papers.data import EDUCATION, MALE, Adult
from widemargin_papers.reproductions.experiment import load_adult as load
from widemargin_papers.reproductions.pictures.constraint_and_kernel_pictures import fairness_figure
from widemargin_papers.reproductions.summary import markdown, mean_and_sd, number

__all__ = ["draw", "keys", "load", "run", "settings", "summarise", "table"]

GROUPINGS = {"gender": MALE, "education": EDUCATION}
"""By name, the column that group A has a 1 in."""

TITLES = {
    "gender": "Gender: men (A) against women (B)",
    "education": "Education: 13 years or more (A) against fewer (B), as in the published code",
}
ALL_ROWS = "all rows"

A = Population("a", where=col("group") == "a")
B = Population("b", where=col("group") == "b")

METHODS = ("thresholded", "randomised", "zafar", "svm")
PARTS = ("train", "test")


def settings(quick: bool) -> dict[str, Any]:
    """C = 1 is LIBLINEAR's default, which the authors used; it is lambda = 2/n beside the ramp clip(1/2 + z, 0, 1)."""
    points = 3 if quick else 32
    return {
        "C": 1.0,
        "majorisation_steps": 8,
        "step_tol": 1e-2,
        "tol": 1e-4,
        "inverse_kappa": np.linspace(1.0, 6.5, points).round(6).tolist(),
        "zafar_points": points,
        "groupings": list(GROUPINGS),
        "data": "synthetic" if quick else "a9a",
    }


def keys(runs: int) -> list[str]:
    """All training rows as they are, then bootstrap samples with the seeds 0, 1, ...; each for both groupings."""
    samples = [ALL_ROWS, *(f"bootstrap {seed}" for seed in range(runs))]
    return [f"{grouping}, {sample}" for sample in samples for grouping in GROUPINGS]


def run(adult: Adult, settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    """All methods on one sample of the training rows (bootstrap samples are weights: how often a row was drawn).

    Ratios of the randomised rule are ratios of expected rates. Zafar's c runs from 1 to n/2 in the units of the code.
    """
    began = time.process_time()
    grouping, sample = key.split(", ")
    n = adult.y.shape[0]
    weight = np.ones(n)
    if sample != ALL_ROWS:
        rng = np.random.default_rng(int(sample.removeprefix("bootstrap ")))
        weight = np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)
    rows = _Rows(adult, GROUPINGS[grouping], weight)
    found: dict[str, Any] = {method: {part: {"ratio": [], "error": []} for part in PARTS} for method in METHODS}
    with limit_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not met shows in the figure
        for inverse_kappa in settings["inverse_kappa"]:
            w = _train(adult, weight, rows.populations, inverse_kappa, settings)
            rows.measure(w, found["thresholded"], _threshold)
            rows.measure(w, found["randomised"], _ramp)
        free = ZafarClassifier(C=settings["C"], fit_intercept=False, tol=settings["tol"])
        free.fit(adult.X, adult.y, sample_weight=weight)
        rows.measure(free.coef_[0], found["svm"], _threshold)
        a = float(weight[rows.in_a["train"]].sum())
        unit = a * (n - a) / n  # the code's c bounds <w, xbar> a b / (a + b) of a model with margin 1, ours has 1/2
        free_c = 2.0 * unit * rows.mean_difference(free.coef_[0])
        found["zafar_c"] = np.linspace(1.0, n / 2.0, settings["zafar_points"]).round(3).tolist()
        for c in found["zafar_c"]:
            model = free
            if c < free_c:
                model = ZafarClassifier(
                    A, B, c=c / (2.0 * unit), C=settings["C"], fit_intercept=False, tol=settings["tol"]
                ).fit(adult.X, adult.y, sample_weight=weight, populations=rows.populations)
            rows.measure(model.coef_[0], found["zafar"], _threshold)
    return found | {"zafar_free_c": round(free_c, 3), "seconds": round(time.process_time() - began, 2)}


def _train(
    adult: Adult, weight: Floats, populations: Table, inverse_kappa: float, settings: Mapping[str, Any]
) -> Floats:
    """Algorithm 1 from w = 0, all of its steps."""
    goal = Goal(error_rate(), positive_rate(A) <= inverse_kappa * positive_rate(B))
    sources = make_sources(
        baselines_used(goal), Rows(adult.X, adult.y, sample_weight=weight, populations=populations), classes=(-1.0, 1.0)
    )
    lam = 2.0 / (weight.sum() * settings["C"])
    problem = build_problem(bind(goal, sources), [adult.X], lam, fit_intercept=False)
    convex = ConvexStep("auto", adult.X.shape[1])
    options = MajorizeOptions(
        steps=settings["majorisation_steps"] - 1, loose_tol=settings["step_tol"], tol=settings["tol"], stall=0.0
    )
    return minimise_ramp(problem, convex, options, start=(np.zeros(adult.X.shape[1]), 0.0)).w


class _Rows:
    """Who is in group A, on the training rows (with weights) and on the test rows."""

    def __init__(self, adult: Adult, column: int, weight: Floats) -> None:
        self.X = {"train": adult.X, "test": adult.X_test}
        self.positive = {"train": adult.y > 0, "test": adult.y_test > 0}
        self.in_a = {"train": adult.has(column), "test": adult.has_test(column)}
        self.weight = {"train": weight, "test": np.ones(adult.y_test.shape[0])}
        self.populations = pa.table({"group": np.where(self.in_a["train"], "a", "b")})

    def measure(self, w: Floats, store: Mapping[str, Any], share_of: Callable[[Floats], Floats]) -> None:
        """Append ratio and error of the model w to the lists of a method, on both parts."""
        for part in PARTS:
            share = share_of(np.asarray(self.X[part] @ w))
            weight, inside = self.weight[part], self.in_a[part]
            below = _mean(share, weight, ~inside)
            ratio = _mean(share, weight, inside) / below if below > 0.0 else np.inf
            wrong = np.where(self.positive[part], 1.0 - share, share)
            store[part]["ratio"].append(number(ratio))
            store[part]["error"].append(number(_mean(wrong, weight, np.ones_like(inside))))

    def mean_difference(self, w: Floats) -> float:
        """Zafar's `<w, xbar>` of a model: the c from which on his constraint is no constraint."""
        z, inside, weight = self.X["train"] @ w, self.in_a["train"], self.weight["train"]
        return abs(_mean(z, weight, inside) - _mean(z, weight, ~inside))


def _ramp(z: Floats) -> Floats:
    """The randomised rule, as probabilities of the positive prediction."""
    return np.clip(z + 0.5, 0.0, 1.0)


def _threshold(z: Floats) -> Floats:
    """The deterministic rule, as shares of positive predictions."""
    return (z > 0.0).astype(np.float64)


def _mean(values: Floats, weight: Floats, members: npt.NDArray[np.bool_]) -> float:
    return float(values[members] @ weight[members] / weight[members].sum())


def summarise(settings: Mapping[str, Any], runs: Mapping[str, Any]) -> dict[str, Any]:
    """By grouping and method: ratio and error on both parts, mean and sd over the bootstrap runs, and on all rows."""
    found: dict[str, Any] = {"inverse_kappa": settings["inverse_kappa"]}
    for grouping in settings["groupings"]:
        whole = runs[f"{grouping}, {ALL_ROWS}"]
        several = [value for key, value in runs.items() if key.startswith(grouping) and not key.endswith(ALL_ROWS)]
        used = several or [whole]
        found[grouping] = {
            "title": TITLES[grouping],
            "runs": len(several),
            "all_rows": whole,
            "zafar_c": used[0]["zafar_c"],
            "zafar_free_c": float(np.mean([result["zafar_free_c"] for result in used])),
            **{
                method: {
                    part: {
                        what: mean_and_sd([result[method][part][what] for result in used])
                        for what in ("ratio", "error")
                    }
                    for part in PARTS
                }
                for method in METHODS
            },
        }
    return found


def table(summary: Mapping[str, Any]) -> str:
    """Test rows: ratio and error at some values of 1/kappa and of Zafar's c, bootstrap means and all rows."""
    text = []
    asked = summary["inverse_kappa"]
    for grouping in (name for name in GROUPINGS if name in summary):
        content = summary[grouping]
        whole, free_c = content["all_rows"], content["zafar_free_c"]
        rows = [
            [
                f"{asked[j]:.2f}", _mean_cell(content["thresholded"]["test"], j),
                _mean_cell(content["randomised"]["test"], j), _cell(whole, "thresholded", j),
            ]
            for j, value in enumerate(asked)
            if _near(value, asked)
        ]  # fmt: skip
        several = "run" if content["runs"] == 1 else "runs"
        text.append(f"**{content['title']}.** Test rows: ratio / error, {content['runs']} bootstrap {several}.\n")
        text.append(markdown(["1/kappa asked", "thresholded", "randomised", "thresholded, trained on all rows"], rows))
        values = content["zafar_c"]
        bound = [j for j, c in enumerate(values) if c < free_c]
        few = sorted({bound[0], bound[len(bound) // 4], bound[len(bound) // 2]})
        rows = [[f"{values[j]:.0f}", _mean_cell(content["zafar"]["test"], j), _cell(whole, "zafar", j)] for j in few]
        svm = [f"none (free from {free_c:.0f})", _mean_cell(content["svm"]["test"], 0), _cell(whole, "svm", 0)]
        text.append(markdown(["Zafar's c, units of the code", "thresholded", "trained on all rows"], [*rows, svm]))
    return "\n".join(text)


def draw(summary: Mapping[str, Any]) -> Any:
    """The figure: two groupings by three panels."""
    return fairness_figure(summary, [name for name in GROUPINGS if name in summary])


def _near(value: float, values: list[float]) -> bool:
    """Whether a point is the one nearest to some round number."""
    return any(min(values, key=lambda other: abs(other - wanted)) == value for wanted in (1, 1.25, 1.65, 2.5, 4, 6.5))


def _mean_cell(content: Mapping[str, Any], j: int) -> str:
    ratio, error, spread = content["ratio"]["mean"][j], content["error"]["mean"][j], content["error"]["sd"][j]
    return f"{'-' if ratio is None else f'{ratio:.3f}'} / {error:.4f} ± {spread:.4f}"


def _cell(run: Mapping[str, Any], method: str, j: int) -> str:
    place = run[method]["test"]
    ratio, error = place["ratio"][j], place["error"][j]
    return f"{'-' if ratio is None else f'{ratio:.3f}'} / {error:.4f}"

"""What the experiments of margin pursuit share: data, stochastic runs watched by their cost, margin statistics.

As in Section 4 of Holland (AISTATS 2019): balanced labels, n at most 10 d training rows, one row a step, margin level
1, the regulariser `lam/2 |w|^2`, steps `1/(lam t)`, projection to the ball of radius `1/sqrt(lam)`, no bias.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import skew

from widemargin.extending import Floats, Ints
from widemargin.losses.margin import CATONI
from widemargin.problems.margin_pursuit import data_driven_scale
from widemargin.solvers.smooth import margin_sgd
from widemargin_papers.data import load_a9a, load_mnist
from widemargin_papers.data.two_classes import TwoClasses, load_ijcnn1, load_spruce, synthetic_rows
from widemargin_papers.reproductions.experiment import QUICK_ROWS
from widemargin_papers.solvers import linear_sgd_loops as linear_sgd

__all__ = [
    "LAMBDAS",
    "STATISTICS",
    "TITLES",
    "Study",
    "Trial",
    "best_lambda",
    "costs",
    "curves",
    "draw_trial",
    "keys",
    "load",
    "settings",
    "title",
]

TITLES = {"cov": "Covertype, class 1", "digit5": "MNIST, digit 5", "adult": "Adult (a9a)", "ijcnn1": "ijcnn1"}
LAMBDAS = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
STATISTICS = ("error", "mean", "median", "sd", "skewness", "q05", "q25", "q75", "q95")
EPOCHS = 30
POINTS = 24
TEST_ROWS = 10_000
LEVEL = 1.0


@dataclass(frozen=True)
class Study:
    """The data sets by name."""

    tasks: Mapping[str, TwoClasses]
    name: str


class Trial(NamedTuple):
    """Training and test rows with as many labels +1 as -1."""

    X: npt.NDArray[np.float32]
    y: Floats
    X_test: npt.NDArray[np.float32]
    y_test: Floats


def settings(quick: bool) -> dict[str, Any]:
    """What Figures 3 and 5 have in common."""
    return {
        "lambdas": list(LAMBDAS[::2] if quick else LAMBDAS),
        "rows_per_feature": 10,
        "epochs": 2 if quick else EPOCHS,
        "points": 8 if quick else POINTS,
        "test_rows": TEST_ROWS,
        "margin_level": LEVEL,
        "scale": LEVEL,
        "data": "synthetic" if quick else "covtype, mnist, a9a, ijcnn1",
    }


def keys(runs: int) -> list[str]:
    """A data set and a seed, which draws the rows and the steps."""
    return [f"{task}, seed {seed}" for seed in range(runs) for task in TITLES]


def load(folder: Path | None, quick: bool) -> Study:
    """All rows of the data sets, training and test rows together; or synthetic ones."""
    if quick:
        small = {"cov": 54, "digit5": 60, "adult": 40, "ijcnn1": 22}
        return Study({name: synthetic_rows(QUICK_ROWS, d, d) for name, d in small.items()}, "synthetic rows")
    digits, adult = load_mnist(folder), load_a9a(folder)
    digit = np.concatenate((digits.digit, digits.digit_test))
    tasks = {
        "cov": load_spruce(folder),
        "digit5": TwoClasses(np.concatenate((digits.X, digits.X_test)), np.where(digit == 5, 1.0, -1.0), digits.name),
        "adult": TwoClasses(
            np.concatenate([part.toarray().astype(np.float32) for part in (adult.X, adult.X_test)]),
            np.concatenate((adult.y, adult.y_test)),
            adult.name,
        ),
        "ijcnn1": load_ijcnn1(folder),
    }
    return Study(tasks, ", ".join(rows.name for rows in tasks.values()))


def title(settings: Mapping[str, Any], name: str) -> str:
    """Of a data set, which says where synthetic rows stand for it."""
    return f"synthetic rows for {TITLES[name]}" if settings["data"] == "synthetic" else TITLES[name]


def draw_trial(rows: TwoClasses, rows_per_feature: int, test_rows: int, seed: int) -> Trial:
    """Training rows drawn without replacement, test rows from the rest; both with balanced labels."""
    rng = np.random.default_rng(seed)
    positive, negative = (rng.permutation(np.flatnonzero(rows.y == sign)) for sign in (1.0, -1.0))
    least = min(positive.shape[0], negative.shape[0])
    half = min(rows_per_feature * rows.X.shape[1] // 2, least // 2)
    test = min(least - half, test_rows // 2)
    train = rng.permutation(np.concatenate((positive[:half], negative[:half])))
    rest = np.concatenate((positive[half : half + test], negative[half : half + test]))
    return Trial(rows.X[train], rows.y[train], rows.X[rest], rows.y[rest])


def costs(settings: Mapping[str, Any], n: int) -> list[int]:
    """Numbers of gradients at which a run is looked at, from 1 to so many epochs, on a logarithmic scale."""
    found: Ints = np.unique(np.rint(np.geomspace(1.0, settings["epochs"] * n, settings["points"])).astype(np.int64))
    return [int(cost) for cost in found]


def curves(
    method: str,
    trial: Trial,
    lam: float,
    looks: Sequence[int],
    seed: int,
    *,
    rescale_after: int | None = None,
    squared: bool = True,
) -> dict[str, dict[str, list[float]]]:
    """Statistics of training and test margins at every look of a run.

    Parameters
    ----------
    method : {"pursuit", "pegasos"}
        The margin pursuit loss of scale 1 or the hinge.
    trial : Trial
    lam : float
    looks : sequence of int
        Numbers of gradients, ascending.
    seed : int
        Of the rows drawn; the same for both methods.
    rescale_after : int, optional
        Gradients after which the scale is set from the training margins, once: `s^2` is the 75th percentile of their
        squares.
    squared : bool, default=True
        Whether the loss is `s^2 rho`, as in the paper's theory, or `rho` itself, for which a larger scale means a
        smaller loss beside the regulariser: as if lam were `s^2 lam`. The latter is what
        `MarginPursuitClassifier(scale="rescale-once")` does.
    """
    n, d = trial.X.shape
    draws = np.random.default_rng((seed, 1)).integers(0, n, looks[-1])
    norms = np.einsum("ij,ij->i", trial.X, trial.X, dtype=np.float64)
    v, u, now = np.zeros(d + 1), np.zeros(d + 1), np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    ones, hits, radius, scale = np.ones(n), np.zeros(n, dtype=np.int64), lam**-0.5, LEVEL
    found: dict[str, dict[str, list[float]]] = {part: {name: [] for name in STATISTICS} for part in ("train", "test")}
    begin, strength = 0, lam
    stops = sorted({*looks, *(() if rescale_after is None else (rescale_after,))})
    for stop in stops:
        some = draws[begin:stop]
        if method == "pegasos":
            linear_sgd.pegasos_dense(trial.X, some, trial.y, ones, norms, lam, radius, 0.0, v, u, hits, now)
        else:
            terms = margin_sgd.Terms(CATONI, LEVEL, scale, strength, radius, 0.0)
            iterate = margin_sgd.Iterate(v[:-1], u[:-1], ones, now, averaged=False)
            margin_sgd.dense_pass(some, trial.X, trial.y, norms, terms, iterate)
        begin = stop
        w = (now[margin_sgd.SCALE] * v[:-1]).astype(np.float32)
        margins = trial.y * (trial.X @ w)
        if stop == rescale_after:
            scale = data_driven_scale(margins, np.full(n, 1.0 / n), 1.0)
            strength = lam if squared else lam * scale**2
        if stop in looks:
            for part, values in (("train", margins), ("test", trial.y_test * (trial.X_test @ w))):
                for name, value in _statistics(values).items():
                    found[part][name].append(float(f"{value:.5g}"))
    return found


def _statistics(m: Floats) -> dict[str, float]:
    """The error rate and the shape of the distribution of margins."""
    quantiles = np.quantile(m, (0.05, 0.25, 0.5, 0.75, 0.95))
    spread = float(m.std())
    values = [float((m <= 0.0).mean()), float(m.mean()), quantiles[2], spread, float(skew(m)) if spread > 0.0 else 0.0]
    return dict(zip(STATISTICS, [*values, *quantiles[[0, 1, 3, 4]]], strict=True))


def best_lambda(several: Sequence[Mapping[str, Any]], method: str, lambdas: Sequence[float]) -> float:
    """The lambda with the lowest mean test error over all looks, as in the paper."""

    def lowest(lam: float) -> float:
        several_errors = np.array([run[method][str(lam)]["test"]["error"] for run in several])
        return float(several_errors.mean(axis=0).min())

    return min(lambdas, key=lowest)

"""What each risk of `RiskClassifier` costs on a9a, and whether its optimum is that of the package `dro`.

a9a, C = 1, default tolerances, one thread: median processor seconds of a whole fit; the target is one second. Beside
LogisticRegression, which minimises the same objective as the mean: fits to within 1e-6 of its least value, each at
the loosest of seven tolerances that gets there; the target is half its time. `dro` states chi-square, CVaR and
Wasserstein problems for a conic solver; on 60 rows its optimal values are compared with ours. It has no ridge, so
ours is next to none. Run as `python -m benchmarks.risk_speed`; see README.md here.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import widemargin as wm
from benchmarks.common import (
    MissingDataError,
    interleave,
    load_adult,
    load_peers,
    machine,
    one_thread,
    parser,
    show,
    skipped,
    verdict,
    write,
)
from benchmarks.margin_speed import TARGET, TOLS, logistic_value
from widemargin.losses.risks import RISKS

OURS, PEER = "RiskClassifier, mean", "LogisticRegression"
MOST_SECONDS, MOST_OF_PEER, MOST_APART = 1.0, 0.5, 1e-6
NO_RIDGE = 1e7
"""A C at which the ridge adds less than 1e-8 to these values."""


def each_risk(X: Any, y: npt.NDArray[np.float64], repeats: int) -> dict[str, dict[str, Any]]:
    """Processor seconds, iterations and the proved gap (None where there is none) of a fit of every risk."""
    names = (*RISKS, "pursuit", "auto")
    timed = interleave({name: partial(wm.RiskClassifier(name, random_state=0).fit, X, y) for name in names}, repeats)
    found = {}
    for name in names:
        clf = wm.RiskClassifier(name, random_state=0).fit(X, y)
        gap = None if np.isnan(clf.gap_[0]) else float(clf.gap_[0])
        found[name] = {"processor_s": timed[name].processor_median, "iterations": clf.n_iter_, "gap": gap}
    return found


def beside_logistic(X: Any, y: npt.NDArray[np.float64], repeats: int) -> dict[str, dict[str, float]]:
    """The loosest tolerance of each fit that comes within `TARGET` of the least value, what is left, and its time."""
    makes: dict[str, Callable[[float], Any]] = {
        OURS: lambda tol: wm.RiskClassifier(tol=tol).fit(X, y),
        PEER: lambda tol: LogisticRegression(tol=tol, max_iter=5000).fit(X, y),
    }
    least = logistic_value(LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, y), X, y)
    found: dict[str, dict[str, float]] = {}
    for name, make in makes.items():
        for tol in TOLS:
            excess = logistic_value(make(tol), X, y) / least - 1.0
            found[name] = {"tol": tol, "excess": excess}
            if excess <= TARGET:
                break
    timed = interleave({name: partial(makes[name], row["tol"]) for name, row in found.items()}, repeats)
    return {name: row | {"processor_s": timed[name].processor_median} for name, row in found.items()}


def beside_dro(dro: Any) -> list[dict[str, Any]]:
    """The least values of `dro` and ours, on 60 rows drawn twice."""
    found = []
    for seed in (0, 1):
        X, y = make_classification(60, 4, n_informative=3, n_redundant=0, flip_y=0.1, class_sep=1.5, random_state=seed)
        side = 2.0 * y - 1.0
        for risk, level, name, settings in (
            ("chi-square", 0.02, "Chi2DRO", {"eps": 0.04}),  # its ball has no half: eps is twice our radius
            ("chi-square", 0.1, "Chi2DRO", {"eps": 0.2}),
            ("cvar", 0.7, "CVaRDRO", {"alpha": 0.7}),
            ("cvar", 0.9, "CVaRDRO", {"alpha": 0.9}),
            ("wasserstein", 0.01, "WassersteinDRO", {"eps": 0.01, "p": 2}),
            ("wasserstein", 0.1, "WassersteinDRO", {"eps": 0.1, "p": 2}),
        ):
            peer = getattr(dro, name)(4, model_type="logistic")
            peer.update(settings)
            peer.fit(X, side)
            clf = wm.RiskClassifier(risk, level=level, C=NO_RIDGE, tol=1e-9).fit(X, y)
            ours, theirs = float(clf.objective_[0]), float(peer.robust_obj)
            found.append(
                {
                    "risk": risk,
                    "level": level,
                    "seed": seed,
                    "ours": ours,
                    "dro": theirs,
                    "apart": abs(ours / theirs - 1.0),
                }
            )
    return found


def tables(results: dict[str, Any]) -> list[str]:
    """Three tables, with a verdict each; two where `dro` is not there."""
    rows = [
        [name, f"{row['processor_s']:.3f}", row["iterations"], "-" if row["gap"] is None else f"{row['gap']:.1e}",
         verdict(row["processor_s"] <= MOST_SECONDS)]
        for name, row in results["risks"].items()
    ]  # fmt: skip
    made = [
        show(
            f"{results['data']}: whole fits (median processor seconds)",
            ["risk", "s", "iterations", "gap proved", f"at most {MOST_SECONDS:g} s"],
            rows,
        )
    ]
    fits = results["mean"]
    rows = []
    for name, row in fits.items():
        ratio = row["processor_s"] / fits[PEER]["processor_s"]
        said = verdict(ratio <= MOST_OF_PEER) if name == OURS else ""
        rows.append(
            [name, f"{row['tol']:g}", f"{row['excess']:.1e}", f"{row['processor_s']:.3f}", f"{ratio:.2f}", said]
        )
    columns = ["estimator", "tol", "excess", "s", "ratio", f"at most {MOST_OF_PEER:g}"]
    made.append(show(f"The same objective to within {TARGET:g}", columns, rows))
    if results["dro"]:
        rows = [
            [row["risk"], f"{row['level']:g}", row["seed"], f"{row['ours']:.9f}", f"{row['dro']:.9f}",
             f"{row['apart']:.1e}", verdict(row["apart"] <= MOST_APART)]
            for row in results["dro"]
        ]  # fmt: skip
        columns = ["risk", "level", "seed", "ours", "dro", "apart (relative)", f"at most {MOST_APART:g}"]
        made.append(show("Least values, 60 rows, logistic loss", columns, rows))
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 also where the data are missing."""
    options = parser(__doc__ or "").parse_args(arguments)
    about, dro = machine(), load_peers(options, "dro.linear_model")
    try:
        adult = load_adult(options)
    except MissingDataError as error:
        return skipped(error)
    X, y = adult.X.astype(np.float64), np.where(adult.y > 0, 1.0, -1.0)
    repeats = 1 if options.quick else options.repeats
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")  # of the conic solver, behind dro
        results = {
            "machine": about,
            "data": adult.name,
            "risks": each_risk(X, y, repeats),
            "mean": beside_logistic(X, y, repeats),
            "dro": [] if dro is None else beside_dro(dro),
        }
    write(options, "risk_speed", results, tables(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Kernels under a constraint on a9a: exact training on subsets, feature maps on subsets and on all rows, linear beside.

Minimise the error rate subject to `positive_rate(women) / positive_rate(men) >= 0.8`, with a Gaussian kernel.
Run as `python -m benchmarks.kernelised`; see README.md here.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import (
    Adult,
    MissingDataError,
    Timing,
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
from benchmarks.fairness_a9a import goal_of
from widemargin import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.options import gathered

KAPPA, GAMMA = 0.8, 0.03
SIZES, QUICK_SIZES = (2000, 5000, 10_000), (300,)
CS = (0.2, 2.0)
CACHE = 1600.0
"""Megabytes: the kernel matrix of 10,000 rows takes 763."""

KINDS: dict[str, dict[str, Any]] = {
    "linear": {"kernel": None},
    "rbf, exact": {"kernel": "rbf"},
    "rbf, nystroem 300": {"kernel": "rbf", "feature_map": "nystroem", "n_components": 300},
    "rbf, fourier 300": {"kernel": "rbf", "feature_map": "fourier", "n_components": 300},
}
WHOLE: dict[str, dict[str, Any]] = {
    "linear": {"kernel": None},
    "rbf, nystroem 300": {"kernel": "rbf", "feature_map": "nystroem", "n_components": 300},
    "rbf, nystroem 1000": {"kernel": "rbf", "feature_map": "nystroem", "n_components": 1000},
    "rbf, fourier 1000": {"kernel": "rbf", "feature_map": "fourier", "n_components": 1000},
}
SOLVERS = ("auto", "newton", "cutting-plane")


def subset(data: Adult, n: int) -> Adult:
    """A fixed draw of n training rows; the test rows stay."""
    rows = np.sort(np.random.default_rng(0).permutation(data.X.shape[0])[:n])
    return Adult(data.X[rows], data.y[rows], data.X_test, data.y_test, data.name)


def fit(data: Adult, C: float, **parameters: Any) -> RateConstrainedClassifier:
    """Fit the estimator."""
    made = RateConstrainedClassifier(
        goal_of(KAPPA),
        C=C,
        gamma=GAMMA,
        random_state=0,
        on_infeasible="warn",
        **gathered({"cache_size": CACHE} | parameters),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unmet goal shows in the table
        return made.fit(data.X, data.y, populations=data.populations)


def reached(data: Adult, model: RateConstrainedClassifier) -> dict[str, Any]:
    """Goal met or not on the training rows, errors, test ratio, certificate, size of the model."""
    predicted, women = model.predict(data.X_test) > 0, data.women_test
    size = model.support_.shape[0] if hasattr(model, "support_") else model.coef_.shape[1]
    return {
        "met": model.goal_report_.all_met(),
        "train_error": float(model.goal_report_.objective),
        "test_error": float((predicted != (data.y_test > 0)).mean()),
        "test_ratio": float(predicted[~women].mean() / max(predicted[women].mean(), 1e-12)),
        "gap": model.subproblem_gap_,
        "size": int(size),
        "solver": model.solver_,
    }


def run(data: Adult, kinds: Mapping[str, Mapping[str, Any]], Cs: Sequence[float], repeats: int) -> list[dict[str, Any]]:
    """Fit all kinds at every C, timed in turn."""
    cases: dict[str, Callable[[], Any]] = {
        f"{name}|{C}": partial(fit, data, C, **kind) for C in Cs for name, kind in kinds.items()
    }
    return [_row(data, name, timing) for name, timing in interleave(cases, repeats, warm_up=False).items()]


def _row(data: Adult, name: str, timing: Timing) -> dict[str, Any]:
    what, _, C = name.partition("|")
    return {"rows": data.X.shape[0], "what": what, "C": float(C)} | reached(data, timing.result) | timing.to_dict()


def table(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """Print and return a table."""
    return show(
        title,
        ["rows", "what", "C", "met", "train error", "test error", "test ratio", "gap", "size", "median s", "cpu s"],
        [
            [
                row["rows"], row["what"], row["C"], verdict(row["met"]), f"{row['train_error']:.4f}",
                f"{row['test_error']:.4f}", f"{row['test_ratio']:.2f}", f"{row['gap']:.0e}", row["size"],
                f"{row['median_s']:.2f}", f"{row['median_processor_s']:.2f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def _cs(n: int) -> Sequence[float]:
    """Large problems are run at the default C only: at C = 2 they take twice as long."""
    return CS if n <= SIZES[1] else CS[:1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__ or "").parse_args(arguments)
    try:
        data = load_adult(options)
    except MissingDataError as error:
        return skipped(error)
    sizes = QUICK_SIZES if options.quick else SIZES
    whole = {name: kind for name, kind in WHOLE.items() if not options.quick or kind.get("n_components", 0) <= 300}
    repeats = 1 if options.quick else options.repeats
    with one_thread():
        fit(subset(data, 100), 0.2, kernel="rbf", solver="cutting-plane")  # compiles
        fit(subset(data, 100), 0.2, kernel="rbf", solver="newton")
        results: dict[str, Any] = {"machine": machine(), "data": data.name, "kappa": KAPPA, "gamma": GAMMA}
        rows = [row for n in sizes for row in run(subset(data, n), KINDS, _cs(n), repeats)]
        solvers = {f"rbf, exact, {name}": {"kernel": "rbf", "solver": name} for name in SOLVERS}
        by_solver = [row for n in sizes[:2] for row in run(subset(data, n), solvers, _cs(2 * n), repeats)]
        everything = run(data, whole, CS[:1], repeats)
    sections = [
        table(rows, "Subsets: linear, exact kernel, feature maps (size: features or support vectors)"),
        table(by_solver, "Exact kernel: the solvers"),
        table(everything, "All rows"),
    ]
    write(options, "kernelised", results | {"subsets": rows, "solvers": by_solver, "whole": everything}, sections)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Features under a ratio of rates: kernels, exact or by feature maps, on a9a; codings of raw Adult's numbers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.task import Context, Row, Table, Task
from benchmarks.tasks._people import People, compared, fit, of_a9a, reached
from widemargin import RateConstrainedClassifier, ThermometerEncoder
from widemargin.preprocessing import QuantileBins

KAPPA = 0.8
SHARED = {"gamma": 0.03, "cache_size": 1600.0, "random_state": 0}
"""The cache holds the kernel matrix of 10,000 rows, 763 MB."""

CS = (0.2, 2.0)
SIZES, QUICK_SIZES = (2000, 5000, 10_000), (300,)


def _mapped(how: str, n: int) -> dict[str, Any]:
    return {"kernel": "rbf", "feature_map": how, "n_components": n}


KINDS: dict[str, dict[str, Any]] = {
    "linear": {"kernel": None},
    "rbf, exact": {"kernel": "rbf"},
    "rbf, nystroem 300": _mapped("nystroem", 300),
    "rbf, fourier 300": _mapped("fourier", 300),
}
WHOLE: dict[str, dict[str, Any]] = {
    "linear": {"kernel": None},
    "rbf, nystroem 300": _mapped("nystroem", 300),
    "rbf, nystroem 1000": _mapped("nystroem", 1000),
    "rbf, fourier 1000": _mapped("fourier", 1000),
}
SOLVERS = {f"rbf, exact, {name}": {"kernel": "rbf", "solver": name} for name in ("auto", "newton", "cutting-plane")}


def _kernel_rows(ctx: Context, data: People, kinds: Mapping[str, dict[str, Any]], Cs: Sequence[float]) -> list[Row]:
    """Fit all kinds at every C, timed in turn."""
    for solver in ("cutting-plane", "newton"):
        fit(data.some(100), KAPPA, C=0.2, kernel="rbf", solver=solver, **SHARED)  # compiles
    cases = {f"{name}|{C}": partial(fit, data, KAPPA, C=C, **SHARED | kind) for C in Cs for name, kind in kinds.items()}
    rows = []
    for row, model in compared(ctx, data, cases, warm_up=False):
        size = model.support_.shape[0] if hasattr(model, "support_") else model.coef_.shape[1]
        row |= {"rows": data.X.shape[0], "C": row.pop("value"), "met": model.goal_report_.all_met(), "size": int(size)}
        rows.append(row | {"gap": model.subproblem_gap_, "solver": model.solver_})
    return rows


def subsets(ctx: Context) -> list[Row]:
    """Linear, exact kernel and feature maps on subsets; large problems at the default C only."""
    data = of_a9a(ctx.load("a9a"))
    return [
        row for n in ctx.pick(SIZES, QUICK_SIZES)
        for row in _kernel_rows(ctx, data.some(n), KINDS, CS if n <= SIZES[1] else CS[:1])
    ]  # fmt: skip


def solvers(ctx: Context) -> list[Row]:
    """The solvers of exact training."""
    data = of_a9a(ctx.load("a9a"))
    return [
        row for n in ctx.pick(SIZES[:2], QUICK_SIZES)
        for row in _kernel_rows(ctx, data.some(n), SOLVERS, CS if 2 * n <= SIZES[1] else CS[:1])
    ]  # fmt: skip


def whole(ctx: Context) -> list[Row]:
    """All rows."""
    kinds = {name: kind for name, kind in WHOLE.items() if not ctx.quick or kind.get("n_components", 0) <= 300}
    return _kernel_rows(ctx, of_a9a(ctx.load("a9a")), kinds, CS[:1])


# --- codings of numbers -----------------------------------------------------------------------------------------------

NUMBERS = ("age", "education_num", "hours_per_week", "capital_gain", "capital_loss")
WORDS = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country")
CODINGS: dict[str, Callable[[], Any]] = {
    "scaled numbers": StandardScaler,
    "bins (QuantileBins)": QuantileBins,
    "thermometers (ThermometerEncoder)": ThermometerEncoder,
}


def coded(table: pa.Table, coding: str) -> People:
    """Raw Adult in a coding that is fitted on the training rows, words as columns of 0 and 1."""
    parts = []
    for part in ("train", "test"):
        rows = table.filter(pa.array([word == part for word in table["split"].to_pylist()]))
        numbers = np.column_stack([rows[name].to_numpy().astype(float) for name in NUMBERS])
        words = np.column_stack([np.array(rows[name].to_pylist(), dtype=object) for name in WORDS])
        y = np.where(np.array(rows["income"].to_pylist()) == ">50K", 1.0, -1.0)
        parts.append((numbers, words, y, np.array(rows["sex"].to_pylist()) == "Female"))
    encoder = CODINGS[coding]().fit(parts[0][0])
    one_hot = OneHotEncoder(handle_unknown="ignore").fit(parts[0][1])
    X, X_test = (sp.csr_matrix(sp.hstack([encoder.transform(a), one_hot.transform(b)])) for a, b, *_ in parts)
    return People(X, parts[0][2], X_test, parts[1][2], parts[0][3], parts[1][3], "raw Adult")


def codings(ctx: Context) -> list[Row]:
    """What the coding of the numbers is worth: without a constraint, and with the 80% rule."""
    table, rows = ctx.load("adult"), []
    for coding in CODINGS:
        data = coded(table, coding)
        plain = RateConstrainedClassifier(C=0.2, max_steps=1, enforce="randomized").fit(data.X, data.y)
        for goal, model in (("plain", plain), ("kappa = 0.8", fit(data, 0.8, C=0.2))):
            rows.append({"coding": coding, "goal": goal, "features": data.X.shape[1]} | reached(data, model))
    return rows


_KERNELS = (
    "rows | what | C | met | train error: {train_error:.4f} | test error: {test_error:.4f} | test ratio: "
    "{test_ratio:.2f} | gap: {gap:.0e} | size | median s: {median_s:.2f} | cpu s: {median_processor_s:.2f}"
)

TASKS = {
    "kernelised": Task(
        "The 80% rule on a9a with a Gaussian kernel (gamma .03): exactly on subsets, through 300 Nystroem or Fourier "
        "features, and linear; the solvers of exact training; all rows through maps. Size: number of features or of "
        "support vectors.",
        {"subsets": subsets, "solvers": solvers, "whole": whole},
        {
            "subsets": Table("Subsets: linear, exact kernel, feature maps", "subsets", _KERNELS),
            "solvers": Table("Exact kernel: the solvers", "solvers", _KERNELS),
            "whole": Table("All rows", "whole", _KERNELS),
        },
        half="tuning",
    ),
    "thermometer_adult": Task(
        "The 80% rule on raw Adult with its numbers as 0/1 columns `x >= threshold` at 30 quantiles, beside scaled "
        "numbers and one-hot bins.",
        {"codings": codings},
        {
            "codings": Table(
                "What the coding of the five numbers is worth (lambda = 10/n)", "codings",
                "coding | features | goal | train error: {train_error:.4f} | test ratio: {test_ratio:.3f} "
                "| test error: {test_error:.4f}",
            ),
        },
        half="tuning",
    ),
}  # fmt: skip

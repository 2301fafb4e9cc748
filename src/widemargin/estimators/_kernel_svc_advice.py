"""What a kernel SVM says about its data and about how training ended."""

from typing import Any

from widemargin.exceptions import KernelWarning, MarginConvergenceWarning
from widemargin.goals._warn import warn
from widemargin.kernels.functions import Kernel
from widemargin.solvers.base import Budget

__all__ = ["conclude", "warn_of_scales"]


def warn_of_scales(model: Any, kernel: Kernel, X: Any) -> None:
    """Warn of features whose scales make the kernel useless or the solver slow."""


def conclude(model: Any, budget: Budget) -> None:
    """Warn, or raise after an interrupt, according to how training ended."""
    if model.indefinite_:
        warn(
            f"the kernel {model.kernel!r} is not positive semi-definite on these rows: the model is a point where "
            "LIBSVM's conditions hold, and there is no certificate. Choose other parameters, or kernel='rbf'.",
            KernelWarning,
        )
    if budget.interrupted:
        warn(f"interrupted after {budget.elapsed:.1f} s; the model so far is kept.", MarginConvergenceWarning)
        if model.on_interrupt == "raise":
            raise KeyboardInterrupt
        return
    if model.status_ == "converged":
        return
    cure = {
        "time_limit": "the time budget is spent: raise time_budget",
        "stopped": "by a callback",
        "max_iter": f"max_iter={model.max_iter}: raise it, or scale the features"
        if model.max_iter >= 0
        else "rounding: use float64 rows, scale the features, or raise tol",
    }[model.status_]
    warn(
        f"stopped after {budget.elapsed:.1f} s with violation {model.violation_:.1e}, gap {model.gap_:.1e} ({cure}).",
        MarginConvergenceWarning,
    )

"""What `KernelSVC`, `KernelPerceptron` and `SBPClassifier` share: their tags, new rows, classes, and how a fit ends."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin.exceptions import DataError, MarginConvergenceWarning
from widemargin.goals._warn import warn
from widemargin.kernels.functions import check_precomputed
from widemargin.solvers.base import Budget, Status

__all__ = ["CURES", "DTYPES", "KernelModel", "interrupted", "refuse_missing", "refuse_single", "worst"]

DTYPES = [np.float64, np.float32]

CURES = {"time_limit": "the time budget is spent: raise time_budget", "stopped": "by a callback"}
"""What a warning says of a status, where that is the same for all."""


class KernelModel:
    """Mixin of estimators with a parameter `kernel`."""

    kernel: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _checked_new(self, X: Any) -> Any:
        """Checked rows to predict; with a precomputed kernel its values with all training rows."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", accept_large_sparse=True, reset=False, dtype=DTYPES, order="C")
        return check_precomputed(X, square=False) if self.kernel == "precomputed" else X


def refuse_single(classes: npt.NDArray[Any]) -> None:
    """Raise a ValueError, as scikit-learn's checks ask for, where there is one class."""
    if classes.shape[0] < 2:
        raise ValueError(f"The number of classes has to be greater than one; got 1 class, {classes.tolist()[0]!r}.")


def refuse_missing(classes: npt.NDArray[Any], codes: npt.NDArray[Any]) -> None:
    """Raise a DataError where a class has none of the rows with a weight, whose classes are `codes`."""
    missing = np.flatnonzero(np.bincount(codes, minlength=classes.shape[0]) == 0)
    if missing.shape[0]:
        label = classes.tolist()[missing[0]]
        raise DataError(f"all rows of the class {label!r} have weight 0; leave them out, or give them weight.")


def worst(found: Iterable[Status], budget: Budget) -> Status:
    """How training ended: as the binary problem that ended worst."""
    if budget.interrupted:
        return Status.INTERRUPTED
    known = set(found)
    for status in (Status.STOPPED, Status.TIME_LIMIT, Status.MAX_ITER):
        if status in known:
            return status
    return Status.CONVERGED


def interrupted(model: Any, budget: Budget) -> bool:
    """Whether Ctrl-C ended the fit, with a warning; raised again where `on_interrupt` says so."""
    if not budget.interrupted:
        return False
    warn(f"interrupted after {budget.elapsed:.1f} s; the model so far is kept.", MarginConvergenceWarning)
    if model.on_interrupt == "raise":
        raise KeyboardInterrupt
    return True

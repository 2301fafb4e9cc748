"""What kernel classifiers share: tags, checked rows and weights, the kernel settled on them, and how a fit ends."""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import compute_class_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from widemargin._typing import Column, Features, Floats, Label, Matrix
from widemargin.exceptions import CapabilityError, DataError, KernelError, MarginConvergenceWarning
from widemargin.goals._warn import warn
from widemargin.kernels.functions import KERNELS, KernelFunction, check_precomputed
from widemargin.linalg.equal_rows import canonical_rows
from widemargin.solvers.base import Budget, Status

__all__ = [
    "CURES", "DTYPES", "KernelModel", "class_weights", "interrupted", "labels_of", "name_the_kernel",
    "named_kernel", "positive_numbers", "refuse_missing", "refused_parameters", "worst",
]  # fmt: skip

P = ParamSpec("P")
Result = TypeVar("Result")

DTYPES = [np.float64, np.float32]

CURES = {"time_limit": "the time budget is spent: raise time_budget", "stopped": "by a callback"}
"""What a warning says of a status, where that is the same for all."""


class KernelModel:
    """Mixin of estimators with a parameter `kernel`."""

    kernel: Any  # a name or a function; None for the estimators that have a linear form, too

    kernel_constraints: ClassVar[dict[str, list[object]]] = {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "degree": [Interval(Real, 0.0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "cache_size": [Interval(Real, 0.0, None, closed="neither")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }
    """What scikit-learn checks of the parameters that all of them have."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _checked_rows(self, X: Features, y: Column, sample_weight: Column | None) -> tuple[Matrix, Any, Floats]:
        """Checked rows, labels and weights to train on."""
        X, y = validate_data(self, X, y, accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, order="C")
        rows = check_precomputed(X) if self.kernel == "precomputed" else canonical_rows(X)
        weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        return rows, y, weight

    def _checked_new(self, X: Features) -> Matrix:
        """Checked rows to predict; with a precomputed kernel its values with all training rows."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", accept_large_sparse=True, reset=False, dtype=DTYPES, order="C")
        return check_precomputed(X, square=False) if self.kernel == "precomputed" else X


def refused_parameters(**cures: str) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Let a constructor or `set_params` refuse parameters that a model deliberately lacks, with what to do instead.

    False asks for nothing, and is left out.
    """

    def decorate(method: Callable[P, Result]) -> Callable[P, Result]:
        @functools.wraps(method)  # scikit-learn reads the parameters of the wrapped function
        def checked(*args: P.args, **kwargs: P.kwargs) -> Result:
            for name in kwargs.keys() & cures.keys():
                if kwargs[name] is False:
                    del kwargs[name]
                    continue
                raise CapabilityError(f"{type(args[0]).__name__} has no parameter {name!r}: {cures[name]}.")
            return method(*args, **kwargs)

        return checked

    return decorate


def named_kernel(kernel: str | KernelFunction) -> str:
    """How messages call the parameter `kernel`."""
    return getattr(kernel, "__name__", None) or repr(kernel)


@contextmanager
def name_the_kernel(kernel: str | KernelFunction, cure: str) -> Iterator[None]:
    """Put the estimator's kernel, and what else can be done, into the message of a solver that needs another kernel."""
    try:
        yield
    except KernelError as error:
        if "positive semi-definite" not in str(error):
            raise
        raise KernelError(f"kernel={named_kernel(kernel)}: {error} {cure}") from error


def class_weights(
    class_weight: Mapping[Label, float] | str | None, classes: npt.NDArray[Any], y: npt.NDArray[Any]
) -> Floats:
    """The factor of every class, shape (n_classes,).

    Raises
    ------
    DataError
        If one is not a finite number > 0.
    """
    factors: Floats = np.asarray(compute_class_weight(class_weight, classes=classes, y=y), dtype=np.float64)
    for label, factor in zip(classes.tolist(), factors.tolist(), strict=True):
        if not 0.0 < factor < np.inf:
            raise DataError(f"class_weight={factor:g} of the class {label!r} must be a finite number > 0.")
    return factors


def positive_numbers(name: str, values: Iterable[float]) -> list[float]:
    """Numbers that a user gives for a grid, as floats.

    Raises
    ------
    DataError
        If there is none, or one is not a finite number > 0.
    """
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = []
    if not (numbers and all(0.0 < value < math.inf for value in numbers)):
        raise DataError(f"{name}={values!r} must be a sequence of at least one finite number > 0, as [0.01, 0.1].")
    return numbers


def labels_of(scores: Floats, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The classes that scores choose, shape (n,): by sign where they have shape (n,), else the largest of a row."""
    chosen = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
    labels: npt.NDArray[Any] = classes[chosen]
    return labels


def refuse_missing(classes: npt.NDArray[Any], codes: npt.NDArray[Any]) -> None:
    """Raise a DataError where a class has none of the rows with a weight, whose classes are `codes`."""
    missing = np.flatnonzero(np.bincount(codes, minlength=classes.shape[0]) == 0)
    if missing.shape[0]:
        label = classes.tolist()[missing[0]]
        raise DataError(f"all rows of the class {label!r} have weight 0; leave them out, or give them weight.")


def worst(statuses: Iterable[Status], budget: Budget) -> Status:
    """How training ended: as the binary problem that ended worst."""
    if budget.interrupted:
        return Status.INTERRUPTED
    all_of_them = set(statuses)
    for status in (Status.STOPPED, Status.TIME_LIMIT, Status.MAX_ITER):
        if status in all_of_them:
            return status
    return Status.CONVERGED


class MayRaise(Protocol):
    """What says how a fit ends after Ctrl-C: an estimator, or its options."""

    @property
    def on_interrupt(self) -> str: ...


def interrupted(options: MayRaise, budget: Budget) -> bool:
    """Whether Ctrl-C ended the fit, with a warning; raised again where `on_interrupt` says so."""
    if not budget.interrupted:
        return False
    warn(f"interrupted after {budget.elapsed:.1f} s; the model so far is kept.", MarginConvergenceWarning)
    if options.on_interrupt == "raise":
        raise KeyboardInterrupt
    return True

"""What kernel classifiers share: tags, checked rows and weights, the kernel settled on them, what they say of it.

And what few users of them change: `KernelOptions`, `SBPOptions`.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from widemargin._typing import Column, Features, Floats, Ints, Label, Matrix
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import checked_rows, refuse_one_class
from widemargin.estimators._options import SolverOptions, parameters
from widemargin.estimators.feature_scales import refuse_overflow, warn_of_scales
from widemargin.estimators.feature_space import refuse_space
from widemargin.exceptions import DataError, KernelError, KernelWarning, warn
from widemargin.kernels.functions import Kernel, KernelFunction, Spectrum, check_precomputed, resolve_kernel


class KernelModel:
    """Mixin of estimators with a parameter `kernel`."""

    kernel: Any  # a name or a function; None for the estimators that have a linear form, too
    gamma: str | float
    degree: float
    coef0: float
    n_jobs: int | None
    gamma_: float
    classes_: npt.NDArray[Any]
    dual_coef_: Matrix
    support_: npt.NDArray[np.integer[Any]]
    support_vectors_: Matrix

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "classes_": "label k", "support_": "count s", "dual_coef_": "float * s",
        "support_vectors_": "float s d | float 0 0",
    }  # fmt: skip

    def _refuse_arrays(self) -> None:
        refuse_space(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the last fit has come to a model: classes and scores of different fits make wrong predictions."""
        return not vars(self).keys().isdisjoint(("dual_coef_", "coef_"))

    def _checked_rows(
        self, X: Features, y: Column, sample_weight: Column | None, *, negative_weights: bool = False,
        finite: bool = True,
    ) -> tuple[Matrix, Any, Floats]:  # fmt: skip
        """Checked rows, labels and weights to train on; whether weights may be negative is up to the estimator.

        Not `finite`: the values of a precomputed kernel are left to `KernelRows`, to be looked at once. Where rows and
        labels are right the scores of an earlier fit are given up, as this one may be refused or interrupted.
        """
        X, y = checked_rows(self, on_host(X), on_host(y), finite=finite)
        for scores in ("dual_coef_", "coef_"):
            vars(self).pop(scores, None)
        sample_weight = on_host(sample_weight)
        # `KernelRows` looks at the values, of the rows that are trained on: once, as that takes as long as many a fit.
        rows = check_precomputed(X, values=False) if self.kernel == "precomputed" else X
        if negative_weights and sample_weight is not None and not (np.asarray(sample_weight, np.float64) > 0.0).any():
            raise DataError("Invalid input - all samples have zero or negative weights. Give rows weights > 0.")
        if sample_weight is None:
            return rows, y, np.ones(rows.shape[0])
        weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=not negative_weights)
        return rows, y, weight

    def _classified(self, labels: npt.NDArray[Any], weight: Floats) -> Ints:
        """The class of each row by number; sets `classes_`, of which each has a row of positive weight."""
        if labels.dtype.kind not in "biuU":  # whole numbers and words are classes; asking takes as long as fifty rows
            check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        refuse_one_class(self.classes_)
        refuse_missing(self.classes_, codes[weight > 0.0])
        return codes

    def _resolved(self, X: Matrix, sample_weight: Floats | None = None) -> Kernel:
        """The kernel, settled on checked rows whose scales were looked at."""
        if self.kernel != "precomputed" and not callable(self.kernel):
            refuse_overflow(X)
        kernel = resolve_kernel(
            self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0, sample_weight=sample_weight
        )
        warn_of_scales(self, kernel, X)
        return kernel

    def _checked_new(self, X: Features) -> Matrix:
        """Checked rows to predict; with a precomputed kernel its values with all training rows."""
        check_is_fitted(self)
        X = checked_rows(self, on_host(X), reset=False)
        return check_precomputed(X, square=False, values=False) if self.kernel == "precomputed" else X


def on_host(values: Any) -> Any:
    """NumPy's copy of an array of another library, on a device too; all else as it is.

    Devices refuse to be read otherwise. As in scikit-learn, `array_api_dispatch=True` is what allows it.
    """
    if not _on_device(values):
        return values
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values.get())


def beside(X: Any, answer: npt.NDArray[Any]) -> Any:
    """Numbers for the rows X, on their device where `array_api_dispatch=True` has brought X from there."""
    if not _on_device(X) or answer.dtype.kind not in "biuf":  # devices know no strings
        return answer
    return sys.modules[type(X).__module__.partition(".")[0]].asarray(answer, device=X.device)


def _on_device(values: Any) -> bool:
    other = hasattr(values, "__dlpack_device__") and hasattr(values, "device") and not isinstance(values, np.ndarray)
    return bool(get_config()["array_api_dispatch"]) and other


@parameters
class KernelParameters:
    """Parameters that kernel classifiers of this library's own share."""

    kernel: kinds.KernelName = "rbf"
    gamma: kinds.Gamma = "scale"
    degree: kinds.NotNegative = 3
    coef0: kinds.AnyNumber = 0.0
    cache_size: kinds.Positive = 200
    random_state: kinds.Random = None
    time_budget: kinds.Positive | None = None
    callbacks: kinds.Callbacks = None
    n_jobs: int | None = None


def class_weights(
    class_weight: Mapping[Label, float] | str | None, classes: npt.NDArray[Any], y: npt.NDArray[Any]
) -> Floats:
    """The factor of every class, shape (n_classes,).

    Raises
    ------
    DataError
        If one is not a finite number > 0.
    """
    if class_weight is None:
        return np.ones(classes.shape[0])
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
    return np.asarray(classes[chosen])


def refuse_missing(classes: npt.NDArray[Any], codes: npt.NDArray[Any]) -> None:
    """Raise a DataError where a class has none of the rows with a weight, whose classes are `codes`."""
    count = np.bincount(codes, minlength=classes.shape[0])
    missing = np.flatnonzero(count == 0)
    if missing.shape[0]:
        label = classes.tolist()[missing[0]]
        alone = missing.shape[0] == count.shape[0] - 1
        same = "Invalid input - all samples with positive weights belong to the same class: " if alone else ""
        raise DataError(f"{same}all rows of the class {label!r} have weight 0; leave them out, or give them weight.")


def warn_of_indefiniteness(model: Any, spectrum: Spectrum | None) -> None:
    """Warn of a kernel that is not positive semi-definite, by its eigenvalues or by what a solver met."""
    proof = "a solver met a negative squared norm" if spectrum is None else str(spectrum)
    warn(
        f"the kernel {_shown(model.kernel)} is not positive semi-definite on these rows ({proof}): the model is "
        "one of several points where LIBSVM's conditions hold, and there is no certificate. Choose other parameters, "
        "or kernel='rbf'.",
        KernelWarning,
    )


def _shown(kernel: str | KernelFunction) -> str:
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
        raise KernelError(f"kernel={_shown(kernel)}: {error} {cure}") from error


@dataclass(frozen=True, repr=False)
class KernelOptions(SolverOptions):
    """What `KernelSVC` has besides the parameters of scikit-learn's SVC.

    Given as `solver_options=KernelOptions(time_budget=60)`, or as a dict, `solver_options={"time_budget": 60}`.

    Parameters
    ----------
    multi_class : {"ovo", "ovr"}, default="ovo"
        Train every pair of classes, as SVC, or each class against the rest, which needs fewer and larger problems.
    fit_intercept : bool, default=True
        Whether there is an unregularised bias, as in SVC. The solvers "sdca" and "pegasos" need False.
    precision : {"auto", "single", "double"}, default="auto"
        Precision of kernel values in `fit`. "auto" is that of X, with two exceptions. It is single (about twice as
        fast, and what LIBSVM keeps) for a binary problem of 2,000 rows or more with a Gaussian kernel and a tol of 1e-3
        or more, if the rows are near enough to the origin for an error below 1e-5. It is double if C is so large that
        rounding could miss tol. The dual solvers certify in double.
    backend : str, default="numpy"
        Where kernel values are computed: by "numpy", or by PyTorch with "torch" or "torch:DEVICE", for kernels that are
        functions of inner products (not "laplacian"); rows, kernel rows and scores then stay on the device
        (`docs/kernel-svm.md`). "array-api" runs the same code on NumPy. `predict` uses NumPy where PyTorch or the
        device is missing.
    validation_fraction : float in (0, 1), default=0.1
        With `tol=None`: share of every class that is held out. If no class has two rows none is held out, and `tol` is
        0.1. A larger share judges more exactly, and leaves fewer rows to train on.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning. Binary problems share it equally.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` between steps; returning True stops the fit.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally, which suits notebooks, and
        "raise" stops a script.

    Raises
    ------
    ValueError
        If a value is outside its range.

    Examples
    --------
    >>> from widemargin import KernelOptions, KernelSVC
    >>> KernelSVC(solver_options=KernelOptions(multi_class="ovr"))
    KernelSVC(solver_options=KernelOptions(multi_class='ovr'))
    """

    multi_class: Literal["ovo", "ovr"] = "ovo"
    fit_intercept: bool = True
    precision: Literal["auto", "single", "double"] = "auto"
    backend: str = "numpy"
    validation_fraction: kinds.Share = 0.1
    time_budget: kinds.Positive | None = None
    callbacks: kinds.Callbacks = None
    on_interrupt: kinds.OnInterrupt = "raise"


@dataclass(frozen=True, repr=False)
class SBPOptions(SolverOptions):
    """How `SBPClassifier` draws and stops, where the defaults do not suit.

    Given as `solver_options=SBPOptions(batch_size=64)`, or as a dict, `solver_options={"batch_size": 64}`.

    Parameters
    ----------
    algorithm : {"batch", "published"}, default="batch"
        "batch" draws `batch_size` covered rows a step and caches kernel rows; "published" draws one row a step,
        computes it afresh and takes the plain average (Algorithm 1 of the paper), which is many times slower.
    batch_size : int, default=256
        Rows in a step of "batch". Raising it makes steps more exact and slower. The default was chosen on rows of a9a
        and MNIST.
    validation_fraction : float, default=0.1
        With `tol=None`: share of each class that is held out, of a class of one row none. If no rows are held out at
        all, the run stops at a gap of 10%.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the attributes are set; then the KeyboardInterrupt is raised again, or not.

    Raises
    ------
    ValueError
        If a value is outside its range.
    """

    algorithm: Literal["batch", "published"] = "batch"
    batch_size: kinds.Count = 256
    validation_fraction: kinds.Share = 0.1
    on_interrupt: kinds.OnInterrupt = "raise"

"""What few users of kernel SVMs change, with the reason for each default: `KernelOptions`, `SBPOptions`."""

from dataclasses import dataclass
from typing import Literal

from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import SolverOptions


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
        Of kernel values in `fit`. "auto" is that of X, but single for a Gaussian kernel, a binary problem of 2,000 rows
        or more and a tol of 1e-3 or more, where the rows are near enough to the origin for an error below 1e-5: about
        twice as fast, and what LIBSVM keeps; double where C is so large that rounding could miss tol. The duals certify
        in double.
    backend : str, default="numpy"
        Where kernel values are computed: "numpy"; "torch" or "torch:DEVICE": rows, kernel rows, scores and the choice
        of the working set stay on the device, with a kernel of inner products ("array-api" runs the same code on
        NumPy). `predict` uses NumPy where PyTorch or the device is missing: the values agree up to rounding. The
        default needs nothing installed.
    validation_fraction : float in (0, 1), default=0.1
        With `tol=None`: share of every class that is held out. Where no class has two rows none is, and `tol` is 0.1.
        More rows judge more exactly, and fewer are left to train on; a tenth is scikit-learn's usual share.
    time_budget : float, default=None
        Seconds after which the model so far is kept, with a warning. Binary problems share it equally.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` between steps; returning True stops the fit.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally, which suits notebooks. Scripts
        should stop where they are stopped.

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
        Rows of a step of "batch". Raising it makes steps more exact and dearer. Chosen on rows of a9a and MNIST.
    validation_fraction : float, default=0.1
        Share of each class that is held out where `tol=None`. Where a class has one row it holds out none, and where no
        row is left to hold out the run stops at a gap of 10%.
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

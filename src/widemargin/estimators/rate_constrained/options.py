"""`TrainingOptions`: what few users of rate-constrained estimators change, with the reason for each default."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from sklearn.utils._param_validation import StrOptions

from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import SolverOptions
from widemargin.solvers.convex.convex_step import SOLVERS


@dataclass(frozen=True, repr=False)
class TrainingOptions(SolverOptions):
    """How `RateConstrainedClassifier` and `RateConstrainedClassifierCV` train, where the defaults do not suit.

    Given as `solver_options=TrainingOptions(tol=1e-6)`, or as a dict, `solver_options={"tol": 1e-6}`.

    Parameters
    ----------
    solver : str, default="auto"
        Solver of the convex steps. "auto" is the proximal method of multipliers with Newton steps ("newton"); kernel
        models begin with "cutting-plane". "cutting-plane" is the paper's nest over dual coordinate ascent, with a level
        method for multipliers; "cutting-plane-maximisation" and "cutting-plane-centre-of-mass" are that nest with the
        paper's own choosers, slower with many constraints. "interior-point" is exact and slower; like these two it is
        in widemargin-papers. "bundle" is for `fit_blocks` and Dask collections only, where "auto" takes it for many
        features, and where "newton" is the only other solver.
    tol : float, default=1e-4
        Relative duality gap of the last convex step, which is the certificate. Smaller is more exact and costs a few
        Newton steps more. The default is as fine as rates of 10,000 rows are.
    step_tol : float, default=1e-3
        Relative duality gap of the steps before the last. 1e-2 was measured to save time in some cases and
        to cost some in others, and to end a little worse.
    fit_intercept : bool, default=True
        Whether to fit an unregularised bias. Without one no threshold can be moved to meet a bound.
    degree : float, default=3
        Of the kernel "poly". The default is scikit-learn's.
    coef0 : float, default=0.0
        Of the kernels "poly" and "sigmoid". The default is scikit-learn's.
    n_components : int, default=300
        Features of a `feature_map`. Raising it approximates the kernel better and costs time quadratically. The default
        is three times scikit-learn's, whose 100 are few for a kernel of many columns.
    cache_size : float, default=1000
        Megabytes for the kernel matrix of exact training, 8e-6 n^2 (n distinct rows: 11,400 fit); `fit` takes little
        more in all, with `solver="newton"` three times as much. Beyond it only `solver="cutting-plane"` trains exactly.
        The default keeps a fit within 3 GB.
    validation_fraction : float in (0, 1), default=0.2
        With a confidence: share of the rows, and of every external data set, kept aside. More rows prove narrower
        bounds, and fewer are left to train on.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the best model so far is kept either way; "return" ends `fit` normally, which suits notebooks, and
        "raise" stops a script.
    verbose : int, default=0
        1 logs every step to the logger "widemargin". The library is silent unless it is asked.

    Raises
    ------
    ValueError
        If a value is outside its range.

    Examples
    --------
    >>> from widemargin import RateConstrainedClassifier, TrainingOptions
    >>> RateConstrainedClassifier(solver_options=TrainingOptions(tol=1e-6))
    RateConstrainedClassifier(solver_options=TrainingOptions(tol=1e-06))
    """

    solver: Annotated[str, StrOptions({*SOLVERS, "bundle"})] = "auto"
    tol: kinds.Positive = 1e-4
    step_tol: kinds.Positive = 1e-3
    fit_intercept: bool = True
    degree: kinds.NotNegative = 3
    coef0: kinds.AnyNumber = 0.0
    n_components: kinds.Count = 300
    cache_size: kinds.Positive = 1000.0
    validation_fraction: kinds.Share = 0.2
    on_interrupt: kinds.OnInterrupt = "raise"
    verbose: kinds.Verbose = 0


def gathered(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator from a flat list, in which the options of training stand beside the others."""
    names = TrainingOptions.__dataclass_fields__
    options = {name: value for name, value in parameters.items() if name in names}
    others = {name: value for name, value in parameters.items() if name not in names}
    return others | ({"solver_options": options} if options else {})

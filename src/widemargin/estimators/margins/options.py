"""`PursuitOptions`: what few users of `MarginPursuitClassifier` change, with the reason for each default."""

from dataclasses import dataclass

from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import SolverOptions


@dataclass(frozen=True, repr=False)
class PursuitOptions(SolverOptions):
    """How `MarginPursuitClassifier` trains, where the defaults do not suit.

    Given as `solver_options=PursuitOptions(average=True)`, or as a dict, `solver_options={"average": True}`.

    Parameters
    ----------
    scale_factor : float, default=1.0
        Of the scales "auto" and "rescale-once": the squared scale is so many times the 75th percentile of the squared
        margins. Larger lets more distant rows pull harder. At 1 a quarter of the rows pull with a force near its bound.
    rescale_after : int, default=5
        Iterations (passes of "sgd") before "rescale-once". Fewer rescale by margins that are still those of the start;
        more let a regulariser that is too weak wander for longer. Passes of the fits that a warm start goes on from
        count; with the other solvers a warm start is rescaled at once.
    delta : float, default=0.05
        Of the scale "catoni": one minus the confidence of its bound. Smaller makes the scale smaller. The default is
        the usual level of a test.
    average : bool, default=False
        With "sgd", whether the mean of all steps of this fit is kept, weighted by their number, in place of the last.
        The mean is smoother and slower to forget the first steps.
    step_size : float, default=None
        Of "gd"; None: one over the largest curvature, of which twice as much would diverge.
    degree : float, default=3
        Of the kernel "poly". The default is scikit-learn's.
    coef0 : float, default=0.0
        Of the kernels "poly" and "sigmoid". The default is scikit-learn's.
    cache_size : float, default=1000
        Largest kernel matrix in megabytes, which exact kernels need whole: 11,000 rows fit in the default.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the model so far is kept either way; "return" ends `fit` normally, which suits notebooks. Scripts
        should stop where they are stopped.

    Examples
    --------
    >>> from widemargin import MarginPursuitClassifier, PursuitOptions
    >>> model = MarginPursuitClassifier(solver="sgd", solver_options=PursuitOptions(average=True))
    >>> model.solver_options
    PursuitOptions(average=True)
    """

    scale_factor: kinds.Positive = 1.0
    rescale_after: kinds.Count = 5
    delta: kinds.Share = 0.05
    average: bool = False
    step_size: kinds.Positive | None = None
    degree: kinds.NotNegative = 3
    coef0: kinds.AnyNumber = 0.0
    cache_size: kinds.Positive = 1000
    on_interrupt: kinds.OnInterrupt = "raise"

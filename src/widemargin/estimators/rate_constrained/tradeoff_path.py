"""The price of a requirement: models along the values of one bound."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_consistent_length, check_random_state

from widemargin._threads import limit_threads
from widemargin._typing import Column, Features, Table
from widemargin.distributed.workers import Deadline, side_by_side
from widemargin.estimators._binary import as_goal
from widemargin.estimators.path_points import Swept
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.tradeoff_sweep import Piece, Sweep
from widemargin.estimators.thresholds.refitted_path import RefittedPath
from widemargin.estimators.thresholds.scores import row_wise, split_rows
from widemargin.estimators.thresholds.thresholded_model import ThresholdedModel
from widemargin.exceptions import CapabilityError, DataError, GoalError
from widemargin.goals import Goal
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.rows import External, Rows


def tradeoff_path(
    classifier: RateConstrainedClassifier | ThresholdedModel,
    X: Features,
    y: Column,
    *,
    values: Iterable[float],
    constraint: str | None = None,
    goal_at: Callable[[float], Goal] | None = None,
    sample_weight: Column | None = None,
    populations: Table | None = None,
    external: Mapping[str, External] | None = None,
    validation: Sequence[Any] | None = None,
    validation_fraction: float | None = 0.2,
    pieces: int = 1,
    workers: object = None,
    resume: TradeoffPath | None = None,
) -> TradeoffPath:
    """Models along the values of one bound of a goal.

    A `RateConstrainedClassifier` starts at each value from its neighbour's solution. A `GoalReduction` or a
    `GoalThresholdClassifier` is fitted anew at each value; each point gets the best of all models that met its bound or
    a stricter one. Its training measures are then those of the rows that judged its thresholds (cross-fitted, or held
    out for a confidence).

    Parameters
    ----------
    classifier : RateConstrainedClassifier, GoalReduction or GoalThresholdClassifier
        Gives the goal and all parameters; it is not changed. Its `time_budget` and `callbacks` are those of the whole
        path. A `RateConstrainedClassifier` takes its `max_steps` steps at the first value, and at every other one two
        to four steps to `step_tol` from the solution before.
    X : array-like, data frame or CSR matrix of shape (n, d)
    y : array-like of shape (n,)
    values : iterable of float
        Levels of the constraint, in the order in which models are trained to them: neighbours should follow each other.
    constraint : str, optional
        Label (or text) of the constraint or bundle whose level is swept: its bound, or the factor between its two
        rates, or the bundle's `ratio=` or `difference=`. Not needed where the goal has one constraint.
    goal_at : callable, optional
        In place of `constraint`: the goal of each value. All goals must have the same number of constraints.
    sample_weight : array-like of shape (n,), optional
    populations : table with n rows, optional
    external : dict of str to External, optional
        As in `fit`. External data sets are part of the training data, also where held-out rates are measured.
    validation : (X, y), (X, y, populations) or (X, y, populations, sample_weight), optional
        Rows to measure the models on.
    validation_fraction : float in (0, 1) or None, default=0.2
        Without `validation`: the share of the rows that is held out, stratified by label and drawn with the
        classifier's `random_state`. None: none, and the path has no held-out measures and no prices.
    pieces : int, default=1
        Cut the values into so many runs of neighbours, each of which starts afresh, so that they can be trained in
        parallel. The models depend on `pieces`, but not on the workers.
    workers : int or distributed.Client, optional
        Where pieces are trained: in so many processes, or on a Dask cluster; None: as `joblib.parallel_config` says.
        Callbacks are told of the points of a piece when it is done.
    resume : TradeoffPath, optional
        A path that ended early, of the same classifier, data and values: its points are kept (and measured again), and
        training continues from the last of them (with an exact kernel it starts afresh). The new points need not be
        those of an uninterrupted path.

    Returns
    -------
    TradeoffPath
        An interrupt, a callback that returns True, or the end of `time_budget` ends the path with the points done and a
        warning; an interrupt is not raised again.

    Raises
    ------
    GoalError
        If there is no such constraint, a value makes no sense for it, or a goal does not fit the data.
    DataError
        If data are missing or of the wrong shape, there are no values, or `resume` is not the beginning of this path.
    CapabilityError
        If the classifier calibrates, which needs rows that the path does not hold out, or its kernel is precomputed.

    See Also
    --------
    widemargin.plotting.TradeoffDisplay : Plots it.

    Notes
    -----
    The ramp problem is not convex: like a single fit, each point is a local solution, and tends to stay near its
    neighbour's.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import RateConstrainedClassifier, tradeoff_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> y = (X[:, 0] + rng.normal(size=600) > 0.8).astype(int)
    >>> clf = RateConstrainedClassifier("minimize error_rate(); subject to floor: recall() >= 0.5", random_state=0)
    >>> path = tradeoff_path(clf, X, y, values=[0.5, 0.7, 0.9], constraint="floor")
    >>> bool(path.met.all())
    True
    >>> path.model(2).predict(X[:2]).shape
    (2,)
    """
    _refuse_what_no_path_takes(classifier, at_once=pieces != 1 or workers is not None or resume is not None)
    classifier._validate_params()
    levels = np.asarray(list(values), dtype=np.float64)
    if levels.ndim != 1 or not len(levels) or not np.isfinite(levels).all():
        raise DataError(f"values holds {levels.size} numbers, not all of them finite or none; give at least one level.")
    goal, place = as_goal(classifier.goal), None  # place: the number of the swept constraint in every goal
    if goal_at is None:
        goals, place = [goal.with_level(float(level), constraint) for level in levels], goal.place_of(constraint)
    elif constraint is not None:
        raise GoalError("both constraint and goal_at are given; give one of the two.")
    else:
        goals = [goal_at(float(level)) for level in levels]
        for level, given in zip(levels, goals, strict=True):
            if not isinstance(given, Goal):
                raise GoalError(f"goal_at({level:g}) gave a {type(given).__name__}; it must give a Goal.")
    check_consistent_length(X, y, sample_weight, populations)
    training = Rows(row_wise(X), y, sample_weight, populations, external or {})
    held = None
    if validation is not None:
        if isinstance(validation, str) or not 2 <= len(validation) <= 4:
            raise DataError("validation must be (X, y), (X, y, populations) or (X, y, populations, sample_weight).")
        held = Rows(**dict(zip(("X", "y", "populations", "sample_weight"), validation, strict=False)))
    elif validation_fraction is not None:
        if not 0.0 < validation_fraction < 1.0:
            raise DataError(f"validation_fraction must lie between 0 and 1, got {validation_fraction}.")
        rng = check_random_state(classifier.random_state)
        cure = ", or rows of your own as validation=, or hold out none: validation_fraction=None"
        halves = split_rows(np.asarray(y), validation_fraction, rng, stratify=True, cure=cure)
        training, held = (training.take(part) for part in halves)
    if pieces not in range(1, len(levels) + 1):
        raise DataError(f"pieces is {pieces!r}; give a whole number from 1 to the {len(levels)} values.")
    if resume is not None and pieces > 1:
        raise CapabilityError("resume goes on along a path in one piece; leave pieces out, or train all points.")
    swept = Swept(goals, levels, place)
    if isinstance(classifier, ThresholdedModel):
        return RefittedPath(classifier, training, held, swept).run()
    with limit_threads(classifier.n_jobs):
        sweep = Sweep(classifier, training, held, swept)
        if pieces == 1:
            if resume is not None:
                sweep.go_on_from(resume)
            return sweep.run()
        deadline, parts = Deadline.after(sweep.budget.left), np.array_split(np.arange(len(levels)), pieces)
        train = partial(_train_piece, classifier._unwatched(), training, held, swept, deadline)
        return sweep.run(side_by_side(train, parts, workers, n_jobs=classifier.n_jobs))


def _refuse_what_no_path_takes(classifier: object, *, at_once: bool) -> None:
    """Raise a CapabilityError for other classifiers, and for what one cannot do (`at_once`: pieces, workers)."""
    if isinstance(classifier, ThresholdedModel):
        if at_once:
            raise CapabilityError(
                f"pieces, workers and resume are for a RateConstrainedClassifier; leave them out. A "
                f"{type(classifier).__name__} is fitted anew at every value, with the n_jobs that it has."
            )
    elif not isinstance(classifier, RateConstrainedClassifier):
        raise CapabilityError(
            f"classifier is a {type(classifier).__name__}; a path is trained by a RateConstrainedClassifier, a "
            "GoalReduction or a GoalThresholdClassifier."
        )
    elif classifier.calibration is not None:
        raise CapabilityError(
            f'calibration="{classifier.calibration}" holds rows out of every fit; set calibration=None for the path, '
            "and calibrate the model that you choose."
        )
    elif classifier.kernel == "precomputed":
        raise CapabilityError(
            "kernel='precomputed' holds no kernel values of held-out rows; give the kernel by name or as a function."
        )


def _train_piece(
    classifier: RateConstrainedClassifier, training: Rows, held: Rows | None, swept: Swept, deadline: Deadline,
    part: npt.NDArray[np.intp],
) -> Piece:  # fmt: skip
    """Train the points of some neighbouring values, here or on a worker."""
    classifier.set_params(time_budget=deadline.left)
    mine = swept._replace(goals=[swept.goals[i] for i in part], levels=swept.levels[part])
    return Sweep(classifier, training, held, mine).train()

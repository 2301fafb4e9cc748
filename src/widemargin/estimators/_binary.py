"""What estimators check of their data: features and classes; with a goal two classes, one of them positive."""

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from widemargin._typing import Bools, Column, Features, Floats, Label, Seed, Signs, Table
from widemargin.exceptions import DataError, DoubtfulModelWarning, warn
from widemargin.goals import Goal, error_rate
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.labels import ordered_classes, plain_labels
from widemargin.goals.binding.sources import make_sources, with_predictions
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.goal import checked_goal
from widemargin.goals.language.values import shown
from widemargin.linalg.equal_rows import canonical_rows
from widemargin.rows import Rows, as_csr, is_frame, rows_of_source

_ROW_CHECKS: dict[str, Any] = {
    "accept_sparse": "csr", "accept_large_sparse": True, "dtype": [np.float64, np.float32], "order": "C",
}  # fmt: skip
"""What scikit-learn checks of features; numbers of these two types are used as they are."""


def checked_rows(
    estimator: BaseEstimator, X: Features, y: Column | str = "no_validation", *, reset: bool = True, finite: bool = True
) -> Any:
    """Features that compiled code may see, and labels where they are given: the one door of every estimator.

    Rows of a sparse matrix that name a column twice have such entries added up, in a copy.

    Parameters
    ----------
    estimator : estimator
        It learns the number and the names of the features, or is asked whether they are these.
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,), optional
    reset : bool, default=True
        False for rows to predict.
    finite : bool, default=True
        False where the caller looks for values that are not finite in a later pass over them.

    Returns
    -------
    X : ndarray, C-contiguous, or CSR matrix, of float64 or float32
    y : ndarray
        Only where it was given.

    Raises
    ------
    ValueError
        As scikit-learn's checks; a DataError for words, dates, labels that are missing or of several types, and for a
        sparse matrix whose indices lead out of it.
    """
    frame: Any = nw.from_native(X, eager_only=True, pass_through=True) if is_frame(X) else None
    # Some tables would hand them over as nanoseconds since 1970, without a word. (To ask takes as long as to predict.)
    if reset and frame is not None and (dates := [name for name, dtype in frame.schema.items() if dtype.is_temporal()]):
        raise DataError(f"X holds dates or times (columns {shown(dates)}). Make them numbers first, say of days.")
    labels = y if isinstance(y, str) else plain_labels(y)
    try:
        # Turning one form of sparse matrix into another is compiled code, too, so the indices are looked at before.
        safe = canonical_rows(as_csr(X)) if sp.issparse(X) else X
        return validate_data(estimator, safe, labels, reset=reset, ensure_all_finite=finite, **_ROW_CHECKS)
    except (TypeError, ValueError) as error:
        words = "could not convert string to float" in str(error)
        if not words and (frame is None or "float() argument must be" not in str(error)):
            raise
        # Objects are looked at one by one.
        names = [] if frame is None else [
            column.name for column in frame.iter_columns()
            if not column.dtype.is_numeric()
            and any(isinstance(value, str) or not np.isscalar(value) for value in column.drop_nulls())
        ]  # fmt: skip
        where = f" (columns {shown(names)})" if names else ""
        raise DataError(
            f"X holds {'words' if words else 'values that are no numbers'}{where}: {error}. Make numbers of them "
            "first, say by OneHotEncoder in a ColumnTransformer."
        ) from None


def checked_block(X: Features) -> Any:
    """The same for rows of a block, which no estimator learns from: ndarray or CSR matrix."""
    return check_array(canonical_rows(as_csr(X)) if sp.issparse(X) else X, **_ROW_CHECKS)


def refuse_one_class(classes: npt.NDArray[Any], which: str = "") -> None:
    """Raise a DataError, a ValueError as scikit-learn's checks ask for, where rows (`which` ones) are of one class."""
    if classes.shape[0] < 2:
        raise DataError(
            f"{which}y holds one class only, {classes.tolist()[0]!r}; a classifier needs rows of at least two."
        )


def binary_classes(y: npt.NDArray[Any], fitted_classes: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
    """The two classes of y, ascending; with `fitted_classes` those of a fitted model, which must hold the ones in y."""
    check_classification_targets(y)
    target = type_of_target(y, input_name="y", raise_unknown=True)
    if target != "binary":
        raise DataError(
            f"Only binary classification is supported. The type of the target is {target}. Learn one class against all "
            "others (y == label), or wrap this in OneVsRestClassifier of scikit-learn; GoalReduction and "
            "GoalThresholdClassifier take goals about several classes."
        )
    classes: npt.NDArray[Any] = np.unique(y)
    if fitted_classes is not None:
        if len(fitted_classes) != 2 or not np.isin(classes, fitted_classes).all():
            raise DataError(
                f"y holds the classes {classes.tolist()} and the fitted estimator knows {fitted_classes.tolist()}; "
                "both must be the same two."
            )
        classes = fitted_classes
    refuse_one_class(classes)
    return classes


def as_goal(goal: Goal | str | None) -> Goal:
    """A goal from an object or a text; None minimises the error rate."""
    return Goal(minimize=error_rate()) if goal is None else checked_goal(goal)


def asked_rows(rows: Rows, name: str | None) -> Rows:
    """The rows of a source (`rows_of_source`), with the features that a model is asked about.

    Raises
    ------
    DataError
        If it was not given, or without X.
    """
    own = rows_of_source(rows, name)
    if own.X is None:
        raise DataError(f"{own.title} has no X; rates of a model need its features: External(X, ...).")
    return own


def predicted_goal(
    goal: Goal, rows: Rows, classes: tuple[Label, ...], predict: Callable[[Features, Table | None], Column],
    abstain: Label = None,
) -> tuple[TiedGoal, list[Bools | Signs]]:  # fmt: skip
    """A goal tied to rows and their external data sets, and which rows of each a model calls positive.

    Parameters
    ----------
    classes : (negative, positive), or all of several
        As `ordered_classes` gives them.
    predict : callable
        Labels, from features and populations.
    abstain : label, default=None
        What stands for no decision; see `with_predictions`.
    """
    sources, positive = [], []
    for source in make_sources(baselines_used(goal), rows, classes=classes):
        own = asked_rows(rows, source.name)
        assert own.X is not None
        said, above = with_predictions(source, predict(own.X, own.populations), classes, abstain=abstain)
        sources.append(said)
        positive.append(above)
    return bind(goal, sources, warn_trivial=False), positive


class BinaryGoalMixin:
    """The classes of a binary estimator, and which of them the goal's rates call positive."""

    pos_label: Label
    random_state: Seed
    classes_: npt.NDArray[Any]
    positive_class_: Any

    def _set_classes(self, y: npt.NDArray[Any], fitted_classes: npt.NDArray[Any] | None = None) -> None:
        """Check that there are two classes, those of a fitted model if given, and settle which is positive."""
        self.classes_ = binary_classes(y, fitted_classes)
        goal: Goal | str | None = getattr(self, "goal", None)
        named = None if goal is None else checked_goal(goal)
        self.positive_class_ = ordered_classes(self.classes_.tolist(), self.pos_label, named)[1]
        if named is not None and named.counts_decisions and getattr(self, "abstain", None) is None:
            warn(
                "the goal asks how many rows are decided, and this model decides all of them. "
                "GoalThresholdClassifier(..., abstain='unsure') leaves some undecided.",
                DoubtfulModelWarning,
            )

    def _direction(self) -> float:
        """+1 where the positive class is `classes_[1]`, else -1."""
        return 1.0 if self.positive_class_ == self.classes_[1] else -1.0

    def _labels(self, positive: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Labels of rows that are, or are not, called positive."""
        second = positive if self._direction() > 0 else ~positive
        return np.asarray(self.classes_[second.astype(np.intp)])

    def _class_columns(self, positive: Floats) -> Floats:
        """Probabilities of both classes, shape (n, 2), from those of the positive one, shape (n,)."""
        columns = (1.0 - positive, positive) if self._direction() > 0 else (positive, 1.0 - positive)
        return np.column_stack(columns)

    def _drawn(self, probability: Floats, random_state: Seed) -> npt.NDArray[Any]:
        """Labels drawn by the probabilities of both classes, shape (n, 2)."""
        rng = check_random_state(self.random_state if random_state is None else random_state)
        second = rng.random_sample(probability.shape[0]) < probability[:, 1]
        return np.asarray(self.classes_[second.astype(np.intp)])

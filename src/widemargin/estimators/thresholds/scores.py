"""The scorer inside a threshold classifier: which rows it is fitted on, and its scores."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier, VotingClassifier
from sklearn.model_selection import StratifiedKFold, check_cv, train_test_split
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from widemargin._typing import Cells, Floats, Index, Ints
from widemargin.exceptions import DataError
from widemargin.rows import Rows, as_csr, external_data, take

Split = tuple[Ints, Ints]
Cv = Any  # an integer, a splitter or an iterable of splits, as scikit-learn's check_cv takes them

FOLDS = 5
"""Folds of cross-fitted scores and probabilities, where no rows are held out: scikit-learn's default."""

LEAST_HELD_OUT = 2000
"""Rows that a threshold is chosen on without folds, at least: of fewer, folds were measured to miss bounds less."""


def row_wise(X: Any) -> Any:
    """X in a form whose rows can be sliced: sparse as CSR, tables and matrices as they are, all else as an array."""
    if hasattr(X, "tocsr"):
        return as_csr(X)
    return X if len(getattr(X, "shape", ())) == 2 else np.asarray(X)


def split_rows(
    y: npt.NDArray[Any], fraction: float, random_state: np.random.RandomState, *, stratify: bool, cure: str = ""
) -> tuple[Index, Index]:
    """Row numbers to fit on, and to hold out.

    Parameters
    ----------
    stratify : bool
        By label, with a row of each held out. Not where something is to be proved: only the rows of a part that was
        drawn without a look at the labels are independent draws.
    cure : str, default=""
        What else helps where there are too few rows.

    Raises
    ------
    DataError
        If a class is missing among the rows to fit on, or there are too few rows.
    """
    n = y.shape[0]
    held = max(2, round(fraction * n))
    smallest = second_class(y)
    if n - held < 2 or (stratify and smallest < 2):
        raise DataError(
            f"{held} of {n} rows are to be held out, and the smaller class has {smallest}; give more rows{cure}."
        )
    labels, counts = np.unique(y, return_counts=True)
    single = np.isin(y, labels[counts < 2])  # of a class of one row, which cannot be spread
    strata = np.where(single, labels[np.argmax(counts)], y) if stratify else None
    train, test = train_test_split(np.arange(n), test_size=held, stratify=strata, random_state=random_state)
    if stratify:
        # A share of few rows rounds to none, and then a rate of that class has no rows.
        missing = [np.flatnonzero(y[train] == label)[0] for label in np.setdiff1d(y[~single], y[test])]
        train, test = np.delete(train, missing), np.append(test, train[missing])
    if len(np.unique(y[train])) < 2:
        raise DataError(f"of the {n - held} rows drawn to fit the estimator all have the same class; give more rows.")
    return np.sort(train), np.sort(test)


def split_external(
    external: Mapping[str, Rows], fraction: float, random_state: np.random.RandomState
) -> tuple[dict[str, Rows], dict[str, Rows]]:
    """Two parts of every external data set, the second one with a fraction of its rows.

    Raises
    ------
    DataError
        If a part would be empty, or what is given is no data set.
    """
    first: dict[str, Rows] = {}
    second: dict[str, Rows] = {}
    for name in external:
        data = external_data(name, external)
        n, held = data.n_rows, round(fraction * data.n_rows)
        if not 0 < held < n:
            raise DataError(
                f"external {name!r} has {n} rows, of which {held} would be kept aside to prove the goal on; give more "
                "rows."
            )
        order = random_state.permutation(n)
        first[name], second[name] = data.take(np.sort(order[held:])), data.take(np.sort(order[:held]))
    return first, second


def split_sources(
    rows: Rows, y: npt.NDArray[Any], fraction: float, random_state: np.random.RandomState, *, stratify: bool = False
) -> tuple[Rows, Rows, Index, Index]:
    """Rows to learn from and rows held out, each with its part of every external data set; the row numbers of both."""
    parts = split_rows(y, fraction, random_state, stratify=stratify)
    beside = split_external(rows.external, fraction, random_state)
    first, second = (rows.take(part).replaced(external=of) for part, of in zip(parts, beside, strict=True))
    return first, second, *parts


def weight_parameter(estimator: Any) -> str | None:
    """The name under which `fit` takes the weights, also where it stands in pipelines and searches; None: nowhere."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_parameter(last)
        return inner and f"{name}__{inner}"
    if isinstance(estimator, BaseSearchCV):
        return weight_parameter(estimator.estimator)
    # Votes and stacks hand weights to all their members as they are, which `fit` does not name.
    mixed = isinstance(estimator, VotingClassifier | StackingClassifier)
    members = [one for _, one in estimator.estimators if one != "drop"] if mixed else [estimator]
    return "sample_weight" if all(has_fit_parameter(one, "sample_weight") for one in members) else None


def with_some_value(X: Any) -> Any:
    """The same table with 0 in each column of floating numbers that holds none.

    Histogram boosting of scikit-learn 1.9 fails on such a column, and one that is nearly empty has no number in some
    fold. A column of one value is never split, so what new rows hold there does not matter.
    """
    if isinstance(X, np.ndarray):
        empty = np.isnan(X).all(axis=0) if X.dtype.kind == "f" else np.zeros(1, dtype=bool)
        return np.where(empty, X.dtype.type(0.0), X) if empty.any() else X
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return X
    numbers = [name for name, kind in frame.schema.items() if kind.is_float()]
    gaps = [name for name in numbers if np.isnan(frame[name].to_numpy()).all()]
    return frame.with_columns(*(nw.lit(0.0).alias(name) for name in gaps)).to_native() if gaps else X


def fit_scorer(estimator: Any, X: Any, y: npt.NDArray[Any], weight: Floats | None) -> Any:
    """A fitted clone; it gets the weights if its `fit` takes them."""
    name = None if weight is None else weight_parameter(estimator)
    X = with_some_value(X) if isinstance(estimator, HistGradientBoostingClassifier) else X
    # With metadata routing a pipeline would take weights only where its steps ask for them.
    with config_context(enable_metadata_routing=False):
        return clone(estimator).fit(X, y, **({name: weight} if name else {}))


def cross_scores(
    estimator: Any, X: Any, y: npt.NDArray[Any], weight: Floats | None, *, cv: Any, random_state: np.random.RandomState,
    scores_of: "Callable[[Any, Any], Floats] | None" = None,
) -> Floats:  # fmt: skip
    """Score of every row by a clone that was fitted on the other folds, shape (n,); `scores_of`: default `raw_scores`.

    Raises
    ------
    DataError
        If the folds do not hold every row out exactly once.
    """
    scores_of, splits, scores = scores_of or raw_scores, make_splits(cv, y, random_state), None
    fold_of_rows(splits, len(y))
    for train, test in splits:
        fitted = fit_scorer(estimator, take(X, train), y[train], take(weight, train))
        of_fold = scores_of(fitted, take(X, test))
        scores = np.empty((len(y), *of_fold.shape[1:])) if scores is None else scores
        scores[test] = of_fold
    assert scores is not None
    return scores


def fold_of_rows(splits: Sequence[Split], n_rows: int) -> Ints:
    """Number of the fold that holds each row out, shape (n_rows,).

    Raises
    ------
    DataError
        If the folds do not hold every row out exactly once.
    """
    fold, times = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    for number, (_, test) in enumerate(splits):
        fold[test] = number
        np.add.at(times, test, 1)  # a user's splitter may name a row twice in one fold
    if (times != 1).any():
        raise DataError(f"cv holds out {np.count_nonzero(times != 1)} of {n_rows} rows never or more than once.")
    return fold


def label_and_cell(labels: npt.NDArray[Any], cell: Cells, n_splits: int) -> Ints:
    """Label and populations of each row as one number; what is too rare for folds joins the commonest of its label."""
    _, label = np.unique(labels, return_inverse=True)
    pairs, together, counts = np.unique(np.column_stack([label, cell]), axis=0, return_inverse=True, return_counts=True)
    stratum = np.arange(len(pairs))
    for each in range(int(label.max()) + 1):
        # A stratum of fewer rows than folds cannot be spread over them; that of its label can wherever the label can.
        of_label = np.flatnonzero(pairs[:, 0] == each)
        stratum[of_label[counts[of_label] < n_splits]] = of_label[np.argmax(counts[of_label])]
    return np.asarray(stratum[together], np.int64)


def settled_cv(cv: Cv, y: npt.NDArray[Any], *, confident: bool) -> Cv:
    """`cv`, where "auto" is settled: None to hold rows out, or a number of folds. A confidence needs rows held out."""
    if not isinstance(cv, str):
        return cv
    # A threshold chosen on 100 rows misses its bound on new rows by several points; five fits cost little there. Of two
    # to four rows of a class one would be held out, which says next to nothing of it, and with it few of other groups.
    smallest = second_class(y)
    crossed = not confident and len(y) <= FOLDS * LEAST_HELD_OUT
    return min(FOLDS, smallest) if crossed and smallest >= 2 else None


def make_splits(
    cv: Cv, y: npt.NDArray[Any], random_state: np.random.RandomState, strata: Callable[[int], Ints] | None = None
) -> list[Split]:
    """Row numbers of folds: shuffled where `cv` is their number, stratified by label or by `strata(cv)`.

    Raises
    ------
    DataError
        If only one class has as many rows as there are folds.
    """
    if not isinstance(cv, Integral):
        return list(check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y))
    folds, smallest = int(cv), second_class(y)
    if folds < 2 or smallest < folds:
        raise DataError(
            f"cv={folds} needs at least 2 folds and {folds} rows of each class, or of two of several; the smaller has "
            f"{smallest}. Give more rows of it, or join classes."
        )
    splitter = StratifiedKFold(folds, shuffle=True, random_state=random_state)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # of several classes, a model may lack one
        return list(splitter.split(np.zeros(len(y)), y if strata is None else strata(folds)))


def second_class(y: npt.NDArray[Any]) -> int:
    """Rows of the second commonest class: the smaller of two; of several classes some may be rarer than folds are."""
    return int(np.sort(np.unique(y, return_counts=True)[1])[-2:].min())


def raw_scores(estimator: Any, X: Any, *, probable: bool = False) -> Floats:
    """`decision_function`, else the probability of `classes_[1]`, shape (n,), in double precision; or the other way.

    Raises
    ------
    DataError
        If the estimator has neither, or scores are not one finite number a row.
    """
    name = type(estimator).__name__
    if hasattr(estimator, "predict_proba") and (probable or not hasattr(estimator, "decision_function")):
        scores = np.asarray(estimator.predict_proba(X), dtype=np.float64)[:, 1]
    elif hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
    else:
        raise DataError(f"{name} has neither decision_function nor predict_proba, so there is no threshold to move.")
    if scores.ndim != 1:
        raise DataError(f"{name} gives scores of shape {scores.shape}; one score a row is needed.")
    refuse_infinite(name, scores)
    return scores


def refuse_infinite(name: str, scores: Floats) -> None:
    """Scores, or probabilities, of the estimator of this name are finite numbers."""
    bad = int(np.count_nonzero(~np.isfinite(scores)))
    if bad:
        raise DataError(f"{name} gives {bad} of {scores.size} scores that are not finite.")

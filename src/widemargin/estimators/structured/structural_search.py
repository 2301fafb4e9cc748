"""C and rescaling of a structural SVM: paths over C from warm starts, and cross-validation along them.

    for rescaling in ("slack", "margin"):
        for C in increasing order, until the scores fall:
            for each fold: train on the other folds, from the dual point of the last C; score

A dual point times C'/C is one of C', so it is where the next, larger C begins: what was learnt for one C serves the
next. Where one large C is all that is wanted, training for it alone takes fewer passes.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import BaseCrossValidator, KFold, check_cv
from sklearn.utils import _safe_indexing, check_random_state

from widemargin._typing import Floats, Ints, Seed
from widemargin.distributed.workers import Deadline, side_by_side
from widemargin.estimators._options import bar, budget_of
from widemargin.estimators.structured.label_names import label_set_scorers
from widemargin.estimators.structured.training import StructuralEstimator
from widemargin.exceptions import DataError, DoubtfulModelWarning, MarginConvergenceWarning, warn
from widemargin.solvers.base import Budget, Callback
from widemargin.structured.learners.example_rows import count
from widemargin.structured.learners.passes import Cluster
from widemargin.structured.model import Examples

Model = TypeVar("Model", bound=StructuralEstimator)
Scoring: TypeAlias = str | Callable[..., float] | None
Folds: TypeAlias = int | BaseCrossValidator | Iterable[tuple[Ints, Ints]]


class StructuralCell(NamedTuple):
    """What was measured at one rescaling and C.

    Attributes
    ----------
    max_iter : int or None
        Passes, where they were tried too.
    offset : float or None
        Chosen offset, where some were given.
    score, standard_error : float
        Mean over the folds, and its standard error; NaN with one fold.
    gap : float
        Largest relative duality gap of the folds.
    passes : float
        Mean number of passes, from the solution of the last C; all of them where `max_iter` is given.
    second : float or None
        Mean of the second score, where `scoring` names two.
    """

    rescaling: str
    C: float
    max_iter: int | None
    offset: float | None
    score: float
    standard_error: float
    gap: float
    passes: float
    second: float | None = None


@dataclass(frozen=True)
class StructuralSearch:
    """The result of `structural_search`.

    Attributes
    ----------
    best_params : dict
        "C" and "rescaling"; where passes were tried "max_iter" and "tol" (0); where offsets were, "solver_options" with
        the best one: for `set_params`.
    best_estimator : estimator
        The model with these parameters; fitted on all rows where `refit` asked for it.
    best_score : float
        Its cross-validated score, the first of two; too good, as the largest of many: measure the model on new rows.
    cells : tuple of StructuralCell
        In the order of measurement.
    status : str
        "converged", "time_limit", "stopped" (by a callback) or "interrupted".
    seconds : float
    """

    best_params: dict[str, Any]
    best_estimator: StructuralEstimator
    best_score: float
    cells: tuple[StructuralCell, ...]
    status: str
    seconds: float

    def __str__(self) -> str:
        lines = [f"{'rescaling':>9} {'C':>10} {'passes':>7} {'gap':>7} {'offset':>7} {'score':>18}"]
        for cell in self.cells:
            score, offset = f"{cell.score:.4f} ± {cell.standard_error:.4f}", f"{cell.offset or 0.0:.3g}"
            row = f"{cell.rescaling:>9} {cell.C:>10.4g} {cell.passes:>7.0f} {cell.gap:>7.1%} {offset:>7} {score:>18}"
            lines.append(row if cell.second is None else f"{row} {cell.second:>9.4f}")
        best = (
            f"{name}={value:.4g}" if isinstance(value, (int, float)) else f"{name}={value}"
            for name, value in self.best_params.items()
        )
        return "\n".join([*lines, f"best: {', '.join(best)}"])


def structural_path(model: Model, X: Examples, y: Examples, *, Cs: Sequence[float]) -> Iterator[Model]:
    """Train a structural SVM for several C, in increasing order, each from the dual point of the last one.

    Use it if you want the models on the way. It does not reach the last one faster: for that train for the
    largest C alone.

    Parameters
    ----------
    model : StructuralSVM, MultiLabelSVC, HierarchicalSVC, ChainSVC or MulticlassSVC
        Not changed.
    X, y
        As for its `fit`.
    Cs : sequence of float

    Yields
    ------
    estimator
        A fitted copy of the model for each C: `clf.C`, `clf.gap_`, ....

    Raises
    ------
    DataError
        If Cs are not positive numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import MultiLabelSVC, structural_path
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> Y = (X[:, :3] + X[:, 1:] > 0).astype(int)
    >>> path = structural_path(MultiLabelSVC(max_iter=500, random_state=0), X, Y, Cs=[0.01, 0.1])
    >>> [bool(clf.gap_ <= 0.05) for clf in path]
    [True, True]
    """
    return _along(model, X, y, _values(Cs))


def _values(Cs: Sequence[float]) -> list[float]:
    values = sorted({float(C) for C in Cs})
    if not values or not all(0.0 < C < math.inf for C in values):
        raise DataError(f"Cs={list(Cs)} must hold at least one number, all finite and > 0.")
    return values


def _along(model: Model, X: Examples, y: Examples, Cs: Sequence[float]) -> Iterator[Model]:
    last: Model | None = None
    for C in Cs:
        last = _from(last, model, C).fit(X, y)
        fitted = _from(last, model, C)
        vars(fitted).update({name: value for name, value in vars(last).items() if name.endswith("_")})
        if not model.warm_start:
            fitted.set_params(warm_start=False)
            del fitted.blocks_, fitted._origin
        yield fitted


def _from(last: Model | None, model: Model, C: float, **params: object) -> Model:
    """A copy of the model that will start from the dual point of the last one."""
    one: Model = clone(model).set_params(C=C, warm_start=True, **params)
    if last is not None:
        carried = ("blocks_", "_origin", "feature_map_")  # another map would be another problem
        one.__dict__.update({name: vars(last)[name] for name in carried if name in vars(last)})
    return one


def structural_search(
    model: StructuralEstimator,
    X: Examples,
    y: Examples,
    *,
    Cs: Sequence[float] | None = None,
    rescalings: Sequence[str] = ("slack", "margin"),
    max_iters: Sequence[int] | None = None,
    offsets: Sequence[float] | None = None,
    scoring: Scoring | Sequence[Scoring] = None,
    cv: Folds = 3,
    patience: int = 2,
    time_budget: float | None = None,
    callbacks: Sequence[Callback] | None = None,
    on_interrupt: str = "raise",
    verbose: int = 0,
    workers: "int | Cluster | None" = None,
    random_state: Seed = None,
    refit: bool = False,
) -> StructuralSearch:
    """Choose C and the rescaling of a structural SVM by cross-validation along warm-started paths.

    Parameters
    ----------
    model : StructuralSVM, MultiLabelSVC, HierarchicalSVC, ChainSVC or MulticlassSVC
        All its other parameters are used, but tol, which is at least 0.05. Not changed.
    X, y
        As for its `fit`.
    Cs : sequence of float, optional
        By default nine, from `1 / (0.1 n)` to `1 / (1e-5 n)` with n training rows.
    rescalings : sequence of {"slack", "margin"}, default=("slack", "margin")
        Each has its own path, because a good C for one is not good for the other.
    max_iters : sequence of int, optional
        Numbers of passes to try at each C, each from the start and whatever the gap: stopping early regularises too,
        and may score better than the optimum. None: train up to the gap.
    offsets : sequence of float, optional
        Offsets of `MultiLabelSVC` or `HierarchicalSVC` to try on every trained model. A cell takes the one nearest to 0
        that scores within a standard error of the best; with two scores every offset has a cell of its own.
    scoring : str, callable or pair of these, optional
        As in scikit-learn, or a name of `label_set_scorers`, such as "jaccard". None: the model's own `score`. Of a
        pair, such as `("jaccard", "hamming")`, the second chooses among the cells that the first cannot tell from its
        best one: those within a standard error of it.
    cv : int, splitter or iterable, default=3
        Number of folds, shuffled; or what scikit-learn's `check_cv` takes.
    patience : int, default=2
        A path ends after so many C without a better score (at least two if none was better than the first), because
        large C take longest, and overfit.
    time_budget : float, optional
        Seconds after which the best cell so far is taken.
    callbacks : sequence of callable, optional
        Called with a `Progress` after each cell: `objective` is its score, `gap` the largest so far; returning True
        ends the search.
    on_interrupt, verbose
        As in `kernel_search`.
    workers : int or distributed.Client, optional
        Folds are trained side by side: by so many processes, or on a Dask cluster; None: as `joblib.parallel_config`
        says. Scores are the same.
    random_state : int, RandomState or None, default=None
        Of the folds.
    refit : bool, default=False
        Fit the best model on all rows, after the search and outside of its time budget.

    Returns
    -------
    StructuralSearch

    Raises
    ------
    DataError
        If Cs are not positive numbers, another option does not fit, or the time was not enough for one cell.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import MultiLabelSVC, structural_search
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> Y = (X[:, :3] + X[:, 1:] > 0).astype(int)
    >>> found = structural_search(MultiLabelSVC(random_state=0), X, Y, Cs=[0.01, 0.1], random_state=0, refit=True)
    >>> found.best_estimator.predict(X[:1]).shape
    (1, 3)
    """
    started = time.perf_counter()
    if isinstance(rescalings, str) or not set(rescalings) <= {"slack", "margin"}:
        raise DataError(f"rescalings={rescalings!r}: give a sequence of 'slack' and 'margin'.")
    for name, values in (("rescalings", rescalings), ("max_iters", max_iters), ("offsets", offsets)):
        if values is not None and len(values) == 0:
            raise DataError(f"{name} is empty: give at least one value.")
    if max_iters is not None and min(max_iters) < 1:
        raise DataError(f"max_iters={list(max_iters)}: numbers of passes must be at least 1.")
    if offsets is not None:
        if not model._has_offset:
            raise DataError(f"{type(model).__name__} has no offset: leave offsets out.")
        if not all(math.isfinite(offset) for offset in offsets):
            raise DataError(f"offsets={list(offsets)} must be finite numbers.")
    if patience < 1:
        raise DataError(f"patience={patience!r} must be at least 1.")
    if on_interrupt not in ("raise", "return"):
        raise DataError(f"on_interrupt={on_interrupt!r}: give 'raise' or 'return'.")
    search = PathSearch(model, X, y, scoring, cv, check_random_state(random_state))
    # by default 1 / (C n) falls from 0.1 to 1e-5, half a decade a step
    values = _values(Cs) if Cs is not None else [10.0 ** (half / 2.0) / search.n_rows for half in range(2, 11)]
    passes = [None] if max_iters is None else sorted({int(most) for most in max_iters})
    tried = [None] if offsets is None else sorted((float(offset) for offset in offsets), key=abs)
    total = len(values) * len(rescalings) * len(passes)
    cells: list[StructuralCell] = []
    with bar(total, verbose) as show:
        budget = budget_of(time_budget, callbacks, verbose, show)
        try:
            for rescaling in rescalings:
                for cell in search.path(rescaling, values, passes, tried, patience, budget, workers):
                    cells.append(cell)
                    stage = f"{rescaling} C={cell.C:.4g}"
                    budget.tell(stage, len(cells), cell.score, max(one.score for one in cells), cell.standard_error)
        except KeyboardInterrupt:
            budget.interrupted = True
            if on_interrupt == "raise":
                raise
    if not cells:
        raise DataError(f"the search ended after {budget.elapsed:.1f} s, before the first C: give it more time.")
    status = budget.status(converged=not budget.exhausted)
    if status != "converged":
        warn(
            f"the search ended after {len(cells)} cells ({status}): the best so far is taken.", MarginConvergenceWarning
        )
    best = _best(cells)
    params: dict[str, Any] = {"C": best.C, "rescaling": best.rescaling}
    params |= {} if best.max_iter is None else {"max_iter": best.max_iter, "tol": 0.0}
    params |= {} if best.offset is None else {"solver_options": replace(model._options, offset=best.offset)}
    chosen = clone(model).set_params(**params)
    if refit:
        chosen.fit(X, y)
    return StructuralSearch(params, chosen, best.score, tuple(cells), str(status), time.perf_counter() - started)


class PathSearch:
    """The folds, and what is measured on them."""

    def __init__(
        self, model: StructuralEstimator, X: Examples, y: Examples, scoring: Scoring | Sequence[Scoring], cv: Folds,
        rng: np.random.RandomState, tol: float = 0.05, within: float = 1.0, worth: float = 0.0,
    ) -> None:  # fmt: skip
        self.model, self._X, self._y, self._tol, self._within, self._worth = model, X, y, tol, within, worth
        pair = scoring if isinstance(scoring, (tuple, list)) else [scoring]
        if len(pair) not in (1, 2):
            raise DataError(f"scoring has {len(pair)} entries: give one score, or a pair of which the second decides.")
        named = [label_set_scorers.get(one, one) if isinstance(one, str) else one for one in pair]
        self.weight: Floats | None = None
        self._scorers = [check_scoring(model, scoring=one) for one in named]
        folds = KFold(cv, shuffle=True, random_state=rng) if isinstance(cv, int) else check_cv(cv)
        self.folds = list(folds.split(np.zeros(count(X))))
        self.n_rows = float(np.mean([train.shape[0] for train, _ in self.folds]))

    def path(
        self, rescaling: str, Cs: Sequence[float], passes: Sequence[int | None], offsets: Sequence[float | None],
        patience: int, budget: Budget, workers: "int | Cluster | None",
    ) -> Iterator[StructuralCell]:  # fmt: skip
        """Cells of increasing C, until the score has not risen for a while."""
        last: list[StructuralEstimator | None] = [None] * len(self.folds)
        best, since, risen = -math.inf, 0, False
        for C in Cs:
            top = -math.inf
            for most in passes:
                fold = partial(self.fold_scores, C, rescaling, most, offsets, Deadline.after(budget.left))
                fitted, scores = [], []
                for one, score in side_by_side(fold, zip(last, self.folds, strict=True), workers):
                    if budget.exhausted:
                        return
                    fitted.append(one)
                    scores.append(score)
                last = list(fitted)
                gap, done = max(one.gap_ for one in fitted), float(np.mean([one.n_iter_ for one in fitted]))
                for place, mean, spread, second in _offsets(np.array(scores), self._within):
                    yield StructuralCell(rescaling, C, most, offsets[place], mean, spread, gap, done, second)
                    if budget.exhausted:
                        return
                    top = max(top, mean)
            # A small C may predict the same for all rows: scores that are equal end a path only after they have risen.
            since = 0 if top > best + self._worth else since + int(risen or top < best)
            risen |= -math.inf < best < top
            best = max(best, top)
            # The first models may predict hardly any label, and the second score less than the first: one dip says
            # nothing before scores have risen.
            if since >= (patience if risen else max(patience, 2)):
                return

    def fold_scores(
        self, C: float, rescaling: str, most: int | None, offsets: Sequence[float | None], deadline: Deadline,
        given: tuple[StructuralEstimator | None, tuple[Ints, Ints]],
    ) -> tuple[StructuralEstimator, list[list[float]]]:  # fmt: skip
        """Train on a fold, from the solution of the last C, and score with every offset; here or on a worker."""
        last, (train, test) = given
        # up to a small gap: the scores of the models hardly change after it
        limits = {"tol": max(self._tol, self.model.tol)} if most is None else {"tol": 0.0, "max_iter": most}
        one = _from(last if most is None else None, self.model, C, rescaling=rescaling, **limits)
        options = one._options
        one.set_params(time_budget=deadline.left, solver_options=replace(options, on_interrupt="raise"))
        one._in_search = True
        if last is not None and most is None:
            # Blocks are as large as the labels, and the last C is done with.
            del last.blocks_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MarginConvergenceWarning)  # the cell says how large the gap is
            warnings.simplefilter("ignore", DoubtfulModelWarning)  # the fit of all rows says it of them
            weight = {} if self.weight is None else {"sample_weight": self.weight[train]}
            one.fit(_safe_indexing(self._X, train), _safe_indexing(self._y, train), **weight)
        X, y, scores = _safe_indexing(self._X, test), _safe_indexing(self._y, test), []
        for offset in offsets:
            if offset is not None:
                one.set_params(solver_options=replace(one._options, offset=offset))
            scores.append([float(scorer(one, X, y)) for scorer in self._scorers])
        # The next C starts from this model, and needs neither these rows nor their scores.
        one.__dict__.pop("_seen", None)
        return one, scores


def _best(cells: Sequence[StructuralCell]) -> StructuralCell:
    """The cell of the best score; of two scores, that of the best second one within a standard error of it."""
    best = max(cells, key=lambda cell: (cell.score, -cell.C))
    if best.second is None:
        return best
    close = [cell for cell in cells if cell.score >= best.score - np.nan_to_num(best.standard_error)]
    return max(close, key=lambda cell: (cell.second, cell.score, -cell.C))


def _offsets(scores: Floats, within: float = 1.0) -> list[tuple[int, float, float, float | None]]:
    """Which offsets have cells: their places, means and standard errors of the first score, means of the second.

    Of one score, the first offset (those nearest to 0 come first) within so many standard errors of the best; of two,
    all.

    Parameters
    ----------
    scores : ndarray of shape (folds, offsets, 1 or 2)
    """
    mean, folds = scores.mean(axis=0), scores.shape[0]
    error = scores[:, :, 0].std(axis=0, ddof=1) / math.sqrt(folds) if folds > 1 else np.full(mean.shape[0], math.nan)
    if mean.shape[1] == 2:
        return [
            (place, float(mean[place, 0]), float(error[place]), float(mean[place, 1])) for place in range(len(mean))
        ]
    best = int(mean[:, 0].argmax())
    place = int(np.argmax(mean[:, 0] >= mean[best, 0] - within * np.nan_to_num(error[best])))
    return [(place, float(mean[place, 0]), float(error[place]), None)]

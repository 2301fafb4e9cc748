"""What the linear baselines share: checks, classes one against the rest, scores, and how a fit ends."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from widemargin.estimators.feature_space import ColumnSpace
from widemargin.exceptions import MarginConvergenceWarning
from widemargin.extending import (
    CURES,
    Column,
    Features,
    Floats,
    Matrix,
    checked_rows,
    interrupted,
    kinds,
    labels_of,
    limit_threads,
    parameters,
    refuse_missing,
    refuse_one_class,
    refuse_overflow,
    warn,
    worst,
)
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.base import Budget, Status

__all__ = ["LinearBaseline", "LinearModel", "Task", "ended", "norms2"]


@dataclass(frozen=True)
class Task:
    """One class against the rest.

    Attributes
    ----------
    X : ndarray (C order) or canonical CSR matrix, shape (n, d)
    y : ndarray of -1.0 and +1.0, shape (n,)
    weight : ndarray of shape (n,)
        Positive: rows of weight zero have been left out.
    seed : int
    budget : Budget
    """

    X: Matrix
    y: Floats
    weight: Floats
    seed: int
    budget: Budget

    @property
    def share(self) -> Floats:
        """Weights that sum to 1."""
        share: Floats = self.weight / self.weight.sum()
        return share


@dataclass(frozen=True)
class LinearModel:
    """The scores `f(x) = <w, x> + b` and how their training ended.

    `facts` are further numbers of the fit; they become fitted attributes with a trailing underscore, the largest where
    there are several classes.
    """

    w: Floats
    b: float
    n_iter: int
    status: Status
    facts: dict[str, float]


@parameters
class LinearBaseline(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the linear baselines: a subclass trains one class against the rest in `_fit_task`."""

    random_state: kinds.Random = None
    on_interrupt: kinds.OnInterrupt = "raise"
    time_budget: kinds.Positive | None = None
    n_jobs: int | None = None

    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes_": "label k", "coef_": "float p d", "intercept_": "float p"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _space(self, X: Matrix, weight: Floats) -> ColumnSpace:
        """What the model is linear in: the columns of X."""
        refuse_overflow(X)
        return ColumnSpace()

    @abstractmethod
    def _fit_task(self, task: Task) -> LinearModel:
        """Train one class against the rest."""

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Column, sample_weight: Column | None = None) -> Self:
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
        y : array-like of shape (n,)
            Two classes, or more: then each is learned against the rest.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows' losses, >= 0. Rows of weight 0 are left out.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a class has no row of positive weight, or features are so large that their products overflow.
        """
        budget = Budget(self.time_budget)
        rows, labels = checked_rows(self, X, y)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        refuse_one_class(self.classes_)
        weight, used = np.ones(rows.shape[0]), np.arange(rows.shape[0])
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
            used = np.flatnonzero(weight > 0.0)
            refuse_missing(self.classes_, codes[used])
        space = self._space(rows, weight)
        rows, codes, weight = space.part(rows, used), codes[used], weight[used]
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        targets = range(self.classes_.shape[0]) if self.classes_.shape[0] > 2 else (1,)
        models = []
        with limit_threads(self.n_jobs):
            (features,) = space.features([rows])
            for number, target in enumerate(targets):
                signs = np.where(codes == target, 1.0, -1.0)
                with budget.part(len(targets) - number) as share:
                    models.append(self._fit_task(Task(features, signs, weight, seed, share)))
            space.adopt(self, np.array([model.w for model in models]))
        if "support_" in vars(self):
            self.support_ = used[vars(self)["support_"]]  # numbers of the rows that were given
        self._keep(models, budget)
        return self

    def _keep(self, models: list[LinearModel], budget: Budget) -> None:
        """Set the fitted attributes; tell how training ended."""
        self.intercept_ = np.array([model.b for model in models])
        self.n_iter_ = max(1, *(model.n_iter for model in models))
        self.status_ = str(worst({model.status for model in models}, budget))
        for name in models[0].facts:
            setattr(self, f"{name}_", max(model.facts[name] for model in models))
        if not interrupted(self, budget):
            self._tell(budget)

    def _tell(self, budget: Budget) -> None:
        """Warn where training stopped early."""
        cures: dict[str, str] = CURES | {"max_iter": "raise max_iter or tol"}
        if self.status_ in cures:
            warn(
                f"stopped after {self.n_iter_} iterations, {budget.elapsed:.1f} s ({cures[self.status_]}).",
                MarginConvergenceWarning,
            )

    def decision_function(self, X: Features) -> Floats:
        """Scores, shape (n,) for two classes (positive: `classes_[1]`), else (n, n_classes)."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        scores: Floats = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Labels, shape (n,)."""
        return labels_of(self.decision_function(X), self.classes_)


def ended(budget: Budget, *, converged: bool) -> Status:
    """Status of a run that made all its iterations, or was stopped by its budget."""
    if budget.interrupted:
        return Status.INTERRUPTED
    if converged:
        return Status.CONVERGED
    return Status.TIME_LIMIT if budget.exhausted else Status.MAX_ITER


def norms2(X: Matrix) -> Floats:
    """Squared norms of the rows, shape (n,)."""
    return RowBlocks([(X, None)]).norms2()

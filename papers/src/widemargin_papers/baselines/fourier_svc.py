"""A Gaussian SVM by random Fourier features and a linear solver: what the batch perceptron is compared with (Figure 3).

Cotter, Shalev-Shwartz and Srebro 2012 compare costs in inner products of rows: k pairs of features cost k a row, once;
a kernel evaluation costs one. The linear problem on the features is solved to its optimum.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from widemargin.exceptions import MarginConvergenceWarning
from widemargin.extending import (
    Column,
    Features,
    Floats,
    Matrix,
    Reals,
    checked_rows,
    kinds,
    limit_threads,
    parameters,
    refuse_one_class,
    warn,
)
from widemargin.kernels.functions import resolve_kernel
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.solvers.paper_nest.sdca import Ascent

__all__ = ["FourierSVC"]

_LAM = 4.0  # 1/2 |w|^2 + C sum max(0, 1 - y f) in the units of sdca, whose margin is 1/2: f = 2 z
_BLOCK = 1 << 22  # features made at a time by `decision_function`


@parameters
class FourierSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """SVM with a Gaussian kernel, approximated by random Fourier features, for two classes and without a bias.

    Minimises `1/2 |w|^2 + C sum_i s_i max(0, 1 - y_i <w, P(x_i)>)` over the features P of
    `FourierPairs`, by dual coordinate ascent (`solvers.paper_nest.sdca`).

    Parameters
    ----------
    n_pairs : int, default=256
        Pairs of features. Doubling them halves the variance of the kernel's approximation, and doubles memory and time.
    C : float, default=1.0
        Inverse strength of the regulariser.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width, as in `sklearn.svm.SVC`.
    tol : float, default=1e-3
        Largest relative duality gap.
    max_iter : int, default=10000
        Most passes over the rows.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    coef_ : ndarray of shape (1, 2 n_pairs)
    classes_ : ndarray of shape (2,)
    features_ : FourierPairs
    gamma_ : float
    gap_ : float
        Relative duality gap.
    n_iter_ : int
        Passes over the rows.
    inner_products_ : int
        Inner products of rows that the training features cost: `n_pairs n`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin_papers.baselines import FourierSVC
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X**2).sum(axis=1) > 1.4
    >>> FourierSVC(gamma=0.5, C=10.0, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes_": "label 2", "coef_": "float 1 *"}

    def _refuse_arrays(self) -> None:
        if hasattr(self, "coef_") and self.features_.directions.shape != (self.n_features_in_, self.coef_.shape[1] / 2):
            raise ValueError(f"coef_ of shape {self.coef_.shape} is not one of {self.features_.directions.shape} pairs")

    n_pairs: kinds.Count = field(default=256, kw_only=False)
    C: kinds.Positive = 1.0
    gamma: kinds.Gamma = "scale"
    tol: kinds.Positive = 1e-3
    max_iter: kinds.Count = 10_000
    random_state: kinds.Random = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Features, y: Column, sample_weight: Column | None = None) -> "FourierSVC":
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
        y : array-like of shape (n,)
            Two classes.
        sample_weight : array-like of shape (n,), default=None
            Factors of C, >= 0.

        Returns
        -------
        self
        """
        rows, labels = checked_rows(self, X, y)
        check_classification_targets(labels)
        target = type_of_target(labels, input_name="y", raise_unknown=True)
        if target != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {target}.")
        self.classes_ = np.unique(labels)
        refuse_one_class(self.classes_)
        weight = np.ones(rows.shape[0])
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        self.gamma_ = resolve_kernel("rbf", rows, gamma=self.gamma, sample_weight=weight).gamma
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.features_ = FourierPairs(self.gamma_, self.n_pairs, rows.shape[1], seed=seed)
        self.inner_products_ = self.n_pairs * rows.shape[0]
        with limit_threads(self.n_jobs):
            self._solve(self.features_(rows), labels == self.classes_[1], weight, seed)
        return self

    def _solve(self, features: npt.NDArray[Any], positive: npt.NDArray[np.bool_], weight: Floats, seed: int) -> None:
        ascent = Ascent(RowBlocks([(features, None)]), _LAM, seed=seed, max_epochs=self.max_iter)
        sides = 2.0 * self.C * weight
        ascent.set_sides(np.where(positive, 0.0, sides), np.where(positive, sides, 0.0))
        target = self.tol * max(float(sides.sum()), 1e-300)  # of the value at w = 0, then of the value found
        while True:
            found = ascent.solve(0.0, target)
            self.gap_ = found.gap / max(found.primal, 1e-300)
            if self.gap_ <= self.tol or ascent.n_epochs >= self.max_iter:
                break
            target = min(0.5 * target, self.tol * found.dual.value) if found.dual.value > 0.0 else 0.5 * target
        self.coef_ = 2.0 * found.point.w[None, :]
        self.n_iter_ = max(ascent.n_epochs, 1)
        if self.gap_ > self.tol:
            warn(
                f"gap {self.gap_:.1e} > tol {self.tol:g} after {self.n_iter_} passes; raise max_iter or tol.",
                MarginConvergenceWarning,
            )

    def decision_function(self, X: Features) -> Floats:
        """Scores, shape (n,); positive means `classes_[1]`."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        scores = np.empty(X.shape[0])
        step = max(1, _BLOCK // self.coef_.shape[1])
        for low in range(0, X.shape[0], step):
            scores[low : low + step] = self.features_(X[low : low + step]) @ self.coef_[0]
        return scores

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,)."""
        check_is_fitted(self)
        labels: npt.NDArray[Any] = self.classes_[(self.decision_function(X) > 0.0).astype(np.intp)]
        return labels


class FourierPairs:
    """Random Fourier features in pairs of a cosine and a sine (Rahimi and Recht 2007; Cotter et al. 2012, appendix).

        2 k features:  cos(<v_j, x>) / sqrt(k),  sin(<v_j, x>) / sqrt(k),      v_j drawn from N(0, 2 gamma I)

    Their inner products are near `exp(-gamma |x - y|^2)`, and exact for x = y; a pair costs one inner product of a row.
    scikit-learn's `RBFSampler` draws one cosine with a random phase instead, of larger variance.

    Parameters
    ----------
    gamma : float
    n_pairs : int
        k.
    n_features : int
        Columns of X.
    seed : int
    """

    _stored_arrays: ClassVar[Mapping[str, str]] = {"directions": "float * *"}

    def __init__(self, gamma: float, n_pairs: int, n_features: int, *, seed: int) -> None:
        # N(0, 2 gamma I) is the spectral density of the Gaussian kernel.
        directions = np.random.default_rng(seed).standard_normal((n_features, n_pairs))
        self.directions = directions * np.sqrt(2.0 * gamma)

    def __call__(self, X: Matrix) -> Reals:
        """The features of rows, shape (n, 2 k), in the precision of X."""
        angle = np.asarray(X @ self.directions.astype(X.dtype))
        features: Reals = np.hstack((np.cos(angle), np.sin(angle)))
        # So that the features of a row have norm 1, as the kernel has K(x, x) = 1.
        features /= np.sqrt(self.directions.shape[1])
        return features

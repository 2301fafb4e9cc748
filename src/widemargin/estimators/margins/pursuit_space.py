"""What a margin pursuit model is linear in: columns of X, features that approximate a kernel, or a kernel itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.utils import check_random_state

from widemargin._typing import Floats
from widemargin.estimators.kernel_svm.advice import refuse_overflow
from widemargin.estimators.kernel_svm.scores import score_blocks
from widemargin.exceptions import CapabilityError
from widemargin.kernels.feature_maps import make_feature_map
from widemargin.kernels.functions import Kernel, check_precomputed, resolve_kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows
from widemargin.linalg.cholesky import KernelFeatures, kernel_features
from widemargin.linalg.matrix_blocks import RowBlocks

__all__ = ["KernelSpace", "MappedSpace", "PlainSpace", "asked_kernel", "make_space", "model_scores"]

_MAPPED = 4096  # rows mapped at a time in prediction

_OF_SPACES = ("coef_", "dual_coef_", "feature_map_", "gamma_", "support_", "support_vectors_")


@dataclass
class PlainSpace:
    """The columns of X."""

    def part(self, X: Any, rows: Any) -> Any:
        """Some of the rows."""
        return X if rows.shape[0] == X.shape[0] else X[rows]

    def features(self, X: Any) -> Any:
        """Rows as the solvers take them."""
        return X

    def adopt(self, model: Any, w: Floats, X: Any) -> None:
        """Set the fitted attributes for weights of the features, shape (n_problems, d)."""
        for name in _OF_SPACES:
            vars(model).pop(name, None)
        model.coef_ = w


@dataclass
class MappedSpace(PlainSpace):
    """Explicit features that approximate a kernel."""

    feature_map: Any
    used: Any = None
    fitted: bool = False

    def features(self, X: Any) -> Any:
        """Mapped rows, dense; landmarks are rows of positive weight."""
        if not self.fitted:
            self.feature_map.fit(X if self.used is None else X[self.used])
        return np.ascontiguousarray(self.feature_map.transform(X))

    def adopt(self, model: Any, w: Floats, X: Any) -> None:
        """Set the fitted attributes; `coef_` has one number for each feature of the map."""
        super().adopt(model, w, X)
        model.feature_map_ = self.feature_map


@dataclass
class KernelSpace(PlainSpace):
    """A kernel, exactly: the model is a combination of kernel functions of training rows."""

    kernel: Kernel
    cache_size: float
    factor: KernelFeatures | None = None

    def part(self, X: Any, rows: Any) -> Any:
        """Some of the rows; of a precomputed kernel the values of their pairs."""
        made = super().part(X, rows)
        return made[:, rows] if self.kernel.name == "precomputed" and made is not X else made

    def features(self, X: Any) -> Any:
        """Features with the kernel's inner products.

        Raises
        ------
        CapabilityError
            If the kernel matrix does not fit `cache_size`.
        KernelError
            If the kernel is not positive semi-definite.
        """
        n, megabytes = X.shape[0], 8.0 * X.shape[0] ** 2 / MEGABYTE
        if megabytes > self.cache_size:
            raise CapabilityError(
                f"the kernel matrix of {n} rows takes {megabytes:.0f} MB and cache_size is {self.cache_size:g} MB. Use "
                "a feature_map ('nystroem' or 'fourier'), whose cost is linear in the rows; or raise cache_size."
            )
        rows = check_precomputed(X) if self.kernel.name == "precomputed" else X
        whole = KernelRows(self.kernel, rows, cache_size=max(self.cache_size, 1.0), dtype=np.float64).full()
        self.factor = kernel_features(whole)
        return self.factor.features

    def adopt(self, model: Any, w: Floats, X: Any) -> None:
        """Set the fitted attributes of `f(x) = sum_j a_j K(x_j, x) + b`."""
        assert self.factor is not None
        for name in _OF_SPACES:
            vars(model).pop(name, None)
        coefficients = self.factor.coefficients(w.T).T
        order = np.argsort(self.factor.pivots)
        model.support_ = self.factor.pivots[order]
        model.dual_coef_ = np.ascontiguousarray(coefficients[:, order])
        precomputed = self.kernel.name == "precomputed"
        model.support_vectors_ = np.empty((0, 0), X.dtype) if precomputed else X[model.support_]
        model.gamma_ = self.kernel.gamma


def make_space(model: Any, X: Any, sample_weight: Floats | None) -> PlainSpace:
    """The space that an estimator's parameters ask for, settled on its training rows X.

    Raises
    ------
    CapabilityError
        If the parameters do not go together.
    KernelError
        If the kernel cannot be used.
    """
    if model.kernel is None:
        refuse_overflow(X)
        if model.feature_map is not None:
            raise CapabilityError(f"feature_map={model.feature_map!r} needs a kernel to approximate: kernel='rbf'.")
        return PlainSpace()
    kernel = asked_kernel(model, X, sample_weight)
    if model.feature_map is None:
        return KernelSpace(kernel, float(model.cache_size))
    used = None if sample_weight is None else np.flatnonzero(sample_weight > 0.0)
    n = X.shape[0] if used is None else used.shape[0]
    if model.warm_start and "feature_map_" in vars(model) and _is_asked_for(model, X.shape[1], n):
        return MappedSpace(model.feature_map_, fitted=True)
    seed = int(check_random_state(model.random_state).randint(np.iinfo(np.int32).max))
    made = make_feature_map(model.feature_map, kernel, model.n_components, seed=seed, n_rows=n)
    return MappedSpace(made, used if n < X.shape[0] else None)


def asked_kernel(model: Any, X: Any, sample_weight: Floats | None) -> Kernel:
    """The kernel of an estimator's parameters, settled on its training rows X.

    Raises
    ------
    DataError
        If a feature is so large that kernel values overflow.
    KernelError
        If the kernel cannot be used.
    """
    if model.kernel != "precomputed" and not callable(model.kernel):
        refuse_overflow(X)
    parameters = {"gamma": model.gamma, "degree": model.degree, "coef0": model.coef0}
    return resolve_kernel(model.kernel, X, sample_weight=sample_weight, **parameters)


def _is_asked_for(model: Any, n_features: int, n: int) -> bool:
    """Whether the map of the last fit is one that the parameters ask for now. A gamma found from data is kept."""
    kept = model.feature_map_
    same = {
        "gamma": isinstance(model.gamma, str) or model.gamma == kept.gamma,
        "n_features_in_": kept.n_features_in_ == n_features,
        "n_components": min(model.n_components, n) <= kept.n_components <= model.n_components,
    }
    if isinstance(kept, RBFSampler):
        return model.feature_map == "fourier" and model.kernel == "rbf" and all(same.values())
    same["kernel"] = (model.feature_map, model.kernel) == ("nystroem", kept.kernel)
    same["degree"] = model.kernel != "poly" or model.degree == kept.degree
    same["coef0"] = model.kernel not in ("poly", "sigmoid") or model.coef0 == kept.coef0
    same["gamma"] |= model.kernel == "linear"
    return all(same.values())


def model_scores(model: Any, X: Any) -> Floats:
    """Scores of checked rows by a fitted model, shape (n, n_problems), in double precision and bounded memory."""
    fitted = vars(model)
    if "dual_coef_" in fitted:
        return np.concatenate([block for _, block in score_blocks(model, X)])
    if "feature_map_" not in fitted:
        return _linear_scores(model, X)
    scores = [
        _linear_scores(model, np.ascontiguousarray(model.feature_map_.transform(X[low : low + _MAPPED])))
        for low in range(0, X.shape[0], _MAPPED)
    ]
    return np.concatenate(scores)


def _linear_scores(model: Any, X: Any) -> Floats:
    rows = RowBlocks([(X, None)])
    return np.asarray(np.column_stack([rows.dot(w) for w in model.coef_]) + model.intercept_)

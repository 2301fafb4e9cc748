"""Scores of new rows by a fitted `KernelSVC` or `KernelPerceptron`, in blocks of bounded memory."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Floats
from widemargin.estimators.kernel_svm.pairs_fit import kernel_rows
from widemargin.estimators.kernel_svm.svc_layout import dense, pair_scores
from widemargin.kernels.backend import usable_name
from widemargin.kernels.functions import settled_kernel

__all__ = ["score_blocks"]

_NUMBERS = 1 << 21  # scores that are made at a time: 16 MB
_NO_CACHE = 1e9  # products store no rows, so none needs to fit


def score_blocks(model: Any, X: Any) -> Iterator[tuple[slice, Floats]]:
    """Scores of checked rows by all binary problems, shape (rows, n_problems), and the rows that they belong to.

    One against one, the kernel values of a class's support vectors serve all its problems at once. A model without
    `multi_class` trains each class against the rest, one without `intercept_` has none. NumPy computes the values where
    the rows are CSR, or the model's backend is not to be had.
    """
    k = model.classes_.shape[0]
    coef = dense(model.dual_coef_)
    pairs = k > 2 and getattr(model, "multi_class", "ovr") == "ovo"
    cuts = np.concatenate(([0], np.cumsum(model.n_support_))) if pairs else np.array([0, coef.shape[1]])
    backend = usable_name(getattr(model, "backend", "numpy")) if not sp.issparse(X) else "numpy"
    parts = [_Part(model, slice(low, high), coef[:, low:high], backend) for low, high in pairwise(cuts)]
    intercept: Floats = getattr(model, "intercept_", np.zeros(1))
    step = max(1, _NUMBERS // (k * k))
    for low in range(0, X.shape[0], step):
        rows = slice(low, min(low + step, X.shape[0]))
        sums = [part(X[rows]) for part in parts]
        yield rows, pair_scores(sums, intercept) if pairs else sums[0] + intercept


class _Part:
    """Kernel values with some of the support vectors, times their coefficients."""

    def __init__(self, model: Any, place: slice, coef: Floats, backend: str) -> None:
        self._coef = np.ascontiguousarray(coef.T)
        self._columns = model.support_[place] if model.kernel == "precomputed" else None
        self._rows = None
        if self._columns is None and self._coef.shape[0]:
            kernel = settled_kernel(model.kernel, gamma=model.gamma_, degree=model.degree, coef0=model.coef0)
            vectors = model.support_vectors_[place]
            self._rows = kernel_rows(kernel, vectors, cache_size=_NO_CACHE, backend=backend)

    def __call__(self, X: Any) -> Floats:
        if self._columns is not None:
            return np.asarray(X[:, self._columns] @ self._coef, dtype=np.float64)
        if self._rows is None:
            return np.zeros((X.shape[0], self._coef.shape[1]))
        return self._rows.products(X, self._coef)

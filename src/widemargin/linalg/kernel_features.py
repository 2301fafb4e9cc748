"""Features whose inner products are a kernel matrix, by a pivoted Cholesky factor: `K = F F'`.

A linear model on F is then the kernel model exactly, `f = sum_j a_j K(x_j, .)`, with coefficients on the pivot rows
alone: the rest of the rows are combinations of them.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from widemargin._typing import Floats, Ints
from widemargin.exceptions import KernelError

__all__ = ["KernelFeatures", "kernel_features"]

_TINY = 1e-11  # squared distance of a row from the others' span, relative to the largest squared norm, taken for 0
_OFF = 1e-6  # relative error of products with K that shows negative eigenvalues


@dataclass(frozen=True)
class KernelFeatures:
    """The factor.

    Attributes
    ----------
    features : ndarray of shape (n, r)
        F, C order.
    pivots : ndarray of int64, shape (r,)
        Rows on which F is triangular.
    """

    features: Floats
    pivots: Ints

    def coefficients(self, w: Floats) -> Floats:
        """Coefficients of the pivot rows for weights of the features, shape (r,) or (r, k): `F[pivots]' a = w`."""
        return np.asarray(solve_triangular(self.features[self.pivots], w, lower=True, trans="T"))


def kernel_features(K: Floats) -> KernelFeatures:
    """Factor a symmetric positive semi-definite matrix, up to 1e-11 of its largest entry; n r^2 operations.

    Raises
    ------
    KernelError
        If it has negative eigenvalues.
    """
    largest = float(np.diagonal(K).max(initial=0.0))
    lower, order, rank, _ = dpstrf(K, tol=max(_TINY * largest, 1e-300), lower=1)
    order = np.asarray(order, dtype=np.int64) - 1
    features = np.zeros((K.shape[0], int(rank)))
    features[order] = np.tril(lower)[:, :rank]
    probe = np.random.default_rng(0).standard_normal(K.shape[0])
    product = K @ probe
    error = float(np.linalg.norm(product - features @ (features.T @ probe)))
    if error > _OFF * float(np.linalg.norm(product)):
        raise KernelError(
            f"the kernel matrix is not positive semi-definite: its factor is off by {error:.1e}. Use another kernel, "
            "or a feature_map."
        )
    return KernelFeatures(features, order[:rank])

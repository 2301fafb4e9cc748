"""Explicit features whose inner products are close to a kernel: scikit-learn's transformers, chosen by name.

Random Fourier features (Rahimi and Recht 2007) approximate a Gaussian kernel to about `1 / sqrt(n_components)` in every
entry, whatever the data. Nystroem's features (Williams and Seeger 2001) are exact on the landmarks drawn from the
training rows, and elsewhere as good as the kernel matrix is of low rank: usually closer at the same number of features,
for any positive semi-definite kernel, but the landmarks, rows of the training data, become part of the model.
"""

from typing import Any

from sklearn.kernel_approximation import Nystroem, RBFSampler

from widemargin.exceptions import CapabilityError
from widemargin.kernels.functions import Kernel

__all__ = ["make_feature_map"]


def make_feature_map(name: str, kernel: Kernel, n_components: int, *, seed: int, n_rows: int) -> Any:
    """A transformer, not fitted yet.

    Parameters
    ----------
    name : {"fourier", "nystroem"}
    kernel : Kernel
        "fourier" needs "rbf"; "nystroem" a named kernel that is not "precomputed".
    n_components : int
        Features. Doubling them halves the variance of "fourier", doubles memory and makes solvers four times slower.
    seed : int
    n_rows : int
        Training rows; Nystroem takes at most as many landmarks.

    Raises
    ------
    CapabilityError
        If the map cannot do this kernel.
    """
    if name == "fourier":
        if kernel.name != "rbf":
            raise CapabilityError(f"feature_map='fourier' is for kernel='rbf', not {kernel.name!r}; use 'nystroem'.")
        return RBFSampler(gamma=kernel.gamma, n_components=n_components, random_state=seed)
    if name != "nystroem":
        raise CapabilityError(f"feature_map={name!r} is unknown; use 'fourier' or 'nystroem'.")
    if kernel.name in ("callable", "precomputed"):
        raise CapabilityError(
            f"feature_map='nystroem' needs a named kernel, not a {kernel.name} one; train it exactly: feature_map=None."
        )
    # scikit-learn refuses parameters that a kernel does not have.
    settings = {
        "linear": {},
        "poly": {"gamma": kernel.gamma, "degree": kernel.degree, "coef0": kernel.coef0},
        "sigmoid": {"gamma": kernel.gamma, "coef0": kernel.coef0},
    }.get(kernel.name, {"gamma": kernel.gamma})
    return Nystroem(kernel.name, n_components=min(n_components, n_rows), random_state=seed, **settings)

"""Compiled pass of the stochastic batch perceptron: the running average of its iterates."""

from typing import Any

from widemargin._numba import kernel

__all__ = ["average"]


@kernel
def average(mean: Any, value: Any, scale: float, share: float) -> None:
    """Move `mean` by `share` of the way to `scale * value`."""
    for i in range(mean.shape[0]):
        mean[i] += share * (scale * value[i] - mean[i])

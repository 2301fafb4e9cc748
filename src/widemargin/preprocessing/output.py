"""What a transformer hands out: CSR, or a dense array where `set_output` will make a data frame of it."""

from typing import Any

from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils._set_output import _get_output_config

__all__ = ["dense_for_frames"]


def dense_for_frames(transformer: BaseEstimator, matrix: sparse.csr_array) -> Any:
    """The matrix, dense where the user asked for a pandas or polars frame, which cannot take sparse rows."""
    return matrix if _get_output_config("transform", transformer)["dense"] == "default" else matrix.toarray()

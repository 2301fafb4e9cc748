"""Cholesky factors of the small dense systems of Newton-type solvers, straight from LAPACK.

scipy's `cho_factor` checks and copies its argument; at a few hundred features that costs more than the factorisation.
"""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs, spotrf, spotrs

from widemargin._typing import Floats

__all__ = ["factor", "solve"]

_TINY = 1e-300  # for a row of zeros: nothing depends on that unknown


def factor(matrix: Floats, *, single: bool = False) -> Any:
    """Factor of a symmetric positive definite matrix given by its lower triangle in Fortran order.

    Where rounding made it singular each pivot is raised, by a relative 1e-14 first and then a hundred times more each
    time: relative to the pivot and not to the largest one, because Cholesky does not care how the unknowns are scaled.

    With `single` the factor is in float32 (half the time, four digits or fewer in the solution) unless that fails.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where raising the diagonal by a hundredth does not help, or the matrix is not finite.
    """
    if single:
        with np.errstate(over="ignore"):
            short = matrix.astype(np.float32, order="F")
        lower, info = spotrf(short, lower=1, clean=0, overwrite_a=1)
        if info == 0 and np.isfinite(np.diagonal(lower)).all():
            return lower
    lower, info = dpotrf(matrix, lower=1, clean=0)
    ridge = 1e-14
    while info != 0 and ridge < 1e-2:
        raised = matrix.copy(order="F")
        pivots = np.abs(np.diagonal(matrix))
        np.fill_diagonal(raised, np.diagonal(matrix) + ridge * pivots + _TINY)
        lower, info = dpotrf(raised, lower=1, clean=0)
        ridge *= 100.0
    if info != 0 or not np.isfinite(np.diagonal(lower)).all():
        raise LinAlgError("The Newton system stays singular: scale the features (columns of very different size).")
    return lower


def solve(lower: Any, right: Floats) -> Floats:
    """Solution of the factored system for a right-hand side of shape (d,) or (d, k)."""
    if lower.dtype == np.float32:
        return spotrs(lower, right.astype(np.float32), lower=1)[0].astype(np.float64)  # type: ignore[no-any-return]
    solution: Floats = dpotrs(lower, right, lower=1)[0]
    return solution

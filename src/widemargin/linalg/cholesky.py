"""Cholesky factors of the small dense systems of Newton-type solvers, straight from LAPACK.

scipy's `cho_factor` checks and copies its argument; at a few hundred features that costs more than the factorisation.
"""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from widemargin.linalg.cells import Floats

__all__ = ["factor", "solve"]

_TINY = 1e-300  # for a row of zeros: nothing depends on that unknown


def factor(matrix: Floats) -> Any:
    """Factor of a symmetric positive definite matrix given by its lower triangle in Fortran order.

    Where rounding made it singular each pivot is raised, by a relative 1e-14 first and then a hundred times more each
    time: relative to the pivot and not to the largest one, because Cholesky does not care how the unknowns are scaled.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where raising the diagonal by a hundredth does not help, or the matrix is not finite.
    """
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
    solution: Floats = dpotrs(lower, right, lower=1)[0]
    return solution

"""Whether a kernel is positive semi-definite, judged by the eigenvalues of the kernel matrix of some of the rows.

No eigenvalue of a part of a symmetric matrix is below the least one of the whole: one that is negative beyond rounding
proves that the kernel is not positive semi-definite. The converse does not hold; solvers that meet a negative squared
norm later say so.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from widemargin.exceptions import KernelError
from widemargin.kernels.functions import Kernel

__all__ = ["SAMPLE", "Spectrum", "refuse_indefinite", "sampled_spectrum"]

SAMPLE = 256
"""Rows that are looked at: 7 ms for their eigenvalues."""

FEW, SHARE = 64, 4
"""Of a function, which may be slow: so many rows, or one in so many of all where that is more."""


class _Rows(Protocol):
    kernel: Kernel
    n_rows: int

    def block(self, rows: Any, columns: Any = None) -> npt.NDArray[Any]: ...


class Spectrum(NamedTuple):
    """The ends of the eigenvalues of a kernel matrix.

    Attributes
    ----------
    least, largest : float
    n_rows : int
        Rows of the matrix.
    """

    least: float
    largest: float
    n_rows: int

    @property
    def indefinite(self) -> bool:
        """Whether the least eigenvalue is negative by more than values in single precision, which many are, explain."""
        rounding = self.n_rows * float(np.finfo(np.float32).eps)
        return self.least < -rounding * max(abs(self.least), abs(self.largest))

    def __str__(self) -> str:
        return f"eigenvalues from {self.least:.2g} to {self.largest:.2g} on {self.n_rows} of them"


def sampled_spectrum(rows: _Rows) -> Spectrum | None:
    """Eigenvalues on at most `SAMPLE` rows, always the same ones; None where the kernel is known (`Kernel.positive`).

    Parameters
    ----------
    rows : KernelRows
        The values are counted in its `evaluations`.
    """
    if rows.kernel.positive or rows.n_rows == 0:
        return None
    n = rows.n_rows
    count = min(n, SAMPLE)
    if rows.kernel.name == "callable":
        count = min(count, max(FEW, n // SHARE))
    some = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
    values = rows.block(some, some).astype(np.float64)
    found = np.linalg.eigvalsh(0.5 * (values + values.T))
    return Spectrum(float(found[0]), float(found[-1]), count)


def refuse_indefinite(spectrum: Spectrum | None) -> None:
    """Refuse a kernel for methods that need squared norms.

    Raises
    ------
    KernelError
        If it is not positive semi-definite.
    """
    if spectrum is not None and spectrum.indefinite:
        raise KernelError(
            f"the kernel is not positive semi-definite on these rows ({spectrum}), and this method needs it to be. "
            "Use another kernel (rbf, laplacian, linear, or poly with coef0 >= 0), or other parameters."
        )

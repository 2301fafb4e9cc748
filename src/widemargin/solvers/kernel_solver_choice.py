"""Which solver trains a kernel SVM: the one that is named, or with "auto" the one that suits the problem.

To add a solver, add its line to `SOLVERS`.
"""

import inspect
from typing import Any, NamedTuple

from widemargin.exceptions import CapabilityError
from widemargin.solvers import (
    kernel_pegasos,
    kernel_sdca,
    nested_dual,
    sbp_c_form,
    smo,
    spatial_dual,
    working_set,
)
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm import KernelProblem, KernelResult, KernelSolver

__all__ = ["SOLVERS", "Chosen", "choose"]

SOLVERS: dict[str, KernelSolver] = {
    "dual": working_set.solve,
    "nested-dual": nested_dual.solve,
    "spatial-dual": spatial_dual.solve,
    "smo": smo.solve,
    "sbp": sbp_c_form.solve,
    "sdca": kernel_sdca.solve,
    "pegasos": kernel_pegasos.solve,
}
"""The names that users give."""

FEW_COLUMNS = 16
"""Columns up to which kernel values are recomputed in spatial order sooner than they are read from a cache."""

MANY_ROWS = 40_000
"""Rows from which the spatial order pays."""

NESTED_ROWS = 8 * nested_dual.LEAST
"""Rows from which subsamples pay: below it the first of them is left out."""


class Chosen(NamedTuple):
    """A solver, its name, and why it."""

    name: str
    reason: str

    @property
    def options(self) -> frozenset[str]:
        """Names of the options that the solver knows."""
        return frozenset(inspect.signature(SOLVERS[self.name]).parameters)

    def solve(
        self, problem: KernelProblem, *, tol: float | None, budget: Budget | None = None, **options: Any
    ) -> KernelResult:
        """Solve a problem; options that the solver does not know, or that are None, are left out."""
        known = {name: value for name, value in options.items() if name in self.options and value is not None}
        return SOLVERS[self.name](problem, tol=tol, budget=budget, **known)


def choose(name: str, *, n_rows: int, n_columns: int, spatial: bool, stored: bool = False) -> Chosen:
    """The solver of a problem.

    Parameters
    ----------
    name : str
        One of `SOLVERS`, or "auto".
    n_rows, n_columns : int
        Shape of the training rows of the problem.
    spatial : bool
        Whether the rows can be put in spatial order: a Gaussian kernel of dense rows.
    stored : bool, default=False
        Whether the whole kernel matrix is in memory.

    Raises
    ------
    CapabilityError
        If the name is unknown, or the solver cannot work on such rows.
    """
    if name != "auto":
        if name not in SOLVERS:
            raise CapabilityError(f"solver={name!r} is unknown; use 'auto', {', '.join(map(repr, SOLVERS))}.")
        if name == "spatial-dual" and not spatial:
            raise CapabilityError("solver='spatial-dual' needs kernel='rbf' and dense rows; use solver='auto'.")
        return Chosen(name, "as asked for")
    if stored:
        return Chosen("dual", "the kernel matrix is in memory, so its rows cost nothing")
    if spatial and n_columns <= FEW_COLUMNS and n_rows >= MANY_ROWS:
        return Chosen(
            "spatial-dual",
            f"{n_rows} rows of {n_columns} columns: a Gaussian kernel is computed in spatial order sooner than cached",
        )
    if n_rows >= NESTED_ROWS:
        return Chosen("nested-dual", f"{n_rows} rows: subsamples find the support vectors on short kernel rows")
    return Chosen("dual", f"{n_rows} rows: few enough to work on all of them from the start")

"""Which solver trains a kernel SVM: the one that is named, or with "auto" the one that suits the problem.

To add a solver, add its line to `SOLVERS`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from widemargin._papers import papers_module
from widemargin._typing import Floats
from widemargin.exceptions import CapabilityError
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm import smo
from widemargin.solvers.kernel_svm.batch_perceptron import c_form
from widemargin.solvers.kernel_svm.batch_perceptron.c_form import CFormOptions
from widemargin.solvers.kernel_svm.dual import interior_point, nested, on_device, spatial, working_set
from widemargin.solvers.kernel_svm.dual.interior_point import InteriorPointOptions
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, KernelSolver

__all__ = ["BY_GAP", "DEFAULT_TOL", "NAMES", "NEED_NORMS", "SOLVERS", "AutomaticOptions", "Chosen", "choose"]

SOLVERS: dict[str, KernelSolver] = {
    "dual": working_set.solve,
    "nested-dual": nested.solve,
    "spatial-dual": spatial.solve,
    "interior-point": interior_point.solve,
    "smo": smo.solve,
    "sbp": c_form.solve,
    "sbp-unbiased": partial(c_form.solve, options=CFormOptions(fresh=0, batch=256)),
}

NAMES = (*SOLVERS, "sdca", "pegasos")
"""The names that users give; the last two are there to compare with, in `widemargin_papers.solvers.kernel_sdca`, ..."""


@cache
def solver_of(name: str) -> tuple[KernelSolver, frozenset[str]]:
    """A solver and its options, read once: reading a signature takes as long as solving some ten rows."""
    solve = SOLVERS.get(name) or papers_module(f"solvers.kernel_{name}", f"solver={name!r}").solve
    return solve, frozenset(inspect.signature(solve).parameters)


DEFAULT_TOL = 1e-3
"""LIBSVM's."""

BY_GAP = frozenset({"sbp", "sbp-unbiased", "pegasos"})
"""Solvers whose `tol` is a relative gap between loose bounds: the default is out of their reach, and counts as None."""

NEED_NORMS = frozenset({"sbp", "sbp-unbiased", "sdca", "pegasos"})
"""Solvers whose steps and bounds need squared norms: they refuse a kernel that is not positive semi-definite."""


@dataclass(frozen=True)
class AutomaticOptions:
    """Where "auto" leaves the working-set dual on all rows for another solver.

    Attributes
    ----------
    few_columns, spatial_rows : int, default=16, 4000
        Columns up to which, and rows from which, values are recomputed in spatial order sooner than they are read from
        a cache.
    coarse : float, default=0.01
        Violation from which the next rules hold. What spatial order leaves out, 2^-22 of the coefficients, may be more
        than a smaller one, and then the rest is solved in double precision.
    fine, fine_columns, narrow_of_fine : float, int, float, default=1e-3, 12, 0.1
        Smaller violations for which it is taken, up to so many columns, where so few pairs count. Chosen on drawn
        problems of 4,000 to 33,000 rows, `tol=1e-3`: of 47 with a share of 0.1 or less the median takes 0.4 of the
        time, and one takes longer, by 0.05 s; with shares of 0.2 to 0.5 the median takes 1.3 times as long. Of 33
        others with a share of 0.1 or less the median takes 0.53 of the time, and six take longer, by at most 0.7 s.
    narrow : float, default=0.5
        Share of the pairs of rows with a kernel value that counts, up to which spatial order leaves enough out.
        Covtype, 10 columns, 8,000 rows, share 0.01: 0.3 against 1.9 s; three to sixteen columns of noise, 20,000 rows,
        share 1: 2 to 15 against 1 to 3 s.
    most_columns, narrow_of_many : int, float, default=64, 0.02
        The same where there are more columns, of which few make nearly all of a distance: the others make a value
        longer to compute. Three to five large columns and fifty small ones, 20,000 and 60,000 rows: with shares of
        0.002 to 0.011 a half to a sixth of the time of subsamples, with 0.09 to 0.41 1.2 to 1.5 times that time. All
        rows and columns of Forest, share 0.01: 127 against 779 s.
    nested_rows : int, default=10,000
        Rows from which subsamples pay. Chosen on half of the problems of `python -m benchmarks kernel_problems`: by it
        "auto" takes 1.04 times as long as the best dual there, and 1.01 times on the other half.
    judged_rows : int, default=8000
        Rows from which, with rows held out, subsamples pay. 8,000 rows of a9a: 0.31 against 0.54 s, of MNIST: 0.32
        against 0.37 s, and the same errors; with 4,000 rows of MNIST a subsample ended the run at 2.8% instead of 2.1%.
    side_by_side : int, default=2^21
        Kernel values of pairs of classes that are worth a thread of their own. With two threads 45 pairs of 360 noisy
        rows take 0.028 instead of 0.045 s, 15 of 1,500 rows 0.14 instead of 0.25; three of 600 rows, 2 ms in all, would
        take 3.
    """

    few_columns: int = 16
    spatial_rows: int = 4000
    coarse: float = 0.01
    fine: float = 1e-3
    fine_columns: int = 12
    narrow_of_fine: float = 0.1
    narrow: float = 0.5
    most_columns: int = 64
    narrow_of_many: float = 0.02
    nested_rows: int = 10_000
    judged_rows: int = 8000
    side_by_side: int = 1 << 21

    def spatial_share(
        self, n_rows: int, n_columns: int, told_apart: Callable[[], int], tol: float | None = None
    ) -> float:
        """Largest share of the pairs that the kernel may reach for spatial order to pay; 0 where none is small enough.

        `told_apart` counts the columns that tell which rows are near each other; it is asked where columns are many.
        """
        if n_rows < self.spatial_rows or n_columns > self.most_columns:
            return 0.0
        if tol is not None and tol < self.coarse:
            return self.narrow_of_fine if tol >= self.fine and n_columns <= self.fine_columns else 0.0
        if n_columns <= self.few_columns:
            return self.narrow
        return self.narrow_of_many if told_apart() <= self.few_columns else 0.0


class Chosen(NamedTuple):
    """A solver by its name, and why it was chosen."""

    name: str
    reason: str

    @property
    def options(self) -> frozenset[str]:
        """Names of the options that the solver knows."""
        return solver_of(self.name)[1]

    def solve(
        self, problem: KernelProblem, *, tol: float | None, budget: Budget | None = None, start: Floats | None = None,
        **options: Floats | float | None,
    ) -> KernelResult:  # fmt: skip
        """Solve a problem; options that the solver does not know, or that are None, are left out."""
        # Each solver has options of its own; those meant for others are left out.
        solver, wanted = solver_of(self.name)
        known = {name: value for name, value in options.items() if name in wanted and value is not None}
        if self.name == "dual" and hasattr(problem.rows, "kept"):  # an `on_device.DeviceMatrix`
            solver = on_device.solve
        return solver(problem, tol=tol, budget=budget, start=start, **known)


def choose(
    name: str,
    *,
    n_rows: int,
    n_columns: int,
    tol: float | None = None,
    told_apart: Callable[[], int] | None = None,
    reach: Callable[[], float] | None = None,
    stored: bool = False,
    hold_out: bool = False,
    positive: bool = True,
    device: bool = False,
    linear: bool = False,
    options: AutomaticOptions = AutomaticOptions(),
) -> Chosen:
    """The solver of a problem.

    Parameters
    ----------
    name : str
        One of `NAMES`, or "auto".
    n_rows, n_columns : int
        Shape of the training rows of the problem.
    tol : float, optional
        Violation at which the run ends; None: a loose one.
    told_apart : callable, optional
        Counts the columns that tell which rows are near each other; None: all of them do.
    reach : callable, optional
        Estimates the share of pairs of rows with a kernel value that counts; None where the rows cannot be put in
        spatial order (only those of a Gaussian kernel, dense, can).
    stored : bool, default=False
        Whether the whole kernel matrix is in memory.
    hold_out : bool, default=False
        Whether the hold-out rule ends the run.
    positive : bool, default=True
        Whether the kernel is positive semi-definite, as far as is known.
    device : bool, default=False
        Whether the rows lie on a device.
    linear : bool, default=False
        Whether the kernel is linear, and its rows are in memory.

    Raises
    ------
    CapabilityError
        If the name is unknown, or the solver cannot work on such rows.
    """
    # Who names a solver gets it, even where another would be quicker.
    if name != "auto":
        if name not in NAMES:
            raise CapabilityError(f"solver={name!r} is unknown; use 'auto', {', '.join(map(repr, NAMES))}.")
        if name == "spatial-dual" and reach is None:
            raise CapabilityError("solver='spatial-dual' needs kernel='rbf' and dense rows; use solver='auto'.")
        if name == "interior-point" and (not linear or hold_out):
            raise CapabilityError(f"solver={name!r} needs kernel='linear' and a tol; use solver='auto'.")
        return Chosen(name, "as asked for")
    # A kernel that is not positive semi-definite has many stationary points; users expect the one of SVC.
    if not positive:
        return Chosen("smo", "the kernel is not positive semi-definite: LIBSVM's steps end where SVC does")
    if device:
        return Chosen("dual", "the rows lie on a device, and all but the steps in a block stays there")
    if linear and not hold_out and InteriorPointOptions().suit(n_rows, n_columns):
        return Chosen("interior-point", f"linear, {n_columns} columns: what takes many steps is solved by its weights")
    # With all values in memory nothing is saved by shorter kernel rows or by their order.
    if stored:
        return Chosen("dual", "the kernel matrix is in memory, so its rows cost nothing")
    most = 0.0 if reach is None else options.spatial_share(n_rows, n_columns, told_apart or (lambda: n_columns), tol)
    if reach is not None and most > 0.0:
        # How far the kernel reaches is measured on some pairs only where rows are many and narrow enough.
        share = reach()
        if share <= most:
            return Chosen(
                "spatial-dual",
                f"{n_rows} rows of {n_columns} columns, and the kernel reaches {share:.0%} of the pairs: in spatial "
                "order its values are computed sooner than cached",
            )
    # A subsample may end the whole run, so it pays from fewer rows on.
    if hold_out and n_rows >= options.judged_rows:
        return Chosen("nested-dual", f"{n_rows} rows: those held out tell when a subsample is enough")
    # With a tolerance all rows have to be solved in the end; subsamples only save the way there.
    if n_rows >= options.nested_rows:
        return Chosen("nested-dual", f"{n_rows} rows: subsamples find the support vectors on short kernel rows")
    return Chosen("dual", "rows are few enough to work on all of them from the start")

"""Which convex solver for kernel rows: the paper's nest to begin with, Newton to finish.

From nothing, Newton spends its time on bands that hold nearly every row, and the nest crawls at its end: the nest goes
to a gap of 3e-2 and Newton on from there. Whole fits of a9a with 2000 and 5000 rows (`benchmarks/kernelised.py`):
Newton alone took 2.1 to 3.1 times, the nest alone 1.6 to 3.1 times as long. Later majorisation steps start warm and go
to Newton at once, and so do small problems, whose bands cost nothing.
"""

from collections.abc import Callable

from widemargin.exceptions import CapabilityError
from widemargin.linalg.gram import GramRows
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status
from widemargin.solvers.convex import kernel_newton
from widemargin.solvers.paper_nest import cutting_plane

__all__ = ["KernelChoice"]

_BY_NAME: dict[str, Callable[..., ConvexResult]] = {
    "newton": kernel_newton.solve,
    "cutting-plane": cutting_plane.solve,
}

_ROUGH = 3e-2  # relative gap at which the nest hands over
_SMALL = 500  # rows up to which Newton begins at once


class KernelChoice:
    """A convex solver to call, which remembers what it used; the twin of `choice.ConvexChoice` for kernel rows.

    Parameters
    ----------
    name : {"auto", "newton", "cutting-plane"}
    rows : GramRows

    Attributes
    ----------
    used : list of str
        The solvers called so far, in order of first use.

    Raises
    ------
    CapabilityError
        If the solver cannot work on these rows.
    """

    def __init__(self, name: str, rows: GramRows) -> None:
        if name not in ("auto", *_BY_NAME):
            raise CapabilityError(f"solver={name!r} cannot train kernels; use 'auto', 'newton' or 'cutting-plane'.")
        self.name = "cutting-plane" if name == "auto" and rows.matrix is None else name
        self.used: list[str] = []

    def __call__(
        self, sub: ConstrainedHinge, *, tol: float, start: ConvexState | None, rho: float, budget: Budget
    ) -> ConvexResult:
        """Solve a subproblem."""
        if self.name != "auto":
            return self._solve(self.name, sub, tol=tol, start=start, rho=rho, budget=budget)
        if start is None and sub.rows.n_rows > _SMALL:
            rough = self._solve("cutting-plane", sub, tol=max(tol, _ROUGH), start=None, rho=rho, budget=budget)
            if rough.gap <= tol or budget.exhausted:
                return rough
            start = rough.state
        found = self._solve("newton", sub, tol=tol, start=start, rho=rho, budget=budget)
        if found.status != Status.MAX_ITER:
            return found
        second = self._solve("cutting-plane", sub, tol=tol, start=found.state, rho=rho, budget=budget)
        return second if second.gap < found.gap else found

    def _solve(self, name: str, sub: ConstrainedHinge, **options: object) -> ConvexResult:
        if name not in self.used:
            self.used.append(name)
        return _BY_NAME[name](sub, **options)
